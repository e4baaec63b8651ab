//! A tool over the workspace: a declaration, and the function that implements it.
//!
//! The function's parameter and result are the definition: its arguments are parsed into the one and its answers are serialised from the other, and
//! both schemas are generated from these types.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use toolgate_gate::{
    ApprovedCall, CallContext, CallPath, Effect, Preview, ResourceRequest, Tool, ToolFuture, ToolSchema,
    ToolSpec,
};
use toolgate_policy::{PathInput, PathInputs, PathSource};
use toolgate_types::{Category, Deadline, ErrorCode, Failure, HashedText, Structured, ToolClass, ToolOutput};
use toolgate_workspace::{Mount, PathStyle, Recorder, Workspace, WorkspaceView};

use crate::preview::{self, PreviewContent};
use crate::resource_files::{self, ResourceKind};
use crate::schemas::{of_answer, of_arguments};

/// The names of path arguments of file tools.
const PATHS: [&str; 3] = ["path", "from", "to"];

/// The name of the argument that is a patch.
const PATCH: &str = "patch";

/// Executes one call.
pub(crate) type FileOperation =
    dyn Fn(&WorkspaceView<'_>, Value, &dyn Recorder) -> Result<ToolOutput, Failure> + Send + Sync;

/// The same before its arguments are parsed and its answer is serialised: a tool is defined by such a function.
pub(crate) type TypedOperation<Arguments, Data> =
    fn(&WorkspaceView<'_>, Arguments, &dyn Recorder) -> Result<Answer<Data>, Failure>;

/// Computes what a call would write.
pub(crate) type PreviewOperation =
    dyn Fn(&WorkspaceView<'_>, Value) -> Result<PreviewContent, Failure> + Send + Sync;

/// What a tool answers with.
pub(crate) struct Answer<Data> {
    /// For the model to read.
    pub(crate) text: HashedText,
    /// For programs.
    pub(crate) data: Data,
    /// The member of `data` that is left out because it is the text.
    pub(crate) text_field: Option<&'static str>,
}

impl<Data> Answer<Data> {
    pub(crate) fn new(text: impl Into<HashedText>, data: Data) -> Self {
        Self { text: text.into(), data, text_field: None }
    }
}

impl<Data: Serialize> From<Answer<Data>> for ToolOutput {
    fn from(answer: Answer<Data>) -> Self {
        let Answer { text, data, text_field } = answer;
        Self { text_field, ..Self::new(text, Structured::of(&data)) }
    }
}

/// A profile's definition of one tool.
pub(crate) struct ToolDeclaration {
    pub(crate) name: &'static str,
    title: &'static str,
    description: &'static str,
    class: ToolClass,
    category: Category,
    effect: Effect,
    input: ToolSchema,
    output: ToolSchema,
    work: Arc<FileOperation>,
    preview: Option<Arc<PreviewOperation>>,
    /// The kind of resource request that it answers.
    pub(crate) resource: Option<ResourceKind>,
}

impl ToolDeclaration {
    /// A tool over files, with any effect that its class allows.
    pub(crate) fn new<Arguments, Data>(
        name: &'static str,
        title: &'static str,
        description: &'static str,
        class: ToolClass,
        work: TypedOperation<Arguments, Data>,
    ) -> Self
    where
        Arguments: DeserializeOwned + JsonSchema + 'static,
        Data: Serialize + JsonSchema + 'static,
    {
        Self {
            name,
            title,
            description,
            class,
            category: Category::File,
            effect: Effect::Any,
            input: of_arguments::<Arguments>(),
            output: of_answer::<Data>(),
            work: Arc::new(move |view, arguments, recorder| {
                Ok(work(view, decode(arguments)?, recorder)?.into())
            }),
            preview: None,
            resource: None,
        }
    }

    /// The same tool with a known effect.
    pub(crate) fn with_effect(self, effect: Effect) -> Self {
        Self { effect, ..self }
    }

    /// The same tool in another category.
    pub(crate) fn with_category(self, category: Category) -> Self {
        Self { category, ..self }
    }

    /// The same tool, which shows what it would write.
    pub(crate) fn with_preview<Arguments: DeserializeOwned + 'static>(
        self,
        preview: fn(&WorkspaceView<'_>, Arguments) -> Result<PreviewContent, Failure>,
    ) -> Self {
        let preview: Arc<PreviewOperation> =
            Arc::new(move |view, arguments| preview(view, decode(arguments)?));
        Self { preview: Some(preview), ..self }
    }

    /// The same tool, which answers resource requests too.
    pub(crate) fn with_resource(self, kind: ResourceKind) -> Self {
        Self { resource: Some(kind), ..self }
    }

    /// The tool over a workspace; `None` if its name is not a valid tool name, which a test excludes.
    pub(crate) fn bind_to(&self, workspace: &Arc<Workspace>, style: PathStyle) -> Option<Arc<dyn Tool>> {
        let spec = ToolSpec {
            name: self.name.parse().ok()?,
            title: self.title.to_owned(),
            description: self.description.to_owned(),
            class: self.class,
            category: self.category,
            input_schema: self.input.clone(),
            output_schema: self.output.clone(),
            requirements: None,
            output_policy: None,
            timeout: None,
            suspended: None,
        };
        Some(Arc::new(FileTool {
            spec,
            effect: self.effect,
            workspace: Arc::clone(workspace),
            style,
            work: Arc::clone(&self.work),
            preview: self.preview.clone(),
            resource_kind: self.resource,
        }))
    }
}

struct FileTool {
    spec: ToolSpec,
    effect: Effect,
    workspace: Arc<Workspace>,
    style: PathStyle,
    work: Arc<FileOperation>,
    preview: Option<Arc<PreviewOperation>>,
    resource_kind: Option<ResourceKind>,
}

impl FileTool {
    fn view<'a>(&'a self, context: &'a CallContext, stop: &'a Deadline) -> WorkspaceView<'a> {
        WorkspaceView {
            workspace: &self.workspace,
            style: self.style,
            limits: &context.limits,
            grant: context.effective_grant.as_deref(),
            stop,
            unlocked: None,
        }
    }

    /// The path arguments, each with whether its default is the workspace root.
    fn paths(&self) -> impl Iterator<Item = (&'static str, bool)> {
        let schema = &self.spec.input_schema;
        let required = |name: &str| {
            let names = schema.get("required").and_then(Value::as_array);
            names.is_some_and(|names| names.iter().any(|known| known == name))
        };
        PATHS
            .into_iter()
            .filter(|name| schema.property(name).is_some())
            .map(move |name| (name, !required(name)))
    }

    /// Whether its paths are those of a patch over several files.
    fn has_patch(&self) -> bool {
        self.spec.input_schema.property(PATCH).is_some() && self.paths().next().is_none()
    }

    /// The alias of the mount that bare paths are relative to.
    fn default_mount(&self) -> &str {
        let default = self.workspace.mounts().iter().find(|mount| mount.is_default());
        default.map_or("@project", Mount::alias)
    }

    /// Whether calls are read-only and usually short, so that they run inline first. A search is not: it starts threads of its own, and an inline
    /// attempt that times out would have started them for nothing.
    fn runs_inline(&self) -> bool {
        !self.spec.class.has_effect() && self.spec.category == Category::File
    }

    fn work(&self, arguments: Value, context: &CallContext, stop: &Deadline) -> Result<ToolOutput, Failure> {
        let (arguments, view) =
            (coerce_integers(&self.spec.input_schema, arguments), self.view(context, stop));
        match (&context.resource, self.resource_kind) {
            (None, _) => (self.work)(&view, arguments, context.recorder.as_ref()),
            (Some(ResourceRequest::ListPage { after }), Some(ResourceKind::Files)) => {
                resource_files::list_page(&view, arguments, after.as_deref())
            }
            (Some(ResourceRequest::ReadWhole { max_bytes }), Some(ResourceKind::File(about))) => {
                let max_bytes = view.limits.max_resource_bytes.min(*max_bytes);
                resource_files::read_file(&view, arguments, max_bytes, about)
            }
            (Some(_), _) => Err(nothing_to_show(&self.spec)),
        }
    }
}

impl Tool for FileTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effect(&self) -> Effect {
        self.effect
    }

    fn reads_content(&self) -> bool {
        matches!(self.resource_kind, Some(ResourceKind::File(_)))
    }

    fn path_inputs(&self) -> PathInputs {
        let argument = |(name, has_default): (&str, bool)| PathInput {
            name: name.to_owned(),
            is_list: false,
            has_default,
            directory: self.default_mount().to_owned(),
        };
        PathInputs {
            has_patch: self.has_patch(),
            mounts: toolgate_command::mount_aliases(&self.workspace),
            ..PathInputs::of(self.paths().map(argument).collect())
        }
    }

    fn locate(&self, arguments: &Value, context: &CallContext) -> Result<Vec<CallPath>, Failure> {
        let view = self.view(context, &context.stop);
        let mut paths = Vec::new();
        for (name, has_default) in self.paths() {
            let spelt = arguments.get(name).and_then(Value::as_str);
            if let Some(path) = spelt.or(has_default.then_some(".")) {
                paths.push(CallPath {
                    source: PathSource::Argument(name.to_owned()),
                    located: view.locate(path)?,
                });
            }
        }
        if self.has_patch()
            && let Some(patch) = arguments.get(PATCH).and_then(Value::as_str)
        {
            let located = view.locate_patched(patch)?.into_iter().enumerate();
            paths.extend(
                located.map(|(index, located)| CallPath { source: PathSource::PatchedFile(index), located }),
            );
        }
        Ok(paths)
    }

    fn preview(&self, arguments: &Value, context: &CallContext) -> Result<Preview, Failure> {
        let arguments = coerce_integers(&self.spec.input_schema, arguments.clone());
        let view = self.view(context, &context.stop);
        match self.spec.class.has_effect() {
            true => preview::of_change(&view, &arguments, &*self.work, self.preview.as_deref()),
            false => preview::of_reading(&view, &arguments),
        }
    }

    fn run(self: Arc<Self>, call: ApprovedCall, context: CallContext) -> ToolFuture {
        Box::pin(async move {
            let (blocking, stop) = (context.blocking, context.stop.clone());
            let arguments = call.into_arguments();
            if self.runs_inline() {
                let work = move |stop: &Deadline| self.work(arguments.clone(), &context, stop);
                blocking.run_read_only(&stop, work).await
            } else {
                blocking.run(move || self.work(arguments, &context, &stop)).await
            }
        })
    }
}

fn nothing_to_show(spec: &ToolSpec) -> Failure {
    Failure::new(ErrorCode::NotPermitted, format!("`{}` shows nothing of that kind by address", spec.name))
}

/// Decodes arguments into a type. The schema was validated before, so a failure here means that the schema is laxer than the type.
pub(crate) fn decode<Arguments: DeserializeOwned>(arguments: Value) -> Result<Arguments, Failure> {
    serde_json::from_value(arguments).map_err(|error| {
        Failure::new(ErrorCode::InvalidArguments, format!("the arguments do not fit: {error}"))
            .help("send them as the tool's schema describes them")
    })
}

/// JSON has one number type, and JSON Schema accepts `1.0` as an integer; so do we. Values out of range saturate.
pub(crate) fn coerce_integers(schema: &ToolSchema, mut arguments: Value) -> Value {
    let is_integer = |name: &str| {
        let kind = schema.property(name).and_then(|property| property.get("type"));
        kind.is_some_and(|kind| kind == "integer")
    };
    if let Value::Object(fields) = &mut arguments {
        for (name, value) in fields.iter_mut().filter(|(_, value)| value.is_f64()) {
            if let Some(number) = value.as_f64().filter(|_| is_integer(name.as_str())) {
                *value = if number < 0.0 { json!(number as i64) } else { json!(number as u64) };
            }
        }
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `research_notes` reads one file: a name that happens to contain `search` decides nothing.
    #[test]
    fn a_tool_has_the_category_that_its_declaration_names() {
        let workspace = Arc::new(Workspace::new(Vec::new()).unwrap());
        for category in [Category::File, Category::Search] {
            let declaration =
                ToolDeclaration::new::<Value, Value>("research_notes", "", "", ToolClass::Read, |_, _, _| {
                    Ok(Answer::new("", Value::Null))
                })
                .with_category(category);
            let tool = declaration.bind_to(&workspace, PathStyle::Free).unwrap();
            assert_eq!(tool.spec().category, category);
        }
    }

    #[test]
    fn integers_may_be_written_with_a_point_and_may_be_huge() {
        let schema = ToolSchema::from(json!({"properties": {
            "line": {"type": "integer"}, "text": {"type": "string"}, "any": {"type": "object"},
        }}));
        for (given, read) in [
            (json!({"line": 1.0}), json!({"line": 1})),
            (json!({"line": 3}), json!({"line": 3})),
            (json!({"line": 1e300}), json!({"line": u64::MAX})),
            (json!({"line": -2.0}), json!({"line": -2})),
            (json!({"text": "1.0", "any": {"line": 1.0}}), json!({"text": "1.0", "any": {"line": 1.0}})),
        ] {
            assert_eq!(coerce_integers(&schema, given), read);
        }
    }
}

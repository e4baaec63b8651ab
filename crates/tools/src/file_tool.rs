//! A tool over the workspace: a declaration, and a function that does the work.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use toolgate_gate::{ApprovedCall, CallContext, Preview, Tool, ToolFuture, ToolSpec};
use toolgate_types::{Category, ErrorCode, Failure, ToolClass, ToolOutput};
use toolgate_workspace::{PathStyle, Recorder, View, Workspace};

/// Does the work of one call.
pub(crate) type Work = fn(&View<'_>, Value, &dyn Recorder) -> Result<ToolOutput, Failure>;

/// Shows what a call would do, where that says more than its arguments.
pub(crate) type Show = fn(&View<'_>, Value) -> Result<Preview, Failure>;

/// What a profile says about one of its tools.
pub(crate) struct Declaration {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) description: &'static str,
    pub(crate) class: ToolClass,
    pub(crate) input: Value,
    pub(crate) output: Value,
    pub(crate) work: Work,
    pub(crate) show: Option<Show>,
}

impl Declaration {
    /// The tool over a workspace; `None` if its name is not a tool name, which a test rules out.
    pub(crate) fn over(self, workspace: &Arc<Workspace>, style: PathStyle) -> Option<Arc<dyn Tool>> {
        let searches = self.name.contains("search") || self.name.contains("find");
        let spec = ToolSpec {
            name: self.name.parse().ok()?,
            title: self.title,
            description: self.description.to_owned(),
            class: self.class,
            category: if searches { Category::Search } else { Category::File },
            input_schema: self.input,
            output_schema: self.output,
        };
        Some(Arc::new(FileTool {
            spec,
            workspace: Arc::clone(workspace),
            style,
            work: self.work,
            show: self.show,
        }))
    }
}

struct FileTool {
    spec: ToolSpec,
    workspace: Arc<Workspace>,
    style: PathStyle,
    work: Work,
    show: Option<Show>,
}

impl FileTool {
    fn view<'a>(&'a self, context: &'a CallContext) -> View<'a> {
        View {
            workspace: &self.workspace,
            style: self.style,
            limits: &context.limits,
            grant: context.grant.as_deref(),
            stop: &context.stop,
            unlocked: None,
        }
    }
}

impl Tool for FileTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn preview(&self, arguments: &Value, context: &CallContext) -> Preview {
        let whole = || Preview::Text(serde_json::to_string_pretty(arguments).unwrap_or_default());
        match self.show {
            // A call that cannot be shown better, say because it will fail, is shown as it came.
            Some(show) => show(&self.view(context), arguments.clone()).unwrap_or_else(|_| whole()),
            None => whole(),
        }
    }

    fn run(self: Arc<Self>, call: ApprovedCall, context: CallContext) -> ToolFuture {
        Box::pin(async move {
            let blocking = context.blocking;
            let work = move || {
                let view = self.view(&context);
                (self.work)(&view, call.into_arguments(), context.recorder.as_ref())
            };
            blocking.run(work).await
        })
    }
}

/// Arguments as a type. The schema was checked before, so a failure here is a schema that says less than the type.
pub(crate) fn decode<Arguments: DeserializeOwned>(arguments: Value) -> Result<Arguments, Failure> {
    serde_json::from_value(arguments).map_err(|error| {
        Failure::new(ErrorCode::InvalidArguments, format!("the arguments do not fit: {error}"))
    })
}

/// A JSON Schema of an object that refuses unknown properties.
pub(crate) fn object(properties: Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

//! Declared tools with answers made up by tests.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use toolgate_gate::{ApprovedCall, CallContext, Tool, ToolFuture, ToolSchema, ToolSpec};
use toolgate_policy::{Condition, ElevatedPermissions, OutputPolicy, OutputRule, Requirements};
use toolgate_types::{CallId, Category, Failure, FlowDeclaration, Sha256, ToolClass, ToolOutput};

type Answer = dyn Fn(&Value) -> Result<ToolOutput, Failure> + Send + Sync;

/// A tool with requirements for its callers.
pub(crate) struct Declared {
    spec: ToolSpec,
    fingerprint: Option<Sha256>,
    answer: Box<Answer>,
    progress: Option<&'static str>,
    flow: Option<FlowDeclaration>,
    runs: AtomicUsize,
    calls: Mutex<Vec<CallId>>,
}

impl Declared {
    /// A read-only tool without requirements, which answers with its arguments.
    pub(crate) fn new(name: &str) -> Self {
        let spec = ToolSpec {
            name: name.parse().unwrap(),
            title: name.to_owned(),
            description: "Declared for a test".to_owned(),
            class: ToolClass::Read,
            category: Category::Exec,
            input_schema: json!({"type": "object", "additionalProperties": false, "properties": {
                "count": {"type": "integer"}, "text": {"type": "string"}}})
            .into(),
            output_schema: ToolSchema::default(),
            requirements: Some(Requirements { permissions: vec![], elevated: None, class: ToolClass::Read }),
            output_policy: None,
            timeout: None,
            suspended: None,
        };
        let answer = |arguments: &Value| Ok(ToolOutput::new(arguments.to_string(), arguments.clone()));
        let (answer, runs, calls) = (Box::new(answer), AtomicUsize::new(0), Mutex::default());
        Self { spec, fingerprint: Some(Sha256::of(b"one")), answer, progress: None, flow: None, runs, calls }
    }

    fn requirements(&mut self) -> &mut Requirements {
        self.spec.requirements.as_mut().unwrap()
    }

    pub(crate) fn class(mut self, class: ToolClass) -> Self {
        self.spec.class = class;
        self.requirements().class = class;
        self
    }

    /// Without requirements, as built-in tools.
    pub(crate) fn built_in(mut self) -> Self {
        self.spec.requirements = None;
        self
    }

    /// A built-in tool over files, with the schema of its answers.
    pub(crate) fn built_in_file_tool(mut self, output_schema: Value) -> Self {
        (self.spec.category, self.spec.output_schema) = (Category::File, output_schema.into());
        self.built_in()
    }

    pub(crate) fn permissions(mut self, permissions: &[&str]) -> Self {
        self.requirements().permissions = owned(permissions);
        self
    }

    pub(crate) fn elevated(mut self, when: &str, permissions: &[&str]) -> Self {
        let condition = Condition::compile(when, &json!(self.spec.input_schema)).unwrap();
        self.requirements().elevated =
            Some(ElevatedPermissions { condition, permissions: owned(permissions) });
        self
    }

    pub(crate) fn description(mut self, description: &str) -> Self {
        self.spec.description = description.to_owned();
        self
    }

    pub(crate) fn input(mut self, schema: Value) -> Self {
        self.spec.input_schema = schema.into();
        self
    }

    pub(crate) fn output(mut self, schema: Value, rules: &[(&str, OutputRule)]) -> Self {
        self.spec.output_schema = schema.into();
        self.spec.output_policy = Some(OutputPolicy::compile(rules).unwrap());
        self
    }

    pub(crate) fn fingerprint(mut self, fingerprint: Option<&str>) -> Self {
        self.fingerprint = fingerprint.map(|text| Sha256::of(text.as_bytes()));
        self
    }

    pub(crate) fn answers(
        mut self,
        answer: impl Fn(&Value) -> Result<ToolOutput, Failure> + Send + Sync + 'static,
    ) -> Self {
        self.answer = Box::new(answer);
        self
    }

    pub(crate) fn tells(mut self, progress: &'static str) -> Self {
        self.progress = Some(progress);
        self
    }

    /// What it declares about information flow.
    pub(crate) fn flow(mut self, flow: FlowDeclaration) -> Self {
        self.flow = Some(flow);
        self
    }

    pub(crate) fn share(self) -> Arc<Self> {
        Arc::new(self)
    }

    /// How often it ran.
    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    /// The calls that ran it, from their context.
    pub(crate) fn calls(&self) -> Vec<CallId> {
        self.calls.lock().unwrap().clone()
    }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

impl Tool for Declared {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn fingerprint(&self) -> Option<Sha256> {
        self.fingerprint
    }

    fn information_flow(&self) -> FlowDeclaration {
        self.flow.clone().unwrap_or_else(|| self.spec.default_flow(false))
    }

    fn run(self: Arc<Self>, call: ApprovedCall, context: CallContext) -> ToolFuture {
        Box::pin(async move {
            self.runs.fetch_add(1, Ordering::SeqCst);
            self.calls.lock().unwrap().push(context.call);
            if let (Some(told), Some(progress)) = (self.progress, &context.progress) {
                progress(told.into());
            }
            (self.answer)(&call.into_arguments())
        })
    }
}

//! A profile in front of a gate.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use toolgate_gate::{CallOptions, Credential, FinishedCall, Gate};
use toolgate_manifest::RetentionBounds;
use toolgate_types::{
    Attachment, CallId, Decision, Failure, Outcome, ResourceContent, Stage, Structured, ToolCall,
};
use toolgate_workspace::Workspace;

use crate::call_log::{CallEnd, LoggedCall};
use crate::crew::{self, NamedPath, RunLog};
use crate::profile::{FileTools, Profile};

/// A longer field of an answer is no fact about it, but a part of it.
const MAX_FACT_BYTES: usize = 1024;

/// What a model is given.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelAnswer {
    /// The text.
    pub text: String,
    /// The same for programs, where the profile has it.
    pub structured: Option<Structured>,
    /// Whether the call did not do what was asked.
    pub is_error: bool,
}

/// How a call went: what the model is given, and what only the operator may know.
#[derive(Debug)]
pub struct CallResponse {
    /// What a model is given.
    pub answer: ModelAnswer,
    /// The gate's id for the call.
    pub call: CallId,
    /// What the record says.
    pub decision: Decision,
    /// Where and why it was refused or failed.
    pub failed: Option<(Stage, Failure)>,
    /// How long it took.
    pub duration: Duration,
    /// What of the answer is not text; beside it, for callers that can show it.
    pub attachments: Vec<Attachment>,
    /// The whole text, where the answer had to be cut.
    pub full_text: Option<String>,
    /// The property that the structured answer lacks because the text is its value.
    pub text_field: Option<&'static str>,
    /// What is to be shown by address, where the call was made for that. The answer has no text then.
    pub resource: Option<ResourceContent>,
}

impl CallResponse {
    /// About how many bytes of it a caller is given.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let attached = self.attachments.iter().map(|attached| attached.data().len());
        let browsed = self.resource.as_ref().map_or(0, ResourceContent::bytes);
        self.answer.text.len() + attached.sum::<usize>() + browsed
    }

    /// The structured answer with everything that belongs to it, for those who take it without the text.
    #[must_use]
    pub fn structured(&self) -> Option<Value> {
        let mut structured = self.answer.structured.clone().map(Structured::into_value);
        if let (Some(Value::Object(fields)), Some(name)) = (&mut structured, self.text_field) {
            fields.insert(name.to_owned(), Value::String(self.answer.text.clone()));
        }
        structured
    }
}

/// A gate that speaks a profile's language.
pub struct ProfiledGate {
    profile: Profile,
    gate: Arc<Gate>,
    run_log: Option<RunLog>,
    workspace: Option<Arc<Workspace>>,
}

impl ProfiledGate {
    /// A front without a run.
    #[must_use]
    pub fn new(profile: Profile, gate: Arc<Gate>) -> Self {
        Self { profile, gate, run_log: None, workspace: None }
    }

    /// Also writes every call to the run's own log, in this folder (`@state`), which is begun anew when it is full.
    #[must_use]
    pub fn with_run_log(mut self, state: cap_std::fs::Dir, retention: RetentionBounds) -> Self {
        self.run_log = Some(RunLog::new(state, retention.max_bytes, self.gate.complaints()));
        self
    }

    /// Why the run's own log lacks a line, where it does.
    pub(crate) fn run_log_failure(&self) -> Option<&str> {
        self.run_log.as_ref().and_then(RunLog::failure)
    }

    /// Also knows the mounts: it sees when one is removed, and logs paths by their alias.
    #[must_use]
    pub fn over(mut self, workspace: Arc<Workspace>) -> Self {
        self.workspace = Some(workspace);
        self
    }

    pub(crate) fn workspace(&self) -> Option<&Workspace> {
        self.workspace.as_deref()
    }

    /// The gate behind it.
    #[must_use]
    pub fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// The tools of its profile that files can be read and found with.
    #[must_use]
    pub fn file_tools(&self) -> Option<FileTools> {
        self.profile.file_tools()
    }

    /// Whether the structured part of an answer is what the tool declared, and not the profile's own shape.
    #[must_use]
    pub fn has_native_structure(&self) -> bool {
        self.profile.has_native_structure()
    }

    /// What a built-in tool, or the gate where a call failed, says of the call beside its text, such as the path or the exit code: the short fields of it.
    ///
    /// Nothing of the answer of another tool: a field `exitCode` that a program or a server wrote would look like one that the gate measured.
    #[must_use]
    pub fn facts(&self, tool: &str, called: &CallResponse) -> Map<String, Value> {
        let is_built_in = || self.gate.tool(tool).is_some_and(|tool| tool.spec().is_built_in());
        if called.failed.is_none() && !is_built_in() {
            return Map::new();
        }
        let structured = called.answer.structured.clone().map(Structured::into_value);
        let mut fields = match (self.profile, structured) {
            // The rest of it is the answer itself, for programs.
            (Profile::Native | Profile::Crew, Some(Value::Object(mut fields))) => {
                fields.retain(|_, value| !value.is_object() && !value.is_array());
                fields
            }
            (Profile::Studio, Some(mut answer)) => match answer.get_mut("metadata").map(Value::take) {
                Some(Value::Object(fields)) => fields,
                _ => return Map::new(),
            },
            _ => return Map::new(),
        };
        fields.retain(|_, value| value.to_string().len() <= MAX_FACT_BYTES);
        fields
    }

    /// Refuses a call that a door found fault with. Nothing of it runs, and it is recorded like every other.
    pub async fn refuse(
        &self,
        call: &ToolCall,
        credential: impl Into<Credential>,
        stage: Stage,
        failure: Failure,
    ) -> CallResponse {
        let credential = credential.into();
        let told = self.run_log.as_ref().map(|log| log.begin(call, &credential.unverified_caller()));
        let (named, logged) = (self.named(call), self.logged(call));
        let FinishedCall { call: id, mut outcome, duration } =
            self.gate.refuse(call, credential, stage, failure).await;
        let decision = outcome.decision();
        let failed = match &mut outcome {
            Outcome::Failed { stage, failure } => {
                self.explain(named, failure);
                Some((*stage, failure.clone()))
            }
            Outcome::Done(_) => None,
        };
        let answer = self.profile.render(&call.tool, outcome);
        if let Some(told) = told {
            told.finish(&answer, duration);
        }
        if let Some(logged) = logged {
            logged.finish(self.profile, &CallEnd { call: id, decision, failed: failed.as_ref(), duration });
        }
        let (attachments, whole, text_as, browsed) = (Vec::new(), None, None, None);
        CallResponse {
            answer,
            call: id,
            decision,
            failed,
            duration,
            attachments,
            full_text: whole,
            text_field: text_as,
            resource: browsed,
        }
    }

    fn logged(&self, call: &ToolCall) -> Option<LoggedCall> {
        LoggedCall::begin(self.profile, self.workspace(), call)
    }

    /// The path that a call names, where the profile tells of it in a refusal.
    fn named(&self, call: &ToolCall) -> Option<NamedPath> {
        if self.profile == Profile::Crew { NamedPath::of(&call.arguments) } else { None }
    }

    fn explain(&self, named: Option<NamedPath>, failure: &mut Failure) {
        if self.profile == Profile::Crew && failure.code.is_denial() {
            crew::explain_refusal(named, failure);
        }
    }

    /// One call.
    pub async fn call(
        &self,
        call: ToolCall,
        credential: impl Into<Credential>,
        options: CallOptions,
    ) -> CallResponse {
        let credential = credential.into();
        let told = self.run_log.as_ref().map(|log| log.begin(&call, &credential.unverified_caller()));
        let (tool, named, logged) = (call.tool.clone(), self.named(&call), self.logged(&call));
        let FinishedCall { call, mut outcome, duration } = self.gate.call(call, credential, options).await;
        let decision = outcome.decision();
        let (mut failed, mut attachments, mut whole) = (None, Vec::new(), None);
        let (mut text_as, mut browsed) = (None, None);
        match &mut outcome {
            Outcome::Failed { stage, failure } => {
                self.explain(named, failure);
                failed = Some((*stage, failure.clone()));
            }
            Outcome::Done(output) => {
                attachments = std::mem::take(&mut output.attachments);
                whole = output.full_text.take();
                text_as = output.text_field;
                browsed = output.resource.take();
            }
        }
        let answer = self.profile.render(&tool, outcome);
        if let Some(told) = told {
            told.finish(&answer, duration);
        }
        if let Some(logged) = logged {
            logged.finish(self.profile, &CallEnd { call, decision, failed: failed.as_ref(), duration });
        }
        CallResponse {
            answer,
            call,
            decision,
            failed,
            duration,
            attachments,
            full_text: whole,
            text_field: text_as,
            resource: browsed,
        }
    }
}

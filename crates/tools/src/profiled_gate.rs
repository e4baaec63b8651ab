//! A profile in front of a gate.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use toolgate_gate::{CallOptions, Credential, FinishedCall, Gate};
use toolgate_types::{
    Attachment, CallId, Decision, Failure, Outcome, ResourceContent, RetentionBounds, Stage, Structured,
    ToolCall,
};
use toolgate_workspace::Workspace;

use crate::call_log::{CallEnd, LoggedCall};
use crate::profiles::{FileTools, Profile};
use crate::refused_path::{RefusedPath, explain_refusal};
use crate::run_log::RunLog;

/// A longer field is part of the answer, not a fact about it.
const MAX_FACT_BYTES: usize = 1024;

/// What a model is given.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelAnswer {
    /// The text.
    pub text: String,
    /// The same for programs, where the profile has it.
    pub structured: Option<Structured>,
    /// Whether the call failed.
    pub is_error: bool,
}

/// The result of a call: what the model is given, and what only the operator may see.
#[derive(Debug)]
pub struct CallResponse {
    /// What a model is given.
    pub answer: ModelAnswer,
    /// The gate's id for the call.
    pub call: CallId,
    /// The decision as audited.
    pub decision: Decision,
    /// The stage and the reason of a denial or failure.
    pub failed: Option<(Stage, Failure)>,
    /// How long it took, without the time that a person was waited for.
    pub duration: Duration,
    /// How long a person was waited for.
    pub waited: Duration,
    /// The arguments that a person approved in place of the model's.
    pub changed: Option<Value>,
    /// The parts of the answer that are not text, for callers that can show them.
    pub attachments: Vec<Attachment>,
    /// The whole text, if the answer was truncated.
    pub full_text: Option<String>,
    /// The property that is omitted from the structured answer because the text is its value.
    pub text_field: Option<&'static str>,
    /// The resource content, for a resource request. The answer then has no text.
    pub resource: Option<ResourceContent>,
}

impl CallResponse {
    /// About how many bytes the caller receives.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let attached = self.attachments.iter().map(|attached| attached.data().len());
        let browsed = self.resource.as_ref().map_or(0, ResourceContent::bytes);
        self.answer.text.len() + attached.sum::<usize>() + browsed
    }

    /// The structured answer including the property that the text stands for, for callers that do not take the text.
    #[must_use]
    pub fn structured(&self) -> Option<Value> {
        let mut structured = self.answer.structured.clone().map(Structured::into_value);
        if let (Some(Value::Object(fields)), Some(name)) = (&mut structured, self.text_field) {
            fields.insert(name.to_owned(), Value::String(self.answer.text.clone()));
        }
        structured
    }
}

/// A gate with a profile in front of it.
pub struct ProfiledGate {
    profile: Profile,
    gate: Arc<Gate>,
    file_tools: Option<FileTools>,
    run_log: Option<RunLog>,
    workspace: Option<Arc<Workspace>>,
}

impl ProfiledGate {
    /// A profiled gate without a run.
    #[must_use]
    pub fn new(profile: Profile, gate: Arc<Gate>) -> Self {
        Self { profile, gate, file_tools: profile.file_tools(), run_log: None, workspace: None }
    }

    /// Also writes every call to the run's own log in this directory (`@state`). A full log is started anew.
    #[must_use]
    pub fn with_run_log(mut self, state: cap_std::fs::Dir, retention: RetentionBounds) -> Self {
        self.run_log = Some(RunLog::new(state, retention.max_bytes, self.profile, self.gate.complaints()));
        self
    }

    /// Why the run's own log lacks a line, if it does.
    pub(crate) fn run_log_failure(&self) -> Option<&str> {
        self.run_log.as_ref().and_then(RunLog::failure)
    }

    /// Also knows the mounts: it detects when one is removed, and logs paths by their alias.
    #[must_use]
    pub fn over(mut self, workspace: Arc<Workspace>) -> Self {
        self.workspace = Some(workspace);
        self
    }

    pub(crate) fn workspace(&self) -> Option<&Workspace> {
        self.workspace.as_deref()
    }

    /// The gate behind the profile.
    #[must_use]
    pub fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// The tools of its profile that read and find files.
    #[must_use]
    pub fn file_tools(&self) -> Option<FileTools> {
        self.file_tools
    }

    /// Whether the structured part of an answer has the shape that the tool declares, rather than the profile's own envelope.
    #[must_use]
    pub fn has_native_structure(&self) -> bool {
        self.profile.has_native_structure()
    }

    /// The property of its profile's answers that holds what the tool declares, if they are envelopes.
    #[must_use]
    pub fn envelope_property(&self) -> Option<&'static str> {
        self.profile.envelope_property()
    }

    /// The short fields that a built-in tool reports beside its text, such as the path or the exit code, or that the gate reports for a failed call.
    ///
    /// Empty for the answers of other tools: an `exitCode` field written by a program or a server would look like one that the gate measured.
    #[must_use]
    pub fn facts(&self, tool: &str, called: &CallResponse) -> Map<String, Value> {
        let is_built_in = || self.gate.tool(tool).is_some_and(|tool| tool.spec().is_built_in());
        if called.failed.is_none() && !is_built_in() {
            return Map::new();
        }
        let structured = called.answer.structured.clone().map(Structured::into_value);
        let mut fields = structured.map(|answer| self.profile.facts(answer)).unwrap_or_default();
        fields.retain(|_, value| value.to_string().len() <= MAX_FACT_BYTES);
        fields
    }

    /// Rejects a call that a frontend found invalid. Nothing runs, and the call is audited like every other.
    pub async fn refuse(
        &self,
        call: &ToolCall,
        credential: impl Into<Credential>,
        stage: Stage,
        failure: Failure,
    ) -> CallResponse {
        let credential = credential.into();
        let log_line = self.run_log.as_ref().map(|log| log.begin(call, &credential.unverified_caller()));
        let (named, logged) = (self.named(call), self.logged(call));
        let FinishedCall { call: id, mut outcome, duration, waited, changed } =
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
        if let Some(log_line) = log_line {
            log_line.finish(&answer, duration);
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
            waited,
            changed,
            attachments,
            full_text: whole,
            text_field: text_as,
            resource: browsed,
        }
    }

    fn logged(&self, call: &ToolCall) -> Option<LoggedCall> {
        LoggedCall::begin(self.profile, self.workspace(), call)
    }

    /// The path argument of a call, if the profile mentions it in a refusal.
    fn named(&self, call: &ToolCall) -> Option<RefusedPath> {
        self.profile.details_refused_paths().then(|| RefusedPath::of(&call.arguments)).flatten()
    }

    fn explain(&self, named: Option<RefusedPath>, failure: &mut Failure) {
        if self.profile.details_refused_paths() && failure.code.is_denial() {
            explain_refusal(named, failure);
        }
    }

    /// Executes one call.
    pub async fn call(
        &self,
        call: ToolCall,
        credential: impl Into<Credential>,
        options: CallOptions,
    ) -> CallResponse {
        let (call, credential) = (self.gate.resolve_indirect(call), credential.into());
        let log_line = self.run_log.as_ref().map(|log| log.begin(&call, &credential.unverified_caller()));
        let (tool, named, logged) = (call.tool.clone(), self.named(&call), self.logged(&call));
        let FinishedCall { call, mut outcome, duration, waited, changed } =
            self.gate.call(call, credential, options).await;
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
        if let Some(log_line) = log_line {
            log_line.finish(&answer, duration);
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
            waited,
            changed,
            attachments,
            full_text: whole,
            text_field: text_as,
            resource: browsed,
        }
    }
}

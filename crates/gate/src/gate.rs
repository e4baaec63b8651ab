//! The pipeline: a call in, an outcome and one audit record out.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio_util::sync::CancellationToken;
use toolgate_audit::{AuditLog, Intent, Ticket};
use toolgate_manifest::AgentConfig;
use toolgate_policy::Scope;
use toolgate_types::{
    CallId, Caller, Category, ErrorCode, Failure, Limits, Outcome, Sha256, Stage, ToolCall, ToolClass,
    ToolOutput,
};
use toolgate_workspace::Recorder;

use crate::approval::{Approver, SessionGrants};
use crate::bound::Bound;
use crate::journal::{CallRecorder, Journal, UndoError, UndoOptions, Undone};
use crate::registry::Registry;
use crate::stages::{Asking, Ready, Received, Refused, declared_agent};
use crate::tool::{Blocking, Progress, Tool};
use crate::unsettled::{RawOutput, Unsettled};

/// What happens when a call cannot be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditMode {
    /// A record is on disk before the answer leaves; without one there is no answer.
    Deny,
    /// A failing log is complained about, and calls go on.
    Warn,
}

/// What a gate is made of.
pub struct GateOptions {
    /// The tools.
    pub registry: Registry,
    /// The agents that were declared.
    pub agents: Vec<AgentConfig>,
    /// The bounds of a call, before agents change them.
    pub limits: Limits,
    /// The record.
    pub audit: AuditLog,
    /// What happens when that fails.
    pub audit_mode: AuditMode,
    /// What was changed, and how to put it back.
    pub journal: Arc<Journal>,
    /// Who is asked.
    pub approver: Arc<dyn Approver>,
    /// How long an answer is waited for.
    pub approval_patience: Duration,
    /// Where work that blocks is done.
    pub blocking: Blocking,
    /// Where complaints for the operator go.
    pub complain: Arc<dyn Fn(&str) + Send + Sync>,
}

/// The gate between a model and the machine.
pub struct Gate {
    pub(crate) options: GateOptions,
    grants: SessionGrants,
}

/// How a call ended, with what a caller may want to know about it.
#[derive(Debug)]
pub struct Settled {
    /// The gate's id for the call.
    pub call: CallId,
    /// How it ended.
    pub outcome: Outcome,
    /// How long it took.
    pub duration: Duration,
}

/// What a running call may be told and may tell.
#[derive(Default)]
pub struct CallOptions {
    /// Told of output as it comes.
    pub progress: Option<Progress>,
    /// Ends the call.
    pub cancelled: CancellationToken,
    /// Ends the work of a tool too, once it is true: for handlers of signals, which can set a flag and nothing else.
    pub interrupted: Option<Arc<AtomicBool>>,
}

impl Gate {
    /// A gate.
    #[must_use]
    pub fn new(options: GateOptions) -> Self {
        Self { options, grants: SessionGrants::default() }
    }

    /// The journal of changes.
    #[must_use]
    pub fn journal(&self) -> &Arc<Journal> {
        &self.options.journal
    }

    /// The tools that a caller may use, in their order. A model is never shown another.
    #[must_use]
    pub fn visible_tools(&self, caller: &Caller) -> Vec<Arc<dyn Tool>> {
        let Some(agent) = declared_agent(&self.options.agents, caller) else { return Vec::new() };
        let scope = Scope::of(agent);
        let permitted =
            |tool: &&Arc<dyn Tool>| scope.permits(tool.spec().name.as_str(), tool.spec().class).is_allowed();
        self.options.registry.iter().filter(permitted).cloned().collect()
    }

    /// One call through every stage.
    pub async fn call(&self, call: ToolCall, caller: Caller, mut options: CallOptions) -> Settled {
        let caller = Arc::new(caller);
        let mut unsettled = self.receive(&call, &caller);
        // The caller's token ends this call; an end of this call ends nothing else of the caller's.
        options.cancelled = options.cancelled.child_token();
        unsettled.cancelled = options.cancelled.clone();
        let (outcome, response) = match self.decide(&mut unsettled, options).await {
            Ok(ready) => {
                unsettled.reached = Stage::Execution;
                self.execute(&unsettled, ready).await
            }
            Err(Refused { stage, failure }) => (Outcome::Failed { stage, failure }, None),
        };
        unsettled.settle(outcome, response).await
    }

    async fn decide(&self, unsettled: &mut Unsettled<'_>, options: CallOptions) -> Result<Ready, Refused> {
        let received = Received { call: unsettled.call, caller: unsettled.caller };
        let visible = self.visible_names(unsettled);
        let visible: Vec<&str> = visible.iter().map(String::as_str).collect();
        let known = received.look_up(&self.options.registry, &visible)?;
        unsettled.class = Some(known.class());
        let asking = Asking {
            approver: self.options.approver.as_ref(),
            grants: &self.grants,
            patience: self.options.approval_patience,
            cancelled: options.cancelled,
            interrupted: options.interrupted,
            progress: options.progress,
            blocking: self.options.blocking,
        };
        // The first stage that waits, and so the first that a caller can go away from.
        unsettled.reached = Stage::Approval;
        known.verify(&self.options.agents)?.permit(self.options.limits)?.validate()?.approve(asking).await
    }

    /// The names a refusal may suggest; only needed when the tool does not exist.
    fn visible_names(&self, unsettled: &Unsettled<'_>) -> Vec<String> {
        if self.options.registry.get(&unsettled.call.tool).is_some() {
            return Vec::new();
        }
        self.visible_tools(unsettled.caller).iter().map(|tool| tool.spec().name.to_string()).collect()
    }

    async fn execute(&self, unsettled: &Unsettled<'_>, ready: Ready) -> (Outcome, Option<RawOutput>) {
        let Ready { approved, tool, mut context, foreseen } = ready;
        let spec = tool.tool.spec();
        let mut bound = None;
        if spec.class.has_effect() {
            let intent = match self.intend(unsettled, spec.class) {
                Ok(intent) => intent,
                Err(failure) => return (Outcome::Failed { stage: Stage::Execution, failure }, None),
            };
            let ready = self.before_effect(unsettled, spec.category, intent).await;
            match ready {
                Ok(recorder) => context.recorder = Arc::new(recorder),
                Err(failure) => return (Outcome::Failed { stage: Stage::Execution, failure }, None),
            }
            if let Some(foreseen) = foreseen {
                let held = Arc::new(Bound::new(context.recorder, foreseen));
                context.recorder = Arc::clone(&held) as Arc<dyn Recorder + Send + Sync>;
                bound = Some(held);
            }
        }
        match Arc::clone(&tool.tool).run(approved, context).await {
            Ok(output) => {
                let raw = RawOutput::of(&output);
                match tool.output.check(&tool.tool.spec().output_schema, &output.structured) {
                    Ok(()) => (Outcome::Done(output), Some(raw)),
                    Err(failure) => (Outcome::Failed { stage: Stage::Output, failure }, Some(raw)),
                }
            }
            Err(failure) => {
                let failure = match bound {
                    Some(bound) => bound.explain(failure),
                    None => failure,
                };
                (Outcome::Failed { stage: Stage::Execution, failure }, None)
            }
        }
    }

    /// Puts back what an earlier call changed: an effect like any other, announced and recorded.
    ///
    /// # Errors
    /// See [`UndoError`].
    pub async fn undo(
        &self,
        target: CallId,
        caller: Caller,
        options: UndoOptions,
    ) -> Result<Undone, UndoError> {
        let call = ToolCall::new("undo", json!({"call": target, "force": options.force}));
        let caller = Arc::new(caller);
        let mut unsettled = self.receive(&call, &caller);
        unsettled.class = Some(ToolClass::Write);
        unsettled.reached = Stage::Execution;
        let undone = match self.intend(&unsettled, ToolClass::Write) {
            Err(failure) => Err(UndoError::NotRecorded(failure.operator_note.unwrap_or(failure.message))),
            Ok(intent) => {
                let waited = match intent {
                    Some(ticket) => match ticket.await {
                        Err(error) if self.options.audit_mode == AuditMode::Deny => {
                            Err(UndoError::NotRecorded(error.to_string()))
                        }
                        _ => Ok(()),
                    },
                    None => Ok(()),
                };
                match waited {
                    Ok(()) => self.put_back(target, call.id, &caller, options).await,
                    Err(error) => Err(error),
                }
            }
        };
        let outcome = match &undone {
            Ok(undone) => Outcome::Done(ToolOutput {
                text: undone.paths.join("\n"),
                structured: json!({"paths": undone.paths}),
            }),
            Err(error) => {
                let failure = Failure::new(error.code(), error.to_string());
                Outcome::Failed { stage: Stage::Execution, failure }
            }
        };
        unsettled.settle(outcome, None).await;
        undone
    }

    async fn put_back(
        &self,
        target: CallId,
        by: CallId,
        caller: &Caller,
        options: UndoOptions,
    ) -> Result<Undone, UndoError> {
        let (journal, session) = (Arc::clone(&self.options.journal), caller.session.clone());
        let undoing = move || Ok(journal.undo(target, by, session, options));
        self.options.blocking.run(undoing).await.unwrap_or_else(|failure| {
            // Whoever was putting back is gone; what it left half-done is put back by the next start.
            Err(UndoError::NotRecorded(failure.message))
        })
    }

    fn receive<'g>(&'g self, call: &'g ToolCall, caller: &'g Arc<Caller>) -> Unsettled<'g> {
        Unsettled {
            gate: self,
            begun: Instant::now(),
            args_hash: Sha256::of(&serde_json::to_vec(&call.arguments).unwrap_or_default()),
            call,
            caller,
            class: None,
            reached: Stage::Registry,
            cancelled: CancellationToken::new(),
            settled: false,
        }
    }

    /// Writes down that a call is about to have an effect.
    fn intend(&self, unsettled: &Unsettled<'_>, class: ToolClass) -> Result<Option<Ticket>, Failure> {
        let intent = Intent {
            call: unsettled.call.id,
            client_call_id: unsettled.call.client_id.as_deref(),
            caller: unsettled.caller,
            tool: &unsettled.call.tool,
            class,
            args_hash: unsettled.args_hash,
        };
        match (self.options.audit.intent(&intent), self.options.audit_mode) {
            (Ok(ticket), _) => Ok(Some(ticket)),
            (Err(error), AuditMode::Deny) => Err(unrecorded(&error.to_string())),
            (Err(error), AuditMode::Warn) => {
                (self.options.complain)(&format!("the intent of a call could not be recorded: {error}"));
                Ok(None)
            }
        }
    }

    /// File tools wait for their intent while they stage, just before the first change; everything else waits here.
    async fn before_effect(
        &self,
        unsettled: &Unsettled<'_>,
        category: Category,
        intent: Option<Ticket>,
    ) -> Result<CallRecorder, Failure> {
        let intent = match intent {
            Some(ticket) if category != Category::File => {
                if let Err(error) = ticket.await
                    && self.options.audit_mode == AuditMode::Deny
                {
                    return Err(unrecorded(&error.to_string()));
                }
                None
            }
            other => other,
        };
        let session = unsettled.caller.session.clone();
        let journal = Arc::clone(&self.options.journal);
        let recorder =
            CallRecorder::new(journal, unsettled.call.id, session, &unsettled.call.tool, intent, None);
        Ok(recorder.intent_may_fail(self.options.audit_mode == AuditMode::Warn))
    }
}

fn unrecorded(reason: &str) -> Failure {
    Failure::new(ErrorCode::AuditUnavailable, "this call cannot be recorded, so it may not run")
        .operator_note(reason)
}

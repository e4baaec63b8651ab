//! Information flow of one call: judged before it runs, and its labels raised before its answer leaves.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use toolgate_audit::RecordedFlow;
use toolgate_policy::{FlowDecision, FlowFacts, FlowTarget, judge, targets_of};
use toolgate_text::confusables::quote_value;
use toolgate_types::{ErrorCode, Failure, FlowEffect, FlowLabels, Outcome, SessionId, Sha256};

use super::endorsements::Endorsements;
use super::{FlowLabelStore, FlowRule};
use crate::audit_guard::AuditGuard;
use crate::gate::Gate;
use crate::judged_paths::JudgedPaths;
use crate::registry::RegisteredTool;
use crate::tool::{Progress, ProgressUpdate};

/// A longer value is cut in the line of a question; the arguments below show it whole.
const MAX_SHOWN_CHARS: usize = 120;

/// What a gate knows about its sessions.
#[derive(Debug)]
pub(crate) struct FlowState {
    pub(crate) labels: Arc<FlowLabelStore>,
    pub(crate) endorsements: Endorsements,
}

/// What was judged about a call, for its answer and its record. Empty where information flow is not tracked, or there is nothing to say.
#[derive(Debug, Default)]
pub(crate) struct CallFlow(Mutex<Option<Arc<NotedFlow>>>);

#[derive(Clone, Debug)]
struct NotedFlow {
    session: SessionId,
    before: FlowLabels,
    /// What its answer brings.
    brings: FlowLabels,
    /// The labels of its session once they were raised.
    after: FlowLabels,
    /// Why it was asked about, without a value.
    asked: Option<String>,
    /// The arguments, if its output endorses targets.
    directory: Option<String>,
}

/// What the approval stage needs.
#[derive(Clone, Copy)]
pub(crate) struct FlowStage<'g> {
    pub(crate) rule: &'g FlowRule,
    pub(crate) state: &'g FlowState,
    pub(crate) noted: &'g CallFlow,
    /// The session whose labels count, if it is not that of the caller.
    pub(crate) session: Option<&'g SessionId>,
    /// Whether a person wrote the call.
    pub(crate) by_person: bool,
}

/// A call that is judged.
pub(crate) struct FlowSubject<'c> {
    pub(crate) session: &'c SessionId,
    pub(crate) tool: &'c RegisteredTool,
    pub(crate) definition: Sha256,
    pub(crate) arguments: &'c Value,
    pub(crate) judged: Option<&'c JudgedPaths>,
    /// Whether a person lets it reach hosts beyond the configuration, or is asked for that.
    pub(crate) reaches_hosts: bool,
}

impl FlowStage<'_> {
    /// Judges a call, and notes what its answer brings.
    pub(crate) fn judge(&self, call: &FlowSubject<'_>) -> Result<FlowDecision, Failure> {
        let (declared, schema) = (call.tool.flow(), &call.tool.tool.spec().input_schema);
        let session = self.session.unwrap_or(call.session);
        let mounts = self.rule.labels_of(&declared.mounts, call.judged);
        let hosts = if call.reaches_hosts { FlowLabels::UNTRUSTED } else { FlowLabels::NONE };
        let brings = declared.output.union(mounts).union(hosts);
        let effect = if call.reaches_hosts { FlowEffect::Egress } else { declared.effect };
        let before = match effect == FlowEffect::Egress || !brings.is_empty() {
            true => self.state.labels.labels(session).map_err(|error| unknown_labels(&error))?,
            // Such a call passes with any labels, and adds none.
            false => self.state.labels.known(session),
        };
        let targets = targets_of(declared, &|name| schema.declares(name), call.arguments);
        let is_endorsed =
            |target: &FlowTarget| self.state.endorsements.endorse(session, call.definition, target);
        let judged = || {
            judge(FlowFacts {
                // What a command can read it can send, in one call.
                labels: before.union(mounts),
                outlives: call.tool.tool.outlives_call(call.arguments),
                effect,
                targets: &targets,
                is_endorsed: &is_endorsed,
            })
        };
        // No model steers a call that a person wrote.
        let decision = if self.by_person { FlowDecision::default() } else { judged() };
        // Most calls bring nothing, in a session that has seen nothing.
        let is_plain = before.union(brings).is_empty() && !decision.asks() && !declared.directory;
        self.noted.set((!is_plain).then(|| NotedFlow {
            session: session.clone(),
            before,
            brings,
            after: before,
            asked: decision.asks().then(|| recorded_reason(&decision)),
            directory: declared.directory.then(|| call.arguments.to_string()),
        }));
        Ok(decision)
    }

    /// Notes what the failure of a call brings whose paths do not resolve.
    pub(crate) fn note_unresolved(&self, tool: &RegisteredTool, session: &SessionId) {
        let session = self.session.unwrap_or(session).clone();
        let before = self.state.labels.labels(&session).unwrap_or_default();
        let brings = self.rule.labels_of(&tool.flow().mounts, None);
        self.noted.set(Some(NotedFlow {
            session,
            before,
            brings,
            after: before,
            asked: None,
            directory: None,
        }));
    }

    /// A person approved the call with these targets.
    pub(crate) fn approve(&self, session: &SessionId, tool: Sha256, decision: &FlowDecision) {
        if !decision.unendorsed.is_empty() {
            let session = self.session.unwrap_or(session);
            self.state.endorsements.approve(session, tool, &decision.unendorsed);
        }
    }
}

impl CallFlow {
    fn set(&self, noted: Option<NotedFlow>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = noted.map(Arc::new);
    }

    fn get(&self) -> Option<Arc<NotedFlow>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// For the record; nothing for a call of a session without labels that was not asked about.
    pub(crate) fn recorded(&self) -> Option<RecordedFlow> {
        let noted = self.get()?;
        let words = |labels: FlowLabels| labels.words().map(Cow::Borrowed).collect();
        let is_plain = noted.after.is_empty() && noted.asked.is_none();
        (!is_plain).then(|| RecordedFlow {
            before: words(noted.before),
            after: words(noted.after),
            asked: noted.asked.clone(),
        })
    }
}

impl Gate {
    /// Raises the labels of the session by what an answer brings, before it leaves. An answer whose labels cannot be stored does not leave.
    pub(crate) async fn release(&self, unsettled: &AuditGuard<'_>, outcome: Outcome) -> Outcome {
        let Some(noted) = unsettled.flow.get() else { return outcome };
        // A refusal is the gate's own text; any other failure may quote what was read.
        if matches!(&outcome, Outcome::Failed { failure, .. } if failure.code.is_denial()) {
            return outcome;
        }
        let session = &noted.session;
        if !noted.before.contains(noted.brings) {
            let (labels, raised, brings) = (Arc::clone(&self.flow.labels), session.clone(), noted.brings);
            let stored = self
                .blocking
                .run(move || labels.raise(&raised, brings).map_err(|error| unknown_labels(&error)));
            match stored.await {
                Ok(after) => unsettled.flow.set(Some(NotedFlow { after, ..NotedFlow::clone(&noted) })),
                Err(failure) => {
                    return Outcome::Failed { stage: toolgate_types::Stage::Output, failure };
                }
            }
        }
        if let (Some(asked), Outcome::Done(output)) = (&noted.directory, &outcome) {
            self.flow.endorsements.learn(session, &output.structured.value(), asked);
        }
        outcome
    }

    /// Progress leaves before the answer does: its first line raises the labels too. It is dropped if they cannot be stored.
    pub(crate) fn label_progress(
        &self,
        unsettled: &AuditGuard<'_>,
        progress: Option<Progress>,
    ) -> Option<Progress> {
        let noted = unsettled.flow.get().filter(|noted| !noted.before.contains(noted.brings));
        let (Some(noted), Some(inner)) = (noted, &progress) else { return progress };
        let (labels, inner) = (Arc::clone(&self.flow.labels), Arc::clone(inner));
        let session = noted.session.clone();
        Some(Arc::new(move |update: ProgressUpdate<'_>| {
            if labels.raise(&session, noted.brings).is_ok() {
                inner(update);
            }
        }))
    }
}

fn unknown_labels(error: &std::io::Error) -> Failure {
    Failure::new(
        ErrorCode::AuditUnavailable,
        "the labels of this session cannot be kept, so this call has no answer",
    )
    .operator_note(format!("`flow.toolgate` in the state directory cannot be used: {error}"))
}

/// Why a person is asked, in one line with the values.
pub(crate) fn question_line(decision: &FlowDecision) -> String {
    let mut reasons = Vec::new();
    if decision.outlives {
        reasons.push("this call goes on sending after its answer, whatever this session reads".to_owned());
    } else if decision.leaks {
        reasons.push(
            "this session has read secret and untrusted content, and this call sends something out"
                .to_owned(),
        );
    }
    if let Some(first) = decision.unendorsed.first() {
        let more = match decision.unendorsed.len() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        reasons.push(format!(
            "`{}` is {}{more}, which neither you, the configuration nor a trusted directory named",
            quote_value(&first.argument),
            shown(&first.value)
        ));
    }
    format!("information flow: {}", reasons.join("; "))
}

fn shown(value: &str) -> String {
    let cut: String = value.chars().take(MAX_SHOWN_CHARS).collect();
    let mark = if cut.len() < value.len() { "…" } else { "" };
    let quoted = quote_value(&cut);
    if quoted.starts_with('"') { format!("{quoted}{mark}") } else { format!("\"{quoted}{mark}\"") }
}

/// The same for the record, which quotes no argument: the rule of the declaration stands for the value.
fn recorded_reason(decision: &FlowDecision) -> String {
    let mut reasons = Vec::new();
    if decision.outlives {
        reasons.push("egress that goes on after its answer".to_owned());
    } else if decision.leaks {
        reasons.push("egress of a session that has read secret and untrusted content".to_owned());
    }
    if let Some(first) = decision.unendorsed.first() {
        reasons.push(format!(
            "the target `{}` was named by neither the person, the configuration nor a trusted directory",
            first.rule
        ));
    }
    reasons.join("; ")
}

/// The same for a model, where no person could be asked.
pub(crate) fn help_for_model(decision: &FlowDecision) -> String {
    match decision.unendorsed.first() {
        Some(first) if !decision.leaks => {
            format!("`{}` must be named by the person: say which value is needed, and why", first.rule)
        }
        _ if decision.outlives => {
            "what sends something out is not left running unasked: run it to its end".to_owned()
        }
        _ => "this conversation has read secret and untrusted content, so it sends nothing out unasked"
            .to_owned(),
    }
}

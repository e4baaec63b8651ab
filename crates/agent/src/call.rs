//! One tool call of a model: through the gate, with progress events, and always answered.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::{CancellationToken, DropGuard};
use toolgate_gate::{Approver, CallOptions, Credential};
use toolgate_llm::{CallResult, ModelCall, RecordedOutcome};
use toolgate_tools::{CallResponse, Fault, PLAN_TOOL, Plan, ProfiledGate, ProgressBuffer};
use toolgate_types::{CallId, Deadline, Decision, ErrorCode, Failure, Stage, ToolCall};
use tracing::Instrument as _;

use crate::arguments::{self, ParsedArguments};
use crate::event::{ChatEvent, EventSink, MessageId, ResultMetadata, ToolStatus, no_input};
use crate::progress_forwarder::ProgressForwarder;
use crate::reporting_approver::ReportingApprover;
use crate::step::CallIds;
use crate::tool_catalogue::ToolCatalogue;

/// A longer structured answer is not included in the event.
const MAX_STRUCTURED_BYTES: usize = 4096;

/// A longer text of arguments that a person changed is not repeated to the model.
const MAX_TOLD_BYTES: usize = 1024;

/// Runs the calls of one message.
pub(crate) struct CallRunner<'a> {
    pub(crate) gate: &'a Arc<ProfiledGate>,
    pub(crate) credential: &'a Credential,
    pub(crate) approver: &'a Arc<dyn Approver>,
    pub(crate) events: &'a EventSink,
    pub(crate) tools: &'a ToolCatalogue,
    pub(crate) repair: bool,
    pub(crate) message_id: &'a MessageId,
    pub(crate) ids: &'a CallIds,
    /// Does not run while a person is asked.
    pub(crate) deadline: &'a Deadline,
}

/// A call in flight. Dropping it cancels the call.
pub(crate) struct InFlightCall {
    call: ModelCall,
    id: CallId,
    progress: ProgressForwarder,
    cancelled: CancellationToken,
    running: JoinHandle<CallResponse>,
    _cancel_on_drop: DropGuard,
}

/// A finished call with its result.
pub(crate) struct AnsweredCall {
    pub(crate) result: CallResult,
    id: CallId,
    status: ToolStatus,
    /// The text of the result with colours, if it has some.
    coloured: Option<String>,
    metadata: Box<ResultMetadata>,
    /// The plan, if the call changed it.
    plan: Option<Plan>,
    /// The failure, if the call tried to leave its bounds.
    pub(crate) violation: Option<Failure>,
    /// Why no further call can succeed.
    pub(crate) fault: Option<Fault>,
}

impl CallRunner<'_> {
    /// Starts a call.
    pub(crate) fn start(&self, call: &ModelCall) -> InFlightCall {
        let (tool_call, refusal) = match self.read(call) {
            Ok(ParsedArguments { arguments, repairs }) => {
                (ToolCall { repairs, ..self.tool_call(call, arguments) }, None)
            }
            Err(refusal) => (self.tool_call(call, raw_arguments(call)), Some(refusal)),
        };
        self.emit_start(call, &tool_call);
        let cancelled = CancellationToken::new();
        let relay = ProgressForwarder::new(self.events, self.message_id, tool_call.id);
        let options = CallOptions {
            progress: Some(relay.sink()),
            cancelled: cancelled.clone(),
            approver: Some(Arc::new(ReportingApprover {
                approver: Arc::clone(self.approver),
                events: Arc::clone(self.events),
                message_id: self.message_id.clone(),
                input: tool_call.arguments.clone(),
                deadline: self.deadline.clone(),
            })),
            ..CallOptions::default()
        };
        let (front, credential, id) = (Arc::clone(self.gate), self.credential.clone(), tool_call.id);
        // In a task of its own: a panic in a tool only fails its own call, and reads can run concurrently.
        let making = async move {
            match refusal {
                None => front.call(tool_call, credential, options).await,
                Some((stage, failure)) => front.refuse(&tool_call, credential, stage, failure).await,
            }
        };
        let running = tokio::spawn(making.in_current_span());
        let _ends_with_this = cancelled.clone().drop_guard();
        InFlightCall {
            call: call.clone(),
            id,
            progress: relay,
            cancelled,
            running,
            _cancel_on_drop: _ends_with_this,
        }
    }

    /// Waits for the end of a call. At the turn's deadline or cancellation it is cancelled, and ends soon after.
    pub(crate) async fn finish(&self, started: InFlightCall, deadline: &Deadline) -> AnsweredCall {
        let InFlightCall {
            call,
            id,
            progress: relay,
            cancelled,
            mut running,
            _cancel_on_drop: _ends_with_this,
        } = started;
        let mut tick = interval(ProgressBuffer::FORWARD_INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let called = loop {
            tokio::select! {
                biased;
                called = &mut running => break called,
                _ = deadline.over(), if !cancelled.is_cancelled() => cancelled.cancel(),
                _ = tick.tick() => relay.flush(),
            }
        };
        relay.flush();
        let mut answered = self.answered_call(call, id, called);
        answered.coloured = relay.colour(&answered.result.text);
        answered
    }

    /// Answers a call that is not made, and audits that.
    pub(crate) async fn skip(&self, call: &ModelCall, failure: Failure) -> AnsweredCall {
        let tool_call = self.tool_call(call, raw_arguments(call));
        self.emit_start(call, &tool_call);
        let called = self.gate.refuse(&tool_call, self.credential.clone(), Stage::Registry, failure).await;
        self.answered_call(call.clone(), tool_call.id, Ok(called))
    }

    fn read(&self, call: &ModelCall) -> Result<ParsedArguments, (Stage, Failure)> {
        match self.tools.find(&call.name) {
            Some(tool) => {
                arguments::read(call, tool, self.repair).map_err(|failure| (Stage::Validation, failure))
            }
            None if self.tools.definitions.is_empty() => Err((Stage::Registry, no_tools())),
            // The gate reports the unknown name, and refuses the call whatever its arguments are.
            None => Ok(ParsedArguments { arguments: raw_arguments(call), repairs: Vec::new() }),
        }
    }

    fn answered_call(
        &self,
        call: ModelCall,
        id: CallId,
        called: Result<CallResponse, JoinError>,
    ) -> AnsweredCall {
        let Ok(called) = called else { return crashed(call, id) };
        let mut facts = self.gate.facts(&call.name, &called);
        // A tool's facts must not overwrite the fields that come from the gate.
        facts.retain(|name, _| !ResultMetadata::FIELD_NAMES.contains(&name.as_str()));
        let fault = self.gate.fault(&called);
        to_answered_call(call, id, called, facts, fault)
    }

    fn tool_call(&self, call: &ModelCall, arguments: Value) -> ToolCall {
        let id = self.ids.get(&call.id).copied().unwrap_or_else(CallId::fresh);
        ToolCall { id, client_id: Some(call.id.clone()), ..ToolCall::new(call.name.clone(), arguments) }
    }

    fn emit_start(&self, call: &ModelCall, tool_call: &ToolCall) {
        let (input, input_text) = match &tool_call.arguments {
            input @ Value::Object(_) => (input.clone(), None),
            _ => (no_input(), Some(call.arguments.clone())),
        };
        (self.events)(ChatEvent::ToolStart {
            message_id: self.message_id.clone(),
            tool_id: tool_call.id,
            tool_name: call.name.clone(),
            input,
            input_text,
        });
    }

    /// Emits the result of a call.
    pub(crate) fn emit_result(&self, answered: AnsweredCall) {
        let AnsweredCall { result, id, status, coloured, metadata, plan, .. } = answered;
        (self.events)(ChatEvent::ToolResult {
            message_id: self.message_id.clone(),
            tool_id: id,
            tool_name: result.name,
            status,
            result: result.text,
            coloured,
            metadata,
        });
        if let Some(Plan { steps }) = plan {
            (self.events)(ChatEvent::Plan { message_id: self.message_id.clone(), tool_id: id, steps });
        }
    }
}

/// The arguments as JSON, or else as a string.
pub(crate) fn raw_arguments(call: &ModelCall) -> Value {
    arguments::parse_any(&call.arguments).unwrap_or_else(|| Value::String(call.arguments.clone()))
}

fn no_tools() -> Failure {
    Failure::new(ErrorCode::UnknownTool, "there are no tools in this conversation")
        .help("answer without them")
}

fn to_answered_call(
    call: ModelCall,
    id: CallId,
    mut called: CallResponse,
    facts: Map<String, Value>,
    fault: Option<Fault>,
) -> AnsweredCall {
    let failure = called.failed.take();
    let (stage, failure) = match failure {
        Some((stage, failure)) => (Some(stage), Some(failure)),
        None => (None, None),
    };
    let code = failure.as_ref().map(|failure| failure.code);
    let recorded = RecordedOutcome {
        call_id: id,
        decision: called.decision,
        stage,
        code,
        duration_ms: whole_millis(called.duration),
        waited_ms: (!called.waited.is_zero()).then(|| whole_millis(called.waited)),
        exit_code: facts.get("exitCode").and_then(Value::as_i64),
    };
    let metadata = ResultMetadata {
        call_id: id,
        duration_ms: recorded.duration_ms,
        waited_ms: recorded.waited_ms,
        decision: called.decision.as_str(),
        stage: stage.map(Stage::as_str),
        code: code.map(ErrorCode::as_str),
        structured: short_structured(&called),
        changed_input: called.changed.clone(),
        facts,
        full_output: called.full_text.take(),
        operator_note: failure.as_ref().and_then(|failure| failure.operator_note.clone()),
    };
    let changed_plan = call.name == PLAN_TOOL && !called.answer.is_error;
    let plan = changed_plan.then(|| called.structured()).flatten();
    let plan = plan.and_then(|plan| serde_json::from_value(plan).ok());
    let mut text = called.answer.text;
    if !called.attachments.is_empty() {
        let count = called.attachments.len();
        text.push_str(&format!("\n[{count} attached, which cannot be shown to you]"));
    }
    if let Some(changed) = &called.changed {
        let ran = shortened(changed);
        text.push_str(&format!(
            "\n[a person changed this call before approving it; the arguments were {ran}]"
        ));
    }
    AnsweredCall {
        result: CallResult {
            call: call.id,
            name: call.name,
            text,
            is_error: called.answer.is_error,
            recorded: Some(recorded),
        },
        id,
        status: status(called.decision, code, called.answer.is_error),
        coloured: None,
        metadata: Box::new(metadata),
        plan,
        violation: failure.filter(|failure| failure.code.is_violation()),
        fault,
    }
}

/// Arguments as JSON, with their long texts replaced by their size.
fn shortened(arguments: &Value) -> String {
    let short = |value: &Value| match value {
        Value::String(text) if text.len() > MAX_TOLD_BYTES => {
            Value::String(format!("({} bytes)", text.len()))
        }
        other => other.clone(),
    };
    let Value::Object(fields) = arguments else { return arguments.to_string() };
    let fields: Map<String, Value> =
        fields.iter().map(|(name, value)| (name.clone(), short(value))).collect();
    let text = Value::Object(fields).to_string();
    if text.len() > MAX_STRUCTURED_BYTES { format!("{} bytes", text.len()) } else { text }
}

fn whole_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The answer to a call whose tool panicked. The gate has audited it.
fn crashed(call: ModelCall, id: CallId) -> AnsweredCall {
    let text = "internal: the tool ended unexpectedly; whether it did anything is not known".to_owned();
    let recorded = RecordedOutcome {
        call_id: id,
        decision: Decision::Error,
        stage: Some(Stage::Execution),
        code: Some(ErrorCode::Internal),
        duration_ms: 0,
        waited_ms: None,
        exit_code: None,
    };
    let metadata = ResultMetadata {
        call_id: id,
        duration_ms: 0,
        waited_ms: None,
        decision: Decision::Error.as_str(),
        stage: Some(Stage::Execution.as_str()),
        code: Some(ErrorCode::Internal.as_str()),
        structured: None,
        changed_input: None,
        facts: Map::new(),
        full_output: None,
        operator_note: None,
    };
    AnsweredCall {
        result: CallResult { call: call.id, name: call.name, text, is_error: true, recorded: Some(recorded) },
        id,
        status: ToolStatus::Error,
        coloured: None,
        metadata: Box::new(metadata),
        plan: None,
        violation: None,
        fault: None,
    }
}

/// A mistake in how a call was written is an error, not a denial, whatever the audited decision: no rule forbade it.
fn status(decision: Decision, code: Option<ErrorCode>, is_error: bool) -> ToolStatus {
    match (decision, code) {
        (_, Some(ErrorCode::Cancelled | ErrorCode::Interrupted)) => ToolStatus::Cancelled,
        (_, Some(ErrorCode::InvalidArguments | ErrorCode::UnknownTool | ErrorCode::InvalidPath)) => {
            ToolStatus::Error
        }
        (Decision::Denied, _) => ToolStatus::Denied,
        (Decision::Allowed, _) if !is_error => ToolStatus::Success,
        (Decision::Allowed | Decision::Error, _) => ToolStatus::Error,
    }
}

/// The structured part of an answer, if it is short.
fn short_structured(called: &CallResponse) -> Option<Value> {
    // It is about as long as the text, whose length is known without serialising.
    let structured =
        if called.answer.text.len() <= 2 * MAX_STRUCTURED_BYTES { called.structured() } else { None };
    structured.filter(|structured| structured.to_string().len() <= MAX_STRUCTURED_BYTES)
}

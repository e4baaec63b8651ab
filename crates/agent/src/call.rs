//! One call of a model: through the gate, watched, and answered whatever becomes of it.

use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::{CancellationToken, DropGuard};
use toolgate_gate::{Approver, CallOptions, Credential};
use toolgate_llm::{CallResult, ModelCall};
use toolgate_tools::{CallResponse, Fault, ProfiledGate, ProgressBuffer};
use toolgate_types::{CallId, Decision, ErrorCode, Failure, Stage, ToolCall};

use crate::arguments::{self, Read};
use crate::asking::Asking;
use crate::event::{ChatEvent, EventSink, MessageId, ResultMetadata, ToolStatus, no_input};
use crate::offer::Offer;
use crate::patience::Patience;
use crate::relay::Relay;
use crate::step::CallIds;

/// A longer structured answer is not told beside the text.
const LONGEST_STRUCTURED: usize = 4096;

/// Makes the calls of one message.
pub(crate) struct Calls<'a> {
    pub(crate) front: &'a Arc<ProfiledGate>,
    pub(crate) credential: &'a Credential,
    pub(crate) approver: &'a Arc<dyn Approver>,
    pub(crate) events: &'a EventSink,
    pub(crate) offer: &'a Offer,
    pub(crate) repair: bool,
    pub(crate) message_id: &'a MessageId,
    pub(crate) ids: &'a CallIds,
}

/// A call under way. It ends when this is dropped.
pub(crate) struct Started {
    call: ModelCall,
    id: CallId,
    relay: Relay,
    cancelled: CancellationToken,
    running: JoinHandle<CallResponse>,
    _ends_with_this: DropGuard,
}

/// What became of a call.
pub(crate) struct Answered {
    pub(crate) result: CallResult,
    id: CallId,
    status: ToolStatus,
    metadata: Box<ResultMetadata>,
    /// What it tried, if that was to leave its bounds.
    pub(crate) violation: Option<Failure>,
    /// Why no further call can succeed.
    pub(crate) fault: Option<Fault>,
}

impl Calls<'_> {
    /// Begins a call.
    pub(crate) fn start(&self, call: &ModelCall) -> Started {
        let (tool_call, refusal) = match self.read(call) {
            Ok(Read { arguments, repairs }) => {
                (ToolCall { repairs, ..self.tool_call(call, arguments) }, None)
            }
            Err(refusal) => (self.tool_call(call, as_written(call)), Some(refusal)),
        };
        self.tell_start(call, &tool_call);
        let cancelled = CancellationToken::new();
        let relay = Relay::new(self.events, self.message_id, tool_call.id);
        let options = CallOptions {
            progress: Some(relay.ear()),
            cancelled: cancelled.clone(),
            approver: Some(Arc::new(Asking {
                approver: Arc::clone(self.approver),
                events: Arc::clone(self.events),
                message_id: self.message_id.clone(),
                input: tool_call.arguments.clone(),
            })),
            ..CallOptions::default()
        };
        let (front, credential, id) = (Arc::clone(self.front), self.credential.clone(), tool_call.id);
        // In a task of its own: a panic in a tool costs its call, and calls that read can be made together.
        let running = tokio::spawn(async move {
            match refusal {
                None => front.call(tool_call, credential, options).await,
                Some((stage, failure)) => front.refuse(&tool_call, credential, stage, failure).await,
            }
        });
        let _ends_with_this = cancelled.clone().drop_guard();
        Started { call: call.clone(), id, relay, cancelled, running, _ends_with_this }
    }

    /// Waits for the end of a call. When nobody wants to wait any longer it is cancelled, and its end is soon.
    pub(crate) async fn finish(&self, started: Started, patience: &Patience) -> Answered {
        let Started { call, id, relay, cancelled, mut running, _ends_with_this } = started;
        let mut tick = interval(ProgressBuffer::FORWARD_INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let called = loop {
            tokio::select! {
                biased;
                called = &mut running => break called,
                _ = patience.over(), if !cancelled.is_cancelled() => cancelled.cancel(),
                _ = tick.tick() => relay.tell(),
            }
        };
        relay.tell();
        self.answered(call, id, called)
    }

    /// Answers a call that is not made, and writes that down.
    pub(crate) async fn not_made(&self, call: &ModelCall, failure: Failure) -> Answered {
        let tool_call = self.tool_call(call, as_written(call));
        self.tell_start(call, &tool_call);
        let called = self.front.refuse(&tool_call, self.credential.clone(), Stage::Registry, failure).await;
        self.answered(call.clone(), tool_call.id, Ok(called))
    }

    fn read(&self, call: &ModelCall) -> Result<Read, (Stage, Failure)> {
        match self.offer.find(&call.name) {
            Some(tool) => {
                arguments::read(call, tool, self.repair).map_err(|failure| (Stage::Validation, failure))
            }
            None if self.offer.definitions.is_empty() => Err((Stage::Registry, no_tools())),
            // The gate says what is wrong with the name, and refuses whatever the arguments are.
            None => Ok(Read { arguments: as_written(call), repairs: Vec::new() }),
        }
    }

    fn answered(&self, call: ModelCall, id: CallId, called: Result<CallResponse, JoinError>) -> Answered {
        let Ok(called) = called else { return crashed(call, id) };
        let mut facts = self.front.facts(&call.name, &called);
        // What the record says of a call is not the tool's to say.
        facts.retain(|name, _| !ResultMetadata::OWN.contains(&name.as_str()));
        let fault = self.front.fault(&called);
        answered(call, id, called, facts, fault)
    }

    fn tool_call(&self, call: &ModelCall, arguments: Value) -> ToolCall {
        let id = self.ids.get(&call.id).copied().unwrap_or_else(CallId::fresh);
        ToolCall { id, client_id: Some(call.id.clone()), ..ToolCall::new(call.name.clone(), arguments) }
    }

    fn tell_start(&self, call: &ModelCall, tool_call: &ToolCall) {
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

    /// Tells what became of a call.
    pub(crate) fn tell_result(&self, answered: Answered) {
        let Answered { result, id, status, metadata, .. } = answered;
        (self.events)(ChatEvent::ToolResult {
            message_id: self.message_id.clone(),
            tool_id: id,
            tool_name: result.name,
            status,
            result: result.text,
            metadata,
        });
    }
}

/// The arguments, whatever they are.
pub(crate) fn as_written(call: &ModelCall) -> Value {
    arguments::any(&call.arguments).unwrap_or_else(|| Value::String(call.arguments.clone()))
}

fn no_tools() -> Failure {
    Failure::new(ErrorCode::UnknownTool, "there are no tools in this conversation")
        .help("answer without them")
}

fn answered(
    call: ModelCall,
    id: CallId,
    mut called: CallResponse,
    facts: Map<String, Value>,
    fault: Option<Fault>,
) -> Answered {
    let failure = called.failed.take();
    let (stage, failure) = match failure {
        Some((stage, failure)) => (Some(stage.as_str()), Some(failure)),
        None => (None, None),
    };
    let code = failure.as_ref().map(|failure| failure.code);
    let metadata = ResultMetadata {
        call_id: id,
        duration_ms: u64::try_from(called.duration.as_millis()).unwrap_or(u64::MAX),
        decision: called.decision.as_str(),
        stage,
        code: code.map(ErrorCode::as_str),
        structured: short(&called),
        facts,
        whole: called.full_text.take(),
        operator_note: failure.as_ref().and_then(|failure| failure.operator_note.clone()),
    };
    let mut text = called.answer.text;
    if !called.attachments.is_empty() {
        let count = called.attachments.len();
        text.push_str(&format!("\n[{count} attached, which cannot be shown to you]"));
    }
    Answered {
        result: CallResult { call: call.id, name: call.name, text, is_error: called.answer.is_error },
        id,
        status: status(called.decision, code, called.answer.is_error),
        metadata: Box::new(metadata),
        violation: failure.filter(|failure| failure.code.is_violation()),
        fault,
    }
}

/// The answer to a call whose tool fell over. The gate has recorded it.
fn crashed(call: ModelCall, id: CallId) -> Answered {
    let text = "internal: the tool ended unexpectedly; whether it did anything is not known".to_owned();
    let metadata = ResultMetadata {
        call_id: id,
        duration_ms: 0,
        decision: Decision::Error.as_str(),
        stage: Some(Stage::Execution.as_str()),
        code: Some(ErrorCode::Internal.as_str()),
        structured: None,
        facts: Map::new(),
        whole: None,
        operator_note: None,
    };
    Answered {
        result: CallResult { call: call.id, name: call.name, text, is_error: true },
        id,
        status: ToolStatus::Error,
        metadata: Box::new(metadata),
        violation: None,
        fault: None,
    }
}

/// A mistake in how a call was written is an error and no denial, whatever the record calls it: nobody forbade anything.
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
fn short(called: &CallResponse) -> Option<Value> {
    // It is about as long as the text, and looking at that costs nothing.
    let structured =
        if called.answer.text.len() <= 2 * LONGEST_STRUCTURED { called.structured() } else { None };
    structured.filter(|structured| structured.to_string().len() <= LONGEST_STRUCTURED)
}

//! One request, one call of the gate; or the rest of a call that had to ask first.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ErrorData, InputRequiredResult, InputResponses,
    NumberOrString, ProgressToken, ProtocolVersion, RequestId,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use toolgate_gate::{ApprovalReply, ApprovalUnavailable, Approver, CallOptions, ResourceRequest, Tool};
use toolgate_tools::CallResponse;
use toolgate_types::{Category, ErrorCode, Failure, Stage, ToolCall, ToolClass};

use crate::mcp::answer::{Kept, answered};
use crate::mcp::approval::{
    Asked, Bond, CannotAsk, Found, Live, Parked, Parking, can_ask, input_required, reply_to,
};
use crate::mcp::connection::{Room, Size};
use crate::mcp::progress::Relay;
use crate::mcp::running::Running;
use crate::mcp::{McpHandler, Tray, Visitor, unguessable};

/// A longer name for progress is none.
const LONGEST_TOKEN: usize = 256;

/// What a client asks of the gate, by whichever method.
pub(crate) struct Wanted {
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    /// Whether a person may be asked about it.
    pub(crate) may_ask: bool,
    /// What it is to show, where it is about files by their addresses.
    pub(crate) browse: Option<ResourceRequest>,
    /// The deadline that the client sets.
    pub(crate) timeout: Option<Duration>,
    /// What a client of the newer era brings along when it comes again.
    pub(crate) state: Option<String>,
    pub(crate) responses: Option<InputResponses>,
}

/// How far a call came.
pub(crate) enum Step {
    /// To its end; with the tool, if there was one.
    Ended(Box<CallResponse>, Option<Arc<dyn Tool>>),
    /// To a question: the client has to come again with the answer.
    Asks(Box<InputRequiredResult>),
}

/// How a person can be asked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Never,
    /// With a request of our own, while the client waits.
    Meanwhile,
    /// With an answer that is a question.
    ComingAgain,
}

/// Whether a request speaks as clients do since everything is in each request.
pub(crate) fn is_newer(context: &RequestContext<RoleServer>) -> bool {
    let version = context.protocol_version();
    version.is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

impl Way {
    fn of(context: &RequestContext<RoleServer>) -> Self {
        match (can_ask(context.client_capabilities().as_ref()), is_newer(context)) {
            (false, _) => Self::Never,
            (true, false) => Self::Meanwhile,
            (true, true) => Self::ComingAgain,
        }
    }
}

impl McpHandler {
    pub(crate) async fn call(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
        visitor: Visitor,
    ) -> Result<CallToolResponse, ErrorData> {
        let (tool, arguments) = (request.name.into_owned(), request.arguments.unwrap_or_default());
        let timeout = match timeout(&context) {
            Ok(timeout) => timeout,
            Err(error) => {
                return Err(self.unreadable(tool, Value::Object(arguments), error, &context, &visitor).await);
            }
        };
        let wanted = Wanted {
            tool,
            arguments: Value::Object(arguments),
            may_ask: true,
            browse: None,
            timeout,
            state: request.request_state,
            responses: request.input_responses,
        };
        match self.advance(wanted, &context, &visitor).await? {
            Step::Ended(mut called, tool) => {
                let kept = self.kept(called.full_text.take(), visitor.binding).await;
                let answer = answered(*called, tool.as_ref().map(|tool| tool.spec()), kept);
                Ok(match context.extensions.get::<Tray>() {
                    Some(tray) => tray.hand_over(answer),
                    None => CallToolResult::from(answer),
                }
                .into())
            }
            Step::Asks(question) => Ok(CallToolResponse::InputRequired(*question)),
        }
    }

    /// Refuses a call whose request does not fit the protocol. It is recorded like every other.
    pub(crate) async fn unreadable(
        &self,
        tool: String,
        arguments: Value,
        error: ErrorData,
        context: &RequestContext<RoleServer>,
        visitor: &Visitor,
    ) -> ErrorData {
        let failure = Failure::new(ErrorCode::InvalidArguments, error.message.to_string())
            .operator_note("the parameters of the request are not those of a call");
        let call = named(tool, arguments, &context.id);
        let class = self.service.front().gate().tool(&call.tool).map(|tool| tool.spec().class);
        let credential = visitor.credential.clone();
        let refused = self.service.front().refuse(&call, credential, Stage::Validation, failure).await;
        self.service.metrics.count(class, &refused);
        error
    }

    /// Keeps what had to be cut, for its caller.
    async fn kept(&self, whole: Option<String>, owner: [u8; 32]) -> Option<Kept> {
        let whole = whole?;
        let service = Arc::clone(&self.service);
        let keep = move || {
            let uri = service.outputs.keep(owner, &whole)?;
            Some(Kept { uri, bytes: whole.len() as u64, kept_for: service.outputs.kept_for() })
        };
        tokio::task::spawn_blocking(keep).await.ok().flatten()
    }

    /// Begins a call, or goes on with one that had to ask.
    pub(crate) async fn advance(
        &self,
        wanted: Wanted,
        context: &RequestContext<RoleServer>,
        visitor: &Visitor,
    ) -> Result<Step, ErrorData> {
        let _under_way = self.service.calls.token();
        if let Some(running) = self.begun.take(&context.id) {
            return self.drive(running, context, visitor, None).await;
        }
        let Some(_place) = self.place(self.given_up(context), visitor).await else {
            return Err(self.crowded(wanted, context, visitor).await);
        };
        let way = if wanted.may_ask { Way::of(context) } else { Way::Never };
        let tool = self.arrived(&wanted.tool, context).await;
        let definition = || self.service.front().gate().definition(&wanted.tool);
        let Wanted { tool: name, arguments, browse, .. } = &wanted;
        let bond = (way == Way::ComingAgain)
            .then(|| Bond::new(visitor, name, definition(), arguments, browse.as_ref()));
        match (wanted.state.as_deref(), bond) {
            (Some(state), Some(bond)) => match self.find(state, bond, wanted.responses.clone()) {
                Ok(Found::Answered(parked, reply)) => {
                    let Parked { running, reply: waiting, .. } = *parked;
                    // A gate that gave up this instant says so itself.
                    let _ = waiting.send(reply);
                    self.drive(running, context, visitor, Some(bond)).await
                }
                Ok(Found::Ended(running)) => self.drive(*running, context, visitor, Some(bond)).await,
                Ok(Found::Unanswered(again)) => Ok(Step::Asks(again)),
                Ok(Found::Gone) => Err(self
                    .refuse(wanted, context, visitor, "the question was answered already, or is too old")
                    .await),
                Err(reason) => Err(self.refuse(wanted, context, visitor, &reason).await),
            },
            (_, bond) => {
                let running = self.begin(wanted, tool, way, context, visitor).await;
                self.drive(running, context, visitor, bond).await
            }
        }
    }

    fn find(&self, state: &str, bond: Bond, responses: Option<InputResponses>) -> Result<Found, String> {
        let id = self.service.seals.open(state, bond)?;
        Ok(self.service.parked.find(&id, reply_to(responses)))
    }

    /// The tool of this name, even if it is one that is still to come.
    async fn arrived(&self, name: &str, context: &RequestContext<RoleServer>) -> Option<Arc<dyn Tool>> {
        let gate = self.service.front().gate();
        match gate.tool(name) {
            Some(tool) => Some(tool),
            None => {
                tokio::select! {
                    () = self.service.complete() => {}
                    () = self.given_up(context) => {}
                }
                gate.tool(name)
            }
        }
    }

    async fn begin(
        &self,
        wanted: Wanted,
        tool: Option<Arc<dyn Tool>>,
        way: Way,
        context: &RequestContext<RoleServer>,
        visitor: &Visitor,
    ) -> Running {
        let is_quick = tool
            .as_ref()
            .is_none_or(|tool| matches!(tool.spec().category, Category::File | Category::Search));
        let is_change = tool.as_ref().is_some_and(|tool| tool.spec().class != ToolClass::Read);
        let size = if is_change { Size::Small } else { Size::Large };
        let room = match is_quick {
            true => Room::among(&self.connection, size, self.given_up(context)).await,
            false => Room::unlimited(),
        };
        let (approver, questions) = self.approver(way, context, visitor, &room);
        let listens = way == Way::ComingAgain || progress_token(context).is_some();
        let relay = listens.then(|| Arc::new(Relay::new()));
        // With its session, a call ends too.
        let cancelled = visitor.ended.child_token();
        if self.is_given_up(context) {
            // It comes to its end before it begins, and is recorded.
            cancelled.cancel();
        }
        let options = CallOptions {
            progress: relay.as_ref().map(|relay| relay.ear()),
            cancelled: cancelled.clone(),
            approver: Some(approver),
            contended: is_quick && self.connection.is_shared(size),
            resource: wanted.browse.clone(),
            timeout: wanted.timeout,
            ..CallOptions::default()
        };
        let class = tool.as_ref().map(|tool| tool.spec().class);
        let calling = Box::pin(self.calling(call_of(wanted, context), class, visitor, options));
        Running { calling, tool, cancelled, questions, relay, room }
    }

    /// A call of the gate, from its first stage to its end.
    pub(crate) fn calling(
        &self,
        call: ToolCall,
        class: Option<ToolClass>,
        visitor: &Visitor,
        options: CallOptions,
    ) -> impl Future<Output = Option<CallResponse>> + Send + use<> {
        let (service, credential) = (Arc::clone(&self.service), visitor.credential.clone());
        async move {
            let called = service.front().call(call, credential, options).await;
            service.metrics.count(class, &called);
            Some(called)
        }
    }

    fn approver(
        &self,
        way: Way,
        context: &RequestContext<RoleServer>,
        visitor: &Visitor,
        room: &Arc<Room>,
    ) -> (Arc<dyn Approver>, Option<mpsc::Receiver<Asked>>) {
        let room = Arc::clone(room);
        match way {
            Way::Never => (Arc::new(CannotAsk), None),
            Way::Meanwhile => {
                let (peer, connection) = (context.peer.clone(), Arc::clone(&self.connection));
                (Arc::new(Live { peer, connection, room }), None)
            }
            Way::ComingAgain => {
                let (questions, receiver) = mpsc::channel(1);
                (Arc::new(Parking { questions, room, may_last: visitor.has_session }), Some(receiver))
            }
        }
    }

    /// Waits for the end of a call, or for its question.
    async fn drive(
        &self,
        mut running: Running,
        context: &RequestContext<RoleServer>,
        visitor: &Visitor,
        bond: Option<Bond>,
    ) -> Result<Step, ErrorData> {
        let token = running.relay.clone().zip(progress_token(context));
        let mut telling: Pin<Box<dyn Future<Output = ()> + Send + '_>> = match &token {
            Some((relay, token)) => Box::pin(relay.tell(&context.peer, token.clone())),
            None => Box::pin(std::future::pending()),
        };
        let called = loop {
            tokio::select! {
                biased;
                called = &mut running.calling => break called,
                asked = Running::question(&mut running.questions) => match self.park(running, asked, bond) {
                    Ok(question) => return Ok(Step::Asks(question)),
                    Err(back) => running = *back,
                },
                () = &mut telling => {}
                () = self.given_up(context), if !running.cancelled.is_cancelled() => running.cancelled.cancel(),
            }
        };
        if let Some((relay, token)) = &token {
            Box::pin(relay.tell_rest(&context.peer, token)).await;
        }
        let called = called.ok_or_else(|| ErrorData::internal_error("the call ended unexpectedly", None))?;
        Self::leave_with_answer(context, &running.room);
        // As long as it waits, it has its place among the calls of its caller.
        self.room_to_leave(called.bytes(), context, visitor).await?;
        Ok(Step::Ended(Box::new(called), running.tool))
    }

    /// Gives room back once the answer has left. Wires of others hold back by themselves.
    pub(crate) fn leave_with_answer(context: &RequestContext<RoleServer>, room: &Room) {
        match context.extensions.get::<Tray>() {
            Some(tray) => tray.keep(room),
            None => room.leave(),
        }
    }

    fn is_given_up(&self, context: &RequestContext<RoleServer>) -> bool {
        context.ct.is_cancelled()
            || self.connection.gone.is_cancelled()
            || self.service.ending().is_cancelled()
    }

    pub(crate) async fn given_up(&self, context: &RequestContext<RoleServer>) {
        tokio::select! {
            () = context.ct.cancelled() => {}
            () = self.connection.gone.cancelled() => {}
            () = self.service.ending().cancelled() => {}
        }
    }

    /// Lets a call wait for its client to come again. Where it cannot, its question is answered with that, and it goes on.
    fn park(
        &self,
        running: Running,
        asked: Asked,
        bond: Option<Bond>,
    ) -> Result<Box<InputRequiredResult>, Box<Running>> {
        let Asked { question, reply } = asked;
        let full = |reply: oneshot::Sender<ApprovalReply>| {
            let nobody = ApprovalUnavailable::with_reason("too many calls wait for one already")
                .with_remedy("try again later");
            let _ = reply.send(ApprovalReply::Unavailable(nobody));
        };
        let sealed = unguessable().zip(bond).and_then(|(id, bond)| {
            let state = self.service.seals.seal(&id, bond)?;
            Some((id, bond.owner, state))
        });
        let Some((id, owner, state)) = sealed else {
            full(reply);
            return Err(Box::new(running));
        };
        let again = match input_required(&question, state) {
            Ok(again) => again,
            Err(nobody) => {
                let _ = reply.send(ApprovalReply::Unavailable(nobody));
                return Err(Box::new(running));
            }
        };
        let running = running.by_itself(&self.service.calls);
        let parked = Parked { owner, running, reply, again: again.clone() };
        self.service.parked.try_put(id, parked).map_err(|parked| {
            full(parked.reply);
            Box::new(parked.running)
        })?;
        Ok(Box::new(again))
    }

    /// Refuses a request whose state is not good for it. Nothing runs, and the record says that somebody tried.
    async fn refuse(
        &self,
        wanted: Wanted,
        context: &RequestContext<RoleServer>,
        visitor: &Visitor,
        reason: &str,
    ) -> ErrorData {
        let message = "this request state is not good for this call";
        let failure = Failure::new(ErrorCode::ApprovalDenied, message)
            .help("make the call again without a request state")
            .operator_note(format!("the request state was refused: {reason}"));
        let call = call_of(wanted, context);
        let told = failure.to_string();
        let class = self.service.front().gate().tool(&call.tool).map(|tool| tool.spec().class);
        let credential = visitor.credential.clone();
        let refused = self.service.front().refuse(&call, credential, Stage::Approval, failure).await;
        self.service.metrics.count(class, &refused);
        ErrorData::invalid_params(told, None)
    }
}

/// Where in `_meta` a client says how long a call may take.
const TIMEOUT_MS: &str = "timeoutMs";

/// The deadline that a request sets, in milliseconds.
fn timeout(context: &RequestContext<RoleServer>) -> Result<Option<Duration>, ErrorData> {
    let Some(value) = context.meta.get(TIMEOUT_MS) else { return Ok(None) };
    match value.as_u64() {
        Some(milliseconds @ 1..) => Ok(Some(Duration::from_millis(milliseconds))),
        _ => {
            let message = format!("`_meta.{TIMEOUT_MS}` is a whole number of milliseconds, at least 1");
            Err(ErrorData::invalid_params(message, None))
        }
    }
}

/// What progress is told under. A name that is longer than any message would be repeated with each of them.
fn progress_token(context: &RequestContext<RoleServer>) -> Option<ProgressToken> {
    let short = |token: &ProgressToken| match &token.0 {
        NumberOrString::Number(_) => true,
        NumberOrString::String(text) => text.len() <= LONGEST_TOKEN,
    };
    context.meta.get_progress_token().filter(short)
}

pub(crate) fn call_of(wanted: Wanted, context: &RequestContext<RoleServer>) -> ToolCall {
    named(wanted.tool, wanted.arguments, &context.id)
}

/// A call that the record knows by the name of its request, too.
pub(crate) fn named(tool: String, arguments: Value, id: &RequestId) -> ToolCall {
    let mut call = ToolCall::new(tool, arguments);
    call.client_id = Some(id.to_string());
    call
}

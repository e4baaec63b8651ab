//! One request, one call of the gate; or the rest of a call that had to ask first.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorData, InputRequiredResult, InputResponses, ProtocolVersion,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use toolgate_gate::{Approver, CallOptions, Nobody, Reply, Tool};
use toolgate_tools::Called;
use toolgate_types::{Category, ErrorCode, Failure, Stage, ToolCall};

use crate::mcp::answer::answered;
use crate::mcp::approval::{
    Asked, Bond, CannotAsk, Found, Live, Parked, Parking, can_ask, input_required, reply_to,
};
use crate::mcp::connection::Room;
use crate::mcp::progress::Relay;
use crate::mcp::running::Running;
use crate::mcp::{McpHandler, Visitor, unguessable};

/// What a client asks of the gate, by whichever method.
pub(crate) struct Wanted {
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    /// What a client of the newer era brings along when it comes again.
    pub(crate) state: Option<String>,
    pub(crate) responses: Option<InputResponses>,
}

/// How far a call came.
pub(crate) enum Step {
    /// To its end; with the tool, if there was one.
    Ended(Box<Called>, Option<Arc<dyn Tool>>),
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
        let arguments = request.arguments.unwrap_or_default();
        let wanted = Wanted {
            tool: request.name.into_owned(),
            arguments: Value::Object(arguments),
            state: request.request_state,
            responses: request.input_responses,
        };
        match self.advance(wanted, &context, &visitor).await? {
            Step::Ended(called, tool) => {
                let spec = tool.as_ref().map(|tool| tool.spec());
                Ok(answered(*called, spec, &self.service.outputs, visitor.binding).into())
            }
            Step::Asks(question) => Ok(CallToolResponse::InputRequired(*question)),
        }
    }

    /// Begins a call, or goes on with one that had to ask.
    pub(crate) async fn advance(
        &self,
        wanted: Wanted,
        context: &RequestContext<RoleServer>,
        visitor: &Visitor,
    ) -> Result<Step, ErrorData> {
        let _under_way = self.service.calls.token();
        let way = Way::of(context);
        let tool = self.arrived(&wanted.tool).await;
        let definition = || self.service.front().gate().definition(&wanted.tool);
        let bond = (way == Way::ComingAgain)
            .then(|| Bond::new(visitor.binding, &wanted.tool, definition(), &wanted.arguments));
        match (wanted.state.as_deref(), bond) {
            (Some(state), Some(bond)) => match self.find(state, bond, wanted.responses.clone()) {
                Ok(Found::Answered(parked, reply)) => {
                    let Parked { running, reply: waiting, .. } = *parked;
                    // A gate that gave up meanwhile says so itself.
                    let _ = waiting.send(reply);
                    self.drive(running, context, Some(bond)).await
                }
                Ok(Found::Unanswered(again)) => Ok(Step::Asks(again)),
                Ok(Found::Gone) => Err(self
                    .refuse(wanted, context, visitor, "the question was answered already, or is too old")
                    .await),
                Err(reason) => Err(self.refuse(wanted, context, visitor, &reason).await),
            },
            (_, bond) => {
                let running = self.begin(wanted, tool, way, context, visitor).await;
                self.drive(running, context, bond).await
            }
        }
    }

    fn find(&self, state: &str, bond: Bond, responses: Option<InputResponses>) -> Result<Found, String> {
        let id = self.service.seals.open(state, bond)?;
        Ok(self.service.parked.find(&id, reply_to(responses)))
    }

    /// The tool of this name, even if it is one that is still to come.
    async fn arrived(&self, name: &str) -> Option<Arc<dyn Tool>> {
        let gate = self.service.front().gate();
        match gate.tool(name) {
            Some(tool) => Some(tool),
            None => {
                self.service.complete().await;
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
        let front = Arc::clone(self.service.front());
        let is_quick = tool
            .as_ref()
            .is_none_or(|tool| matches!(tool.spec().category, Category::File | Category::Search));
        let room = if is_quick { Room::among(&self.connection).await } else { Room::unlimited() };
        let (approver, questions) = self.approver(way, context, &room);
        let listens = way == Way::ComingAgain || context.meta.get_progress_token().is_some();
        let relay = listens.then(Arc::<Relay>::default);
        let cancelled = CancellationToken::new();
        let options = CallOptions {
            progress: relay.as_ref().map(Relay::ear),
            cancelled: cancelled.clone(),
            approver: Some(approver),
            interrupted: None,
        };
        let call = call_of(wanted, context);
        let credential = visitor.credential.clone();
        let calling = Box::pin(async move { Some(front.call(call, credential, options).await) });
        Running { calling, tool, cancelled, questions, relay, room }
    }

    fn approver(
        &self,
        way: Way,
        context: &RequestContext<RoleServer>,
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
                (Arc::new(Parking { questions, room }), Some(receiver))
            }
        }
    }

    /// Waits for the end of a call, or for its question.
    async fn drive(
        &self,
        mut running: Running,
        context: &RequestContext<RoleServer>,
        bond: Option<Bond>,
    ) -> Result<Step, ErrorData> {
        let token = running.relay.clone().zip(context.meta.get_progress_token());
        let telling = async {
            match &token {
                Some((relay, token)) => relay.tell(&context.peer, token.clone()).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(telling);
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
            relay.tell_rest(&context.peer, token).await;
        }
        match context.ct.is_cancelled() {
            // Nobody waits for the answer, so it never comes to the wire.
            true => running.room.leave(),
            false => self.connection.keep(&context.id, &running.room),
        }
        let called = called.ok_or_else(|| ErrorData::internal_error("the call ended unexpectedly", None))?;
        self.service.metrics.count(running.tool.as_ref().map(|tool| tool.spec().class), &called);
        Ok(Step::Ended(Box::new(called), running.tool))
    }

    async fn given_up(&self, context: &RequestContext<RoleServer>) {
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
        let id = unguessable();
        let sealed = id
            .as_deref()
            .zip(bond)
            .and_then(|(id, bond)| self.service.seals.seal(id, bond, question.patience));
        let (Some(id), Some(state), true) = (id, sealed, self.service.parked.has_room()) else {
            let _ = reply
                .send(Reply::Nobody(Nobody::openly("too many calls wait for an answer; try again later")));
            return Err(Box::new(running));
        };
        let again = input_required(&question, state);
        let running = running.by_itself(&self.service.calls);
        self.service.parked.put(id, Parked { running, reply, again: again.clone() });
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
        self.service.front().gate().refuse(&call, visitor.credential.clone(), Stage::Approval, failure).await;
        ErrorData::invalid_params(told, None)
    }
}

fn call_of(wanted: Wanted, context: &RequestContext<RoleServer>) -> ToolCall {
    let mut call = ToolCall::new(wanted.tool, wanted.arguments);
    call.client_id = Some(context.id.to_string());
    call
}

//! One request, one call of the gate; or the continuation of a call that waited for an approval.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, ErrorData, InputRequiredResult, InputResponses, NumberOrString, ProgressToken,
    RequestId, ServerResult,
};
use serde_json::Value;
use tokio::sync::mpsc;
use toolgate_gate::{ApprovalReply, Approver, CallOptions, OutputObserver, ResourceRequest, Tool};
use toolgate_tools::CallResponse;
use toolgate_types::{Category, ErrorCode, Failure, Stage, ToolCall, ToolClass};

use crate::admission::{CallWeight, ConcurrencyPermit};
use crate::mcp::approval::{
    CannotAsk, DeferredApprover, ElicitingApprover, ParkedCall, ParkedLookup, ParkedQuestion,
    PendingQuestion, RequestBinding, can_ask, can_open, input_required, server_input_required,
};
use crate::mcp::log_messages::LogNotifier;
use crate::mcp::progress::ProgressNotifier;
use crate::mcp::request::RequestContext;
use crate::mcp::running_call::RunningCall;
use crate::mcp::tool_response::{OutputLink, to_response};
use crate::mcp::{ClientIdentity, McpHandler, RequestResult, random_id};

/// Longer progress tokens are ignored.
const MAX_PROGRESS_TOKEN_BYTES: usize = 256;

/// A call of the gate, from whichever MCP method.
pub(crate) struct CallRequest {
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    /// Whether a person may be asked for approval.
    pub(crate) may_ask: bool,
    /// The resource to return, for `resources/read` and `resources/list`.
    pub(crate) resource: Option<ResourceRequest>,
    /// The timeout that the client sets.
    pub(crate) timeout: Option<Duration>,
    /// Under the stateless protocol: the request state of a repeated request.
    pub(crate) state: Option<String>,
    pub(crate) responses: Option<InputResponses>,
}

/// How far a call got.
pub(crate) enum CallState {
    /// Ended, with the tool if there was one.
    Ended(Box<CallResponse>, Option<Arc<dyn Tool>>),
    /// The client has to repeat the request with an answer to the elicitation.
    InputRequired(Box<InputRequiredResult>),
}

/// How the person behind the client can be asked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ElicitationMode {
    None,
    /// With an `elicitation/create` request from the server, while the call waits (session protocol).
    ServerRequest,
    /// With an `input_required` result; the client repeats its request (stateless protocol).
    InputRequired,
}

impl ElicitationMode {
    fn of(context: &RequestContext) -> Self {
        match (can_ask(context.client_capabilities().as_deref()), context.is_stateless()) {
            (false, _) => Self::None,
            (true, false) => Self::ServerRequest,
            (true, true) => Self::InputRequired,
        }
    }
}

impl McpHandler {
    pub(crate) async fn call(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext,
    ) -> Result<RequestResult, ErrorData> {
        let visitor = &*context.identity;
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let gate = self.service.front().gate();
        // An indirect call is bound, asked about and answered as the one that it stands for.
        let named = gate.resolve_indirect(ToolCall::new(request.name.into_owned(), arguments));
        let ToolCall { tool, arguments, .. } = named;
        let timeout = match timeout(context) {
            Ok(timeout) => timeout,
            Err(error) => {
                return Err(self.unreadable(tool, arguments, error, context).await);
            }
        };
        let wanted = CallRequest {
            tool,
            arguments,
            may_ask: true,
            resource: None,
            timeout,
            state: request.request_state,
            responses: request.input_responses,
        };
        match self.advance(wanted, context, visitor).await? {
            CallState::Ended(mut called, tool) => {
                let kept = match called.full_text.take() {
                    Some(whole) => self.store_output(whole, visitor.binding).await,
                    None => None,
                };
                Ok(RequestResult::Call(to_response(*called, tool.as_ref().map(|tool| tool.spec()), kept)))
            }
            CallState::InputRequired(question) => {
                Ok(RequestResult::from(ServerResult::InputRequiredResult(*question)))
            }
        }
    }

    /// Refuses a call with invalid parameters. It is recorded like every other.
    pub(crate) async fn unreadable(
        &self,
        tool: String,
        arguments: Value,
        error: ErrorData,
        context: &RequestContext,
    ) -> ErrorData {
        let failure = Failure::new(ErrorCode::InvalidArguments, error.message.to_string())
            .operator_note("the parameters of the request are not those of a call");
        let call = tool_call(tool, arguments, &context.id);
        let credential = context.identity.credential.clone();
        let refused = self.service.front().refuse(&call, credential, Stage::Validation, failure).await;
        self.service.metrics.answered(&refused);
        error
    }

    /// Stores the full text of a truncated output for its caller.
    async fn store_output(&self, whole: String, owner: [u8; 32]) -> Option<OutputLink> {
        let service = Arc::clone(&self.service);
        let keep = move || {
            let uri = service.outputs.store(owner, &whole)?;
            let (bytes, kept_for) = (whole.len() as u64, service.outputs.retention_text());
            Some(OutputLink { uri, bytes, kept_for, envelope: service.front().envelope_property() })
        };
        tokio::task::spawn_blocking(keep).await.ok().flatten()
    }

    /// Starts a call, or continues one that waited for an approval.
    pub(crate) async fn advance(
        &self,
        wanted: CallRequest,
        context: &RequestContext,
        visitor: &ClientIdentity,
    ) -> Result<CallState, ErrorData> {
        let _under_way = self.service.calls.token();
        let _permit = match self.acquire_permit(self.cancelled(context), visitor).await {
            Ok(permit) => permit,
            Err(overload) => return Err(self.overloaded(overload, wanted, context, visitor).await),
        };
        let way = if wanted.may_ask { ElicitationMode::of(context) } else { ElicitationMode::None };
        let tool = self.wait_for_tool(&wanted.tool, context).await;
        let definition = || self.service.front().gate().definition(&wanted.tool);
        let CallRequest { tool: name, arguments, resource: browse, .. } = &wanted;
        let bond = (way == ElicitationMode::InputRequired)
            .then(|| RequestBinding::new(visitor, name, definition(), arguments, browse.as_ref()));
        match (wanted.state.as_deref(), bond) {
            (Some(state), Some(bond)) => match self.find(state, bond, wanted.responses.as_ref()) {
                Ok(ParkedLookup::Answered(parked)) => {
                    let ParkedCall { running, question, .. } = *parked;
                    question.answer(wanted.responses.as_ref());
                    self.drive(running, context, visitor, Some(bond)).await
                }
                Ok(ParkedLookup::Ended(running)) => self.drive(*running, context, visitor, Some(bond)).await,
                Ok(ParkedLookup::Unanswered(again)) => Ok(CallState::InputRequired(again)),
                Ok(ParkedLookup::Gone) => Err(self
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

    fn find(
        &self,
        state: &str,
        bond: RequestBinding,
        responses: Option<&InputResponses>,
    ) -> Result<ParkedLookup, String> {
        let id = self.service.sealer.open(state, bond)?;
        Ok(self.service.parked.find(&id, responses))
    }

    /// The tool of this name, waiting for the tools of its server if they are still loading.
    async fn wait_for_tool(&self, name: &str, context: &RequestContext) -> Option<Arc<dyn Tool>> {
        let gate = self.service.front().gate();
        match gate.tool(name) {
            Some(tool) => Some(tool),
            None => {
                tokio::select! {
                    () = self.service.wait_for_tool(name) => {}
                    () = self.cancelled(context) => {}
                }
                gate.tool(name)
            }
        }
    }

    async fn begin(
        &self,
        wanted: CallRequest,
        tool: Option<Arc<dyn Tool>>,
        way: ElicitationMode,
        context: &RequestContext,
        visitor: &ClientIdentity,
    ) -> RunningCall {
        let is_quick = tool
            .as_ref()
            .is_none_or(|tool| matches!(tool.spec().category, Category::File | Category::Search));
        let is_change = tool.as_ref().is_some_and(|tool| tool.spec().class != ToolClass::Read);
        let size = if is_change { CallWeight::Small } else { CallWeight::Large };
        let room = match is_quick {
            true => ConcurrencyPermit::acquire(&self.connection.limit, size, self.cancelled(context)).await,
            false => ConcurrencyPermit::unlimited(),
        };
        let (approver, questions) = self.approver(way, context, visitor, &room);
        let listens = way == ElicitationMode::InputRequired || progress_token(context).is_some();
        let relay = listens.then(|| Arc::new(ProgressNotifier::new()));
        // The call is cancelled when its session ends.
        let cancelled = visitor.ended.child_token();
        if self.is_cancelled(context) {
            // Started already cancelled, so that it is recorded.
            cancelled.cancel();
        }
        let logs = self.log_level(context).map(LogNotifier::new);
        let options = CallOptions {
            progress: relay.as_ref().map(|relay| relay.sink()),
            log: logs.as_ref().map(|logs| logs.sink()),
            cancelled: cancelled.clone(),
            approver: Some(approver),
            contended: is_quick && (context.is_contended || self.connection.limit.is_shared(size)),
            resource: wanted.resource.clone(),
            timeout: wanted.timeout,
            session_ended: Some(visitor.ended.clone()),
            output: Some(Arc::clone(&room) as Arc<dyn OutputObserver>),
            ..CallOptions::default()
        };
        let calling =
            self.service.call_futures.boxed(self.calling(call_of(wanted, context), visitor, options));
        RunningCall { future: calling, tool, cancelled, questions, progress: relay, logs, permit: room }
    }

    /// The future of a call through the gate.
    pub(crate) fn calling(
        &self,
        call: ToolCall,
        visitor: &ClientIdentity,
        mut options: CallOptions,
    ) -> impl Future<Output = Option<CallResponse>> + Send + use<> {
        let (service, credential) = (Arc::clone(&self.service), visitor.credential.clone());
        options.flow_session.clone_from(&visitor.flow_session);
        async move {
            let called = service.front().call(call, credential, options).await;
            service.metrics.answered(&called);
            Some(called)
        }
    }

    fn approver(
        &self,
        way: ElicitationMode,
        context: &RequestContext,
        visitor: &ClientIdentity,
        room: &Arc<ConcurrencyPermit>,
    ) -> (Arc<dyn Approver>, Option<mpsc::Receiver<PendingQuestion>>) {
        let (room, can_open) = (Arc::clone(room), can_open(context.client_capabilities().as_deref()));
        match way {
            ElicitationMode::None => (Arc::new(CannotAsk), None),
            ElicitationMode::ServerRequest => {
                let (client, connection) = (context.client.clone(), Arc::clone(&self.connection));
                (Arc::new(ElicitingApprover { client, connection, permit: room, can_open }), None)
            }
            ElicitationMode::InputRequired => {
                let (questions, receiver) = mpsc::channel(1);
                (
                    Arc::new(DeferredApprover {
                        questions,
                        permit: room,
                        may_last: visitor.has_session,
                        can_open,
                    }),
                    Some(receiver),
                )
            }
        }
    }

    /// Waits for a call to end or to ask a question.
    async fn drive(
        &self,
        mut running: RunningCall,
        context: &RequestContext,
        visitor: &ClientIdentity,
        bond: Option<RequestBinding>,
    ) -> Result<CallState, ErrorData> {
        let token = running.progress.clone().zip(progress_token(context));
        let mut telling: Pin<Box<dyn Future<Output = ()> + Send + '_>> = match &token {
            Some((relay, token)) => Box::pin(relay.forward(&context.client, token.clone())),
            None => Box::pin(std::future::pending()),
        };
        let logs = running.logs.clone();
        let mut logging: Pin<Box<dyn Future<Output = ()> + Send + '_>> = match &logs {
            Some(logs) => Box::pin(logs.forward(&context.client)),
            None => Box::pin(std::future::pending()),
        };
        let called = loop {
            tokio::select! {
                biased;
                called = &mut running.future => break called,
                asked = RunningCall::question(&mut running.questions) => match self.park(running, asked, bond, can_open(context.client_capabilities().as_deref())) {
                    Ok(question) => return Ok(CallState::InputRequired(question)),
                    Err(back) => running = *back,
                },
                () = &mut telling => {}
                () = &mut logging => {}
                () = self.cancelled(context), if !running.cancelled.is_cancelled() => running.cancelled.cancel(),
            }
        };
        self.service.call_futures.keep(running.future);
        drop(logging);
        if let Some(logs) = &logs {
            Box::pin(logs.flush(&context.client)).await;
        }
        if let Some((relay, token)) = &token {
            Box::pin(relay.flush(&context.client, token)).await;
        }
        let called = called.ok_or_else(|| ErrorData::internal_error("the call ended unexpectedly", None))?;
        // Over stdio, until the response is written. An HTTP connection has one response, which its client may never read.
        match self.is_shared() {
            true => running.permit.release(),
            false => context.hold_permit(&running.permit),
        }
        // While waiting for memory, the call still counts against its caller's concurrency limit.
        self.acquire_response_memory(called.bytes(), context, visitor).await?;
        Ok(CallState::Ended(Box::new(called), running.tool))
    }

    fn is_cancelled(&self, context: &RequestContext) -> bool {
        context.cancelled.is_cancelled()
            || self.connection.gone.is_cancelled()
            || self.service.ending().is_cancelled()
    }

    pub(crate) async fn cancelled(&self, context: &RequestContext) {
        tokio::select! {
            () = context.cancelled.cancelled() => {}
            () = self.connection.gone.cancelled() => {}
            () = self.service.ending().cancelled() => {}
        }
    }

    /// Parks a call until its client repeats the request. If it cannot be parked, its question is answered as unavailable
    /// and the call continues.
    fn park(
        &self,
        running: RunningCall,
        asked: PendingQuestion,
        bond: Option<RequestBinding>,
        can_open: bool,
    ) -> Result<Box<InputRequiredResult>, Box<RunningCall>> {
        let sealed = random_id().zip(bond).and_then(|(id, bond)| {
            let state = self.service.sealer.seal(&id, bond)?;
            Some((id, bond.owner, state))
        });
        let (again, question) = match asked {
            PendingQuestion::Approval(question, reply) => {
                let state = sealed.as_ref().map(|(_, _, state)| input_required(&question, state.clone()));
                match state.transpose() {
                    Ok(again) => (again, ParkedQuestion::Approval(reply)),
                    Err(nobody) => {
                        let _ = reply.send(ApprovalReply::Unavailable(nobody));
                        return Err(Box::new(running));
                    }
                }
            }
            PendingQuestion::Server(question, answer) => {
                let state = sealed.as_ref().map(|(_, _, state)| state.clone());
                let again = state.and_then(|state| server_input_required(&question, can_open, state));
                (again, ParkedQuestion::Server(question, answer))
            }
        };
        let (Some((id, owner, _)), Some(again)) = (sealed, again) else {
            question.refuse();
            return Err(Box::new(running));
        };
        let running = running.detach(&self.service.calls);
        let parked = ParkedCall { owner, running, question, response: again.clone() };
        self.service.parked.try_put(id, parked).map_err(|parked| {
            parked.question.refuse();
            Box::new(parked.running)
        })?;
        Ok(Box::new(again))
    }

    /// Refuses a request with an invalid request state. Nothing runs, but the attempt is recorded.
    async fn refuse(
        &self,
        wanted: CallRequest,
        context: &RequestContext,
        visitor: &ClientIdentity,
        reason: &str,
    ) -> ErrorData {
        let message = "this request state is not good for this call";
        let failure = Failure::new(ErrorCode::ApprovalDenied, message)
            .help("make the call again without a request state")
            .operator_note(format!("the request state was refused: {reason}"));
        let call = call_of(wanted, context);
        let told = failure.to_string();
        let credential = visitor.credential.clone();
        let refused = self.service.front().refuse(&call, credential, Stage::Approval, failure).await;
        self.service.metrics.answered(&refused);
        ErrorData::invalid_params(told, None)
    }
}

/// The key in `_meta` for a call's timeout.
const TIMEOUT_MS: &str = "timeoutMs";

/// The timeout that a request sets, in milliseconds.
fn timeout(context: &RequestContext) -> Result<Option<Duration>, ErrorData> {
    let Some(value) = context.meta.get(TIMEOUT_MS) else { return Ok(None) };
    match value.as_u64() {
        Some(milliseconds @ 1..) => Ok(Some(Duration::from_millis(milliseconds))),
        _ => {
            let message = format!("`_meta.{TIMEOUT_MS}` is a whole number of milliseconds, at least 1");
            Err(ErrorData::invalid_params(message, None))
        }
    }
}

/// The progress token. Every notification repeats it, so an oversized one is ignored.
fn progress_token(context: &RequestContext) -> Option<ProgressToken> {
    let short = |token: &ProgressToken| match &token.0 {
        NumberOrString::Number(_) => true,
        NumberOrString::String(text) => text.len() <= MAX_PROGRESS_TOKEN_BYTES,
    };
    context.meta.get_progress_token().filter(short)
}

pub(crate) fn call_of(wanted: CallRequest, context: &RequestContext) -> ToolCall {
    tool_call(wanted.tool, wanted.arguments, &context.id)
}

/// A call with the request's id, which the record contains too.
pub(crate) fn tool_call(tool: String, arguments: Value, id: &RequestId) -> ToolCall {
    let mut call = ToolCall::new(tool, arguments);
    call.client_id = Some(id.to_string());
    call
}

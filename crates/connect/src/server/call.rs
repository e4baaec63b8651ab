//! A call of a server's tool.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolResult, ClientRequest, CompletionInfo, GetExtensions as _, GetPromptResult, InputRequest,
    InputRequiredResult, InputResponses, JsonObject, ReadResourceResult, ServerResult,
};
use rmcp::service::{PeerRequestOptions, RequestHandle, RoleClient, ServiceError};
use tokio::runtime::Handle;
use toolgate_gate::CallContext;
use toolgate_oauth::LoginNeed;
use toolgate_types::{CancellationReason, ErrorCode, Failure, Sha256};

use super::connection::root_cause;
use super::requests::{add_responses, request_of, usable_uri_of};
use super::restricted_client::ask_person;
use super::tool_listing::escape_untrusted;
use super::{Server, ServerConnection, ServerState, locked};
use crate::pins::KnownLifecycle;
use crate::surface::SUBSCRIBE_RESOURCE;
use crate::wire::{ProgressRoute, is_expired, login_need, set_level_request, want_log_messages};

/// How long sending a cancellation may take.
const CANCEL_NOTICE_TIMEOUT: Duration = Duration::from_secs(1);

/// How often a server may ask for input before it answers.
const MAX_INPUT_ROUNDS: usize = 8;

/// The most questions in one request for input.
const MAX_INPUT_REQUESTS: usize = 8;

/// How long the server may take to change its log level.
const SET_LEVEL_TIMEOUT: Duration = Duration::from_secs(2);

/// A call to a server.
#[derive(Clone)]
pub(crate) struct UpstreamCall {
    /// The name of the definition.
    pub(crate) tool: String,
    /// The digest of the approved definition.
    pub(crate) definition: Sha256,
    pub(crate) arguments: JsonObject,
}

impl Server {
    /// Calls a tool and waits for the result, until the call's deadline.
    pub(crate) async fn call(
        self: &Arc<Self>,
        request: UpstreamCall,
        context: &CallContext,
    ) -> Result<UpstreamAnswer, Failure> {
        let _under_way = self.start_call()?;
        let caller = self.caller_with_own_login(context);
        let connection = match caller {
            Some(caller) => with_deadline(context, self.caller_connection(caller)).await??,
            None => with_deadline(context, self.connection()).await??,
        };
        if connection.offers(&request.tool) != Some(request.definition) {
            return Err(self.definition_changed());
        }
        let _permit = with_deadline(context, connection.calls.acquire()).await?;
        let answer = self.ask(&connection, request, context).await;
        quarantine_leftovers(&connection).await?;
        answer
    }

    /// Counts a call as in flight, unless the server is retired.
    fn start_call(&self) -> Result<InFlightGuard<'_>, Failure> {
        // Counted before `retired` is checked, so that a task that waits for the last call misses none.
        self.in_flight.send_modify(|calls| *calls += 1);
        let under_way = InFlightGuard(self);
        if !self.is_retired() {
            return Ok(under_way);
        }
        let message = format!("the server `{}` takes no more calls", self.name);
        Err(Failure::new(ErrorCode::ServerUnavailable, message)
            .help("list the tools again, and repeat the call if this one is still there")
            .operator_note(format!(
                "mcp server `{}`: it was removed, or is declared otherwise now",
                self.name
            )))
    }

    /// The connection, once there is one.
    async fn connection(&self) -> Result<Arc<ServerConnection>, Failure> {
        let mut state = self.state.subscribe();
        let settled = state.wait_for(|state| match state {
            ServerState::Starting => false,
            // A closed connection is about to be replaced.
            ServerState::Ready(connection) => !connection.is_closed(),
            ServerState::Down { .. } => true,
        });
        let settled = settled.await;
        match settled.as_deref() {
            Ok(ServerState::Ready(connection)) => Ok(Arc::clone(connection)),
            Ok(ServerState::Down { login: Some(need), .. }) => Err(self.login_failure(need, None)),
            Ok(ServerState::Down { reason, public, said, .. }) => {
                Err(self.unavailable(reason, Some(public), said.as_deref()))
            }
            _ => Err(self.unavailable("it was stopped", None, None)),
        }
    }

    /// Sends a call, and answers what the server asks for on the way (stateless protocol), if it may ask.
    async fn ask(
        &self,
        connection: &ServerConnection,
        request: UpstreamCall,
        context: &CallContext,
    ) -> Result<UpstreamAnswer, Failure> {
        if request.tool == SUBSCRIBE_RESOURCE {
            let uri = usable_uri_of(&request.arguments)?;
            with_deadline(context, self.subscribe(connection, &uri)).await??;
            return Ok(UpstreamAnswer::Subscribed);
        }
        self.raise_log_level(connection, context).await;
        let again = self.settings().elicitation.then(|| request.clone());
        let mut answer = self.send(connection, request_of(request)?, context).await?;
        for _ in 0..MAX_INPUT_ROUNDS {
            let (Ok(ServerResult::InputRequiredResult(wanted)), Some(again)) = (&answer, &again) else {
                break;
            };
            let responses = with_deadline(context, self.responses(wanted, context)).await??;
            let mut repeated = request_of(again.clone())?;
            add_responses(&mut repeated, responses, wanted.request_state.clone());
            answer = self.send(connection, repeated, context).await?;
        }
        self.read(connection, context, answer)
    }

    /// Sends one request and waits for its answer.
    async fn send(
        &self,
        connection: &ServerConnection,
        mut request: ClientRequest,
        context: &CallContext,
    ) -> Result<Result<ServerResult, ServiceError>, Failure> {
        if let Some(progress) = &context.progress {
            request.extensions_mut().insert(ProgressRoute(Arc::clone(progress)));
        }
        if let Some(log) = context.log.as_ref().filter(|_| connection.lifecycle == KnownLifecycle::Stateless)
        {
            want_log_messages(&mut request, log.level);
        }
        let active = connection.active.begin(context);
        request.extensions_mut().insert(active.id());
        let sending = connection.peer.send_cancellable_request(request, PeerRequestOptions::no_options());
        let answers_before = connection.answers();
        let handle = with_deadline(context, sending)
            .await?
            .map_err(|error| self.connection_lost(connection, context, &error))?;
        let mut asked = SentRequest { handle: Some(handle), runtime: self.options.runtime.clone() };
        let answer = with_deadline(context, asked.response()).await;
        match answer {
            Ok(answer) => {
                drop(active);
                connection.note_answered();
                Ok(answer)
            }
            Err(failure) => {
                asked.cancel().await;
                // A cancellation by the caller says nothing about the server.
                if failure.code == ErrorCode::Timeout {
                    connection.note_timed_out(answers_before);
                }
                Err(failure)
            }
        }
    }

    /// The person's answers to what a server asks for. It may ask the person, and nothing else of the client.
    async fn responses(
        &self,
        wanted: &InputRequiredResult,
        context: &CallContext,
    ) -> Result<InputResponses, Failure> {
        let requests = wanted.input_requests.iter().flatten();
        let elicitor = context.elicitor.as_ref();
        let mut responses = InputResponses::new();
        for (key, request) in requests {
            let (InputRequest::Elicitation(request), Some(elicitor)) = (request, elicitor) else {
                return Err(self
                    .refused("it wants something of the client that a server behind the gate may not have"));
            };
            if responses.len() >= MAX_INPUT_REQUESTS {
                return Err(self.refused("it asks too many questions at once"));
            }
            let answer = ask_person(elicitor, self.name.as_str(), Some(key), &request.params).await;
            responses.insert(key.clone(), serde_json::to_value(answer).unwrap_or_default());
        }
        Ok(responses)
    }

    /// Asks a server of the session protocol for log messages, if the client of the call wants more than clients before.
    async fn raise_log_level(&self, connection: &ServerConnection, context: &CallContext) {
        let Some(log) = &context.log else { return };
        if connection.lifecycle == KnownLifecycle::Stateless || !connection.can_log {
            return;
        }
        let mut current = connection.log_level.lock().await;
        if current.is_some_and(|current| current <= log.level) {
            return;
        }
        let sent = connection.peer.send_request(set_level_request(log.level));
        // Without an answer there are no messages; the call goes on.
        let _ = tokio::time::timeout(SET_LEVEL_TIMEOUT, sent).await;
        *current = Some(log.level);
    }

    fn read(
        &self,
        connection: &ServerConnection,
        context: &CallContext,
        answer: Result<ServerResult, ServiceError>,
    ) -> Result<UpstreamAnswer, Failure> {
        match answer {
            Ok(ServerResult::CallToolResult(result)) => Ok(UpstreamAnswer::Tool(result)),
            Ok(ServerResult::GetPromptResult(result)) => Ok(UpstreamAnswer::Prompt(result)),
            Ok(ServerResult::ReadResourceResult(result)) => Ok(UpstreamAnswer::Resource(result)),
            Ok(ServerResult::CompleteResult(result)) => Ok(UpstreamAnswer::Completion(result.completion)),
            Ok(ServerResult::InputRequiredResult(_)) if self.settings().elicitation => {
                Err(self.refused("it does not stop asking"))
            }
            Ok(ServerResult::InputRequiredResult(_)) => {
                Err(self.refused("it wants to ask somebody, which this server may not"))
            }
            Ok(ServerResult::CreateTaskResult(_)) => {
                Err(self.refused("it answered with a task, which was not asked for"))
            }
            Ok(_) => Err(Failure::new(
                ErrorCode::OutputInvalid,
                format!("the server `{}` answered with something that is not an answer", self.name),
            )),
            Err(ServiceError::McpError(error)) => {
                Err(self.refused(&crate::tool_result::quote_untrusted(&error.message)))
            }
            Err(error) => Err(self.connection_lost(connection, context, &error)),
        }
    }

    fn refused(&self, words: &str) -> Failure {
        Failure::new(
            ErrorCode::CommandFailed,
            format!("the server `{}` refused the call: {words}", self.name),
        )
        .detail("server", self.name.as_str())
    }

    /// The connection broke while a call was in flight.
    fn connection_lost(
        &self,
        connection: &ServerConnection,
        context: &CallContext,
        error: &ServiceError,
    ) -> Failure {
        if let Some(need) = login_need(error) {
            // Otherwise the login is good, and the server wants more for this one call.
            if matches!(need, LoginNeed::Withdrawn | LoginNeed::NotOurs) {
                connection.mark_broken("its login is taken no more");
            }
            return self.login_failure(&need, self.caller_with_own_login(context));
        }
        match error {
            error if is_expired(error) => connection.mark_broken("its session had run out"),
            ServiceError::TransportSend(_) => connection.note_send_failed(),
            _ => {}
        }
        let reason = connection.close_reason.reason().unwrap_or_else(|| escape_untrusted(&root_cause(error)));
        let next = if self.is_retired() || self.stop.is_cancelled() {
            "the server was ended"
        } else {
            "the server is started again"
        };
        Failure::new(
            ErrorCode::Interrupted,
            format!("the server `{}` went away before it answered", self.name),
        )
        .help(format!("what the call did is not known; {next}"))
        .operator_note(format!("mcp server `{}`: {reason}", self.name))
        .terminal_note(toolgate_text::escape_control_chars(&connection.stderr_tail()))
    }

    /// Why it failed; `None` if it is up, or being started.
    pub(crate) fn failure(&self) -> Option<Failure> {
        match &*self.state.borrow() {
            ServerState::Down { login: Some(need), .. } => Some(self.login_failure(need, None)),
            ServerState::Down { reason, public, said, .. } => {
                Some(self.unavailable(reason, Some(public), said.as_deref()))
            }
            ServerState::Ready(_) | ServerState::Starting => None,
        }
    }

    /// Why none of its tools can be called now; `None` if it is up.
    pub(crate) fn not_up(&self) -> Option<Failure> {
        let state = self.state.borrow();
        match &*state {
            ServerState::Ready(connection) if !connection.is_closed() => None,
            ServerState::Down { .. } => {
                drop(state);
                self.failure()
            }
            ServerState::Ready(_) | ServerState::Starting => {
                drop(state);
                let error = locked(&self.last_error).clone();
                let reason = error.as_deref().unwrap_or("it is being started");
                Some(self.unavailable(reason, Some("it is being started"), None))
            }
        }
    }

    /// `reason` is for the operator, and may quote the server; `public` is for the caller.
    pub(super) fn unavailable(&self, reason: &str, public: Option<&str>, said: Option<&str>) -> Failure {
        let public = public.map(|public| format!(": {public}")).unwrap_or_default();
        let message = format!("the server `{}` is not running{public}", self.name);
        let failure = Failure::new(ErrorCode::ServerUnavailable, message)
            .help("try again later, or go on without this tool; the operator is told more")
            .operator_note(format!("mcp server `{}`: {reason}", self.name));
        match said {
            Some(said) => failure.terminal_note(said),
            None => failure,
        }
    }

    fn definition_changed(&self) -> Failure {
        let note = format!(
            "the definition is no longer the one that was agreed to; see `toolgate mcp approve {}`",
            self.name
        );
        Failure::new(ErrorCode::NotPermitted, "this tool is suspended until an operator agrees to it again")
            .help("go on without this tool")
            .operator_note(note)
    }
}

/// What a server answered.
pub(crate) enum UpstreamAnswer {
    Tool(CallToolResult),
    Prompt(GetPromptResult),
    Resource(ReadResourceResult),
    Completion(CompletionInfo),
    Subscribed,
}

/// Waits for a future until the call is cancelled or its deadline passes.
async fn with_deadline<T>(context: &CallContext, something: impl Future<Output = T>) -> Result<T, Failure> {
    context.stop.wait(something).await.map_err(|reason| stop_failure(reason, context))
}

fn stop_failure(reason: CancellationReason, context: &CallContext) -> Failure {
    match reason {
        CancellationReason::Cancelled => Failure::new(ErrorCode::Cancelled, "the call was cancelled"),
        CancellationReason::Deadline => {
            let seconds = context.limits.timeout.as_secs_f32();
            Failure::new(ErrorCode::Timeout, format!("the server did not answer within {seconds} seconds"))
        }
    }
}

/// Counts a call in flight until it is dropped.
struct InFlightGuard<'s>(&'s Server);

impl Drop for InFlightGuard<'_> {
    fn drop(&mut self) {
        self.0.in_flight.send_modify(|calls| *calls = calls.saturating_sub(1));
    }
}

/// Quarantines what the process left under protected names before the result is returned, whatever the tool's class: the class is only the operator's
/// claim, and the process can write.
async fn quarantine_leftovers(connection: &ServerConnection) -> Result<(), Failure> {
    let Some(process) = &connection.process else { return Ok(()) };
    let taken = process.scan().await?;
    if taken.is_empty() {
        return Ok(());
    }
    Err(Failure::new(
        ErrorCode::DeniedPath,
        "the server left files under protected names, which were taken away",
    )
    .help("do not make hooks or configuration that other programs obey")
    .detail("quarantined", taken))
}

/// A request that was sent. Dropping it before the response sends a cancellation.
struct SentRequest {
    handle: Option<RequestHandle<RoleClient>>,
    runtime: Handle,
}

impl SentRequest {
    async fn response(&mut self) -> Result<ServerResult, ServiceError> {
        let Some(handle) = &mut self.handle else { return Err(ServiceError::TransportClosed) };
        let answer = (&mut handle.rx).await;
        self.handle = None;
        answer.unwrap_or(Err(ServiceError::TransportClosed))
    }

    async fn cancel(&mut self) {
        if let Some(handle) = self.handle.take() {
            let _ = tokio::time::timeout(
                CANCEL_NOTICE_TIMEOUT,
                handle.cancel(Some("the call was given up".to_owned())),
            )
            .await;
        }
    }
}

impl Drop for SentRequest {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            drop(self.runtime.spawn(handle.cancel(Some("the call was given up".to_owned()))));
        }
    }
}

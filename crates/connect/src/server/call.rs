//! One call of a server's tool.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, JsonObject, ServerResult,
};
use rmcp::service::{PeerRequestOptions, RequestHandle, RoleClient, ServiceError};
use tokio::runtime::Handle;
use toolgate_gate::CallContext;
use toolgate_types::{CancellationReason, ErrorCode, Failure, Sha256};

use super::connection::innermost;
use super::listing::shown;
use super::{Connection, Server, State};
use crate::wire::{Told, is_expired};

/// How often it is asked whether a call must end.
const ASKING: Duration = Duration::from_millis(50);

/// How long a server is given to hear that a call was given up.
const HEARING: Duration = Duration::from_secs(1);

/// What is asked of a server.
pub(crate) struct Request {
    /// The server's own name for the tool.
    pub(crate) tool: String,
    /// The definition that was agreed to.
    pub(crate) definition: Sha256,
    pub(crate) arguments: JsonObject,
}

impl Server {
    /// Calls a tool and waits for what the server says, for as long as the call may take.
    pub(crate) async fn call(
        &self,
        request: Request,
        context: &CallContext,
    ) -> Result<CallToolResult, Failure> {
        let _under_way = self.begin()?;
        let connection = until(context, self.connection()).await??;
        if connection.offers(&request.tool) != Some(request.definition) {
            return Err(self.no_longer_agreed());
        }
        let _permit = until(context, connection.calls.acquire()).await?;
        let answer = self.ask(&connection, request, context).await;
        look_after(&connection).await?;
        answer
    }

    /// Notes that a call is under way, unless no more are taken.
    fn begin(&self) -> Result<UnderWay<'_>, Failure> {
        // Counted before it is asked: whoever waits for the last call misses none.
        self.under_way.send_modify(|calls| *calls += 1);
        let under_way = UnderWay(self);
        if !self.is_retired() {
            return Ok(under_way);
        }
        let message = format!("the server `{}` takes no more calls", self.name);
        Err(Failure::new(ErrorCode::IoError, message)
            .help("list the tools again, and repeat the call if this one is still there")
            .operator_note(format!(
                "mcp server `{}`: it was removed, or is declared otherwise now",
                self.name
            )))
    }

    /// The connection, as soon as there is one.
    async fn connection(&self) -> Result<Arc<Connection>, Failure> {
        let mut state = self.state.subscribe();
        let settled = state.wait_for(|state| match state {
            State::Starting => false,
            // One that is over is about to be replaced.
            State::Ready(connection) => !connection.is_over(),
            State::Down { .. } => true,
        });
        let settled = settled.await;
        match settled.as_deref() {
            Ok(State::Ready(connection)) => Ok(Arc::clone(connection)),
            Ok(State::Down { reason, said, .. }) => Err(self.down(reason, said.as_deref())),
            _ => Err(self.down("it was stopped", None)),
        }
    }

    async fn ask(
        &self,
        connection: &Connection,
        request: Request,
        context: &CallContext,
    ) -> Result<CallToolResult, Failure> {
        let params = CallToolRequestParams::new(request.tool).with_arguments(request.arguments);
        let mut request = CallToolRequest::new(params);
        if let Some(progress) = &context.progress {
            request.extensions.insert(Told(Arc::clone(progress)));
        }
        let sending = connection.peer.send_cancellable_request(
            ClientRequest::CallToolRequest(request),
            PeerRequestOptions::no_options(),
        );
        let answers_before = connection.answers();
        let handle = until(context, sending).await?.map_err(|error| self.lost(connection, &error))?;
        let mut asked = Asked { handle: Some(handle), runtime: self.options.runtime.clone() };
        let answer = until(context, asked.answer()).await;
        match answer {
            Ok(answer) => {
                connection.answered();
                self.read(connection, answer)
            }
            Err(failure) => {
                asked.give_up().await;
                // Who cancels a call says nothing about the server.
                if failure.code == ErrorCode::Timeout {
                    connection.ran_out_of_time(answers_before);
                }
                Err(failure)
            }
        }
    }

    fn read(
        &self,
        connection: &Connection,
        answer: Result<ServerResult, ServiceError>,
    ) -> Result<CallToolResult, Failure> {
        match answer {
            Ok(ServerResult::CallToolResult(result)) => Ok(result),
            Ok(ServerResult::InputRequiredResult(_)) => {
                Err(self.said_no("it wants to ask somebody, which a server behind the gate may not"))
            }
            Ok(ServerResult::CreateTaskResult(_)) => {
                Err(self.said_no("it answered with a task, which was not asked for"))
            }
            Ok(_) => Err(Failure::new(
                ErrorCode::OutputInvalid,
                format!("the server `{}` answered with something that is not an answer", self.name),
            )),
            Err(ServiceError::McpError(error)) => Err(self.said_no(&crate::answer::stranger(&error.message))),
            Err(error) => Err(self.lost(connection, &error)),
        }
    }

    fn said_no(&self, words: &str) -> Failure {
        Failure::new(
            ErrorCode::CommandFailed,
            format!("the server `{}` refused the call: {words}", self.name),
        )
        .detail("server", self.name.as_str())
    }

    /// The connection broke while a call was under way.
    fn lost(&self, connection: &Connection, error: &ServiceError) -> Failure {
        match error {
            error if is_expired(error) => connection.give_up_on_it("its session had run out"),
            ServiceError::TransportSend(_) => connection.could_not_send(),
            _ => {}
        }
        let reason = connection.ending.reason().unwrap_or_else(|| shown(&innermost(error)));
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
        .terminal_note(toolgate_tools::escape_control_chars(&connection.errors()))
    }

    fn down(&self, reason: &str, said: Option<&str>) -> Failure {
        let failure = Failure::new(ErrorCode::IoError, format!("the server `{}` is not running", self.name))
            .help("try again later, or go on without this tool; the operator is told more")
            .operator_note(format!("mcp server `{}`: {reason}", self.name));
        match said {
            Some(said) => failure.terminal_note(said),
            None => failure,
        }
    }

    fn no_longer_agreed(&self) -> Failure {
        let note = format!(
            "the definition is no longer the one that was agreed to; see `toolgate mcp approve {}`",
            self.name
        );
        Failure::new(ErrorCode::NotPermitted, "this tool is suspended until an operator agrees to it again")
            .help("go on without this tool")
            .operator_note(note)
    }
}

/// Waits for something for as long as the call may take.
async fn until<T>(context: &CallContext, something: impl Future<Output = T>) -> Result<T, Failure> {
    let mut something = std::pin::pin!(something);
    loop {
        tokio::select! {
            biased;
            done = &mut something => return Ok(done),
            () = context.cancelled.cancelled() => return Err(must_end(CancellationReason::Cancelled, context)),
            () = tokio::time::sleep(ASKING) => context.stop.check().map_err(|reason| must_end(reason, context))?,
        }
    }
}

fn must_end(reason: CancellationReason, context: &CallContext) -> Failure {
    match reason {
        CancellationReason::Cancelled => Failure::new(ErrorCode::Cancelled, "the call was cancelled"),
        CancellationReason::Deadline => {
            let seconds = context.limits.timeout.as_secs_f32();
            Failure::new(ErrorCode::Timeout, format!("the server did not answer within {seconds} seconds"))
        }
    }
}

/// A call that was begun and has not ended.
struct UnderWay<'s>(&'s Server);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.send_modify(|calls| *calls = calls.saturating_sub(1));
    }
}

/// What the process left under protected names is taken away before the answer leaves, whatever the tool is said to do: that is said by the operator, and
/// it is the process that writes.
async fn look_after(connection: &Connection) -> Result<(), Failure> {
    let Some(process) = &connection.process else { return Ok(()) };
    let taken = process.look().await?;
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

/// A call that was sent. Whoever stops waiting for it, the server hears of it.
struct Asked {
    handle: Option<RequestHandle<RoleClient>>,
    runtime: Handle,
}

impl Asked {
    async fn answer(&mut self) -> Result<ServerResult, ServiceError> {
        let Some(handle) = &mut self.handle else { return Err(ServiceError::TransportClosed) };
        let answer = (&mut handle.rx).await;
        self.handle = None;
        answer.unwrap_or(Err(ServiceError::TransportClosed))
    }

    async fn give_up(&mut self) {
        if let Some(handle) = self.handle.take() {
            let _ =
                tokio::time::timeout(HEARING, handle.cancel(Some("the call was given up".to_owned()))).await;
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            drop(self.runtime.spawn(handle.cancel(Some("the call was given up".to_owned()))));
        }
    }
}

//! Inline dispatch: calls that the stdio transport runs itself.
//!
//! A read-only call that needs no approval usually takes less time than spawning a task and sending the response back. So the transport polls the
//! call once. If it is ready, the response is written directly; otherwise the started call continues as a regular request. Either way it is the same
//! call of the gate, with the same record and the same response.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientJsonRpcMessage, ClientRequest, JsonObject, RequestId,
};
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::ReusableBoxFuture;
use toolgate_gate::{CallOptions, Tool};
use toolgate_tools::CallResponse;

use crate::mcp::call::tool_call;
use crate::mcp::connection::{CallWeight, ConcurrencyPermit};
use crate::mcp::running_call::{CallFuture, RunningCall};
use crate::mcp::tool_response::{ToolResponse, to_response};
use crate::mcp::{ClientIdentity, McpHandler};
use crate::stdio::SimpleToolCall;

/// Calls that the transport has started, until the task of their request takes them.
#[derive(Clone, Default)]
pub(crate) struct StartedCalls(Arc<Mutex<HashMap<RequestId, RunningCall>>>);

impl StartedCalls {
    /// Takes the call that was started for this request.
    pub(crate) fn take(&self, id: &RequestId) -> Option<RunningCall> {
        self.lock().remove(id)
    }

    fn put(&self, id: RequestId, running: RunningCall) {
        self.lock().insert(id, running);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RequestId, RunningCall>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reuses one allocation for the futures of consecutive calls.
#[derive(Default)]
pub(crate) struct FutureSlot(Option<ReusableBoxFuture<'static, Option<CallResponse>>>);

impl FutureSlot {
    /// Polls a call once. A call that is not ready is returned.
    fn poll_once(
        &mut self,
        calling: impl Future<Output = Option<CallResponse>> + Send + 'static,
    ) -> Result<Option<CallResponse>, CallFuture> {
        let mut place = match self.0.take() {
            Some(mut place) => {
                place.set(calling);
                place
            }
            None => ReusableBoxFuture::new(calling),
        };
        match place.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(called) => {
                self.0 = Some(place);
                Ok(called)
            }
            Poll::Pending => Err(Box::pin(place)),
        }
    }
}

/// The result of an inline dispatch.
pub(crate) enum InlineDispatch {
    /// The call is done.
    Answered { id: RequestId, answer: ToolResponse },
    /// The call continues as a regular request, started or not.
    Message(Box<ClientJsonRpcMessage>),
}

impl McpHandler {
    /// Runs a call inline if possible (session protocol only). Its id is not in use.
    pub(crate) fn dispatch_inline(
        &self,
        plain: SimpleToolCall,
        among_others: bool,
        workbench: &mut FutureSlot,
    ) -> InlineDispatch {
        let SimpleToolCall { id, tool: name, arguments } = plain;
        let Some((visitor, tool, room)) = self.can_dispatch_inline(&name) else {
            return InlineDispatch::regular_request(id, name, Some(arguments));
        };
        let _under_way = self.service.calls.token();
        let cancelled = visitor.ended.child_token();
        let options = CallOptions { contended: among_others, ..CallOptions::cancelled_by(cancelled.clone()) };
        let call = tool_call(name, Value::Object(arguments), &id);
        let calling = self.calling(call, visitor, options);
        let calling: CallFuture = match workbench.poll_once(calling) {
            Ok(Some(called)) if called.full_text.is_none() => {
                // No permit is held for the response: it is in the output buffer before the next call starts.
                return InlineDispatch::Answered { id, answer: to_response(called, Some(tool.spec()), None) };
            }
            Ok(called) => Box::pin(std::future::ready(called)),
            Err(calling) => calling,
        };
        let name = tool.spec().name.to_string();
        let (questions, relay, room) = (None, None, ConcurrencyPermit::from_permit(room));
        let running = RunningCall {
            future: calling,
            tool: Some(tool),
            cancelled,
            questions,
            progress: relay,
            logs: None,
            permit: room,
        };
        self.started.put(id.clone(), running);
        InlineDispatch::regular_request(id, name, None)
    }

    /// The conditions for inline dispatch: a fixed caller, an eligible tool, a free permit, and neither the client gone nor the service ending.
    fn can_dispatch_inline(
        &self,
        name: &str,
    ) -> Option<(&ClientIdentity, Arc<dyn Tool>, OwnedSemaphorePermit)> {
        let visitor = self.fixed_identity()?;
        let tool = self.service.front().gate().inline_eligible_tool(name, &visitor.credential)?;
        let is_over = self.connection.gone.is_cancelled() || self.service.ending().is_cancelled();
        let room = self.connection.try_acquire(CallWeight::Large).filter(|_| !is_over)?;
        Some((visitor, tool, room))
    }
}

impl InlineDispatch {
    /// The request as the general decoder would have returned it. If the call was started, it holds the arguments already.
    fn regular_request(id: RequestId, name: String, arguments: Option<JsonObject>) -> Self {
        let mut params = CallToolRequestParams::new(name);
        params.arguments = arguments;
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        Self::Message(Box::new(ClientJsonRpcMessage::request(request, id)))
    }
}

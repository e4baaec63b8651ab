//! Calls that are answered where they come in.
//!
//! A call that changes nothing and asks nobody is mostly done sooner than it is handed to a task and its answer handed back. So the wire begins it
//! itself. Is it done at once, the answer is written right away; is it not, the call goes on from there the usual way. Either way it is the same call of
//! the gate, with the same record, and the same answer.

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

/// Calls that the wire has begun, until the tasks of their requests take them up.
#[derive(Clone, Default)]
pub(crate) struct StartedCalls(Arc<Mutex<HashMap<RequestId, RunningCall>>>);

impl StartedCalls {
    /// The call that was begun for this request.
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

/// Where calls are begun: one takes the place of another that was done, without new memory for each.
#[derive(Default)]
pub(crate) struct FutureSlot(Option<ReusableBoxFuture<'static, Option<CallResponse>>>);

impl FutureSlot {
    /// Begins a call. One that is not done at once is handed back.
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

/// What became of a call that was to be done at once.
pub(crate) enum InlineDispatch {
    /// It was done.
    Answered { id: RequestId, answer: ToolResponse },
    /// It goes the usual way, begun or not.
    Message(Box<ClientJsonRpcMessage>),
}

impl McpHandler {
    /// Does a call of a client of the older era at once, if that can be. Its id stands for no other request.
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
        let options =
            CallOptions { cancelled: cancelled.clone(), contended: among_others, ..CallOptions::default() };
        let call = tool_call(name, Value::Object(arguments), &id);
        let calling = self.calling(call, Some(tool.spec().class), visitor, options);
        let calling: CallFuture = match workbench.poll_once(calling) {
            Ok(Some(called)) if called.full_text.is_none() => {
                // It needs no room among the answers of tasks: it is on the wire before anything else is begun.
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
            permit: room,
        };
        self.started.put(id.clone(), running);
        InlineDispatch::regular_request(id, name, None)
    }

    /// What it takes to begin a call at once: one caller whom everybody knows, a tool that is quiet about its calls, room for the answer, and somebody
    /// who waits for it.
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
    /// The request as the long way would have read it. One whose call was begun has its arguments there.
    fn regular_request(id: RequestId, name: String, arguments: Option<JsonObject>) -> Self {
        let mut params = CallToolRequestParams::new(name);
        params.arguments = arguments;
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        Self::Message(Box::new(ClientJsonRpcMessage::request(request, id)))
    }
}

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

use crate::mcp::answer::{Answered, answered};
use crate::mcp::call::named;
use crate::mcp::connection::{Room, Size};
use crate::mcp::running::{Calling, Running};
use crate::mcp::{McpHandler, Visitor};
use crate::stdio::PlainCall;

/// Calls that the wire has begun, until the tasks of their requests take them up.
#[derive(Clone, Default)]
pub(crate) struct Begun(Arc<Mutex<HashMap<RequestId, Running>>>);

impl Begun {
    /// The call that was begun for this request.
    pub(crate) fn take(&self, id: &RequestId) -> Option<Running> {
        self.lock().remove(id)
    }

    fn put(&self, id: RequestId, running: Running) {
        self.lock().insert(id, running);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RequestId, Running>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where calls are begun: one takes the place of another that was done, without new memory for each.
#[derive(Default)]
pub(crate) struct Workbench(Option<ReusableBoxFuture<'static, Option<CallResponse>>>);

impl Workbench {
    /// Begins a call. One that is not done at once is handed back.
    fn begin(
        &mut self,
        calling: impl Future<Output = Option<CallResponse>> + Send + 'static,
    ) -> Result<Option<CallResponse>, Calling> {
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
pub(crate) enum AtOnce {
    /// It was done.
    Answered { id: RequestId, answer: Answered },
    /// It goes the usual way, begun or not.
    Message(Box<ClientJsonRpcMessage>),
}

impl McpHandler {
    /// Does a call of a client of the older era at once, if that can be. Its id stands for no other request.
    pub(crate) fn at_once(&self, plain: PlainCall, among_others: bool, workbench: &mut Workbench) -> AtOnce {
        let PlainCall { id, tool: name, arguments } = plain;
        let Some((visitor, tool, room)) = self.may_begin(&name) else {
            return AtOnce::usual(id, name, Some(arguments));
        };
        let _under_way = self.service.calls.token();
        let cancelled = visitor.ended.child_token();
        let options =
            CallOptions { cancelled: cancelled.clone(), contended: among_others, ..CallOptions::default() };
        let call = named(name, Value::Object(arguments), &id);
        let calling = self.calling(call, Some(tool.spec().class), visitor, options);
        let calling: Calling = match workbench.begin(calling) {
            Ok(Some(called)) if called.full_text.is_none() => {
                // It needs no room among the answers of tasks: it is on the wire before anything else is begun.
                return AtOnce::Answered { id, answer: answered(called, Some(tool.spec()), None) };
            }
            Ok(called) => Box::pin(std::future::ready(called)),
            Err(calling) => calling,
        };
        let name = tool.spec().name.to_string();
        let (questions, relay, room) = (None, None, Room::taken(room));
        let running = Running { calling, tool: Some(tool), cancelled, questions, relay, room };
        self.begun.put(id.clone(), running);
        AtOnce::usual(id, name, None)
    }

    /// What it takes to begin a call at once: one caller whom everybody knows, a tool that is quiet about its calls, room for the answer, and somebody
    /// who waits for it.
    fn may_begin(&self, name: &str) -> Option<(&Visitor, Arc<dyn Tool>, OwnedSemaphorePermit)> {
        let visitor = self.fixed_visitor()?;
        let tool = self.service.front().gate().inline_eligible_tool(name, &visitor.credential)?;
        let is_over = self.connection.gone.is_cancelled() || self.service.ending().is_cancelled();
        let room = self.connection.try_room(Size::Large).filter(|_| !is_over)?;
        Some((visitor, tool, room))
    }
}

impl AtOnce {
    /// The request as the long way would have read it. One whose call was begun has its arguments there.
    fn usual(id: RequestId, name: String, arguments: Option<JsonObject>) -> Self {
        let mut params = CallToolRequestParams::new(name);
        params.arguments = arguments;
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        Self::Message(Box::new(ClientJsonRpcMessage::request(request, id)))
    }
}

//! Messages to a client beside responses: notifications, and requests of the session protocol.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{ElicitRequestParams, ElicitResult, ErrorData, RequestId};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use crate::mcp::message::ServerMessage;

/// Messages that a transport has not taken yet. A sender waits for the client to read (backpressure).
const CAPACITY: usize = 32;

/// The reason in the cancellation of an elicitation.
const WITHDRAWN: &str = "the call does not wait for an answer any more";

/// The client is gone, so nothing reaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientGone;

type Reply = Result<Box<RawValue>, ErrorData>;

/// The requests of the gate that a client has not answered.
#[derive(Debug, Default)]
pub(crate) struct ServerRequests {
    next: AtomicI64,
    open: Mutex<HashMap<RequestId, oneshot::Sender<Reply>>>,
}

impl ServerRequests {
    fn begin(&self) -> (RequestId, oneshot::Receiver<Reply>) {
        let id = RequestId::Number(self.next.fetch_add(1, Ordering::Relaxed));
        let (sender, receiver) = oneshot::channel();
        self.lock().insert(id.clone(), sender);
        (id, receiver)
    }

    /// Passes on a client's response. One to no open request is dropped.
    pub(crate) fn reply(&self, id: &RequestId, reply: Reply) {
        // Some clients repeat a number as a string.
        let as_number = match id {
            RequestId::String(text) => text.parse().ok().map(RequestId::Number),
            RequestId::Number(_) => None,
        };
        let waiting = self.lock().remove(as_number.as_ref().unwrap_or(id));
        if let Some(waiting) = waiting {
            // Fails if the request was withdrawn in this moment.
            let _ = waiting.send(reply);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RequestId, oneshot::Sender<Reply>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reaches one client.
#[derive(Clone, Debug)]
pub(crate) struct ClientSink {
    messages: mpsc::Sender<ServerMessage>,
    requests: Arc<ServerRequests>,
}

impl ClientSink {
    /// A sink, and the messages for the transport.
    pub(crate) fn new(requests: Arc<ServerRequests>) -> (Self, mpsc::Receiver<ServerMessage>) {
        let (messages, receiver) = mpsc::channel(CAPACITY);
        (Self { messages, requests }, receiver)
    }

    /// Sends a notification.
    ///
    /// # Errors
    /// The client is gone.
    pub(crate) async fn notify(&self, method: &'static str, params: Option<Value>) -> Result<(), ClientGone> {
        self.send(ServerMessage::notification(method, params)).await
    }

    /// Sends a notification with typed parameters.
    ///
    /// # Errors
    /// The client is gone.
    pub(crate) async fn notify_of(
        &self,
        method: &'static str,
        params: &impl Serialize,
    ) -> Result<(), ClientGone> {
        self.notify(method, serde_json::to_value(params).ok()).await
    }

    /// Asks the person behind a client of the session protocol. Dropping the future cancels the elicitation.
    ///
    /// # Errors
    /// The client is gone, or its response is none.
    pub(crate) async fn elicit(&self, form: &ElicitRequestParams) -> Result<ElicitResult, ClientGone> {
        let params = serde_json::to_value(form).map_err(|_| ClientGone)?;
        let (id, reply) = self.requests.begin();
        // Before it is sent: this future may be dropped while the client does not read.
        let mut open = OpenRequest { sink: self, id: Some(id.clone()) };
        self.send(ServerMessage::request(id, "elicitation/create", params)).await?;
        let reply = reply.await.map_err(|_| ClientGone)?;
        open.id = None;
        serde_json::from_str(reply.map_err(|_| ClientGone)?.get()).map_err(|_| ClientGone)
    }

    async fn send(&self, message: ServerMessage) -> Result<(), ClientGone> {
        self.messages.send(message).await.map_err(|_| ClientGone)
    }
}

/// A request of the gate that is not answered yet.
struct OpenRequest<'s> {
    sink: &'s ClientSink,
    id: Option<RequestId>,
}

impl Drop for OpenRequest<'_> {
    /// Cancels the request: it timed out, or the call was cancelled.
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        self.sink.requests.lock().remove(&id);
        let params = json!({"requestId": id, "reason": WITHDRAWN});
        let cancelled = ServerMessage::notification("notifications/cancelled", Some(params));
        // Immediately, so that the cancellation is sent before the call's response. A client that does not read gets it later.
        if let Err(mpsc::error::TrySendError::Full(cancelled)) = self.sink.messages.try_send(cancelled)
            && let Ok(runtime) = Handle::try_current()
        {
            let messages = self.sink.messages.clone();
            runtime.spawn(async move { messages.send(cancelled).await });
        }
    }
}

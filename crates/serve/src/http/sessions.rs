//! The sessions of the session protocol, with their owners and limits.
//!
//! Every request names its session in `Mcp-Session-Id`. The name alone grants nothing: it works only for the caller that started the session, and every
//! other caller gets "no such session".

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::RequestId;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::event_log::ReplayLog;
use crate::mcp::client_sink::ClientSink;
use crate::mcp::{McpConnection, McpHandler, random_id};
use crate::service::Service;

/// One session.
pub(crate) struct McpSession {
    pub(crate) name: Arc<str>,
    owner: [u8; 32],
    pub(crate) handler: McpHandler,
    /// The events that its streams have sent or will send.
    pub(crate) events: Arc<ReplayLog>,
    /// Its requests that are not answered. Some clients use one id for all, which does no harm: each response has a connection of its own.
    unanswered: Mutex<HashMap<RequestId, Vec<CancellationToken>>>,
    /// Cancelled when the session ends: its calls end with it.
    pub(crate) ended: CancellationToken,
    /// When it was used last, and the number of that use among all.
    used: Mutex<(Instant, u64)>,
}

/// A request of a session that is not answered.
pub(crate) struct SessionRequest {
    session: Arc<McpSession>,
    id: RequestId,
    cancelled: CancellationToken,
}

impl McpSession {
    /// Registers a request until what is returned is dropped.
    pub(crate) fn begin(self: &Arc<Self>, id: &RequestId, cancelled: &CancellationToken) -> SessionRequest {
        self.unanswered().entry(id.clone()).or_default().push(cancelled.clone());
        SessionRequest { session: Arc::clone(self), id: id.clone(), cancelled: cancelled.clone() }
    }

    /// The client does not wait for a request any more.
    pub(crate) fn cancel(&self, id: &RequestId) {
        for cancelled in self.unanswered().get(id).into_iter().flatten() {
            cancelled.cancel();
        }
    }

    fn last_use(&self) -> (Instant, u64) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unanswered(&self) -> MutexGuard<'_, HashMap<RequestId, Vec<CancellationToken>>> {
        self.unanswered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SessionRequest {
    fn drop(&mut self) {
        let mut unanswered = self.session.unanswered();
        let Some(same) = unanswered.get_mut(&self.id) else { return };
        if let Some(own) = same.iter().position(|cancelled| *cancelled == self.cancelled) {
            same.swap_remove(own);
        }
        if same.is_empty() {
            unanswered.remove(&self.id);
        }
    }
}

/// A session that a request names and that belongs to its caller.
#[derive(Debug)]
pub(crate) struct NamedSession {
    pub(crate) name: String,
    /// Cancelled when the session ends.
    pub(crate) ended: CancellationToken,
}

impl From<&McpSession> for NamedSession {
    fn from(session: &McpSession) -> Self {
        Self { name: session.name.to_string(), ended: session.ended.clone() }
    }
}

/// All sessions.
pub(crate) struct Sessions {
    open: Arc<Mutex<OpenSessions>>,
    max: usize,
    max_per_caller: usize,
    idle: Duration,
}

#[derive(Default)]
struct OpenSessions {
    by_name: HashMap<Arc<str>, Arc<McpSession>>,
    /// Counts uses, so that the least recently used session is known.
    uses: u64,
}

impl OpenSessions {
    fn end(&mut self, name: &str) -> bool {
        let Some(session) = self.by_name.remove(name) else { return false };
        session.ended.cancel();
        session.events.close();
        // Its watchers end, although calls may still hold the connection.
        session.handler.connection.closing.cancel();
        true
    }
}

impl Sessions {
    /// At most `max` sessions, `max_per_caller` of one caller; each ends after being idle for `idle`.
    pub(crate) fn new(max: usize, max_per_caller: usize, idle: Duration) -> Self {
        Self { open: Arc::default(), max, max_per_caller, idle }
    }

    /// The session of that name, if this caller started it.
    pub(crate) fn named(&self, name: &str, owner: [u8; 32]) -> Option<Arc<McpSession>> {
        let mut open = self.lock();
        open.uses += 1;
        let uses = open.uses;
        let session = open.by_name.get(name).filter(|session| session.owner == owner)?;
        *session.used.lock().unwrap_or_else(PoisonError::into_inner) = (Instant::now(), uses);
        Some(Arc::clone(session))
    }

    /// Begins a session, ending the least recently used one of its caller if needed; `None` if there are too many of all callers. Needs a runtime.
    pub(crate) fn begin(&self, service: &Arc<Service>, owner: [u8; 32]) -> Option<Arc<McpSession>> {
        let name: Arc<str> = random_id()?.into();
        let mut open = self.lock();
        while let Some(oldest) = self.oldest_beyond(&open, owner) {
            open.end(&oldest);
        }
        if open.by_name.len() >= self.max {
            return None;
        }
        let connection = Arc::new(McpConnection::default());
        let (background, mut messages) = ClientSink::new(Arc::clone(&connection.requests));
        open.uses += 1;
        let session = Arc::new(McpSession {
            name: Arc::clone(&name),
            owner,
            handler: McpHandler::new(Arc::clone(service), connection, background, true),
            events: Arc::default(),
            unanswered: Mutex::default(),
            ended: CancellationToken::new(),
            used: Mutex::new((Instant::now(), open.uses)),
        });
        open.by_name.insert(name, Arc::clone(&session));
        let (events, ended) = (Arc::clone(&session.events), session.ended.clone());
        tokio::spawn(async move {
            // What concerns no single request goes to the client's own stream.
            let forwarding = async {
                while let Some(message) = messages.recv().await {
                    events.send(ReplayLog::STANDALONE, &message).await;
                }
            };
            tokio::select! {
                () = forwarding => {}
                () = ended.cancelled() => {}
            }
        });
        tokio::spawn(expire(Arc::downgrade(&self.open), Arc::downgrade(&session), self.idle));
        Some(session)
    }

    /// Ends a session.
    pub(crate) fn end(&self, name: &str) {
        self.lock().end(name);
    }

    /// The number of sessions.
    pub(crate) fn count(&self) -> usize {
        self.lock().by_name.len()
    }

    /// Ends all sessions.
    pub(crate) fn end_all(&self) {
        let mut open = self.lock();
        let names: Vec<Arc<str>> = open.by_name.keys().cloned().collect();
        for name in names {
            open.end(&name);
        }
    }

    fn oldest_beyond(&self, open: &OpenSessions, owner: [u8; 32]) -> Option<Arc<str>> {
        let own = open.by_name.values().filter(|session| session.owner == owner);
        let oldest = own.clone().min_by_key(|session| session.last_use().1);
        oldest.filter(|_| own.count() >= self.max_per_caller).map(|session| Arc::clone(&session.name))
    }

    fn lock(&self) -> MutexGuard<'_, OpenSessions> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a session in which no request arrived for too long, with its calls.
async fn expire(
    open: std::sync::Weak<Mutex<OpenSessions>>,
    session: std::sync::Weak<McpSession>,
    idle: Duration,
) {
    let mut next = Instant::now() + idle;
    loop {
        let Some(ended) = session.upgrade().map(|session| session.ended.clone()) else { return };
        tokio::select! {
            () = tokio::time::sleep_until(next) => {}
            () = ended.cancelled() => return,
        }
        let (Some(open), Some(session)) = (open.upgrade(), session.upgrade()) else { return };
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        next = session.last_use().0 + idle;
        if next <= Instant::now() {
            open.end(&session.name);
            return;
        }
    }
}

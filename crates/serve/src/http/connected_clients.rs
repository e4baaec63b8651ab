//! Which callers use the server, for its operators.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use toolgate_types::Caller;

use crate::traffic::CallerName;

/// Without a stream, a caller counts as connected for this long after its last request.
const CONNECTED_FOR: Duration = Duration::from_secs(60);

/// The most callers. Beyond them, the one without a stream that was silent for longest is forgotten.
const MAX_CLIENTS: usize = 512;

/// A caller of this server.
#[derive(Clone, Debug)]
pub struct ServedClient {
    /// The caller.
    pub caller: CallerName,
    /// Requests that were authenticated, since the start.
    pub requests: u64,
    /// WebSockets and server-sent events that are open.
    pub streams: usize,
    /// When the last request came.
    pub last_at: SystemTime,
    /// Whether it has a stream, or was heard of in the last minute.
    pub is_connected: bool,
}

/// The callers of this server.
#[derive(Default)]
pub(crate) struct ConnectedClients(Mutex<HashMap<[u8; 32], ClientEntry>>);

struct ClientEntry {
    caller: CallerName,
    requests: u64,
    streams: usize,
    last_at: SystemTime,
}

/// An open stream of a caller, counted until it is dropped.
pub(super) struct CountedStream {
    clients: Arc<ConnectedClients>,
    owner: [u8; 32],
}

impl ConnectedClients {
    /// Counts an authenticated request.
    pub(super) fn note(&self, owner: [u8; 32], caller: &Caller) {
        self.note_at(owner, caller, SystemTime::now());
    }

    fn note_at(&self, owner: [u8; 32], caller: &Caller, now: SystemTime) {
        let mut clients = self.lock();
        if let Some(known) = clients.get_mut(&owner) {
            known.requests += 1;
            known.last_at = now;
            return;
        }
        if clients.len() >= MAX_CLIENTS {
            let idle = clients.iter().filter(|(_, client)| client.streams == 0);
            let Some(oldest) = idle.min_by_key(|(_, client)| client.last_at).map(|(owner, _)| *owner) else {
                return;
            };
            clients.remove(&oldest);
        }
        let caller = CallerName { subject: caller.subject.clone(), agent: caller.agent.clone() };
        clients.insert(owner, ClientEntry { caller, requests: 1, streams: 0, last_at: now });
    }

    /// Counts a stream.
    pub(super) fn stream(self: &Arc<Self>, owner: [u8; 32]) -> CountedStream {
        if let Some(client) = self.lock().get_mut(&owner) {
            client.streams += 1;
        }
        CountedStream { clients: Arc::clone(self), owner }
    }

    /// The callers, those heard of last first.
    pub(super) fn list(&self) -> Vec<ServedClient> {
        self.list_at(SystemTime::now())
    }

    fn list_at(&self, now: SystemTime) -> Vec<ServedClient> {
        let is_recent = |at: SystemTime| now.duration_since(at).unwrap_or_default() < CONNECTED_FOR;
        let client = |client: &ClientEntry| ServedClient {
            caller: client.caller.clone(),
            requests: client.requests,
            streams: client.streams,
            last_at: client.last_at,
            is_connected: client.streams > 0 || is_recent(client.last_at),
        };
        let mut all: Vec<ServedClient> = self.lock().values().map(client).collect();
        all.sort_by_key(|client| std::cmp::Reverse(client.last_at));
        all
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], ClientEntry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CountedStream {
    fn drop(&mut self) {
        if let Some(client) = self.clients.lock().get_mut(&self.owner) {
            client.streams = client.streams.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use toolgate_types::Trust;

    use super::*;

    fn caller(subject: &str) -> Caller {
        Caller {
            subject: subject.to_owned(),
            permissions: Default::default(),
            agent: None,
            session: "s".parse().unwrap(),
            run: None,
            trust: Trust::Guided,
        }
    }

    #[test]
    fn a_caller_is_connected_while_it_streams_or_was_heard_of() {
        let (clients, start) = (Arc::new(ConnectedClients::default()), SystemTime::UNIX_EPOCH);
        clients.note_at([1; 32], &caller("alice"), start);
        clients.note_at([1; 32], &caller("alice"), start);
        clients.note_at([2; 32], &caller("bob"), start + Duration::from_secs(1));
        let stream = clients.stream([1; 32]);
        let seen = |seconds| {
            let all = clients.list_at(start + Duration::from_secs(seconds));
            all.iter()
                .map(|one| (one.caller.subject.clone(), one.streams, one.is_connected))
                .collect::<Vec<_>>()
        };
        let (alice, bob) = ("alice".to_owned(), "bob".to_owned());
        assert_eq!(seen(2), [(bob.clone(), 0, true), (alice.clone(), 1, true)]);
        assert_eq!(seen(100), [(bob.clone(), 0, false), (alice.clone(), 1, true)]);
        drop(stream);
        assert_eq!(seen(100), [(bob, 0, false), (alice, 0, false)]);
        assert_eq!(clients.list()[1].requests, 2);
    }

    #[test]
    fn callers_without_end_take_bounded_memory_and_streams_stay() {
        let (clients, start) = (Arc::new(ConnectedClients::default()), SystemTime::UNIX_EPOCH);
        clients.note_at([0; 32], &caller("first"), start);
        let _stream = clients.stream([0; 32]);
        for number in 1..(2 * MAX_CLIENTS as u64) {
            let mut owner = [9; 32];
            owner[..8].copy_from_slice(&number.to_be_bytes());
            clients.note_at(owner, &caller("other"), start + Duration::from_secs(number));
        }
        let all = clients.list();
        assert_eq!(all.len(), MAX_CLIENTS);
        assert!(all.iter().any(|one| one.caller.subject == "first"));
    }
}

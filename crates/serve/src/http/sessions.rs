//! The owners of sessions.
//!
//! Under the session protocol every request names its session in `Mcp-Session-Id`. The name alone grants nothing: it works only for the caller that
//! started the session, and every other caller gets "no such session".

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::transport::streamable_http_server::SessionManager as _;
use rmcp::transport::streamable_http_server::session::SessionId as Name;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use tokio_util::sync::CancellationToken;

/// The sessions of the session protocol, with their owners and limits.
pub(crate) struct Sessions {
    manager: std::sync::Arc<LocalSessionManager>,
    owners: Mutex<Owners>,
    max: usize,
    max_per_caller: usize,
}

#[derive(Default)]
struct Owners {
    owned: HashMap<Name, Owner>,
    /// Counts uses, so that the least recently used session is known.
    uses: u64,
}

struct Owner {
    is: [u8; 32],
    used: u64,
    /// Cancelled when the session ends: its calls end with it.
    ended: CancellationToken,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

/// A session that a request names and that belongs to its caller.
#[derive(Debug)]
pub(crate) struct NamedSession {
    pub(crate) name: String,
    /// Cancelled when the session ends.
    pub(crate) ended: CancellationToken,
}

impl Sessions {
    /// At most `max` sessions, `max_per_caller` of one caller; each expires after `idle`.
    pub(crate) fn new(max: usize, max_per_caller: usize, idle: Duration) -> Self {
        let mut manager = LocalSessionManager::default();
        manager.session_config.keep_alive = Some(idle);
        Self { manager: manager.into(), owners: Mutex::default(), max, max_per_caller }
    }

    pub(crate) fn manager(&self) -> &std::sync::Arc<LocalSessionManager> {
        &self.manager
    }

    /// The session of that name, if this caller started it.
    pub(crate) fn named(&self, name: &str, owner: [u8; 32]) -> Option<NamedSession> {
        let mut owners = self.owners();
        owners.uses += 1;
        let used = owners.uses;
        let known = owners.owned.get_mut(name).filter(|known| known.is == owner)?;
        known.used = used;
        Some(NamedSession { name: name.to_owned(), ended: known.ended.clone() })
    }

    /// Makes room for one more session of a caller, evicting its least recently used one if needed. Returns whether there is room.
    pub(crate) async fn make_room(&self, owner: [u8; 32]) -> bool {
        self.forget_ended().await;
        while let Some(name) = self.oldest_beyond(owner) {
            self.close(&name).await;
        }
        // The manager also counts sessions whose name was never sent to a client.
        self.manager.sessions.read().await.len() < self.max
    }

    /// Records the owner of a new session.
    pub(crate) fn begun(&self, name: &str, owner: [u8; 32]) {
        let mut owners = self.owners();
        owners.uses += 1;
        let used = owners.uses;
        owners.owned.insert(name.into(), Owner { is: owner, used, ended: CancellationToken::new() });
    }

    /// Removes a session that has ended.
    pub(crate) fn ended(&self, name: &str) {
        self.owners().owned.remove(name);
    }

    /// The number of sessions.
    pub(crate) fn count(&self) -> usize {
        self.owners().owned.len()
    }

    /// Closes all sessions.
    pub(crate) async fn close_all(&self) {
        let names: Vec<Name> = self.manager.sessions.read().await.keys().cloned().collect();
        for name in names {
            self.close(&name).await;
        }
    }

    async fn close(&self, name: &Name) {
        self.ended(name);
        // Fails only if the session is already gone.
        let _ = self.manager.close_session(name).await;
    }

    /// Sessions also expire by themselves, which only the manager knows.
    async fn forget_ended(&self) {
        let living = self.manager.sessions.read().await;
        self.owners().owned.retain(|name, _| living.contains_key(name));
    }

    fn oldest_beyond(&self, owner: [u8; 32]) -> Option<Name> {
        let owners = self.owners();
        let own = owners.owned.iter().filter(|(_, known)| known.is == owner);
        let oldest = own.clone().min_by_key(|(_, owner)| owner.used).map(|(name, _)| Name::clone(name));
        oldest.filter(|_| own.count() >= self.max_per_caller)
    }

    fn owners(&self) -> MutexGuard<'_, Owners> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn begin(sessions: &Sessions, owner: [u8; 32]) -> Option<Name> {
        if !sessions.make_room(owner).await {
            return None;
        }
        let (name, _transport) = sessions.manager().create_session().await.unwrap();
        sessions.begun(&name, owner);
        Some(name)
    }

    #[tokio::test]
    async fn a_session_is_good_for_whoever_began_it() {
        let sessions = Sessions::new(10, 10, Duration::from_secs(60));
        let name = begin(&sessions, [1; 32]).await.unwrap();
        assert!(sessions.named(&name, [1; 32]).is_some());
        assert!(sessions.named(&name, [2; 32]).is_none());
        assert!(sessions.named("another", [1; 32]).is_none());
        sessions.ended(&name);
        assert!(sessions.named(&name, [1; 32]).is_none());
    }

    #[tokio::test]
    async fn of_one_caller_the_session_ends_that_was_used_longest_ago() {
        let sessions = Sessions::new(10, 2, Duration::from_secs(60));
        let first = begin(&sessions, [1; 32]).await.unwrap();
        let second = begin(&sessions, [1; 32]).await.unwrap();
        let other = begin(&sessions, [2; 32]).await.unwrap();
        assert!(sessions.named(&first, [1; 32]).is_some());
        let third = begin(&sessions, [1; 32]).await.unwrap();
        let living = |name: &Name| sessions.named(name, [1; 32]).is_some();
        assert_eq!([&first, &second, &third].map(living), [true, false, true]);
        assert!(sessions.named(&other, [2; 32]).is_some());
        assert!(!sessions.manager().has_session(&second).await.unwrap());
    }

    #[tokio::test]
    async fn however_a_session_ends_its_calls_are_told() {
        let sessions = Sessions::new(10, 2, Duration::from_secs(60));
        let mut names = Vec::new();
        let mut ends = Vec::new();
        for _ in 0..2 {
            let name = begin(&sessions, [1; 32]).await.unwrap();
            ends.push(sessions.named(&name, [1; 32]).unwrap().ended);
            names.push(name);
        }
        let over =
            |ends: &[CancellationToken]| ends.iter().map(CancellationToken::is_cancelled).collect::<Vec<_>>();
        // Evicted by another.
        let third = begin(&sessions, [1; 32]).await.unwrap();
        ends.push(sessions.named(&third, [1; 32]).unwrap().ended);
        assert_eq!(over(&ends), [true, false, false]);
        // Ended by its client.
        sessions.ended(&names[1]);
        assert_eq!(over(&ends), [true, true, false]);
        // Expired by itself.
        sessions.manager().close_session(&third).await.unwrap();
        assert!(sessions.make_room([2; 32]).await);
        assert_eq!(over(&ends), [true, true, true]);
    }

    #[tokio::test]
    async fn there_are_never_more_than_there_may_be() {
        let sessions = Sessions::new(2, 2, Duration::from_secs(60));
        let first = begin(&sessions, [1; 32]).await.unwrap();
        assert!(begin(&sessions, [2; 32]).await.is_some());
        assert!(begin(&sessions, [3; 32]).await.is_none());
        // An expired session is noticed.
        sessions.manager().close_session(&first).await.unwrap();
        assert!(begin(&sessions, [3; 32]).await.is_some());
        sessions.close_all().await;
        assert_eq!(sessions.count(), 0);
    }
}

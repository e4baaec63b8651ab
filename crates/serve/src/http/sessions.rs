//! Whose sessions there are.
//!
//! A session of the older era is named in a header of every request. Its name alone opens nothing: it is good for the caller that began the session, and
//! to everybody else there is no such session.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::transport::streamable_http_server::SessionManager as _;
use rmcp::transport::streamable_http_server::session::SessionId as Name;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;

/// The sessions of the older era.
pub(crate) struct Sessions {
    manager: std::sync::Arc<LocalSessionManager>,
    owners: Mutex<Owners>,
    most: usize,
    most_of_one: usize,
}

#[derive(Default)]
struct Owners {
    owned: HashMap<Name, Owner>,
    /// Counts uses, to tell which session was used longest ago.
    uses: u64,
}

#[derive(Clone, Copy)]
struct Owner {
    binding: [u8; 32],
    used: u64,
}

impl Sessions {
    /// At most `most`, and of one caller at most `most_of_one`; each ends when it was not used for `idle`.
    pub(crate) fn new(most: usize, most_of_one: usize, idle: Duration) -> Self {
        let mut manager = LocalSessionManager::default();
        manager.session_config.keep_alive = Some(idle);
        Self { manager: manager.into(), owners: Mutex::default(), most, most_of_one }
    }

    pub(crate) fn manager(&self) -> &std::sync::Arc<LocalSessionManager> {
        &self.manager
    }

    /// Whether this caller began the session of that name.
    pub(crate) fn belongs(&self, name: &str, binding: [u8; 32]) -> bool {
        let mut owners = self.owners();
        owners.uses += 1;
        let used = owners.uses;
        match owners.owned.get_mut(name) {
            Some(owner) if owner.binding == binding => {
                owner.used = used;
                true
            }
            _ => false,
        }
    }

    /// Makes room for one more session of a caller: of its own, the one that was used longest ago ends. Whether there is room.
    pub(crate) async fn make_room(&self, binding: [u8; 32]) -> bool {
        self.forget_ended().await;
        while let Some(name) = self.oldest_beyond(binding) {
            self.close(&name).await;
        }
        // Also those count that began and were never told to anybody.
        self.manager.sessions.read().await.len() < self.most
    }

    /// A session has begun, and this is whose it is.
    pub(crate) fn begun(&self, name: &str, binding: [u8; 32]) {
        let mut owners = self.owners();
        owners.uses += 1;
        let used = owners.uses;
        owners.owned.insert(name.into(), Owner { binding, used });
    }

    /// A session is over.
    pub(crate) fn ended(&self, name: &str) {
        self.owners().owned.remove(name);
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.owners().owned.len()
    }

    /// Ends all.
    pub(crate) async fn close_all(&self) {
        let names: Vec<Name> = self.manager.sessions.read().await.keys().cloned().collect();
        for name in names {
            self.close(&name).await;
        }
    }

    async fn close(&self, name: &Name) {
        self.ended(name);
        // A session that is already gone is as good as closed.
        let _ = self.manager.close_session(name).await;
    }

    /// Sessions also end by themselves, and then only the manager knows.
    async fn forget_ended(&self) {
        let living = self.manager.sessions.read().await;
        self.owners().owned.retain(|name, _| living.contains_key(name));
    }

    fn oldest_beyond(&self, binding: [u8; 32]) -> Option<Name> {
        let owners = self.owners();
        let own = owners.owned.iter().filter(|(_, owner)| owner.binding == binding);
        let oldest = own.clone().min_by_key(|(_, owner)| owner.used).map(|(name, _)| Name::clone(name));
        oldest.filter(|_| own.count() >= self.most_of_one)
    }

    fn owners(&self) -> MutexGuard<'_, Owners> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn begin(sessions: &Sessions, binding: [u8; 32]) -> Option<Name> {
        if !sessions.make_room(binding).await {
            return None;
        }
        let (name, _transport) = sessions.manager().create_session().await.unwrap();
        sessions.begun(&name, binding);
        Some(name)
    }

    #[tokio::test]
    async fn a_session_is_good_for_whoever_began_it() {
        let sessions = Sessions::new(10, 10, Duration::from_secs(60));
        let name = begin(&sessions, [1; 32]).await.unwrap();
        assert!(sessions.belongs(&name, [1; 32]));
        assert!(!sessions.belongs(&name, [2; 32]));
        assert!(!sessions.belongs("another", [1; 32]));
        sessions.ended(&name);
        assert!(!sessions.belongs(&name, [1; 32]));
    }

    #[tokio::test]
    async fn of_one_caller_the_session_ends_that_was_used_longest_ago() {
        let sessions = Sessions::new(10, 2, Duration::from_secs(60));
        let first = begin(&sessions, [1; 32]).await.unwrap();
        let second = begin(&sessions, [1; 32]).await.unwrap();
        let other = begin(&sessions, [2; 32]).await.unwrap();
        assert!(sessions.belongs(&first, [1; 32]));
        let third = begin(&sessions, [1; 32]).await.unwrap();
        let living = |name: &Name| sessions.belongs(name, [1; 32]);
        assert_eq!([&first, &second, &third].map(living), [true, false, true]);
        assert!(sessions.belongs(&other, [2; 32]));
        assert!(!sessions.manager().has_session(&second).await.unwrap());
    }

    #[tokio::test]
    async fn there_are_never_more_than_there_may_be() {
        let sessions = Sessions::new(2, 2, Duration::from_secs(60));
        let first = begin(&sessions, [1; 32]).await.unwrap();
        assert!(begin(&sessions, [2; 32]).await.is_some());
        assert!(begin(&sessions, [3; 32]).await.is_none());
        // One that ended by itself is noticed.
        sessions.manager().close_session(&first).await.unwrap();
        assert!(begin(&sessions, [3; 32]).await.is_some());
        sessions.close_all().await;
        assert_eq!(sessions.count(), 0);
    }
}

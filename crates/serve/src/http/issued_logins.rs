//! The logins of browsers whose people have tokens of an issuer.
//!
//! The cookie is a random number; the token stays here. Browsers send cookies to every port of a host, so another service of this machine would receive a
//! token in a cookie, and could use it wherever it counts. Every request verifies the token anew: a login ends with it, and with a reload that
//! withdraws its key or its agent. Logins are in memory alone and bounded, so after a restart people log in again.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::HeaderMap;
use toolgate_types::Sha256;

use super::cookie::CookieName;
use crate::mcp::random_id;

/// How long a login lasts at most; its token usually ends it earlier.
const LIFETIME: Duration = Duration::from_secs(12 * 60 * 60);

/// Logins of all callers. One more ends the one that was not used for longest.
const MAX_LOGINS: usize = 1024;

/// The same for one caller, so that none can end the logins of all others.
const MAX_LOGINS_PER_CALLER: usize = 16;

/// The logins of one server.
pub(super) struct IssuedLogins {
    name: CookieName,
    /// By the digest of the cookie, so that the time of a lookup reveals nothing about one that counts.
    open: Mutex<HashMap<Sha256, Login>>,
}

struct Login {
    token: Arc<str>,
    owner: [u8; 32],
    expires_at: Instant,
    used_at: Instant,
}

impl IssuedLogins {
    pub(super) fn new(listening: SocketAddr) -> Self {
        Self { name: CookieName::of(listening), open: Mutex::default() }
    }

    /// A `Set-Cookie` header for a token that was verified just now.
    pub(super) fn begin(&self, token: &str, owner: [u8; 32], is_https: bool) -> Option<String> {
        let (id, now) = (format!("{}{}", random_id()?, random_id()?), Instant::now());
        let expires_at = now.checked_add(LIFETIME)?;
        let mut open = self.lock();
        open.retain(|_, login| login.expires_at > now);
        if open.values().filter(|login| login.owner == owner).count() >= MAX_LOGINS_PER_CALLER {
            evict(&mut open, |login| login.owner == owner);
        } else if open.len() >= MAX_LOGINS {
            evict(&mut open, |_| true);
        }
        open.insert(
            Sha256::of(id.as_bytes()),
            Login { token: token.into(), owner, expires_at, used_at: now },
        );
        Some(self.name.header(&id, LIFETIME.as_secs(), is_https))
    }

    /// The token of a request's cookie.
    pub(super) fn token(&self, headers: &HeaderMap) -> Option<Arc<str>> {
        let (id, now) = (Sha256::of(self.name.value(headers)?.as_bytes()), Instant::now());
        let mut open = self.lock();
        let login = open.get_mut(&id).filter(|login| login.expires_at > now)?;
        login.used_at = now;
        Some(Arc::clone(&login.token))
    }

    /// Ends the login of a request's cookie.
    pub(super) fn end(&self, headers: &HeaderMap) {
        if let Some(value) = self.name.value(headers) {
            self.lock().remove(&Sha256::of(value.as_bytes()));
        }
    }

    pub(super) fn name(&self) -> &CookieName {
        &self.name
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Sha256, Login>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the login that was not used for longest.
fn evict(open: &mut HashMap<Sha256, Login>, is_candidate: impl Fn(&Login) -> bool) {
    let candidates = open.iter().filter(|(_, login)| is_candidate(login));
    if let Some(oldest) = candidates.min_by_key(|(_, login)| login.used_at).map(|(id, _)| *id) {
        open.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use axum::http::header::COOKIE;

    use super::*;

    fn logins() -> IssuedLogins {
        IssuedLogins::new(SocketAddr::from(([127, 0, 0, 1], 8420)))
    }

    /// The headers of a browser that was sent this one.
    fn browser(set_cookie: &str) -> HeaderMap {
        let pair = set_cookie.split(';').next().unwrap();
        HeaderMap::from_iter([(COOKIE, HeaderValue::from_str(pair).unwrap())])
    }

    #[test]
    fn a_cookie_is_no_token_and_counts_until_its_login_ends() {
        let logins = logins();
        let issued = logins.begin("of.alice.x", [1; 32], false).unwrap();
        assert!(issued.ends_with("; HttpOnly; SameSite=Strict; Path=/; Max-Age=43200"), "{issued}");
        assert!(!issued.contains("alice"), "{issued}");
        assert!(logins.begin("t", [2; 32], true).unwrap().ends_with("; Secure"));
        let alice = browser(&issued);
        assert_eq!(logins.token(&alice).as_deref(), Some("of.alice.x"));
        assert_eq!(logins.token(&browser("toolgate-8420=00")), None);
        assert_eq!(logins.token(&browser(&issued.replace("8420", "8421"))), None);
        assert_eq!(logins.token(&HeaderMap::new()), None);
        logins.end(&browser("toolgate-8420=00"));
        assert!(logins.token(&alice).is_some());
        logins.end(&alice);
        assert_eq!(logins.token(&alice), None);
    }

    #[test]
    fn a_caller_with_many_logins_ends_its_own_alone() {
        let logins = logins();
        let alice = browser(&logins.begin("a", [1; 32], false).unwrap());
        let first = browser(&logins.begin("b", [2; 32], false).unwrap());
        let second = browser(&logins.begin("b", [2; 32], false).unwrap());
        assert!(logins.token(&first).is_some());
        for _ in 0..MAX_LOGINS_PER_CALLER - 1 {
            logins.begin("b", [2; 32], false).unwrap();
        }
        assert!(logins.token(&alice).is_some() && logins.token(&first).is_some());
        assert_eq!(logins.token(&second), None, "it was not used for longest");
        for number in 0..2 * MAX_LOGINS {
            let mut owner = [3; 32];
            owner[..8].copy_from_slice(&number.to_le_bytes());
            logins.begin("c", owner, false).unwrap();
        }
        assert_eq!(logins.lock().len(), MAX_LOGINS);
    }
}

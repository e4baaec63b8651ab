//! The cookie of a browser that presented the person's token.
//!
//! It is an expiry time and a nonce, sealed with a key that follows from the token. The server keeps no list of cookies: one counts after a restart too,
//! and none counts once the token is replaced. Only the digest of the token is in memory.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::HeaderMap;
use axum::http::header::COOKIE;
use toolgate_types::{Sha256, StateKey};

use super::issued_logins::IssuedLogins;
use crate::mcp::random_id;

/// How long a browser stays authenticated.
const LIFETIME: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Separates the seal from those of other kinds.
const PURPOSE: &str = "toolgate.cookie.v1";

/// Makes and verifies the cookies of one server.
pub(super) struct SessionCookies {
    key: StateKey,
    name: CookieName,
}

/// The name of the cookies of one server. Browsers do not tell ports apart, so the name does.
pub(super) struct CookieName(String);

impl CookieName {
    pub(super) fn of(listening: SocketAddr) -> Self {
        Self(format!("toolgate-{}", listening.port()))
    }

    /// A `Set-Cookie` header.
    pub(super) fn header(&self, value: &str, max_age: u64, is_https: bool) -> String {
        let secure = if is_https { "; Secure" } else { "" };
        format!("{}={value}; HttpOnly; SameSite=Strict; Path=/; Max-Age={max_age}{secure}", self.0)
    }

    /// The value of the cookie of a request, if there is exactly one of this name.
    pub(super) fn value<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
        let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let mut own = pairs.filter(|(name, _)| *name == self.0).map(|(_, value)| value);
        let (value, None) = (own.next()?, own.next()) else { return None };
        Some(value)
    }
}

/// The logins of browsers: how a cookie stands for a client.
pub(super) enum BrowserLogins {
    /// For the person whose token the gate made.
    Person(SessionCookies),
    /// For callers with tokens of an issuer.
    Issued(IssuedLogins),
}

impl BrowserLogins {
    /// Whether a request has a cookie of this server.
    pub(super) fn is_present(&self, headers: &HeaderMap) -> bool {
        self.name().value(headers).is_some()
    }

    /// A `Set-Cookie` header that removes the cookie.
    pub(super) fn clear(&self, is_https: bool) -> String {
        self.name().header("", 0, is_https)
    }

    fn name(&self) -> &CookieName {
        match self {
            Self::Person(cookies) => &cookies.name,
            Self::Issued(logins) => logins.name(),
        }
    }
}

impl SessionCookies {
    /// The cookies of a server with this token.
    pub(super) fn new(token: &Sha256, listening: SocketAddr) -> Self {
        Self { key: StateKey::new(*token.as_bytes()), name: CookieName::of(listening) }
    }

    /// A `Set-Cookie` header that authenticates the browser.
    pub(super) fn issue(&self, is_https: bool) -> Option<String> {
        let expires = now().checked_add(LIFETIME)?.as_secs().to_string();
        let nonce = random_id()?;
        let seal = self.key.seal(PURPOSE, &[expires.as_bytes(), nonce.as_bytes()]);
        let value = format!("{expires}.{nonce}.{seal}");
        Some(self.name.header(&value, LIFETIME.as_secs(), is_https))
    }

    /// Whether a request has a cookie that counts.
    pub(super) fn is_valid(&self, headers: &HeaderMap) -> bool {
        let Some(value) = self.name.value(headers) else { return false };
        let mut parts = value.split('.');
        let (Some(expires), Some(nonce), Some(seal), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return false;
        };
        let is_sealed = self.key.verifies(PURPOSE, &[expires.as_bytes(), nonce.as_bytes()], seal.as_bytes());
        is_sealed && expires.parse().is_ok_and(|expires: u64| expires > now().as_secs())
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn cookies(token: &str, port: u16) -> SessionCookies {
        SessionCookies::new(&Sha256::of(token.as_bytes()), SocketAddr::from(([127, 0, 0, 1], port)))
    }

    fn headers(cookie: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.append(COOKIE, HeaderValue::from_str(cookie).unwrap());
        headers
    }

    #[test]
    fn a_cookie_counts_for_its_token_and_port_until_it_expires_or_is_altered() {
        let own = cookies("token", 8420);
        let issued = own.issue(false).unwrap();
        let pair = issued.split(';').next().unwrap();
        assert!(issued.ends_with("; HttpOnly; SameSite=Strict; Path=/; Max-Age=2592000"), "{issued}");
        assert!(own.issue(true).unwrap().ends_with("; Secure"));
        assert!(own.is_valid(&headers(pair)));
        assert!(own.is_valid(&headers(&format!("other=1; {pair}; more=2"))));
        assert!(cookies("token", 8420).is_valid(&headers(pair)), "after a restart");
        assert!(!cookies("another", 8420).is_valid(&headers(pair)), "after the token was replaced");
        assert!(!cookies("token", 8421).is_valid(&headers(pair)));
        assert!(!own.is_valid(&headers(&format!("{pair}; {pair}"))), "twice");
        let (_, value) = pair.split_once('=').unwrap();
        for place in 0..value.len() {
            let mut bytes = value.as_bytes().to_vec();
            bytes[place] = if bytes[place] == b'1' { b'2' } else { b'1' };
            let altered = String::from_utf8(bytes).unwrap();
            assert!(!own.is_valid(&headers(&format!("toolgate-8420={altered}"))), "{altered}");
        }
        let past = "1000";
        let seal = own.key.seal(PURPOSE, &[past.as_bytes(), b"n"]);
        assert!(!own.is_valid(&headers(&format!("toolgate-8420={past}.n.{seal}"))));
        assert!(!own.is_valid(&headers("toolgate-8420=")));
    }
}

//! Authentication of HTTP clients.
//!
//! An unauthenticated request is rejected. Its body is read only if it came with a token, and only as far as the audit record needs. A token is
//! accepted only in the `Authorization` header: URLs end up in logs. No token is stored here, and none is ever shown.

use std::fmt;
use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use toolgate_gate::{Credential, Gate};
use toolgate_types::{Caller, SessionId, Sha256};

use super::sessions::NamedSession;
use crate::mcp::{AuthMethod, ClientIdentity, IdentityDigests};

/// Maximum length of a token.
const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// What clients must present.
#[derive(Clone)]
pub enum AuthRequirement {
    /// One fixed token, of which this is the digest. Its bearer acts as the configured person.
    Token(Sha256),
    /// A token from an issuer, which the gate verifies.
    Issued {
        /// The URL of the issuer, published in the metadata for clients.
        issuer: Option<String>,
    },
    /// Nothing. Every client acts as the configured person.
    None,
}

/// Does not show the digest of the token either.
impl fmt::Debug for AuthRequirement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Token(_) => "Token",
            Self::Issued { .. } => "Issued",
            Self::None => "None",
        })
    }
}

/// How clients authenticate.
#[derive(Clone, Debug)]
pub struct Auth {
    /// What they must present.
    pub requirement: AuthRequirement,
    /// The caller that the fixed token or no token stands for. For issued tokens, only its session, run and trust are used.
    pub person: Caller,
}

/// Why authentication failed.
#[derive(Clone, Debug)]
pub(crate) enum AuthRejection {
    /// No token was sent.
    NoToken,
    /// The token is invalid. The gate refuses and records calls with this credential.
    BadToken(Credential),
}

/// An authenticated client whose session is not determined yet.
pub(crate) struct AuthenticatedClient {
    credential: Credential,
    /// The caller it authenticated as.
    caller: Arc<Caller>,
    digests: IdentityDigests,
}

impl Auth {
    /// Authenticates the sender of these headers. Waits only if the keys of an issuer must be fetched.
    pub(crate) async fn admit(
        &self,
        headers: &HeaderMap,
        gate: &Gate,
    ) -> Result<AuthenticatedClient, AuthRejection> {
        match &self.requirement {
            AuthRequirement::None => Ok(self.person()),
            AuthRequirement::Token(digest) => {
                let token = bearer(headers).ok_or(AuthRejection::NoToken)?;
                // An empty token stands in for the one sent, so that the gate does not try it as an issued token.
                let is_good = is_equal(&Sha256::of(token.as_bytes()), digest);
                is_good.then(|| self.person()).ok_or_else(|| AuthRejection::BadToken(self.issued("")))
            }
            AuthRequirement::Issued { .. } => {
                let token = bearer(headers).ok_or(AuthRejection::NoToken)?;
                self.identify(token, gate).await
            }
        }
    }

    /// Verifies a token of an issuer.
    pub(super) async fn identify(
        &self,
        token: &str,
        gate: &Gate,
    ) -> Result<AuthenticatedClient, AuthRejection> {
        let credential = self.issued(token);
        match gate.identify(credential.clone()).await {
            Ok(caller) => Ok(AuthenticatedClient {
                digests: IdentityDigests::new(AuthMethod::Verified, &caller),
                credential,
                caller,
            }),
            Err(_) => Err(AuthRejection::BadToken(credential)),
        }
    }

    pub(super) fn person(&self) -> AuthenticatedClient {
        let (caller, known_as) =
            (Arc::new(self.person.clone()), IdentityDigests::new(AuthMethod::Known, &self.person));
        AuthenticatedClient { credential: Credential::Known(Arc::clone(&caller)), caller, digests: known_as }
    }

    fn issued(&self, token: &str) -> Credential {
        let Caller { session, run, trust, .. } = self.person.clone();
        Credential::Token { token: token.to_owned(), session, run, trust }
    }
}

impl AuthenticatedClient {
    /// The caller, for a record.
    pub(crate) fn caller(&self) -> Arc<Caller> {
        Arc::clone(&self.caller)
    }

    /// The credential of its calls.
    pub(crate) fn into_credential(self) -> Credential {
        self.credential
    }

    /// A digest of the caller's identity, independent of its permissions.
    pub(crate) fn owner(&self) -> [u8; 32] {
        self.digests.owner
    }

    /// The identity within the session that the client named. Without one, all requests of a caller share a session that never ends.
    pub(crate) fn in_session(self, named: Option<NamedSession>) -> ClientIdentity {
        let Self { mut credential, digests: IdentityDigests { owner, binding }, .. } = self;
        let id =
            named.as_ref().map_or_else(|| Sha256::from(owner), |named| Sha256::of(named.name.as_bytes()));
        let short: String = id.to_string().chars().take(12).collect();
        // The session name is a bearer secret, so records contain only a digest of it.
        if let Ok(named) = format!("mcp-{short}").parse::<SessionId>() {
            match &mut credential {
                Credential::Known(caller) => Arc::make_mut(caller).session = named,
                Credential::Token { session, .. } => *session = named,
            }
        }
        let has_session = named.is_some();
        ClientIdentity {
            credential,
            binding,
            owner,
            has_session,
            flow_session: None,
            ended: named.map(|named| named.ended).unwrap_or_default(),
        }
    }
}

/// Compares in constant time.
pub(super) fn is_equal(one: &Sha256, other: &Sha256) -> bool {
    let differing =
        one.as_bytes().iter().zip(other.as_bytes()).fold(0, |all, (one, other)| all | (one ^ other));
    std::hint::black_box(differing) == 0
}

/// The token of the `Authorization` header, if there is exactly one and its scheme is `Bearer`.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (value, None) = (values.next()?, values.next()) else { return None };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    let token = token.trim_matches(' ');
    (scheme.eq_ignore_ascii_case("bearer") && is_token(token)).then_some(token)
}

/// Whether a text has the form of a token (RFC 6750).
pub(super) fn is_token(text: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    !text.is_empty() && text.len() <= MAX_TOKEN_BYTES && text.bytes().all(good)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use tokio_util::sync::CancellationToken;
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
    fn a_token_stands_in_one_header_of_one_kind() {
        let long = format!("Bearer {}", "a".repeat(MAX_TOKEN_BYTES + 1));
        for (values, expected) in [
            (vec!["Bearer abc.d_e-f~g+h/i="], Some("abc.d_e-f~g+h/i=")),
            (vec!["bearer abc"], Some("abc")),
            (vec!["BEARER   abc "], Some("abc")),
            (vec![], None),
            (vec!["Bearer"], None),
            (vec!["Bearer "], None),
            (vec!["Basic abc"], None),
            (vec!["abc"], None),
            (vec!["Bearer a b"], None),
            (vec!["Bearer a,b"], None),
            (vec!["Bearer a", "Bearer a"], None),
            (vec![long.as_str()], None),
        ] {
            let mut headers = HeaderMap::new();
            for value in &values {
                headers.append(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
            }
            assert_eq!(bearer(&headers), expected, "{values:?}");
        }
    }

    #[test]
    fn digests_are_equal_or_not() {
        let one = Sha256::of(b"one");
        assert!(is_equal(&one, &Sha256::of(b"one")));
        for place in 0..32 {
            let mut bytes = *one.as_bytes();
            bytes[place] ^= 1;
            assert!(!is_equal(&one, &Sha256::from(bytes)), "{place}");
        }
    }

    #[test]
    fn sessions_of_one_caller_differ_by_name_and_never_show_it() {
        let auth = |subject: &str| Auth { requirement: AuthRequirement::None, person: caller(subject) };
        let session = |subject: &str, named: Option<&str>| {
            let named =
                named.map(|name| NamedSession { name: name.to_owned(), ended: CancellationToken::new() });
            auth(subject).person().in_session(named).credential.unverified_caller().session.to_string()
        };

        assert_eq!(session("a", None), session("a", None));
        assert_ne!(session("a", None), session("b", None));
        assert_ne!(session("a", Some("one")), session("a", Some("two")));
        assert!(!session("a", Some("c0ffee")).contains("c0ffee"));
    }
}

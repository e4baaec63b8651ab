//! Who comes in.
//!
//! Whoever cannot say so is turned away; of what it wants, as much is read as a record needs, and only where it tried a token. A token comes in the `Authorization` header and nowhere else: what stands in
//! an address ends up in logs. Nothing of a token is kept here, and none is ever shown.

use std::fmt;
use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use toolgate_gate::{Credential, Gate};
use toolgate_types::{Caller, SessionId, Sha256};

use super::sessions::NamedSession;
use crate::mcp::{AuthMethod, ClientIdentity, IdentityDigests};

/// A token is never longer than this.
const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// What callers must come with.
#[derive(Clone)]
pub enum AuthRequirement {
    /// One token, of which this is the digest. Whoever has it is the person.
    Token(Sha256),
    /// A token of an issuer, which the gate verifies.
    Issued {
        /// Who issues them, for clients that look for one: a URL.
        issuer: Option<String>,
    },
    /// Nothing. Whoever reaches this door is the person.
    None,
}

/// The digest of a token is not shown either.
impl fmt::Debug for AuthRequirement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Token(_) => "Token",
            Self::Issued { .. } => "Issued",
            Self::None => "Nothing",
        })
    }
}

/// How callers say who they are.
#[derive(Clone, Debug)]
pub struct Auth {
    /// What they must come with.
    pub requirement: AuthRequirement,
    /// Who the person is. Of callers with tokens of an issuer, its run and its trust are what they begin with.
    pub person: Caller,
}

/// Why somebody is not let in.
#[derive(Clone, Debug)]
pub(crate) enum AuthRejection {
    /// No token came.
    NoToken,
    /// A token came that is not good. Calls with it are refused by the gate, with this credential.
    BadToken(Credential),
}

/// Somebody who is let in, before its session is known.
pub(crate) struct AuthenticatedClient {
    credential: Credential,
    /// Who that is.
    caller: Arc<Caller>,
    digests: IdentityDigests,
}

impl Auth {
    /// Finds out who sent these headers. Waits only where the keys of an issuer must be fetched.
    pub(crate) async fn admit(
        &self,
        headers: &HeaderMap,
        gate: &Gate,
    ) -> Result<AuthenticatedClient, AuthRejection> {
        match &self.requirement {
            AuthRequirement::None => Ok(self.person()),
            AuthRequirement::Token(digest) => {
                let token = bearer(headers).ok_or(AuthRejection::NoToken)?;
                // What came is no token of an issuer, and is not tried as one.
                let is_good = is_equal(&Sha256::of(token.as_bytes()), digest);
                is_good.then(|| self.person()).ok_or_else(|| AuthRejection::BadToken(self.issued("")))
            }
            AuthRequirement::Issued { .. } => {
                let token = bearer(headers).ok_or(AuthRejection::NoToken)?;
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
        }
    }

    fn person(&self) -> AuthenticatedClient {
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
    /// Who it is, for a record.
    pub(crate) fn caller(&self) -> Arc<Caller> {
        Arc::clone(&self.caller)
    }

    /// A digest of who it is, whatever it may do.
    pub(crate) fn owner(&self) -> [u8; 32] {
        self.digests.owner
    }

    /// In the session that its client named, or in the one of everything that this caller does without one: that never ends.
    pub(crate) fn in_session(self, named: Option<NamedSession>) -> ClientIdentity {
        let Self { mut credential, digests: IdentityDigests { owner, binding }, .. } = self;
        let id =
            named.as_ref().map_or_else(|| Sha256::from(owner), |named| Sha256::of(named.name.as_bytes()));
        let short: String = id.to_string().chars().take(12).collect();
        // What a client calls its session is as good as a key, so that records have a digest of it.
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
            ended: named.map(|named| named.ended).unwrap_or_default(),
        }
    }
}

/// Takes as long for digests that differ early as for those that differ late.
fn is_equal(one: &Sha256, other: &Sha256) -> bool {
    let differing =
        one.as_bytes().iter().zip(other.as_bytes()).fold(0, |all, (one, other)| all | (one ^ other));
    std::hint::black_box(differing) == 0
}

/// The token of the one `Authorization` header, if it is of the kind that bears one.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (value, None) = (values.next()?, values.next()) else { return None };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    let token = token.trim_matches(' ');
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    let is_token = !token.is_empty() && token.len() <= MAX_TOKEN_BYTES && token.bytes().all(good);
    (scheme.eq_ignore_ascii_case("bearer") && is_token).then_some(token)
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

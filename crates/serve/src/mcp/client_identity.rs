//! Who is on the other side.

use std::fmt;

use rmcp::model::{ErrorData, Extensions};
use tokio_util::sync::CancellationToken;
use toolgate_gate::Credential;
use toolgate_types::Caller;
use toolgate_types::digest::Sha256Hasher;

/// How a handler knows who is calling.
#[derive(Clone, Debug)]
pub enum CallerSource {
    /// Everything on this connection is this caller's: whoever started the process holds both ends of it.
    Fixed(Credential),
    /// The door put a [`Visitor`] into the extensions of every request.
    PerRequest,
}

/// Somebody whom a door let in.
#[derive(Clone)]
pub struct ClientIdentity {
    /// What the calls come with; its session is filled in.
    pub credential: Credential,
    /// A digest of who it is and of all that it may do: sealed states and kept outputs are good for nobody else, not even for the same caller with another
    /// token.
    pub binding: [u8; 32],
    /// A digest of who it is, whatever it may do just now: what is bounded for each caller is counted by this.
    pub owner: [u8; 32],
    /// Whether its session comes to an end some time. Where it does not, no yes can be for the rest of it.
    pub(crate) has_session: bool,
    /// Its session is over, and nobody waits for what was asked in it.
    pub(crate) ended: CancellationToken,
}

/// How a caller showed who it is.
#[derive(Clone, Copy)]
pub(crate) enum AuthMethod<'a> {
    /// Somebody else vouches for it.
    Known,
    /// With a token that was verified.
    Verified,
    /// With a token that nobody has looked at yet.
    Unverified(&'a str),
}

/// Digests of a caller.
#[derive(Clone, Copy)]
pub(crate) struct IdentityDigests {
    /// Of who it is, whatever it may do just now.
    pub(crate) owner: [u8; 32],
    /// Of who it is and of all that it may do.
    pub(crate) binding: [u8; 32],
}

impl IdentityDigests {
    pub(crate) fn new(proof: AuthMethod<'_>, caller: &Caller) -> Self {
        let (how, token) = match proof {
            AuthMethod::Known => ("known", ""),
            AuthMethod::Verified => ("verified", ""),
            AuthMethod::Unverified(token) => ("unverified", token),
        };
        let agent = caller.agent.as_ref().map_or("", |agent| agent.as_str());
        let run = caller.run.as_ref().map_or("", |run| run.as_str());
        let owner = digest(b"toolgate.owner.v1\0", [how, token, &caller.subject, agent].into_iter());
        let standing = [how, token, &caller.subject, agent, run, caller.trust.as_str()];
        let permissions = caller.permissions.iter().map(String::as_str);
        let binding = digest(b"toolgate.visitor.v2\0", standing.into_iter().chain(permissions));
        Self { owner, binding }
    }
}

/// Lengths keep two parts from being read as one.
fn digest<'a>(purpose: &[u8], parts: impl Iterator<Item = &'a str>) -> [u8; 32] {
    let mut hasher = Sha256Hasher::new();
    hasher.update(purpose);
    for part in parts {
        hasher.update(&(part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    *hasher.finish().as_bytes()
}

impl fmt::Debug for ClientIdentity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Visitor").field("credential", &self.credential).finish_non_exhaustive()
    }
}

impl ClientIdentity {
    /// Somebody who is known by a credential alone, for as long as its connection lasts.
    #[must_use]
    pub fn of(credential: Credential) -> Self {
        let proof = match &credential {
            Credential::Known(_) => AuthMethod::Known,
            Credential::Token { token, .. } => AuthMethod::Unverified(token),
        };
        let IdentityDigests { owner, binding } = IdentityDigests::new(proof, &credential.unverified_caller());
        Self { credential, binding, owner, has_session: true, ended: CancellationToken::new() }
    }

    /// Whom the door let in with this request. A door that forgot to say lets nobody in.
    pub(crate) fn in_request(extensions: &Extensions) -> Result<Self, ErrorData> {
        let parts = extensions.get::<axum::http::request::Parts>();
        let visitor = parts.and_then(|parts| parts.extensions.get::<Self>());
        visitor.cloned().ok_or_else(|| ErrorData::internal_error("the caller is not known", None))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use toolgate_types::Trust;

    use super::*;

    fn caller(permissions: &[&str]) -> Caller {
        Caller {
            subject: "alice".to_owned(),
            permissions: permissions.iter().map(|permission| (*permission).to_owned()).collect(),
            agent: None,
            session: "s".parse().unwrap(),
            run: None,
            trust: Trust::Guided,
        }
    }

    #[test]
    fn whatever_a_caller_may_do_is_part_of_what_it_is_bound_to() {
        let plain = caller(&["a", "b"]);
        let others = [
            caller(&["a"]),
            caller(&["ab"]),
            caller(&[]),
            Caller { run: Some("r".parse().unwrap()), ..plain.clone() },
            Caller { trust: Trust::Autonomous, ..plain.clone() },
        ];
        let one = IdentityDigests::new(AuthMethod::Verified, &plain);
        for other in &others {
            let other = IdentityDigests::new(AuthMethod::Verified, other);
            assert_eq!(one.owner, other.owner);
            assert_ne!(one.binding, other.binding);
        }
        let strangers = [
            IdentityDigests::new(AuthMethod::Known, &plain),
            IdentityDigests::new(AuthMethod::Unverified("t"), &plain),
            IdentityDigests::new(
                AuthMethod::Verified,
                &Caller { subject: "bob".to_owned(), ..plain.clone() },
            ),
            IdentityDigests::new(
                AuthMethod::Verified,
                &Caller { agent: Some("x".parse().unwrap()), ..plain.clone() },
            ),
        ];
        let owners: BTreeSet<_> = strangers.iter().chain([&one]).map(|known| known.owner).collect();
        let bindings: BTreeSet<_> = strangers.iter().chain([&one]).map(|known| known.binding).collect();
        assert_eq!((owners.len(), bindings.len()), (5, 5));
        // The session is no part of it: another of the same caller may read what was kept.
        let elsewhere = Caller { session: "other".parse().unwrap(), ..plain };
        assert_eq!(IdentityDigests::new(AuthMethod::Verified, &elsewhere).binding, one.binding);
    }
}

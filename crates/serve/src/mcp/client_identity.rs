//! The identity of a client.

use std::fmt;

use tokio_util::sync::CancellationToken;
use toolgate_gate::Credential;
use toolgate_types::digest::Sha256Hasher;
use toolgate_types::{Caller, SessionId, fresh_uuid};

/// An admitted client.
#[derive(Clone)]
pub(crate) struct ClientIdentity {
    /// The credential of its calls, with the session filled in.
    pub(crate) credential: Credential,
    /// A digest of the identity and all permissions: sealed states and stored outputs are bound to it, so that even the same caller with another
    /// token cannot use them.
    pub(crate) binding: [u8; 32],
    /// A digest of the identity alone: limits per caller are counted by it.
    pub(crate) owner: [u8; 32],
    /// Whether its session ends at some point. If not, no approval can last for the session.
    pub(crate) has_session: bool,
    /// Its session of information flow, if others share the session of its credential.
    pub(crate) flow_session: Option<SessionId>,
    /// Cancelled when its session ends: its calls end too.
    pub(crate) ended: CancellationToken,
}

/// How a caller authenticated.
#[derive(Clone, Copy)]
pub(crate) enum AuthMethod<'a> {
    /// By the process that embeds or started the gate, without a token.
    Known,
    /// By a verified token.
    Verified,
    /// By a token that is not verified yet.
    Unverified(&'a str),
}

/// Digests of a caller.
#[derive(Clone, Copy)]
pub(crate) struct IdentityDigests {
    /// Of the identity, independent of permissions.
    pub(crate) owner: [u8; 32],
    /// Of the identity and all permissions.
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

fn digest<'a>(purpose: &[u8], parts: impl Iterator<Item = &'a str>) -> [u8; 32] {
    let mut hasher = Sha256Hasher::new();
    hasher.update(purpose);
    parts.for_each(|part| hasher.update_prefixed(part.as_bytes()));
    *hasher.finish().as_bytes()
}

impl fmt::Debug for ClientIdentity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ClientIdentity").field("credential", &self.credential).finish_non_exhaustive()
    }
}

impl ClientIdentity {
    /// A client that is identified by a credential alone, for as long as its connection lasts.
    pub(crate) fn of(credential: Credential) -> Self {
        let proof = match &credential {
            Credential::Known(_) => AuthMethod::Known,
            Credential::Token { token, .. } => AuthMethod::Unverified(token),
        };
        let IdentityDigests { owner, binding } = IdentityDigests::new(proof, &credential.unverified_caller());
        // Every connection over standard input and output has the same session.
        let flow_session = format!("mcp-{}", fresh_uuid()).parse().ok();
        let ended = CancellationToken::new();
        Self { credential, binding, owner, has_session: true, flow_session, ended }
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
        // The session is not included: another session of the same caller may read stored outputs.
        let elsewhere = Caller { session: "other".parse().unwrap(), ..plain };
        assert_eq!(IdentityDigests::new(AuthMethod::Verified, &elsewhere).binding, one.binding);
    }
}

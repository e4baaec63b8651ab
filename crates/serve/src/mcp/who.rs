//! Who is on the other side.

use std::fmt;

use rmcp::model::{ErrorData, Extensions};
use toolgate_gate::Credential;
use toolgate_types::digest::Sha256Hasher;

/// How a handler knows who is calling.
#[derive(Clone, Debug)]
pub enum Who {
    /// Everything on this connection is this caller's: whoever started the process holds both ends of it.
    Fixed(Credential),
    /// The door put a [`Visitor`] into the extensions of every request.
    Visitor,
}

/// Somebody whom a door let in.
#[derive(Clone)]
pub struct Visitor {
    /// What the calls come with; its session is filled in.
    pub credential: Credential,
    /// A digest of who it is: sealed states and kept outputs are good for nobody else.
    pub binding: [u8; 32],
}

impl fmt::Debug for Visitor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Visitor").field("credential", &self.credential).finish_non_exhaustive()
    }
}

impl Visitor {
    /// Somebody who is known by a credential alone.
    #[must_use]
    pub fn of(credential: Credential) -> Self {
        let claimed = credential.claimed();
        let token = match &credential {
            Credential::Known(_) => "",
            Credential::Token { token, .. } => token,
        };
        let agent = claimed.agent.as_ref().map_or("", |agent| agent.as_str());
        let mut hasher = Sha256Hasher::new();
        hasher.update(b"toolgate.visitor.v1\0");
        for part in [&claimed.subject, agent, claimed.session.as_str(), token] {
            hasher.update(&(part.len() as u64).to_be_bytes());
            hasher.update(part.as_bytes());
        }
        Self { binding: *hasher.finish().as_bytes(), credential }
    }

    /// Whom the door let in with this request. A door that forgot to say lets nobody in.
    pub(crate) fn in_request(extensions: &Extensions) -> Result<Self, ErrorData> {
        let parts = extensions.get::<axum::http::request::Parts>();
        let visitor = parts.and_then(|parts| parts.extensions.get::<Self>());
        visitor.cloned().ok_or_else(|| ErrorData::internal_error("the caller is not known", None))
    }
}

//! In whose name a call is made.

use std::collections::BTreeSet;

use toolgate_gate::Credential;
use toolgate_types::{AgentName, Caller};

/// In whose name a call is made.
#[derive(Clone, Debug)]
pub struct CallerIdentity(IdentityKind);

#[derive(Clone, Debug)]
enum IdentityKind {
    Person(String),
    Agent(String, AgentName),
    Jwt(String),
    Caller(Caller),
}

impl CallerIdentity {
    /// A person that this program has authenticated, with every permission.
    pub fn person(name: impl Into<String>) -> Self {
        Self(IdentityKind::Person(name.into()))
    }

    /// An agent of the configuration, acting for a person that this program has authenticated.
    pub fn agent(person: impl Into<String>, agent: AgentName) -> Self {
        Self(IdentityKind::Agent(person.into(), agent))
    }

    /// The bearer of a token, which the gate verifies.
    pub fn jwt(token: impl Into<String>) -> Self {
        Self(IdentityKind::Jwt(token.into()))
    }

    pub(super) fn into_credential(self, template: &Caller) -> Credential {
        let known = |subject: String, agent: Option<AgentName>| {
            let permissions = BTreeSet::new();
            Credential::from(Caller { subject, agent, permissions, ..template.clone() })
        };
        match self.0 {
            IdentityKind::Person(name) => known(name, None),
            IdentityKind::Agent(person, agent) => known(person, Some(agent)),
            IdentityKind::Caller(caller) => caller.into(),
            IdentityKind::Jwt(token) => {
                let Caller { session, run, trust, .. } = template.clone();
                Credential::Token { token, session, run, trust }
            }
        }
    }
}

impl From<Caller> for CallerIdentity {
    /// A caller whose every field this program has verified. What a token says must come as [`CallerIdentity::jwt`].
    fn from(caller: Caller) -> Self {
        Self(IdentityKind::Caller(caller))
    }
}

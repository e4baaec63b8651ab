//! The identity that a token proves.

use std::collections::BTreeSet;
use std::time::SystemTime;

use toolgate_types::{AgentName, Trust};

/// The caller's identity from a token. It is not yet a complete caller: the gate adds the session and run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The subject; unique only together with the issuer.
    pub subject: String,
    /// The issuer.
    pub issuer: String,
    /// The granted permissions; empty if the token has none.
    pub permissions: BTreeSet<String>,
    /// The agent that the caller acts for, if the token names one.
    pub agent: Option<AgentName>,
    /// The trust level, if the issuer may set it and the token does.
    pub trust: Option<Trust>,
    /// When the token expires, without leeway.
    pub expires: SystemTime,
    /// The token's id, if it has one.
    pub token_id: Option<String>,
}

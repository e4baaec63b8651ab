//! What a token proves.

use std::collections::BTreeSet;
use std::time::SystemTime;

use toolgate_types::{AgentName, Trust};

/// Who is calling, as far as a token can say. It is not yet a caller: which session and run it belongs to is
/// for the gate to add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Who, in the issuer's words; unique only together with the issuer.
    pub subject: String,
    /// Who says so.
    pub issuer: String,
    /// What the subject was granted; empty when the token says nothing.
    pub permissions: BTreeSet<String>,
    /// The agent it calls for, if the token names one.
    pub agent: Option<AgentName>,
    /// How much it is asked, if the issuer may say and the token does.
    pub trust: Option<Trust>,
    /// From when on the token proves nothing any more; leeway is not counted in.
    pub expires: SystemTime,
    /// The token's own id, if it has one.
    pub token_id: Option<String>,
}

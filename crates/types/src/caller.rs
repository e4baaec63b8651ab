//! Who is calling.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{AgentName, RunId, SessionId};

/// How much is asked before a call runs. Trust adds questions, never rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trust {
    /// Every call is asked about.
    Supervised,
    /// Calls that change something are asked about.
    Guided,
    /// No declared call is asked about.
    Autonomous,
}

impl Trust {
    /// The word used in configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Supervised => "supervised",
            Self::Guided => "guided",
            Self::Autonomous => "autonomous",
        }
    }
}

impl fmt::Display for Trust {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl FromStr for Trust {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "supervised" => Ok(Self::Supervised),
            "guided" => Ok(Self::Guided),
            "autonomous" => Ok(Self::Autonomous),
            other => {
                Err(format!("`{other}` is not a trust level; use `supervised`, `guided` or `autonomous`"))
            }
        }
    }
}

/// Words of the gate's own in the place of a subject: a record that names one of them must not be taken for somebody's. The first stands for a caller that was
/// never verified.
pub const RESERVED_SUBJECTS: [&str; 2] = ["unverified", "example"];

/// The verified identity behind a call, with what it was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The subject, as audit records name it.
    pub subject: String,
    /// What the subject was granted.
    pub permissions: BTreeSet<String>,
    /// The agent on whose behalf it calls; `None` is a person at the keyboard.
    pub agent: Option<AgentName>,
    /// The sitting that its changes belong to.
    pub session: SessionId,
    /// The workflow run it belongs to, if any.
    pub run: Option<RunId>,
    /// How much it is asked.
    pub trust: Trust,
}

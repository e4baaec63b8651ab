//! The identity of a caller.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{AgentName, RunId, SessionId};

/// Which calls need approval before they run. A lower trust adds approvals, never permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trust {
    /// Every call needs approval.
    Supervised,
    /// Calls that change something need approval.
    Guided,
    /// No declared call needs approval.
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

/// Names that the gate itself uses as a subject: no caller may have one of them, so that audit records stay unambiguous. The first stands for a
/// caller that was never verified.
pub const RESERVED_SUBJECTS: [&str; 2] = ["unverified", "example"];

/// The verified identity behind a call, with its permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The subject, as audit records name it.
    pub subject: String,
    /// What the subject was granted.
    pub permissions: BTreeSet<String>,
    /// The agent on whose behalf it calls; `None` is a person at the keyboard.
    pub agent: Option<AgentName>,
    /// The session that its changes belong to.
    pub session: SessionId,
    /// The workflow run it belongs to, if any.
    pub run: Option<RunId>,
    /// Which of its calls need approval.
    pub trust: Trust,
}

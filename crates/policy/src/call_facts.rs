//! What is known about one call when it is judged.

use std::collections::BTreeSet;

use serde_json::Value;
use toolgate_types::Caller;

use crate::cedar::CallPaths;

static NO_PERMISSIONS: BTreeSet<String> = BTreeSet::new();

/// Which permissions a caller holds. The default is none.
#[derive(Clone, Copy, Debug)]
pub enum HeldPermissions<'a> {
    /// Every permission: a person at the keyboard, who came without a token and acts for no agent.
    Everything,
    /// These and no others.
    Only(&'a BTreeSet<String>),
}

impl Default for HeldPermissions<'_> {
    fn default() -> Self {
        Self::Only(&NO_PERMISSIONS)
    }
}

impl<'a> HeldPermissions<'a> {
    /// Exactly what the caller was granted. That somebody holds everything is never inferred: whoever knows
    /// it says so.
    #[must_use]
    pub fn granted(caller: &'a Caller) -> Self {
        Self::Only(&caller.permissions)
    }

    /// Whether this permission is held.
    #[must_use]
    pub fn holds(self, permission: &str) -> bool {
        match self {
            Self::Everything => true,
            Self::Only(held) => held.contains(permission),
        }
    }

    pub(crate) fn is_everything(self) -> bool {
        matches!(self, Self::Everything)
    }
}

/// One call as permissions, conditions and policies see it.
///
/// The arguments need not have been validated: what does not fit the tool's schema fails to evaluate, and
/// that is judged as elevated and as forbidden.
#[derive(Clone, Copy, Debug)]
pub struct CallFacts<'a> {
    /// Who calls, in which session and run.
    pub caller: &'a Caller,
    /// What the caller holds.
    pub held: HeldPermissions<'a>,
    /// The arguments.
    pub input: &'a Value,
    /// Where the paths among them really lead; nothing, where that was not found out. A rule about paths then fails to evaluate.
    pub paths: Option<&'a CallPaths>,
    /// How many calls this session made before this one.
    pub calls: u64,
}

/// Whether a call may go on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum PolicyDecision {
    /// Nothing here stands against it.
    Allowed,
    /// It may not.
    Denied {
        /// Which permission, condition or policy decided; for the operator only. A model is told that the
        /// call is not permitted, and nothing else. No argument's value is in here.
        operator_reason: String,
    },
}

impl PolicyDecision {
    /// Whether the call may go on.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed)
    }

    pub(crate) fn denied(operator_reason: impl Into<String>) -> Self {
        Self::Denied { operator_reason: operator_reason.into() }
    }
}

//! The facts about a call on which decisions are based.

use std::collections::BTreeSet;

use serde_json::Value;
use toolgate_types::Caller;

use crate::cedar::CallPaths;

static NO_PERMISSIONS: BTreeSet<String> = BTreeSet::new();

/// The permissions of a caller. The default is none.
#[derive(Clone, Copy, Debug)]
pub enum HeldPermissions<'a> {
    /// Every permission: the local user, without a token and not on behalf of an agent.
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
    /// Exactly what the caller was granted. [`Self::Everything`] is never inferred: the code that knows it must say so.
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
/// The arguments need not be validated: what does not match the tool's schema fails to evaluate, and counts as elevated and as
/// forbidden.
#[derive(Clone, Copy, Debug)]
pub struct CallFacts<'a> {
    /// The caller, with its session and run.
    pub caller: &'a Caller,
    /// The caller's permissions.
    pub held: HeldPermissions<'a>,
    /// The arguments.
    pub input: &'a Value,
    /// The resolved paths among the arguments; `None` if they were not resolved. A rule about paths then fails to evaluate.
    pub paths: Option<&'a CallPaths>,
    /// How many calls this session made before.
    pub calls: u64,
}

/// Whether a call may proceed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum PolicyDecision {
    /// Allowed by this check.
    Allowed,
    /// Denied.
    Denied {
        /// The permission, condition or policy that decided; for the operator only. The model learns only that the call is not
        /// permitted. Contains no argument values.
        operator_reason: String,
    },
}

impl PolicyDecision {
    /// Whether the call may proceed.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed)
    }

    pub(crate) fn denied(operator_reason: impl Into<String>) -> Self {
        Self::Denied { operator_reason: operator_reason.into() }
    }
}

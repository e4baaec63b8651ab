//! The permissions that a tool requires.
//!
//! All of `permissions`; those of `elevated` as well if its condition holds or cannot be evaluated; and
//! [`ALLOW_DESTRUCTIVE`] for a destructive tool. More held permissions never allow less, and more required
//! ones never allow more.

use toolgate_types::ToolClass;

use crate::call_facts::{CallFacts, PolicyDecision};
use crate::cedar::Condition;

/// The permission that every destructive tool requires besides its own.
pub const ALLOW_DESTRUCTIVE: &str = "allow_destructive";

/// The requirements of one tool.
#[derive(Clone, Debug)]
pub struct Requirements {
    /// Permissions that every call needs, all of them.
    pub permissions: Vec<String>,
    /// Permissions that some calls need in addition.
    pub elevated: Option<ElevatedPermissions>,
    /// The tool's class.
    pub class: ToolClass,
}

/// Permissions that a call needs in addition if a condition holds.
#[derive(Clone, Debug)]
pub struct ElevatedPermissions {
    /// The condition.
    pub condition: Condition,
    /// The permissions.
    pub permissions: Vec<String>,
}

/// Whether a call needs the elevated permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Elevation {
    /// The tool has no condition, or it does not hold.
    Ordinary,
    /// The condition holds.
    Elevated,
    /// The condition could not be evaluated, for this reason; the call counts as elevated.
    Undecided(String),
}

impl Requirements {
    /// Whether the caller has all permissions that this call needs.
    pub fn check(&self, facts: &CallFacts<'_>) -> PolicyDecision {
        if facts.held.is_everything() {
            return PolicyDecision::Allowed;
        }
        let mut lacking = Vec::new();
        self.note_missing(&mut lacking, facts, &self.permissions, "");
        if self.class == ToolClass::Destructive {
            let demanded = [ALLOW_DESTRUCTIVE.to_owned()];
            self.note_missing(&mut lacking, facts, &demanded, ", because the tool is of class `destructive`");
        }
        if let Some(elevated) = &self.elevated
            && let Some(because) = why_elevated(&elevated.condition, &self.elevation(facts))
        {
            self.note_missing(&mut lacking, facts, &elevated.permissions, &because);
        }
        if lacking.is_empty() { PolicyDecision::Allowed } else { PolicyDecision::denied(lacking.join("; ")) }
    }

    /// Whether the paths of a call must be resolved first.
    #[must_use]
    pub fn needs_paths(&self) -> bool {
        self.elevated.as_ref().is_some_and(|elevated| elevated.condition.needs_paths())
    }

    /// Whether this call needs the elevated permissions.
    #[must_use]
    pub fn elevation(&self, facts: &CallFacts<'_>) -> Elevation {
        match self.elevated.as_ref().map(|elevated| elevated.condition.holds(facts)) {
            None | Some(Ok(false)) => Elevation::Ordinary,
            Some(Ok(true)) => Elevation::Elevated,
            Some(Err(reason)) => Elevation::Undecided(reason.to_string()),
        }
    }

    fn note_missing(&self, lacking: &mut Vec<String>, facts: &CallFacts<'_>, all: &[String], because: &str) {
        let missing: Vec<String> = all
            .iter()
            .filter(|permission| !facts.held.holds(permission))
            .map(|permission| format!("`{permission}`"))
            .collect();
        if !missing.is_empty() {
            let noun = if missing.len() == 1 { "permission" } else { "permissions" };
            let subject = &facts.caller.subject;
            lacking.push(format!("`{subject}` lacks {noun} {}{because}", missing.join(", ")));
        }
    }
}

fn why_elevated(condition: &Condition, elevation: &Elevation) -> Option<String> {
    let text = condition.text();
    match elevation {
        Elevation::Ordinary => None,
        Elevation::Elevated => Some(format!(", because the condition `{text}` holds")),
        Elevation::Undecided(reason) => {
            Some(format!(", because the condition `{text}` could not be evaluated ({reason})"))
        }
    }
}

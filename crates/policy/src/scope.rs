//! What an agent may do.

use std::collections::BTreeMap;

use toolgate_manifest::{AgentConfig, LimitOverrides, ToolPermission};
use toolgate_types::ToolClass;

use crate::paths::PathScope;

/// What one caller may do, compiled from the configuration.
#[derive(Clone, Debug)]
pub struct AgentScope(ScopeRule);

#[derive(Clone, Debug)]
enum ScopeRule {
    /// A person: every tool.
    Everything,
    /// An agent without `tool_permissions`: tools of class `read`.
    Reading { agent: String },
    /// An agent with `tool_permissions`: exactly the allowed ones.
    Listed { agent: String, permissions: BTreeMap<String, ListedPermission> },
}

/// The entry for one tool.
#[derive(Clone, Debug)]
enum ListedPermission {
    Allowed(Grant),
    /// `allowed: false`, with its line.
    Forbidden(usize),
    /// More than one entry; which one was meant would be a guess.
    Ambiguous,
}

/// Whether a call is permitted.
#[derive(Clone, Debug)]
pub enum ScopeVerdict {
    /// Permitted, within these limits.
    Allowed(Grant),
    /// Denied.
    Denied {
        /// The declaration, or the missing one, that decided; for the operator only. The model learns only that the
        /// call is not permitted.
        operator_reason: String,
    },
}

/// The limits within which a call is permitted.
#[derive(Clone, Debug, Default)]
pub struct Grant {
    /// The paths that the call may access; `None` means all.
    pub paths: Option<PathScope>,
    /// Limits, including the timeout, for this agent and this tool.
    pub limits: LimitOverrides,
}

impl AgentScope {
    /// The scope of an agent, or of a person if there is none.
    #[must_use]
    pub fn of(agent: Option<&AgentConfig>) -> Self {
        let Some(agent) = agent else { return Self(ScopeRule::Everything) };
        let name = agent.name.value.to_string();
        Self(match &agent.tool_permissions {
            None => ScopeRule::Reading { agent: name },
            Some(permissions) => ScopeRule::Listed { agent: name, permissions: by_tool(permissions) },
        })
    }

    /// Whether this caller may use a tool of this class.
    #[must_use]
    pub fn permits(&self, tool: &str, class: ToolClass) -> ScopeVerdict {
        match &self.0 {
            ScopeRule::Everything => ScopeVerdict::Allowed(Grant::default()),
            ScopeRule::Reading { .. } if class == ToolClass::Read => ScopeVerdict::Allowed(Grant::default()),
            ScopeRule::Reading { agent } => ScopeVerdict::denied(format!(
                "agent `{agent}` has no `tool_permissions`, so it may only read, and `{tool}` is of class `{}`",
                class.as_str()
            )),
            ScopeRule::Listed { agent, permissions } => match permissions.get(tool) {
                Some(ListedPermission::Allowed(grant)) => ScopeVerdict::Allowed(grant.clone()),
                Some(ListedPermission::Forbidden(line)) => ScopeVerdict::denied(format!(
                    "agent `{agent}` has `allowed: false` for `{tool}`{}",
                    on_line(*line)
                )),
                Some(ListedPermission::Ambiguous) => {
                    ScopeVerdict::denied(format!("agent `{agent}` has more than one permission for `{tool}`"))
                }
                None => ScopeVerdict::denied(format!(
                    "`{tool}` is not among the `tool_permissions` of agent `{agent}`"
                )),
            },
        }
    }
}

impl ScopeVerdict {
    /// Whether the call is permitted.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed(_))
    }

    fn denied(operator_reason: String) -> Self {
        Self::Denied { operator_reason }
    }
}

fn by_tool(permissions: &[ToolPermission]) -> BTreeMap<String, ListedPermission> {
    let mut by_tool = BTreeMap::new();
    for permission in permissions {
        by_tool
            .entry(permission.tool.value.to_string())
            .and_modify(|earlier| *earlier = ListedPermission::Ambiguous)
            .or_insert_with(|| ListedPermission::of(permission));
    }
    by_tool
}

impl ListedPermission {
    fn of(permission: &ToolPermission) -> Self {
        if permission.allowed {
            let paths = permission.paths.clone().map(PathScope::new);
            Self::Allowed(Grant { paths, limits: permission.limits })
        } else {
            Self::Forbidden(permission.tool.line)
        }
    }
}

/// The position for the message; declarations made in code have no line.
fn on_line(line: usize) -> String {
    if line == 0 { String::new() } else { format!(" on line {line}") }
}

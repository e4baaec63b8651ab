//! What an agent may do.

use std::collections::BTreeMap;

use toolgate_manifest::{AgentConfig, LimitOverrides, ToolPermission};
use toolgate_types::ToolClass;

use crate::paths::PathScope;

/// What one caller may do, made once from what the operator declared.
#[derive(Clone, Debug)]
pub struct AgentScope(ScopeRule);

#[derive(Clone, Debug)]
enum ScopeRule {
    /// A person: every tool.
    Everything,
    /// An agent without permissions of its own: tools that only read.
    Reading { agent: String },
    /// An agent with permissions: exactly those that are allowed.
    Listed { agent: String, permissions: BTreeMap<String, ListedPermission> },
}

/// What the list says about one tool.
#[derive(Clone, Debug)]
enum ListedPermission {
    Allowed(Grant),
    /// `allowed: false`, and the line that says so.
    Forbidden(usize),
    /// More than one entry; which one was meant would be a guess.
    Ambiguous,
}

/// Whether a call is permitted.
#[derive(Clone, Debug)]
pub enum ScopeVerdict {
    /// It is, within these bounds.
    Allowed(Grant),
    /// It is not.
    Denied {
        /// Which declaration, or which missing one, decided; for the operator only. A model is told that the call is
        /// not permitted, and nothing else.
        operator_reason: String,
    },
}

/// The bounds within which a call is permitted.
#[derive(Clone, Debug, Default)]
pub struct Grant {
    /// The paths that the call may touch; `None` means all.
    pub paths: Option<PathScope>,
    /// Limits, the timeout among them, that hold for this agent and this tool.
    pub limits: LimitOverrides,
}

impl AgentScope {
    /// The scope of an agent, or of a person when there is none.
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

/// Where to look; declarations made in code have no line.
fn on_line(line: usize) -> String {
    if line == 0 { String::new() } else { format!(" on line {line}") }
}

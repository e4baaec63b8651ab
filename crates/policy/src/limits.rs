//! The limits of one call.

use toolgate_manifest::AgentConfig;
use toolgate_types::Limits;

use crate::scope::Grant;

/// The limits of a call: the permission's if set, else the agent's, else the base.
///
/// All three come from the operator, so the more specific one replaces the other, whether it is lower or
/// higher.
#[must_use]
pub fn effective_limits(base: Limits, agent: Option<&AgentConfig>, grant: &Grant) -> Limits {
    let agent_limits = agent.map(|agent| agent.limits).unwrap_or_default();
    grant.limits.over(agent_limits.over(base))
}

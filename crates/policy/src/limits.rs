//! The bounds of one call.

use toolgate_manifest::AgentConfig;
use toolgate_types::Limits;

use crate::scope::Grant;

/// The bounds that hold for a call: the permission's where it names them, else the agent's, else the base.
///
/// All three are the operator's words, so the closer one replaces the other, whether it is lower or higher.
#[must_use]
pub fn effective_limits(base: Limits, agent: Option<&AgentConfig>, grant: &Grant) -> Limits {
    let agent_limits = agent.map(|agent| agent.limits).unwrap_or_default();
    grant.limits.over(agent_limits.over(base))
}

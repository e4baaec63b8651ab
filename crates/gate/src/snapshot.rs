//! Snapshots of the gate's configuration.
//!
//! Tools, agents, policies, keys and rates can be replaced while calls are running. A call takes the current snapshot when it arrives and keeps it to
//! its end, so that no call is looked up in one set of tools and judged by the policies of another.

use std::collections::HashMap;
use std::sync::Arc;

use toolgate_identity::Verifier;
use toolgate_manifest::AgentConfig;
use toolgate_policy::{AgentScope, Policies};
use toolgate_types::{AgentName, Limits, Trust};
use toolgate_workspace::Workspace;

use crate::breaker::BreakerRule;
use crate::flow::FlowRule;
use crate::gate::Clock;
use crate::rate_limits::{RateLimits, RateRule};
use crate::registry::Registry;
use crate::tool_search::ToolSearchRule;

/// The gate's configuration. It can be replaced while calls are running.
#[derive(Clone)]
pub struct GateConfig {
    /// The tools.
    pub registry: Registry,
    /// The declared agents.
    pub agents: Vec<AgentConfig>,
    /// Default limits of a call; agents may override them.
    pub limits: Limits,
    /// The least strict trust level that applies, whatever the caller's credential says.
    pub trust: Trust,
    /// Organisation-wide policies.
    pub policies: Arc<Policies>,
    /// Verifies tokens. Without one, every token is refused.
    pub verifier: Option<Arc<Verifier>>,
    /// Rate limits; every rule that matches a call must admit it.
    pub rates: Vec<RateRule>,
    /// When the circuit breaker of a failing tool opens.
    pub breaker: Option<BreakerRule>,
    /// The mounts and their rules, which undo obeys. Without them, undo restores nothing.
    pub workspace: Option<Arc<Workspace>>,
    /// Whether lasting grants are offered, and those that were given count.
    pub grants: bool,
    /// When most tools are found instead of offered.
    pub tool_search: Option<ToolSearchRule>,
    /// Set where information flow is tracked.
    pub flow: Option<FlowRule>,
}

impl GateConfig {
    /// Tools and limits only: no agents, policies, tokens, rate limits, circuit breakers or undo.
    #[must_use]
    pub fn new(registry: Registry, limits: Limits) -> Self {
        Self {
            registry,
            agents: Vec::new(),
            limits,
            trust: Trust::Autonomous,
            policies: Arc::default(),
            verifier: None,
            rates: Vec::new(),
            breaker: None,
            workspace: None,
            grants: true,
            tool_search: None,
            flow: None,
        }
    }
}

/// A declared agent with its resolved scope.
pub(crate) struct DeclaredAgent {
    pub(crate) config: AgentConfig,
    pub(crate) scope: AgentScope,
}

/// An immutable snapshot of the configuration.
pub(crate) struct Snapshot {
    /// How many replacements came before.
    pub(crate) generation: u64,
    pub(crate) registry: Registry,
    pub(crate) limits: Limits,
    pub(crate) trust: Trust,
    pub(crate) policies: Arc<Policies>,
    pub(crate) verifier: Option<Arc<Verifier>>,
    pub(crate) rates: RateLimits,
    pub(crate) breaker: Option<BreakerRule>,
    pub(crate) workspace: Option<Arc<Workspace>>,
    pub(crate) grants: bool,
    pub(crate) tool_search: Option<ToolSearchRule>,
    pub(crate) flow: Option<FlowRule>,
    agents: HashMap<AgentName, DeclaredAgent>,
}

impl Snapshot {
    pub(crate) fn first(loaded: GateConfig, clock: &Clock) -> Self {
        Self::after(None, loaded, clock)
    }

    /// The snapshot that follows `before`. Unchanged tools keep their compiled schemas and circuit breakers, and unchanged rate limits keep their
    /// counts: a reload must not reset them.
    pub(crate) fn after(before: Option<&Self>, loaded: GateConfig, clock: &Clock) -> Self {
        let GateConfig { mut registry, agents, limits, trust, policies, verifier, .. } = loaded;
        let GateConfig { rates, breaker, workspace, grants, tool_search, flow, .. } = loaded;
        let generation = before.map_or(0, |before| before.generation.saturating_add(1));
        if let Some(before) = before {
            registry.inherit_from(generation, &before.registry, before.generation);
        }
        let rates = RateLimits::new(rates, before.map(|before| &before.rates), clock);
        let mut by_name = HashMap::new();
        for config in agents {
            let scope = AgentScope::of(Some(&config));
            // The first declaration of a name wins.
            by_name.entry(config.name.value.clone()).or_insert(DeclaredAgent { config, scope });
        }
        Self {
            generation,
            registry,
            limits,
            trust,
            policies,
            verifier,
            rates,
            breaker,
            workspace,
            grants,
            tool_search,
            flow,
            agents: by_name,
        }
    }

    pub(crate) fn agent(&self, name: &AgentName) -> Option<&DeclaredAgent> {
        self.agents.get(name)
    }
}

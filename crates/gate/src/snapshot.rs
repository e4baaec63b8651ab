//! What a gate decides by, all of one moment.
//!
//! Tools, agents, policies, keys and rates can be replaced while calls are under way. A call takes the snapshot that is current when it comes and keeps it
//! to its end, so that no call is looked up in one set of tools and judged by the policies of another.

use std::collections::HashMap;
use std::sync::Arc;

use toolgate_identity::Verifier;
use toolgate_manifest::AgentConfig;
use toolgate_policy::{AgentScope, Policies};
use toolgate_types::{AgentName, Limits, Trust};
use toolgate_workspace::Workspace;

use crate::breaker::BreakerRule;
use crate::gate::Clock;
use crate::rate_limits::{RateLimits, RateRule};
use crate::registry::Registry;

/// What a gate decides by. It can be replaced while calls are under way.
#[derive(Clone)]
pub struct GateConfig {
    /// The tools.
    pub registry: Registry,
    /// The agents that were declared.
    pub agents: Vec<AgentConfig>,
    /// The bounds of a call, before agents change them.
    pub limits: Limits,
    /// How much is asked at least, whatever a caller comes with.
    pub trust: Trust,
    /// Policies of the whole organisation.
    pub policies: Arc<Policies>,
    /// Who can tell whether a token is good. Without one, every token is refused.
    pub verifier: Option<Arc<Verifier>>,
    /// How often; every rule that matches a call must admit it.
    pub rates: Vec<RateRule>,
    /// When a tool that keeps failing rests.
    pub breaker: Option<BreakerRule>,
    /// The mounts, with the rules by which undo puts back. Without them it puts back nothing.
    pub workspace: Option<Arc<Workspace>>,
}

impl GateConfig {
    /// Tools and bounds, and nothing else: no agents, no policies, no tokens, no rates, no rest for tools that fail, and no undo.
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
        }
    }
}

/// An agent that was declared, with its scope worked out.
pub(crate) struct DeclaredAgent {
    pub(crate) config: AgentConfig,
    pub(crate) scope: AgentScope,
}

/// One moment's state of what a gate decides by.
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
    agents: HashMap<AgentName, DeclaredAgent>,
}

impl Snapshot {
    pub(crate) fn first(loaded: GateConfig, clock: &Clock) -> Self {
        Self::after(None, loaded, clock)
    }

    /// The one that follows `before`. Tools that were not changed keep what was learnt about them, and unchanged rates what was spent of them:
    /// a reload is not a way to begin anew.
    pub(crate) fn after(before: Option<&Self>, loaded: GateConfig, clock: &Clock) -> Self {
        let GateConfig { mut registry, agents, limits, trust, policies, verifier, rates, breaker, workspace } =
            loaded;
        let generation = before.map_or(0, |before| before.generation.saturating_add(1));
        if let Some(before) = before {
            registry.inherit_from(generation, &before.registry, before.generation);
        }
        let rates = RateLimits::new(rates, before.map(|before| &before.rates), clock);
        let mut by_name = HashMap::new();
        for config in agents {
            let scope = AgentScope::of(Some(&config));
            // The first declaration of a name is the one that counts; configuration has no second.
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
            agents: by_name,
        }
    }

    pub(crate) fn agent(&self, name: &AgentName) -> Option<&DeclaredAgent> {
        self.agents.get(name)
    }
}

//! Policies of the whole organisation, decided per call.
//!
//! | loaded for a tool | a call of it |
//! |---|---|
//! | no policy | is not touched: permissions decide |
//! | `forbid` only | is denied when one matches |
//! | at least one `permit` | needs a matching `permit`, and no matching `forbid` |
//! | anything that fails to evaluate | is denied |
//!
//! Whether a policy is loaded for a tool is said by its scope: `action` and `resource`. A `permit` for one agent
//! therefore closes the tool to everybody who is not permitted as well. Policies never grant what permissions withhold.
//!
//! Principals are `Agent::"name"` for a call on behalf of an agent, else `Caller::"subject"`. Actions are
//! `Action::"tool_name"`, members of `Action::"class:read"` (or `write`, `destructive`) and of `Action::"class:any"`.
//! Resources are `Tool::"tool_name"` with `name` and `class`.

use std::collections::BTreeMap;
use std::fmt;

use cedar_policy::{
    AuthorizationError, Authorizer, Entities, EntityId, EntityTypeName, EntityUid, Policy, PolicyId,
    PolicySet, Request, Response,
};
use toolgate_types::Caller;

use super::PolicyTool;
use super::load::load;
use super::reads::Reads;
use super::source::{PolicyProblem, PolicySource};
use super::surroundings::Surroundings;
use super::tokens::with_room;
use super::value::Undecidable;
use crate::facts::{CallFacts, Decision};

/// The policies of a gate, sliced by tool. The default is none, which changes nothing.
#[derive(Default)]
pub struct Policies(Option<Loaded>);

/// Policies, and everything about the tools that judging needs.
pub(super) struct Loaded {
    pub(super) rules: Vec<Rule>,
    pub(super) slices: BTreeMap<String, Slice>,
    pub(super) entities: Entities,
    pub(super) agent: EntityTypeName,
    pub(super) caller: EntityTypeName,
    pub(super) authorizer: Authorizer,
}

/// What is told about a policy.
#[derive(Debug)]
pub(super) struct Rule {
    /// Its `@id`, else where it stands.
    pub(super) name: String,
}

/// The policies that can apply to one tool.
pub(super) struct Slice {
    pub(super) policies: PolicySet,
    /// Whether a call needs a permit.
    pub(super) permits: Vec<usize>,
    pub(super) reads: Reads,
    pub(super) surroundings: Surroundings,
    pub(super) action: EntityUid,
    pub(super) resource: EntityUid,
}

impl Policies {
    /// Loads and checks policy files for these tools.
    ///
    /// # Errors
    /// Every problem of every file: what does not parse, does not fit the types of the tools it is about, can never
    /// apply, or breaks one of its own examples.
    pub fn load(sources: &[PolicySource<'_>], tools: &[PolicyTool<'_>]) -> Result<Self, Vec<PolicyProblem>> {
        with_room(|| load(sources, tools)).map(Self)
    }

    /// How many policies are loaded.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |loaded| loaded.rules.len())
    }

    /// Whether no policy is loaded, so that every call is allowed as far as policies are concerned.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether policies let a call of this tool go on.
    pub fn decide(&self, tool: &str, facts: &CallFacts<'_>) -> Decision {
        self.0.as_ref().map_or(Decision::Allowed, |loaded| loaded.judge(tool, facts).decision)
    }
}

impl fmt::Debug for Policies {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules = self.0.as_ref().map(|loaded| &loaded.rules);
        formatter.debug_tuple("Policies").field(&rules).finish()
    }
}

/// A decision, and the policies that made it by matching.
pub(super) struct Judgement {
    pub(super) decision: Decision,
    pub(super) because_of: Vec<usize>,
}

impl Judgement {
    fn denied(reason: impl Into<String>) -> Self {
        Self { decision: Decision::denied(reason), because_of: Vec::new() }
    }
}

impl Loaded {
    pub(super) fn judge(&self, tool: &str, facts: &CallFacts<'_>) -> Judgement {
        let Some(slice) = self.slices.get(tool) else {
            return Judgement::denied(format!("`{tool}` was not known when the policies were loaded"));
        };
        if slice.policies.is_empty() {
            return Judgement { decision: Decision::Allowed, because_of: Vec::new() };
        }
        match self.ask(slice, facts) {
            Ok(response) => self.interpret(slice, tool, &response),
            Err(reason) => Judgement::denied(format!("policies could not be evaluated: {reason}")),
        }
    }

    fn ask(&self, slice: &Slice, facts: &CallFacts<'_>) -> Result<Response, Undecidable> {
        let context = slice.surroundings.context(&slice.reads, facts)?;
        let (action, resource) = (slice.action.clone(), slice.resource.clone());
        let request = Request::new(self.principal(facts.caller), action, resource, context, None)
            .map_err(|_| Undecidable::Evaluation("the call could not be put into Cedar's terms"))?;
        Ok(self.authorizer.is_authorized(&request, &slice.policies, &self.entities))
    }

    fn principal(&self, caller: &Caller) -> EntityUid {
        let (kind, name) = match &caller.agent {
            Some(agent) => (&self.agent, agent.as_str()),
            None => (&self.caller, caller.subject.as_str()),
        };
        EntityUid::from_type_name_and_id(kind.clone(), EntityId::new(name))
    }

    fn interpret(&self, slice: &Slice, tool: &str, response: &Response) -> Judgement {
        let diagnostics = response.diagnostics();
        let mut failures = diagnostics.errors().map(|error| self.failure(error)).peekable();
        if failures.peek().is_some() {
            return Judgement::denied(failures.collect::<Vec<_>>().join("; "));
        }
        let because_of: Vec<usize> = diagnostics.reason().filter_map(number).collect();
        let permitted = response.decision() == cedar_policy::Decision::Allow;
        let decision = match (permitted, because_of.as_slice()) {
            (true, _) => Decision::Allowed,
            (false, []) if slice.permits.is_empty() => Decision::Allowed,
            (false, []) => Decision::denied(format!(
                "`{tool}` needs a `permit`, and none matches: {}",
                self.names(&slice.permits)
            )),
            (false, forbids) => Decision::denied(format!("forbidden by policy {}", self.names(forbids))),
        };
        Judgement { decision, because_of }
    }

    fn failure(&self, error: &AuthorizationError) -> String {
        match error {
            AuthorizationError::PolicyEvaluationError(error) => {
                let names = self.names(number(error.policy_id()).as_slice());
                format!("policy {names} could not be evaluated: {}", Undecidable::from(error.inner()))
            }
        }
    }

    fn names(&self, rules: &[usize]) -> String {
        let mut rules = rules.to_vec();
        rules.sort_unstable();
        let names = rules.iter().filter_map(|rule| self.rules.get(*rule));
        names.map(|rule| format!("`{}`", rule.name)).collect::<Vec<_>>().join(", ")
    }
}

/// Policies are named by their number while they are evaluated.
pub(super) fn numbered(policy: &Policy, number: usize) -> Policy {
    policy.new_id(PolicyId::new(number.to_string()))
}

fn number(id: &PolicyId) -> Option<usize> {
    AsRef::<str>::as_ref(id).parse().ok()
}

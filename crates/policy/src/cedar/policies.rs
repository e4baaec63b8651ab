//! Organisation-wide policies, decided per call.
//!
//! | loaded for a tool | a call of it |
//! |---|---|
//! | no policy | is not affected: permissions decide |
//! | `forbid` only | is denied if one matches |
//! | at least one `permit` | needs a matching `permit`, and no matching `forbid` |
//! | anything that fails to evaluate | is denied |
//!
//! The scope of a policy, `action` and `resource`, decides for which tools it is loaded. A `permit` for one agent
//! therefore closes the tool to every caller that has no matching `permit`. Policies never grant what permissions
//! withhold.
//!
//! The principal is `Agent::"name"` for a call on behalf of an agent, else `Caller::"subject"`. A `forbid` is
//! evaluated for both if there are both: a forbidden caller cannot get through as an agent. To forbid something to
//! people only, write `unless { context.caller has agent }`.
//!
//! A policy that reads `context.path` is evaluated once for each path of the call: a `forbid` that matches for one of
//! them denies, and a `permit` must match for each.
//!
//! Actions are `Action::"tool_name"`, members of `Action::"class:read"` (or `write`, `destructive`) and of
//! `Action::"class:any"`. Resources are `Tool::"tool_name"` with `name` and `class`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use cedar_policy::{Entities, EntityId, EntityTypeName, EntityUid, EvalResult, Request, eval_expression};
use toolgate_types::Caller;

use super::PolicyTool;
use super::compiled_policy::CompiledPolicy;
use super::context_reads::ContextReads;
use super::context_schema::ContextSchema;
use super::load::load;
use super::path::RealPath;
use super::source::{PolicyProblem, PolicySource};
use super::tokens::with_large_stack;
use super::value::Undecidable;
use crate::call_facts::{CallFacts, PolicyDecision};

/// The policies of a gate, sliced by tool. The default is none, which changes nothing.
#[derive(Default)]
pub struct Policies(Option<LoadedPolicies>);

/// Policies, and everything about the tools that decisions need.
pub(super) struct LoadedPolicies {
    pub(super) rules: Vec<CompiledPolicy>,
    pub(super) slices: BTreeMap<String, PolicySlice>,
    pub(super) entities: Entities,
    pub(super) agent: EntityTypeName,
    pub(super) caller: EntityTypeName,
}

/// The policies that can apply to one tool.
pub(super) struct PolicySlice {
    /// Indices of the permits, one of which must match if there are any.
    pub(super) permits: Vec<usize>,
    /// Indices of the forbids.
    pub(super) forbids: Vec<usize>,
    pub(super) reads: ContextReads,
    pub(super) context: ContextSchema,
    pub(super) action: EntityUid,
    pub(super) resource: EntityUid,
}

impl Policies {
    /// Loads and validates policy files for these tools.
    ///
    /// # Errors
    /// Every problem of every file: what does not parse, does not match the types of its tools, can never apply, or
    /// contradicts one of its own examples.
    pub fn load(sources: &[PolicySource<'_>], tools: &[PolicyTool<'_>]) -> Result<Self, Vec<PolicyProblem>> {
        with_large_stack(|| load(sources, tools)).map(Self)
    }

    /// The number of loaded policies.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |loaded| loaded.rules.len())
    }

    /// Whether no policy is loaded, so that policies allow every call.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the paths of a call of this tool must be resolved first.
    #[must_use]
    pub fn need_paths(&self, tool: &str) -> bool {
        let slice = self.0.as_ref().and_then(|loaded| loaded.slices.get(tool));
        slice.is_some_and(|slice| slice.context.needs_paths(&slice.reads))
    }

    /// Whether policies allow a call of this tool.
    pub fn decide(&self, tool: &str, facts: &CallFacts<'_>) -> PolicyDecision {
        self.0.as_ref().map_or(PolicyDecision::Allowed, |loaded| loaded.judge(tool, facts).decision)
    }
}

impl fmt::Debug for Policies {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules = self.0.as_ref().map(|loaded| &loaded.rules);
        formatter.debug_tuple("Policies").field(&rules).finish()
    }
}

/// A call as judged for one of its paths.
struct PathCase<'e> {
    /// One per principal.
    requests: Vec<Request>,
    entities: Cow<'e, Entities>,
}

/// A decision, and the policies whose match caused it.
pub(super) struct Judgement {
    pub(super) decision: PolicyDecision,
    pub(super) because_of: Vec<usize>,
}

impl Judgement {
    fn allowed(because_of: Vec<usize>) -> Self {
        Self { decision: PolicyDecision::Allowed, because_of }
    }

    fn denied(reason: impl Into<String>) -> Self {
        Self { decision: PolicyDecision::denied(reason), because_of: Vec::new() }
    }
}

impl LoadedPolicies {
    pub(super) fn judge(&self, tool: &str, facts: &CallFacts<'_>) -> Judgement {
        let Some(slice) = self.slices.get(tool) else {
            return Judgement::denied(format!("`{tool}` was not known when the policies were loaded"));
        };
        if slice.permits.is_empty() && slice.forbids.is_empty() {
            return Judgement::allowed(Vec::new());
        }
        let cases = match self.cases(slice, facts) {
            Ok(cases) => cases,
            Err(reason) => return Judgement::denied(format!("policies could not be evaluated: {reason}")),
        };
        let mut permitted = Vec::new();
        for case in cases {
            let judgement = self.judge_case(tool, slice, &case);
            match judgement.decision {
                PolicyDecision::Allowed => permitted.extend(judgement.because_of),
                PolicyDecision::Denied { .. } => return judgement,
            }
        }
        Judgement::allowed(permitted)
    }

    /// Judges a call for one of its paths.
    fn judge_case(&self, tool: &str, slice: &PolicySlice, case: &PathCase) -> Judgement {
        let PathCase { requests, .. } = case;
        // Every policy is evaluated, even after a match: one that fails must never be overlooked. A forbid counts for
        // each principal of the caller; a permit only for the one it acts as.
        let its_role = requests.first().map(std::slice::from_ref).unwrap_or_default();
        let forbids = self.matching(&slice.forbids, requests, &case.entities);
        let permits = self.matching(&slice.permits, its_role, &case.entities);
        match (forbids, permits) {
            (Err(reason), _) | (_, Err(reason)) => Judgement::denied(reason),
            (Ok(forbids), _) if !forbids.is_empty() => {
                let decision =
                    PolicyDecision::denied(format!("forbidden by policy {}", self.names(&forbids)));
                Judgement { decision, because_of: forbids }
            }
            (_, Ok(permits)) if permits.is_empty() && !slice.permits.is_empty() => Judgement::denied(
                format!("`{tool}` needs a `permit`, and none matches: {}", self.names(&slice.permits)),
            ),
            (_, Ok(permits)) => Judgement::allowed(permits),
        }
    }

    /// The call, once for every path that rules read.
    fn cases<'e>(
        &'e self,
        slice: &PolicySlice,
        facts: &CallFacts<'_>,
    ) -> Result<Vec<PathCase<'e>>, Undecidable> {
        let entities = slice.context.entities(&slice.reads, facts, &self.entities)?;
        let paths = slice.context.cases(&slice.reads, facts)?;
        let case = |path| {
            let requests = self.requests(slice, facts, path)?;
            let entities = entities.clone().map_or(Cow::Borrowed(&self.entities), Cow::Owned);
            Ok(PathCase { requests, entities })
        };
        paths.into_iter().map(case).collect()
    }

    /// The call, once for every principal.
    fn requests(
        &self,
        slice: &PolicySlice,
        facts: &CallFacts<'_>,
        path: Option<&RealPath>,
    ) -> Result<Vec<Request>, Undecidable> {
        let context = slice.context.context(&slice.reads, facts, path)?;
        let request = |principal: EntityUid| {
            let (action, resource) = (slice.action.clone(), slice.resource.clone());
            Request::new(principal, action, resource, context.clone(), None)
                .map_err(|_| Undecidable::Evaluation("the call could not be put into Cedar's terms"))
        };
        self.principals(facts.caller).map(request).collect()
    }

    /// The principals: the agent, if there is one, and the subject behind it.
    fn principals(&self, caller: &Caller) -> impl Iterator<Item = EntityUid> {
        let agent = caller.agent.as_ref().map(|agent| (&self.agent, agent.as_str()));
        let names = agent.into_iter().chain([(&self.caller, caller.subject.as_str())]);
        names.map(|(kind, name)| EntityUid::from_type_name_and_id(kind.clone(), EntityId::new(name)))
    }

    /// The matching policies among these, or the reasons of those that could not be evaluated.
    fn matching(
        &self,
        numbers: &[usize],
        requests: &[Request],
        entities: &Entities,
    ) -> Result<Vec<usize>, String> {
        let (mut matching, mut failures) = (Vec::new(), Vec::new());
        for number in numbers {
            match self.rules.get(*number).map(|rule| self.matches_any(rule, requests, entities)) {
                Some(Ok(true)) => matching.push(*number),
                Some(Ok(false)) => {}
                Some(Err(reason)) => {
                    failures
                        .push(format!("policy {} could not be evaluated: {reason}", self.names(&[*number])));
                }
                None => failures.push("a policy is missing".to_owned()),
            }
        }
        if failures.is_empty() { Ok(matching) } else { Err(failures.join("; ")) }
    }

    /// Whether a policy matches one of these requests, which differ only in the principal.
    fn matches_any(
        &self,
        rule: &CompiledPolicy,
        requests: &[Request],
        entities: &Entities,
    ) -> Result<bool, Undecidable> {
        let admitted =
            requests.iter().filter(|request| request.principal().is_some_and(|who| rule.admits(who)));
        // Clauses that do not read the principal have the same result for all.
        let different = if rule.reads_principal { requests.len() } else { 1 };
        let mut matches = false;
        for request in admitted.take(different) {
            matches |= clauses_hold(rule, request, entities)?;
        }
        Ok(matches)
    }

    fn names(&self, rules: &[usize]) -> String {
        let names = rules.iter().filter_map(|rule| self.rules.get(*rule));
        names.map(|rule| format!("`{}`", rule.name)).collect::<Vec<_>>().join(", ")
    }
}

/// Clause by clause, as Cedar does; that the tool matches was settled when policies were sliced.
fn clauses_hold(rule: &CompiledPolicy, request: &Request, entities: &Entities) -> Result<bool, Undecidable> {
    for clause in &rule.clauses {
        match eval_expression(request, entities, &clause.expression) {
            Ok(EvalResult::Bool(holds)) if holds == clause.expected => {}
            Ok(EvalResult::Bool(_)) => return Ok(false),
            Ok(_) => return Err(Undecidable::Evaluation("a clause is not a truth value")),
            Err(error) => return Err(Undecidable::from(&error)),
        }
    }
    Ok(true)
}

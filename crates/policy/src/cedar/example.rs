//! Examples: calls that a policy declares it allows or denies, checked when it is loaded.
//!
//! `@denies("git_log {\"count\": 50}")`: a tool, its arguments, and optionally ` as AGENT`; one per line.
//! The caller has all permissions. A `forbid` must deny its examples itself, and a `permit` must allow them
//! itself: an example that holds for another reason proves nothing.

use std::collections::BTreeSet;

use cedar_policy::Effect;
use serde_json::Value;
use toolgate_types::{AgentName, Caller, Trust};

use super::policies::LoadedPolicies;
use crate::call_facts::{CallFacts, HeldPermissions, PolicyDecision};

/// One call.
pub(super) struct Example<'t> {
    tool: &'t str,
    input: Value,
    caller: Caller,
}

impl<'t> Example<'t> {
    pub(super) fn parse(text: &'t str) -> Result<Self, String> {
        let form = "an example is a tool, its arguments as JSON, and perhaps ` as AGENT`";
        let (tool, rest) = text.split_once(char::is_whitespace).ok_or(form)?;
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        let input = match values.next() {
            Some(Ok(input)) => input,
            Some(Err(error)) => return Err(format!("its arguments are not JSON: {error}")),
            None => return Err(form.to_owned()),
        };
        let rest = rest.get(values.byte_offset()..).ok_or(form)?.trim();
        let agent = match rest.strip_prefix("as ") {
            Some(name) => Some(name.trim().parse::<AgentName>().map_err(|error| error.to_string())?),
            None if rest.is_empty() => None,
            None => return Err(form.to_owned()),
        };
        let session = "example".parse().map_err(|_| form)?;
        let caller = Caller {
            subject: "example".to_owned(),
            permissions: BTreeSet::new(),
            agent,
            session,
            run: None,
            trust: Trust::Autonomous,
        };
        Ok(Self { tool, input, caller })
    }

    /// Whether the call is decided as its policy declares, and by that policy if possible.
    pub(super) fn check(
        &self,
        loaded: &LoadedPolicies,
        policy: usize,
        effect: Effect,
        allowed: bool,
    ) -> Result<(), String> {
        let slice = loaded.slices.get(self.tool);
        let paths = slice.map(|slice| slice.context.typing.paths.lexical_paths(&self.input));
        let facts = CallFacts {
            caller: &self.caller,
            held: HeldPermissions::Everything,
            input: &self.input,
            paths: paths.as_ref(),
            calls: 0,
        };
        let judgement = loaded.judge(self.tool, &facts);
        let itself = judgement.because_of.contains(&policy);
        let decides = (effect == Effect::Permit) == allowed;
        match judgement.decision {
            PolicyDecision::Allowed if !allowed => return Err("the call is allowed".to_owned()),
            PolicyDecision::Denied { operator_reason } if allowed => return Err(operator_reason),
            PolicyDecision::Denied { operator_reason } if decides && !itself => {
                return Err(format!("it is denied for another reason: {operator_reason}"));
            }
            PolicyDecision::Allowed if decides && !itself => {
                return Err("another policy permits it".to_owned());
            }
            _ => {}
        }
        Ok(())
    }
}

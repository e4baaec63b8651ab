//! Makes a sequence that fails smaller while it fails in the same way: first whole steps, then calls, then what is in their arguments.

use std::cell::Cell;

use serde_json::{Map, Value};

use super::sequence::{HostileCall, HostileStep};

/// The smallest sequence that was found, and how often one was played for it: at most so often.
pub(super) fn shrink(
    steps: Vec<HostileStep>,
    max_plays: usize,
    mut fails: impl FnMut(&[HostileStep]) -> bool,
) -> (Vec<HostileStep>, usize) {
    let (plays, limit) = (Cell::new(0), Cell::new(max_plays));
    let mut fails = |candidate: &[HostileStep]| {
        if plays.get() >= limit.get() {
            return false;
        }
        plays.set(plays.get() + 1);
        fails(candidate)
    };
    let steps = without_parts(steps, &mut fails);
    let steps = without_calls(steps, &mut fails);
    // Which calls it takes says most. Their arguments could be played with for ever.
    limit.set(max_plays.min(plays.get() + max_plays / 3));
    let steps = simpler_arguments(steps, &mut fails);
    (steps, plays.get())
}

/// Delta debugging: leaves out ever smaller parts, as long as what is left fails.
fn without_parts<T: Clone>(mut whole: Vec<T>, fails: &mut impl FnMut(&[T]) -> bool) -> Vec<T> {
    let mut part = whole.len().div_ceil(2);
    while part > 0 && whole.len() > 1 {
        let mut start = 0;
        let mut smaller = false;
        while start < whole.len() {
            let mut candidate = whole.clone();
            candidate.drain(start..(start + part).min(whole.len()));
            if !candidate.is_empty() && fails(&candidate) {
                whole = candidate;
                smaller = true;
            } else {
                start += part;
            }
        }
        if !smaller || part > whole.len() {
            part /= 2;
        }
    }
    whole
}

/// Leaves out single calls, and what happened during a step.
fn without_calls(
    mut steps: Vec<HostileStep>,
    fails: &mut impl FnMut(&[HostileStep]) -> bool,
) -> Vec<HostileStep> {
    let mut at = (0, 0);
    while let Some(step) = steps.get(at.0) {
        let mut candidate = steps.clone();
        let Some(changed) = candidate.get_mut(at.0) else { break };
        if at.1 == 0 && step.during.is_some() {
            changed.during = None;
            if fails(&candidate) {
                steps = candidate;
                continue;
            }
            candidate.clone_from(&steps);
        }
        let Some(changed) = candidate.get_mut(at.0) else { break };
        let is_last_of_step = changed.calls.len() == 1 && changed.during.is_none();
        if at.1 >= changed.calls.len() || is_last_of_step {
            at = (at.0 + 1, 0);
        } else {
            changed.calls.remove(at.1);
            match fails(&candidate) {
                true => steps = candidate,
                false => at.1 += 1,
            }
        }
    }
    steps
}

fn simpler_arguments(
    mut steps: Vec<HostileStep>,
    fails: &mut impl FnMut(&[HostileStep]) -> bool,
) -> Vec<HostileStep> {
    let places: Vec<(usize, usize)> = steps
        .iter()
        .enumerate()
        .flat_map(|(step, of)| (0..of.calls.len()).map(move |call| (step, call)))
        .collect();
    for place in places {
        // Until nothing gets simpler any more.
        while let Some(simpler) = next_simpler(&steps, place, fails) {
            steps = simpler;
        }
    }
    steps
}

fn next_simpler(
    steps: &[HostileStep],
    (step, call): (usize, usize),
    fails: &mut impl FnMut(&[HostileStep]) -> bool,
) -> Option<Vec<HostileStep>> {
    let now = steps.get(step)?.calls.get(call)?;
    candidates(&now.arguments).into_iter().find_map(|arguments| {
        let mut candidate = steps.to_vec();
        let changed = candidate.get_mut(step)?.calls.get_mut(call)?;
        *changed = HostileCall { tool: changed.tool.clone(), arguments };
        fails(&candidate).then_some(candidate)
    })
}

/// Simpler values in place of this one, the simplest first.
fn candidates(value: &Value) -> Vec<Value> {
    match value {
        Value::String(text) => shorter(text).into_iter().map(Value::String).collect(),
        Value::Array(items) => {
            let mut simpler: Vec<Value> = (0..items.len())
                .map(|at| {
                    items
                        .iter()
                        .enumerate()
                        .filter(|(index, _)| *index != at)
                        .map(|(_, item)| item.clone())
                        .collect()
                })
                .collect();
            for (at, item) in items.iter().enumerate() {
                simpler.extend(candidates(item).into_iter().map(|item| {
                    items
                        .iter()
                        .enumerate()
                        .map(|(index, old)| if index == at { item.clone() } else { old.clone() })
                        .collect::<Value>()
                }));
            }
            simpler
        }
        Value::Object(members) => {
            let mut simpler: Vec<Value> =
                members.keys().map(|name| Value::Object(without(members, name))).collect();
            for (name, member) in members {
                simpler.extend(candidates(member).into_iter().map(|member| {
                    let mut changed = members.clone();
                    changed.insert(name.clone(), member);
                    Value::Object(changed)
                }));
            }
            simpler
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

fn without(members: &Map<String, Value>, name: &str) -> Map<String, Value> {
    members
        .iter()
        .filter(|(other, _)| *other != name)
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// The text without a half, a quarter or an eighth of it, at commands and lines if it has any.
fn shorter(text: &str) -> Vec<String> {
    for joint in ["\n", "; ", " && ", " || ", "/"] {
        let parts: Vec<&str> = text.split(joint).collect();
        if parts.len() > 1 && parts.len() <= 12 {
            return (0..parts.len())
                .map(|at| {
                    let kept: Vec<&str> = parts
                        .iter()
                        .enumerate()
                        .filter(|(index, _)| *index != at)
                        .map(|(_, part)| *part)
                        .collect();
                    kept.join(joint)
                })
                .collect();
        }
    }
    let letters: Vec<char> = text.chars().collect();
    let mut shorter = Vec::new();
    for parts in [2, 4, 8] {
        let size = letters.len() / parts;
        if size == 0 {
            break;
        }
        for part in 0..parts {
            let kept =
                letters.iter().enumerate().filter(|(at, _)| *at < part * size || *at >= (part + 1) * size);
            shorter.push(kept.map(|(_, letter)| letter).collect());
        }
    }
    shorter
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::hostile::sequence::HostileEvent;

    fn step(calls: &[(&str, Value)]) -> HostileStep {
        let call = |(tool, arguments): &(&str, Value)| HostileCall {
            tool: (*tool).to_owned(),
            arguments: arguments.clone(),
        };
        HostileStep { during: None, calls: calls.iter().map(call).collect() }
    }

    #[test]
    fn what_has_no_part_in_a_failure_is_left_out() {
        let mut steps: Vec<HostileStep> = (0..12).map(|_| step(&[("noise", json!({"path": "x"}))])).collect();
        steps[3] = step(&[
            ("noise", json!({})),
            ("link", json!({"command": "echo a; ln -s out way; echo b", "cwd": "src"})),
        ]);
        steps[3].during = Some(HostileEvent::Cancel);
        steps[9] = step(&[
            ("write", json!({"path": "way/new.txt", "content": "A".repeat(500)})),
            ("noise", json!([1])),
        ]);
        let text =
            |call: &HostileCall, name: &str| call.arguments[name].as_str().unwrap_or_default().to_owned();
        let fails = |steps: &[HostileStep]| {
            let calls: Vec<&HostileCall> = steps.iter().flat_map(|step| &step.calls).collect();
            let link = calls
                .iter()
                .position(|call| call.tool == "link" && text(call, "command").contains("ln -s out way"));
            let write =
                calls.iter().position(|call| call.tool == "write" && text(call, "path").starts_with("way/"));
            link.zip(write).is_some_and(|(link, write)| link < write)
        };
        assert!(fails(&steps));
        let (small, plays) = shrink(steps, 160, fails);
        assert!(plays <= 160);
        assert_eq!(small.len(), 2);
        assert_eq!(small[0], step(&[("link", json!({"command": "ln -s out way"}))]));
        assert_eq!((small[1].calls[0].tool.as_str(), small[1].calls.len()), ("write", 1));
        assert_eq!(small[1].calls[0].arguments["path"], "way/new.txt");
        assert_eq!(small[1].calls[0].arguments.get("content"), None);
    }

    #[test]
    fn a_failure_of_everything_becomes_one_call_without_arguments() {
        let steps: Vec<HostileStep> =
            (0..5).map(|_| step(&[("a", json!({"x": 1})), ("b", json!({"y": "z"}))])).collect();
        let (small, _) = shrink(steps, 160, |_| true);
        assert_eq!(small.iter().map(|step| step.calls.len()).sum::<usize>(), 1);
        assert_eq!(small[0].calls[0].arguments, json!({}));
    }
}

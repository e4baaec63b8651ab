//! Sequences of a compromised model, from a tool list and a number.

use serde_json::json;

use super::lines;
use super::mutate;
use super::random::SeededRandom;
use super::recipes::{PLOTS, Plotter};
use super::sequence::{HostileCall, HostileEvent, HostileStep};
use super::shape::{ToolShape, ToolUse};

/// A sequence has about as many calls as this.
const USUAL_CALLS: usize = 11;

/// The steps of one sequence. The same tools, seed and number give the same steps.
pub(super) fn generate(tools: &[ToolShape], seed: u64, number: u64) -> Vec<HostileStep> {
    let mut random = SeededRandom::new(seed, number);
    let mut plotter = Plotter { tools, steps: Vec::new() };
    let calls = |steps: &[HostileStep]| steps.iter().map(|step| step.calls.len()).sum::<usize>();
    let wanted = USUAL_CALLS - 4 + random.below(9);
    while calls(&plotter.steps) < wanted {
        match random.below(100) {
            0..=29 => {
                if let Some(plot) = random.one_of(PLOTS) {
                    plot(&mut plotter, &mut random);
                }
                plotter.steps.push(single(tools, &mut random));
            }
            30..=79 => plotter.steps.push(single(tools, &mut random)),
            _ => plotter.steps.push(together(tools, &mut random)),
        }
    }
    plotter.steps
}

fn single(tools: &[ToolShape], random: &mut SeededRandom) -> HostileStep {
    HostileStep { during: None, calls: one(tools, random).into_iter().collect() }
}

/// Two to four calls in flight together, now and then while something happens to the gate.
fn together(tools: &[ToolShape], random: &mut SeededRandom) -> HostileStep {
    let calls = (0..2 + random.below(3)).filter_map(|_| one(tools, random)).collect();
    let during = match random.below(40) {
        0..=3 => Some(HostileEvent::Cancel),
        4 => Some(HostileEvent::Undo),
        5 => Some(HostileEvent::Reload),
        _ => None,
    };
    HostileStep { during, calls }
}

/// A call. Commands are a smaller part of all than their share of what can go wrong, because each takes as long as a hundred others.
fn one(tools: &[ToolShape], random: &mut SeededRandom) -> Option<HostileCall> {
    let mut tool = random.one_of(tools)?;
    if tool.use_of == ToolUse::Command && !random.chance(40) {
        tool = random.one_of(tools)?;
    }
    if tool.use_of == ToolUse::Command && random.chance(25) {
        let line = if random.chance(60) { lines::works(random) } else { lines::escapes(random) };
        return Some(HostileCall {
            tool: tool.name.clone(),
            arguments: tool.with(&[("command", json!(line))]),
        });
    }
    Some(mutate::call(random, tool))
}

#[cfg(test)]
mod tests {
    use super::super::shape::shapes;
    use super::*;
    use crate::evidence::OfferedTool;

    fn tools() -> Vec<ToolShape> {
        let tool = |name: &str, properties: serde_json::Value| OfferedTool {
            name: name.to_owned(),
            schema: json!({"type": "object", "properties": properties, "required": properties.as_object().unwrap().keys().collect::<Vec<_>>()}),
        };
        let text = json!({"type": "string"});
        shapes(&[
            tool("read_file", json!({"path": text})),
            tool("write_file", json!({"path": text, "content": text})),
            tool("move_file", json!({"from": text, "to": text})),
            tool("run_command", json!({"command": text})),
        ])
    }

    #[test]
    fn a_number_gives_the_same_sequence_and_another_gives_another() {
        let tools = tools();
        assert_eq!(generate(&tools, 7, 3), generate(&tools, 7, 3));
        assert_ne!(generate(&tools, 7, 3), generate(&tools, 7, 4));
        assert_ne!(generate(&tools, 7, 3), generate(&tools, 8, 3));
    }

    #[test]
    fn sequences_have_every_event_and_calls_in_flight_together() {
        let steps: Vec<HostileStep> = (0..2000).flat_map(|number| generate(&tools(), 1, number)).collect();
        use HostileEvent::{Approve, Cancel, Kill, Reload, Shutdown, Undo, UndoAll};
        for event in [Approve, Cancel, Kill, Reload, Shutdown, Undo, UndoAll] {
            assert!(steps.iter().any(|step| step.during == Some(event)), "{event:?}");
        }
        for size in 1..=4 {
            assert!(steps.iter().any(|step| step.calls.len() == size), "{size}");
        }
    }
}

//! Calls over Chat Completions, in all the ways in which servers fragment them.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use toolgate_llm::{ErrorKind, FinishReason, MAX_ARGUMENT_BYTES, MAX_CALLS, ModelCall, Wire};

use crate::stream::{Decoded, decode};

/// An intended call.
#[derive(Clone, Debug, PartialEq)]
struct Meant {
    name: &'static str,
    arguments: String,
}

/// How a server fragments calls.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Habit {
    /// As OpenAI does: an index with every fragment, id and name with the first.
    Original,
    /// The id with every fragment and no index.
    IdsAlone,
    /// Everything with every fragment.
    Everything,
    /// Every call has index 0.
    OneIndex,
    /// Id and name with the first fragment and no index.
    FirstAlone,
    /// A different id with every fragment.
    NewIds,
    /// Neither id nor index, each call in one fragment.
    Bare,
}

impl Habit {
    const ALL: &'static [Self] = &[
        Self::Original,
        Self::IdsAlone,
        Self::Everything,
        Self::OneIndex,
        Self::FirstAlone,
        Self::NewIds,
        Self::Bare,
    ];

    /// Whether fragments of several calls may be interleaved: where each identifies its call.
    fn may_mix(self) -> bool {
        matches!(self, Self::Original | Self::IdsAlone | Self::Everything | Self::NewIds)
    }

    fn piece(self, call: usize, piece: usize, name: &str, arguments: &str) -> Value {
        let is_first = piece == 0;
        let mut delta = Map::new();
        match self {
            Self::Original | Self::Everything | Self::NewIds => {
                drop(delta.insert("index".into(), json!(call)))
            }
            Self::OneIndex => drop(delta.insert("index".into(), json!(0))),
            Self::IdsAlone | Self::FirstAlone | Self::Bare => {}
        }
        let has_id = match self {
            Self::Original | Self::OneIndex | Self::FirstAlone => is_first,
            Self::IdsAlone | Self::Everything | Self::NewIds => true,
            Self::Bare => false,
        };
        if has_id {
            let id = if self == Self::NewIds { format!("id-{call}-{piece}") } else { format!("id-{call}") };
            delta.insert("id".into(), json!(id));
        }
        let mut function = json!({ "arguments": arguments });
        if is_first || self == Self::Everything {
            function["name"] = json!(name);
        }
        delta.insert("function".into(), function);
        Value::Object(delta)
    }
}

fn meant() -> impl Strategy<Value = Vec<Meant>> {
    let text = prop_oneof![Just(String::new()), "[a-z{}\\[\\]\",:\\\\ é]{0,12}"];
    let arguments = proptest::collection::btree_map("[a-c]{1,2}", text, 0..3)
        .prop_map(|fields| serde_json::to_string(&fields).unwrap());
    let name = proptest::sample::select(vec!["read", "write", "run_it"]);
    vec((name, arguments).prop_map(|(name, arguments)| Meant { name, arguments }), 1..5)
}

/// Cuts a text into pieces of these sizes, cyclically.
fn cut<'t>(text: &'t str, sizes: &[usize]) -> Vec<&'t str> {
    let mut pieces = Vec::new();
    let (mut rest, mut sizes) = (text, sizes.iter().cycle());
    while !rest.is_empty() {
        let size = *sizes.next().unwrap();
        let end = rest.char_indices().nth(size).map_or(rest.len(), |(place, _)| place);
        let (piece, more) = rest.split_at(end);
        pieces.push(piece);
        rest = more;
    }
    pieces
}

/// A server's stream: the fragments in chunks, the finish reason, the end.
fn stream(pieces: impl IntoIterator<Item = Value>) -> Decoded {
    let chunk = |delta: Value, reason: Value| {
        format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}))
    };
    let pieces = pieces.into_iter().map(|piece| chunk(json!({ "tool_calls": [piece] }), Value::Null));
    let text: String =
        pieces.chain([chunk(json!({}), json!("tool_calls")), "data: [DONE]\n\n".into()]).collect();
    decode(Wire::OpenaiChat, [text.as_bytes()])
}

fn made(decoded: &Decoded) -> Vec<ModelCall> {
    match decoded.finish() {
        Some((FinishReason::ToolCalls, message)) => message.calls().cloned().collect(),
        _ => Vec::new(),
    }
}

#[test]
fn floods_are_cut_off() {
    let named =
        |number: usize| json!({"index": number, "id": format!("c{number}"), "function": {"name": "read"}});
    let unnamed = |number: usize| json!({"index": number, "function": {"arguments": ""}});
    let long = "x".repeat(64 << 10);
    let piece = |number: usize| {
        let name = if number == 0 { "read" } else { "" };
        json!({"index": 0, "function": {"name": name, "arguments": long}})
    };
    let repeated = |_| json!({"index": 0, "function": {"name": "read", "arguments": long}});
    for (what, decoded, kind) in [
        ("too many calls", stream((0..=MAX_CALLS).map(named)), ErrorKind::TooLarge),
        ("calls without names", stream((0..3).map(unnamed)), ErrorKind::Garbled),
        ("long arguments", stream((0..=MAX_ARGUMENT_BYTES >> 16).map(piece)), ErrorKind::TooLarge),
        ("long arguments, named", stream((0..=MAX_ARGUMENT_BYTES >> 16).map(repeated)), ErrorKind::TooLarge),
    ] {
        assert_eq!(decoded.failed.map(|failed| failed.kind), Some(kind), "{what}");
    }
    assert_eq!(made(&stream((0..MAX_CALLS).map(named))).len(), MAX_CALLS);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Whatever the server's habit, the result is the intended calls in order, each with a unique id.
    #[test]
    fn every_habit_is_understood(
        calls in meant(),
        habit in proptest::sample::select(Habit::ALL),
        sizes in vec(1_usize..9, 1..6),
        order in vec(any::<prop::sample::Index>(), 200),
    ) {
        let mut calls = calls;
        // Two equal bare calls cannot be distinguished from one that is repeated, and become one.
        if habit == Habit::Bare {
            calls.dedup();
        }
        let mut waiting: Vec<(usize, Vec<Value>)> = calls
            .iter()
            .enumerate()
            .map(|(number, call)| {
                let whole = [call.arguments.as_str()];
                let arguments = if habit == Habit::Bare { whole.to_vec() } else { cut(&call.arguments, &sizes) };
                let pieces = arguments.iter().enumerate();
                let pieces = pieces.map(|(place, piece)| habit.piece(number, place, call.name, piece));
                (0, pieces.collect())
            })
            .collect();
        let mut sent = Vec::new();
        let mut order = order.iter().cycle();
        while let Some(first) = waiting.iter().position(|(next, pieces)| *next < pieces.len()) {
            // Calls begin in order; after that the fragments of those begun may be interleaved.
            let begun: Vec<usize> = (0..waiting.len())
                .filter(|place| {
                    let (next, pieces) = &waiting[*place];
                    *next < pieces.len() && (*next > 0 || (0..*place).all(|before| waiting[before].0 > 0))
                })
                .collect();
            let place = if habit.may_mix() { *order.next().unwrap().get(&begun) } else { first };
            let (next, pieces) = &mut waiting[place];
            sent.push(pieces[*next].clone());
            *next += 1;
        }
        let decoded = stream(sent.clone());
        let found = made(&decoded);
        let shown: Vec<Meant> = found
            .iter()
            .map(|call| Meant {
                name: calls.iter().map(|call| call.name).find(|name| *name == call.name).unwrap_or("?"),
                arguments: call.arguments.clone(),
            })
            .collect();
        prop_assert_eq!(&shown, &calls, "{:?} {:?}", sent, decoded.failed);
        let mut ids: Vec<&str> = found.iter().map(|call| call.id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        prop_assert_eq!(ids.len(), found.len());
    }

    /// If a server omits ids, indexes and names here and there, the result is either the intended calls, or nothing that parses and was not intended.
    #[test]
    fn what_is_in_doubt_makes_no_other_call(
        calls in meant(),
        habit in proptest::sample::select(Habit::ALL),
        sizes in vec(1_usize..9, 1..6),
        forgotten in vec((any::<bool>(), any::<bool>(), any::<bool>()), 1..40),
    ) {
        let mut forgotten = forgotten.iter().cycle();
        let mut sent = Vec::new();
        for (number, call) in calls.iter().enumerate() {
            for (place, arguments) in cut(&call.arguments, &sizes).into_iter().enumerate() {
                let mut piece = habit.piece(number, place, call.name, arguments);
                let (no_id, no_index, no_name) = forgotten.next().unwrap();
                let fields = piece.as_object_mut().unwrap();
                if *no_id {
                    fields.remove("id");
                }
                if *no_index {
                    fields.remove("index");
                }
                if *no_name && place > 0 {
                    fields["function"].as_object_mut().unwrap().remove("name");
                }
                sent.push(piece);
            }
        }
        let decoded = stream(sent.clone());
        let mut left = calls.clone();
        for call in made(&decoded) {
            if call.parse().is_err() {
                continue;
            }
            let place = left.iter().position(|meant| meant.name == call.name && meant.arguments == call.arguments);
            prop_assert!(place.is_some(), "{:?} of {:?}", call, sent);
            left.remove(place.unwrap());
        }
    }
}

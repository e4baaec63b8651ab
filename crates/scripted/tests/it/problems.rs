//! Mistakes in scripts, with their positions and remedies.

use std::fmt::Write as _;

use toolgate_scripted::{DEMO, Script};

const BAD: &[&str] = &[
    "",
    "steps: []",
    "stepps: [{say: hi}]",
    "steps: [{sya: hi}]",
    "steps: [{say: hi}, {say: hi, say: ho}]",
    "steps:\n  - say: hi\n  - repeat: true",
    "steps: [{repeat: maybe, say: hi}]",
    "steps: [{say: hi, do: [{say: ho}]}]",
    "steps: [{do: [{shout: hi}]}]",
    "steps: [{do: [{say: hi}, {pause: 5}]}]",
    "steps: [{say: hi, slow: 1 week}]",
    "steps: [{say: hi, chunk: 0}]",
    "steps: [{calls: [{arguments: {path: x}}]}]",
    "steps: [{calls: [{tool: a, arguments: [1]}]}]",
    "steps: [{calls: [{tool: a, arguments: {}, arguments_text: '{'}]}]",
    "steps: [{when: {}, say: hi}]",
    "steps: [{when: {reslt: a}, say: hi}]",
    "steps: [{when: {tools: sometimes}, say: hi}]",
    "steps: [{fault: explode}]",
    "steps: [{fault: {times: 1}, say: hi}]",
    "steps: [{fault: status}]",
    "steps: [{fault: {status: 200}}]",
    "steps: [{fault: {status: 429, after_bytes: 3}}]",
    "steps: [{fault: {kind: reset, retry_after: 1s}}]",
    "steps: [{fault: {kind: reset, times: 0}, say: hi}]",
    "steps: [{fault: {kind: reset, times: 1}}]",
    "steps: [{fault: comment}]",
    "steps: [{do: [{say: hi}, {fault: {status: 500}}]}]",
    "steps: [{say: hi, usage: {input: 1, output: 1, cached: 2}}]",
    "steps: [{say: hi, finish: never}]",
    "model: {wire: telegraph}\nsteps: [{say: hi}]",
    "memory: elephant\nsteps: [{say: hi}]",
    "steps:\n  - {say: hi, chunk: 0}\n  - {fault: {times: 0}, slow: x}",
];

#[test]
fn every_mistake_is_told_with_its_place_and_what_to_do() {
    let mut told = String::new();
    for script in BAD {
        let problems = Script::parse("script.yaml", script).expect_err(script);
        let _ = writeln!(told, "{}\n{problems}\n", script.trim_end());
    }
    insta::assert_snapshot!(told);
}

#[test]
fn what_is_right_is_read() {
    for script in [
        "steps: [{say: hi}]",
        "model: {name: demo, wire: openai-chat, tools: false, context_window: 8192, reasoning: reasoning_details}\nsteps: [{say: hi}]",
        "memory: conversation\nsteps: [{think: hm, say: hi, calls: [{tool: a, id: x}], repeat: true, finish: length}]",
        "steps: [{do: [{pause: 200ms}, {think_hidden: x}, {call: {tool: a, arguments_text: '{'}}, {fault: reset}]}]",
        "steps: [{fault: idle}]",
        "steps: [{when: {tools: off, offered: a, prompt: b, system: c, result: d, contains: e, lacks: f}, say: hi}]",
        DEMO,
        include_str!("../../../../examples/scripts/reader.yaml"),
        include_str!("../../../../examples/scripts/stubborn.yaml"),
        include_str!("../../../../examples/scripts/hostile.yaml"),
        include_str!("../../../../examples/scripts/unreliable.yaml"),
    ] {
        Script::parse("script.yaml", script).unwrap_or_else(|problems| panic!("{script}\n{problems}"));
    }
}

#[test]
fn a_script_says_what_it_wants_to_be_called() {
    let named = Script::parse("x", "model: {name: demo, wire: ollama}\nsteps: [{say: hi}]").unwrap();
    assert_eq!((named.model_name(), named.wire()), ("demo", Some(toolgate_scripted::Wire::Ollama)));
    let plain = Script::parse("x", "steps: [{say: hi}]").unwrap();
    assert_eq!((plain.model_name(), plain.wire()), ("scripted", None));
}

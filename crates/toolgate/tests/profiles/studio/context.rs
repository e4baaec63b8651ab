//! The context budget: how a turn ends when its tokens are used up.

use serde_json::Value;

use super::{Studio, Told};

/// A model that reads without end, never the same twice, and answers when tools are disabled.
const READER: &str = "
model: {context_window: 16000}
steps:
  - when: {tools: off}
    say: This is what I know.
  - repeat: true
    calls: [{tool: bash, arguments: {command: 'seq 1 2000; date +%s%N'}}]
";

fn tokens(told: &Told) -> u64 {
    let usage = &told.end()["usage"];
    usage["inputTokens"].as_u64().unwrap() + usage["outputTokens"].as_u64().unwrap()
}

fn ends_with_an_answer(told: &Told) {
    assert_eq!(told.end()["reason"], "context_limit", "{:?}", told.output);
    assert_eq!(told.end()["text"], "This is what I know.");
    assert_eq!(told.code(), 4);
}

/// "The loop stops when remaining context drops below a configurable threshold"; "check context budget → if over threshold, force text response".
#[test]
fn a_full_context_stops_the_turn_with_one_answer() {
    let told = Studio::new("").run(READER, &[]);
    ends_with_an_answer(&told);
    // Every request is as long as the conversation; none exceeds the window.
    assert!(tokens(&told) < 16_000 * 6, "{}", told.end());
    assert!((1..8).contains(&told.end()["iterations"].as_u64().unwrap()), "{}", told.end());
    // "The same data drives both the UI indicator and the loop governor."
    let last = told.all("chat:context").into_iter().rev().nth(1).unwrap().clone();
    let (used, window) = (last["usedTokens"].as_u64().unwrap(), last["contextWindow"].as_u64().unwrap());
    assert!(window == 16_000 && used <= window, "{last}");
}

/// "a configurable threshold".
#[test]
fn the_threshold_is_what_the_operator_keeps_free() {
    let iterations = |reserve: u64| {
        let config = format!("conversation: {{context: {{reserve_tokens: {reserve}}}}}\n");
        let told = Studio::new(&config).run(READER, &[]);
        ends_with_an_answer(&told);
        told.end()["iterations"].as_u64().unwrap()
    };
    assert!(iterations(1000) > iterations(11_000));
}

/// The design lets other profiles, and a studio configured so, compact; then the turn itself has a budget, reports it once, and ends with an answer.
#[test]
fn compaction_is_bounded_by_the_tokens_of_a_turn() {
    let config = "conversation: {context: {on_full: compact, max_turn_tokens: 90000}}\n";
    let told = Studio::new(config).run(READER, &["--max-iterations", "200"]);
    ends_with_an_answer(&told);
    assert!((30_000..=90_000).contains(&tokens(&told)), "{}", told.end());
    let notices = told.all("chat:notice");
    let told_of_bound =
        notices.iter().filter(|notice| notice["text"].as_str().unwrap().contains("max_turn_tokens"));
    assert_eq!(told_of_bound.count(), 1, "{notices:?}");
    let left_out = notices.iter().filter(|notice| notice["text"].as_str().unwrap().contains("left out"));
    assert_eq!(left_out.count(), 1, "{notices:?}");
}

/// The same without a configured budget: 20 windows.
#[test]
fn compaction_without_a_configured_bound_takes_no_more_than_twenty_windows() {
    let told = Studio::new("conversation: {context: {on_full: compact}}\n").run(READER, &[]);
    ends_with_an_answer(&told);
    assert!((16_000 * 5..=16_000 * 20).contains(&tokens(&told)), "{}", told.end());
}

/// A reserve that leaves no room is a configuration error, found before the model is used.
#[test]
fn a_reserve_that_leaves_nothing_is_a_mistake_of_the_configuration() {
    let studio = Studio::new("conversation: {context: {window: 16000, reserve_tokens: 16000}}\n");
    let checked = studio.0.run(&["check"]);
    let said =
        String::from_utf8_lossy(&checked.stdout).into_owned() + &String::from_utf8_lossy(&checked.stderr);
    assert!(said.contains("`reserve_tokens` leaves nothing of a `window` of 16000 tokens"), "{said}");
    assert_eq!(checked.status.code(), Some(2));
    // The window that the server states, and a reserve beside which the tools do not fit.
    for reserve in [16_000, 15_900] {
        let studio = Studio::new(&format!("conversation: {{context: {{reserve_tokens: {reserve}}}}}\n"));
        let told = studio.run(READER, &[]);
        assert_eq!((told.code(), &told.end()["reason"]), (2, &Value::from("failed")), "{:?}", told.output);
        let said = told.end()["text"].as_str().unwrap();
        assert!(said.contains("reserve_tokens") && said.contains("leaves no room"), "{said}");
        assert!(told.all("chat:text-delta").is_empty());
    }
}

/// So is a window that instructions and tools alone exceed.
#[test]
fn a_window_smaller_than_the_instructions_is_a_mistake_of_the_configuration() {
    let told = Studio::new("conversation: {context: {window: 300}}\n").run(READER, &[]);
    assert_eq!((told.code(), &told.end()["reason"]), (2, &Value::from("failed")), "{:?}", told.output);
    let said = told.end()["text"].as_str().unwrap();
    assert!(
        said.contains(
            "`conversation.context.window` is 300 tokens, which leaves no room for the instructions"
        ),
        "{said}"
    );
    assert!(told.all("chat:text-delta").is_empty());
}

/// "Loop exits when: model responds text-only, OR context budget exceeded, OR safety max (200 turns)"; at every limit there is a last step without
/// tools.
#[test]
fn every_limit_ends_with_a_last_step_without_tools() {
    let last = "steps:\n  - {when: {tools: off}, say: Last words.}\n  - repeat: true\n    calls: ";
    let different = "[{tool: bash, arguments: {command: 'date +%s%N'}}]\n";
    let same = "[{tool: file_read, arguments: {path: a.txt}}]\n";
    let slow = "[{tool: bash, arguments: {command: 'sleep 600'}}]\n";
    let table: [(&str, &[&str], &str); 3] = [
        (different, &["--max-iterations", "2"], "iteration_limit"),
        (same, &[], "loop"),
        (slow, &["--time-limit", "8s"], "timeout"),
    ];
    for (calls, options, reason) in table {
        let studio = Studio::new("");
        studio.0.write("w/a.txt", "a\n");
        let told = studio.run(&format!("{last}{calls}"), options);
        assert_eq!(
            (&told.end()["reason"], &told.end()["text"]),
            (&reason.into(), &"Last words.".into()),
            "{:?}",
            told.output
        );
        assert_eq!(told.code(), 4, "{reason}");
    }
}

//! Callers that exceed a rate limit, and tools that fail too often.

use std::path::Path;
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;
use toolgate_attack::{Bench, BenchOptions, Scratch, code_of, person};
use toolgate_audit::RecordFilter;
use toolgate_gate::{BreakerRule, Clock, GateConfig};
use toolgate_tools::{CallResponse, Profile};
use toolgate_types::{Caller, Decision, ErrorCode, Failure, Stage, ToolOutput, Trust};

use crate::approval::Scripted;
use crate::declared::Declared;

/// A clock that tests set.
#[derive(Clone)]
pub(crate) struct TestClock(Arc<Mutex<Instant>>);

impl TestClock {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    pub(crate) fn advance(&self, time: Duration) {
        *self.0.lock().unwrap() += time;
    }

    pub(crate) fn read(&self) -> Clock {
        let now = Arc::clone(&self.0);
        Arc::new(move || *now.lock().unwrap())
    }
}

fn bench(scratch: &Scratch, config: &str, clock: &TestClock, tools: &[Arc<Declared>]) -> Bench {
    let mut options = BenchOptions::new(Profile::NATIVE, &scratch.folder("w"), &scratch.folder("s"))
        .config(config)
        .approver(Scripted::new([]), Duration::from_millis(50))
        .clock(clock.read());
    for tool in tools {
        options = options.tool(tool.clone());
    }
    options.open()
}

fn named(subject: &str) -> Caller {
    Caller { subject: subject.to_owned(), ..person("s1") }
}

/// Fails unless the call was refused with this code at this stage; returns how long to wait.
fn must_wait(bench: &Bench, called: &CallResponse, stage: Stage, code: ErrorCode) -> u64 {
    let (at, failure) = called.failed.as_ref().expect("the call was let through");
    assert_eq!((*at, failure.code), (stage, code), "{failure}");
    let milliseconds = failure.details["retry_after_ms"].as_u64().unwrap();
    let seconds = milliseconds.div_ceil(1000);
    assert!(called.answer.text.contains(&format!("wait {seconds} s")), "{}", called.answer.text);
    let record = bench.record(called.call);
    assert_eq!((record.decision, record.denial.unwrap().code), (Decision::Denied, code));
    milliseconds
}

#[test]
fn a_caller_that_calls_too_often_must_wait() {
    let (scratch, clock) = (Scratch::new(), TestClock::new());
    let echo = Declared::new("echo").share();
    let config = "rate_limits: [{caller: 'al*', tool: echo, calls: 2, per: 4s}]";
    let bench = bench(&scratch, config, &clock, slice::from_ref(&echo));
    let call = |subject: &str| bench.call_as(named(subject), "echo", json!({}));
    for _ in 0..2 {
        assert_eq!(code_of(&call("alice")), None);
    }
    let wait = must_wait(&bench, &call("alice"), Stage::Permission, ErrorCode::RateLimited);
    assert_eq!(wait, 2000);
    for _ in 0..2 {
        assert_eq!(code_of(&call("alice")), Some(ErrorCode::RateLimited));
    }
    assert_eq!(echo.runs(), 2);
    // Other callers, and other tools, are not affected.
    assert_eq!(code_of(&call("albert")), None);
    assert!((0..9).all(|_| code_of(&call("bob")).is_none()));
    assert_eq!(code_of(&bench.call_as(named("alice"), "list_directory", json!({}))), None);
    clock.advance(Duration::from_secs(2));
    assert_eq!(code_of(&call("alice")), None);
    assert_eq!(code_of(&call("alice")), Some(ErrorCode::RateLimited));
}

/// The records of rate-limited calls, oldest first: the tool, and the number of calls.
fn refusals(state: &Path) -> Vec<(String, u64)> {
    let records = toolgate_audit::query_records(&state.join("audit"), RecordFilter::default()).unwrap();
    let refused = records.filter_map(|record| {
        let record = record.unwrap();
        let denial = record.denial.filter(|denial| denial.code == ErrorCode::RateLimited)?;
        Some((record.tool.name, denial.count))
    });
    let mut refused: Vec<(String, u64)> = refused.collect();
    // The newest are listed first.
    refused.reverse();
    refused
}

fn counts(state: &Path) -> Vec<u64> {
    refusals(state).into_iter().map(|(_, count)| count).collect()
}

#[test]
fn refusals_above_a_rate_have_one_record_per_interval_and_none_is_lost() {
    let (scratch, clock) = (Scratch::new(), TestClock::new());
    let state = scratch.folder("s");
    let echo = Declared::new("echo").share();
    let config = "rate_limits: [{tool: '*', calls: 1, per: 1h}]";
    let bench = bench(&scratch, config, &clock, slice::from_ref(&echo));
    let call = |subject: &str, tool: &str| {
        assert_eq!(code_of(&bench.call_as(named(subject), tool, json!({}))), Some(ErrorCode::RateLimited));
    };
    for subject in ["alice", "bob"] {
        assert_eq!(code_of(&bench.call_as(named(subject), "echo", json!({}))), None);
    }
    (0..500).for_each(|_| call("alice", "echo"));
    assert_eq!(counts(&state), [1], "the first one is recorded before its answer leaves");
    call("bob", "echo");
    assert_eq!(counts(&state), [1, 1], "another caller is another kind");
    clock.advance(Duration::from_secs(10));
    (0..3).for_each(|_| call("alice", "echo"));
    assert_eq!(counts(&state), [1, 1, 500], "499 of the last interval, and the one that came after it");
    // At most this many calls per record, whatever the clock says.
    (0..9_998).for_each(|_| call("alice", "echo"));
    assert_eq!(counts(&state), [1, 1, 500, 10_000]);
    (0..7).for_each(|_| call("alice", "echo"));
    let refused = 500 + 1 + 3 + 9_998 + 7;
    drop(bench);
    let written = counts(&state);
    assert_eq!((written.len(), written.iter().sum::<u64>()), (5, refused), "{written:?}");
}

#[test]
fn what_is_counted_is_written_without_another_call() {
    let (scratch, clock) = (Scratch::new(), TestClock::new());
    let state = scratch.folder("s");
    let echo = Declared::new("echo").share();
    let bench = bench(&scratch, "rate_limits: [{calls: 1, per: 1h}]", &clock, slice::from_ref(&echo));
    (0..6).for_each(|_| drop(bench.call("echo", json!({}))));
    assert_eq!(counts(&state), [1]);
    let begun = Instant::now();
    while counts(&state) != [1, 4] {
        assert!(begun.elapsed() < Duration::from_secs(120), "{:?}", counts(&state));
        std::thread::yield_now();
    }
    assert_eq!(bench.verify_audit(), 3, "the call that was let through, and two records of five refusals");
}

#[test]
fn names_that_are_no_tools_have_one_rate_and_one_record() {
    let (scratch, clock) = (Scratch::new(), TestClock::new());
    let state = scratch.folder("s");
    let bench = bench(&scratch, "rate_limits: [{tool: '*', calls: 3, per: 1h}]", &clock, &[]);
    let codes: Vec<_> = (0..100).map(|n| code_of(&bench.call(&format!("invented_{n}"), json!({})))).collect();
    assert_eq!(codes[..3], [Some(ErrorCode::UnknownTool); 3]);
    assert!(codes[3..].iter().all(|code| *code == Some(ErrorCode::RateLimited)), "{codes:?}");
    assert_eq!(code_of(&bench.call("list_directory", json!({}))), None, "tools have counts of their own");
    assert_eq!(refusals(&state), [("invented_3".to_owned(), 1)]);
    drop(bench);
    assert_eq!(refusals(&state), [("invented_3".to_owned(), 1), ("invented_99".to_owned(), 96)]);
}

#[test]
fn calls_that_would_be_refused_anyway_count_too() {
    let (scratch, clock) = (Scratch::new(), TestClock::new());
    let echo = Declared::new("echo").share();
    let bench =
        bench(&scratch, "rate_limits: [{tool: echo, calls: 2, per: 1m}]", &clock, slice::from_ref(&echo));
    for _ in 0..2 {
        let called = bench.call("echo", json!({"unknown": 1}));
        assert_eq!(code_of(&called), Some(ErrorCode::InvalidArguments));
    }
    assert_eq!(code_of(&bench.call("echo", json!({"unknown": 1}))), Some(ErrorCode::RateLimited));
    assert_eq!(echo.runs(), 0);
}

#[test]
fn a_tool_that_keeps_failing_rests_and_is_tried_again() {
    let (scratch, clock) = (Scratch::new(), TestClock::new());
    let works = Arc::new(AtomicBool::new(false));
    let health = Arc::clone(&works);
    let flaky = Declared::new("flaky").answers(move |arguments| match health.load(Ordering::SeqCst) {
        true => Ok(ToolOutput::new(String::new(), arguments.clone())),
        false => Err(Failure::new(ErrorCode::IoError, "no")),
    });
    let (flaky, fine) = (flaky.share(), Declared::new("fine").share());
    let config = "breaker: {failures: 3, within: 1m, rest: 30s}";
    let bench = bench(&scratch, config, &clock, &[flaky.clone(), fine]);
    let call = || bench.call("flaky", json!({}));
    // What fails before the tool runs does not count against it.
    for _ in 0..5 {
        assert_eq!(code_of(&bench.call("flaky", json!({"x": 1}))), Some(ErrorCode::InvalidArguments));
    }
    for _ in 0..3 {
        assert_eq!(code_of(&call()), Some(ErrorCode::IoError));
    }
    assert_eq!(must_wait(&bench, &call(), Stage::Execution, ErrorCode::ToolSuspended), 30_000);
    // No approval is requested for a call that cannot run.
    let supervised = Caller { trust: Trust::Supervised, ..person("s1") };
    let called = bench.call_as(supervised, "flaky", json!({}));
    assert_eq!(must_wait(&bench, &called, Stage::Execution, ErrorCode::ToolSuspended), 30_000);
    assert_eq!(flaky.runs(), 3);
    assert_eq!(code_of(&bench.call("fine", json!({}))), None);
    clock.advance(Duration::from_secs(30));
    assert_eq!(code_of(&call()), Some(ErrorCode::IoError));
    assert_eq!(code_of(&call()), Some(ErrorCode::ToolSuspended), "one failure after the rest is enough");
    works.store(true, Ordering::SeqCst);
    clock.advance(Duration::from_secs(30));
    for _ in 0..3 {
        assert_eq!(code_of(&call()), None);
    }
}

#[test]
fn built_in_tools_rest_only_if_they_are_told_to() {
    let (scratch, clock) = (Scratch::new(), TestClock::new());
    let broken = || Declared::new("broken").answers(|_| Err(Failure::new(ErrorCode::Internal, "")));
    let tools = [broken().built_in().share(), Declared::new("fine").built_in().share()];
    let bench = bench(&scratch, "breaker: {failures: 1, within: 1m, rest: 1h}", &clock, &tools);
    for _ in 0..3 {
        assert_eq!(code_of(&bench.call("broken", json!({}))), Some(ErrorCode::Internal));
    }
    let breaker = bench.loaded().breaker.map(|rule| BreakerRule { built_in: true, ..rule });
    bench.gate().replace_config(GateConfig { breaker, ..bench.loaded().clone() });
    assert_eq!(code_of(&bench.call("broken", json!({}))), Some(ErrorCode::Internal));
    assert_eq!(code_of(&bench.call("broken", json!({}))), Some(ErrorCode::ToolSuspended));
    assert_eq!(code_of(&bench.call("fine", json!({}))), None);
}

#[test]
fn a_caller_that_makes_a_tool_fail_does_not_switch_it_off_for_others() {
    let (scratch, clock) = (Scratch::new(), TestClock::new());
    // Fails at the caller's will, as a tool that times out on a hostile input does.
    let flaky = Declared::new("flaky").answers(|_| Err(Failure::new(ErrorCode::Timeout, "too long")));
    let bench = bench(&scratch, "breaker: {failures: 2, within: 1m, rest: 30s}", &clock, &[flaky.share()]);
    let as_caller = |subject: &str| Caller { subject: subject.to_owned(), ..person("s1") };
    let call = |subject: &str| code_of(&bench.call_as(as_caller(subject), "flaky", json!({})));
    for _ in 0..2 {
        assert_eq!(call("mallory"), Some(ErrorCode::Timeout));
    }
    assert_eq!(call("mallory"), Some(ErrorCode::ToolSuspended));
    assert_eq!(
        call("alice"),
        Some(ErrorCode::Timeout),
        "the tool was stopped for a caller that never used it"
    );
    assert_eq!(call("alice"), Some(ErrorCode::Timeout));
    assert_eq!(call("bob"), Some(ErrorCode::ToolSuspended), "two callers found it broken");
}

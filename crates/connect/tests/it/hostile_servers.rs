//! Servers that flood, hang, crash, lie and babble: only their own calls fail, with a reason.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolgate_connect::{HealthState, PinKey, Pins, ProcessSettings, TransportSettings};
use toolgate_gate::CallOptions;
use toolgate_types::{ErrorCode, Outcome};

use crate::fixture::{BridgeFixture, MEMORY, cancelling, hurried, process, server};

/// The error a caller gets, and whether the server is restarted for it.
struct Case {
    tool: &'static str,
    told: Result<&'static str, ErrorCode>,
    restarted: bool,
    why: &'static str,
}

const CASES: [Case; 19] = [
    Case {
        tool: "die",
        told: Err(ErrorCode::Interrupted),
        restarted: true,
        why: "(exit status: 3); it last said: a lamp went out",
    },
    Case { tool: "half", told: Err(ErrorCode::Interrupted), restarted: true, why: "" },
    Case { tool: "garbage", told: Err(ErrorCode::Interrupted), restarted: true, why: "no messages" },
    Case { tool: "unasked", told: Err(ErrorCode::Interrupted), restarted: true, why: "nobody asked for" },
    Case { tool: "strays", told: Err(ErrorCode::Interrupted), restarted: true, why: "nobody asked for" },
    Case { tool: "progress", told: Err(ErrorCode::Interrupted), restarted: true, why: "nobody asked for" },
    Case {
        tool: "own_progress",
        told: Err(ErrorCode::Interrupted),
        restarted: true,
        why: "nobody asked for",
    },
    Case { tool: "blank", told: Err(ErrorCode::Interrupted), restarted: true, why: "nobody asked for" },
    Case { tool: "bigline", told: Ok("still here"), restarted: false, why: "" },
    Case { tool: "heavy", told: Err(ErrorCode::CommandFailed), restarted: false, why: "" },
    Case { tool: "endless", told: Err(ErrorCode::Interrupted), restarted: true, why: "longer than" },
    Case { tool: "ignore", told: Err(ErrorCode::Timeout), restarted: false, why: "" },
    Case { tool: "hang", told: Err(ErrorCode::Timeout), restarted: false, why: "" },
    Case { tool: "twice", told: Ok("first"), restarted: false, why: "" },
    Case { tool: "wrong", told: Ok("right"), restarted: false, why: "" },
    Case { tool: "idless", told: Ok("still here"), restarted: false, why: "" },
    Case { tool: "errors", told: Ok("done"), restarted: false, why: "" },
    Case { tool: "fail", told: Err(ErrorCode::CommandFailed), restarted: false, why: "" },
    Case { tool: "lie", told: Err(ErrorCode::OutputInvalid), restarted: false, why: "" },
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_lie_costs_its_own_call_and_nothing_else() {
    let _alone = MEMORY.lock().await;
    for case in CASES {
        let mut bad = server("bad", process("honest", None));
        if case.told == Err(ErrorCode::Timeout) {
            bad.tools = vec![hurried(case.tool, Duration::from_secs(1))];
        }
        let setting = BridgeFixture::ready(vec![bad, server("good", process("honest", None))]).await;
        let tool = format!("bad__{}", case.tool);
        let (outcome, other) = tokio::join!(
            setting.outcome(&tool, json!({}), CallOptions::default()),
            setting.done("good__echo", json!({"text": "meanwhile"})),
        );
        assert_eq!(other.text, "meanwhile");
        let told = match &outcome {
            Outcome::Done(output) => Ok(output.text.as_str()),
            Outcome::Failed { failure, .. } => Err(failure.code),
        };
        assert_eq!(told, case.told, "{}: {outcome:?}", case.tool);
        // Restarted or not, the next call is answered.
        assert_eq!(setting.done("bad__echo", json!({"text": "next"})).await.text, "next", "{}", case.tool);
        let health = setting.health("bad");
        assert_eq!(health.restarts, u32::from(case.restarted), "{}: {health:?}", case.tool);
        assert!(health.last_error.unwrap_or_default().contains(case.why), "{}", case.tool);
        assert!(health.stderr_tail.len() <= 8192);
        assert!(resident() < 300 << 20, "{}: {} bytes", case.tool, resident());
        setting.bridge.close().await;
    }
}

/// Resident memory of this process.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[tokio::test]
async fn servers_that_never_get_ready_say_why() {
    let nowhere = ProcessSettings { program: "/nowhere/at/all".into(), ..ProcessSettings::default() };
    let mut mute = server("bad", process("mute", None));
    mute.startup_timeout = Duration::from_secs(1);
    let bad = |mode: &str| server("bad", process(mode, None));
    for (bad, state, why) in [
        (mute, HealthState::BackingOff, "not ready within"),
        (bad("refuse"), HealthState::BackingOff, "it refused: no\\u{202e}"),
        (bad("dead"), HealthState::BackingOff, "cannot find my licence"),
        (bad("babble"), HealthState::BackingOff, "no messages"),
        (bad("many"), HealthState::BackingOff, "more than 1000 tools"),
        (bad("pages"), HealthState::BackingOff, "pages"),
        (server("bad", TransportSettings::Stdio(nowhere)), HealthState::Failed, "could not be started"),
    ] {
        let setting = BridgeFixture::with(vec![bad, server("good", process("honest", None))]);
        setting.until_state("bad", state).await;
        setting.load().await;
        let error = setting.health("bad").last_error.unwrap();
        assert!(error.contains(why), "{error}");
        assert!(setting.names().iter().all(|name| name.starts_with("good__")));
        assert_eq!(setting.done("good__echo", json!({"text": "x"})).await.text, "x");
        setting.bridge.close().await;
    }
}

#[tokio::test]
async fn what_a_server_last_said_is_shown_and_kept_nowhere() {
    let folder = Arc::new(tempfile::TempDir::new().unwrap());
    let before = BridgeFixture::again(Arc::clone(&folder), vec![server("bad", process("honest", None))]);
    before.load().await;
    before.bridge.close().await;
    let setting = BridgeFixture::again(folder, vec![server("bad", process("dead", None))]);
    setting.until_state("bad", HealthState::BackingOff).await;
    setting.load().await;
    let (_, failure) = setting.failed("bad__echo", json!({"text": "x"})).await;
    assert_eq!(failure.code, ErrorCode::ServerUnavailable);
    let words = "cannot find my licence";
    assert!(failure.terminal_note.is_some_and(|aside| aside.contains(words)), "the operator may see it");
    assert!(failure.operator_note.is_some_and(|note| !note.contains(words)), "this is recorded");
    assert!(!failure.message.contains(words) && setting.complained(words));
}

#[tokio::test]
async fn tools_that_cannot_be_are_left_out_and_the_others_are_not() {
    let _alone = MEMORY.lock().await;
    let setting = BridgeFixture::ready(vec![server("odd", process("odd", None))]).await;
    assert_eq!(setting.names(), ["odd__good"]);
    for words in [
        "`spaced name` is left out",
        "two tools `good`",
        "`string_schema` is left out",
        "`outside` is left out",
        "`ahead` is left out: its input schema cannot be used: the pattern \"^(?!x)\" cannot be used",
        "`back` is left out: its output schema cannot be used: the pattern",
        "`large` is left out: its input schema cannot be used: its patterns",
        "`no_schema` cannot be read",
    ] {
        assert!(setting.complained(words), "{words}: {:?}", setting.warnings.lock().unwrap());
    }
}

#[tokio::test]
async fn names_that_are_none_or_look_alike_are_no_tools() {
    let setting = BridgeFixture::ready(vec![server("odd", process("names", None))]).await;
    assert_eq!(setting.names(), ["odd__b__plain", "odd__good"]);
    for words in [
        "a tool with an empty name",
        "a name of 129 bytes",
        "`Read` is left out: it names another",
        "`read` is left out: it names another",
        "`get-item` is left out: it names another",
    ] {
        assert!(setting.complained(words), "{words}: {:?}", setting.warnings.lock().unwrap());
    }
    let pins = Pins::new(setting.folder.path().join("pins.toolgate"))
        .for_server(&PinKey::new("odd".parse().unwrap(), None))
        .unwrap();
    assert_eq!(
        pins.tools().map(|(name, _)| name.len()).max(),
        Some("b__plain".len()),
        "nothing else is kept"
    );
}

#[tokio::test]
async fn no_server_stands_in_for_another_by_a_name() {
    for order in [["a", "a__b"], ["a__b", "a"]] {
        let servers =
            order.map(|name| server(name, process(if name == "a" { "names" } else { "plain" }, None)));
        let setting = BridgeFixture::ready(servers.into()).await;
        let names = setting.names();
        assert!(!names.contains(&"a__b__plain".to_owned()), "{names:?}");
        assert!(
            names.contains(&"a__b__other".to_owned()) && names.contains(&"a__good".to_owned()),
            "{names:?}"
        );
        assert!(setting.complained("`a__b__plain` is left out: a tool of another server looks like it"));
    }
}

#[tokio::test]
async fn the_patterns_of_a_server_take_no_more_room_than_it_may_have() {
    let _alone = MEMORY.lock().await;
    let before = resident();
    let setting = BridgeFixture::ready(vec![server("odd", process("patterns", None))]).await;
    let names = setting.names();
    assert!(names.len() > 4 && names.len() < 30, "{names:?}");
    assert!(names.contains(&"odd__without".to_owned()), "what has no pattern needs no room");
    assert!(setting.complained("`t29` is left out: its input schema cannot be used: its patterns"));
    assert!(resident() < before + (200 << 20), "{before} {}", resident());
}

#[tokio::test]
async fn others_do_not_wait_for_a_long_check_and_it_can_be_cancelled() {
    let _alone = MEMORY.lock().await;
    let servers = vec![server("bad", process("checks", None)), server("good", process("honest", None))];
    let setting = BridgeFixture::ready(servers).await;
    let (options, token) = cancelling();
    // All on the one thread of this test: if the check ran here, it would block everything else.
    let (outcome, ()) = tokio::join!(setting.outcome("bad__slow_check", json!({}), options), async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(setting.done("good__echo", json!({"text": "meanwhile"})).await.text, "meanwhile");
        token.cancel();
    });
    assert!(
        matches!(&outcome, Outcome::Failed { failure, .. } if failure.code == ErrorCode::Cancelled),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn a_server_that_hangs_for_good_is_started_again() {
    let mut settings = server("bad", process("honest", None));
    settings.tools = vec![hurried("add", Duration::from_millis(500))];
    let setting = BridgeFixture::ready(vec![settings]).await;
    setting.done("bad__deaf", json!({})).await;
    for _ in 0..5 {
        assert_eq!(setting.failed("bad__add", json!({"a": 1, "b": 1})).await.1.code, ErrorCode::Timeout);
    }
    setting.until("started again", || setting.health("bad").restarts == 1).await;
    setting.until_state("bad", HealthState::Ready).await;
    assert_eq!(setting.done("bad__echo", json!({"text": "x"})).await.text, "x");
    assert!(setting.health("bad").last_error.unwrap().contains("unanswered"));
}

#[tokio::test]
async fn a_server_that_does_not_read_fills_nothing() {
    let _alone = MEMORY.lock().await;
    let mut settings = server("bad", process("honest", None));
    settings.tools = vec![hurried("echo", Duration::from_millis(300))];
    let setting = BridgeFixture::ready(vec![settings]).await;
    setting.done("bad__deaf", json!({})).await;
    let before = resident();
    let long = Value::from("x".repeat(8 << 20));
    for _ in 0..4 {
        let (_, failure) = setting.failed("bad__echo", json!({"text": long})).await;
        assert!(matches!(failure.code, ErrorCode::Timeout | ErrorCode::Interrupted), "{failure:?}");
    }
    assert!(resident() < before + (200 << 20), "{before} {}", resident());
}

#[tokio::test]
async fn calls_wait_for_a_server_that_starts_but_not_longer_than_they_may() {
    let mut settings = server("bad", process("honest", None));
    let setting = BridgeFixture::ready(vec![settings.clone()]).await;
    let folder = Arc::clone(&setting.folder);
    setting.bridge.close().await;
    drop(setting);
    // The tools are pinned, and the server has not started yet.
    let again = BridgeFixture::again(Arc::clone(&folder), vec![settings.clone()]);
    again.reload();
    assert_eq!(again.done("bad__echo", json!({"text": "early"})).await.text, "early");
    again.bridge.close().await;
    settings.transport = process("mute", None);
    settings.timeout = Duration::from_millis(200);
    let mute = BridgeFixture::again(folder, vec![settings]);
    mute.reload();
    assert_eq!(mute.failed("bad__echo", json!({"text": "early"})).await.1.code, ErrorCode::Timeout);
}

//! Servers that behave correctly.

use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use toolgate_audit::{AuditLog, LogOptions, Record, RecordFilter};
use toolgate_connect::{HealthState, ProcessSettings, SecretString, ToolSettings, TransportSettings};
use toolgate_gate::{
    ApprovalReply, ApprovalRequest, Approver, CallOptions, Fraction, PreviewBody, ProgressUpdate,
};
use toolgate_policy::{OutputPolicy, OutputRule};
use toolgate_text::confusables::Charset;
use toolgate_types::{Caller, Category, Decision, ErrorCode, Outcome, Stage, ToolCall, ToolClass, Trust};

use crate::fixture::{
    BridgeFixture, FixtureOptions, LeftoverLauncher, NEVER, SlowExitLauncher, TEST_TIMEOUT, caller,
    cancelling, hurried, notes, process, server,
};

#[tokio::test]
async fn tools_appear_and_answer_in_both_eras() {
    let soon = Duration::from_millis(10);
    for (mode, protocol, silence, restarts) in [
        ("honest", "2025-11-25", NEVER, 0),
        ("newer", "2026-07-28", NEVER, 0),
        ("fragile", "2025-11-25", NEVER, 1),
        ("greeting", "2025-11-25", NEVER, 0),
        ("silent", "2025-11-25", soon, 0),
        ("late", "2026-07-28", soon, 0),
        ("locked", "2026-07-28", soon, 0),
    ] {
        let folder = Arc::new(TempDir::new().unwrap());
        let written = notes(&folder);
        let settings = server("fix", process(mode, Some(&written)));
        let setting = BridgeFixture::caring(
            folder,
            vec![settings],
            FixtureOptions { probe_timeout: silence, ..FixtureOptions::default() },
        );
        // `ready` waits until the server was contacted with the right protocol.
        setting.load().await;
        let health = setting.health("fix");
        assert_eq!((health.state, health.restarts), (HealthState::Ready, restarts), "{mode}: {health:?}");
        assert_eq!(health.protocol.as_deref(), Some(protocol), "{mode}");
        let output = setting.done("fix__echo", json!({"text": "hello\u{1b}[31m\u{200b}"})).await;
        assert_eq!(output.text, "hello", "{mode}");
        let output = setting.done("fix__add", json!({"a": 2, "b": 3})).await;
        assert_eq!(output.structured, json!({"sum": 5}), "{mode}");
        setting.bridge.close().await;
        let initialized = std::fs::read_to_string(written.join("initialized")).unwrap_or_default();
        assert!(!initialized.contains("in vain"), "{mode}: `notifications/initialized` without a session");
    }
}

#[tokio::test]
async fn what_the_gate_knows_about_a_tool() {
    let setting = BridgeFixture::ready(vec![server("fix", process("honest", None))]).await;
    let tools = setting.bridge.tools();
    let names = setting.names();
    assert!(names.is_sorted(), "{names:?}");
    let add = tools.iter().find(|tool| tool.spec().name.as_str() == "fix__add").unwrap();
    let spec = add.spec();
    assert_eq!((spec.title.as_str(), spec.description.as_str()), ("Add", "Adds two numbers."));
    assert_eq!((spec.class, spec.category), (ToolClass::Read, Category::Mcp));
    assert!(spec.requirements.is_some() && spec.suspended.is_none() && add.fingerprint().is_some());
    assert_eq!(spec.timeout, Some(TEST_TIMEOUT));
}

#[tokio::test]
async fn what_is_not_classified_is_destructive_and_settings_hold() {
    let mut settings = server("fix", process("honest", None));
    settings.default_class = ToolClass::Destructive;
    let about = |change: fn(&mut ToolSettings)| {
        let mut about = ToolSettings::default();
        change(&mut about);
        about
    };
    settings.tools = vec![
        (
            "add".to_owned(),
            about(|it| it.policy = Some(OutputPolicy::compile(&[("nothing", OutputRule::Allow)]).unwrap())),
        ),
        ("ech*".to_owned(), about(|it| it.class = Some(ToolClass::Read))),
        (
            "fail".to_owned(),
            about(|it| it.policy = Some(OutputPolicy::compile(&[("**", OutputRule::Allow)]).unwrap())),
        ),
        ("die".to_owned(), about(|it| it.allowed = Some(false))),
        hurried("ignore", Duration::from_millis(100)),
    ];
    let setting = BridgeFixture::ready(vec![settings]).await;
    let class = |name: &str| {
        setting
            .bridge
            .tools()
            .iter()
            .find(|tool| tool.spec().name.as_str() == name)
            .map(|tool| tool.spec().class)
    };
    assert_eq!(class("fix__echo"), Some(ToolClass::Read));
    assert_eq!(class("fix__slow"), Some(ToolClass::Destructive));
    assert_eq!(class("fix__die"), None);
    assert_eq!(setting.failed("fix__die", json!({})).await.1.code, ErrorCode::UnknownTool);
    // What no rule allows is dropped, the text included.
    let output = setting.done("fix__add", json!({"a": 2, "b": 3})).await;
    assert!(!output.text.contains('5') && output.structured == json!({}), "{output:?}");
    let (_, failure) = setting.failed("fix__fail", json!({})).await;
    assert!(!failure.message.contains("locked"), "{failure:?}");
    assert_eq!(setting.failed("fix__ignore", json!({})).await.1.code, ErrorCode::Timeout);
}

/// Records the questions, and denies.
#[derive(Default)]
struct Asked(Mutex<Vec<ApprovalRequest>>);

impl Approver for Asked {
    fn ask(&self, question: ApprovalRequest) -> Pin<Box<dyn Future<Output = ApprovalReply> + Send + '_>> {
        self.0.lock().unwrap().push(question);
        Box::pin(async { ApprovalReply::Denied(None) })
    }
}

#[tokio::test]
async fn a_person_is_shown_whose_tool_it_is_and_everything_that_is_hidden() {
    let mut settings = server("fix", process("honest", None));
    settings.default_class = ToolClass::Write;
    let setting = BridgeFixture::ready(vec![settings]).await;
    let asked = Arc::new(Asked::default());
    let options = CallOptions { approver: Some(asked.clone()), ..CallOptions::default() };
    let caller = Caller { trust: Trust::Guided, ..caller() };
    let call = ToolCall::new("fix__echo", json!({"text": "a\u{202e}b"}));
    let outcome = setting.gate.call(call, caller, options).await.outcome;
    assert!(matches!(outcome, Outcome::Failed { stage: Stage::Approval, .. }), "{outcome:?}");
    let questions = asked.0.lock().unwrap();
    let preview = &questions[0].preview;
    assert_eq!(
        preview.summary[..2],
        ["call `echo` of the MCP server `fix`", "the server says: Says it again."]
    );
    assert!(preview.summary[2].starts_with("definition "));
    assert_eq!(preview.body, PreviewBody::Text("{\n  \"text\": \"a\u{202e}b\"\n}".to_owned()));
    let rows = questions[0].card(Charset::Unicode).body.unwrap().rows;
    assert_eq!(rows[1].line, "  \"text\": \"a\\u{202e}b\"");
}

#[tokio::test]
async fn arguments_are_checked_before_a_server_sees_them() {
    let setting = BridgeFixture::ready(vec![server("fix", process("honest", None))]).await;
    for arguments in [json!({}), json!({"text": 5}), json!({"text": "x", "more": 1}), json!([])] {
        let (stage, failure) = setting.failed("fix__echo", arguments).await;
        assert_eq!((stage, failure.code), (Stage::Validation, ErrorCode::InvalidArguments));
    }
}

#[tokio::test]
async fn progress_reaches_the_call_and_nothing_else() {
    let folder = Arc::new(TempDir::new().unwrap());
    let notes = notes(&folder);
    let setting = BridgeFixture::again(folder, vec![server("fix", process("honest", Some(&notes)))]);
    setting.load().await;
    let told = Arc::new(Mutex::new(Vec::<(String, Option<Fraction>)>::new()));
    let heard = Arc::clone(&told);
    let progress = move |said: ProgressUpdate<'_>| {
        let mut heard = heard.lock().unwrap();
        std::fs::write(notes.join(format!("heard {}", heard.len())), "").unwrap();
        heard.push((said.text.to_owned(), said.fraction));
    };
    let options = CallOptions { progress: Some(Arc::new(progress)), ..CallOptions::default() };
    let outcome = setting.outcome("fix__slow", json!({}), options).await;
    assert!(matches!(outcome, Outcome::Done(_)));
    let step = |done: u8| {
        let share = Fraction { done: done.into(), total: Some(3.0) };
        (format!("step {done}\n"), Some(share))
    };
    assert_eq!(*told.lock().unwrap(), [step(0), step(1), step(2)]);
}

#[tokio::test]
async fn pictures_come_along_and_answers_that_break_their_word_do_not() {
    let setting = BridgeFixture::ready(vec![server("fix", process("honest", None))]).await;
    let output = setting.done("fix__picture", json!({})).await;
    assert_eq!((output.attachments.len(), output.text.as_str()), (1, "a picture"));
    let (stage, failure) = setting.failed("fix__lie", json!({})).await;
    assert_eq!((stage, failure.code), (Stage::Output, ErrorCode::OutputInvalid));
    let (stage, failure) = setting.failed("fix__fail", json!({})).await;
    assert_eq!((stage, failure.code), (Stage::Execution, ErrorCode::CommandFailed));
    assert_eq!(
        failure.message,
        "the server `fix` says that the call failed, in its own words: the row is locked"
    );
}

#[tokio::test]
async fn a_server_gets_to_ask_nobody() {
    let setting = BridgeFixture::ready(vec![server("fix", process("honest", None))]).await;
    let said: Value = serde_json::from_str(&setting.done("fix__ask", json!({})).await.text).unwrap();
    assert_eq!(said["sampling/createMessage"]["code"], json!(-32601), "{said}");
    assert_eq!(said["elicitation/create"]["action"], json!("decline"), "{said}");
    assert_eq!(said["roots/list"]["roots"], json!([]), "{said}");
    assert_eq!(said["ping"], json!({}), "{said}");
}

#[tokio::test]
async fn a_cancelled_call_ends_and_the_server_hears_of_it() {
    let folder = Arc::new(TempDir::new().unwrap());
    let notes = notes(&folder);
    let setting = BridgeFixture::again(folder, vec![server("fix", process("honest", Some(&notes)))]);
    setting.load().await;
    let (options, token) = cancelling();
    let call = setting.failed_with("fix__hang", json!({}), options);
    let (ended, ()) = tokio::join!(call, async {
        setting.until("the server works on it", || notes.join("hanging").exists()).await;
        token.cancel();
    });
    assert_eq!(ended.1.code, ErrorCode::Cancelled);
    setting.until("the server heard", || notes.join("cancelled").exists()).await;
    // A late response is dropped.
    assert_eq!(setting.done("fix__echo", json!({"text": "next"})).await.text, "next");
    assert_eq!(setting.health("fix").restarts, 0);
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_any_longer_is_cancelled_too() {
    let folder = Arc::new(TempDir::new().unwrap());
    let notes = notes(&folder);
    let setting = BridgeFixture::again(folder, vec![server("fix", process("honest", Some(&notes)))]);
    setting.load().await;
    tokio::select! {
        ended = setting.failed("fix__hang", json!({})) => panic!("{ended:?}"),
        () = setting.until("the server works on it", || notes.join("hanging").exists()) => {}
    }
    setting.until("the server heard", || notes.join("cancelled").exists()).await;
}

#[tokio::test]
async fn what_a_server_leaves_under_protected_names_is_taken_away_before_the_answer() {
    for class in [ToolClass::Read, ToolClass::Write] {
        let mut settings = server("fix", process("honest", None));
        settings.default_class = class;
        let left = LeftoverLauncher::default();
        let setting = BridgeFixture::leaving(vec![settings], &left, NEVER);
        setting.load().await;
        left.leave("@project/.git/hooks/pre-commit");
        let (_, failure) = setting.failed("fix__echo", json!({"text": "x"})).await;
        assert_eq!(failure.code, ErrorCode::DeniedPath, "{class:?}");
        assert_eq!(failure.details["quarantined"], json!(["@project/.git/hooks/pre-commit"]));
        assert!(setting.complained("taken away and is kept in `the cellar`: @project/.git/hooks/pre-commit"));
        // A quarantined file is reported only once.
        setting.done("fix__echo", json!({"text": "x"})).await;
    }
}

#[tokio::test]
async fn what_a_server_leaves_while_nothing_is_called_is_taken_away_and_told() {
    let left = LeftoverLauncher::default();
    // One that is ready, and one that never becomes ready and has a long startup timeout.
    let mute = server("fix", process("mute", None));
    for settings in [server("fix", process("honest", None)), mute] {
        let setting = BridgeFixture::leaving(vec![settings], &left, Duration::from_millis(10));
        for path in ["@project/.envrc", "@project/.envrc", "@project/sub/.envrc"] {
            setting.warnings.lock().unwrap().clear();
            left.leave(path);
            setting.until("it is told", || setting.complained(path)).await;
        }
        setting.bridge.close().await;
    }
}

#[tokio::test]
async fn what_is_taken_away_at_the_end_of_a_server_is_told() {
    let left = LeftoverLauncher::default();
    let setting = BridgeFixture::leaving(vec![server("fix", process("honest", None))], &left, NEVER);
    setting.load().await;
    left.leave("@project/.envrc");
    setting.bridge.close().await;
    assert!(setting.complained("@project/.envrc"), "{:?}", setting.warnings.lock().unwrap());
    // Also reported if the server never became ready.
    let setting = BridgeFixture::leaving(vec![server("fix", process("dead", None))], &left, NEVER);
    left.leave("@project/.envrc");
    setting.until("it is told", || setting.complained("@project/.envrc")).await;
}

#[tokio::test]
async fn a_server_whose_input_is_closed_may_go_before_it_is_ended() {
    let going = SlowExitLauncher::default();
    let setting = BridgeFixture::going(vec![server("fix", process("honest", None))], &going);
    setting.load().await;
    setting.bridge.close().await;
    assert_eq!(going.ended_after.get(), Some(&2));
}

/// A gate before one server that answers `wait` when the test allows it.
async fn waiting() -> (BridgeFixture, std::path::PathBuf) {
    let folder = Arc::new(TempDir::new().unwrap());
    let notes = notes(&folder);
    let mut settings = server("fix", process("honest", Some(&notes)));
    // Time enough to answer another call first.
    settings.tools = vec![hurried("ignore", Duration::from_secs(10))];
    let setting = BridgeFixture::again(folder, vec![settings]);
    setting.load().await;
    (setting, notes)
}

#[tokio::test]
async fn calls_that_are_cancelled_end_nobody_elses() {
    let (setting, notes) = waiting().await;
    let (waited, ()) = tokio::join!(setting.done("fix__wait", json!({})), async {
        setting.until("the server works on it", || notes.join("waiting").exists()).await;
        for number in 1..=8 {
            let (options, token) = cancelling();
            let hanging = || {
                std::fs::read_to_string(notes.join("hanging"))
                    .is_ok_and(|text| text.lines().count() == number)
            };
            let call = setting.failed_with("fix__hang", json!({}), options);
            let (ended, ()) = tokio::join!(call, async {
                setting.until("the server works on it", hanging).await;
                token.cancel();
            });
            assert_eq!(ended.1.code, ErrorCode::Cancelled);
        }
        std::fs::write(notes.join("go"), "").unwrap();
    });
    assert_eq!((waited.text.as_str(), setting.health("fix").restarts), ("waited", 0));
}

/// Whether a server's tool really only reads cannot be verified, whatever its class.
#[tokio::test]
async fn a_gate_that_is_killed_leaves_a_record_of_a_call_that_was_said_to_read() {
    let (setting, notes) = waiting().await;
    let state = setting.folder.path().join("state");
    let (audit, key) = (state.join("audit"), std::fs::read_to_string(state.join("keys/state.key")).unwrap());
    let key =
        toolgate_types::StateKey::new(*key.trim().parse::<toolgate_types::Sha256>().unwrap().as_bytes());
    let killed = setting.folder.path().join("killed");
    let (waited, ()) = tokio::join!(setting.done("fix__wait", json!({})), async {
        setting.until("the server works on it", || notes.join("waiting").exists()).await;
        // The state if the gate were killed now; no process holds a lock on the copy.
        copy_folder(&audit, &killed);
        std::fs::write(notes.join("go"), "").unwrap();
    });
    assert_eq!(waited.text, "waited");
    let records = |folder: &Path| -> Vec<(String, Decision, Option<ErrorCode>)> {
        drop(AuditLog::open(LogOptions::new(folder), &key).unwrap());
        let records =
            toolgate_audit::query_records(folder, RecordFilter::default()).unwrap().map(Result::unwrap);
        let told =
            |record: Record| (record.tool.name, record.decision, record.denial.map(|denial| denial.code));
        records.map(told).collect()
    };
    let name = || "fix__wait".to_owned();
    assert_eq!(records(&killed), [(name(), Decision::Error, Some(ErrorCode::Interrupted))]);
    assert_eq!(records(&audit), [(name(), Decision::Allowed, None)]);
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let copy = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_folder(&entry.path(), &copy),
            false => drop(std::fs::copy(entry.path(), copy).unwrap()),
        }
    }
}

#[tokio::test]
async fn a_server_that_answers_others_meanwhile_does_not_hang() {
    let (setting, notes) = waiting().await;
    let ignored = || setting.failed("fix__ignore", json!({}));
    let (waited, ..) = tokio::join!(
        setting.done("fix__wait", json!({})),
        async {
            let all = tokio::join!(ignored(), ignored(), ignored(), ignored(), ignored(), ignored());
            assert_eq!(all.5.1.code, ErrorCode::Timeout);
            std::fs::write(notes.join("go"), "").unwrap();
        },
        async {
            setting.until("the server works on it", || notes.join("waiting").exists()).await;
            setting.done("fix__echo", json!({"text": "meanwhile"})).await;
        }
    );
    assert_eq!((waited.text.as_str(), setting.health("fix").restarts), ("waited", 0));
}

#[tokio::test]
async fn a_server_that_is_declared_otherwise_ends_after_the_calls_it_works_on() {
    let (setting, notes) = waiting().await;
    let started = std::fs::read_to_string(notes.join("started")).unwrap();
    let process = Path::new("/proc").join(started.trim());
    let (waited, ()) = tokio::join!(setting.done("fix__wait", json!({})), async {
        setting.until("the server works on it", || notes.join("waiting").exists()).await;
        let mut otherwise = server("fix", self::process("honest", Some(&notes)));
        otherwise.startup_timeout += Duration::from_secs(1);
        setting.bridge.configure(vec![otherwise]);
        let (_, failure) = setting.failed("fix__echo", json!({"text": "new"})).await;
        assert_eq!(failure.message, "the server `fix` takes no more calls");
        // Calls from now on go to its successor, which is ready by then.
        setting.load().await;
        setting.done("fix__echo", json!({"text": "new"})).await;
        assert!(process.exists());
        std::fs::write(notes.join("go"), "").unwrap();
    });
    assert_eq!(waited.text, "waited");
    setting.until("the process is gone", || !process.exists()).await;
}

#[tokio::test]
async fn who_closes_waits_for_no_call_and_says_so() {
    let (setting, notes) = waiting().await;
    let (ended, ()) = tokio::join!(setting.failed("fix__wait", json!({})), async {
        setting.until("the server works on it", || notes.join("waiting").exists()).await;
        setting.bridge.configure(Vec::new());
        setting.bridge.close().await;
    });
    assert_eq!(ended.1.code, ErrorCode::Interrupted);
    assert_eq!(ended.1.help.as_deref(), Some("what the call did is not known; the server was ended"));
}

#[tokio::test]
async fn many_calls_at_once_get_their_own_answers() {
    let mut settings = server("fix", process("honest", None));
    settings.max_calls = 8;
    let setting = BridgeFixture::ready(vec![settings]).await;
    let calls = (0..200).map(|number| {
        let setting = &setting;
        async move {
            let text = format!("number {number} {}", "x".repeat(number * 50));
            assert_eq!(setting.done("fix__echo", json!({"text": text})).await.text, text);
        }
    });
    let mut calls: Vec<_> = calls.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        calls.retain_mut(|call| call.as_mut().poll(context).is_pending());
        if calls.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

#[tokio::test]
async fn a_server_sees_only_the_variables_that_were_named() {
    let TransportSettings::Stdio(base) = process("honest", None) else { unreachable!() };
    let named = ProcessSettings { environment: vec![("ONLY".to_owned(), SecretString::new("this"))], ..base };
    let setting = BridgeFixture::ready(vec![server("fix", TransportSettings::Stdio(named))]).await;
    let seen = setting.done("fix__environment", json!({})).await.text;
    let seen: Vec<String> = serde_json::from_str(&seen).unwrap();
    assert!(seen.contains(&"ONLY".to_owned()) && !seen.contains(&"HOME".to_owned()), "{seen:?}");
}

#[tokio::test]
async fn what_is_declared_anew_keeps_what_did_not_change() {
    let folder = Arc::new(TempDir::new().unwrap());
    let notes = notes(&folder);
    let one = server("one", process("honest", Some(&notes)));
    let setting = BridgeFixture::again(folder, vec![one.clone(), server("two", process("honest", None))]);
    setting.load().await;
    let starts = || std::fs::read_to_string(notes.join("started")).unwrap().lines().count();
    assert_eq!(starts(), 1);
    let mut other = one.clone();
    other.tools = vec![("echo".to_owned(), ToolSettings { allowed: Some(false), ..ToolSettings::default() })];
    setting.bridge.configure(vec![other]);
    setting.load().await;
    assert!(
        !setting.names().iter().any(|name| name == "one__echo" || name.starts_with("two__")),
        "{:?}",
        setting.names()
    );
    setting.done("one__add", json!({"a": 1, "b": 1})).await;
    assert_eq!(starts(), 1);
    let mut slower = one;
    slower.startup_timeout = Duration::from_secs(30);
    setting.bridge.configure(vec![slower]);
    setting.load().await;
    setting.done("one__add", json!({"a": 1, "b": 1})).await;
    assert_eq!(starts(), 2);
    setting.bridge.close().await;
    assert!(setting.bridge.health().is_empty());
    let failure = setting.failed("one__add", json!({"a": 1, "b": 1})).await.1;
    assert_eq!(failure.code, ErrorCode::ServerUnavailable);
}

/// The protocol of a server is remembered: one that ignores `server/discover` is not probed again, so it is up without waiting for the probe timeout.
#[tokio::test]
async fn the_protocol_of_a_server_is_remembered_by_the_next_gate() {
    let folder = Arc::new(TempDir::new().unwrap());
    let care = |probe_timeout| FixtureOptions { probe_timeout, ..FixtureOptions::default() };
    let silent = || {
        let mut settings = server("one", process("silent", None));
        settings.startup_timeout = Duration::from_secs(20);
        settings
    };
    let first = BridgeFixture::caring(Arc::clone(&folder), vec![silent()], care(Duration::from_millis(50)));
    first.load().await;
    first.bridge.close().await;
    let second = BridgeFixture::caring(folder, vec![silent()], care(NEVER));
    second.load().await;
    let health = second.health("one");
    assert_eq!((health.state, health.restarts), (HealthState::Ready, 0), "{health:?}");
    assert_eq!(second.done("one__echo", json!({"text": "x"})).await.text, "x");
}

#[tokio::test]
async fn icons_are_part_of_what_was_agreed_to() {
    let folder = Arc::new(TempDir::new().unwrap());
    let notes = notes(&folder);
    let (first, second) = ("data:image/gif;base64,R0lGODlh", "data:image/gif;base64,R0lGODdh");
    std::fs::write(notes.join("icon"), first).unwrap();
    let again =
        || BridgeFixture::again(Arc::clone(&folder), vec![server("fix", process("honest", Some(&notes)))]);
    let echo = |setting: &BridgeFixture| {
        let tools = setting.bridge.tools();
        tools.into_iter().find(|tool| tool.spec().name.as_str() == "fix__echo").unwrap()
    };
    let setting = again();
    setting.load().await;
    let icons = echo(&setting).icons();
    assert_eq!(icons.len(), 1, "no address is passed on: {icons:?}");
    assert_eq!(
        (&*icons[0].src, icons[0].sizes.as_slice(), icons[0].theme.as_deref()),
        (first, &["48x48".to_owned()][..], Some("dark"))
    );
    setting.bridge.close().await;
    // Another icon under the same name is another tool, until it is agreed to.
    std::fs::write(notes.join("icon"), second).unwrap();
    let setting = again();
    setting.load().await;
    assert!(echo(&setting).spec().suspended.is_some());
    setting.bridge.close().await;
}

#[tokio::test]
async fn a_remembered_protocol_that_a_server_no_longer_speaks_is_given_up() {
    let folder = Arc::new(TempDir::new().unwrap());
    for mode in ["honest", "newer", "honest"] {
        let setting = BridgeFixture::again(Arc::clone(&folder), vec![server("one", process(mode, None))]);
        setting.load().await;
        assert_eq!(setting.done("one__echo", json!({"text": mode})).await.text, mode);
        setting.bridge.close().await;
    }
}

//! At each limit there is one final step without tools, and the user gets an answer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio_util::sync::CancellationToken;
use toolgate_agent::{ChatEvent, EndReason};
use toolgate_llm::{Capabilities, Message, ToolChoice};
use toolgate_tools::Profile;
use toolgate_types::ErrorCode;

use crate::event_log;
use crate::fake_model::{CAPABLE, FakeModel, Step, StepEnd, call, calls, say};
use crate::fixture::{AgentFixture, TurnSetup};

/// Reads a file that was not read before.
fn another(number: usize) -> Step {
    call("read_file", &format!(r#"{{"path": "{number}.txt"}}"#))
}

/// A model that always calls tools, and answers only without them.
fn insatiable() -> Arc<FakeModel> {
    FakeModel::by(|number, asked| match asked.tool_choice {
        ToolChoice::Auto => another(number),
        ToolChoice::None => say("That is what I have."),
    })
}

#[test]
fn after_the_last_round_there_is_an_answer() {
    let world = AgentFixture::new();
    let model = insatiable();
    let how = world.how().settings(|settings| settings.max_tool_iterations = 2);
    let held = world.turn_as(model.clone(), "Find it.", how);
    insta::assert_snapshot!(held.story());
    let asked = model.asked();
    assert_eq!(asked.len(), 3);
    // The definitions are still sent: some servers cannot parse earlier calls without them.
    assert!(asked.iter().all(|one| one.tools == asked[0].tools && !one.tools.is_empty()));
}

#[test]
fn profiles_have_their_own_bounds() {
    for (profile, rounds) in [(Profile::NATIVE, 20), (Profile::CLAW, 20), (Profile::STUDIO, 200)] {
        let world = AgentFixture::of(profile, |options| options);
        let tool = if profile == Profile::STUDIO { "file_read" } else { "read_file" };
        let model = FakeModel::by(move |number, asked| match asked.tool_choice {
            ToolChoice::Auto => call(tool, &format!(r#"{{"path": "{number}.txt"}}"#)),
            ToolChoice::None => say("Enough."),
        });
        let held = world.turn(model.clone(), "Find it.");
        assert_eq!((held.ended.reason, held.ended.iterations), (EndReason::IterationLimit, rounds));
        assert_eq!(model.asked().len(), rounds as usize + 1);
    }
}

/// A model that calls tools although they are disabled, and says nothing.
#[test]
fn tools_that_are_switched_off_stay_off() {
    let world = AgentFixture::new();
    let model = FakeModel::by(|number, _| {
        call("write_file", &format!(r#"{{"path": "{number}.txt", "content": ""}}"#))
    });
    let how = world.how().settings(|settings| settings.max_tool_iterations = 1);
    let held = world.turn_as(model, "Write.", how);
    insta::assert_snapshot!(held.story());
    assert!(world.workspace.join("0.txt").exists() && !world.workspace.join("1.txt").exists());
}

#[test]
fn the_same_again_and_again_is_pointed_out_and_then_ended() {
    let world = AgentFixture::new();
    let model = FakeModel::by(|number, asked| match asked.tool_choice {
        // Differently formatted JSON counts as the same call.
        ToolChoice::Auto if number % 2 == 0 => {
            calls(&[("read_file", r#"{"path": "a.txt"}"#), ("list_directory", "{}")])
        }
        ToolChoice::Auto => calls(&[("read_file", r#"{ "path" : "a.txt" }"#), ("list_directory", "{ }")]),
        ToolChoice::None => say("I went round in circles."),
    });
    let held = world.turn(model, "Find it.");
    insta::assert_snapshot!(held.story());
}

/// The same call with another result is not a repetition.
#[test]
fn waiting_for_something_is_no_repetition() {
    let world = AgentFixture::new();
    let file = world.workspace.join("log.txt");
    let model = FakeModel::by(move |number, _| {
        std::fs::write(&file, format!("{number}\n")).unwrap();
        if number < 12 { call("read_file", r#"{"path": "log.txt"}"#) } else { say("It is ready.") }
    });
    let held = world.turn(model, "Wait for it.");
    assert_eq!((held.ended.reason, held.ended.iterations), (EndReason::Done, 12));
    assert!(!event_log::kept(&held.messages).contains("several times"));
}

fn in_time(how: TurnSetup, time: u64) -> TurnSetup {
    how.settings(|settings| {
        settings.time_limit = Some(Duration::from_millis(time));
        settings.grace = Duration::from_secs(30);
    })
}

#[test]
fn when_the_time_is_up_in_a_stream_there_is_an_answer() {
    let world = AgentFixture::new();
    let model = FakeModel::by(|_, asked| match asked.tool_choice {
        ToolChoice::Auto => say("It is a long story").ends(StepEnd::Hang),
        ToolChoice::None => say("In short: yes."),
    });
    // Long enough for the text to arrive.
    let held = world.turn_as(model, "Is it?", in_time(world.how(), 5000));
    insta::assert_snapshot!(held.story());
}

/// The timeout starts with the turn, not with the model's first token.
#[test]
fn a_server_that_does_not_say_what_it_can_do_takes_no_longer_than_the_turn() {
    let world = AgentFixture::new();
    let silent = || FakeModel::unknown(|_, _| panic!("nobody waits for this any more"));
    let held = world.turn_as(silent(), "Is it?", in_time(world.how(), 50));
    assert_eq!(held.ended.reason, EndReason::Timeout);
    assert_eq!(held.ended.text, "Stopped after 0.05 s, the time for one turn, without a final answer.");
    assert_eq!(event_log::kept(&held.messages), "user: Is it?\n");
    let world = AgentFixture::new();
    let how = world.how();
    how.cancelled.cancel();
    assert_eq!(world.turn_as(silent(), "Is it?", how).ended.reason, EndReason::Cancelled);
}

/// A prompt that fills the context would also block every later turn.
#[test]
fn a_prompt_that_fills_the_context_is_refused_and_not_kept() {
    let world = AgentFixture::new();
    let small = Capabilities { context_window: Some(20_000), ..CAPABLE };
    let model = FakeModel::able(small, |_, _| say("Hello."));
    world.runtime.block_on(async {
        let mut session = world.session("talk").await;
        let long = "word ".repeat(20_000);
        let held = world.hold(model.clone(), &mut session, &long, world.how()).await;
        insta::assert_snapshot!(held.story());
        assert!(model.asked().is_empty() && session.messages().is_empty());
        let held = world.hold(model.clone(), &mut session, "Hello?", world.how()).await;
        assert_eq!((held.ended.reason, held.ended.text.as_str()), (EndReason::Done, "Hello."));
        // A prompt that fits is taken, however long.
        let held = world.hold(model.clone(), &mut session, &"word ".repeat(2_000), world.how()).await;
        assert_eq!(held.ended.reason, EndReason::Done);
    });
    // If the tools alone do not fit, the prompt is not the cause, and there is an answer all the same.
    let tiny = Capabilities { context_window: Some(500), ..CAPABLE };
    let held = AgentFixture::new().turn(FakeModel::able(tiny, |_, _| say("Hello.")), "Hello?");
    assert_eq!((held.ended.reason, held.ended.text.as_str()), (EndReason::ContextLimit, "Hello."));
}

/// Without a bound, everything would be sent to find out.
#[test]
fn where_nobody_knows_the_context_not_everything_is_sent() {
    let world = AgentFixture::new();
    let unsaid = Capabilities { context_window: None, ..CAPABLE };
    let model = FakeModel::able(unsaid, |_, _| say("Hello."));
    let giant = "word ".repeat(2_000_000);
    world.runtime.block_on(async {
        let mut session = world.session("talk").await;
        let held = world.hold(model.clone(), &mut session, &giant, world.how()).await;
        insta::assert_snapshot!(held.story());
        assert!(model.asked().is_empty() && session.messages().is_empty());
        // Prompts that fit individually add up, and are then compacted.
        let large = &"word ".repeat(600_000);
        for _ in 0..5 {
            world.hold(model.clone(), &mut session, large, world.how()).await;
        }
        let length = |message: &Message| match message {
            Message::User { text, .. } => text.len(),
            _ => 0,
        };
        let sent = model.asked().iter().map(|asked| asked.messages.iter().map(length).sum::<usize>()).max();
        assert!(sent.is_some_and(|most| most < 4 * 2_000_000 + large.len()), "{sent:?}");
        // An unknown window is not reported as known.
        let held = world.hold(model.clone(), &mut world.session("other").await, "Hello?", world.how()).await;
        let told = held
            .events
            .iter()
            .any(|event| matches!(event, ChatEvent::Context { context_window: None, fraction: None, .. }));
        assert!(told, "{:?}", held.events);
    });
    // A configured window is trusted.
    let world = AgentFixture::new();
    let mut how = world.how();
    how.settings.context.window = Some(4_000_000);
    let held = world.turn_as(FakeModel::able(unsaid, |_, _| say("Hello.")), &giant, how);
    assert_eq!(held.ended.reason, EndReason::Done);
}

/// The model says nothing more.
#[test]
fn when_the_last_step_takes_too_long_the_person_is_told() {
    let world = AgentFixture::new();
    let model = FakeModel::steps(vec![say("Hm").ends(StepEnd::Hang)]);
    // Long enough for the text to arrive, both times.
    let how = in_time(world.how(), 6000);
    let held = world.turn_as(model, "Is it?", how);
    assert_eq!((held.ended.reason, held.ended.text.as_str()), (EndReason::Timeout, "Hm"));
    let model = FakeModel::steps(vec![Step { parts: Vec::new(), ..say("").ends(StepEnd::Hang) }]);
    let how = in_time(world.how(), 50).settings(|settings| settings.grace = Duration::from_millis(50));
    let held = AgentFixture::new().turn_as(model, "Is it?", how);
    assert_eq!(held.ended.text, "Stopped after 0.05 s, the time for one turn, without a final answer.");
}

/// The final step has a part of the timeout, not one of its own: a model that stalls does not extend the turn.
#[test]
fn a_model_that_stalls_takes_no_longer_than_the_time_limit() {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let world = AgentFixture::new();
        let model = FakeModel::steps(vec![Step { parts: Vec::new(), ..say("").ends(StepEnd::Hang) }]);
        // On its own the final step could take an hour.
        let how = in_time(world.how(), 400).settings(|settings| settings.grace = Duration::from_secs(3600));
        let held = world.turn_as(model.clone(), "Is it?", how);
        sender.send((held.ended.reason, model.asked().len())).unwrap();
    });
    let ended = receiver.recv_timeout(Duration::from_secs(120)).expect("the turn goes on");
    assert_eq!(ended, (EndReason::Timeout, 2), "the last step was tried, and cancelled as well");
}

#[test]
fn cancelling_ends_the_stream_and_keeps_what_was_said() {
    let world = AgentFixture::new();
    let model = FakeModel::steps(vec![say("It is a long story").ends(StepEnd::Hang)]);
    // Both deltas, so that the persisted text is deterministic.
    let how = world
        .how()
        .cancel_when(|event| matches!(event, ChatEvent::TextDelta { text, .. } if text.ends_with("story")));
    let held = world.turn_as(model.clone(), "Is it?", how);
    insta::assert_snapshot!(held.story());
    assert_eq!(model.asked().len(), 1, "a model was asked after the person had enough");
}

/// A `sleep` argument that is unique on this machine, whatever tests run beside this one.
fn own_seconds() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    format!("86400.{}{}", std::process::id(), now.as_nanos())
}

/// The number of processes whose command line contains a word.
fn processes(word: &str) -> usize {
    let folders = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = folders.filter_map(|folder| std::fs::read(folder.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(word)).count()
}

/// A command that reports that it runs and then never ends, and calls after it.
fn endless(mark: &str) -> Step {
    let command = format!("echo running; sleep {mark} & sleep {mark}; true");
    calls(&[
        ("run_command", &serde_json::json!({"command": command}).to_string()),
        ("write_file", r#"{"path": "c.txt", "content": "no"}"#),
        ("read_file", r#"{"path": "a.txt"}"#),
    ])
}

fn is_running(event: &ChatEvent) -> bool {
    matches!(event, ChatEvent::ToolDelta { chunk, .. } if chunk.contains("running"))
}

#[test]
fn cancelling_ends_a_running_command_and_answers_every_call() {
    let world = AgentFixture::of(Profile::NATIVE, |options| options.commands());
    let mark = own_seconds();
    let model = FakeModel::steps(vec![endless(&mark), say("Never said.")]);
    let held = world.turn_as(model.clone(), "Run it.", world.how().cancel_when(is_running));
    assert_eq!(processes(&mark), 0, "a process is left");
    insta::assert_snapshot!(held.story().replace(&mark, "86411"));
    assert!(!world.workspace.join("c.txt").exists());
    assert_eq!(model.asked().len(), 1);
}

#[test]
fn when_the_time_is_up_in_a_command_it_is_ended_and_there_is_an_answer() {
    let world = AgentFixture::of(Profile::NATIVE, |options| options.commands());
    let ran = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&ran);
    let mark = own_seconds();
    let called = mark.clone();
    let model = FakeModel::by(move |_, asked| match asked.tool_choice {
        ToolChoice::Auto => endless(&called),
        ToolChoice::None => say("It did not end."),
    });
    // Long enough for the command to run.
    let mut how = in_time(world.how(), 15_000);
    how.watch = Arc::new(move |event| {
        seen.fetch_or(is_running(&event), Ordering::Relaxed);
    });
    let held = world.turn_as(model, "Run it.", how);
    assert!(ran.load(Ordering::Relaxed), "the command never ran");
    assert_eq!(processes(&mark), 0, "a process is left");
    insta::assert_snapshot!(held.story().replace(&mark, "86412"));
}

/// Dropping the turn ends its calls, and the next turn answers the open ones, once.
#[test]
fn a_turn_that_is_dropped_leaves_nothing_running() {
    let world = AgentFixture::of(Profile::NATIVE, |options| options.commands());
    let mark = own_seconds();
    let model = FakeModel::steps(vec![endless(&mark), say("So it was.")]);
    world.runtime.block_on(async {
        let mut session = world.session("talk").await;
        let (running, mut how) = (CancellationToken::new(), world.how());
        let told = running.clone();
        how.watch = Arc::new(move |event| {
            if is_running(&event) {
                told.cancel()
            }
        });
        tokio::select! {
            biased;
            () = running.cancelled() => {}
            _ = world.hold(model.clone(), &mut session, "Run it.", how) => panic!("it ended"),
        }
        assert_eq!(session.unanswered().len(), 3);
        // The command is cancelled by the drop, not by its own timeout, and is audited so.
        let recorded = loop {
            match world.bench.records().into_values().flatten().next() {
                Some(record) => break record.denial.map(|denial| denial.code),
                None => tokio::task::yield_now().await,
            }
        };
        assert_eq!(recorded, Some(ErrorCode::Cancelled));
        assert_eq!(processes(&mark), 0, "a process is left");
        let held = world.hold(model, &mut session, "Well?", world.how()).await;
        insta::assert_snapshot!(held.story().replace(&mark, "86413"));
    });
}

//! The parts of a turn.

use std::pin::Pin;
use std::sync::{Arc, Mutex};

use serde_json::json;
use toolgate_agent::{Agent, ChatEvent, EndReason, MountSummary, PromptEnvironment, TurnContext, sequenced};
use toolgate_attack::person;
use toolgate_gate::{
    ApprovalReply, ApprovalRequest, ApprovedCall, Approver, CallContext, Tool, ToolFuture, ToolSchema,
    ToolSpec,
};
use toolgate_llm::{FinishReason, MessagePart, OpaqueProviderState, ToolChoice, Wire};
use toolgate_tools::Profile;
use toolgate_types::{Category, ToolClass, Trust};

use crate::event_log;
use crate::fake_model::{CAPABLE, FakeModel, Step, call, calls, say};
use crate::fixture::{AgentFixture, TurnSetup, gather};

#[test]
fn an_answer_without_calls() {
    let world = AgentFixture::new();
    let mut step = say("Hello to you.");
    step.parts.insert(0, MessagePart::Thinking { text: "somebody greets me".to_owned(), seal: None });
    let held = world.turn(FakeModel::steps(vec![step]), "Hello?");
    insta::assert_snapshot!(held.story());
}

#[test]
fn calls_are_made_in_their_order_and_answered() {
    let world = AgentFixture::new();
    let model = FakeModel::steps(vec![
        calls(&[
            ("read_file", r#"{"path": "a.txt"}"#),
            ("write_file", r#"{"path": "c.txt", "content": "new\n"}"#),
        ])
        .after("I will look."),
        call("read_file", r#"{"path": "c.txt"}"#),
        say("Both say something."),
    ]);
    let held = world.turn(model.clone(), "What do they say?");
    insta::assert_snapshot!(held.story());
    let asked = model.asked();
    assert_eq!(asked.len(), 3);
    assert!(asked.iter().all(|asked| asked.tool_choice == ToolChoice::Auto));
    // Each step is shown everything before it.
    assert_eq!(event_log::kept(&asked[2].messages).lines().count(), 5);
}

/// Invalid calls, and their results.
#[test]
fn calls_that_cannot_be_made_say_what_would_fit() {
    let world = AgentFixture::new();
    let model = FakeModel::steps(vec![
        calls(&[
            ("read_file", r#"{"path": "a.txt""#),
            ("read_file", r#"["a.txt"]"#),
            ("read_file", ""),
            ("read_file", r#"{"file": "a.txt"}"#),
            ("read_fil", r#"{"path": "a.txt"}"#),
            ("read_fil", r#"{"path": "#),
            ("list_directory", "{}"),
        ]),
        say("I give up."),
    ]);
    let held = world.turn(model, "Try.");
    insta::assert_snapshot!(held.story());
}

#[test]
fn nearly_json_is_read_only_where_that_is_wanted() {
    let steps = || {
        vec![
            calls(&[
                ("read_file", r#""{\"path\": \"a.txt\"}""#),
                ("read_file", "```json\n{\"path\": \"b.txt\"}\n```"),
            ]),
            say("Done."),
        ]
    };
    for (repair, wanted) in [(false, ["error", "error"]), (true, ["success", "success"])] {
        let world = AgentFixture::new();
        let how = world.how().settings(|settings| settings.repair = repair);
        let held = world.turn_as(FakeModel::steps(steps()), "Read.", how);
        let statuses: Vec<String> = held
            .events
            .iter()
            .filter_map(|event| match event {
                ChatEvent::ToolResult { status, .. } => Some(json!(status).as_str().unwrap().to_owned()),
                _ => None,
            })
            .collect();
        assert_eq!(statuses, wanted, "repair: {repair}");
    }
}

/// Calls are made only if the finish reason is `ToolCalls`.
#[test]
fn calls_of_messages_that_ended_otherwise_are_not_made() {
    for reason in [
        FinishReason::Length,
        FinishReason::Stop,
        FinishReason::Refusal,
        FinishReason::Pause,
        FinishReason::Other("content_filter".to_owned()),
    ] {
        let world = AgentFixture::new();
        let write = call("write_file", r#"{"path": "c.txt", "content": "no"}"#);
        let model = FakeModel::steps(vec![write.finishes(reason.clone()), say("I was cut off.")]);
        let held = world.turn(model, "Write.");
        assert!(!world.workspace.join("c.txt").exists(), "{reason:?}");
        assert_eq!((held.ended.reason, held.ended.iterations), (EndReason::Done, 1), "{reason:?}");
        assert!(event_log::kept(&held.messages).contains("not made: "), "{reason:?}");
    }
}

#[test]
fn odd_ends_are_told() {
    for (reason, notice) in [
        (FinishReason::Length, Some("the answer was cut off at the model's output limit")),
        (FinishReason::Refusal, Some("the model declined to go on")),
        (FinishReason::Other("odd\u{1b}".to_owned()), Some(r#"the model stopped: "odd\u{1b}""#)),
        (FinishReason::ToolCalls, None),
        (FinishReason::Stop, None),
    ] {
        let world = AgentFixture::new();
        let held = world.turn(FakeModel::steps(vec![say("Well").finishes(reason.clone())]), "Go.");
        let told = held.events.iter().find_map(|event| match event {
            ChatEvent::Notice { text } => Some(text.as_str()),
            _ => None,
        });
        assert_eq!((told, held.ended.text.as_str()), (notice, "Well"), "{reason:?}");
    }
}

#[test]
fn silence_is_told() {
    let world = AgentFixture::new();
    let nothing = Step { parts: Vec::new(), ..say("") };
    let held = world.turn(FakeModel::steps(vec![nothing]), "Go.");
    insta::assert_snapshot!(held.story());
}

/// After a pause the server gets its own message back, and continues.
#[test]
fn a_pause_is_no_end() {
    let world = AgentFixture::new();
    let model = FakeModel::steps(vec![say("One moment.").finishes(FinishReason::Pause), say("Here it is.")]);
    let held = world.turn(model, "Go.");
    insta::assert_snapshot!(held.story());
}

/// However a turn fails, its end is emitted, with the usage until then.
#[test]
fn a_turn_that_cannot_be_held_has_an_end_too() {
    let deep = (0..200).fold(json!(0), |value, _| json!([value]));
    let seal = Some(OpaqueProviderState { wire: Wire::OpenaiChat, value: deep });
    let mut unkeepable = say("Hello.").uses(100, 10);
    unkeepable.parts.push(MessagePart::Thinking { text: "Hm.".to_owned(), seal });
    let world = AgentFixture::new();
    let (known, mut unknown) = (person("talk"), person("talk"));
    unknown.agent = Some("nobody".parse().unwrap());
    for (caller, code, input_tokens) in [(known, "session", 100), (unknown, "unauthenticated", 0)] {
        world.runtime.block_on(async {
            let mut session = world.session(code).await;
            let (events, sink) = gather(Arc::new(|_| {}));
            let model = FakeModel::steps(vec![unkeepable.clone()]);
            let agent = Agent::new(Arc::clone(world.bench.front()), model, world.how().settings);
            let TurnSetup { approver, cancelled, .. } = world.how();
            let turn = TurnContext {
                credential: caller.into(),
                approver,
                cancelled,
                events: sink,
                images: Vec::new(),
                prompt_stored: None,
            };
            let error = agent.run_turn(&mut session, "Hello?", turn).await.unwrap_err();
            assert_eq!(error.code(), code);
            let events = events.lock().unwrap();
            let [.., ChatEvent::Error { code: told, .. }, ChatEvent::StreamEnd { reason, text, usage, .. }] =
                &events[..]
            else {
                panic!("{events:?}");
            };
            assert_eq!((*told, *reason, text), (code, EndReason::Failed, &error.to_string()));
            assert_eq!(usage.input_tokens, input_tokens);
        });
    }
}

/// Gives the same reply to every question.
struct Says(ApprovalReply);

impl Approver for Says {
    fn ask(&self, _: ApprovalRequest) -> Pin<Box<dyn Future<Output = ApprovalReply> + Send + '_>> {
        let reply = self.0.clone();
        Box::pin(async { reply })
    }
}

#[test]
fn whoever_is_asked_decides() {
    let steps = || {
        let write = r#"{"path": "a.txt", "content": "changed\n"}"#;
        vec![calls(&[("read_file", r#"{"path": "a.txt"}"#), ("write_file", write)]), say("So it is.")]
    };
    let world = AgentFixture::new();
    let how = world
        .how()
        .trust(Trust::Guided)
        .asking(Says(ApprovalReply::Denied(Some("not that file".to_owned()))));
    insta::assert_snapshot!("refused", world.turn_as(FakeModel::steps(steps()), "Change it.", how).story());
    assert_eq!(std::fs::read_to_string(world.workspace.join("a.txt")).unwrap(), "hello\n");
    let world = AgentFixture::new();
    let how = world.how().trust(Trust::Guided).asking(Says(ApprovalReply::Once));
    let held = world.turn_as(FakeModel::steps(steps()), "Change it.", how);
    insta::assert_snapshot!("allowed", held.story());
    assert_eq!(std::fs::read_to_string(world.workspace.join("a.txt")).unwrap(), "changed\n");
    // The question shows the whole change, and names the call of the result.
    let confirm = held.events.iter().find_map(|event| match event {
        ChatEvent::ToolConfirm(confirm) => Some(confirm),
        _ => None,
    });
    let confirm = confirm.unwrap();
    assert!(confirm.diff.as_ref().is_some_and(|diff| diff.contains("-hello\n+changed")), "{confirm:?}");
    let rows = &serde_json::to_value(&confirm.card).unwrap()["rows"];
    assert_eq!(
        rows.as_array().unwrap()[3..5],
        [json!({"kind": "removed", "text": "hello"}), json!({"kind": "added", "text": "changed"})]
    );
    assert!(
        held.events.iter().any(
            |event| matches!(event, ChatEvent::ToolStart { tool_id, .. } if *tool_id == confirm.tool_id)
        )
    );
    // Without an approver, the model is informed.
    let world = AgentFixture::new();
    let held = world.turn_as(FakeModel::steps(steps()), "Change it.", world.how().trust(Trust::Guided));
    assert!(event_log::told(&held.events).contains("denied DENIED approval_unavailable"));
}

/// A tool that panics.
struct Falls(ToolSpec);

impl Falls {
    fn tool() -> Arc<dyn Tool> {
        let any = ToolSchema::from(json!({"type": "object"}));
        Arc::new(Self(ToolSpec {
            name: "falls".parse().unwrap(),
            title: String::new(),
            description: String::new(),
            class: ToolClass::Read,
            category: Category::Search,
            input_schema: any.clone(),
            output_schema: any,
            requirements: None,
            output_policy: None,
            timeout: None,
            suspended: None,
        }))
    }
}

impl Tool for Falls {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run(self: Arc<Self>, _: ApprovedCall, _: CallContext) -> ToolFuture {
        Box::pin(async { panic!("on purpose") })
    }
}

#[test]
fn a_tool_that_falls_over_costs_its_own_call() {
    let world = AgentFixture::of(Profile::NATIVE, |options| options.tool(Falls::tool()));
    let model =
        FakeModel::steps(vec![calls(&[("falls", "{}"), ("read_file", r#"{"path": "a.txt"}"#)]), say("Oh.")]);
    insta::assert_snapshot!(world.turn(model, "Go.").story());
}

#[test]
fn a_model_without_tools_talks_without_them() {
    let world = AgentFixture::new();
    let unable = toolgate_llm::Capabilities { supports_tools: false, ..CAPABLE };
    // The model requests a call all the same.
    let model = FakeModel::able(unable, |number, _| match number {
        0 => call("write_file", r#"{"path": "c.txt", "content": "no"}"#),
        _ => say("I have no tools."),
    });
    let held = world.turn(model.clone(), "Write.");
    insta::assert_snapshot!(held.story());
    assert!(model.asked().iter().all(|asked| asked.tools.is_empty()));
    assert!(!world.workspace.join("c.txt").exists());
}

#[test]
fn the_model_is_told_where_it_is_and_sees_only_its_own_tools() {
    let yaml = "agents:\n  reader:\n    description: reads\n";
    let world = AgentFixture::of(Profile::NATIVE, |options| options.config(yaml));
    let mut how = world.how().settings(|settings| {
        settings.system = Some("You review.".to_owned());
        settings.environment = PromptEnvironment {
            date: Some("2026-11-15".to_owned()),
            mounts: vec![MountSummary { alias: "@project".to_owned(), writable: true }],
            alias_required: false,
            instructions: Vec::new(),
        };
    });
    how.caller.agent = Some("reader".parse().unwrap());
    let write = call("write_file", r#"{"path": "c.txt", "content": "no"}"#);
    let model = FakeModel::steps(vec![write, say("I may not.")]);
    let held = world.turn_as(model.clone(), "Write.", how);
    let asked = &model.asked()[0];
    assert_eq!(asked.system, "You review.\n\nToday is 2026-11-15.\n\nMounts: @project (read and write).");
    assert!(asked.tools.contains(&"read_file".to_owned()) && !asked.tools.contains(&"write_file".to_owned()));
    insta::assert_snapshot!(event_log::told(&held.events));
}

#[test]
fn events_as_programs_read_them() {
    let world = AgentFixture::new();
    let model = FakeModel::steps(vec![
        call("read_file", r#"{"path": "a.txt"}"#).uses(1000, 20),
        say("It says hello.").uses(1100, 10),
    ]);
    let lines = Arc::new(Mutex::new(Vec::new()));
    let all = Arc::clone(&lines);
    let mut how = world.how();
    how.watch = sequenced(move |event| all.lock().unwrap().push(serde_json::to_string(&event).unwrap()));
    world.turn_as(model, "Read.", how);
    let text = lines.lock().unwrap().join("\n");
    insta::assert_snapshot!(same_every_time(&text));
}

/// Replaces ids and durations.
fn same_every_time(text: &str) -> String {
    let mut ids: Vec<String> = Vec::new();
    let mut same = String::new();
    for piece in text.split_inclusive('"') {
        let word = piece.trim_end_matches('"');
        if word.len() == 36 && word.matches('-').count() == 4 {
            let place = ids.iter().position(|id| id == word).unwrap_or_else(|| {
                ids.push(word.to_owned());
                ids.len() - 1
            });
            same.push_str(&format!("id-{place}\""));
        } else {
            same.push_str(piece);
        }
    }
    let duration = "\"durationMs\":";
    let rest = same.split(duration).collect::<Vec<_>>();
    let cut = |(number, part): (usize, &&str)| match number {
        0 => (*part).to_owned(),
        _ => format!("{duration}0{}", part.trim_start_matches(|character: char| character.is_ascii_digit())),
    };
    rest.iter().enumerate().map(cut).collect()
}

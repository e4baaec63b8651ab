//! A conversation that fills the model's context.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use toolgate_agent::{Agent, ChatEvent, Compaction, EndReason, TurnContext};
use toolgate_llm::{Capabilities, ErrorKind, Message, ToolChoice, UserImage};

use crate::event_log;
use crate::fake_model::{CAPABLE, FakeModel, ModelRequest, Step, call, calls, fail, say};
use crate::fixture::{AgentFixture, TurnRecord, TurnSetup};

/// The line that every large file consists of.
const LINE: &str = "0123456789 0123456789 0123456789 0123456789 0123456789 0123456789\n";

/// A workspace of files of about 2,500 tokens each.
fn library() -> AgentFixture {
    let world = AgentFixture::new();
    for number in 0..40 {
        let text = format!("file {number}\n{}", LINE.repeat(150));
        std::fs::write(world.workspace.join(format!("{number}.txt")), text).unwrap();
    }
    world
}

fn small() -> Capabilities {
    Capabilities { context_window: Some(20_000), ..CAPABLE }
}

fn read(number: usize) -> Step {
    call("read_file", &format!(r#"{{"path": "{number}.txt"}}"#))
}

/// A server's token count.
fn tokens(asked: &ModelRequest) -> u64 {
    let messages: usize =
        asked.messages.iter().map(|message| serde_json::to_string(message).unwrap().len()).sum();
    ((messages + asked.system.len()) / 4) as u64 + 3000
}

fn wants_summary(asked: &ModelRequest) -> bool {
    matches!(asked.messages.last(), Some(Message::User { text, .. }) if text.contains("summary that you write now"))
}

/// A model that reads file after file, writes a summary on request, and reports usage.
fn reader(files: usize, summary: &'static str) -> Arc<FakeModel> {
    FakeModel::able(small(), move |_, asked| {
        let used = tokens(asked);
        assert!(used <= 20_000, "more than the model can look at: {used}");
        let done = asked.messages.iter().map(|message| match message {
            Message::User { text, .. } => text.matches("I have read file").count(),
            Message::Results { results } => results.len(),
            Message::Assistant(_) => 0,
        });
        let done: usize = done.sum();
        let step = if wants_summary(asked) {
            say(&summary.replace("{}", &"I have read file.".repeat(done)))
        } else if asked.tool_choice == ToolChoice::None {
            say("The context is full.")
        } else if done < files {
            read(done)
        } else {
            say("I have read them all.")
        };
        step.uses(used, 20)
    })
}

fn notices(held: &TurnRecord) -> Vec<&str> {
    let notices = held.events.iter().filter_map(|event| match event {
        ChatEvent::Notice { text } => Some(text.as_str()),
        _ => None,
    });
    notices.collect()
}

#[test]
fn old_output_is_left_out_first_and_kept_all_the_same() {
    let world = library();
    let model = reader(8, "unused");
    let held = world.turn(model.clone(), "Read them.");
    assert_eq!((held.ended.reason, held.ended.text.as_str()), (EndReason::Done, "I have read them all."));
    assert_eq!(
        notices(&held)[0],
        "tool output is left out from here on, to save room in the model's context"
    );
    assert!(notices(&held).iter().all(|notice| notice.starts_with("tool output")), "{:?}", notices(&held));
    // The model is shown the newest results and a placeholder for the rest; the session keeps everything.
    let shown = event_log::kept(&model.asked().last().unwrap().messages);
    assert!(
        shown.contains(
            "results: [output of read_file, 9 KiB, left out to save room; call it again if you need it]\n"
        ),
        "{shown}"
    );
    assert!(shown.contains("results: file 7⏎0123") && !shown.contains("results: file 0⏎0123"), "{shown}");
    let kept = event_log::kept(&held.messages);
    assert!((0..8).all(|number| kept.contains(&format!("results: file {number}⏎0123"))), "{kept}");
    let warned = held.events.iter().any(|event| matches!(event, ChatEvent::Context { warning: true, .. }));
    assert!(warned, "nobody was warned");
}

/// Output that fits no context is shown in part, from one call or many, and the tools stay available.
#[test]
fn output_that_fills_the_context_by_itself_costs_nobody_the_tools() {
    let world = library();
    for name in ["a", "b", "c", "d"] {
        let text = format!("large {name}\n{}", LINE.repeat(3000));
        std::fs::write(world.workspace.join(format!("{name}.txt")), text).unwrap();
    }
    let has_read = |asked: &ModelRequest, words: &str| {
        asked.messages.iter().any(|message| match message {
            Message::Results { results } => results.iter().any(|result| result.text.starts_with(words)),
            _ => false,
        })
    };
    let model = FakeModel::able(small(), move |number, asked| {
        let used = tokens(asked);
        assert!(used <= 20_000, "more than the model can look at: {used}");
        let large = |name: &str| ("read_file", format!(r#"{{"path": "{name}.txt"}}"#));
        let read_all = |names: &[&'static str]| {
            let all: Vec<_> = names.iter().map(|name| large(name)).collect();
            let all: Vec<_> = all.iter().map(|(tool, arguments)| (*tool, arguments.as_str())).collect();
            calls(&all)
        };
        let step = match (wants_summary(asked), asked.tool_choice, number) {
            (true, ..) => say("Large files were read."),
            (_, ToolChoice::None, _) => say("The context is full."),
            (_, _, 0) => read_all(&["a"]),
            (_, _, 1) => read_all(&["a", "b", "c", "d"]),
            _ if has_read(asked, "file 1") => say("I have them."),
            _ => read(1),
        };
        step.uses(used, 20)
    });
    let held = world.turn(model.clone(), "Read the large file.");
    assert_eq!((held.ended.reason, held.ended.text.as_str()), (EndReason::Done, "I have them."));
    let asked = model.asked();
    let shown = serde_json::to_string(&asked[1].messages).unwrap();
    assert!(
        shown.contains("more of this output do not fit your context; ask for a smaller part of it]"),
        "{shown}"
    );
    // The session keeps what the model was not shown.
    let kept = held.messages.iter().find_map(|message| match message {
        Message::Results { results } => results.first().map(|result| result.text.len()),
        _ => None,
    });
    assert!(kept.unwrap() > 90_000, "{kept:?}");
}

/// Nothing is elided and no warning is emitted while there is room.
#[test]
fn with_room_nothing_is_left_out() {
    let world = library();
    let model = reader(3, "unused");
    let held = world.turn(model.clone(), "Read them.");
    assert!(notices(&held).is_empty());
    let asked = model.asked();
    let last = asked.last().unwrap();
    assert_eq!(last.messages, held.messages[..last.messages.len()]);
}

/// The calls are long here, so that eliding output does not help.
#[test]
fn then_a_summary_takes_the_place_of_what_came_first() {
    let world = library();
    let long = "x".repeat(6000);
    let model = FakeModel::able(small(), move |_, asked| {
        let used = tokens(asked);
        assert!(used <= 20_000, "more than the model can look at: {used}");
        let summarised = asked.messages.first().is_some_and(
            |message| matches!(message, Message::User { text, .. } if text.contains("They were all written")),
        );
        let step = if wants_summary(asked) {
            say("They were all written.")
        } else if summarised && asked.messages.len() > 4 {
            say("Everything is written.")
        } else {
            let arguments =
                serde_json::json!({"path": format!("new{}.txt", asked.messages.len()), "content": long});
            call("write_file", &arguments.to_string())
        };
        step.uses(used, 1550)
    });
    let held = world.turn(model.clone(), "Write them.");
    assert_eq!((held.ended.reason, held.ended.text.as_str()), (EndReason::Done, "Everything is written."));
    insta::assert_snapshot!(held.story());
    // A summary is requested without tools, and is not shown as an answer.
    let asked = model.asked();
    assert!(
        asked.iter().filter(|asked| wants_summary(asked)).all(|asked| asked.tool_choice == ToolChoice::None)
    );
    // The transcript keeps the replaced messages.
    let transcript = world.runtime.block_on(world.store.transcript(&"talk".parse().unwrap())).unwrap();
    assert!(transcript.jsonl().unwrap().contains("new1.txt"));
}

/// A summary as long as what it replaces is not used, and not requested again.
#[test]
fn a_summary_that_saves_nothing_ends_in_an_answer() {
    let world = library();
    let long = "x".repeat(6000);
    let model = FakeModel::able(small(), move |_, asked| {
        let step = if wants_summary(asked) {
            say(&"It was long. ".repeat(4000))
        } else if asked.tool_choice == ToolChoice::None {
            say("The context is full.")
        } else {
            let arguments =
                serde_json::json!({"path": format!("new{}.txt", asked.messages.len()), "content": long});
            call("write_file", &arguments.to_string())
        };
        step.uses(tokens(asked), 20)
    });
    let held = world.turn(model.clone(), "Write them.");
    assert_eq!(
        (held.ended.reason, held.ended.text.as_str()),
        (EndReason::ContextLimit, "The context is full.")
    );
    assert_eq!(model.asked().iter().filter(|asked| wants_summary(asked)).count(), 1);
    assert!(!event_log::kept(&held.messages).contains("It was long"));
}

/// The answer if not even the final step fits.
const TOO_LONG: &str = "Stopped: the conversation no longer fits the model's context. Begin a new one, or use a model with a larger context.";

/// A server that reports no usage, and rejects what is too long.
fn refusing(most: usize, summary: &'static str) -> Arc<FakeModel> {
    let able = Capabilities { context_window: None, ..CAPABLE };
    FakeModel::able(able, move |_, asked| {
        let length: usize =
            asked.messages.iter().map(|message| serde_json::to_string(message).unwrap().len()).sum();
        let read_so_far =
            asked.messages.iter().filter(|message| matches!(message, Message::Results { .. })).count();
        if length > most {
            fail(ErrorKind::ContextExceeded, "the prompt is too long")
        } else if wants_summary(asked) {
            say(summary)
        } else if asked.tool_choice == ToolChoice::None {
            say("It is too long.")
        } else if read_so_far < 7 {
            read(read_so_far)
        } else {
            say("Done.")
        }
    })
}

#[test]
fn a_server_that_refuses_is_shown_less() {
    for (most, reason, text) in [
        // Everything fits; eliding helps; eliding even the newest helps; nothing helps.
        (500_000, EndReason::Done, "Done."),
        (60_000, EndReason::Done, "Done."),
        (25_000, EndReason::Done, "Done."),
        (1_000, EndReason::ContextLimit, TOO_LONG),
    ] {
        let world = library();
        let held = world.turn(refusing(most, "short"), "Read them.");
        assert_eq!((held.ended.reason, held.ended.text.as_str()), (reason, text), "{most}: {}", held.story());
    }
}

#[test]
fn where_nothing_helps_the_person_is_told() {
    let world = AgentFixture::new();
    let model = FakeModel::steps(vec![fail(ErrorKind::ContextExceeded, "the prompt is too long")]);
    let held = world.turn(model.clone(), "Read this.");
    insta::assert_snapshot!(held.story());
}

#[test]
fn before_a_server_has_counted_the_tools_count_too() {
    let world = AgentFixture::new();
    let how: TurnSetup = world.how();
    let model = FakeModel::by(|_, _| say("Yes."));
    let held = world.turn_as(model, "Is it?", how);
    let used = held.events.iter().find_map(|event| match event {
        ChatEvent::Context { used_tokens, .. } => Some(*used_tokens),
        _ => None,
    });
    // A dozen tools with their schemas are more than a thousand tokens.
    assert!(used.is_some_and(|used| used > 1000), "{used:?}");
}

/// A person may want a summary however much room there is; a second one right behind it saves nothing.
#[test]
fn a_person_has_the_conversation_summarised() {
    let world = library();
    world.runtime.block_on(async {
        let mut session = world.session("talk").await;
        let wide = Capabilities { context_window: Some(200_000), ..CAPABLE };
        let model = FakeModel::able(wide, |number, asked| match (wants_summary(asked), number) {
            (true, _) => say("Four files were read."),
            (_, 0..=3) => read(number),
            _ => say("I have read them."),
        });
        world.hold(model.clone(), &mut session, "Read four files.", world.how()).await;
        let how = world.how();
        let agent = Agent::new(Arc::clone(world.bench.front()), model.clone(), how.settings);
        let turn = || TurnContext {
            credential: world.how().caller.into(),
            approver: world.how().approver,
            cancelled: CancellationToken::new(),
            events: Arc::new(|_| {}),
            images: Vec::new(),
            prompt_stored: None,
        };
        let compacted = agent.compact(&mut session, turn()).await.unwrap();
        let Compaction::Done { before, after } = compacted else { panic!("{compacted:?}") };
        assert!(after * 2 < before, "{before} {after}");
        let kept = event_log::kept(session.messages());
        assert!(matches!(&session.messages()[0], Message::User { text, .. } if text.contains("> Four files were read.")));
        assert!(kept.contains("I have read them."), "{kept}");
        assert!(!kept.contains("latest words"), "{kept}");
        assert_eq!(agent.compact(&mut session, turn()).await.unwrap(), Compaction::NothingSaved);
        let cancelled = turn();
        cancelled.cancelled.cancel();
        assert_ne!(agent.compact(&mut session, cancelled).await.unwrap(), compacted);
    });
}

/// Images are kept with the conversation; a model that takes none is shown their names.
#[test]
fn images_go_to_models_that_take_them_and_stay_in_the_session() {
    let world = AgentFixture::new();
    world.runtime.block_on(async {
        let mut session = world.session("talk").await;
        let image = UserImage {
            name: "cat.png".to_owned(),
            mime_type: "image/png".to_owned(),
            data: "iVBORw0K".to_owned(),
        };
        let sees = |asked: &ModelRequest| {
            let of = |message: &Message| match message {
                Message::User { images, .. } => images.len(),
                _ => 0,
            };
            asked.messages.iter().map(of).sum::<usize>()
        };
        let seeing = Capabilities { supports_images: true, ..CAPABLE };
        let model = FakeModel::able(seeing, |_, _| say("A cat."));
        let how = || TurnSetup { images: vec![image.clone()], ..world.how() };
        world.hold(model.clone(), &mut session, "What is this?", how()).await;
        assert_eq!(sees(&model.asked()[0]), 1);
        // Stored: a session that is opened again has it.
        let id = session.id().clone();
        drop(session);
        let mut session = world.store.open_session(&id).await.unwrap();
        let blind = FakeModel::able(CAPABLE, |_, _| say("I cannot see it."));
        world.hold(blind.clone(), &mut session, "And now?", world.how()).await;
        let asked = &blind.asked()[0];
        assert_eq!(sees(asked), 0);
        let first = serde_json::to_string(&asked.messages[0]).unwrap();
        assert!(first.contains("[Images that this model cannot be shown: cat.png]"), "{first}");
        world.hold(model.clone(), &mut session, "Look again.", world.how()).await;
        assert_eq!(sees(model.asked().last().unwrap()), 1);
        // A prompt with an image is not sent to a model that takes none, and not kept.
        let before = session.messages().len();
        let agent = Agent::new(Arc::clone(world.bench.front()), blind.clone(), world.how().settings);
        let turn = TurnContext {
            credential: world.how().caller.into(),
            approver: world.how().approver,
            cancelled: CancellationToken::new(),
            events: Arc::new(|_| {}),
            images: vec![image],
            prompt_stored: None,
        };
        let refused = agent.run_turn(&mut session, "And this?", turn).await.unwrap_err();
        assert!(refused.to_string().contains("takes no images"), "{refused}");
        assert_eq!((session.messages().len(), blind.asked().len()), (before, 1));
    });
}

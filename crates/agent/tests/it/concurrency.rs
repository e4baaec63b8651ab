//! Concurrent calls and concurrent conversations.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use serde_json::json;
use tokio::sync::Barrier;
use toolgate_agent::{ChatEvent, EndReason, ToolStatus};
use toolgate_attack::person;
use toolgate_gate::{
    ApprovalReply, ApprovalRequest, ApprovedCall, Approver, CallContext, GateConfig, Tool, ToolFuture,
    ToolSchema, ToolSpec,
};
use toolgate_llm::Message;
use toolgate_manifest::Config;
use toolgate_tools::Profile;
use toolgate_types::{Category, ToolClass, ToolOutput, Trust};

use crate::event_log;
use crate::fake_model::{FakeModel, ModelRequest, call, calls, say};
use crate::fixture::{AgentFixture, TurnSetup};

/// A tool that returns only once this many calls of it are in flight.
struct Meets {
    spec: ToolSpec,
    barrier: Arc<Barrier>,
    /// The maximum number of concurrent calls.
    most: Arc<Mutex<(usize, usize)>>,
}

impl Meets {
    fn new(class: ToolClass, together: usize) -> Arc<Self> {
        let any = ToolSchema::from(json!({"type": "object"}));
        let spec = ToolSpec {
            name: "meets".parse().unwrap(),
            title: String::new(),
            description: String::new(),
            class,
            category: Category::Search,
            input_schema: any.clone(),
            output_schema: any,
            requirements: None,
            output_policy: None,
            timeout: None,
            suspended: None,
        };
        Arc::new(Self { spec, barrier: Arc::new(Barrier::new(together)), most: Arc::default() })
    }
}

impl Tool for Meets {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run(self: Arc<Self>, call: ApprovedCall, _: CallContext) -> ToolFuture {
        let name = call.into_arguments()["name"].as_str().unwrap().to_owned();
        Box::pin(async move {
            {
                let mut most = self.most.lock().unwrap();
                most.0 += 1;
                most.1 = most.1.max(most.0);
            }
            self.barrier.wait().await;
            self.most.lock().unwrap().0 -= 1;
            Ok(ToolOutput::new(name.clone(), json!({"name": name})))
        })
    }
}

fn three() -> Vec<crate::fake_model::Step> {
    let one = |name: &str| json!({"name": name}).to_string();
    let (a, b, c) = (one("a"), one("b"), one("c"));
    vec![calls(&[("meets", &a), ("meets", &b), ("meets", &c)]), say("All there.")]
}

/// Read-only calls run concurrently if enabled, and are answered in order.
#[test]
fn reads_are_made_together() {
    let meets = Meets::new(ToolClass::Read, 3);
    let world =
        AgentFixture::of(Profile::NATIVE, |options| options.tool(Arc::clone(&meets) as Arc<dyn Tool>));
    let how = world.how().settings(|settings| settings.parallel_reads = true);
    let held = world.turn_as(FakeModel::steps(three()), "Go.", how);
    assert_eq!(meets.most.lock().unwrap().1, 3);
    assert!(event_log::kept(&held.messages).contains("results: a + b + c\n"), "{}", held.story());
}

/// All other calls run one by one.
#[test]
fn other_calls_are_made_one_by_one() {
    for (class, parallel_reads) in [(ToolClass::Read, false), (ToolClass::Write, true)] {
        let meets = Meets::new(class, 1);
        let world =
            AgentFixture::of(Profile::NATIVE, |options| options.tool(Arc::clone(&meets) as Arc<dyn Tool>));
        let how = world.how().settings(|settings| settings.parallel_reads = parallel_reads);
        world.turn_as(FakeModel::steps(three()), "Go.", how);
        assert_eq!(meets.most.lock().unwrap().1, 1, "{class:?}");
    }
}

/// One call that is not read-only makes all of them sequential.
#[test]
fn one_that_writes_makes_all_wait() {
    let meets = Meets::new(ToolClass::Read, 1);
    let world =
        AgentFixture::of(Profile::NATIVE, |options| options.tool(Arc::clone(&meets) as Arc<dyn Tool>));
    let name = json!({"name": "a"}).to_string();
    let write = json!({"path": "c.txt", "content": "x"}).to_string();
    let steps = vec![calls(&[("meets", &name), ("meets", &name), ("write_file", &write)]), say("Done.")];
    let how = world.how().settings(|settings| settings.parallel_reads = true);
    let held = world.turn_as(FakeModel::steps(steps), "Go.", how);
    assert_eq!(meets.most.lock().unwrap().1, 1);
    assert_eq!(held.ended.reason, EndReason::Done);
}

/// Approves every question, and counts them.
struct Agrees(ApprovalReply, Arc<Mutex<usize>>);

impl Approver for Agrees {
    fn ask(&self, _: ApprovalRequest) -> Pin<Box<dyn Future<Output = ApprovalReply> + Send + '_>> {
        *self.1.lock().unwrap() += 1;
        let reply = self.0.clone();
        Box::pin(async { reply })
    }
}

/// Approval requests are sent one at a time: none waits behind another while its timeout runs, and an approval for the session covers the rest.
#[test]
fn questions_come_one_after_the_other() {
    for (reply, wanted) in [(ApprovalReply::Once, 3), (ApprovalReply::ForSession, 1)] {
        let world = AgentFixture::new();
        let asked = Arc::new(Mutex::new(0));
        let how = world.how().trust(Trust::Supervised).asking(Agrees(reply, Arc::clone(&asked)));
        let how = how.settings(|settings| settings.parallel_reads = true);
        let read = r#"{"path": "a.txt"}"#;
        let steps = vec![calls(&[("read_file", read); 3]), say("Done.")];
        let held = world.turn_as(FakeModel::steps(steps), "Go.", how);
        assert_eq!(*asked.lock().unwrap(), wanted, "{}", held.story());
        let (mut open, mut done) = (0, 0);
        for event in &held.events {
            match event {
                ChatEvent::ToolStart { .. } => open += 1,
                ChatEvent::ToolResult { status, .. } => {
                    assert_eq!(*status, ToolStatus::Success);
                    (open, done) = (open - 1, done + 1);
                }
                _ => {}
            }
            assert!(open <= 1, "{}", held.story());
        }
        assert_eq!(done, 3);
    }
}

/// The words that belong to one conversation.
fn word(session: usize, turn: usize) -> String {
    format!("word-{session}-{turn}-")
}

/// The conversations whose words are in a request.
fn words(asked: &ModelRequest) -> Vec<String> {
    let text = serde_json::to_string(&asked.messages).unwrap();
    let mut words: Vec<String> =
        text.split("word-").skip(1).map(|rest| rest.split('-').next().unwrap().to_owned()).collect();
    words.dedup();
    words
}

/// A model that writes the prompt to a file and reads it again.
fn scribe() -> Arc<FakeModel> {
    FakeModel::by(|_, asked| {
        let mut prompts = asked.messages.iter().filter_map(|message| match message {
            Message::User { text, .. } => Some(text.clone()),
            _ => None,
        });
        let prompt = prompts.next_back().unwrap();
        let path = format!("{}.txt", prompt.trim());
        match asked.messages.last().unwrap() {
            Message::User { .. } => call("write_file", &json!({"path": path, "content": prompt}).to_string()),
            Message::Results { results } if results[0].text.starts_with("created") => {
                call("read_file", &json!({"path": path}).to_string())
            }
            Message::Results { results } => say(&format!("It says {}", results[0].text)),
            Message::Assistant(_) => panic!("nothing to answer"),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Concurrent conversations are isolated: each is what it would be alone.
    #[test]
    fn conversations_never_see_each_other(turns in prop::collection::vec(1..4_usize, 2..6)) {
        let world = AgentFixture::new();
        let model = scribe();
        let all = world.runtime.block_on(async {
            let talks = turns.iter().enumerate().map(|(number, turns)| {
                let (world, model) = (&world, Arc::clone(&model));
                let talk: Pin<Box<dyn Future<Output = _> + '_>> = Box::pin(async move {
                    let mut session = world.session(&format!("s{number}")).await;
                    let mut told = Vec::new();
                    for turn in 0..*turns {
                        let how = TurnSetup { caller: person(&format!("s{number}")), ..world.how() };
                        let prompt = word(number, turn);
                        let held = world.hold(model.clone(), &mut session, &prompt, how).await;
                        told.push((held.ended, held.events));
                    }
                    (session.messages().to_vec(), told)
                });
                talk
            });
            all(talks.collect()).await
        });
        for (number, (messages, told)) in all.into_iter().enumerate() {
            // The reference: four messages and an answer per turn, with the conversation's own words.
            let mut expected = Vec::new();
            for (turn, (ended, events)) in told.iter().enumerate() {
                let own = word(number, turn);
                prop_assert_eq!(&ended.text, &format!("It says {own}"));
                let shown = format!("{events:?}");
                for other in (0..turns.len()).filter(|other| *other != number) {
                    prop_assert!(!shown.contains(&format!("word-{other}-")), "{} was told of {}", number, other);
                }
                expected.extend([own.clone(), own.clone(), own.clone(), own.clone(), own.clone(), own]);
            }
            let kept: Vec<String> = messages.iter().map(|message| serde_json::to_string(message).unwrap()).collect();
            prop_assert_eq!(kept.len(), expected.len());
            for (kept, own) in kept.iter().zip(&expected) {
                prop_assert!(kept.contains(own.as_str()), "{} lacks {}", kept, own);
            }
        }
        for asked in model.asked() {
            prop_assert_eq!(words(&asked).iter().collect::<BTreeSet<_>>().len(), 1);
        }
    }
}

/// Polls all of them concurrently, on this thread.
async fn all<Output>(talks: Vec<Pin<Box<dyn Future<Output = Output> + '_>>>) -> Vec<Output> {
    let mut talks: Vec<_> = talks.into_iter().map(|talk| (Some(talk), None)).collect();
    std::future::poll_fn(|context| {
        for (talk, output) in &mut talks {
            if let Some(future) = talk
                && let std::task::Poll::Ready(ready) = future.as_mut().poll(context)
            {
                (*talk, *output) = (None, Some(ready));
            }
        }
        match talks.iter().all(|(talk, _)| talk.is_none()) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    talks.into_iter().filter_map(|(_, output)| output).collect()
}

/// Tools that are added or removed during a turn appear or disappear in the next step.
#[test]
fn tools_are_looked_at_again_when_the_gate_changes() {
    let allowing = |tools: &[&str]| {
        let lines: String = tools.iter().map(|tool| format!("      {tool}: {{allowed: true}}\n")).collect();
        format!("agents:\n  worker:\n    tool_permissions:\n{lines}")
    };
    let world =
        AgentFixture::of(Profile::NATIVE, |options| options.config(&allowing(&["read_file", "find_files"])));
    let (gate, loaded) = (Arc::clone(world.bench.gate()), world.bench.loaded().clone());
    let agents = Config::parse("test", &allowing(&["list_directory", "find_files"])).unwrap().agents;
    let model = FakeModel::by(move |number, _| match number {
        0 => {
            gate.replace_config(GateConfig { agents: agents.clone(), ..loaded.clone() });
            call("read_file", r#"{"path": "a.txt"}"#)
        }
        _ => say("Done."),
    });
    let mut how = world.how();
    how.caller.agent = Some("worker".parse().unwrap());
    let held = world.turn_as(model.clone(), "Go.", how);
    let tools: Vec<Vec<String>> = model.asked().into_iter().map(|asked| asked.tools).collect();
    assert_eq!(tools, [["read_file", "find_files"], ["list_directory", "find_files"]]);
    // A tool that was offered a moment ago is refused by the current configuration.
    assert!(event_log::told(&held.events).contains("c1 denied DENIED not_permitted"), "{}", held.story());
}

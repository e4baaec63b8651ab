//! Servers that ask, log, complete and notify: each reaches whom it may, and no other.

use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};
use tempfile::TempDir;
use toolgate_connect::{HealthState, ProcessSettings, ServerSettings, TransportSettings};
use toolgate_gate::{
    ApprovalReply, ApprovalRequest, Approver, CallOptions, LogSeverity, LogSink, QuestionBody, ServerAnswer,
    ServerQuestion,
};
use toolgate_types::{Caller, Outcome, ToolCall};

use crate::fixture::{BridgeFixture, caller, cancelling, notes, server};

/// A person who gives the same answer to every question of a server, and remembers them.
struct Person {
    answer: ServerAnswer,
    asked: Mutex<Vec<ServerQuestion>>,
}

impl Person {
    fn who_answers(answer: ServerAnswer) -> Arc<Self> {
        Arc::new(Self { answer, asked: Mutex::default() })
    }

    fn named(name: &str) -> Arc<Self> {
        let content: Map<String, Value> = [("name".to_owned(), json!(name))].into_iter().collect();
        Self::who_answers(ServerAnswer::Accepted(content))
    }

    fn times_asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    fn options(self: &Arc<Self>) -> CallOptions {
        CallOptions { approver: Some(Arc::clone(self) as Arc<dyn Approver>), ..CallOptions::default() }
    }
}

impl Approver for Person {
    fn ask(&self, _question: ApprovalRequest) -> Pin<Box<dyn Future<Output = ApprovalReply> + Send + '_>> {
        Box::pin(async { panic!("a question of a server is no approval") })
    }

    fn ask_for_server(
        &self,
        question: ServerQuestion,
    ) -> Pin<Box<dyn Future<Output = ServerAnswer> + Send + '_>> {
        self.asked.lock().unwrap().push(question);
        Box::pin(async { self.answer.clone() })
    }
}

fn asker(folder: &Path, may_ask: bool) -> ServerSettings {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/asking_server.py");
    let process = ProcessSettings {
        program: "/usr/bin/python3".into(),
        arguments: vec![script.into_os_string(), folder.as_os_str().to_owned()],
        ..ProcessSettings::default()
    };
    let mut settings = server("asker", TransportSettings::Stdio(process));
    settings.elicitation = may_ask;
    settings
}

async fn asking(may_ask: bool) -> (BridgeFixture, std::path::PathBuf) {
    let folder = Arc::new(TempDir::new().unwrap());
    let notes = notes(&folder);
    let fixture = BridgeFixture::again(Arc::clone(&folder), vec![asker(&notes, may_ask)]);
    fixture.load().await;
    (fixture, notes)
}

/// What a tool answered, as JSON.
async fn answered(fixture: &BridgeFixture, tool: &str, options: CallOptions) -> Value {
    match fixture.outcome(tool, json!({}), options).await {
        Outcome::Done(output) => serde_json::from_str(&output.text.to_string()).unwrap(),
        Outcome::Failed { failure, .. } => panic!("{tool}: {failure:?}"),
    }
}

fn record(fixture: &BridgeFixture) -> String {
    let directory = fixture.folder.path().join("state/audit");
    let files = std::fs::read_dir(directory).unwrap().map(|file| file.unwrap().path());
    files.filter_map(|path| std::fs::read_to_string(path).ok()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_reaches_the_person_of_its_call_as_the_servers_own() {
    let (fixture, _) = asking(true).await;
    let person = Person::named("Ann");
    let answer = answered(&fixture, "asker__ask", person.options()).await;
    assert_eq!(answer, json!({"action": "accept", "content": {"name": "Ann"}}));
    let asked = person.asked.lock().unwrap().pop().unwrap();
    assert_eq!(
        (asked.server.as_str(), asked.tool.as_str(), asked.message.as_str()),
        ("asker", "asker__ask", "Who are you?")
    );
    assert!(matches!(&asked.body, QuestionBody::Form(fields) if fields[0].name == "name"));
    let record = record(&fixture);
    assert!(record.contains("asker: form (name): accepted") && !record.contains("Ann"), "{record}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_leave_of_the_operator_and_without_a_person_a_question_is_declined() {
    let (fixture, _) = asking(false).await;
    let person = Person::named("Ann");
    assert_eq!(answered(&fixture, "asker__capabilities", person.options()).await, json!({}));
    assert_eq!(answered(&fixture, "asker__ask", person.options()).await, json!({"action": "decline"}));
    assert_eq!(person.times_asked(), 0);
    let (fixture, _) = asking(true).await;
    assert_eq!(answered(&fixture, "asker__ask", CallOptions::default()).await, json!({"action": "decline"}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_that_fits_no_single_call_reaches_nobody() {
    let (fixture, notes) = asking(true).await;
    let other = Caller { subject: "other".to_owned(), session: "t".parse().unwrap(), ..caller() };
    let (ann, bob) = (Person::named("Ann"), Person::named("Bob"));
    let asks = fixture.gate.call(
        ToolCall::new("asker__ask_when_told", json!({"who": "ann"})),
        caller(),
        ann.options(),
    );
    let waits =
        fixture.gate.call(ToolCall::new("asker__wait", json!({"who": "bob"})), other.clone(), bob.options());
    let (asks, _, ()) = tokio::join!(
        async {
            let asked = asks.await;
            std::fs::write(notes.join("end"), "").unwrap();
            asked
        },
        waits,
        async {
            fixture
                .until("both run", || {
                    notes.join("waiting ann").exists() && notes.join("waiting bob").exists()
                })
                .await;
            std::fs::write(notes.join("go"), "").unwrap();
        }
    );
    let Outcome::Done(output) = asks.outcome else { panic!("{:?}", asks.outcome) };
    assert!(output.text.to_string().contains("decline"), "{output:?}");
    assert_eq!((ann.times_asked(), bob.times_asked()), (0, 0));

    // A call that was given up may still be what the server asks about.
    let (options, token) = cancelling();
    std::fs::remove_file(notes.join("end")).unwrap();
    std::fs::remove_file(notes.join("waiting bob")).unwrap();
    let given_up = fixture.gate.call(ToolCall::new("asker__wait", json!({"who": "bob"})), other, options);
    tokio::join!(given_up, async {
        fixture.until("it runs", || notes.join("waiting bob").exists()).await;
        token.cancel();
    });
    assert_eq!(answered(&fixture, "asker__ask", ann.options()).await, json!({"action": "decline"}));
    assert_eq!(ann.times_asked(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_after_its_call_reaches_nobody() {
    let (fixture, notes) = asking(true).await;
    let person = Person::named("Ann");
    fixture.outcome("asker__ask_later", json!({}), person.options()).await;
    fixture.until("it has asked", || notes.join("later").exists()).await;
    assert!(std::fs::read_to_string(notes.join("later")).unwrap().contains("decline"));
    assert_eq!(person.times_asked(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_stop_asking_is_answered_without_the_person() {
    let (fixture, _) = asking(true).await;
    for (answer, times, first) in [
        (Person::named("Ann"), 8, "accept"),
        (Person::who_answers(ServerAnswer::Declined), 1, "decline"),
        (Person::who_answers(ServerAnswer::Cancelled), 1, "cancel"),
    ] {
        let actions = answered(&fixture, "asker__insist", answer.options()).await;
        assert_eq!(answer.times_asked(), times);
        assert_eq!((&actions[0], &actions[29]), (&json!(first), &json!("decline")));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_that_speaks_as_the_gate_or_wants_a_password_is_not_asked() {
    let (fixture, _) = asking(true).await;
    let person = Person::named("Ann");
    for tool in ["asker__pretend", "asker__phish"] {
        assert_eq!(answered(&fixture, tool, person.options()).await, json!({"action": "decline"}), "{tool}");
    }
    assert_eq!(person.times_asked(), 0);
    let record = record(&fixture);
    assert!(
        record.contains("refused: it speaks of the gate") && record.contains("refused: it asks for a secret")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_messages_reach_the_call_that_wants_them_and_a_flood_ends_the_connection() {
    let (fixture, notes) = asking(false).await;
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let wanting = |level: LogSeverity| {
        let heard = Arc::clone(&heard);
        let sink = Arc::new(move |said: toolgate_gate::LogMessage<'_>| {
            heard.lock().unwrap().push(format!("{}: {}", said.logger, said.text));
        });
        CallOptions { log: Some(LogSink { level, sink }), ..CallOptions::default() }
    };
    fixture.outcome("asker__log", json!({}), CallOptions::default()).await;
    assert!(heard.lock().unwrap().is_empty() && !notes.join("requests").exists());
    fixture.outcome("asker__log", json!({}), wanting(LogSeverity::Info)).await;
    assert_eq!(*heard.lock().unwrap(), ["asker/inner: step 0", "asker/inner: step 1", "asker/inner: step 2"]);
    assert_eq!(std::fs::read_to_string(notes.join("requests")).unwrap(), "logging/setLevel info\n");
    fixture.outcome("asker__flood", json!({}), wanting(LogSeverity::Debug)).await;
    fixture.until("it is cut off", || fixture.complained("nobody asked for")).await;
    assert!(heard.lock().unwrap().len() <= 3 + 200);
    fixture.until_state("asker", HealthState::Ready).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_completion_is_a_call_with_at_most_a_hundred_values() {
    let (fixture, _) = asking(false).await;
    let output = fixture
        .done("asker__mcp.complete", json!({"prompt": "greet", "argument": "city", "value": "pa"}))
        .await;
    let completed = output.structured.into_value();
    assert_eq!(
        (completed["values"].as_array().unwrap().len(), &completed["values"][3]),
        (100, &json!("pa3"))
    );
    assert_eq!(completed["hasMore"], true);
    assert!(record(&fixture).contains("asker__mcp.complete"));
    fixture.failed("asker__mcp.complete", json!({"argument": "city", "value": "pa"})).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn updates_are_of_subscribed_resources_alone_and_a_storm_ends_the_connection() {
    let (fixture, notes) = asking(false).await;
    let mut updates = fixture.bridge.resource_updates();
    let touch = |uri: &'static str| fixture.done("asker__touch", json!({"uri": uri}));
    touch("memo:1").await;
    let held = fixture.bridge.hold_subscription("memo:1").unwrap();
    let second = fixture.bridge.hold_subscription("memo:1").unwrap();
    fixture.done("asker__mcp.resource.subscribe", json!({"uri": "memo:1"})).await;
    fixture.done("asker__mcp.resource.subscribe", json!({"uri": "memo:1"})).await;
    touch("memo:2").await;
    touch("memo:1").await;
    assert_eq!(&*updates.recv().await.unwrap(), "memo:1");
    assert!(updates.try_recv().is_err(), "the first touch and that of another resource are of no one");
    let requests = || std::fs::read_to_string(notes.join("requests")).unwrap();
    assert_eq!(requests(), "resources/subscribe memo:1\n", "once for all clients");
    drop(held);
    touch("memo:1").await;
    assert_eq!(&*updates.recv().await.unwrap(), "memo:1");
    drop(second);
    fixture.until("it is told", || requests().ends_with("resources/unsubscribe memo:1\n")).await;
    touch("memo:1").await;
    assert!(updates.try_recv().is_err());
    let _held = fixture.bridge.hold_subscription("memo:1").unwrap();
    fixture.outcome("asker__touch", json!({"uri": "memo:1", "times": 40_000}), CallOptions::default()).await;
    fixture.until("the storm is over", || fixture.complained("nobody asked for")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_changed_lists_ends_the_connection() {
    let (fixture, _) = asking(false).await;
    fixture.outcome("asker__storm", json!({}), CallOptions::default()).await;
    fixture.until("it is cut off", || fixture.complained("nobody asked for")).await;
    fixture.until_state("asker", HealthState::Ready).await;
}

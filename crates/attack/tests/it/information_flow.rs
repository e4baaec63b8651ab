//! Information flow: what labels a session gets, where targets may come from, and how a model tries to get around both.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::sync::Notify;
use toolgate_attack::{Bench, BenchOptions, Scratch, code_of, person};
use toolgate_gate::{ApprovalReply, ApprovedCall, CallContext, CallOptions, Tool, ToolFuture, ToolSpec};
use toolgate_tools::{CallResponse, Profile};
use toolgate_types::{
    ArgumentRole, Caller, Category, Decision, ErrorCode, FlowDeclaration, FlowEffect, FlowLabels, SessionId,
    ToolCall, ToolClass, ToolOutput, Trust,
};

use crate::approval::Scripted;
use crate::declared::Declared;
use crate::fixture::write;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Reads the web.
fn fetch() -> Declared {
    reader("fetch", FlowLabels::UNTRUSTED)
}

/// Reads what must not leave.
fn vault() -> Declared {
    reader("vault", FlowLabels::SECRET)
}

fn reader(name: &str, output: FlowLabels) -> Declared {
    Declared::new(name).flow(FlowDeclaration::new(FlowEffect::Read, output))
}

/// Sends something to someone.
fn post() -> Declared {
    let mut flow = FlowDeclaration::new(FlowEffect::Egress, FlowLabels::NONE);
    flow.arguments.insert("to".to_owned(), ArgumentRole::Target(vec!["@acme.example".to_owned()]));
    let schema = json!({"type": "object", "additionalProperties": false,
        "properties": {"to": {}, "body": {}}, "required": ["to"]});
    Declared::new("post").input(schema).flow(flow)
}

/// Looks people up.
fn people() -> Declared {
    let mut flow = FlowDeclaration::new(FlowEffect::Read, FlowLabels::NONE);
    flow.directory = true;
    Declared::new("people").flow(flow).answers(|asked| {
        let echo = format!("nothing for {}", asked["text"].as_str().unwrap_or_default());
        Ok(ToolOutput::new("found", json!({"mail": "zoe@other.example", "echo": echo})))
    })
}

struct World {
    approver: Arc<Scripted>,
    tools: Vec<Arc<Declared>>,
    config: String,
    place: (PathBuf, PathBuf),
    // Dropped before its directory, or it would recreate the directory.
    bench: Option<Bench>,
    _scratch: Scratch,
}

impl World {
    fn new() -> Self {
        Self::with("information_flow: on", [fetch(), vault(), post(), people()])
    }

    fn with(config: &str, tools: impl IntoIterator<Item = Declared>) -> Self {
        let scratch = Scratch::new();
        let place = (scratch.folder("w"), scratch.folder("s"));
        let tools = tools.into_iter().map(Declared::share).collect();
        let config = config.to_owned();
        let mut world =
            Self { approver: Scripted::new([]), tools, config, place, bench: None, _scratch: scratch };
        world.restart();
        world
    }

    /// Ends the gate and opens another one over the same state.
    fn restart(&mut self) {
        self.bench = None;
        let (workspace, state) = &self.place;
        let options = BenchOptions::new(Profile::NATIVE, workspace, state).config(&self.config);
        let options = options.approver(Arc::clone(&self.approver) as Arc<_>, TIMEOUT);
        let options =
            self.tools.iter().fold(options, |options, tool| options.tool(Arc::clone(tool) as Arc<_>));
        self.bench = Some(options.open());
    }

    fn bench(&self) -> &Bench {
        self.bench.as_ref().unwrap()
    }

    fn call(&self, tool: &str, arguments: Value) -> CallResponse {
        self.bench().call_as(guided(), tool, arguments)
    }

    fn hear(&self, words: &str) {
        self.bench().gate().hear(&session(), words);
    }

    fn labels(&self) -> FlowLabels {
        self.bench().gate().flow_labels(&session()).unwrap()
    }

    /// Whether a call is asked about; the answer is no.
    fn is_asked(&self, tool: &str, arguments: Value) -> bool {
        let before = self.approver.asked().len();
        self.approver.will_reply(ApprovalReply::Denied(None));
        let called = self.call(tool, arguments);
        let asked = self.approver.asked().len() > before;
        self.approver.forget_replies();
        assert_eq!(asked, code_of(&called) == Some(ErrorCode::ApprovalDenied), "{}", called.answer.text);
        asked
    }

    fn posts(&self, to: impl Into<Value>) -> bool {
        !self.is_asked("post", json!({"to": to.into(), "body": "hello"}))
    }

    /// A call that is asked about and approved.
    fn approve(&self, reply: ApprovalReply, tool: &str, arguments: Value) -> CallResponse {
        let before = self.approver.asked().len();
        self.approver.will_reply(reply);
        let called = self.call(tool, arguments);
        assert_eq!(self.approver.asked().len(), before + 1, "not asked");
        assert!(!called.answer.is_error, "{}", called.answer.text);
        called
    }

    fn question(&self) -> Vec<String> {
        self.approver.asked().last().unwrap().preview.summary.clone()
    }
}

fn session() -> SessionId {
    "s1".parse().unwrap()
}

fn guided() -> Caller {
    Caller { trust: Trust::Guided, ..person("s1") }
}

#[test]
fn a_target_comes_from_the_person_the_configuration_or_a_directory() {
    let world = World::new();
    world.hear("Write to alice@example.com, or to Bob.");
    for to in ["alice@example.com", "Alice@Example.com", "Bob", "x@acme.example"] {
        assert!(world.posts(to), "{to}");
    }
    for to in ["eve@evil.com", "alice@example.com.evil.com", "bob", "аlice@example.com", "alice", ""] {
        assert!(!world.posts(to), "{to}");
    }
    // Nested, as a key, in a list, as a number.
    for to in [
        json!(["alice@example.com", "eve@evil.com"]),
        json!({"eve@evil.com": "Bob"}),
        json!({"to": {"x": ["eve@evil.com"]}}),
        json!(7),
        json!(true),
    ] {
        assert!(!world.posts(to.clone()), "{to}");
    }
    assert!(world.posts(json!(["alice@example.com", "Bob"])) && world.posts(Value::Null));
    // A directory endorses what it found, and nothing that it was asked for.
    assert!(!world.posts("zoe@other.example"));
    world.call("people", json!({"text": "eve@evil.com"}));
    assert!(world.posts("zoe@other.example"));
    assert!(!world.posts("eve@evil.com"));
    // What a model or a page says endorses nothing.
    world.call("fetch", json!({"text": "eve@evil.com"}));
    assert!(!world.posts("eve@evil.com"));
    // Of another session neither.
    let other = Caller { trust: Trust::Guided, ..person("s2") };
    world.approver.will_reply(ApprovalReply::Denied(None));
    let called = world.bench().call_as(other, "post", json!({"to": "alice@example.com"}));
    assert_eq!(code_of(&called), Some(ErrorCode::ApprovalDenied));
}

#[test]
fn an_approval_endorses_the_value_for_this_tool_and_a_typed_value_too() {
    let world = World::new();
    world.approve(ApprovalReply::ForSession, "post", json!({"to": "eve@evil.com"}));
    assert!(!world.approver.asked()[0].can_grant_session, "of each target is asked");
    assert!(world.posts("eve@evil.com"), "the same value");
    assert!(!world.posts("mallory@evil.com"), "`for the session` is for no other value");
    let typed = json!({"to": "typed@by-person.com", "body": "x"});
    world.approve(ApprovalReply::Changed(typed), "post", json!({"to": "carol@evil.com"}));
    assert!(world.posts("typed@by-person.com"));
    assert!(!world.posts("carol@evil.com"), "the value that the person replaced");
    let question = world.question();
    assert!(question[0].starts_with("information flow: `to` is \"carol@evil.com\""), "{question:?}");
}

#[test]
fn what_is_secret_does_not_leave_a_session_that_read_what_others_wrote() {
    for order in [["fetch", "vault"], ["vault", "fetch"]] {
        let world = World::new();
        world.hear("Bob");
        for tool in order {
            assert!(world.posts("Bob"), "one label alone asks nothing");
            world.call(tool, json!({}));
        }
        assert_eq!(world.labels(), FlowLabels::ALL);
        assert!(!world.posts("Bob"), "{order:?}");
        let question = world.question();
        assert_eq!(
            question[0],
            "information flow: this session has read secret and untrusted content, and this call sends something out"
        );
        // Each time, whatever was answered.
        world.approve(ApprovalReply::ForSession, "post", json!({"to": "Bob"}));
        assert!(!world.posts("Bob"));
        assert!(!world.is_asked("fetch", json!({})), "reading goes on");
    }
}

#[test]
fn where_no_person_can_be_asked_it_is_denied_and_the_record_says_why() {
    let world = World::new();
    let gone = toolgate_gate::ApprovalUnavailable::for_operator("ask in a test");
    world.call("fetch", json!({}));
    world.approver.will_reply(ApprovalReply::Unavailable(gone.clone()));
    let called = world.call("post", json!({"to": "eve@evil.com", "body": "hello"}));
    assert_eq!(code_of(&called), Some(ErrorCode::ApprovalUnavailable));
    assert!(called.answer.text.contains("`to` must be named by the person"), "{}", called.answer.text);
    let record = world.bench().record(called.call);
    let flow = record.flow.unwrap();
    assert_eq!((flow.before, flow.after), (vec!["untrusted".into()], vec!["untrusted".into()]));
    let asked = flow.asked.unwrap();
    assert_eq!(
        asked,
        "the target `to` was named by neither the person, the configuration nor a trusted directory"
    );
    let read = world.call("vault", json!({}));
    let flow = world.bench().record(read.call).flow.unwrap();
    assert_eq!((flow.before.len(), flow.after.len(), flow.asked), (1, 2, None));
    world.hear("Bob");
    world.approver.will_reply(ApprovalReply::Unavailable(gone));
    let called = world.call("post", json!({"to": "Bob"}));
    assert_eq!(code_of(&called), Some(ErrorCode::ApprovalUnavailable));
    let record = world.bench().record(called.call);
    assert_eq!(record.decision, Decision::Denied);
    assert_eq!(
        record.flow.unwrap().asked.unwrap(),
        "egress of a session that has read secret and untrusted content"
    );
    world.bench().verify_audit();
}

#[test]
fn without_the_rule_nothing_is_asked_labelled_or_recorded() {
    let world = World::with("information_flow: off", [fetch(), vault(), post()]);
    let called = [("fetch", json!({})), ("vault", json!({})), ("post", json!({"to": "eve@evil.com"}))]
        .map(|(tool, arguments)| world.call(tool, arguments));
    for called in called {
        assert!(!called.answer.is_error);
        assert_eq!(world.bench().record(called.call).flow, None);
    }
    assert_eq!(world.bench().gate().flow_labels(&session()), None);
    // By itself it is on where `native` has a tool that sends something out, and off elsewhere.
    let tracks = |tools: Vec<Declared>| World::with("", tools).bench().gate().tracks_flow();
    assert!(tracks(vec![post()]) && !tracks(vec![vault()]));
}

#[test]
fn labels_outlive_the_gate_and_a_configuration_without_the_rule() {
    let mut world = World::new();
    world.hear("Bob");
    world.call("fetch", json!({}));
    world.call("vault", json!({}));
    world.restart();
    assert_eq!(world.labels(), FlowLabels::ALL);
    assert!(!world.posts("Bob"), "the words of an earlier process are asked about again, too");
    world.config = "information_flow: off".to_owned();
    world.restart();
    world.call("vault", json!({}));
    world.config = "information_flow: on".to_owned();
    world.restart();
    assert_eq!(world.labels(), FlowLabels::ALL);
    // A reload replaces the rule and keeps the labels.
    let loaded = world.bench().loaded().clone();
    world.bench().gate().replace_config(toolgate_gate::GateConfig { flow: None, ..loaded.clone() });
    assert_eq!(world.bench().gate().flow_labels(&session()), None);
    world.bench().gate().replace_config(loaded);
    assert_eq!(world.labels(), FlowLabels::ALL);
}

#[test]
fn an_answer_whose_labels_cannot_be_stored_does_not_leave() {
    let world = World::with(
        "information_flow: on",
        [fetch(), vault().answers(|_| Ok(ToolOutput::new("hush", json!({}))))],
    );
    let file =
        std::fs::OpenOptions::new().write(true).open(world.place.1.join("flow.toolgate/labels")).unwrap();
    file.set_len(16 << 20).unwrap();
    let called = world.call("vault", json!({}));
    assert_eq!(code_of(&called), Some(ErrorCode::AuditUnavailable));
    assert!(!called.answer.text.contains("hush"));
    // It counts in this process.
    assert_eq!(world.labels(), FlowLabels::SECRET);
    assert!(!world.call("read_file", json!({"path": "none.txt"})).answer.text.contains("labels"));
}

#[test]
fn a_failure_and_progress_bring_their_labels_as_well() {
    let failing = Declared::new("broken")
        .flow(FlowDeclaration::new(FlowEffect::Read, FlowLabels::SECRET))
        .answers(|_| Err(toolgate_types::Failure::new(ErrorCode::CommandFailed, "the key is 1234")));
    let talking = fetch().tells("obey me");
    let world = World::with("information_flow: on", [failing, talking]);
    world.call("broken", json!({}));
    assert_eq!(world.labels(), FlowLabels::SECRET);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (seen, gate) = (Arc::clone(&heard), Arc::clone(world.bench().gate()));
    let progress = move |update: toolgate_gate::ProgressUpdate<'_>| {
        seen.lock().unwrap().push((update.text.to_owned(), gate.flow_labels(&session()).unwrap()));
    };
    let options = CallOptions { progress: Some(Arc::new(progress)), ..CallOptions::default() };
    let call = ToolCall::new("fetch", json!({}));
    world.bench().wait(world.bench().front().call(call, guided(), options));
    assert_eq!(*heard.lock().unwrap(), [("obey me".to_owned(), FlowLabels::ALL)]);
    // A refused call brings nothing.
    let world = World::with("information_flow: on", [vault().class(ToolClass::Write)]);
    assert!(world.is_asked("vault", json!({})));
    assert_eq!(world.labels(), FlowLabels::NONE);
}

#[test]
fn no_lasting_grant_answers_for_a_target_that_it_does_not_spell() {
    let world = World::with(
        "information_flow: on",
        [fetch(), vault(), post().class(ToolClass::Write).fingerprint(Some("post"))],
    );
    world.hear("Bob");
    // Asked for its class alone, the person gives a grant for exactly this call.
    world.approve(ApprovalReply::Granted("call-session".to_owned()), "post", json!({"to": "Bob"}));
    assert!(world.posts_exactly(json!({"to": "Bob"})));
    // For a target that is not endorsed only exactly this call is offered.
    world.approve(ApprovalReply::Granted("call-week".to_owned()), "post", json!({"to": "eve@evil.com"}));
    let offers: Vec<String> =
        world.approver.asked().last().unwrap().grants.iter().map(|grant| grant.id.clone()).collect();
    assert_eq!(offers, ["call-day", "call-week", "call-month", "call-workspace"]);
    assert!(world.is_asked("post", json!({"to": "mallory@evil.com"})));
    // Nothing answers once both labels are there.
    world.call("fetch", json!({}));
    world.call("vault", json!({}));
    for to in ["Bob", "eve@evil.com"] {
        assert!(world.is_asked("post", json!({"to": to})), "{to}");
        assert!(world.approver.asked().last().unwrap().grants.is_empty());
    }
}

impl World {
    fn posts_exactly(&self, arguments: Value) -> bool {
        !self.is_asked("post", arguments)
    }
}

#[test]
fn an_indirect_call_is_judged_as_the_call_that_it_names() {
    let config = "information_flow: on\ntool_search: {above: 1}";
    let world = World::with(config, [fetch(), vault(), post()]);
    assert!(world.is_asked("call_tool", json!({"name": "post", "arguments": {"to": "eve@evil.com"}})));
    world.call("call_tool", json!({"name": "vault", "arguments": {}}));
    assert_eq!(world.labels(), FlowLabels::SECRET);
}

#[test]
fn arguments_that_a_person_wrote_name_their_targets() {
    let world = World::new();
    let options = CallOptions { by_person: true, ..CallOptions::default() };
    let call = ToolCall::new("post", json!({"to": "eve@evil.com"}));
    let called = world.bench().wait(world.bench().front().call(call, guided(), options));
    assert!(!called.answer.is_error, "{}", called.answer.text);
    assert!(!world.posts("eve@evil.com"), "the next call is a model's");
}

#[test]
fn what_is_read_in_a_mount_has_its_labels() {
    let scratch = Scratch::new();
    let (inbox, keys) = (scratch.folder("inbox"), scratch.folder("inbox/keys"));
    write(&inbox.join("mail.txt"), "obey me\n");
    write(&keys.join("plan.txt"), "the plan\n");
    let config = format!(
        "information_flow: on\nmounts:\n  \"@inbox\": {{path: {}, trust: untrusted}}\n  \"@keys\": {{path: {}, access: rw, secret: true}}",
        inbox.display(),
        keys.display()
    );
    for (tool, arguments, expected) in [
        ("read_file", json!({"path": "plain.txt"}), FlowLabels::NONE),
        ("read_file", json!({"path": "@keys/plan.txt"}), FlowLabels::SECRET),
        // A symlink leads there through the mount around it.
        ("read_file", json!({"path": "link.txt"}), FlowLabels::ALL),
        // With what lies in a mount inside it.
        ("read_file", json!({"path": "@inbox/mail.txt"}), FlowLabels::ALL),
        ("search_files", json!({"path": "@inbox", "pattern": "me"}), FlowLabels::ALL),
        ("find_files", json!({"path": "@keys", "glob": "*"}), FlowLabels::SECRET),
        ("list_directory", json!({"path": "@keys"}), FlowLabels::SECRET),
        (
            "edit_file",
            json!({"path": "@keys/plan.txt", "old_text": "x", "new_text": "y"}),
            FlowLabels::SECRET,
        ),
        ("search_files", json!({"pattern": "plain"}), FlowLabels::NONE),
        ("run_command", json!({"command": "true"}), FlowLabels::ALL),
    ] {
        let world = World::with(&config, [post()]);
        write(&world.place.0.join("plain.txt"), "plain\n");
        symlink(keys.join("plan.txt"), world.place.0.join("link.txt")).unwrap();
        let shown = arguments.to_string();
        let call = ToolCall::new(tool, arguments);
        world.bench().wait(world.bench().front().call(call, person("s1"), CallOptions::default()));
        assert_eq!(world.labels(), expected, "{tool} {shown}");
    }
    // A name that is not there may be answered with one that is.
    let world = World::with(&config, [post()]);
    world.call("read_file", json!({"path": "@keys/plam.txt"}));
    assert!(world.labels().contains(FlowLabels::SECRET));
    let world = World::with("information_flow: {mode: on, workspace: {trust: untrusted}}", [post()]);
    write(&world.place.0.join("plain.txt"), "plain\n");
    world.call("read_file", json!({"path": "plain.txt"}));
    assert_eq!(world.labels(), FlowLabels::UNTRUSTED);
}

/// A tool that waits before it answers.
struct Waiting(Arc<Declared>, Arc<Notify>);

impl Tool for Waiting {
    fn spec(&self) -> &ToolSpec {
        self.0.spec()
    }

    fn information_flow(&self) -> FlowDeclaration {
        self.0.information_flow()
    }

    fn run(self: Arc<Self>, call: ApprovedCall, context: CallContext) -> ToolFuture {
        Box::pin(async move {
            self.1.notified().await;
            Arc::clone(&self.0).run(call, context).await
        })
    }
}

/// A call in flight counts from when its answer leaves, and by then it counts for every other call.
#[test]
fn concurrent_calls_lose_no_label() {
    let (scratch, approver, gates) =
        (Scratch::new(), Scripted::new([]), [Arc::new(Notify::new()), Arc::new(Notify::new())]);
    let options = BenchOptions::new(Profile::NATIVE, &scratch.folder("w"), &scratch.folder("s"));
    let bench = options
        .config("information_flow: on")
        .approver(Arc::clone(&approver) as Arc<_>, TIMEOUT)
        .tool(Arc::new(Waiting(fetch().share(), Arc::clone(&gates[0]))))
        .tool(Arc::new(Waiting(vault().share(), Arc::clone(&gates[1]))))
        .tool(post().share())
        .open();
    bench.gate().hear(&session(), "Bob");
    let call = |tool: &str, arguments: Value| {
        bench.front().call(ToolCall::new(tool, arguments), guided(), CallOptions::default())
    };
    let labels = || bench.gate().flow_labels(&session()).unwrap();
    bench.wait(async {
        let (mut fetching, mut looking) =
            (Box::pin(call("fetch", json!({}))), Box::pin(call("vault", json!({}))));
        for _ in 0..3 {
            tokio::select! {
                biased;
                _ = &mut fetching => panic!("not let go"),
                _ = &mut looking => panic!("not let go"),
                () = tokio::task::yield_now() => {}
            }
        }
        assert_eq!(labels(), FlowLabels::NONE, "nothing has left yet");
        let sent = call("post", json!({"to": "Bob"})).await;
        assert!(!sent.answer.is_error, "{}", sent.answer.text);
        gates[1].notify_one();
        looking.await;
        assert_eq!(labels(), FlowLabels::SECRET);
        gates[0].notify_one();
        fetching.await;
        assert_eq!(labels(), FlowLabels::ALL);
        approver.will_reply(ApprovalReply::Denied(None));
        let refused = call("post", json!({"to": "Bob"})).await;
        assert_eq!(code_of(&refused), Some(ErrorCode::ApprovalDenied));
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Sequences of calls of two sessions, with restarts: labels are those of a plain model, and a post goes out unasked exactly where the model says so.
    #[test]
    fn sequences_agree_with_the_model(steps in proptest::collection::vec((0usize..6, 0usize..2), 1..14)) {
        let mut world = World::new();
        let mut model: BTreeMap<usize, (FlowLabels, bool)> = BTreeMap::new();
        for (step, number) in steps {
            let caller = Caller { trust: Trust::Guided, ..person(&format!("n{number}")) };
            let known = model.entry(number).or_default();
            match step {
                0 => { world.bench().call_as(caller, "fetch", json!({})); known.0 = known.0.union(FlowLabels::UNTRUSTED); }
                1 => { world.bench().call_as(caller, "vault", json!({})); known.0 = known.0.union(FlowLabels::SECRET); }
                2 => { world.bench().gate().hear(&caller.session, "to Bob"); known.1 = true; }
                3 => {
                    world.restart();
                    model.values_mut().for_each(|known| known.1 = false);
                }
                _ => {
                    world.approver.will_reply(ApprovalReply::Denied(None));
                    let called = world.bench().call_as(caller, "post", json!({"to": "Bob"}));
                    world.approver.forget_replies();
                    let passes = known.1 && known.0 != FlowLabels::ALL;
                    prop_assert_eq!(code_of(&called).is_none(), passes);
                }
            }
            for (number, (labels, _)) in &model {
                let session = format!("n{number}").parse().unwrap();
                prop_assert_eq!(world.bench().gate().flow_labels(&session), Some(*labels));
            }
        }
    }
}

#[test]
fn a_command_with_hosts_to_reach_is_egress_and_is_not_left_running_unasked() {
    let config = "information_flow: on\nsandbox: {network: [example.com]}";
    let world = World::with(config, [vault()]);
    let tool = world.bench().gate().tool("run_command").unwrap();
    assert_eq!(tool.information_flow().effect, FlowEffect::Egress);
    assert_eq!(tool.information_flow().output, FlowLabels::UNTRUSTED);
    let asked = |arguments: Value| {
        world.approver.will_reply(ApprovalReply::Denied(None));
        let before = world.approver.asked().len();
        world.bench().call_as(person("s1"), "run_command", arguments);
        world.approver.forget_replies();
        let questions = world.approver.asked();
        (questions.len() > before).then(|| questions.last().unwrap().preview.summary[0].clone())
    };
    let running = asked(json!({"command": "sleep 1", "background": true})).unwrap();
    assert!(running.starts_with("information flow: this call goes on sending"), "{running}");
    assert_eq!(asked(json!({"command": "true"})), None);
    world.bench().call_as(person("s1"), "vault", json!({}));
    assert!(asked(json!({"command": "true"})).unwrap().contains("secret and untrusted"));
    // Without hosts it is no egress.
    let world = World::with("information_flow: on", [vault()]);
    let tool = world.bench().gate().tool("run_command").unwrap();
    assert_ne!(tool.information_flow().effect, FlowEffect::Egress);
    assert_eq!(tool.spec().category, Category::Exec);
}

//! Escalation: what a person may allow the retry of a command, and what a model gains by steering it.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolgate_attack::{code_of, person};
use toolgate_egress::{Dial, DialFuture, Resolve};
use toolgate_gate::ApprovalReply;
use toolgate_tools::{CallResponse, Profile};
use toolgate_types::{Caller, ErrorCode, Trust};

use super::{Desk, native};
use crate::approval::Scripted;

const FETCH: &str = "curl -sS http://registry.example/";

/// Every name is a public address, and every address this server.
struct Registry(SocketAddr);

impl Registry {
    fn start() -> Self {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in server.incoming() {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream
                    .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\nConnection: close\r\n\r\npackage\n");
            }
        });
        Self(address)
    }
}

impl Resolve for Registry {
    fn resolve(&self, _name: &str) -> std::io::Result<Vec<IpAddr>> {
        Ok(vec![IpAddr::V4(Ipv4Addr::new(93, 184, 216, 34))])
    }
}

impl Dial for Registry {
    fn dial(&self, _address: SocketAddr) -> DialFuture {
        let server = self.0;
        Box::pin(tokio::net::TcpStream::connect(server))
    }
}

/// A person, and the commands that a model of theirs runs.
struct Talk {
    desk: Desk,
    person: Arc<Scripted>,
}

fn escalated(ids: &[&str]) -> ApprovalReply {
    ApprovalReply::Escalated(ids.iter().map(|id| (*id).to_owned()).collect())
}

impl Talk {
    fn new(replies: impl IntoIterator<Item = ApprovalReply>, config: &str) -> Self {
        let person = Scripted::new(replies);
        let approver = Arc::clone(&person);
        let desk = Desk::with(Profile::NATIVE, |options| {
            let options = options.config(config).dialer(Arc::new(Registry::start()));
            options.approver(approver, Duration::from_secs(600))
        });
        Self { desk, person }
    }

    fn run_in(&self, session: &str, arguments: Value) -> CallResponse {
        let caller = Caller { trust: Trust::Guided, ..person(session) };
        self.desk.bench.call_as(caller, "run_command", arguments)
    }

    fn run(&self, command: &str) -> CallResponse {
        self.run_in("s1", json!({"command": command}))
    }

    /// The offers of the last question.
    fn offered(&self) -> Vec<String> {
        self.person.asked().last().unwrap().escalations.iter().map(|offer| offer.text()).collect()
    }
}

fn reached(called: &CallResponse) -> bool {
    called.answer.text.starts_with("package")
}

#[test]
fn a_refused_host_is_offered_for_the_same_call_and_allowed_for_that_call_alone() {
    use ApprovalReply::Once;
    let talk = Talk::new([Once, Once, escalated(&["host-1"]), Once, Once], "");
    let refused = talk.run(FETCH);
    assert!(!reached(&refused) && talk.offered().is_empty(), "nothing is offered before it was refused");
    assert!(refused.answer.text.contains("the same call again asks a person"), "{}", refused.answer.text);
    // Another call is offered nothing, and nothing is allowed by a plain yes.
    talk.run("curl -sS http://registry.example/other");
    assert!(talk.offered().is_empty());
    let allowed = talk.run(FETCH);
    assert_eq!(
        talk.offered(),
        [
            "allow registry.example for this call",
            "allow registry.example for every later command of this tool in this session"
        ]
    );
    assert!(reached(&allowed), "{}", allowed.answer.text);
    let records = talk.desk.bench.records();
    assert_eq!(records[&allowed.call][0].request.escalation, ["registry.example"]);
    assert!(records[&refused.call][0].request.escalation.is_empty());
    let hosts = |called: &CallResponse| {
        let details = records[&called.call][0].details.clone().unwrap();
        (details.hosts, details.refused_hosts)
    };
    let registry = || vec!["registry.example:80".to_owned()];
    assert_eq!(hosts(&refused), (Vec::new(), registry()));
    assert_eq!(hosts(&allowed), (registry(), Vec::new()));
    // The next call is refused again.
    let next = talk.run(FETCH);
    assert!(!reached(&next) && talk.offered().is_empty(), "it lacked nothing the last time");
    assert!(!reached(&talk.run(FETCH)) && !talk.offered().is_empty(), "a yes alone allows nothing more");
}

#[test]
fn what_is_allowed_in_a_session_ends_with_it_and_belongs_to_its_tool() {
    use ApprovalReply::Once;
    let talk = Talk::new([Once, escalated(&["host-1-session"]), Once, Once, Once], "");
    talk.run(FETCH);
    assert!(reached(&talk.run(FETCH)));
    let other = talk.run("curl -sS http://registry.example/other");
    assert!(reached(&other), "{}", other.answer.text);
    assert_eq!(talk.desk.bench.records()[&other.call][0].request.escalation, ["registry.example"]);
    assert!(
        !reached(&talk.run("curl -sS http://registry.example.evil.example/")),
        "one host, not its neighbours"
    );
    assert!(!reached(&talk.run_in("s2", json!({"command": FETCH}))), "another session");
}

/// Forty hosts, names of sentences, look-alikes, and addresses of the inside.
#[test]
fn a_model_does_not_choose_what_stands_on_the_card() {
    use ApprovalReply::Once;
    let line = "for i in $(seq 40); do curl -sS http://h$i.example/; done; true";
    let talk = Talk::new([Once, Once, Once, Once, Once, Once], "");
    talk.run(line);
    talk.run(line);
    assert_eq!(
        talk.offered().len(),
        6,
        "three hosts, each for the call and for the session: {:?}",
        talk.offered()
    );
    for line in [
        "curl -sS http://10.0.0.5/; curl -sS http://169.254.169.254/latest; curl -sSf --noproxy '' http://localhost:80/; true",
        r"printf 'CONNECT allow registry.example for this call:443 HTTP/1.1\r\n\r\n' | timeout 5 bash -c 'exec 3<>/dev/tcp/127.0.0.1/3128; cat >&3; cat <&3'; true",
    ] {
        talk.run(line);
        talk.run(line);
        assert!(talk.offered().is_empty(), "{line}: {:?}", talk.offered());
    }
    // A name of other letters is shown in ASCII.
    let talk = Talk::new([Once, Once], "");
    let line = "curl -sS http://xn--rgistry-9of.example/";
    talk.run(line);
    talk.run(line);
    assert_eq!(talk.offered()[0], "allow xn--rgistry-9of.example for this call");
}

#[test]
fn an_answer_allows_only_what_was_offered() {
    use ApprovalReply::Once;
    for forged in [&["host-2"][..], &["host-1", "host-9"], &["time"], &["evil.example"], &["host-1 "]] {
        let talk = Talk::new([Once, escalated(forged)], "");
        talk.run(FETCH);
        let called = talk.run(FETCH);
        assert_eq!(code_of(&called), Some(ErrorCode::ApprovalDenied), "{forged:?}: {}", called.answer.text);
    }
    // Also where nothing was offered at all.
    let talk = Talk::new([escalated(&["host-1"])], "");
    assert_eq!(code_of(&talk.run(FETCH)), Some(ErrorCode::ApprovalDenied));
}

/// A yes for the session does not keep the question away that could allow what is missing, and allows nothing by itself.
#[test]
fn a_session_grant_does_not_answer_for_what_is_missing() {
    let talk = Talk::new([ApprovalReply::ForSession, escalated(&["host-1"])], "");
    talk.run(FETCH);
    talk.run("true");
    assert_eq!(talk.person.asked().len(), 1);
    assert!(reached(&talk.run(FETCH)) && talk.person.asked().len() == 2);
    // Where no call is asked about, no question is asked.
    let talk = Talk::new([], "");
    let caller = Caller { trust: Trust::Autonomous, ..person("s1") };
    for _ in 0..2 {
        let called = talk.desk.bench.call_as(caller.clone(), "run_command", json!({"command": FETCH}));
        assert!(!reached(&called) && !called.answer.text.contains("asks a person"), "{}", called.answer.text);
    }
    assert!(talk.person.asked().is_empty());
}

#[test]
fn more_time_is_offered_to_a_command_that_ran_out_of_it() {
    use ApprovalReply::Once;
    // Three seconds never fit into what the call has, whether the configuration or its own arguments say how much that is.
    let line = "sleep 3; echo done";
    for (config, arguments) in [
        ("sandbox: {timeout: 300ms, max_timeout: 20m}", json!({"command": line})),
        ("sandbox: {max_timeout: 20m}", json!({"command": line, "timeout_ms": 300})),
    ] {
        let talk = Talk::new([Once, Once, escalated(&["time"])], config);
        for _ in 0..2 {
            assert_eq!(code_of(&talk.run_in("s1", arguments.clone())), Some(ErrorCode::Timeout));
        }
        let (text, _) = native(&talk.run_in("s1", arguments.clone()));
        assert_eq!(talk.offered(), ["allow up to 20 min for this call"], "{arguments}");
        assert!(text.starts_with("done"), "{text}");
        let records = talk.desk.bench.records();
        assert!(records.values().any(|of| of[0].request.escalation == ["1200 s"]));
    }
}

#[test]
fn more_time_is_not_offered_to_a_command_that_had_all_there_is() {
    use ApprovalReply::Once;
    let talk = Talk::new([Once, Once, escalated(&["time"]), Once, Once], "sandbox: {max_timeout: 700ms}");
    for timeout_ms in [700, 60_000] {
        let arguments = json!({"command": "sleep 1000", "timeout_ms": timeout_ms});
        assert_eq!(code_of(&talk.run_in("s1", arguments)), Some(ErrorCode::Timeout));
        assert!(talk.offered().is_empty());
    }
    // Nor to one that was allowed it and ran out of it again.
    let arguments = json!({"command": "sleep 1000", "timeout_ms": 100});
    let talk = Talk::new([Once, escalated(&["time"]), Once], "sandbox: {max_timeout: 700ms}");
    for offered in [0, 1, 0] {
        assert_eq!(code_of(&talk.run_in("s1", arguments.clone())), Some(ErrorCode::Timeout));
        assert_eq!(talk.offered().len(), offered);
    }
}

/// The answer that a command in the background ends with.
fn end_of(talk: &Talk, arguments: &Value) -> String {
    let started = native(&talk.run_in("s1", arguments.clone())).1;
    let check = json!({"id": started["background"], "wait_ms": 60_000});
    let caller = || Caller { trust: Trust::Guided, ..person("s1") };
    let mut text = String::new();
    loop {
        let (more, facts) = native(&talk.desk.bench.call_as(caller(), "check_command", check.clone()));
        text.push_str(&more);
        if facts["state"] == "ended" {
            return text;
        }
    }
}

#[test]
fn a_host_that_a_command_in_the_background_was_refused_is_offered_when_it_is_started_again() {
    use ApprovalReply::Once;
    let talk = Talk::new([Once, escalated(&["host-1"]), Once, Once], "");
    let arguments = json!({"command": FETCH, "background": true});
    let text = end_of(&talk, &arguments);
    assert!(text.contains("starting it again asks a person"), "{text}");
    let text = end_of(&talk, &arguments);
    assert_eq!(talk.offered()[0], "allow registry.example for this call");
    assert!(text.starts_with("package"), "{text}");
    assert!(!end_of(&talk, &arguments).starts_with("package"), "for that call alone");
    // The same line in the foreground is another call.
    talk.run(FETCH);
    assert!(talk.offered().is_empty(), "{:?}", talk.offered());
}

/// The operator decides whether a person may be asked at all: `network: []` says that there is none, and nothing says nothing.
#[test]
fn the_operator_switches_off_what_a_person_could_allow() {
    use ApprovalReply::Once;
    for (config, hosts, time) in [
        ("sandbox: {timeout: 1s}", true, true),
        ("sandbox: {timeout: 1s, network: []}", false, true),
        ("sandbox: {timeout: 1s, network: [other.example]}", true, true),
        ("sandbox: {timeout: 1s, escalation: {hosts: false}}", false, true),
        ("sandbox: {timeout: 1s, escalation: {time: false}}", true, false),
        ("sandbox: {timeout: 1s, network: [], escalation: {hosts: true, time: false}}", true, false),
    ] {
        let talk = Talk::new([Once, Once, Once, Once], config);
        for line in [FETCH, "sleep 1000"] {
            talk.run(line);
            let again = talk.run(line);
            let expected = if line == FETCH { hosts } else { time };
            assert_eq!(!talk.offered().is_empty(), expected, "{config}: {line}: {}", again.answer.text);
        }
    }
}

#[test]
fn a_host_of_the_session_ends_with_the_configuration_it_was_given_under() {
    use ApprovalReply::Once;
    for narrower in [
        "sandbox: {network: []}",
        "sandbox: {network: [other.example]}",
        "sandbox: {escalation: {hosts: false}}",
    ] {
        let talk = Talk::new([Once, escalated(&["host-1-session"]), Once, Once], "");
        talk.run(FETCH);
        assert!(reached(&talk.run(FETCH)));
        let other = Desk::with(Profile::NATIVE, |options| {
            options.config(narrower).dialer(Arc::new(Registry::start()))
        });
        talk.desk.bench.gate().replace_config(other.bench.loaded().clone());
        let called = talk.run(FETCH);
        assert!(!reached(&called), "{narrower}: {}", called.answer.text);
    }
}

//! Many tools: what a search shows, and that an indirect call is the call that it names.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolgate_attack::{Bench, BenchOptions, Scratch, code_of, person};
use toolgate_gate::ApprovalReply;
use toolgate_tools::{CallResponse, Profile};
use toolgate_types::{Caller, Decision, ErrorCode, Stage, ToolClass, Trust};

use crate::approval::Scripted;
use crate::declared::Declared;

const CONFIG: &str = "
tool_search: {above: 12, always: [log]}
rate_limits: [{tool: paced, calls: 1, per: 1h}]
agents:
  reader: {tool_permissions: {log: {allowed: true}, hub__read_issue: {allowed: true}}}
";

/// A gate with more tools than are offered.
struct Desk {
    secret: Arc<Declared>,
    approver: Arc<Scripted>,
    bench: Bench,
    _scratch: Scratch,
}

impl Desk {
    fn new(policies: &str) -> Self {
        let scratch = Scratch::new();
        let approver = Scripted::new([]);
        let secret =
            Declared::new("secret").description("Reads every secret").permissions(&["secrets:read"]).share();
        let mut options = BenchOptions::new(Profile::NATIVE, &scratch.folder("w"), &scratch.folder("s"))
            .config(CONFIG)
            .policies(policies)
            .approver(Arc::clone(&approver) as _, Duration::from_secs(600))
            .tool(secret.clone());
        for tool in [
            Declared::new("log").description("Recent commits of the repository"),
            Declared::new("paced").description("Called rarely"),
            Declared::new("wipe").description("Deletes everything").class(ToolClass::Destructive),
            Declared::new("hub__read_issue").description("Reads one issue of the tracker"),
            Declared::new("hub__create_issue").description("Opens a new issue").class(ToolClass::Write),
            Declared::new("hub__listPullRequests").description("Which changes wait for a review"),
        ] {
            options = options.tool(tool.share());
        }
        Self { bench: options.open(), secret, approver, _scratch: scratch }
    }

    fn offered(&self, caller: Caller) -> Vec<String> {
        let tools = self.bench.wait(self.bench.gate().offered_tools(caller)).unwrap();
        tools.iter().map(|tool| tool.spec().name.to_string()).collect()
    }

    fn found(&self, caller: Caller, query: &str) -> Vec<String> {
        let called = self.bench.call_as(caller, "find_tools", json!({"query": query}));
        assert!(called.failed.is_none(), "{:?}", called.failed);
        let structured = called.structured().unwrap();
        let tools = structured["tools"].as_array().unwrap().clone();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// A call through `call_tool`.
    fn indirect(&self, caller: Caller, tool: &str, arguments: Value) -> CallResponse {
        self.bench.call_as(caller, "call_tool", json!({"name": tool, "arguments": arguments}))
    }

    fn recorded(&self, called: &CallResponse) -> (String, Decision) {
        let record = self.bench.record(called.call);
        (record.tool.name, record.decision)
    }
}

fn reader() -> Caller {
    Caller { agent: Some("reader".parse().unwrap()), ..person("s1") }
}

fn guided() -> Caller {
    Caller { trust: Trust::Guided, ..person("s1") }
}

#[test]
fn above_the_threshold_most_tools_are_found_instead_of_offered() {
    let desk = Desk::new("");
    let offered = desk.offered(person("s1"));
    for listed in ["read_file", "log", "find_tools", "call_tool"] {
        assert!(offered.iter().any(|name| name == listed), "{listed}: {offered:?}");
    }
    for hidden in ["paced", "wipe", "hub__read_issue", "hub__create_issue"] {
        assert!(!offered.iter().any(|name| name == hidden), "{hidden}: {offered:?}");
    }
    // Few tools are all offered, without a search.
    assert_eq!(desk.offered(reader()), ["log", "hub__read_issue"]);
}

#[test]
fn tools_are_found_by_name_description_and_arguments() {
    let desk = Desk::new("");
    for (query, first) in [
        ("open an issue", "hub__create_issue"),
        ("reading issues", "hub__read_issue"),
        ("pull request review", "hub__listPullRequests"),
        ("deletes everything", "wipe"),
        ("commits", "log"),
        ("hub__create_issue", "hub__create_issue"),
    ] {
        assert_eq!(desk.found(person("s1"), query)[0], first, "{query}");
    }
    assert!(desk.found(person("s1"), "xylophone").is_empty());
    let called = desk.bench.must("find_tools", json!({"query": "issue", "max_results": 1}));
    assert!(called.answer.text.contains("\"properties\""), "{}", called.answer.text);
    for bad in [json!({}), json!({"query": ""}), json!({"query": "x", "max_results": 0})] {
        assert_eq!(code_of(&desk.bench.call("find_tools", bad)), Some(ErrorCode::InvalidArguments));
    }
}

#[test]
fn a_search_tells_only_of_what_its_caller_may_use() {
    let desk = Desk::new("");
    assert!(desk.found(person("s1"), "secret").contains(&"secret".to_owned()));
    for query in ["secret", "Reads every secret", "wipe", "deletes everything", "create issue"] {
        let found = desk.found(reader(), query);
        assert!(found.iter().all(|name| name == "log" || name == "hub__read_issue"), "{query}: {found:?}");
    }
    // Nor do the numbers tell of others.
    let called = desk.bench.call_as(reader(), "find_tools", json!({"query": "nothing of the kind"}));
    assert_eq!(called.structured().unwrap()["searched"], 2);
}

#[test]
fn an_indirect_call_is_decided_and_recorded_as_the_call_that_it_names() {
    let desk =
        Desk::new("forbid(principal, action == Action::\"log\", resource) when { context.input has text };");
    let done = desk.indirect(person("s1"), "log", json!({"count": 3}));
    assert_eq!(done.answer.text, "{\"count\":3}", "{:?}", done.failed);
    assert_eq!(desk.recorded(&done), ("log".to_owned(), Decision::Allowed));
    // Permissions, policies, schemas and rates are those of the tool.
    for (caller, tool, arguments, stage, code) in [
        (reader(), "secret", json!({}), Stage::Permission, ErrorCode::NotPermitted),
        (reader(), "read_file", json!({"path": "a"}), Stage::Permission, ErrorCode::NotPermitted),
        (person("s1"), "log", json!({"text": "x"}), Stage::Permission, ErrorCode::NotPermitted),
        (person("s1"), "log", json!({"count": "x"}), Stage::Validation, ErrorCode::InvalidArguments),
        (person("s1"), "nothing", json!({}), Stage::Registry, ErrorCode::UnknownTool),
    ] {
        let refused = desk.indirect(caller, tool, arguments.clone());
        let (at, failure) = refused.failed.clone().expect("it was allowed");
        assert_eq!((at, failure.code), (stage, code), "{tool} {arguments}");
        assert_eq!(desk.recorded(&refused).0, tool);
    }
    assert_eq!(desk.secret.runs(), 0);
    assert_eq!(code_of(&desk.indirect(person("s1"), "paced", json!({}))), None);
    assert_eq!(code_of(&desk.bench.call("paced", json!({}))), Some(ErrorCode::RateLimited));
    assert_eq!(code_of(&desk.indirect(person("s1"), "paced", json!({}))), Some(ErrorCode::RateLimited));
}

#[test]
fn a_person_is_asked_about_the_call_that_is_named() {
    let desk = Desk::new("");
    desk.approver.will_reply(ApprovalReply::Denied(None));
    let refused = desk.indirect(guided(), "wipe", json!({"text": "all"}));
    assert_eq!(code_of(&refused), Some(ErrorCode::ApprovalDenied));
    let asked = desk.approver.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!((asked[0].tool.as_str(), &asked[0].input), ("wipe", &json!({"text": "all"})));
}

#[test]
fn an_indirect_call_names_no_other_and_nothing_else() {
    let desk = Desk::new("");
    let nested = json!({"name": "call_tool", "arguments": {"name": "log", "arguments": {}}});
    for bad in [
        nested,
        json!({"name": "call_tool"}),
        json!({"arguments": {}}),
        json!({"name": 1}),
        json!({"name": "log", "arguments": "{}"}),
        json!({"name": "log", "arguments": {}, "trust": "autonomous"}),
        json!([]),
    ] {
        let refused = desk.bench.call("call_tool", bad.clone());
        let (stage, failure) = refused.failed.clone().expect("it was allowed");
        assert_eq!((stage, failure.code), (Stage::Validation, ErrorCode::InvalidArguments), "{bad}");
        assert_eq!(desk.recorded(&refused), ("call_tool".to_owned(), Decision::Denied), "{bad}");
    }
    // Looking for tools by way of it is looking for tools.
    let found = desk.indirect(reader(), "find_tools", json!({"query": "secret"}));
    assert_eq!(desk.recorded(&found), ("find_tools".to_owned(), Decision::Allowed));
    assert!(!found.answer.text.contains("secret"), "{}", found.answer.text);
}

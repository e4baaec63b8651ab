//! What a subscriber learns of a call: stages, caller, tool and outcome, and nothing that the call carried.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use toolgate_attack::{Bench, BenchOptions, Scratch, person};
use toolgate_gate::{ApprovalReply, SPAN_TARGET};
use toolgate_tools::Profile;
use toolgate_types::{Caller, ToolCall, Trust};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

use crate::approval::Scripted;

const CANARY: &str = "canary-4711";

type Fields = BTreeMap<String, String>;

/// The spans that have ended, with their parents' names.
#[derive(Clone, Default)]
struct Collector {
    ended: Arc<Mutex<Vec<Fields>>>,
    events: Arc<Mutex<Vec<Fields>>>,
}

struct Collected(Fields);

impl Visit for Collected {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for Collector {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        if span.metadata().target() != SPAN_TARGET {
            return;
        }
        let mut collected = Collected(Fields::new());
        attributes.record(&mut collected);
        collected.0.insert("name".to_owned(), span.name().to_owned());
        let parent = span.parent().map_or("", |parent| parent.name());
        collected.0.insert("parent".to_owned(), parent.to_owned());
        span.extensions_mut().insert(collected);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        let mut extensions = span.extensions_mut();
        if let Some(collected) = extensions.get_mut::<Collected>() {
            values.record(collected);
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() == SPAN_TARGET {
            let mut collected = Collected(Fields::new());
            event.record(&mut collected);
            self.events.lock().unwrap().push(collected.0);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let span = context.span(&id).unwrap();
        if let Some(Collected(fields)) = span.extensions_mut().remove::<Collected>() {
            self.ended.lock().unwrap().push(fields);
        }
    }
}

impl Collector {
    /// The spans that `deed` left behind, in the order in which they ended.
    fn spans(deed: impl FnOnce()) -> Vec<Fields> {
        let collector = Self::default();
        tracing::subscriber::with_default(Registry::default().with(collector.clone()), deed);
        assert_eq!(*collector.events.lock().unwrap(), Vec::<Fields>::new());
        std::mem::take(&mut *collector.ended.lock().unwrap())
    }
}

fn bench(scratch: &Scratch) -> Bench {
    let workspace = scratch.folder("w");
    std::fs::write(workspace.join(format!("{CANARY}.txt")), CANARY).unwrap();
    BenchOptions::new(Profile::NATIVE, &workspace, &scratch.folder("s"))
        .config("agents:\n  reader: {}\n")
        .approver(Scripted::new([ApprovalReply::Once, ApprovalReply::Denied(None)]), Duration::from_secs(5))
        .open()
}

fn of<'f>(spans: &'f [Fields], name: &str) -> Vec<&'f Fields> {
    spans.iter().filter(|span| span["name"] == name).collect()
}

#[test]
fn a_call_has_a_span_and_one_below_it_for_each_stage() {
    let scratch = Scratch::new();
    let bench = bench(&scratch);
    let mut id = None;
    let spans = Collector::spans(|| {
        let call = ToolCall::new("read_file", json!({"path": format!("{CANARY}.txt")}));
        id = Some(call.id.to_string());
        bench.make(call, person("s1"));
    });
    let stages: Vec<&str> = of(&spans, "stage").iter().map(|span| span["toolgate.stage"].as_str()).collect();
    let expected = ["REGISTRY", "AUTH", "PERMISSION", "VALIDATION", "APPROVAL", "EXECUTION", "OUTPUT"];
    assert_eq!(stages, expected);
    for stage in of(&spans, "stage") {
        assert_eq!(
            (stage["parent"].as_str(), stage["toolgate.outcome"].as_str()),
            ("execute_tool", "passed")
        );
        assert_eq!(Some(&stage["gen_ai.tool.call.id"]), id.as_ref());
    }
    let [call] = of(&spans, "execute_tool")[..] else { panic!("{spans:?}") };
    for (field, value) in [
        ("otel.name", "execute_tool read_file"),
        ("gen_ai.operation.name", "execute_tool"),
        ("gen_ai.tool.name", "read_file"),
        ("user.id", person("s1").subject.as_str()),
        ("session.id", "s1"),
        ("toolgate.decision", "ALLOWED"),
        ("parent", ""),
    ] {
        assert_eq!(call.get(field).map(String::as_str), Some(value), "{field} of {call:?}");
    }
    assert_eq!(Some(&call["gen_ai.tool.call.id"]), id.as_ref());
    assert!(!call.contains_key("error.type"), "{call:?}");
}

#[test]
fn a_refused_call_ends_its_trace_at_the_stage_that_refused() {
    let scratch = Scratch::new();
    let bench = bench(&scratch);
    let spans = Collector::spans(|| {
        let caller =
            Caller { agent: Some("reader".parse().unwrap()), trust: Trust::Autonomous, ..person("s1") };
        bench.call_as(caller, "write_file", json!({"path": "b", "content": "x"}));
    });
    let last = of(&spans, "stage").last().copied().cloned().unwrap();
    assert_eq!(
        (last["toolgate.stage"].as_str(), last["toolgate.outcome"].as_str()),
        ("PERMISSION", "refused")
    );
    let [call] = of(&spans, "execute_tool")[..] else { panic!("{spans:?}") };
    assert_eq!(
        (call["toolgate.decision"].as_str(), call["toolgate.stage"].as_str()),
        ("DENIED", "PERMISSION")
    );
    assert_eq!((call["error.type"].as_str(), call["otel.status_code"].as_str()), ("not_permitted", "ERROR"));
    assert_eq!(call["gen_ai.agent.name"], "reader");
}

/// The path, the content, the client's id for the call, an unknown key and the name of a tool that does not exist: all of it may be content of a file.
#[test]
fn a_trace_holds_no_argument() {
    let scratch = Scratch::new();
    let bench = bench(&scratch);
    let file = format!("{CANARY}.txt");
    let calls: [(&str, Trust, Value); 7] = [
        ("read_file", Trust::Autonomous, json!({"path": file})),
        ("read_file", Trust::Autonomous, json!({"path": format!("../{CANARY}")})),
        ("read_file", Trust::Autonomous, json!({CANARY: CANARY})),
        ("search_files", Trust::Autonomous, json!({"pattern": CANARY})),
        ("write_file", Trust::Guided, json!({"path": format!("{CANARY}-2"), "content": CANARY})),
        ("write_file", Trust::Guided, json!({"path": format!("{CANARY}-3"), "content": CANARY})),
        (CANARY, Trust::Autonomous, json!({})),
    ];
    let count = calls.len() + 1;
    let spans = Collector::spans(|| {
        for (tool, trust, arguments) in calls {
            let call = ToolCall { client_id: Some(CANARY.to_owned()), ..ToolCall::new(tool, arguments) };
            bench.make(call, Caller { trust, ..person("s1") });
        }
        // The person never answers, and the caller gives up.
        let arguments = json!({"path": format!("{CANARY}-4"), "content": CANARY});
        bench.abandon(Caller { trust: Trust::Guided, ..person("s1") }, "write_file", arguments);
    });
    assert_eq!(of(&spans, "execute_tool").len(), count);
    for span in &spans {
        assert!(!format!("{span:?}").contains(CANARY), "{span:?}");
    }
    let unknown =
        spans.iter().find(|span| span.get("gen_ai.tool.name").is_some_and(|name| name == "(unknown)"));
    assert_eq!(unknown.unwrap()["error.type"], "unknown_tool");
}

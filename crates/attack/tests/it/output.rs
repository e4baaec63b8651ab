//! The output policy: what an answer may contain, in every part of it.

use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use toolgate_attack::{Bench, BenchOptions, Scratch, code_of, person};
use toolgate_gate::CallOptions;
use toolgate_policy::OutputRule::{self, Allow, Mask, Redact};
use toolgate_tools::{CallResponse, Profile};
use toolgate_types::{
    Decision, DocumentContent, ErrorCode, JsonObjectWriter, ResourceContent, Sha256, Stage, StateKey,
    ToolCall, ToolOutput,
};

use crate::declared::Declared;

/// Stands for everything that must not be returned.
const SECRET: &str = "s3cr3t";

struct Desk {
    bench: Bench,
    audit: std::path::PathBuf,
    _scratch: Scratch,
}

impl Desk {
    /// A tool that answers with this text and this value.
    fn new(profile: Profile, text: &str, value: Value, schema: Value, rules: &[(&str, OutputRule)]) -> Self {
        Self::answering(profile, ToolOutput::new(text, value), schema, rules)
    }

    fn answering(profile: Profile, output: ToolOutput, schema: Value, rules: &[(&str, OutputRule)]) -> Self {
        let tool = Declared::new("customer")
            .output(schema, rules)
            .tells(SECRET)
            .answers(move |_| Ok(output.clone()));
        let scratch = Scratch::new();
        let state = scratch.folder("s");
        let bench = BenchOptions::new(profile, &scratch.folder("w"), &state).tool(tool.share()).open();
        Self { bench, audit: state.join("audit"), _scratch: scratch }
    }

    fn call(&self) -> CallResponse {
        self.bench.call("customer", json!({}))
    }

    /// Fails if the secret is anywhere but in the tool.
    fn keeps_secret(&self, called: &CallResponse) {
        let mut heard = format!("{:?} {:?}", called.answer, called.failed);
        for entry in std::fs::read_dir(&self.audit).unwrap() {
            heard.push_str(&String::from_utf8_lossy(
                &std::fs::read(entry.unwrap().path()).unwrap_or_default(),
            ));
        }
        assert!(!heard.contains(SECRET), "{heard}");
    }
}

/// The audited digest of an answer.
fn digest(answer: &str) -> Sha256 {
    toolgate_audit::output_digest(&StateKey::new([7; 32]), Sha256::of(answer.as_bytes()))
}

#[test]
fn fields_are_masked_redacted_or_dropped_in_every_part_of_the_answer() {
    let value = json!({
        "name": "Ada", "email": "ada@example.com", "key": SECRET, "card": {"number": SECRET}, "notes": [SECRET],
        "orders": [{"id": 1, "address": SECRET}, {"id": 2, "address": SECRET}],
    });
    let rules = [("name", Allow), ("email", Mask), ("key", Redact), ("card", Redact), ("orders[].id", Allow)];
    let raw = format!("name: Ada, key: {SECRET}");
    let desk = Desk::new(Profile::NATIVE, &raw, value, json!({"type": "object"}), &rules);
    let called = desk.call();
    let expected = json!({
        "name": "Ada", "email": "a***m", "key": "[redacted]", "card": "[redacted]", "orders": [{"id": 1}, {"id": 2}],
    });
    assert_eq!(called.structured(), Some(expected.clone()));
    let text: Value = serde_json::from_str(&called.answer.text).unwrap();
    assert_eq!(text, expected, "the text says something else");
    desk.keeps_secret(&called);
    let record = desk.bench.record(called.call);
    assert_eq!(record.decision, Decision::Allowed);
    let response = record.response.unwrap();
    assert_eq!(response.redacted_fields, ["email", "key", "card", "?", "orders.*.?"]);
    // The record describes the tool's raw output, not the filtered one.
    assert_eq!((response.output_hash, response.output_bytes), (digest(&raw), raw.len() as u64));
}

/// Names in an answer may be data: the record only contains those that the operator declared.
#[test]
fn names_that_nobody_declared_are_not_in_the_record() {
    let value =
        json!({"people": {SECRET: {"age": 36}, "ada": {"age": 37}}, "email": "a@b.example", "total": 2});
    let schema = json!({
        "type": "object",
        "properties": {"people": {"type": "object", "additionalProperties": {"properties": {"age": {}}}}},
    });
    let desk = Desk::new(Profile::NATIVE, "", value, schema, &[("total", Allow), ("email", Redact)]);
    let called = desk.call();
    desk.keeps_secret(&called);
    assert_eq!(called.structured(), Some(json!({"email": "[redacted]", "total": 2})));
    let recorded = desk.bench.record(called.call).response.unwrap().redacted_fields;
    assert_eq!(recorded, ["email", "people"]);
    let value = json!({"people": {SECRET: {"age": 36}, "ada": {"age": 37}}});
    let rules = [("people.*.age", Redact), ("people.ada", Allow)];
    let desk = Desk::new(Profile::NATIVE, "", value, json!({"type": "object"}), &rules);
    let called = desk.call();
    let recorded = desk.bench.record(called.call).response.unwrap().redacted_fields;
    assert!(recorded.contains(&"people.?.age".to_owned()), "{recorded:?}");
    assert!(!recorded.concat().contains(SECRET), "{recorded:?}");
}

#[test]
fn what_a_tool_puts_into_words_itself_is_checked_and_filtered_all_the_same() {
    let words = || JsonObjectWriter::with_capacity(64).field("name", &"Ada").field("key", &SECRET).finish();
    let output = || ToolOutput { text_field: Some("content"), ..ToolOutput::new(SECRET, words()) };
    let call = |schema: Value| {
        let desk = Desk::answering(Profile::NATIVE, output(), schema, &[("name", Allow)]);
        let called = desk.call();
        desk.keeps_secret(&called);
        called
    };
    assert_eq!(call(json!({"type": "object"})).structured(), Some(json!({"name": "Ada"})));
    let refused = call(json!({"type": "object", "required": ["id"]}));
    assert_eq!(code_of(&refused), Some(ErrorCode::OutputInvalid));
}

#[test]
fn what_a_tool_shows_by_address_does_not_leave_past_a_policy() {
    let file = ResourceContent::File(DocumentContent::Text(SECRET.into()));
    let page = ResourceContent::Page { files: vec![(SECRET.to_owned(), 1)], next: Some(SECRET.to_owned()) };
    for browsed in [file, page] {
        let output = ToolOutput::from_resource(browsed.clone(), json!({"name": "Ada", "key": SECRET}));
        let desk = Desk::answering(Profile::NATIVE, output, json!({"type": "object"}), &[("name", Allow)]);
        let called = desk.call();
        desk.keeps_secret(&called);
        assert_eq!((&called.resource, called.structured()), (&None, Some(json!({"name": "Ada"}))));
        // The record describes the tool's raw output, not the filtered one.
        let recorded = desk.bench.record(called.call).response.unwrap();
        assert_eq!(recorded.output_hash, digest(&browsed.data()));
        assert_eq!(recorded.redacted_fields, ["?"]);
    }
}

#[test]
fn text_that_may_leave_stays_text_and_other_text_does_not_leave() {
    let answer = |rules: &[(&str, OutputRule)]| {
        let desk =
            Desk::new(Profile::NATIVE, SECRET, json!("a line\nanother"), json!({"type": "string"}), rules);
        let called = desk.call();
        desk.keeps_secret(&called);
        (called.answer.text.clone(), called.structured().unwrap())
    };
    assert_eq!(answer(&[("*", Allow)]), ("a line\nanother".to_owned(), json!("a line\nanother")));
    assert_eq!(answer(&[("*", Mask)]), ("a***r".to_owned(), json!("a***r")));
    assert_eq!(answer(&[("*", Redact)]), ("[redacted]".to_owned(), json!("[redacted]")));
    assert_eq!(answer(&[]), ("null".to_owned(), Value::Null));
    assert_eq!(answer(&[("other", Allow)]), ("null".to_owned(), Value::Null));
}

#[test]
fn no_shape_of_an_answer_lets_a_dropped_field_out() {
    let secret = || json!({"deep": [SECRET, {"deeper": SECRET}]});
    let shapes = [
        json!(SECRET),
        json!([SECRET]),
        secret(),
        json!({"open": 1, "closed": secret()}),
        json!({"open": {"closed": SECRET}}),
        json!([{"open": 1, "closed": SECRET}, SECRET, [[SECRET]]]),
        json!({"closed.open": SECRET, "": SECRET, "*": SECRET, "open\u{0}": SECRET, "OPEN": SECRET}),
        json!({"closed": {"open": {"open": SECRET}}}),
    ];
    for rules in [
        vec![],
        vec![("open", Allow), ("open.*", Redact)],
        vec![("open", Redact)],
        vec![("open.open", Allow)],
    ] {
        for value in &shapes {
            for profile in [Profile::NATIVE, Profile::SIDECAR, Profile::STUDIO] {
                let desk = Desk::new(profile, SECRET, value.clone(), json!(true), &rules);
                let called = desk.call();
                assert_eq!(called.failed, None, "{value}");
                desk.keeps_secret(&called);
            }
        }
    }
}

#[test]
fn output_that_must_be_filtered_is_not_told_while_it_comes() {
    let heard = Arc::new(Mutex::new(String::new()));
    let told = |rules: Option<&[(&str, OutputRule)]>| {
        let scratch = Scratch::new();
        let mut tool = Declared::new("customer").tells(SECRET);
        if let Some(rules) = rules {
            tool = tool.output(json!(true), rules);
        }
        let bench = BenchOptions::new(Profile::NATIVE, &scratch.folder("w"), &scratch.folder("s"))
            .tool(tool.share())
            .open();
        heard.lock().unwrap().clear();
        let ear = Arc::clone(&heard);
        let progress: toolgate_gate::Progress = Arc::new(move |said| ear.lock().unwrap().push_str(said.text));
        let options = CallOptions { progress: Some(progress), ..CallOptions::default() };
        let called =
            bench.wait(bench.front().call(ToolCall::new("customer", json!({})), person("s1"), options));
        assert_eq!(called.failed, None);
        heard.lock().unwrap().clone()
    };
    assert_eq!(told(Some(&[("*", Allow)])), "");
    assert_eq!(told(Some(&[])), "");
    assert_eq!(told(None), SECRET);
}

#[test]
fn an_answer_is_checked_before_it_is_filtered() {
    let schema = json!({"type": "object", "properties": {"key": {"type": "integer"}}, "required": ["key"]});
    // Filtering first would hide a schema violation, or cause one.
    let desk =
        Desk::new(Profile::NATIVE, SECRET, json!({"key": SECRET}), schema.clone(), &[("other", Allow)]);
    let called = desk.call();
    assert_eq!(code_of(&called), Some(ErrorCode::OutputInvalid));
    assert_eq!(desk.bench.record(called.call).denial.unwrap().stage, Stage::Output);
    desk.keeps_secret(&called);
    let desk = Desk::new(Profile::NATIVE, "", json!({"key": 7}), schema, &[("other", Allow)]);
    let called = desk.call();
    assert_eq!((called.failed.as_ref(), called.answer.text.as_str()), (None, "{}"));
    assert_eq!(desk.bench.record(called.call).response.unwrap().redacted_fields, ["key"]);
}

/// A gate with one tool of this answer; the call, and the digest that its record holds.
fn recorded(tool: Declared, output: &ToolOutput) -> (CallResponse, Option<Sha256>) {
    let scratch = Scratch::new();
    let output = output.clone();
    let tool = tool.answers(move |_| Ok(output.clone()));
    let bench = BenchOptions::new(Profile::NATIVE, &scratch.folder("w"), &scratch.folder("s"))
        .tool(tool.share())
        .open();
    let called = bench.call("customer", json!({}));
    let recorded = bench.record(called.call).response.map(|response| response.output_hash);
    (called, recorded)
}

#[test]
fn the_answer_of_a_built_in_tool_is_checked_like_any_other() {
    let schema = json!({"type": "object", "properties": {"key": {"type": "integer"}, "names": {"type": "array",
        "items": {"type": "string"}}, "least": {"minimum": 2}}, "required": ["key"], "additionalProperties": false});
    let writer = || JsonObjectWriter::with_capacity(0);
    for (written, fits) in [
        (writer().field("key", &7), true),
        (writer().field("key", &7).field("names", &vec!["a"]), true),
        (writer().field("key", &7).field("names", &["a"]), true),
        (writer().field("key", &7).field("least", &2), true),
        (writer().field("key", &7).field("least", &1), false),
        (writer().field("key", &7).field("names", &[1]), false),
        (writer().field("key", &SECRET), false),
        (writer().field("key", &7).field("other", &SECRET), false),
        (writer(), false),
    ] {
        let output = ToolOutput::new("text", written.finish());
        let (called, hash) = recorded(Declared::new("customer").built_in_file_tool(schema.clone()), &output);
        let code = (!fits).then_some(ErrorCode::OutputInvalid);
        assert_eq!((code_of(&called), hash), (code, Some(digest("text"))), "{output:?}");
        assert!(!format!("{:?}", called.answer).contains(SECRET));
    }
}

#[test]
fn the_record_holds_the_digest_of_the_answer_of_any_tool() {
    for text in [String::new(), "short".to_owned(), "long ".repeat(1000)] {
        let output = ToolOutput { text_field: Some("content"), ..ToolOutput::new(text.as_str(), json!({})) };
        let built_in = Declared::new("customer").built_in_file_tool(json!({"type": "object"}));
        for tool in [built_in, Declared::new("customer")] {
            let (called, hash) = recorded(tool, &output);
            assert_eq!((code_of(&called), hash), (None, Some(digest(&text))));
        }
    }
}

/// The digest is that of the bytes that were read, not what another process writes concurrently: of short files, of files that are hashed
/// on a second thread, and of files that are compared with the cached text.
#[test]
fn a_file_that_is_overwritten_while_it_is_read_has_the_digest_of_its_answer() {
    let scratch = Scratch::new();
    let work = scratch.folder("w");
    let options = BenchOptions::new(Profile::NATIVE, &work, &scratch.folder("s"));
    let bench = options.config("limits:\n  max_read_bytes: 4194304\n").open();
    for (length, reads) in [(1 << 10, 200), (900 << 10, 40)] {
        let contents = ["a", "é"].map(|letter| letter.repeat(length / letter.len()));
        let path = work.join("shared.txt");
        std::fs::write(&path, &contents[0]).unwrap();
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Written in place and in parts: a read may see any mixture.
                let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
                for content in contents.iter().cycle().take_while(|_| !ended.load(Ordering::Relaxed)) {
                    for (index, part) in content.as_bytes().chunks(length / 8).enumerate() {
                        file.write_all_at(part, (index * (length / 8)) as u64).unwrap();
                    }
                }
            });
            for _ in 0..reads {
                let called = bench.call("read_file", json!({"path": "shared.txt"}));
                let (recorded, structured) = (bench.record(called.call), called.structured().unwrap());
                // Cut within a letter it is not text, and its answer is a sentence about it.
                if structured["binary"] == json!(false) {
                    let of_answer = Sha256::of(called.answer.text.as_bytes());
                    assert_eq!(structured["sha256"], of_answer.to_string());
                }
                assert_eq!(recorded.response.unwrap().output_hash, digest(&called.answer.text));
            }
            ended.store(true, Ordering::Relaxed);
        });
    }
}

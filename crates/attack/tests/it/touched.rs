//! What the record says of what a call touched: names, and never what a file, an argument or an answer holds.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::{Value, json};
use toolgate_attack::{Bench, BenchOptions, Scratch, person};
use toolgate_audit::{CallDetails, DetailsKey};
use toolgate_gate::UndoOptions;
use toolgate_tools::{CallResponse, Profile};
use toolgate_types::{Caller, Trust};

/// Stands for everything that a record must not hold.
const CONTENT: &str = "c0ntent-0f-a-file";

struct Desk {
    bench: Bench,
    audit: PathBuf,
    _scratch: Scratch,
}

impl Desk {
    fn new(config: &str) -> Self {
        let scratch = Scratch::new();
        let (workspace, state) = (scratch.folder("w"), scratch.folder("s"));
        std::fs::create_dir(workspace.join("src")).unwrap();
        for name in ["src/a.txt", "src/b.txt", ".env"] {
            std::fs::write(workspace.join(name), format!("{CONTENT}\n")).unwrap();
        }
        let bench = BenchOptions::new(Profile::NATIVE, &workspace, &state).commands().config(config).open();
        Self { bench, audit: state.join("audit"), _scratch: scratch }
    }

    fn details(&self, called: &CallResponse) -> Option<CallDetails> {
        self.bench.record(called.call).details
    }

    /// The details of a call as JSON.
    fn touched(&self, tool: &str, arguments: Value) -> Value {
        let called = self.bench.call(tool, arguments);
        serde_json::to_value(self.details(&called)).unwrap()
    }

    fn lines(&self) -> String {
        let days = std::fs::read_dir(&self.audit).unwrap().map(|entry| entry.unwrap().path());
        let days = days.filter(|path| path.extension().is_some_and(|end| end == "jsonl"));
        days.map(|path| std::fs::read_to_string(path).unwrap()).collect()
    }
}

#[test]
fn the_record_names_what_a_call_touched_and_nothing_of_its_content() {
    let desk = Desk::new("");
    let patch = format!("--- a/src/a.txt\n+++ b/src/a.txt\n@@ -1 +1 @@\n-{CONTENT}-new\n+{CONTENT}-newer\n");
    for (tool, arguments, expected) in [
        ("read_file", json!({"path": "src/a.txt"}), json!({"paths": ["@project/src/a.txt"]})),
        (
            "read_file",
            json!({"path": "@project/./src/../src/a.txt"}),
            json!({"paths": ["@project/src/a.txt"]}),
        ),
        ("read_file", json!({"path": ".env"}), json!({"paths": ["@project/.env"]})),
        ("read_file", json!({"path": "../../etc/passwd"}), json!({"paths": ["../../etc/passwd"]})),
        ("read_file", json!({"path": "missing"}), json!({"paths": ["@project/missing"]})),
        ("read_file", json!({"path": 7, "note": CONTENT}), Value::Null),
        ("list_directory", json!({}), json!({"paths": ["@project"]})),
        ("search_files", json!({"pattern": CONTENT}), json!({"paths": ["@project"]})),
        (
            "write_file",
            json!({"path": "new/c.txt", "content": CONTENT}),
            json!({"created": ["@project/new/c.txt"]}),
        ),
        (
            "edit_file",
            json!({"path": "src/a.txt", "old_text": CONTENT, "new_text": format!("{CONTENT}-new")}),
            json!({"modified": ["@project/src/a.txt"]}),
        ),
        ("apply_patch", json!({"patch": patch}), json!({"modified": ["@project/src/a.txt"]})),
        (
            "move_file",
            json!({"from": "src/b.txt", "to": "src/moved.txt"}),
            json!({"moved": ["@project/src/b.txt -> @project/src/moved.txt"]}),
        ),
        ("delete_file", json!({"path": "src/moved.txt"}), json!({"deleted": ["@project/src/moved.txt"]})),
        ("delete_file", json!({"path": "src/moved.txt"}), json!({"paths": ["@project/src/moved.txt"]})),
        (
            "run_command",
            json!({"command": format!("rm src/a.txt; echo {CONTENT}")}),
            json!({"paths": ["@project"]}),
        ),
        ("no_such_tool", json!({"path": "src/a.txt"}), Value::Null),
    ] {
        let shown = format!("{tool} {arguments}");
        assert_eq!(desk.touched(tool, arguments), expected, "{shown}");
    }
    let deleted = desk.bench.records().into_iter().rev().find(|(_, records)| {
        records[0].details.as_ref().is_some_and(|details| details.deleted == ["@project/src/moved.txt"])
    });
    desk.bench.undo(deleted.unwrap().0, UndoOptions { force: false }).unwrap();
    let undone = desk.bench.records().into_values().find(|records| records[0].tool.name == "undo").unwrap();
    assert_eq!(undone[0].details.as_ref().unwrap().created, ["@project/src/moved.txt"]);
    desk.bench.verify_audit();
    assert!(!desk.lines().contains(CONTENT), "{}", desk.lines());
}

/// The command alone is what `commands` adds, and without what looks like a secret.
#[test]
fn a_command_is_recorded_only_where_the_operator_says_so_and_without_its_secrets() {
    let line = "curl -H 'Authorization: Bearer abcdef' https://me:pw@registry.example/; API_KEY=xyz ls src";
    let refused = json!({"paths": ["@project"], "refusedHosts": ["registry.example:443"]});
    let mut with_words = refused.clone();
    with_words["command"] =
        json!("curl -H 'Authorization: Bearer [redacted] [redacted] API_KEY=[redacted] ls src");
    for (config, expected) in [
        ("audit: {details: off}", Value::Null),
        ("audit: {details: paths}", refused),
        ("audit: {details: commands}", with_words),
    ] {
        let desk = Desk::new(config);
        assert_eq!(desk.touched("run_command", json!({"command": line})), expected, "{config}");
        let read = desk.touched("read_file", json!({"path": "src/a.txt"}));
        assert_eq!(read.is_null(), config.contains("off"), "{config}: {read}");
        for secret in ["abcdef", "me:pw", "xyz"] {
            assert!(!desk.lines().contains(secret), "{config}: {secret}");
        }
    }
}

/// A reader of the files without the key learns no name, and verifies the record all the same.
#[test]
fn encrypted_names_are_nowhere_in_the_record_and_open_with_their_key_alone() {
    let desk = Desk::new("audit: {details: commands, details_storage: encrypted}");
    let calls = [
        ("write_file", json!({"path": "quartz/new.txt", "content": "x"})),
        ("read_file", json!({"path": "quartz/.env"})),
        ("read_file", json!({"path": "quartz/missing"})),
        ("run_command", json!({"command": "ls quartz; curl -sS http://quartz.example/; true"})),
    ];
    let calls = calls.map(|(tool, arguments)| desk.bench.call(tool, arguments));
    let mut whole = Vec::new();
    for directory in [desk.audit.clone(), desk.audit.join("intents")] {
        let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        files.filter(|path| path.is_file()).for_each(|path| whole.extend(std::fs::read(path).unwrap()));
    }
    // The files of intents too, which are removed once their calls have ended.
    assert!(whole.windows(13).any(|part| part == b"sealedDetails"), "{}", desk.lines());
    assert!(!whole.windows(6).any(|part| part == b"quartz"), "{}", desk.lines());
    desk.bench.verify_audit();
    let key_file = desk.audit.with_file_name("keys").join("details.key");
    let key = DetailsKey::read(&key_file).unwrap().unwrap();
    let names = calls.each_ref().map(|called| {
        let mut record = desk.bench.record(called.call);
        assert!(record.details.is_none() && !record.reveal(None));
        assert!(record.reveal(Some(&key)));
        serde_json::to_value(record.details).unwrap()
    });
    assert_eq!(names[0], json!({"created": ["@project/quartz/new.txt"]}));
    assert_eq!(names[1], json!({"paths": ["@project/quartz/.env"]}));
    assert_eq!(names[2], json!({"paths": ["@project/quartz/missing"]}));
    assert_eq!(names[3]["refusedHosts"], json!(["quartz.example:80"]));
    // Another key opens nothing, and neither does this one if the text belongs to another call.
    std::fs::remove_file(&key_file).unwrap();
    std::fs::write(&key_file, [7; 32]).unwrap();
    std::fs::set_permissions(&key_file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let other = DetailsKey::read(&key_file).unwrap().unwrap();
    let mut record = desk.bench.record(calls[0].call);
    assert!(!record.reveal(Some(&other)) && record.details.is_none());
    record.sealed_details = desk.bench.record(calls[1].call).sealed_details;
    assert!(!record.reveal(Some(&key)));
}

/// Neither an endless name nor a thousand of them make an endless record, and a key in a name is no exception.
#[test]
fn names_are_bounded_and_those_that_look_like_keys_are_redacted() {
    let desk = Desk::new("");
    let long = desk.bench.call("read_file", json!({"path": "x".repeat(200_000)}));
    let details = desk.details(&long).unwrap();
    assert_eq!(details.paths[0].chars().count(), 256);
    assert!(details.paths[0].ends_with("characters]"), "{}", details.paths[0]);
    let key = desk.touched("read_file", json!({"path": "src/ghp_0123456789abcdef0123"}));
    assert_eq!(key, json!({"paths": ["@project/src/[redacted]"]}));
    let patch: String = (0..100).map(|n| format!("--- /dev/null\n+++ b/n{n}\n@@ -0,0 +1 @@\n+x\n")).collect();
    let made = desk.bench.must("apply_patch", json!({"patch": patch}));
    let created = desk.details(&made).unwrap().created;
    assert_eq!((created.len(), created[63].as_str()), (64, "…[37 more]"));
}

/// A caller that is not who it says it is puts nothing into the record.
#[test]
fn a_caller_that_is_not_verified_names_nothing() {
    let desk = Desk::new("agents: {worker: {}}");
    let nobody =
        Caller { agent: Some("undeclared".parse().unwrap()), trust: Trust::Autonomous, ..person("s") };
    let called = desk.bench.call_as(nobody, "read_file", json!({"path": "src/a.txt"}));
    assert_eq!(desk.details(&called), None);
}

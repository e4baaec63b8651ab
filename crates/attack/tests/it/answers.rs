//! Answers stay within their limits, and report where they were truncated.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolgate_attack::{Bench, BenchOptions, Scratch, code_of};
use toolgate_tools::Profile;
use toolgate_types::ErrorCode;

struct Desk {
    workspace: PathBuf,
    bench: Bench,
    _scratch: Scratch,
}

impl Desk {
    fn new(profile: Profile) -> Self {
        let scratch = Scratch::new();
        let workspace = scratch.folder("w");
        let bench = BenchOptions::new(profile, &workspace, &scratch.folder("s")).open();
        Self { _scratch: scratch, workspace, bench }
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.workspace.join(path), content).unwrap();
    }

    fn answer(&self, tool: &str, arguments: Value) -> (String, Value) {
        let answer = self.bench.must(tool, arguments).answer;
        (answer.text, answer.structured.unwrap().into_value())
    }
}

#[test]
fn no_answer_is_longer_than_it_may_be() {
    let limit = usize::try_from(Profile::NATIVE.limits().max_output_bytes).unwrap();
    let desk = Desk::new(Profile::NATIVE);
    desk.write("long.txt", "x\n".repeat(150_000));
    // As many names as a listing may contain, each needing long escapes.
    for number in 0..1000 {
        desk.write(&format!("{number:04}{}", "\u{1}".repeat(200)), "");
    }
    let everything = json!({"path": "long.txt", "old_text": "x", "new_text": "y", "replace_all": true});
    let patch = format!("--- /dev/null\n+++ new.txt\n@@ -0,0 +1,150000 @@\n{}", "+line\n".repeat(150_000));
    for (tool, arguments) in [
        ("edit_file", everything),
        ("apply_patch", json!({"patch": patch})),
        ("find_files", json!({"glob": "*"})),
        ("list_directory", json!({})),
        ("search_files", json!({"pattern": "y", "max_matches": 1000, "after": 50})),
    ] {
        let (text, structured) = desk.answer(tool, arguments);
        assert!(text.len() <= limit, "{tool}: {} bytes", text.len());
        assert_eq!(structured["truncated"], true, "{tool}");
        assert!(
            text.ends_with("]\n") && text.contains("\n[truncated: "),
            "{tool}: {}",
            text.lines().last().unwrap_or_default()
        );
        if matches!(tool, "find_files" | "list_directory") {
            assert!(structured.to_string().len() <= limit, "{tool}: {}", structured.to_string().len());
        }
        if tool == "search_files" {
            assert!(!text.contains("max_matches"), "{}", text.lines().last().unwrap_or_default());
        }
    }
    // What fits is complete.
    let (text, structured) =
        desk.answer("edit_file", json!({"path": "new.txt", "edits": [{"old_text": "line\n", "new_text": "", "replace_all": true}], "dry_run": true}));
    assert_eq!(structured["truncated"], true, "{}", text.len());
    desk.write("small.txt", "a\n");
    let (_, structured) =
        desk.answer("edit_file", json!({"path": "small.txt", "old_text": "a", "new_text": "b"}));
    assert_eq!(structured["truncated"], false);
}

#[test]
fn a_listing_of_any_profile_keeps_within_the_limit() {
    for (profile, tool, path) in [
        (Profile::CLAW, "list_dir", "."),
        (Profile::SIDECAR, "list_directory", "."),
        (Profile::CREW, "fs.list", "@project"),
    ] {
        let desk = Desk::new(profile);
        for number in 0..1000 {
            desk.write(&format!("{number:04}{}", "n".repeat(250)), "");
        }
        let answer = desk.bench.must(tool, json!({"path": path})).answer;
        let limit = usize::try_from(profile.limits().max_output_bytes).unwrap();
        assert!(answer.text.len() <= limit, "{profile}: {} bytes", answer.text.len());
        assert!(answer.text.contains("truncated"), "{profile}");
    }
}

#[test]
fn a_notice_does_not_lead_in_a_circle() {
    let desk = Desk::new(Profile::NATIVE);
    desk.write("line.txt", "x".repeat(300_000));
    let (text, _) = desk.answer("read_file", json!({"path": "line.txt"}));
    assert!(
        text.contains("search the file") && !text.contains("go on with"),
        "{}",
        text.lines().last().unwrap_or_default()
    );
    desk.write("lines.txt", "x\n".repeat(300_000));
    let (text, _) = desk.answer("read_file", json!({"path": "lines.txt"}));
    assert!(text.contains("go on with start_line 131072"), "{}", text.lines().last().unwrap_or_default());
}

#[test]
fn a_crew_search_says_where_it_went() {
    let desk = Desk::new(Profile::CREW);
    std::fs::create_dir(desk.workspace.join("real")).unwrap();
    desk.write("real/a.txt", "needle\n");
    std::os::unix::fs::symlink("real", desk.workspace.join("link")).unwrap();
    for (path, shown) in [("@project/link", "@project/real"), ("@project/real/a.txt", "@project/real/a.txt")]
    {
        let (_, structured) = desk.answer("fs.search", json!({"path": path, "pattern": "needle"}));
        assert_eq!(
            (structured["path"].as_str(), structured["matches"].as_array().map(Vec::len)),
            (Some(shown), Some(1))
        );
    }
}

#[test]
fn malformed_paths_are_denied_but_no_violation() {
    let desk = Desk::new(Profile::STUDIO);
    let long = "x/".repeat(3000);
    for (path, code) in [
        ("", ErrorCode::InvalidPath),
        (long.as_str(), ErrorCode::InvalidPath),
        ("@nowhere/a", ErrorCode::UnknownAlias),
    ] {
        let called = desk.bench.call("file_read", json!({"path": path}));
        assert_eq!(code_of(&called), Some(code));
        assert!(code.is_denial());
        assert_eq!(called.structured().unwrap()["metadata"]["violation"], false, "{path}");
    }
}

#[test]
fn dropping_a_call_leaves_the_callers_token_alone() {
    use toolgate_attack::person;
    use toolgate_gate::CallOptions;
    use toolgate_types::{Caller, ToolCall, Trust};

    let scratch = Scratch::new();
    let silent = crate::approval::Scripted::new([]);
    let bench = BenchOptions::new(Profile::NATIVE, &scratch.folder("w"), &scratch.folder("s"))
        .approver(silent, Duration::from_secs(60))
        .open();
    let gate = Arc::clone(bench.gate());
    let token = CallOptions::default().cancelled;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let caller = || Caller { trust: Trust::Guided, ..person("s1") };
    let call = || ToolCall::new("write_file", json!({"path": "a", "content": ""}));
    let options = || CallOptions { cancelled: token.clone(), ..CallOptions::default() };
    runtime.block_on(async {
        tokio::select! {
            biased;
            _ = gate.call(call(), caller(), options()) => panic!("the call did not wait"),
            () = tokio::task::yield_now() => {}
        }
        assert!(!token.is_cancelled());
        token.cancel();
        let settled = gate.call(call(), caller(), options()).await;
        assert_eq!(settled.outcome.decision(), toolgate_types::Decision::Error);
    });
}

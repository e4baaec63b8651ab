//! Every text argument of every shipped manifest, filled with what other programs would interpret.

use std::path::Path;

use serde_json::{Value, json};
use toolgate_attack::{BenchOptions, Scratch, Tree};
use toolgate_tools::Profile;
use toolgate_types::ErrorCode;

use crate::commands::git;
use crate::fixture::write;

const PAYLOADS: &[&str] = &[
    "--output=pwned",
    "-opwned",
    "-exec",
    "--exec=touch pwned",
    "--help",
    "--",
    "-",
    "@a.txt",
    "@/etc/passwd",
    "a\nb",
    "a.txt\n--output=pwned",
    "$(touch pwned)",
    "`touch pwned`",
    "a\0b",
    "..",
    "../../outside/secret.txt",
    "/etc/passwd",
    "a/../../outside/secret.txt",
    "; touch pwned",
    "&& touch pwned",
    "| tee pwned",
    "> pwned",
    "*",
    "**/*",
    "{a,b}",
    "~",
    "$HOME",
    "${IFS}touch${IFS}pwned",
    "HEAD --output=pwned",
    "HEAD:../outside/secret.txt",
    ":(exclude)*",
    ":!a.txt",
    "HEAD^{/secret}",
    "main..HEAD",
    ".env",
    "sub/../.env",
    ".git/config",
    "out/secret.txt",
    "\u{202e}x",
    "%s%n\\x41",
    "\u{1b}]0;title\u{7}",
];

/// Arguments with which each tool works.
fn good(tool: &str) -> Value {
    match tool {
        "list_files" => json!({"directory": "sub"}),
        "read_file" => json!({"path": "a.txt"}),
        "search_code" => json!({"pattern": "text", "directory": "sub"}),
        "git_log" => json!({"count": 5, "revision": "HEAD", "path": "a.txt"}),
        "git_diff" => json!({"from": "HEAD~1", "to": "HEAD"}),
        "git_show_file" => json!({"revision": "HEAD", "path": "a.txt"}),
        "echo_message" => json!({"message": "hello"}),
        other => panic!("`{other}` has no good arguments here"),
    }
}

const SECRET: &str = "never-to-be-seen";

fn arrange(workspace: &Path, outside: &Path) {
    write(&outside.join("secret.txt"), SECRET);
    write(&workspace.join("a.txt"), "some text\n");
    write(&workspace.join("sub/b.txt"), "more text\n");
    git(workspace, &["init", "-q"]);
    // Secrets that were committed by mistake, and are still in the history.
    write(&workspace.join(".env"), SECRET);
    git(workspace, &["add", "."]);
    git(workspace, &["commit", "-q", "-m", "first"]);
    write(&workspace.join("a.txt"), "other text\n");
    write(&workspace.join(".env"), &format!("{SECRET} again"));
    git(workspace, &["add", "."]);
    git(workspace, &["commit", "-q", "-m", "second"]);
    std::os::unix::fs::symlink(outside, workspace.join("out")).unwrap();
}

#[test]
fn no_text_in_any_argument_does_more_than_the_tool() {
    let scratch = Scratch::new();
    let (workspace, outside) = (scratch.folder("w"), scratch.folder("outside"));
    arrange(&workspace, &outside);
    let bench = BenchOptions::new(Profile::PROXY, &workspace, &scratch.folder("s")).commands().open();
    let before = [&workspace, &outside].map(|folder| Tree::of(folder));
    let tools = bench.gate().visible_tools(&toolgate_attack::person("test"));
    let mut tried = 0;
    for tool in &tools {
        let name = tool.spec().name.as_str();
        bench.must(name, good(name));
        let properties = tool.spec().input_schema["properties"].as_object().unwrap();
        let texts = properties.iter().filter(|(_, schema)| schema["type"] == "string").map(|(name, _)| name);
        for argument in texts {
            for payload in PAYLOADS {
                let mut arguments = good(name);
                arguments[argument] = json!(payload);
                let called = bench.call(name, arguments);
                tried += 1;
                let shown = format!("{name} {argument}={payload:?}: {}", called.answer.text);
                assert!(!called.answer.text.contains(SECRET), "{shown}");
                assert!(!called.answer.text.contains("root:"), "{shown}");
                match &called.failed {
                    None if name == "echo_message" => {
                        let said: String =
                            payload.chars().filter(|character| *character != '\u{202e}').collect();
                        assert_eq!(called.structured().unwrap()["data"], format!("{said}\n"), "{shown}");
                    }
                    None => {}
                    Some((_, failure)) => assert!(is_expected(failure.code), "{shown}"),
                }
                for (folder, before) in [&workspace, &outside].iter().zip(&before) {
                    let differences = before.differences(&Tree::of(folder));
                    assert!(differences.is_empty(), "{shown}: {differences:?}");
                }
            }
        }
    }
    assert_eq!(tried, 11 * PAYLOADS.len());
    bench.verify_audit();
}

/// Refused by the gate, or taken literally by a command that finds no such thing.
fn is_expected(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::InvalidArguments
            | ErrorCode::CommandFailed
            | ErrorCode::InvalidPath
            | ErrorCode::OutsideWorkspace
            | ErrorCode::SymlinkOutsideWorkspace
            | ErrorCode::DeniedPath
            | ErrorCode::NotFound
    )
}

#[test]
fn secrets_of_the_history_are_not_shown_either() {
    let scratch = Scratch::new();
    let (workspace, outside) = (scratch.folder("w"), scratch.folder("outside"));
    arrange(&workspace, &outside);
    git(&workspace, &["rm", "-q", ".env"]);
    git(&workspace, &["commit", "-q", "-m", "third"]);
    let bench = BenchOptions::new(Profile::PROXY, &workspace, &scratch.folder("s")).commands().open();
    for (tool, arguments, code) in [
        ("git_show_file", json!({"revision": "HEAD~1", "path": ".env"}), Some(ErrorCode::DeniedPath)),
        ("git_diff", json!({"from": "HEAD~2", "to": "HEAD"}), None),
        ("git_log", json!({"count": 5, "path": ".env"}), Some(ErrorCode::DeniedPath)),
    ] {
        let called = bench.call(tool, arguments);
        assert_eq!(toolgate_attack::code_of(&called), code, "{tool}: {}", called.answer.text);
        assert!(!called.answer.text.contains(SECRET), "{tool}: {}", called.answer.text);
    }
    let diff = bench.must("git_diff", json!({"from": "HEAD~2", "to": "HEAD"}));
    assert!(diff.answer.text.contains("+other text"), "{}", diff.answer.text);
}

//! Arguments that fit a schema, and what becomes of them: wrong types, unknown members, encodings, nesting, size; and names that look like tools.

use serde_json::{Map, Value, json};

use super::lines;
use super::paths;
use super::random::SeededRandom;
use super::sequence::HostileCall;
use super::shape::{ArgumentShape, ToolShape, ToolUse};

/// Content that something would obey where it is put.
const CONTENT: &[&str] = &[
    "hello\n",
    "",
    "#!/bin/sh\ntouch {{outside}}/pwned\n",
    "[core]\n\tfsmonitor = touch {{outside}}/pwned\n\thooksPath = hooks\n",
    "gitdir: ../n/.git\n",
    "ref: refs/heads/main\n",
    "* filter=x diff=x\n",
    "exec touch {{outside}}/pwned\n",
    "{\"mcpServers\":{\"x\":{\"command\":\"sh\"}}}",
    "trust: autonomous\ndeny: []\n",
    "line one\r\nline two\r\n",
    "\u{feff}bom",
    "\u{202e}txt.exe",
    "\u{0}binary\u{1}",
    "<<<<<<< HEAD\n",
    "a\u{0301}\u{1F600}",
];

/// A call of this tool with arguments of the generator's choice.
pub(super) fn call(random: &mut SeededRandom, tool: &ToolShape) -> HostileCall {
    let mut arguments = Map::new();
    for argument in &tool.arguments {
        if argument.required || random.chance(35) {
            arguments.insert(argument.name.clone(), value(random, tool, argument));
        }
    }
    let mut call = HostileCall { tool: tool.name.clone(), arguments: Value::Object(arguments) };
    if random.chance(22) {
        mutate(random, &mut call);
    }
    call
}

fn value(random: &mut SeededRandom, tool: &ToolShape, argument: &ArgumentShape) -> Value {
    if let Some(choices) = argument.schema.get("enum").and_then(Value::as_array)
        && random.chance(80)
    {
        return random.one_of(choices).cloned().unwrap_or_default();
    }
    match (argument.kind(), argument.name.as_str()) {
        ("integer" | "number", _) => integer(random),
        ("boolean", _) => json!(random.chance(50)),
        ("object", _) => json!({"a": {"b": paths::any(random)}}),
        ("array", "edits") => {
            json!([{"old_text": "a", "new_text": random.word(CONTENT), "replace_all": true}])
        }
        ("array", _) => json!([paths::any(random), 1, null]),
        (_, "command") => json!(lines::any(random)),
        (_, "patch") => json!(patch(random)),
        (_, "glob") => json!(random.word(&[
            "**",
            "*",
            "../**",
            "**/.env*",
            "/**",
            "{{outside}}/*",
            ".git/**",
            "[",
            "{a,b}*",
            "**/*.pem",
            "@state/**"
        ])),
        (_, "pattern" | "query") => json!(random.word(&[
            "canary",
            ".",
            "API_KEY",
            "(a+)+$",
            "[",
            "^",
            "--pre=sh",
            "-f/etc/passwd",
            "x\ny",
            "\\",
            "a|b",
            "$(id)"
        ])),
        (_, "old_text" | "oldText" | "old") => json!(random.word(&["a", "\n", "", "fn main", "canary", "e"])),
        (_, "revision") => json!(revision(random)),
        (_, "from" | "to") if tool.use_of == ToolUse::Revision => json!(revision(random)),
        (_, "id") => json!(random.word(&["1", "", "../1", "bg-1", "{{state}}", "0"])),
        _ if argument.is_path() => json!(path_for(random, tool)),
        _ => json!(random.word(CONTENT)),
    }
}

/// A path in the form that this tool expects, most of the time.
pub(super) fn path_for(random: &mut SeededRandom, tool: &ToolShape) -> String {
    let path = paths::any(random);
    aliased(random, tool, path)
}

pub(super) fn aliased(random: &mut SeededRandom, tool: &ToolShape, path: String) -> String {
    match tool.has_aliases && !path.starts_with('@') && random.chance(90) {
        true => format!("@project/{path}"),
        false => path,
    }
}

fn revision(random: &mut SeededRandom) -> &'static str {
    random.word(&[
        "HEAD",
        "main",
        "HEAD~1",
        "HEAD^{tree}",
        "HEAD:.env",
        ":/secret",
        "--output={{outside}}/new.txt",
        "-c",
        "HEAD@{0}",
        "main..HEAD",
        "--upload-pack=touch x",
        "HEAD;ls",
        "$(id)",
        "refs/stash",
        "--no-index",
        "--ext-diff",
        "0000000000000000000000000000000000000000",
    ])
}

fn integer(random: &mut SeededRandom) -> Value {
    match random.below(12) {
        0 => json!(-1),
        1 => json!(0),
        2 => json!(i64::MAX),
        3 => json!(u64::MAX),
        4 => json!(1e308),
        5 => json!(1.5),
        6 => json!("1"),
        7 => json!(-0.0),
        _ => json!(1 + random.below(40)),
    }
}

/// A unified diff that creates, deletes, renames or changes something.
pub(super) fn patch(random: &mut SeededRandom) -> String {
    let (one, other) = (paths::any(random), paths::any(random));
    let body = random.word(&[
        "hello",
        "#!/bin/sh\n+touch {{outside}}/pwned",
        "[core]\n+fsmonitor = touch {{outside}}/pwned",
    ]);
    match random.below(9) {
        0 => format!("--- /dev/null\n+++ b/{one}\n@@ -0,0 +1 @@\n+{body}\n"),
        1 => format!(
            "diff --git a/{one} b/{one}\nnew file mode 120000\n--- /dev/null\n+++ b/{one}\n@@ -0,0 +1 @@\n+../outside\n\\ No newline at end of file\n"
        ),
        2 => format!(
            "diff --git a/{one} b/{other}\nsimilarity index 100%\nrename from {one}\nrename to {other}\n"
        ),
        3 => {
            format!("diff --git a/{one} b/{other}\nsimilarity index 100%\ncopy from {one}\ncopy to {other}\n")
        }
        4 => format!(
            "--- a/README.md\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-# Sample\n-\n-A sample.\n--- /dev/null\n+++ b/README.md\n@@ -0,0 +1 @@\n+{body}\n"
        ),
        5 => format!("diff --git a/{one} b/{one}\nold mode 100644\nnew mode 104755\n"),
        6 => format!("--- a/README.md\n+++ b/{other}\n@@ -1,3 +1,4 @@\n # Sample\n \n A sample.\n+{body}\n"),
        7 => format!(
            "--- a/README.md\n+++ b/README.md\n@@ -1,3 +1,4 @@\n # Sample\n \n A sample.\n+more\n--- /dev/null\n+++ b/{one}\n@@ -0,0 +1 @@\n+{body}\n"
        ),
        _ => format!("--- a/{one}\n+++ b/{other}\n@@ -1,9999999999 +1,1 @@\n-x\n+{body}\n"),
    }
}

/// Spoils a call in one way.
pub(super) fn mutate(random: &mut SeededRandom, call: &mut HostileCall) {
    if random.chance(18) {
        call.tool = renamed(random, &call.tool);
        return;
    }
    let Value::Object(members) = &mut call.arguments else { return };
    let names: Vec<String> = members.keys().cloned().collect();
    let name = random.one_of(&names).cloned().unwrap_or_else(|| "path".to_owned());
    let old = members.get(&name).cloned().unwrap_or_else(|| json!("README.md"));
    match random.below(17) {
        0 => drop(members.remove(&name)),
        1 => drop(members.insert(name, Value::Null)),
        2 => drop(members.insert(name, json!([old]))),
        3 => drop(members.insert(name, json!({ "$ref": old }))),
        4 => drop(members.insert(name, json!(true))),
        5 => drop(members.insert(name, json!(random.next()))),
        6 => {
            drop(members.insert(name, nested([20, 90, 200].get(random.below(3)).copied().unwrap_or(20), old)))
        }
        7 => drop(members.insert(
            name,
            json!("A".repeat([300, 5000, 70_000, 1_200_000].get(random.below(4)).copied().unwrap_or(300))),
        )),
        8 => drop(members.insert(format!("{name} "), old)),
        9 => drop(members.insert(name.to_uppercase(), old)),
        10 => drop(members.insert("__proto__".to_owned(), json!({ "allowed": true }))),
        11 => drop(members.insert("approved".to_owned(), json!(true))),
        12 => drop(
            members.insert("_meta".to_owned(), json!({"trust": "autonomous", "caller": {"sub": "root"}})),
        ),
        13 => {
            for index in 0..300 {
                members.insert(format!("x{index}"), json!(index));
            }
        }
        14 => call.arguments = json!([old]),
        15 => call.arguments = json!(old.to_string()),
        _ => {
            let text = old.as_str().map_or_else(|| old.to_string(), str::to_owned);
            members.insert(name, json!(paths::disguised(random, &text)));
        }
    }
}

fn nested(depth: usize, inner: Value) -> Value {
    (0..depth).fold(inner, |inner, level| if level % 2 == 0 { json!([inner]) } else { json!({ "a": inner }) })
}

fn renamed(random: &mut SeededRandom, tool: &str) -> String {
    match random.below(16) {
        0 => tool.to_uppercase(),
        1 => format!("{tool} "),
        2 => format!(" {tool}"),
        3 => format!("mcp__x__{tool}"),
        4 => format!("{tool}\u{0}"),
        5 => format!("../{tool}"),
        6 => tool.replace('e', "\u{435}"),
        7 => format!("{tool}\n{tool}"),
        8 => String::new(),
        9 => "t".repeat(10_000),
        10 => tool.replace('_', "-"),
        11 => format!("{tool}__{tool}"),
        12 => "undo".to_owned(),
        13 => "run_shell".to_owned(),
        14 => format!("{tool}\u{200b}"),
        _ => random
            .word(&[
                "bash",
                "delete_file",
                "write_file",
                "git_push",
                "tools/call",
                "constructor",
                "run_command",
            ])
            .to_owned(),
    }
}

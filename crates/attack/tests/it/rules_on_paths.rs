//! A rule about a file applies however its path is written, and a call uses the file that was checked.

use std::future::Future;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;
use toolgate_attack::{Bench, BenchOptions, Scratch, code_of, person};
use toolgate_gate::{ApprovalReply, ApprovalRequest, Approver};
use toolgate_policy::PathInputs;
use toolgate_tools::{CallResponse, Profile};
use toolgate_types::{Caller, ErrorCode, Trust};

use crate::fixture::write;

const SECRET: &str = "nobody-reads-this";

const FORBID: &str = r#"
    @id("secrets") forbid(principal, action, resource) when { context has path && context.path in Path::"@project/secrets" };
    @id("keys") forbid(principal, action, resource) when { context has path && context.path.location like "*.key" };
"#;

/// A workspace with a directory that a rule is about, many ways into it, and a mount inside.
struct Desk {
    workspace: PathBuf,
    bench: Bench,
    _scratch: Scratch,
}

impl Desk {
    fn with(change: impl FnOnce(BenchOptions) -> BenchOptions) -> Self {
        let scratch = Scratch::new();
        let workspace = scratch.folder("w");
        for (name, content) in [
            ("secrets/x", SECRET),
            ("secrets/deep/y", SECRET),
            ("public/x", "fine"),
            ("public/deep/y", "fine"),
            ("public/a.key", SECRET),
            ("inner/secrets/z", "fine"),
        ] {
            write(&workspace.join(name), content);
        }
        for (link, target) in [
            ("link", "secrets"),
            ("public/link", "../secrets/x"),
            ("chain", "public/link"),
            ("round", "public/../link"),
            ("back", "secrets/../public"),
            ("innocent.txt", "public/a.key"),
        ] {
            symlink(target, workspace.join(link)).unwrap();
        }
        symlink(workspace.join("secrets"), workspace.join("absolute")).unwrap();
        let options = BenchOptions::new(Profile::NATIVE, &workspace, &scratch.folder("s"))
            .mount_also("@inner", &workspace.join("inner"))
            .policies(FORBID);
        Self { bench: change(options).open(), workspace, _scratch: scratch }
    }

    fn new() -> Self {
        Self::with(|options| options)
    }

    fn read(&self, path: &str) -> CallResponse {
        self.bench.call("read_file", json!({"path": path}))
    }
}

#[test]
fn no_spelling_of_a_path_passes_a_rule_about_the_file() {
    let desk = Desk::new();
    let absolute = desk.workspace.join("secrets/x");
    for path in [
        "secrets/x",
        "./secrets/x",
        "@project/secrets/x",
        "@project/./public/../secrets//x",
        "public/../secrets/x",
        "link/x",
        "public/link",
        "chain",
        "round/x",
        "back/../link/deep/y",
        "absolute/x",
        "absolute/deep/../x",
        absolute.to_str().unwrap(),
        "public/a.key",
        "innocent.txt",
        "back/a.key",
    ] {
        let called = desk.read(path);
        assert_eq!(code_of(&called), Some(ErrorCode::NotPermitted), "{path}: {}", called.answer.text);
        assert!(!called.answer.text.contains(SECRET), "{path}");
    }
    for path in ["public/x", "back/x", "secrets/../public/x", "@inner/secrets/z", "inner/secrets/z"] {
        let called = desk.read(path);
        assert!(code_of(&called).is_none(), "{path}: {}", called.answer.text);
    }
}

#[test]
fn every_tool_is_judged_by_all_of_its_paths() {
    let desk = Desk::with(BenchOptions::commands);
    let patch = |path: &str| format!("--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+new\n");
    let both = format!("{}{}", patch("public/n"), patch("link/n"));
    let rename = "diff --git a/link/x b/public/stolen\nsimilarity index 100%\nrename from link/x\nrename to public/stolen\n";
    for (tool, arguments) in [
        ("write_file", json!({"path": "link/new", "content": "x"})),
        ("write_file", json!({"path": "link/no/such/directory", "content": "x"})),
        ("append_file", json!({"path": "chain", "content": "x"})),
        ("edit_file", json!({"path": "absolute/x", "old_text": "n", "new_text": "m"})),
        ("move_file", json!({"from": "public/x", "to": "link/moved"})),
        ("move_file", json!({"from": "link/x", "to": "public/moved"})),
        ("delete_file", json!({"path": "link/x"})),
        ("list_directory", json!({"path": "link"})),
        ("list_directory", json!({"path": "absolute/"})),
        ("search_files", json!({"path": "round", "pattern": "nobody"})),
        ("find_files", json!({"path": "link/deep", "glob": "*"})),
        ("apply_patch", json!({"patch": patch("link/n")})),
        ("apply_patch", json!({"patch": both})),
        ("apply_patch", json!({"patch": rename})),
        ("apply_patch", json!({"patch": "not a patch"})),
        ("run_command", json!({"command": "true", "cwd": "link"})),
        ("run_command", json!({"command": "true", "cwd": "/mnt/project/absolute"})),
        ("read_file", json!({"path": 7})),
        ("read_file", json!({})),
    ] {
        let called = desk.bench.call(tool, arguments.clone());
        assert_eq!(
            code_of(&called),
            Some(ErrorCode::NotPermitted),
            "{tool} {arguments}: {}",
            called.answer.text
        );
    }
    for (tool, arguments) in [
        ("write_file", json!({"path": "back/new", "content": "x"})),
        ("list_directory", json!({})),
        ("apply_patch", json!({"patch": patch("back/n")})),
        ("run_command", json!({"command": "true", "cwd": "back"})),
        ("run_command", json!({"command": "true"})),
    ] {
        let called = desk.bench.call(tool, arguments.clone());
        assert!(code_of(&called).is_none(), "{tool} {arguments}: {}", called.answer.text);
    }
}

#[test]
fn every_file_tool_of_every_profile_says_which_arguments_are_paths() {
    for profile in [Profile::NATIVE, Profile::CREW, Profile::CLAW, Profile::SIDECAR, Profile::STUDIO] {
        let scratch = Scratch::new();
        let bench = BenchOptions::new(profile, &scratch.folder("w"), &scratch.folder("s")).commands().open();
        for tool in bench.loaded().registry.iter() {
            let (spec, paths) = (tool.spec(), tool.path_inputs());
            let is_ours = !matches!(spec.name.as_str(), "web_search" | "check_command" | "stop_command");
            assert_eq!(paths != PathInputs::default(), is_ours, "{profile} {}", spec.name);
        }
    }
}

/// One way to write a path: detours, symlinks, dots, an alias, the absolute path.
fn spelling() -> impl Strategy<Value = String> {
    let begins = prop::sample::select(vec!["", "./", ".//", "@project/", "@inner/", "/ROOT/"]);
    let detour = prop::sample::select(vec![
        "",
        "./",
        "public/../",
        "link/../",
        "deep/../",
        "inner/../",
        "back/deep/../../",
    ]);
    let directory = prop::sample::select(vec![
        "",
        "secrets/",
        "public/",
        "link/",
        "absolute/",
        "round/",
        "back/",
        "inner/",
        "inner/secrets/",
        "secrets/deep/",
        "link/deep/",
        "back/deep//",
        "absolute/./deep/",
        "secrets//",
    ]);
    let name = prop::sample::select(vec![
        "x",
        "y",
        "z",
        "link",
        "chain",
        "a.key",
        "innocent.txt",
        "deep/y",
        ".",
        "x/",
    ]);
    (begins, prop::collection::vec(detour, 0..3), directory, name).prop_map(
        |(begins, detours, directory, name)| format!("{begins}{}{directory}{name}", detours.concat()),
    )
}

/// The slow and obvious reference: dots are removed, then the host resolves the path. `None` if a path climbs out of its mount.
fn reference(workspace: &Path, spelt: &str) -> Option<String> {
    let tidy: Vec<&str> = spelt.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    let begins = if spelt.starts_with('/') { "/" } else { "" };
    let tidy = format!("{begins}{}", tidy.join("/"));
    let inner = workspace.join("inner");
    let roots = [(&inner, "@inner".to_owned()), (&inner, inner.display().to_string())];
    let whole = workspace.to_path_buf();
    let roots =
        roots.into_iter().chain([(&whole, "@project".to_owned()), (&whole, whole.display().to_string())]);
    let below = |(root, prefix): (&PathBuf, String)| {
        let rest = tidy.strip_prefix(&prefix)?;
        let rest = if rest.is_empty() { rest } else { rest.strip_prefix('/')? };
        Some((root.clone(), rest.to_owned()))
    };
    let (root, rest) = roots.into_iter().find_map(below).unwrap_or((whole.clone(), tidy.clone()));
    let mut names: Vec<&str> = Vec::new();
    for name in rest.split('/') {
        match name {
            "" => {}
            ".." => drop(names.pop()?),
            name => names.push(name),
        }
    }
    let host = root.join(names.join("/"));
    if spelt.ends_with('/') && host.is_file() {
        return None;
    }
    let real = host.canonicalize().ok()?;
    let below = |root: PathBuf| real.strip_prefix(root.canonicalize().ok()?).ok().map(Path::to_path_buf);
    let (alias, below) = match below(workspace.join("inner")) {
        Some(below) => ("@inner", below),
        None => ("@project", below(workspace.to_path_buf())?),
    };
    Some(format!("{alias}/{}", below.display()))
}

#[test]
fn any_spelling_that_opens_a_file_is_decided_like_its_real_location() {
    let desk = Desk::new();
    let root = desk.workspace.to_str().unwrap().to_owned();
    let opened = std::cell::Cell::new(0);
    let config = ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(spelt in spelling())| {
        let spelt = spelt.replace("/ROOT", &root);
        let called = desk.read(&spelt);
        let text = &called.answer.text;
        prop_assert!(!text.contains(SECRET), "{spelt}: {text}");
        if let Some(location) = reference(&desk.workspace, &spelt) {
            let plain = desk.read(&location);
            prop_assert_eq!(code_of(&called), code_of(&plain), "{} is {}", spelt, location);
            opened.set(opened.get() + u32::from(code_of(&plain).is_none()));
        }
    });
    assert!(opened.get() > 10, "only {} spellings opened a file", opened.get());
}

#[test]
fn a_symlink_that_keeps_being_swapped_leads_past_no_rule() {
    let desk = Desk::new();
    let (link, other) = (desk.workspace.join("swapped"), desk.workspace.join("swapping"));
    symlink("public", &link).unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&done);
    let swapper = std::thread::spawn(move || {
        let mut targets = ["secrets", "public"].into_iter().cycle();
        while !over.load(Ordering::Relaxed) {
            symlink(targets.next().unwrap(), &other).unwrap();
            std::fs::rename(&other, &link).unwrap();
        }
    });
    let (mut fine, mut refused) = (0, 0);
    for _ in 0..3000 {
        let called = desk.read("swapped/x");
        assert!(!called.answer.text.contains(SECRET), "{}", called.answer.text);
        match code_of(&called) {
            None => fine += 1,
            Some(_) => refused += 1,
        }
    }
    done.store(true, Ordering::Relaxed);
    swapper.join().unwrap();
    println!("{fine} of 3000 reads were answered, {refused} refused");
}

/// Approves everything, after doing something while the question is open.
struct Meddler<F> {
    deed: F,
    asked: Mutex<Vec<ApprovalRequest>>,
}

impl<F: Fn() + Send + Sync> Approver for Meddler<F> {
    fn ask(&self, question: ApprovalRequest) -> Pin<Box<dyn Future<Output = ApprovalReply> + Send + '_>> {
        (self.deed)();
        self.asked.lock().unwrap().push(question);
        Box::pin(async { ApprovalReply::Once })
    }
}

#[test]
fn a_reading_that_a_person_agreed_to_reads_the_file_that_was_shown() {
    let place: Arc<Mutex<PathBuf>> = Arc::default();
    let there = Arc::clone(&place);
    let swap = move || {
        let root = there.lock().unwrap().clone();
        std::fs::remove_file(root.join("note")).unwrap();
        symlink("secrets/x", root.join("note")).unwrap();
    };
    let meddler = Arc::new(Meddler { deed: swap, asked: Mutex::default() });
    let approver = Arc::clone(&meddler) as Arc<dyn Approver>;
    let desk = Desk::with(|options| options.policies("").approver(approver, Duration::from_secs(60)));
    *place.lock().unwrap() = desk.workspace.clone();
    symlink("public/x", desk.workspace.join("note")).unwrap();
    let caller = Caller { trust: Trust::Supervised, ..person("s1") };
    let called = desk.bench.call_as(caller, "read_file", json!({"path": "note"}));
    assert!(!called.answer.text.contains(SECRET), "{}", called.answer.text);
    assert_eq!(code_of(&called), Some(ErrorCode::PreconditionFailed), "{}", called.answer.text);
    let asked = meddler.asked.lock().unwrap();
    assert_eq!(asked[0].preview.summary, ["read public/x"]);
}

/// A declared tool that writes a word into the file that it is given.
const STAMP: &str = r#"
tool: stamp
description: Writes a word into a file
class: write
permissions: []
input:
  properties: {file: {type: string, x-toolgate-path: "@project"}}
  required: [file]
elevated: {when: 'input.file in Path::"@project/secrets"', permissions: ["secrets:write"]}
command: [tee, -a, --, "{file}"]
cwd: "@project"
stdin: "stamped\n"
policy: {"*": allow}
"#;

const AGENTS: &str = "
agents:
  clerk: {tool_permissions: {stamp: {allowed: true}}}
  keeper: {permissions: ['secrets:write'], tool_permissions: {stamp: {allowed: true}}}
";

fn stamped(desk: &Desk, name: &str) -> bool {
    std::fs::read_to_string(desk.workspace.join(name)).unwrap().contains("stamped")
}

#[test]
fn an_elevated_condition_sees_where_a_path_leads() {
    let desk = Desk::with(|options| options.policies("").commands().config(AGENTS).manifest(STAMP));
    let call = |agent: &str, file: &str| {
        let caller = Caller { agent: Some(agent.parse().unwrap()), ..person("s1") };
        desk.bench.call_as(caller, "stamp", json!({"file": file}))
    };
    for file in [
        "secrets/x",
        "./secrets//x",
        "link/x",
        "public/link",
        "chain",
        "absolute/x",
        "secrets/new",
        "link/new",
    ] {
        let called = call("clerk", file);
        assert_eq!(code_of(&called), Some(ErrorCode::NotPermitted), "{file}: {}", called.answer.text);
    }
    assert!(!stamped(&desk, "secrets/x") && !desk.workspace.join("secrets/new").exists());
    assert!(code_of(&call("clerk", "back/x")).is_none() && stamped(&desk, "public/x"));
    assert!(code_of(&call("keeper", "link/x")).is_none() && stamped(&desk, "secrets/x"));
}

#[test]
fn a_yes_to_one_file_lets_a_manifest_tool_change_no_other() {
    type Deed = fn(&Path);
    let deeds: [(&str, Deed); 4] = [
        ("a symlink in place of the file", |root| {
            std::fs::remove_file(root.join("public/x")).unwrap();
            symlink("../secrets/x", root.join("public/x")).unwrap();
        }),
        ("a symlink in place of the directory", |root| {
            std::fs::rename(root.join("public"), root.join("moved")).unwrap();
            symlink("secrets", root.join("public")).unwrap();
        }),
        ("another file under the name", |root| {
            std::fs::rename(root.join("secrets/x"), root.join("public/x")).unwrap();
        }),
        ("another target of the symlink", |root| {
            std::fs::remove_file(root.join("note")).unwrap();
            symlink("secrets/x", root.join("note")).unwrap();
        }),
    ];
    for (name, deed) in deeds {
        let place: Arc<Mutex<PathBuf>> = Arc::default();
        let there = Arc::clone(&place);
        let meddler =
            Arc::new(Meddler { deed: move || deed(&there.lock().unwrap()), asked: Mutex::default() });
        let approver = Arc::clone(&meddler) as Arc<dyn Approver>;
        let desk = Desk::with(|options| {
            options.policies("").commands().manifest(STAMP).approver(approver, Duration::from_secs(60))
        });
        *place.lock().unwrap() = desk.workspace.clone();
        symlink("public/x", desk.workspace.join("note")).unwrap();
        let caller = Caller { trust: Trust::Guided, ..person("s1") };
        let called = desk.bench.call_as(caller, "stamp", json!({"file": "note"}));
        let asked = meddler.asked.lock().unwrap();
        let shown: &[String] = &asked[0].preview.summary;
        assert!(shown.contains(&"file is @project/public/x".to_owned()), "{shown:?}");
        assert_eq!(code_of(&called), Some(ErrorCode::PreconditionFailed), "{name}: {}", called.answer.text);
        for file in ["secrets/x", "public/x"] {
            let content = std::fs::read_to_string(desk.workspace.join(file)).unwrap_or_default();
            assert!(!content.contains("stamped"), "{name}: {file} was changed");
        }
    }
}

const CLEAN: &str = "tool: clean\ndescription: Empties a directory\nclass: destructive\npermissions: []\ninput: {properties: {}}\ncommand: [rm, -f, --, x]\ncwd: '@project/public'\npolicy: {'*': allow}\n";

#[test]
fn a_yes_to_one_directory_lets_a_manifest_tool_run_in_no_other() {
    let place: Arc<Mutex<PathBuf>> = Arc::default();
    let there = Arc::clone(&place);
    let deed = move || {
        let root = there.lock().unwrap().clone();
        std::fs::rename(root.join("public"), root.join("moved")).unwrap();
        symlink("secrets", root.join("public")).unwrap();
    };
    let meddler = Arc::new(Meddler { deed, asked: Mutex::default() });
    let approver = Arc::clone(&meddler) as Arc<dyn Approver>;
    let desk = Desk::with(|options| {
        options.policies("").commands().manifest(CLEAN).approver(approver, Duration::from_secs(60))
    });
    *place.lock().unwrap() = desk.workspace.clone();
    let caller = Caller { trust: Trust::Guided, ..person("s1") };
    let called = desk.bench.call_as(caller, "clean", json!({}));
    assert_eq!(meddler.asked.lock().unwrap()[0].preview.summary[0], "run in @project/public");
    assert_eq!(code_of(&called), Some(ErrorCode::PreconditionFailed), "{}", called.answer.text);
    assert!(desk.workspace.join("secrets/x").exists(), "the command ran in another directory");
}

#[test]
fn rules_see_the_directory_that_a_manifest_tool_runs_in() {
    let forbid = "forbid(principal, action, resource) when { context has path && context.path in Path::\"@project/secrets\" };";
    let shows = |directory: &str| {
        format!(
            "tool: shows\ndescription: Lists a directory\nclass: read\npermissions: []\ninput: {{properties: {{}}}}\ncommand: [ls]\ncwd: '@project/{directory}'\npolicy: {{'*': allow}}\n"
        )
    };
    for (directory, expected) in [
        ("public", None),
        ("secrets", Some(ErrorCode::NotPermitted)),
        ("link", Some(ErrorCode::NotPermitted)),
    ] {
        let desk = Desk::with(|options| options.policies(forbid).commands().manifest(&shows(directory)));
        let called = desk.bench.call("shows", json!({}));
        assert_eq!(code_of(&called), expected, "{directory}: {}", called.answer.text);
    }
}

#[test]
fn a_manifest_tool_is_given_the_real_place_of_a_file() {
    let desk = Desk::with(|options| {
        options.policies("").commands().manifest(STAMP).manifest(
        "tool: names\ndescription: Prints what it is given\nclass: read\npermissions: []\ninput:\n  properties: {file: {type: string, x-toolgate-path: '@project'}}\ncommand: [echo, --, '{file}']\ncwd: '@project'\npolicy: {'*': allow}\n",
    )
    });
    for (file, real) in
        [("chain", "./secrets/x"), ("link/new", "./secrets/new"), ("back/deep", "./public/deep"), (".", ".")]
    {
        let called = desk.bench.must("names", json!({"file": file}));
        assert_eq!(called.answer.text.trim_end(), format!("-- {real}"), "{file}");
    }
}

const CAT: &str = r#"
tool: committed
description: Shows a committed file
class: read
permissions: []
input:
  properties: {file: {type: string}, path: {type: string, x-toolgate-path: "@project"}}
command: [git, cat-file, --batch]
cwd: "@project"
stdin: "HEAD:{FIELD}\n"
policy: {"*": allow}
"#;

#[test]
fn no_line_of_a_value_reads_a_denied_file_from_the_history() {
    for (field, arguments, code) in [
        ("file", json!({"file": "public/x\nHEAD:.env"}), Some(ErrorCode::InvalidArguments)),
        ("file", json!({"file": "public/x\r\nHEAD:.env"}), Some(ErrorCode::InvalidArguments)),
        ("path", json!({"path": "public/x\nHEAD:.env"}), Some(ErrorCode::InvalidArguments)),
        ("path", json!({"path": ".env"}), Some(ErrorCode::DeniedPath)),
        ("path", json!({"path": "public/../.env"}), Some(ErrorCode::InvalidArguments)),
        ("path", json!({"path": "to-env"}), Some(ErrorCode::DeniedPath)),
        ("path", json!({"path": "public/x"}), None),
    ] {
        let manifest = CAT.replace("FIELD", field);
        let desk = Desk::with(|options| options.policies("").commands().manifest(&manifest));
        write(&desk.workspace.join(".env"), SECRET);
        symlink(".env", desk.workspace.join("to-env")).unwrap();
        git(&desk.workspace, &["init", "-q"]);
        git(&desk.workspace, &["add", "-f", ".env", "public/x"]);
        git(&desk.workspace, &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "first"]);
        let called = desk.bench.call("committed", arguments.clone());
        assert!(!called.answer.text.contains(SECRET), "{arguments}: {}", called.answer.text);
        assert_eq!(code_of(&called), code, "{arguments}: {}", called.answer.text);
        assert_eq!(
            called.answer.text.contains("fine"),
            code.is_none(),
            "{arguments}: {}",
            called.answer.text
        );
    }
}

fn git(workspace: &Path, arguments: &[&str]) {
    let done = std::process::Command::new("git").current_dir(workspace).args(arguments).status().unwrap();
    assert!(done.success(), "git {arguments:?}");
}

//! Another file or directory under the approved name, put there by another process as late as the start of a command (TOCTOU).

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use toolgate_attack::{Bench, BenchOptions, Scratch, code_of, person};
use toolgate_gate::{ApprovalReply, ApprovalRequest, Approver};
use toolgate_tools::{CallResponse, Profile};
use toolgate_types::{Caller, ErrorCode, Trust};

use crate::fixture::write;

/// When the other process acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Never,
    QuestionIsOpen,
    CommandIsConfined,
}

/// The other process: acts once, in the workspace, at its moment.
#[derive(Clone)]
struct Other {
    when: When,
    act: fn(&Path),
    workspace: Arc<Mutex<Option<PathBuf>>>,
}

impl Other {
    fn act_if(&self, now: When) {
        let workspace = self.workspace.lock().unwrap().take_if(|_| now == self.when);
        workspace.iter().for_each(|workspace| (self.act)(workspace));
    }
}

/// Approves everything.
impl Approver for Other {
    fn ask(&self, _: ApprovalRequest) -> Pin<Box<dyn Future<Output = ApprovalReply> + Send + '_>> {
        self.act_if(When::QuestionIsOpen);
        Box::pin(async { ApprovalReply::Once })
    }
}

fn open(manifest: &str, when: When, act: fn(&Path)) -> (Scratch, PathBuf, Bench) {
    let scratch = Scratch::new();
    let workspace = scratch.folder("w");
    write(&workspace.join("secrets/x"), "kept");
    write(&workspace.join("public/x"), "of no value");
    let other = Other { when, act, workspace: Arc::new(Mutex::new(Some(workspace.clone()))) };
    let confining = other.clone();
    let bench = BenchOptions::new(Profile::NATIVE, &workspace, &scratch.folder("s"))
        .commands()
        .manifest(manifest)
        .while_confining(move || confining.act_if(When::CommandIsConfined))
        .approver(Arc::new(other), Duration::from_secs(60))
        .open();
    (scratch, workspace, bench)
}

fn call(bench: &Bench, tool: &str, arguments: Value) -> CallResponse {
    bench.call_as(Caller { trust: Trust::Guided, ..person("s1") }, tool, arguments)
}

/// The same path, and another inode.
fn other_directory(workspace: &Path) {
    std::fs::rename(workspace.join("public"), workspace.join("moved")).unwrap();
    std::fs::rename(workspace.join("secrets"), workspace.join("public")).unwrap();
}

fn other_file(workspace: &Path) {
    std::fs::rename(workspace.join("secrets/x"), workspace.join("public/x")).unwrap();
}

/// The file with the content `kept`, wherever it is by now.
fn is_kept(workspace: &Path) -> bool {
    let holds = |file: &str| std::fs::read_to_string(workspace.join(file)).is_ok_and(|text| text == "kept");
    holds("secrets/x") || holds("public/x")
}

const CLEAN: &str = "tool: clean\ndescription: Empties a directory\nclass: destructive\npermissions: []\ninput: {properties: {}}\ncommand: [rm, -f, --, x]\ncwd: '@project/public'\npolicy: {'*': allow}\n";
const REMOVE: &str = "tool: remove\ndescription: Removes a file\nclass: destructive\npermissions: []\ninput:\n  properties: {file: {type: string, x-toolgate-path: '@project'}}\n  required: [file]\ncommand: [rm, -f, --, '{file}']\ncwd: '@project'\npolicy: {'*': allow}\n";

#[test]
fn a_command_that_a_person_agreed_to_meets_the_files_that_were_shown_or_none() {
    type Case = (&'static str, fn() -> Value, fn(&Path));
    let cases: [Case; 4] = [
        ("run_command", || json!({"command": "rm -f x", "cwd": "public"}), other_directory),
        ("clean", || json!({}), other_directory),
        ("remove", || json!({"file": "public/x"}), other_file),
        ("remove", || json!({"file": "public/x"}), other_directory),
    ];
    let mut passed = Vec::new();
    for (tool, arguments, act) in cases {
        let manifest = if tool == "remove" { REMOVE } else { CLEAN };
        // If nothing is swapped, the command does remove it: so the cases below could fail.
        let (_scratch, workspace, bench) = open(manifest, When::Never, act);
        let called = call(&bench, tool, arguments());
        assert_eq!((code_of(&called), workspace.join("public/x").exists()), (None, false), "{tool}");
        for when in [When::QuestionIsOpen, When::CommandIsConfined] {
            let (_scratch, workspace, bench) = open(manifest, when, act);
            let code = code_of(&call(&bench, tool, arguments()));
            if !is_kept(&workspace) || code != Some(ErrorCode::PreconditionFailed) {
                passed.push(format!("{tool} {} while {when:?}: {code:?}", arguments()));
            }
        }
    }
    assert!(passed.is_empty(), "another file was met: {passed:#?}");
}

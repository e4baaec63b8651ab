//! `toolgate undo` from the command line.

use serde_json::{Value, json};
use toolgate_attack::Tree;

use crate::fixture::{CliFixture, finish_call};

fn call_in_run(place: &CliFixture, run: &str, tool: &str, arguments: &Value) {
    let mut command = place.toolgate();
    command.args(["--run", run]);
    let (code, envelope) = finish_call(command, tool, arguments);
    assert_eq!(code, 0, "{tool}: {envelope}");
}

#[test]
fn a_session_is_put_back_and_others_are_left_alone() {
    let place = CliFixture::new();
    for (name, text) in [("a.txt", "a\n"), ("b.txt", "b\n"), ("c.txt", "c\n")] {
        std::fs::write(place.workspace.join(name), text).unwrap();
    }
    let before = Tree::of(&place.workspace).names();
    call_in_run(&place, "other", "write_file", &json!({"path": "other.txt", "content": "other\n"}));
    for (tool, arguments) in [
        ("write_file", json!({"path": "a.txt", "content": "one\n"})),
        ("edit_file", json!({"path": "a.txt", "old_text": "one", "new_text": "two"})),
        ("append_file", json!({"path": "a.txt", "content": "three\n"})),
        ("move_file", json!({"from": "a.txt", "to": "b.txt", "overwrite": true})),
        ("delete_file", json!({"path": "c.txt"})),
        ("write_file", json!({"path": "new/folder/d.txt", "content": "d\n"})),
        (
            "apply_patch",
            json!({"patch": "--- b.txt\n+++ b.txt\n@@ -1,2 +1 @@\n-two\n three\n--- /dev/null\n+++ c.txt\n@@ -0,0 +1 @@\n+again\n"}),
        ),
    ] {
        call_in_run(&place, "mine", tool, &arguments);
    }
    let told = place.must(&["undo", "--session", "mine"]);
    assert_eq!(told.lines().count(), 7, "{told}");
    let other = place.workspace.join("other.txt");
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "other\n");
    assert_eq!(place.must(&["undo", "--session", "mine"]), "nothing to undo\n");
    place.must(&["undo"]);
    assert!(!other.exists(), "the last change of all was the other session's");
    assert_eq!(Tree::of(&place.workspace).names(), before);
    place.must(&["audit", "verify"]);
}

#[test]
fn a_conflict_is_refused_unless_forced() {
    let place = CliFixture::new();
    let file = place.workspace.join("a.txt");
    std::fs::write(&file, "old\n").unwrap();
    assert_eq!(place.call("write_file", &json!({"path": "a.txt", "content": "new\n"})).0, 0);
    std::fs::write(&file, "somebody else's\n").unwrap();
    let refused = place.run(&["undo"]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "somebody else's\n");
    place.must(&["undo", "--force"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "old\n");
}

//! Undo and recovery as a way around the rules: what a model planted since, and what the operator denied since.

use std::fs::{File, OpenOptions};
use std::io::{Seek as _, Write as _};
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde_json::{Value, json};
use toolgate_attack::{Bench, BenchOptions, Scratch, Tree, unfinish};
use toolgate_gate::{UndoError, UndoOptions};
use toolgate_tools::Profile;
use toolgate_types::{CallId, ErrorCode};

use crate::fixture::write;

const GENTLY: UndoOptions = UndoOptions { force: false };
const BY_FORCE: UndoOptions = UndoOptions { force: true };

struct Place {
    scratch: Scratch,
}

impl Place {
    fn new() -> Self {
        let scratch = Scratch::new();
        for (path, content) in [
            ("w/a.txt", "a\n"),
            ("w/d/c.txt", "c\n"),
            ("w/secret/key.txt", "denied\n"),
            ("outside/c.txt", "outside\n"),
        ] {
            write(&scratch.path().join(path), content);
        }
        Self { scratch }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.scratch.path().join(path)
    }

    fn text(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.at(path)).ok()
    }

    fn options(&self) -> BenchOptions {
        BenchOptions::new(Profile::NATIVE, &self.at("w"), &self.scratch.folder("s"))
    }

    /// Makes a call with a gate that has the operator's deny rule, and closes it.
    fn call(&self, tool: &str, arguments: Value) -> CallId {
        self.options().deny(&["secret/**"]).open().must(tool, arguments).call
    }

    fn journal(&self, path: &str) -> PathBuf {
        self.at("s/journal.toolgate").join(path)
    }

    /// Neither with nor without force is anything touched. Returns the code.
    fn refused(&self, bench: &Bench, call: CallId, what: &str) -> ErrorCode {
        let before = ["w", "outside"].map(|folder| Tree::of(&self.at(folder)));
        let code = bench.undo(call, GENTLY).expect_err(what).code();
        let forced = bench.undo(call, BY_FORCE).expect_err(what);
        assert!(!matches!(forced, UndoError::Conflict { .. }), "{what}: {forced}");
        for (folder, before) in ["w", "outside"].iter().zip(&before) {
            let changed = before.differences(&Tree::of(&self.at(folder)));
            assert_eq!(changed, Vec::<String>::new(), "{what}");
        }
        code
    }
}

#[test]
fn undo_does_not_follow_a_symlink_in_place_of_a_directory() {
    // The moved file goes back to `d/key.txt`; what is at the new name by then is not that file.
    let place = Place::new();
    write(&place.at("w/d/key.txt"), "denied\n");
    let moved = place.call("move_file", json!({"from": "d/key.txt", "to": "e/key.txt"}));
    // As a command does it: the parent of the new name becomes a symlink to what the operator denies.
    std::fs::rename(place.at("w/e"), place.at("w/e2")).unwrap();
    symlink("secret", place.at("w/e")).unwrap();
    let bench = place.options().deny(&["secret/**"]).open();
    place.refused(&bench, moved, "a link to a denied directory");
    assert_eq!(place.text("w/d/key.txt"), None, "the denied file has no readable name");

    for target in ["secret", "../outside", "."] {
        let place = Place::new();
        let calls = [
            place.call("write_file", json!({"path": "d/c.txt", "content": "C\n"})),
            place.call("delete_file", json!({"path": "d/c.txt"})),
            place.call("write_file", json!({"path": "d/new/n.txt", "content": "n\n"})),
        ];
        std::fs::rename(place.at("w/d"), place.at("w/d2")).unwrap();
        symlink(target, place.at("w/d")).unwrap();
        let bench = place.options().deny(&["secret/**"]).open();
        for call in calls {
            place.refused(&bench, call, target);
        }
    }
}

/// A personal configuration applies to every directory, since each may become a repository. Compared with all that is above each of 250 directories,
/// one by one, this took minutes.
#[test]
fn undo_of_a_deep_path_removes_its_directories_beside_a_personal_configuration() {
    let place = Place::new();
    write(
        &place.at("home/.gitconfig"),
        "[user]\n\temail = person@example.com\n[core]\n\thooksPath = my/hooks\n",
    );
    let deep = format!("deep/{}", "a/".repeat(250));
    let bench = place.options().home(&place.at("home")).open();
    let kept = bench.must("write_file", json!({"path": "deep/kept.txt", "content": "k\n"})).call;
    let written = bench.must("write_file", json!({"path": format!("{deep}n.txt"), "content": "n\n"})).call;
    let named =
        bench.call("write_file", json!({"path": format!("{deep}my/hooks/pre-commit"), "content": "n\n"}));
    assert!(named.answer.is_error, "{}", named.answer.text);
    bench.undo(written, GENTLY).unwrap();
    assert!(place.at("w/deep").exists() && !place.at("w/deep/a").exists());
    bench.undo(kept, GENTLY).unwrap();
    assert!(!place.at("w/deep").exists());
}

#[test]
fn a_symlink_in_place_of_the_file_is_not_followed() {
    let place = Place::new();
    let call = place.call("write_file", json!({"path": "a.txt", "content": "A\n"}));
    std::fs::remove_file(place.at("w/a.txt")).unwrap();
    symlink("d/c.txt", place.at("w/a.txt")).unwrap();
    let bench = place.options().open();
    assert_eq!(place.refused(&bench, call, "a link to another file"), ErrorCode::PreconditionFailed);
    assert_eq!(place.text("w/d/c.txt").as_deref(), Some("c\n"));
}

#[test]
fn rules_that_came_after_a_change_hold_for_its_undo() {
    let arguments = [
        ("write_file", json!({"path": "d/c.txt", "content": "C\n"})),
        ("delete_file", json!({"path": "d/c.txt"})),
        ("move_file", json!({"from": "d/c.txt", "to": "m.txt"})),
        ("move_file", json!({"from": "a.txt", "to": "d/a.txt"})),
    ];
    for (tool, arguments) in arguments {
        let place = Place::new();
        let call = place.call(tool, arguments.clone());
        let what = format!("{tool} {arguments}");
        let denied = place.options().deny(&["d/**"]).open();
        assert_eq!(place.refused(&denied, call, &what), ErrorCode::DeniedPath);
        let read_only = place.options().mount_read_only("@d", &place.at("w/d")).open();
        assert_eq!(place.refused(&read_only, call, &what), ErrorCode::ReadOnly);
        let own = place.options().own_file(&place.at("w/d")).open();
        assert_eq!(place.refused(&own, call, &what), ErrorCode::DeniedPath);
        // By the rules under which the change was made it can be undone.
        place.options().open().undo(call, GENTLY).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(
            (place.text("w/a.txt").as_deref(), place.text("w/d/c.txt").as_deref()),
            (Some("a\n"), Some("c\n"))
        );
    }
}

#[test]
fn what_the_gate_obeys_is_not_put_back_by_undo() {
    let place = Place::new();
    std::fs::create_dir(place.at("w/hooks.d")).unwrap();
    let call = place.call("write_file", json!({"path": "hooks.d/tool.yaml", "content": "x\n"}));
    place.options().open().must("delete_file", json!({"path": "hooks.d/tool.yaml"}));
    let deleted = place.options().open().gate().journal().changes().unwrap().pop().unwrap().call;
    // Since then the operator has made it a directory of manifests.
    let bench = place.options().own_file(&place.at("w/hooks.d")).open();
    assert_eq!(place.refused(&bench, deleted, "a manifest that was deleted"), ErrorCode::DeniedPath);
    assert_eq!(place.refused(&bench, call, "a manifest that was made"), ErrorCode::DeniedPath);
    assert_eq!(place.text("w/hooks.d/tool.yaml"), None);
}

#[test]
fn a_mount_that_is_another_directory_now_gets_nothing() {
    let place = Place::new();
    let inner = place.at("w/d");
    let with_inner = |path: &PathBuf| place.options().mount_also("@inner", path).open();
    let call = with_inner(&inner).must("write_file", json!({"path": "@inner/c.txt", "content": "C\n"})).call;
    let pending = with_inner(&inner).must("delete_file", json!({"path": "@inner/c.txt"})).call;
    unfinish(&place.journal(""), pending);
    std::fs::rename(&inner, place.at("w/d2")).unwrap();
    std::fs::remove_file(place.at("outside/c.txt")).unwrap();
    // A mount that is reached through a symlink is refused; so is undo in another directory of that name.
    symlink(place.at("outside"), &inner).unwrap();
    let refused = place.options().mount_also("@inner", &inner).try_open();
    assert!(refused.is_err_and(|error| error.message.contains("is reached through the link")));
    std::fs::remove_file(&inner).unwrap();
    std::fs::rename(place.at("outside"), &inner).unwrap();
    std::fs::create_dir(place.at("outside")).unwrap();
    let bench = with_inner(&inner);
    assert_eq!(bench.gate().journal().recovery().unrestored.len(), 1, "it waits for its mount");
    place.refused(&bench, call, "a mount that is another directory");
    // Without the mount it stays pending, and is recovered when the mount is there again.
    let kept = place.options().open().gate().journal().recovery().unrestored.clone();
    assert!(kept.len() == 1 && kept[0].1.contains("@inner"), "{kept:?}");
    std::fs::remove_dir(&inner).unwrap();
    std::fs::rename(place.at("w/d2"), &inner).unwrap();
    let bench = with_inner(&inner);
    assert_eq!(bench.gate().journal().recovery().restored, [pending]);
    bench.undo(call, GENTLY).unwrap();
    assert_eq!(place.text("w/d/c.txt").as_deref(), Some("c\n"));
}

#[test]
fn recovery_asks_the_rules_and_follows_no_symlink() {
    let place = Place::new();
    let call = place.call("delete_file", json!({"path": "d/c.txt"}));
    unfinish(&place.journal(""), call);
    for bench in [
        place.options().deny(&["d/**"]).open(),
        place.options().mount_read_only("@d", &place.at("w/d")).open(),
    ] {
        assert_eq!(bench.gate().journal().recovery().unrestored.len(), 1);
        assert_eq!(place.text("w/d/c.txt"), None);
    }
    std::fs::rename(place.at("w/d"), place.at("w/d2")).unwrap();
    symlink("../outside", place.at("w/d")).unwrap();
    std::fs::remove_file(place.at("outside/c.txt")).unwrap();
    assert_eq!(place.options().open().gate().journal().recovery().unrestored.len(), 1);
    assert_eq!(place.text("outside/c.txt"), None);
    std::fs::remove_file(place.at("w/d")).unwrap();
    std::fs::rename(place.at("w/d2"), place.at("w/d")).unwrap();
    assert_eq!(place.options().open().gate().journal().recovery().restored, [call]);
    assert_eq!(place.text("w/d/c.txt").as_deref(), Some("c\n"));
}

#[test]
fn a_moved_file_that_was_replaced_or_written_to_is_not_moved_back() {
    type Meddling = fn(&Place);
    let meddle: [(&str, Meddling); 2] = [
        ("another file", |place| {
            std::fs::remove_file(place.at("w/m.txt")).unwrap();
            std::fs::write(place.at("w/m.txt"), "planted\n").unwrap();
        }),
        ("written to", |place| {
            let mut file = OpenOptions::new().append(true).open(place.at("w/m.txt")).unwrap();
            file.write_all(b"planted\n").unwrap();
        }),
    ];
    for (what, meddle) in meddle {
        let place = Place::new();
        let call = place.call("move_file", json!({"from": "a.txt", "to": "m.txt"}));
        meddle(&place);
        let bench = place.options().open();
        let refused = bench.undo(call, GENTLY).expect_err(what);
        assert!(matches!(refused, UndoError::Conflict { .. }), "{what}: {refused}");
        assert_eq!(place.text("w/a.txt"), None, "{what}");
        // A person may insist: the old name is given to what is there.
        bench.undo(call, BY_FORCE).unwrap();
        assert!(place.text("w/a.txt").is_some_and(|text| text.ends_with("planted\n")), "{what}");
    }
}

#[test]
fn a_process_that_holds_a_file_open_cannot_write_into_what_was_kept_of_it() {
    for (tool, arguments) in [
        ("write_file", json!({"path": "a.txt", "content": "A\n"})),
        ("edit_file", json!({"path": "a.txt", "old_text": "a", "new_text": "A"})),
        ("append_file", json!({"path": "a.txt", "content": "A\n"})),
        ("delete_file", json!({"path": "a.txt"})),
    ] {
        let place = Place::new();
        // As a command that was left running does: opened before the change, written after it.
        let mut held = OpenOptions::new().write(true).open(place.at("w/a.txt")).unwrap();
        let call = place.call(tool, arguments);
        held.rewind().unwrap();
        held.write_all(b"never shown\n").unwrap();
        place.options().open().undo(call, GENTLY).unwrap_or_else(|error| panic!("{tool}: {error}"));
        assert_eq!(place.text("w/a.txt").as_deref(), Some("a\n"), "{tool}");
    }
}

#[test]
fn what_is_too_large_to_be_copied_is_put_back_only_unchanged() {
    let place = Place::new();
    let large = place.at("w/large.bin");
    File::create(&large).unwrap().set_len(65 << 20).unwrap();
    let mut held = OpenOptions::new().write(true).open(&large).unwrap();
    let call = place.call("delete_file", json!({"path": "large.bin"}));
    held.write_all(b"never shown\n").unwrap();
    let bench = place.options().open();
    match bench.undo(call, BY_FORCE) {
        Err(refused) => {
            assert!(matches!(refused, UndoError::Refused { .. }), "{refused}");
            assert!(!large.exists());
        }
        // If the filesystem shares blocks between files (reflink), what was kept is a copy.
        Ok(_) => assert_eq!(std::fs::read(&large).unwrap()[..4], [0; 4]),
    }
}

#[test]
fn a_blob_that_was_swapped_is_not_put_back() {
    let place = Place::new();
    let call = place.call("write_file", json!({"path": "a.txt", "content": "A\n"}));
    let bench = place.options().open();
    let blob = bench.gate().journal().change_set(call).unwrap().changes[0].before.clone().unwrap().blob;
    let blob = place.journal("blobs").join(blob);
    for swapped in ["b\n", "", "longer than it was\n"] {
        std::fs::write(&blob, swapped).unwrap();
        place.refused(&bench, call, swapped);
    }
    std::fs::write(&blob, "a\n").unwrap();
    bench.undo(call, GENTLY).unwrap();
}

#[test]
fn an_entry_that_was_changed_renamed_or_moved_is_not_believed() {
    let place = Place::new();
    let call = place.call("write_file", json!({"path": "a.txt", "content": "A\n"}));
    let (done, pending) = (place.journal("done"), place.journal("pending"));
    let name = format!("{call}.json");
    let entry = std::fs::read_to_string(done.join(&name)).unwrap();
    let unknown = |bench: &Bench, call: CallId, what: &str| {
        assert!(matches!(bench.undo(call, BY_FORCE), Err(UndoError::Unknown(_))), "{what}");
    };
    let forgeries = [
        entry.replace("a.txt", "b.txt"),
        entry.replace("\"modify\"", "\"delete\""),
        entry.lines().next().unwrap().to_owned(),
        // Pending, and not done.
        entry.lines().take(2).map(|line| format!("{line}\n")).collect(),
    ];
    for forgery in forgeries {
        std::fs::write(done.join(&name), &forgery).unwrap();
        let bench = place.options().open();
        unknown(&bench, call, &forgery);
        assert_eq!(bench.gate().journal().list().unwrap().unsealed, 1, "{forgery}");
        assert_eq!(std::fs::read_to_string(done.join(&name)).unwrap(), forgery, "left where it is");
    }
    // Under another name.
    let other = CallId::fresh();
    std::fs::write(done.join(&name), &entry).unwrap();
    std::fs::rename(done.join(&name), done.join(format!("{other}.json"))).unwrap();
    unknown(&place.options().open(), other, "another name");
    // Done, but in `pending`: it is moved to where it belongs.
    std::fs::remove_file(done.join(format!("{other}.json"))).unwrap();
    std::fs::write(pending.join(&name), &entry).unwrap();
    let bench = place.options().open();
    assert_eq!((place.text("w/a.txt").as_deref(), done.join(&name).exists()), (Some("A\n"), true));
    assert!(bench.gate().journal().recovery().restored.is_empty());
    bench.undo(call, GENTLY).unwrap();
    // In a copy of the state directory.
    let place = Place::new();
    let call = place.call("write_file", json!({"path": "a.txt", "content": "A\n"}));
    let copied = std::process::Command::new("cp").arg("-r").arg(place.at("s")).arg(place.at("s2")).status();
    assert!(copied.unwrap().success());
    let bench = BenchOptions::new(Profile::NATIVE, &place.at("w"), &place.at("s2")).open();
    unknown(&bench, call, "a copy");
}

#[test]
fn two_undoings_at_a_time_are_one() {
    const GATES: usize = 4;
    const ROUNDS: usize = 25;
    let place = Place::new();
    let calls: Vec<CallId> = {
        let bench = place.options().open();
        let make = |round| {
            let path = format!("new-{round}.txt");
            let call = bench.must("write_file", json!({"path": path, "content": "n\n"})).call;
            // With the file gone no undo finds anything to do, and only the lock serialises them.
            std::fs::remove_file(place.at("w").join(path)).unwrap();
            call
        };
        (0..ROUNDS).map(make).collect()
    };
    let together = std::sync::Barrier::new(GATES);
    let undo_all = || -> Vec<Result<_, UndoError>> {
        let bench = place.options().open();
        let undo = |call: &CallId| {
            together.wait();
            bench.undo(*call, GENTLY)
        };
        calls.iter().map(undo).collect()
    };
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..GATES).map(|_| scope.spawn(undo_all)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let late = outcomes.iter().filter(|outcome| matches!(outcome, Err(UndoError::AlreadyUndone { .. })));
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), ROUNDS);
    assert_eq!(late.count(), (GATES - 1) * ROUNDS);
}

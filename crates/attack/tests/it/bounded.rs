//! Changes that would exceed a limit, and file metadata.

use std::fs::File;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{XattrFlags, getxattr, setxattr};
use serde_json::json;
use toolgate_attack::{Bench, BenchOptions, Scratch, code_of};
use toolgate_gate::UndoOptions;
use toolgate_tools::Profile;
use toolgate_types::{Deadline, ErrorCode, Limits};
use toolgate_workspace::{
    DryRun, Mount, MountAccess, MountRules, NoopRecorder, PathStyle, Workspace, WorkspaceError, WorkspaceView,
};

use crate::fixture::write;

fn bench(scratch: &Scratch) -> Bench {
    BenchOptions::new(Profile::NATIVE, &scratch.folder("w"), &scratch.folder("s")).open()
}

fn with_view<Answer>(
    root: &Path,
    limits: &Limits,
    stop: &Deadline,
    work: impl FnOnce(&WorkspaceView<'_>) -> Answer,
) -> Answer {
    let mount =
        Mount::new("@w", File::open(root).unwrap(), root, MountAccess::ReadWrite, MountRules::new()).unwrap();
    let workspace = Workspace::new(vec![mount.as_default()]).unwrap();
    work(&WorkspaceView {
        workspace: &workspace,
        style: PathStyle::Free,
        limits,
        grant: None,
        stop,
        unlocked: None,
    })
}

#[test]
fn a_file_that_holds_more_than_it_says_is_not_read_into_memory() {
    // Files in `/proc` report a size of zero.
    let limits = Limits { max_write_bytes: 3, ..Profile::NATIVE.limits() };
    with_view(Path::new("/proc"), &limits, &Deadline::never(), |view| {
        let change = |text: &str| Ok(text.to_owned());
        let refused = view.transform("cpuinfo", None, DryRun::Yes, &change, &NoopRecorder).unwrap_err();
        assert!(matches!(refused, WorkspaceError::TooLargeToChange { bytes: 193, .. }), "{refused}");
    });
    with_view(Path::new("/proc/sys/kernel"), &limits, &Deadline::never(), |view| {
        let change = |text: &str| Ok(text.to_owned());
        let refused = view.transform("ostype", None, DryRun::Yes, &change, &NoopRecorder).unwrap_err();
        assert!(matches!(refused, WorkspaceError::WriteLimit { bytes: 6, .. }), "{refused}");
    });
}

#[test]
fn appending_to_a_huge_file_is_refused() {
    let scratch = Scratch::new();
    let large = scratch.folder("w").join("large.bin");
    File::create(&large).unwrap().set_len(6 << 30).unwrap();
    let called = bench(&scratch).call("append_file", json!({"path": "large.bin", "content": "x"}));
    assert_eq!(code_of(&called), Some(ErrorCode::WriteLimit), "{}", called.answer.text);
    assert_eq!(std::fs::metadata(&large).unwrap().len(), 6 << 30);
}

#[test]
fn what_is_too_large_to_be_kept_is_not_deleted() {
    let scratch = Scratch::new();
    let large = scratch.folder("w").join("large.bin");
    File::create(&large).unwrap().set_len(65 << 20).unwrap();
    // With a second hard link it cannot be kept by renaming.
    std::fs::hard_link(&large, scratch.path().join("second")).unwrap();
    let bench = bench(&scratch);
    let called = bench.call("delete_file", json!({"path": "large.bin"}));
    match code_of(&called) {
        Some(code) => {
            assert_eq!(code, ErrorCode::WriteLimit, "{}", called.answer.text);
            assert!(large.exists());
            assert!(bench.gate().journal().changes().unwrap().is_empty());
        }
        // Some filesystems share blocks between files (reflink); there nothing is too large.
        None => {
            bench.undo(called.call, UndoOptions::default()).unwrap();
            assert_eq!(std::fs::metadata(&large).unwrap().len(), 65 << 20);
        }
    }
    // A file that need not be copied may be deleted and restored.
    std::fs::remove_file(scratch.path().join("second")).unwrap();
    if large.exists() {
        let deleted = bench.must("delete_file", json!({"path": "large.bin"})).call;
        bench.undo(deleted, UndoOptions::default()).unwrap();
        assert_eq!(std::fs::metadata(&large).unwrap().len(), 65 << 20);
    }
}

#[test]
fn a_change_that_was_worked_out_too_late_is_not_made() {
    let scratch = Scratch::new();
    write(&scratch.folder("w").join("a.txt"), "old");
    let over = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&over);
    let stop = Deadline::never().with_signal(move || asked.load(Ordering::Relaxed));
    with_view(&scratch.folder("w"), &Profile::NATIVE.limits(), &stop, |view| {
        let change = |_: &str| {
            over.store(true, Ordering::Relaxed);
            Ok("new".to_owned())
        };
        let ended = view.transform("a.txt", None, DryRun::No, &change, &NoopRecorder).unwrap_err();
        assert!(matches!(ended, WorkspaceError::Stopped(_)), "{ended}");
    });
    assert_eq!(std::fs::read_to_string(scratch.folder("w").join("a.txt")).unwrap(), "old");
}

#[test]
fn a_patch_of_too_many_files_is_to_be_split() {
    let scratch = Scratch::new();
    let bench = bench(&scratch);
    let patch = |count: usize| -> String {
        (0..count).map(|file| format!("--- /dev/null\n+++ f{file}.txt\n@@ -0,0 +1 @@\n+x\n")).collect()
    };
    bench.must("apply_patch", json!({"patch": patch(200)}));
    let called = bench.call("apply_patch", json!({"patch": patch(201)}));
    assert_eq!(code_of(&called), Some(ErrorCode::PatchInvalid), "{}", called.answer.text);
    assert!(called.answer.text.contains("split the patch"), "{}", called.answer.text);
}

/// Read and write for the owner, read for user 4711, nothing for the group, a mask of read: the kernel's binary ACL format.
fn access_list() -> Vec<u8> {
    let entries: [(u16, u16, u32); 5] =
        [(1, 6, u32::MAX), (2, 4, 4711), (4, 0, u32::MAX), (16, 4, u32::MAX), (32, 0, u32::MAX)];
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

fn attribute(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = Vec::with_capacity(1000);
    getxattr(path, name, rustix::buffer::spare_capacity(&mut value)).ok()?;
    Some(value)
}

#[test]
fn access_lists_and_attributes_outlive_changes() {
    const LIST: &str = "system.posix_acl_access";
    const NOTE: &str = "user.note";
    let scratch = Scratch::new();
    let path = scratch.folder("w").join("a.txt");
    write(&path, "old\n");
    if setxattr(&path, LIST, &access_list(), XattrFlags::empty()).is_err()
        || setxattr(&path, NOTE, b"kept", XattrFlags::empty()).is_err()
    {
        println!("note: this filesystem has no access lists or no attributes, so they are left out");
        return;
    }
    let bench = bench(&scratch);
    let look = || {
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        (attribute(&path, LIST), attribute(&path, NOTE), mode)
    };
    let before = look();
    assert_eq!(before.2, 0o640, "the list bounds the group");
    for (tool, arguments) in [
        ("write_file", json!({"path": "a.txt", "content": "new\n"})),
        ("edit_file", json!({"path": "a.txt", "old_text": "new", "new_text": "newer"})),
        ("append_file", json!({"path": "a.txt", "content": "more\n"})),
    ] {
        bench.must(tool, arguments);
        assert_eq!(look(), before, "{tool}");
    }
    let deleted = bench.must("delete_file", json!({"path": "a.txt"})).call;
    bench.undo(deleted, UndoOptions::default()).unwrap();
    assert_eq!(look(), before, "deleted and put back");
}

#[test]
fn a_deleted_file_comes_back_to_its_owner() {
    let scratch = Scratch::new();
    let path = scratch.folder("w").join("a.txt");
    write(&path, "old\n");
    if std::os::unix::fs::chown(&path, Some(4711), Some(4712)).is_err() {
        println!("note: files may not be given away here, so that is left out");
        return;
    }
    // With a second hard link elsewhere, what is kept is a copy, which the gate owns.
    std::fs::hard_link(&path, scratch.path().join("second")).unwrap();
    let bench = bench(&scratch);
    let deleted = bench.must("delete_file", json!({"path": "a.txt"})).call;
    bench.undo(deleted, UndoOptions::default()).unwrap();
    let metadata = std::fs::metadata(&path).unwrap();
    assert_eq!((metadata.uid(), metadata.gid()), (4711, 4712));
}

#[test]
fn links_are_not_taken_for_the_files_they_lead_to() {
    let scratch = Scratch::new();
    let root = scratch.folder("w");
    write(&root.join("d/a.txt"), "a\n");
    symlink("d/a.txt", root.join("link")).unwrap();
    symlink("d", root.join("folder")).unwrap();
    symlink(root.join("d"), root.join("absolute")).unwrap();
    symlink(root.join("d/a.txt"), root.join("absolute_link")).unwrap();
    let bench = bench(&scratch);
    let patch = "--- link\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n";
    for (tool, arguments) in [
        ("delete_file", json!({"path": "link"})),
        ("delete_file", json!({"path": "absolute_link"})),
        ("move_file", json!({"from": "link", "to": "moved"})),
        ("apply_patch", json!({"patch": patch})),
    ] {
        let called = bench.call(tool, arguments.clone());
        assert_eq!(code_of(&called), Some(ErrorCode::NotAFile), "{tool} {arguments}: {}", called.answer.text);
        assert!(called.answer.text.contains("symbolic link"), "{}", called.answer.text);
        assert!(called.answer.text.contains("name the file itself"), "{}", called.answer.text);
    }
    // Directories on the path may be symlinks.
    bench.must("move_file", json!({"from": "folder/a.txt", "to": "d/b.txt"}));
    bench.must("delete_file", json!({"path": "absolute/b.txt"}));
}

/// A walk has a maximum depth, and directories below it are reported.
#[test]
fn directories_that_are_too_deep_for_a_walk_are_named_in_the_answer() {
    let scratch = Scratch::new();
    let bench = bench(&scratch);
    let deep = scratch.folder("w").join("d/".repeat(130));
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::write(deep.join("hidden.txt"), "needle\n").unwrap();
    for (tool, arguments) in
        [("find_files", json!({"glob": "*.txt"})), ("search_files", json!({"pattern": "needle"}))]
    {
        let called = bench.must(tool, arguments);
        let structured = called.answer.structured.unwrap().into_value();
        assert_eq!(structured["truncated"], true, "{tool}: {structured}");
        assert!(structured["unwalked"][0].as_str().unwrap().contains("128 levels"), "{tool}: {structured}");
        assert!(called.answer.text.contains("[truncated: directories more than 128 levels"), "{tool}");
        assert!(!called.answer.text.contains("hidden.txt"));
    }
    // From a deeper path on it is found, and nothing is omitted.
    let called = bench.must("find_files", json!({"glob": "*.txt", "path": "d/".repeat(10)}));
    let structured = called.answer.structured.unwrap().into_value();
    assert_eq!((&structured["truncated"], structured.get("unwalked")), (&json!(false), None));
    assert!(called.answer.text.contains("hidden.txt"));
}

/// Directories are created one component at a time, without a limit on the depth; but a file in them can only be opened by a path within `PATH_MAX`.
#[test]
fn no_file_is_written_that_no_tool_can_open() {
    let scratch = Scratch::new();
    let (bench, root) = (bench(&scratch), scratch.folder("w"));
    let room = 4095 - root.as_os_str().len() - 1;
    let path = |length: usize| {
        let names = "n".repeat(199) + "/";
        let path = names.repeat(room / names.len());
        let last = length - path.len();
        path + &"x".repeat(last)
    };
    let longest = path(room);
    bench.must("write_file", json!({"path": longest, "content": "x"}));
    assert_eq!(bench.must("read_file", json!({"path": longest})).answer.text, "x");
    std::fs::remove_dir_all(root.join("n".repeat(199))).unwrap();
    for too_long in [path(room + 1), path(4095), path(4096)] {
        let called = bench.call("write_file", json!({"path": too_long, "content": "x"}));
        assert_eq!(code_of(&called), Some(ErrorCode::InvalidPath), "{} bytes", too_long.len());
        assert!(called.answer.text.contains("4095 bytes"), "{}", called.answer.text);
        assert_eq!(std::fs::read_dir(&root).unwrap().count(), 0, "nothing of the way to it was made");
    }
}

//! Symlinks from one mount into another: the target is judged by the rules of the mount that it lies in.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;

use toolgate_types::{Deadline, ErrorCode};
use toolgate_workspace::{
    ExpectedContent, LockTimeout, Mount, MountAccess, MountRules, NoopRecorder, PathStyle, ReadRequest,
    Restoration, Workspace, WorkspaceView,
};

use crate::resolution::LIMITS;

/// Three mounts beside each other, and a directory that is not mounted.
fn mounts(root: &Path) -> Workspace {
    for directory in ["w/src", "c/src", "r", "outside"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    for (file, content) in
        [("w/src/x", "of w"), ("c/src/x", "of c"), ("c/.env", "KEY=1"), ("r/x", "of r"), ("outside/x", "out")]
    {
        fs::write(root.join(file), content).unwrap();
    }
    let mount = |alias: &str, directory: &str, access, rules: MountRules| {
        let path = root.join(directory);
        Mount::new(alias, File::open(&path).unwrap(), &path, access, rules).unwrap()
    };
    let scoped = MountRules::new().scope(&["src/**".to_owned()]).unwrap();
    Workspace::new(vec![
        mount("@w", "w", MountAccess::ReadWrite, MountRules::new()).as_default(),
        mount("@c", "c", MountAccess::ReadWrite, scoped),
        mount("@r", "r", MountAccess::ReadOnly, MountRules::new()),
    ])
    .unwrap()
}

fn view<'a>(workspace: &'a Workspace, stop: &'a Deadline) -> WorkspaceView<'a> {
    WorkspaceView { workspace, style: PathStyle::Free, limits: &LIMITS, grant: None, stop, unlocked: None }
}

#[test]
fn a_link_into_another_mount_is_read_by_the_rules_of_that_mount() {
    let scratch = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(scratch.path()).unwrap();
    let workspace = mounts(&root);
    let absolute = root.join("c/src/x");
    for (link, target) in [
        ("w/relative", Path::new("../c/src/x")),
        ("w/absolute", absolute.as_path()),
        ("w/directory", Path::new("../c/src")),
        ("w/twice", Path::new("relative")),
        ("c/src/back", Path::new("../../w/src/x")),
        ("w/there_and_back", Path::new("../c/src/back")),
        ("w/secret", Path::new("../c/.env")),
        ("w/.env", Path::new("../c/src/x")),
        ("w/unscoped", Path::new("../c/src/../other")),
        ("w/out", Path::new("../outside/x")),
        ("w/through_outside", Path::new("../outside/../c/src/x")),
        ("w/dead", Path::new("../c/src/missing")),
        ("w/loop", Path::new("../c/src/loop")),
        ("w/parent", Path::new("..")),
        ("w/again", Path::new("../w/src/x")),
        ("c/src/loop", Path::new("../../w/loop")),
    ] {
        symlink(target, root.join(link)).unwrap();
    }
    fs::write(root.join("c/other"), "x").unwrap();
    let stop = Deadline::never();
    let view = view(&workspace, &stop);
    let read = |path: &str| {
        let request = ReadRequest { start_line: None, end_line: None, refuse_oversize: false };
        view.read(path, &request).map(|read| read.path).map_err(|error| error.code())
    };
    for (path, expected) in [
        ("relative", Ok("@c/src/x")),
        ("absolute", Ok("@c/src/x")),
        ("directory/x", Ok("@c/src/x")),
        ("twice", Ok("@c/src/x")),
        ("there_and_back", Ok("src/x")),
        ("@c/src/back", Ok("src/x")),
        ("through_outside", Ok("@c/src/x")),
        ("secret", Err(ErrorCode::DeniedPath)),
        (".env", Err(ErrorCode::DeniedPath)),
        ("unscoped", Err(ErrorCode::OutOfScope)),
        ("out", Err(ErrorCode::SymlinkOutsideWorkspace)),
        ("dead", Err(ErrorCode::SymlinkOutsideWorkspace)),
        ("directory/missing", Err(ErrorCode::NotFound)),
        ("loop", Err(ErrorCode::SymlinkLoop)),
        // The caller's names must not probe directory names of the host.
        ("parent/c/src/x", Err(ErrorCode::SymlinkOutsideWorkspace)),
        ("parent/w/src/x", Err(ErrorCode::SymlinkOutsideWorkspace)),
        ("again", Err(ErrorCode::SymlinkOutsideWorkspace)),
    ] {
        assert_eq!(read(path), expected.map(str::to_owned), "{path}");
    }
    // What the gate judges is what is opened.
    let located = view.locate("directory/x").unwrap();
    assert_eq!((located.alias.as_str(), located.location.as_str()), ("@c", "src/x"));
    let missing = view.locate("directory/new").unwrap();
    assert_eq!((missing.alias.as_str(), missing.location.as_str()), ("@c", "src/new"));
}

#[test]
fn a_link_into_another_mount_is_written_by_the_access_of_that_mount() {
    let scratch = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(scratch.path()).unwrap();
    let workspace = mounts(&root);
    for (link, target) in [
        ("w/directory", "../c/src"),
        ("w/x", "../c/src/x"),
        ("w/read_only", "../r"),
        ("w/dead", "../c/src/missing"),
        ("w/out", "../outside"),
    ] {
        symlink(target, root.join(link)).unwrap();
    }
    let stop = Deadline::never();
    let view = view(&workspace, &stop);
    let write = |path: &str| {
        let written = view.write(path, b"written", None, &NoopRecorder);
        written.map(|written| written.path).map_err(|error| error.code())
    };
    for (path, expected) in [
        ("directory/x", Ok("@c/src/x")),
        ("directory/deep/new", Ok("@c/src/deep/new")),
        ("x", Ok("@c/src/x")),
        ("read_only/x", Err(ErrorCode::ReadOnly)),
        ("read_only/new", Err(ErrorCode::ReadOnly)),
        ("dead", Err(ErrorCode::SymlinkOutsideWorkspace)),
        ("out/new", Err(ErrorCode::SymlinkOutsideWorkspace)),
    ] {
        assert_eq!(write(path), expected.map(str::to_owned), "{path}");
    }
    assert_eq!(fs::read_to_string(root.join("c/src/x")).unwrap(), "written");
    assert!(root.join("w/x").symlink_metadata().unwrap().is_symlink(), "the link stays what it is");
    assert_eq!(fs::read_to_string(root.join("r/x")).unwrap(), "of r");
    assert!(!root.join("outside/new").exists() && !root.join("c/src/missing").exists());
    // Deleting a symlink deletes neither its target nor the symlink.
    assert_eq!(view.delete("x", &NoopRecorder).unwrap_err().code(), ErrorCode::NotAFile);
    assert_eq!(view.delete("directory/x", &NoopRecorder).unwrap().path, "@c/src/x");
    assert!(!root.join("c/src/x").exists() && root.join("w/x").symlink_metadata().is_ok());
}

/// A journal entry names a real location, even if the same names exist in another mount.
#[test]
fn what_is_put_back_never_goes_through_a_link_into_another_mount() {
    let scratch = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(scratch.path()).unwrap();
    let workspace = mounts(&root);
    fs::rename(root.join("w/src"), root.join("w/old")).unwrap();
    symlink("../c/src", root.join("w/src")).unwrap();
    let stop = Deadline::never();
    let view = view(&workspace, &stop);
    let gone = Restoration::Absence { path: "@w/src/x".to_owned(), expect: ExpectedContent::Anything };
    assert!(view.restore(&[gone], LockTimeout::Brief, &NoopRecorder).is_err());
    assert_eq!(fs::read_to_string(root.join("c/src/x")).unwrap(), "of c");
}

//! Any text as a path: nothing outside the mount is ever read, written, listed or named.
#![no_main]

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use toolgate_tools::Profile;
use toolgate_types::Deadline;
use toolgate_workspace::{
    FileContent, ListOptions, Mount, MountAccess, MountRules, NoopRecorder, PathStyle, ReadRequest,
    Workspace, WorkspaceView,
};

const SECRET: &str = "this text lies outside";

struct Scene {
    folder: tempfile::TempDir,
    workspace: Workspace,
}

fn scene() -> &'static Scene {
    static SCENE: OnceLock<Scene> = OnceLock::new();
    SCENE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let (outside, inside) = (folder.path().join("o"), folder.path().join("w"));
        fs::create_dir_all(inside.join("a/b")).unwrap();
        fs::create_dir_all(&outside).unwrap();
        fs::write(outside.join("s"), SECRET).unwrap();
        fs::write(inside.join(".env"), SECRET).unwrap();
        fs::write(inside.join("a/f"), "inside").unwrap();
        symlink("../../o", inside.join("a/up")).unwrap();
        symlink("../o/s", inside.join("s")).unwrap();
        symlink(&outside, inside.join("l")).unwrap();
        symlink(inside.join("a"), inside.join("m")).unwrap();
        symlink(".env", inside.join("e")).unwrap();
        symlink("n", inside.join("n")).unwrap();
        let mount = Mount::new(
            "@project",
            File::open(&inside).unwrap(),
            &inside,
            MountAccess::ReadWrite,
            MountRules::new(),
        );
        let workspace = Workspace::new(vec![mount.unwrap().as_default()]).unwrap();
        Scene { folder, workspace }
    })
}

fuzz_target!(|input: (bool, u8, &str)| {
    let (alias_only, operation, path) = input;
    let scene = scene();
    let limits = Profile::NATIVE.limits();
    let stop = Deadline::never();
    let style = if alias_only { PathStyle::AliasOnly } else { PathStyle::Free };
    let view = WorkspaceView {
        workspace: &scene.workspace,
        style,
        limits: &limits,
        grant: None,
        stop: &stop,
        unlocked: None,
    };
    match operation % 3 {
        0 => {
            if let Ok(read) = view.read(path, &ReadRequest::default())
                && let FileContent::Text(window) = read.content
            {
                assert!(!window.text.contains(SECRET), "{path:?} read what lies outside");
                assert!(!read.path.starts_with('/'), "{path:?} was answered with a host path");
            }
        }
        1 => {
            let options = ListOptions {
                max_entries: 100,
                include_hidden: true,
                include_symlinks: true,
                with_size: false,
            };
            if let Ok(listed) = view.list(path, &options) {
                assert!(
                    listed.entries.iter().all(|entry| listed.name(entry) != ".env"),
                    "{path:?} listed a denied file"
                );
            }
        }
        _ => {
            if let Ok(target) = view.resolved(path) {
                let climbs = target.split('/').any(|name| name == "..");
                assert!(!target.starts_with('/') && !climbs, "{path:?} would be written at {target}");
            }
            // Only a path that would be refused is really written: the fixture must not change.
            if view.resolved(path).is_err() {
                assert!(
                    view.write(path, b"x", None, &NoopRecorder).is_err(),
                    "{path:?} was refused and then written"
                );
            }
        }
    }
    assert_eq!(fs::read_to_string(scene.folder.path().join("o/s")).unwrap(), SECRET);
});

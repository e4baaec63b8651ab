//! State planted for the gate to trust: in a repository, in a directory of another user, in a mount.

use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::json;
use toolgate_attack::Scratch;
use toolgate_types::{CallId, Sha256};

/// A user with a home directory, and a freshly cloned repository in it.
struct Victim {
    scratch: Scratch,
    home: PathBuf,
    repository: PathBuf,
}

impl Victim {
    fn new() -> Self {
        let scratch = Scratch::new();
        let (home, repository) = (scratch.folder("home"), scratch.folder("home/repository"));
        Self { scratch, home, repository }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolgate"));
        command.current_dir(&self.repository).env("HOME", &self.home);
        command.env_remove("XDG_STATE_HOME").env_remove("TOOLGATE_TOKEN");
        command.args(arguments).output().unwrap()
    }

    /// Plants a journal with a pending restore of a file in the home; returns its entry.
    fn plant(&self, state: &Path) -> PathBuf {
        let journal = state.join("journal.toolgate");
        for folder in ["pending", "done", "blobs"] {
            std::fs::create_dir_all(journal.join(folder)).unwrap();
        }
        let call = CallId::fresh();
        let root = std::fs::metadata(&self.home).unwrap();
        let identity = {
            use std::os::unix::fs::MetadataExt as _;
            json!({"device": root.dev(), "inode": root.ino(), "filesystem": 0})
        };
        let content = "touch ~/owned\n";
        std::fs::write(journal.join(format!("blobs/{call}.0")), content).unwrap();
        let entry = json!({
            "call": call, "session": "cli", "tool": "delete_file", "at": "2026-11-15T05:59:31.483Z",
            "changes": [{
                "mount": "@project", "root": "/proc/self/cwd/../..", "identity": identity,
                "path": ".bash_profile", "kind": "delete",
                "before": {
                    "blob": format!("{call}.0"), "bytes": content.len(), "mode": 420,
                    "sha256": Sha256::of(content.as_bytes()),
                },
            }],
        });
        let pending = journal.join(format!("pending/{call}.json"));
        let forged = Sha256::of(b"a seal");
        std::fs::write(&pending, format!("{entry}\n{forged}\n")).unwrap();
        std::fs::write(journal.join(format!("done/{call}.json")), format!("{entry}\n{forged}\n")).unwrap();
        pending
    }

    fn is_unharmed(&self) -> bool {
        !self.home.join(".bash_profile").exists()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_planted_journal_of_a_repository_puts_nothing_into_the_home() {
    let victim = Victim::new();
    victim.plant(&victim.repository.join(".s"));
    let config = victim.repository.join("toolgate.yaml");
    // In the workspace itself, and beside one that the file names.
    for (workspace, is_refused) in [("~/", true), (".", true), ("sub", false), ("../..", true)] {
        std::fs::write(&config, format!("state_dir: .s\nworkspace: {workspace}\n")).unwrap();
        for command in ["tools", "changes"] {
            let output = victim.run(&["--config", config.to_str().unwrap(), command]);
            assert!(victim.is_unharmed(), "{workspace} {command}: {}", said(&output));
            assert_eq!(output.status.code(), Some(if is_refused { 2 } else { 0 }), "{workspace}: {output:?}");
            let expected =
                if is_refused { "lies in the mount `@project`" } else { "1 entry of the undo journal" };
            assert!(said(&output).contains(expected), "{workspace} {command}: {}", said(&output));
        }
        let output = victim.run(&["--config", config.to_str().unwrap(), "undo", "--force"]);
        assert!(victim.is_unharmed() && !output.stdout.starts_with(b"undid"), "{workspace}: {output:?}");
    }
}

#[test]
fn a_planted_entry_in_a_directory_of_ones_own_is_not_believed() {
    let victim = Victim::new();
    let state = victim.scratch.folder("home/state");
    let entry = victim.plant(&state);
    let before = std::fs::read(&entry).unwrap();
    // A key beside the entries is ignored: the user's key is in the home.
    std::fs::create_dir(state.join("keys")).unwrap();
    std::fs::write(state.join("keys/state.key"), "0".repeat(64)).unwrap();
    std::fs::set_permissions(state.join("keys/state.key"), PermissionsExt::from_mode(0o600)).unwrap();
    for workspace in [&victim.home.join("repository"), &victim.scratch.folder("w")] {
        let options = ["--workspace", workspace.to_str().unwrap(), "--state-dir", state.to_str().unwrap()];
        for command in [&["tools"][..], &["changes", "--all"], &["undo", "--force"]] {
            let output = victim.run(&[&options[..], command].concat());
            assert!(victim.is_unharmed(), "{command:?}: {}", said(&output));
            assert!(
                said(&output).contains("1 entry of the undo journal was not written"),
                "{}",
                said(&output)
            );
            assert_eq!(std::fs::read(&entry).unwrap(), before, "it is left where it is");
        }
    }
    let key = victim.home.join(".local/state/toolgate/keys/state.key");
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_to_string(key).unwrap().trim_end().len(), 64);
}

#[test]
fn state_that_another_user_can_write_is_refused() {
    let victim = Victim::new();
    let shared = victim.scratch.folder("shared");
    std::fs::set_permissions(&shared, PermissionsExt::from_mode(0o1777)).unwrap();
    let (own, others) = (shared.join("own"), shared.join("others"));
    for (path, mode) in [(&own, 0o700), (&others, 0o700), (&shared.join("open"), 0o777)] {
        victim.plant(path);
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }
    symlink(&own, shared.join("link")).unwrap();
    let mut refused = vec![shared.join("open"), shared.clone()];
    // Only root may `chown`.
    if chown(&others, Some(4711), None).is_ok() {
        std::os::unix::fs::lchown(shared.join("link"), Some(4711), None).unwrap();
        refused.extend([others, shared.join("link"), shared.join("link/below")]);
    }
    for state in refused {
        let audit = victim.home.join("audit.conf");
        std::fs::write(&audit, format!("audit: {{directory: {}}}\n", state.display())).unwrap();
        for options in [["--state-dir", state.to_str().unwrap()], ["--config", audit.to_str().unwrap()]] {
            let output = victim.run(&[&options[..], &["tools"]].concat());
            assert_eq!(output.status.code(), Some(2), "{options:?}: {output:?}");
            assert!(
                said(&output).contains("is not believed") && said(&output).contains("help:"),
                "{output:?}"
            );
            assert!(victim.is_unharmed());
        }
    }
    let output = victim.run(&["--state-dir", own.to_str().unwrap(), "tools"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(victim.is_unharmed());
}

#[test]
fn a_state_directory_in_a_mount_is_refused_unless_it_is_the_homes_own() {
    let victim = Victim::new();
    let other = victim.scratch.folder("other");
    let inside = other.join("state");
    let mount = format!("@other={}", other.display());
    let state = inside.to_str().unwrap();
    let refused = victim.run(&["--mount", &mount, "--state-dir", state, "tools"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(said(&refused).contains("lies in the mount `@other`"), "{refused:?}");
    assert!(!inside.exists(), "nothing is made there");
    let read_only = victim.run(&["--mount", &format!("{mount}:ro"), "--state-dir", state, "tools"]);
    assert_eq!(read_only.status.code(), Some(0), "{read_only:?}");
    for workspace in [victim.home.to_str().unwrap(), victim.scratch.path().to_str().unwrap()] {
        let home = victim.run(&["--workspace", workspace, "tools"]);
        assert_eq!(home.status.code(), Some(0), "{home:?}");
    }
    let local = victim.home.join(".local");
    let output = victim.run(&["--workspace", local.to_str().unwrap(), "tools"]);
    assert_eq!(output.status.code(), Some(2), "only what holds the home may hold its state: {output:?}");
}

#[test]
fn a_mount_that_became_a_symlink_is_refused() {
    let victim = Victim::new();
    let (inner, outside) = (victim.scratch.folder("home/repository/inner"), victim.scratch.folder("outside"));
    let mount = format!("@inner={}", inner.display());
    let write = json!({"path": "@inner/a.txt", "content": "new\n"}).to_string();
    let made = victim.run(&["--mount", &mount, "call", "write_file", &write]);
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    std::fs::rename(&inner, victim.repository.join("was_inner")).unwrap();
    symlink(&outside, &inner).unwrap();
    std::fs::write(outside.join("a.txt"), "new\n").unwrap();
    for command in [&["undo", "--force"][..], &["call", "write_file", &write]] {
        let output = victim.run(&[&["--mount", &mount][..], command].concat());
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(said(&output).contains("which tools could replace"), "{output:?}");
    }
    assert_eq!(std::fs::read_to_string(outside.join("a.txt")).unwrap(), "new\n");
}

#[test]
fn a_journal_of_another_version_is_told_by_doctor() {
    let victim = Victim::new();
    assert!(victim.run(&["changes"]).status.success());
    let told = || String::from_utf8(victim.run(&["doctor", "--offline"]).stdout).unwrap();
    assert!(!told().contains("undo journal"), "{}", told());
    let format = victim.home.join(".local/state/toolgate/journal.toolgate/format");
    for (content, says) in [("toolgate journal 2\n", "version 2"), ("", "damaged")] {
        std::fs::write(&format, content).unwrap();
        let told = told();
        let line = told.lines().find(|line| line.contains("undo journal")).unwrap_or_default();
        assert!(line.starts_with("missing") && line.contains(says), "{told}");
        assert_eq!(std::fs::read_to_string(&format).unwrap(), content, "it is left as it is");
    }
}

#[test]
fn the_undo_journal_is_closed_to_other_users() {
    use std::os::unix::fs::MetadataExt as _;
    let victim = Victim::new();
    let journal = victim.home.join(".local/state/toolgate/journal.toolgate");
    std::fs::write(victim.repository.join("a.txt"), "old\n").unwrap();
    let write = || {
        let arguments = json!({"path": "a.txt", "content": CallId::fresh().to_string()}).to_string();
        let called = victim.run(&["call", "write_file", &arguments, "--trust", "autonomous"]);
        assert!(called.status.success(), "{}", said(&called));
    };
    write();
    // With the mode of earlier versions.
    std::fs::set_permissions(&journal, PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(journal.join("added"), [0; 3 * 4096]).unwrap();
    write();
    let mut found = vec![journal];
    while let Some(path) = found.pop() {
        let metadata = std::fs::symlink_metadata(&path).unwrap();
        let expected = if metadata.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(metadata.mode() & 0o777, expected, "{}", path.display());
        if metadata.is_dir() {
            found.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
}

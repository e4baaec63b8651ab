//! What a command leaves under protected names, and how it is quarantined.

use std::fs;
use std::path::Path;
use std::process::Command;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use tempfile::TempDir;
use toolgate_confine::{
    ConfineRequest, ConfinedMount, PostRunScan, ProtectedArtifact, ProtectedArtifactKind, Quarantine,
    QuarantineBounds, Quarantined, confine,
};
use toolgate_types::{CallId, Deadline};
use toolgate_workspace::{MountAccess, MountRules, Workspace};

use crate::confine::WRITABLE;
use crate::tree_text::{make, mount, shown, workspace};

fn confined(workspace: &Workspace) -> ConfinedMount<'_> {
    confine(workspace, &[WRITABLE], None, &Deadline::never()).unwrap().remove(0)
}

fn strays(confined: &ConfinedMount<'_>) -> Vec<ProtectedArtifact> {
    let PostRunScan { found, incomplete, .. } = confined.scan_after_run(&Deadline::never()).unwrap();
    assert!(!incomplete);
    found
}

fn written(strays: &[ProtectedArtifact]) -> Vec<String> {
    strays.iter().map(|stray| format!("{} {}", stray.kind.as_str(), shown(&stray.location))).collect()
}

fn act(root: &Path, lines: &[&str]) {
    for line in lines {
        match line.strip_prefix("- ") {
            Some(path) => fs::remove_file(root.join(path)).unwrap(),
            None => make(root, line),
        }
    }
}

/// A quarantine directory on the same filesystem as the scratch directories, or on another one.
fn quarantine_folder(parent: &Path) -> (TempDir, Dir) {
    let folder = tempfile::tempdir_in(parent).unwrap();
    let open = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
    (folder, open)
}

fn into(folder: &Dir) -> Quarantine<'_> {
    Quarantine {
        directory: folder,
        call: CallId::fresh(),
        when: "2026-11-15T05:01:02.003Z".to_owned(),
        bounds: QuarantineBounds::default(),
    }
}

#[test]
fn strays_are_as_the_table_says_and_gone_once_they_are_taken_away() {
    let cases: Vec<&str> = include_str!("../data/strays.txt").split("\n## ").skip(1).collect();
    assert!(cases.len() > 12);
    for case in cases {
        let (name, rest) = case.split_once('\n').unwrap();
        let parts: Vec<Vec<&str>> =
            rest.split("---\n").map(|part| part.lines().filter(|line| !line.is_empty()).collect()).collect();
        let [before, made, expected] = &parts[..] else { panic!("{name} has {} parts", parts.len()) };
        let scratch = tempfile::tempdir().unwrap();
        act(scratch.path(), before);
        let workspace = workspace(scratch.path());
        let confined = confined(&workspace);
        assert_eq!(written(&strays(&confined)), Vec::<String>::new(), "{name}, before");
        act(scratch.path(), made);
        let found = strays(&confined);
        assert_eq!(written(&found), *expected, "{name}");
        let (_kept, folder) = quarantine_folder(&std::env::temp_dir());
        for stray in &found {
            let taken = confined.quarantine(stray, &into(&folder)).unwrap().unwrap();
            assert!(!taken.in_place, "{name}: {taken:?}");
        }
        assert_eq!(written(&strays(&confined)), Vec::<String>::new(), "{name}, after");
    }
}

#[test]
fn a_mount_that_was_not_written_is_not_looked_at() {
    let scratch = tempfile::tempdir().unwrap();
    let workspace = workspace(scratch.path());
    let wanted = ConfineRequest { writable: false, ..WRITABLE };
    let confined = confine(&workspace, &[wanted], None, &Deadline::never()).unwrap().remove(0);
    make(scratch.path(), ".git/hooks/x");
    assert_eq!(strays(&confined), []);
}

#[test]
fn what_the_gate_and_the_operator_name_is_watched() {
    let scratch = tempfile::tempdir().unwrap();
    let rules = MountRules::new().deny(&["secrets".to_owned()]).unwrap();
    let project = mount("@project", scratch.path(), MountAccess::ReadWrite, rules)
        .hide_gate_files(&[scratch.path().join("var/state")]);
    let workspace = Workspace::new(vec![project]).unwrap();
    let confined = confined(&workspace);
    for line in ["var/state/audit/x", "a/secrets/ordinary", "b/secrets -> ../x", "a/secrets/.git/hooks/x"] {
        make(scratch.path(), line);
    }
    let expected = ["hook a/secrets/.git/hooks/x", "link b/secrets", "own_file var/state"];
    assert_eq!(written(&strays(&confined)), expected);
}

#[test]
fn a_flood_of_hooks_is_one_stray() {
    let scratch = tempfile::tempdir().unwrap();
    let workspace = workspace(scratch.path());
    let confined = confined(&workspace);
    (0..1000).for_each(|number| make(scratch.path(), &format!(".git/hooks/x{number}")));
    assert_eq!(written(&strays(&confined)), ["hook .git/hooks"]);
}

/// A mount with one new hook in it.
struct Hooked {
    scratch: TempDir,
    workspace: Workspace,
}

impl Hooked {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let workspace = workspace(scratch.path());
        Self { scratch, workspace }
    }

    /// Confines, creates a hook like a command, then does something to it and quarantines it.
    fn taken(&self, folder: &Dir, meanwhile: impl FnOnce(&Path)) -> Option<Quarantined> {
        let confined = confined(&self.workspace);
        make(self.scratch.path(), "new/.git/hooks/pre-push = evil");
        let found = strays(&confined);
        assert_eq!(written(&found), ["hook new/.git/hooks/pre-push"]);
        meanwhile(self.scratch.path());
        confined.quarantine(&found[0], &into(folder)).unwrap()
    }
}

#[test]
fn what_is_taken_away_is_kept_with_a_note_on_any_filesystem() {
    let elsewhere = Path::new("/dev/shm");
    for parent in [std::env::temp_dir().as_path(), elsewhere] {
        let hooked = Hooked::new();
        let (kept, folder) = quarantine_folder(parent);
        let taken = hooked.taken(&folder, |_| ()).unwrap();
        assert_eq!((taken.path.as_str(), taken.in_place), ("@project/new/.git/hooks/pre-push", false));
        assert!(taken.kept_as.ends_with("/0-pre-push"), "{taken:?}");
        assert_eq!(fs::read(kept.path().join(&taken.kept_as)).unwrap(), b"evil");
        let note = fs::read_to_string(kept.path().join(format!("{}.json", taken.kept_as))).unwrap();
        let call = taken.kept_as.split('/').next().unwrap();
        let expected = format!(
            r#"{{"version":1,"path":"@project/new/.git/hooks/pre-push","kind":"hook","call":"{call}","when":"2026-11-15T05:01:02.003Z"}}"#
        );
        assert_eq!(note.trim_end(), expected);
        let left: Vec<_> = fs::read_dir(hooked.scratch.path().join("new/.git/hooks")).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn folders_and_links_cross_filesystems_as_far_as_they_can() {
    let scratch = tempfile::tempdir().unwrap();
    let project = mount("@project", scratch.path(), MountAccess::ReadWrite, MountRules::new())
        .hide_gate_files(&[scratch.path().join("state")]);
    let workspace = Workspace::new(vec![project]).unwrap();
    let confined = confined(&workspace);
    make(scratch.path(), "state/x = 1");
    make(scratch.path(), ".env -> /etc/passwd");
    let (kept, folder) = quarantine_folder(Path::new("/dev/shm"));
    let found = strays(&confined);
    assert_eq!(written(&found), ["link .env", "own_file state"]);
    let quarantine = into(&folder);
    let link = confined.quarantine(&found[0], &quarantine).unwrap().unwrap();
    assert_eq!(fs::read_link(kept.path().join(&link.kept_as)).unwrap(), Path::new("/etc/passwd"));
    // A whole directory is not copied; it stays under an inert name that no tool reaches.
    let state = confined.quarantine(&found[1], &quarantine).unwrap().unwrap();
    assert!(state.in_place && state.kept_as.ends_with(".toolgate"), "{state:?}");
    let name = state.kept_as.strip_prefix("@project/").unwrap();
    assert_eq!(fs::read(scratch.path().join(name).join("x")).unwrap(), b"1");
    assert!(!scratch.path().join("state").exists());
}

#[test]
fn links_planted_on_the_way_are_not_followed() {
    let (_kept, folder) = quarantine_folder(&std::env::temp_dir());
    let outside = tempfile::tempdir().unwrap();
    make(outside.path(), "hooks/pre-push = precious");
    for planted in ["new", "new/.git", "new/.git/hooks"] {
        let hooked = Hooked::new();
        let taken = hooked.taken(&folder, |root| {
            fs::rename(root.join(planted), root.join("aside")).unwrap();
            let target = if planted.ends_with("hooks") { "hooks" } else { "" };
            std::os::unix::fs::symlink(outside.path().join(target), root.join(planted)).unwrap();
        });
        assert_eq!(taken, None, "{planted}");
        assert_eq!(fs::read(outside.path().join("hooks/pre-push")).unwrap(), b"precious");
        // Not even when the same file lies behind the symlink.
        let hooked = Hooked::new();
        let taken = hooked.taken(&folder, |root| {
            fs::rename(root.join(planted), root.join("aside")).unwrap();
            std::os::unix::fs::symlink(root.join("aside"), root.join(planted)).unwrap();
        });
        assert_eq!(taken, None, "{planted}");
    }
}

#[test]
fn somebody_elses_file_is_put_back_and_what_is_gone_is_gone() {
    let (_kept, folder) = quarantine_folder(&std::env::temp_dir());
    let hooked = Hooked::new();
    let hook = hooked.scratch.path().join("new/.git/hooks/pre-push");
    let taken = hooked.taken(&folder, |root| {
        make(root, "fresh = mine");
        fs::rename(root.join("fresh"), &hook).unwrap();
    });
    assert_eq!((taken, fs::read(&hook).unwrap()), (None, b"mine".to_vec()));
    fs::remove_file(&hook).unwrap();
    assert_eq!(Hooked::new().taken(&folder, |root| fs::remove_dir_all(root.join("new")).unwrap()), None);
}

#[test]
fn names_in_the_quarantine_are_unique_short_and_harmless() {
    let scratch = tempfile::tempdir().unwrap();
    let workspace = workspace(scratch.path());
    let confined = confined(&workspace);
    let long = "n".repeat(240);
    for line in
        ["a/.git/hooks/x = 1", "b/.git/hooks/x = 2", &format!(".git/hooks/{long}"), ".git/hooks/\\xff\\n"]
    {
        make(scratch.path(), line);
    }
    let (kept, folder) = quarantine_folder(&std::env::temp_dir());
    let quarantine = into(&folder);
    let taken: Vec<String> = strays(&confined)
        .iter()
        .map(|stray| confined.quarantine(stray, &quarantine).unwrap().unwrap().kept_as)
        .map(|kept_as| kept_as.split_once('/').unwrap().1.to_owned())
        .collect();
    assert_eq!(taken, [format!("0-{}", &long[..40]), "1-".to_owned(), "2-x".to_owned(), "3-x".to_owned()]);
    assert_eq!(fs::read_dir(kept.path().join(quarantine.call.to_string())).unwrap().count(), 8);
}

fn git(directory: &Path, arguments: &[&str]) {
    let output = Command::new("git")
        .args(["-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "protocol.file.allow=always"])
        .args(arguments)
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn what_git_itself_makes_stays() {
    let origin = tempfile::tempdir().unwrap();
    git(origin.path(), &["init", "-q", "-b", "main", "one"]);
    let one = origin.path().join("one");
    git(&one, &["commit", "-q", "--allow-empty", "-m", "first"]);
    git(origin.path(), &["init", "-q", "-b", "main", "two"]);
    let two = origin.path().join("two");
    git(&two, &["submodule", "--quiet", "add", one.to_str().unwrap(), "part"]);
    git(&two, &["commit", "-q", "-m", "with a part"]);

    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().canonicalize().unwrap();
    let workspace = workspace(&root);
    let confined = confined(&workspace);
    git(&root, &["init", "-q"]);
    git(&root, &["commit", "-q", "--allow-empty", "-m", "mine"]);
    git(&root, &["worktree", "add", "-q", "tree"]);
    git(&root, &["init", "-q", "--bare", "bare.git"]);
    git(&root, &["clone", "-q", "--recurse-submodules", two.to_str().unwrap(), "clone"]);
    git(&root, &["clone", "-q", "--mirror", two.to_str().unwrap(), "mirror.git"]);
    assert!(root.join("clone/.git/modules/part/config").exists() && root.join("tree/.git").is_file());
    assert_eq!(written(&strays(&confined)), Vec::<String>::new());

    git(&root.join("clone"), &["config", "core.hooksPath", "x"]);
    git(&root.join("mirror.git"), &["config", "core.pager", "x"]);
    let found = strays(&confined);
    assert_eq!(written(&found), ["git_config clone/.git/config", "repository mirror.git/HEAD"]);
    assert_eq!(found[0].kind, ProtectedArtifactKind::GitConfig);
}

#[test]
fn one_file_of_many_names_is_judged_alike_everywhere() {
    let scratch = tempfile::tempdir().unwrap();
    let workspace = workspace(scratch.path());
    let confined = confined(&workspace);
    make(scratch.path(), "harmful = [core]\\n\\tpager = evil\\n");
    make(scratch.path(), "module = [core]\\n\\tworktree = ../../../sub\\n");
    make(scratch.path(), "sub/file");
    for (number, name) in ["harmful", "module"].into_iter().cycle().take(200).enumerate() {
        for folder in [format!("a{number}/.git"), format!(".git/modules/{number}")] {
            fs::create_dir_all(scratch.path().join(&folder)).unwrap();
            fs::hard_link(scratch.path().join(name), scratch.path().join(folder).join("config")).unwrap();
        }
    }
    let found = strays(&confined);
    // Which worktree a repository may have depends on where the repository is.
    let of = |prefix: &str| found.iter().filter(|stray| stray.location.starts_with(prefix)).count();
    assert_eq!(of(".git"), 0, "they are no repositories without a `HEAD`");
    assert_eq!(found.len(), 200, "all that are called `.git`");
}

#[test]
fn what_was_found_in_time_is_told_with_a_warning() {
    let scratch = tempfile::tempdir().unwrap();
    let workspace = workspace(scratch.path());
    let confined = confined(&workspace);
    make(scratch.path(), ".envrc");
    (0..2000).for_each(|number| make(scratch.path(), &format!("d{number}/x")));
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let stop =
        Deadline::never().with_signal(move || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 20);
    let PostRunScan { found, incomplete, .. } = confined.scan_after_run(&stop).unwrap();
    assert!(incomplete);
    assert_eq!(written(&found), ["program_config .envrc"]);
}

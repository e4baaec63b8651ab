//! Overlapping commands in one gate and in several, and gates that are killed: what counts as known.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use tempfile::TempDir;
use toolgate_confine::{
    Baselines, ConfineRequest, ConfinedRun, Quarantine, QuarantineBounds, ScanCoverage, confine,
};
use toolgate_types::{CallId, Deadline, ErrorCode, Failure};
use toolgate_workspace::{MountAccess, MountRules, Workspace, WorkspaceError};

use crate::confine::WRITABLE;
use crate::tree_text::{make, mount, shown};

/// A directory with a workspace, and one in which gates keep their baselines.
struct Setting {
    work: TempDir,
    kept: TempDir,
}

impl Setting {
    fn new() -> Self {
        Self { work: tempfile::tempdir().unwrap(), kept: tempfile::tempdir().unwrap() }
    }

    fn gate(&self) -> Baselines {
        Baselines::open(Dir::open_ambient_dir(self.kept.path(), ambient_authority()).unwrap()).unwrap()
    }

    fn workspace(&self) -> Workspace {
        self.mounted(&[("@project", "")])
    }

    fn mounted(&self, mounts: &[(&str, &str)]) -> Workspace {
        let mounts = mounts.iter().map(|(alias, place)| {
            mount(alias, &self.work.path().join(place), MountAccess::ReadWrite, MountRules::new())
        });
        Workspace::new(mounts.collect()).unwrap()
    }

    fn make(&self, lines: &[&str]) {
        lines.iter().for_each(|line| make(self.work.path(), line));
    }

    /// The parts of a repository whose configuration names a program, except for `HEAD`.
    fn parts(&self, place: &str) {
        let line = |name: &str| format!("{place}/{name}");
        self.make(&[&line("objects/x"), &line("refs/x"), &line("config = [core]\\n\\tfsmonitor = evil\\n")]);
    }

    fn rename(&self, from: &str, to: &str) {
        fs::rename(self.work.path().join(from), self.work.path().join(to)).unwrap();
    }

    fn records(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.kept.path()).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_some_and(|ending| ending == "run")).collect()
    }
}

const INNER: ConfineRequest<'static> = ConfineRequest { alias: "@inner", writable: true };

fn begin<'r>(gate: &'r Baselines, workspace: &'r Workspace, wanted: ConfineRequest<'_>) -> ConfinedRun<'r> {
    gate.confine(workspace, &[wanted], None, &Deadline::never()).unwrap()
}

fn found(run: &ConfinedRun<'_>) -> Vec<String> {
    let strays = run.mounts()[0].scan_after_run(&Deadline::never()).unwrap();
    assert!(!strays.incomplete && !strays.missed);
    strays.found.iter().map(|stray| format!("{} {}", stray.kind.as_str(), shown(&stray.location))).collect()
}

/// Ends a command with a complete scan, and returns what the scan found.
fn end(run: ConfinedRun<'_>) -> Vec<String> {
    run.ended();
    let found = found(&run);
    run.settle(0, ScanCoverage::Complete);
    found
}

/// A command that other gates see as running, until it ends as if its gate had been killed.
fn killed(setting: &Setting, workspace: &Workspace, at_work: impl FnOnce()) {
    let gate = setting.gate();
    let run = begin(&gate, workspace, WRITABLE);
    at_work();
    // A killed process drops no values; only its descriptors are closed.
    let record = setting.records().into_iter().next().unwrap();
    let content = fs::read(&record).unwrap();
    drop(end(run));
    drop(gate);
    fs::write(record, content).unwrap();
}

/// The first command builds a repository and takes it apart again; the second one, which began in between, reassembles it.
fn attack(
    setting: &Setting,
    first: (&Baselines, &Workspace, ConfineRequest<'_>),
    second: (&Baselines, &Workspace, ConfineRequest<'_>),
) -> (Vec<String>, Vec<String>) {
    let one = begin(first.0, first.1, first.2);
    setting.parts("sub/evil");
    setting.make(&["sub/evil/HEAD"]);
    let other = begin(second.0, second.1, second.2);
    setting.rename("sub/evil/HEAD", "sub/head");
    let after_first = end(one);
    setting.rename("sub/head", "sub/evil/HEAD");
    (after_first, end(other))
}

#[test]
fn what_one_command_builds_is_not_known_to_one_that_starts_meanwhile() {
    let nothing = Vec::<String>::new();
    let whole = vec!["repository sub/evil/HEAD".to_owned()];
    let inner = vec!["repository evil/HEAD".to_owned()];
    let setting = || {
        let setting = Setting::new();
        fs::create_dir(setting.work.path().join("sub")).unwrap();
        setting
    };
    // One gate, one mount; and two gates.
    let here = setting();
    let (workspace, gate) = (here.workspace(), here.gate());
    let one = (&gate, &workspace, WRITABLE);
    assert_eq!(attack(&here, one, one), (nothing.clone(), whole.clone()));
    let here = setting();
    let (workspace, gates) = (here.workspace(), [here.gate(), here.gate()]);
    let [one, other] = [&gates[0], &gates[1]].map(|gate| (gate, &workspace, WRITABLE));
    assert_eq!(attack(&here, one, other), (nothing.clone(), whole.clone()));
    // One directory under two aliases.
    let here = setting();
    let (workspace, gate) = (here.mounted(&[("@project", ""), ("@inner", "")]), here.gate());
    let (one, other) = ((&gate, &workspace, WRITABLE), (&gate, &workspace, INNER));
    assert_eq!(attack(&here, one, other), (nothing.clone(), whole.clone()));
    // One mount inside the other, either way, in one gate and in two.
    for gates in [1, 2] {
        let here = setting();
        let workspace = here.mounted(&[("@project", ""), ("@inner", "sub")]);
        let made: Vec<Baselines> = (0..gates).map(|_| here.gate()).collect();
        let (outer, inside) = ((&made[0], &workspace, WRITABLE), (made.last().unwrap(), &workspace, INNER));
        assert_eq!(attack(&here, outer, inside), (nothing.clone(), inner.clone()), "{gates}");
        fs::remove_dir_all(here.work.path().join("sub/evil")).unwrap();
        assert_eq!(attack(&here, inside, outer), (nothing.clone(), whole.clone()), "{gates}");
    }
}

#[test]
fn a_baseline_is_renewed_when_nothing_runs_and_not_before() {
    let setting = Setting::new();
    let (workspace, gates) = (setting.workspace(), [setting.gate(), setting.gate()]);
    let one = begin(&gates[0], &workspace, WRITABLE);
    setting.make(&[".envrc = mine"]);
    let other = begin(&gates[1], &workspace, WRITABLE);
    assert_eq!(end(one), ["program_config .envrc"]);
    // The second one still runs.
    let third = begin(&gates[0], &workspace, WRITABLE);
    assert_eq!(end(other), ["program_config .envrc"]);
    assert_eq!(end(third), ["program_config .envrc"]);
    for gate in &gates {
        assert_eq!(end(begin(gate, &workspace, WRITABLE)), Vec::<String>::new());
    }
    // A read-only run does not prevent a new baseline.
    let reading = begin(&gates[0], &workspace, ConfineRequest { writable: false, ..WRITABLE });
    setting.make(&["toolgate.yaml = mine"]);
    assert_eq!(end(begin(&gates[1], &workspace, WRITABLE)), Vec::<String>::new());
    drop(reading);
    drop(gates);
    assert_eq!(setting.records(), Vec::<PathBuf>::new(), "gates that end leave nothing");
}

#[test]
fn what_was_not_looked_at_to_the_end_is_not_known_to_the_next_command() {
    let setting = Setting::new();
    let (workspace, gate) = (setting.workspace(), setting.gate());
    for leave in [
        |run: ConfinedRun<'_>| drop(run),
        |run: ConfinedRun<'_>| {
            run.ended();
            run.settle(0, ScanCoverage::Partial);
        },
    ] {
        let run = begin(&gate, &workspace, WRITABLE);
        assert!(!run.is_inherited());
        setting.make(&[".envrc = evil"]);
        leave(run);
        let next = begin(&gate, &workspace, WRITABLE);
        assert!(next.is_inherited());
        assert_eq!(end(next), ["program_config .envrc"]);
        assert!(!begin(&gate, &workspace, WRITABLE).is_inherited());
        fs::remove_file(setting.work.path().join(".envrc")).unwrap();
        // The value above was dropped without being settled.
        end(begin(&gate, &workspace, WRITABLE));
    }
    // A run that never began leaves nothing to scan.
    begin(&gate, &workspace, WRITABLE).cancel();
    assert!(!begin(&gate, &workspace, WRITABLE).is_inherited());
}

#[test]
fn what_the_commands_of_a_killed_gate_left_is_not_known_to_the_next_gate() {
    let setting = Setting::new();
    setting.make(&["before/.envrc = mine", "sub/deep/x", "\\xff/.envrc = mine"]);
    let plant = || setting.make(&[".git/hooks/post-commit = evil", "sub/deep/.envrc = evil"]);
    for (mounts, wanted, expected) in [
        (
            &[("@project", "")][..],
            WRITABLE,
            &["hook .git/hooks/post-commit", "program_config sub/deep/.envrc"][..],
        ),
        (&[("@inner", "sub")], INNER, &["program_config deep/.envrc"]),
    ] {
        killed(&setting, &setting.workspace(), plant);
        let (workspace, gate) = (setting.mounted(mounts), setting.gate());
        assert!(gate.has_orphaned(&workspace).unwrap());
        let run = begin(&gate, &workspace, wanted);
        assert!(run.is_inherited());
        assert_eq!(end(run), expected);
        // One scan is enough: what the user creates now is legitimate.
        assert!(!gate.has_orphaned(&workspace).unwrap());
        assert_eq!(end(begin(&gate, &workspace, wanted)), Vec::<String>::new());
        drop(gate);
        fs::remove_dir_all(setting.work.path().join(".git")).unwrap();
        fs::remove_file(setting.work.path().join("sub/deep/.envrc")).unwrap();
    }
    // Of the killed run around the last mount, this part is settled and the rest is still to be scanned.
    plant();
    let (workspace, gate) = (setting.workspace(), setting.gate());
    assert!(gate.has_orphaned(&workspace).unwrap());
    assert_eq!(end(begin(&gate, &workspace, WRITABLE)), ["hook .git/hooks/post-commit"]);
    drop(gate);
    assert_eq!(setting.records(), Vec::<PathBuf>::new());
}

#[test]
fn a_record_that_cannot_be_read_stops_commands_until_a_person_has_looked() {
    let setting = Setting::new();
    let workspace = setting.workspace();
    for damage in [1, 40] {
        killed(&setting, &workspace, || setting.make(&[".envrc = evil"]));
        let record = setting.records().remove(0);
        let content = fs::read(&record).unwrap();
        fs::write(&record, &content[..content.len() - damage]).unwrap();
        let gate = setting.gate();
        let refused = gate.confine(&workspace, &[WRITABLE], None, &Deadline::never()).map(drop).unwrap_err();
        let failure = Failure::from(refused);
        assert_eq!(failure.code, ErrorCode::SandboxUnavailable);
        let name = record.file_name().unwrap().to_str().unwrap();
        let note = failure.operator_note.unwrap();
        assert!(note.contains(name) && note.contains("then remove that file"), "{note}");
        assert!(!failure.message.contains(name), "{}", failure.message);
        fs::remove_file(&record).unwrap();
        assert_eq!(end(begin(&gate, &workspace, WRITABLE)), Vec::<String>::new());
    }
    // A gate that was killed before its command ran leaves nothing to scan.
    fs::write(setting.kept.path().join("x.run"), "S").unwrap();
    fs::write(setting.kept.path().join("y.run"), "").unwrap();
    let gate = setting.gate();
    assert!(!begin(&gate, &workspace, WRITABLE).is_inherited());
    assert_eq!(setting.records().len(), 1);
}

#[test]
fn baselines_that_others_could_write_are_not_used() {
    let setting = Setting::new();
    fs::set_permissions(setting.kept.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let folder = Dir::open_ambient_dir(setting.kept.path(), ambient_authority()).unwrap();
    assert_eq!(Baselines::open(folder).unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
}

#[test]
fn a_stray_that_two_commands_left_is_taken_away_once_and_told_by_both() {
    let setting = Setting::new();
    let kept = tempfile::tempdir().unwrap();
    let folder = Dir::open_ambient_dir(kept.path(), ambient_authority()).unwrap();
    let (workspace, gate) = (setting.workspace(), setting.gate());
    let runs = [begin(&gate, &workspace, WRITABLE), begin(&gate, &workspace, WRITABLE)];
    setting.make(&[".envrc = evil"]);
    let strays =
        [&runs[0], &runs[1]].map(|run| run.mounts()[0].scan_after_run(&Deadline::never()).unwrap().found);
    let taken: Vec<String> = runs
        .iter()
        .zip(&strays)
        .map(|(run, strays)| {
            let quarantine = Quarantine {
                directory: &folder,
                call: CallId::fresh(),
                when: "2026-11-15T05:01:02.003Z".to_owned(),
                bounds: QuarantineBounds::default(),
            };
            run.quarantine(&run.mounts()[0], &strays[0], &quarantine).unwrap().unwrap().kept_as
        })
        .collect();
    assert_eq!(taken[0], taken[1]);
    assert_eq!(fs::read(kept.path().join(&taken[0])).unwrap(), b"evil");
    let calls = fs::read_dir(kept.path()).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_dir());
    assert_eq!(calls.count(), 1);
}

/// Root ignores file modes; without `CAP_DAC_OVERRIDE`, which only this thread drops, it does not.
fn without_override() {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

    let mut sets = capabilities(None).unwrap();
    sets.effective.remove(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH);
    set_capabilities(None, sets).unwrap();
}

#[test]
fn a_directory_without_rights_keeps_nothing_from_being_taken_away() {
    let setting = Setting::new();
    let kept = tempfile::tempdir().unwrap();
    let folder = Dir::open_ambient_dir(kept.path(), ambient_authority()).unwrap();
    let (workspace, gate) = (setting.workspace(), setting.gate());
    let run = begin(&gate, &workspace, WRITABLE);
    setting.make(&["closed/.envrc = evil"]);
    fs::set_permissions(setting.work.path().join("closed"), fs::Permissions::from_mode(0o555)).unwrap();
    without_override();
    let refused = fs::remove_file(setting.work.path().join("closed/.envrc")).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied, "the mode is no bound here");
    let stray = run.mounts()[0].scan_after_run(&Deadline::never()).unwrap().found.remove(0);
    let quarantine = Quarantine {
        directory: &folder,
        call: CallId::fresh(),
        when: String::new(),
        bounds: QuarantineBounds::default(),
    };
    assert!(!run.quarantine(&run.mounts()[0], &stray, &quarantine).unwrap().unwrap().in_place);
    assert!(!setting.work.path().join("closed/.envrc").exists());
}

#[test]
fn hooks_of_a_directory_that_becomes_a_repository_are_not_known() {
    let setting = Setting::new();
    let (workspace, gate) = (setting.workspace(), setting.gate());
    // Harmless by itself, and so ignored.
    setting.make(&["shelf/hooks/post-update = evil", "shelf/objects/x", "shelf/refs/x"]);
    assert_eq!(end(begin(&gate, &workspace, WRITABLE)), Vec::<String>::new());
    let run = begin(&gate, &workspace, WRITABLE);
    setting.make(&["shelf/HEAD = ref: refs/heads/main"]);
    assert_eq!(end(run), ["repository shelf/HEAD"]);
}

#[test]
fn symlinks_that_lead_out_and_pipes_are_told_and_stay() {
    let setting = Setting::new();
    let (workspace, gate) = (setting.workspace(), setting.gate());
    setting.make(&["a/old -> ../../..", "a/b/x"]);
    // Filesystem timestamps are coarse.
    let clock = || fs::metadata(setting.work.path().join("a")).unwrap();
    let before = std::os::unix::fs::MetadataExt::ctime(&clock());
    assert!(before > 0);
    std::thread::sleep(std::time::Duration::from_millis(50));
    let run = begin(&gate, &workspace, WRITABLE);
    let inside = setting.work.path().join("a/b").display().to_string();
    for line in ["a/out -> ../..", "a/b/abs -> /etc/passwd", "a/in -> b/../b/x", "pipe |"] {
        setting.make(&[line]);
    }
    setting.make(&[&format!("a/same -> {inside}")]);
    let told = |run: &ConfinedRun<'_>| {
        let leftovers = run.mounts()[0].scan_after_run(&Deadline::never()).unwrap().leftovers;
        leftovers.iter().map(|left| format!("{} {}", left.kind.as_str(), left.path)).collect::<Vec<_>>()
    };
    assert_eq!(
        told(&run),
        ["outward_symlink @project/a/b/abs", "outward_symlink @project/a/out", "fifo @project/pipe"]
    );
    end(run);
    assert!(Path::new(&inside).join("abs").is_symlink());
}

/// A walk that finds too much is an error that names the place.
#[test]
fn the_refusal_of_too_many_covers_names_where_most_of_them_are() {
    let setting = Setting::new();
    for number in 0..10_001 {
        fs::write(setting.work.path().join(format!("{number}.pem")), "").unwrap();
    }
    let workspace = setting.workspace();
    let error = confine(&workspace, &[WRITABLE], None, &Deadline::never()).map(drop).unwrap_err();
    assert!(matches!(&error, WorkspaceError::TooManyCovers { most, .. } if most == "@project"), "{error}");
    assert!(Failure::from(error).help.unwrap().contains("move them into a directory of their own"));
    // In a directory of their own they are masked with it.
    fs::create_dir(setting.work.path().join("certificates")).unwrap();
    for number in 0..10_001 {
        setting.rename(&format!("{number}.pem"), &format!("certificates/{number}.pem"));
    }
    setting.make(&["other/one.pem"]);
    let confined = confine(&workspace, &[WRITABLE], None, &Deadline::never()).unwrap().remove(0);
    assert_eq!(confined.bundled().collect::<Vec<_>>(), ["@project/certificates"]);
    let covers: Vec<String> = confined.overlays().iter().map(|cover| shown(cover.path())).collect();
    assert_eq!(covers, ["certificates", "other", "other/one.pem"]);
    // Also where each directory holds one of them.
    fs::remove_dir_all(setting.work.path().join("certificates")).unwrap();
    for number in 0..10_001 {
        let folder = setting.work.path().join(format!("many/{number}"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("key.pem"), "").unwrap();
    }
    let confined = confine(&workspace, &[WRITABLE], None, &Deadline::never()).unwrap().remove(0);
    assert!(confined.bundled().any(|folder| folder == "@project/many"));
    assert!(confined.overlays().len() < 10);
}

#[test]
fn a_repository_is_one_in_whichever_case_its_names_are_written() {
    let setting = Setting::new();
    let (workspace, gate) = (setting.workspace(), setting.gate());
    let run = begin(&gate, &workspace, WRITABLE);
    // On a case-insensitive filesystem, git finds all of them.
    setting.make(&["x/head", "x/Objects/y", "x/REFS/y", "x/Config = [core]\\n\\tfsmonitor = evil\\n"]);
    setting.make(&[
        "y/HEAD",
        "y/CommonDir = ../elsewhere",
        "z/HEAD",
        "z/objects/x",
        "z/refs/x",
        "z/HOOKS/update = evil",
    ]);
    assert_eq!(end(run), ["repository x/head", "repository y/HEAD", "repository z/HEAD"]);
}

//! Any bytes in the files by which git finds a repository and its configuration, and any globs that become pathspecs: the scan terminates, the file
//! that leads to the repository stays protected, and no pathspec includes what is denied by name.
#![no_main]

use std::fs::{self, File};
use std::path::Path;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use toolgate_types::Deadline;
use toolgate_confine::{confine, ConfineRequest};
use toolgate_workspace::{Mount, MountAccess, MountRules, Workspace};

/// The prefixes of pathspecs: relative to the root of the worktree, with only these magic words.
const BEGINNINGS: [&str; 3] = [":(top)", ":(top,glob)", ":(top,exclude,icase,glob)"];

fn scene() -> &'static Path {
    static SCENE: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = SCENE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("kept/worktrees/a")).unwrap();
        folder
    });
    folder.path()
}

fuzz_target!(|input: (&[u8], &[u8], &[u8], Vec<String>, Vec<String>)| {
    let (git_file, common, config, deny, scope) = input;
    let root = scene();
    for (name, content) in [
        (".git", git_file),
        ("kept/commondir", common),
        ("kept/worktrees/a/gitdir", common),
        ("kept/config", config),
        ("kept/config.worktree", config),
    ] {
        fs::write(root.join(name), content).unwrap();
    }
    let rules = MountRules::new().deny(&deny).and_then(|rules| rules.scope(&scope));
    let (rules, is_ruled) = rules.map_or_else(|_| (MountRules::new(), false), |rules| (rules, true));
    let mount =
        Mount::new("@project", File::open(root).unwrap(), root, MountAccess::ReadWrite, rules).unwrap();
    let workspace = Workspace::new(vec![mount.as_default()]).unwrap();
    let wanted = [ConfineRequest { alias: "@project", writable: true }];
    let confined = confine(&workspace, &wanted, None, &Deadline::never());
    // A rule may mask it together with a directory around it.
    if let Some(confined) = confined.ok().filter(|_| deny.is_empty() && scope.is_empty()) {
        let is_covered = confined[0].overlays().iter().any(|cover| cover.path() == Path::new(".git"));
        assert!(is_covered, "a command could replace `.git`");
    }
    if let Ok(pathspecs) = workspace.git_pathspecs("@project", None) {
        let known = |text: &String| BEGINNINGS.iter().any(|beginning| text.starts_with(beginning));
        assert!(pathspecs.iter().all(known), "{pathspecs:?}");
        assert!(pathspecs.iter().any(|text| text.contains("exclude") && text.contains(".env")));
        assert!(!is_ruled || scope.is_empty() || !pathspecs.iter().any(|text| text == ":(top)"));
    }
});

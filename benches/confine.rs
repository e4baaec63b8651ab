//! The scan before every command, compared with the floor: reading the same directories and ignoring their entries.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark arranges files by hand and prints what it measures"
)]

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use toolgate_benches::{in_turns, report};
use toolgate_confine::{ConfineRequest, confine};
use toolgate_types::Deadline;
use toolgate_workspace::{HardLinks, Mount, MountAccess, MountRules, Workspace};

const ROUNDS: usize = 25;
const WANTED: ConfineRequest<'static> = ConfineRequest { alias: "@project", writable: true };

fn main() {
    for (name, files) in [("20k", 20_000), ("100k", 100_000)] {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().canonicalize().unwrap();
        grow(&tree, files);
        // A tree that was changed a moment ago is scanned again, which would be another measurement.
        std::thread::sleep(Duration::from_millis(50));
        plain(name, files, &tree);
    }
}

fn plain(name: &str, files: usize, tree: &Path) {
    let mounted = |rules: MountRules| {
        let root = File::open(tree).unwrap();
        let mount = Mount::new("@project", root, tree, MountAccess::ReadWrite, rules).unwrap();
        Workspace::new(vec![mount]).unwrap().with_hard_links(HardLinks::Allow)
    };
    let workspace = mounted(MountRules::new());
    let run = |workspace: &Workspace| {
        let confined = confine(workspace, &[WANTED], None, &Deadline::never()).unwrap();
        assert_eq!(confined.first().unwrap().overlays().len(), 14);
    };
    let (ours, floor) = in_turns(ROUNDS, || run(&workspace), || assert_eq!(count(tree), files + 8));
    report(&format!("confine/{name}"), ours, floor, "readdir", 1.5);
    println!("  {:.3} us for an entry", ours.as_secs_f64() * 1e6 / files as f64);
    let (ours, found) = in_turns(ROUNDS, || run(&workspace), || find(tree));
    report(&format!("confine/{name}-beside-find"), ours, found, "find", 1.0);
    // The default: `st_nlink` of every file is checked.
    let protecting = mounted(MountRules::new()).with_hard_links(HardLinks::Protect);
    let (ours, found) = in_turns(ROUNDS, || run(&protecting), || find_linked(tree));
    report(&format!("confine/{name}-hard-links"), ours, found, "find -links", 1.0);
    println!("  {:.3} us for an entry", ours.as_secs_f64() * 1e6 / files as f64);
    let globs = mounted(MountRules::new().deny(&["secrets/**".to_owned(), "*.secret".to_owned()]).unwrap());
    let (ours, floor) = in_turns(ROUNDS, || run(&globs), || assert_eq!(count(tree), files + 8));
    report(&format!("confine/{name}-with-globs"), ours, floor, "readdir", 2.5);
    let confined = confine(&workspace, &[WANTED], None, &Deadline::never()).unwrap();
    let strays =
        || assert_eq!(confined.first().unwrap().scan_after_run(&Deadline::never()).unwrap().found.len(), 0);
    let (ours, floor) = in_turns(ROUNDS, strays, || assert_eq!(count(tree), files + 8));
    report(&format!("confine/{name}-strays"), ours, floor, "readdir", 1.5);
}

/// Twenty files per directory, forty directories in one above: about the shape of a project with its dependencies.
fn grow(tree: &Path, files: usize) {
    for folder in 0..files / 20 {
        let path = tree.join(format!("packages{}/module{folder}/src", folder / 40));
        fs::create_dir_all(&path).unwrap();
        (0..20).for_each(|file| fs::write(path.join(format!("component{file}.ts")), "").unwrap());
    }
    for place in
        [".git/HEAD", ".git/config", ".git/hooks/pre-commit", ".env", "packages0/.env", "packages1/key.pem"]
    {
        fs::create_dir_all(tree.join(place).parent().unwrap()).unwrap();
        fs::write(tree.join(place), "").unwrap();
    }
    for place in ["packages2/.git/hooks", "packages3"] {
        fs::create_dir_all(tree.join(place)).unwrap();
    }
    for place in ["packages2/.git/config", "packages3/id_rsa"] {
        fs::write(tree.join(place), "").unwrap();
    }
}

/// The number of files, by reading every directory with the standard library.
fn count(folder: &Path) -> usize {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| if entry.file_type().unwrap().is_dir() { count(&entry.path()) } else { 1 })
        .sum()
}

fn find_linked(tree: &Path) {
    let mut command = Command::new("find");
    let status =
        command.arg(tree).args(["-type", "f", "-links", "+1"]).stdout(Stdio::null()).status().unwrap();
    assert!(status.success());
}

fn find(tree: &Path) {
    let status =
        Command::new("find").arg(tree).args(["-name", "zyzzyva"]).stdout(Stdio::null()).status().unwrap();
    assert!(status.success());
}

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rustix::fs::{CWD, Mode, RenameFlags, mkdirat, mkfifoat, openat, renameat_with};
use toolgate_search::{FindOptions, Hidden, SearchOptions, Skipped};

use crate::tree::{Tree, places};

#[test]
fn links_out_of_the_tree_and_round_in_it_are_not_followed() {
    let outside = Tree::with(&[("secret", "needle\n"), ("sub/secret", "needle\n")]);
    let tree = Tree::with(&[("real/file", "needle\n")]);
    let link = |target: &Path, name: &str| symlink(target, tree.path().join(name)).unwrap();
    link(outside.path(), "absolute");
    link(&outside.path().join("secret"), "file");
    link(Path::new("../.."), "real/up");
    link(Path::new("."), "real/loop");
    link(Path::new("self"), "self");
    link(Path::new("nowhere"), "dangling");
    link(Path::new("/proc/self/root"), "magic");
    let found = tree.search(&SearchOptions::new("needle"));
    assert_eq!(places(&found), ["real/file:1"]);
    assert_eq!((found.stats.files_searched, found.skipped), (1, Skipped::default()));
}

#[test]
fn a_pipe_in_the_tree_is_passed_by() {
    let tree = Tree::with(&[("a", "needle\n"), ("z", "needle\n")]);
    mkfifoat(&tree.handle, "pipe", Mode::RUSR | Mode::WUSR).unwrap();
    mkfifoat(&tree.handle, ".gitignore", Mode::RUSR | Mode::WUSR).unwrap();
    let found = tree.search(&SearchOptions { hidden: Hidden::All, ..SearchOptions::new("needle") });
    assert_eq!((places(&found), found.stats.files_searched), (vec!["a:1".to_owned(), "z:1".to_owned()], 2));
}

/// Sets the flag when dropped, so that a failed assertion does not leave the other thread running.
struct WhenDropped<'a>(&'a AtomicBool);

impl Drop for WhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Swaps two names as fast as it can until the flag is set, and counts.
fn swap_until(stop: &AtomicBool, swaps: &AtomicUsize, tree: &Tree, one: &str, other: &str) {
    while !stop.load(Ordering::Relaxed) {
        renameat_with(&tree.handle, one, &tree.handle, other, RenameFlags::EXCHANGE).unwrap();
        swaps.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs `attempt` while another thread swaps, until both have happened often enough.
fn while_swapping(tree: &Tree, one: &str, other: &str, mut attempt: impl FnMut()) {
    let (stop, swaps) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|threads| {
        threads.spawn(|| swap_until(&stop, &swaps, tree, one, other));
        let _also_after_a_failure = WhenDropped(&stop);
        for _ in 0..4000 {
            attempt();
        }
        while swaps.load(Ordering::Relaxed) < 1000 {
            attempt();
        }
    });
}

#[test]
fn a_folder_that_becomes_a_link_while_it_is_walked_leads_nowhere() {
    let outside = Tree::with(&[("secret", "needle\n"), ("deep/secret", "needle\n")]);
    let tree = Tree::with(&[("door/file", "needle\n"), ("a", "x"), ("z", "x")]);
    symlink(outside.path(), tree.path().join("spare")).unwrap();
    let (mut inside, mut nothing) = (0, 0);
    while_swapping(&tree, "door", "spare", || {
        let found = tree.search(&SearchOptions::new("needle"));
        for place in places(&found) {
            assert!(["door/file:1", "spare/file:1"].contains(&place.as_str()), "left the tree: {place}");
        }
        if found.matches.is_empty() { nothing += 1 } else { inside += 1 }
    });
    assert!(inside > 0, "the swap never let a search in");
    let _depends_on_luck = nothing;
}

#[test]
fn a_file_that_becomes_a_link_while_it_is_opened_is_not_read() {
    let outside = Tree::with(&[("secret", "needle outside\n")]);
    let tree = Tree::with(&[("door", "needle inside\n")]);
    symlink(outside.path().join("secret"), tree.path().join("spare")).unwrap();
    let mut inside = 0;
    while_swapping(&tree, "door", "spare", || {
        let found = tree.search(&SearchOptions::new("needle"));
        assert!(found.matches.iter().all(|found| found.line.text == "needle inside"), "{:?}", found.matches);
        inside += found.matches.len();
    });
    assert!(inside > 0, "the swap never let a search in");
}

#[test]
fn a_file_that_becomes_a_pipe_does_not_hang_the_search() {
    let tree = Tree::with(&[("door", "needle\n")]);
    mkfifoat(&tree.handle, "spare", Mode::RUSR | Mode::WUSR).unwrap();
    while_swapping(&tree, "door", "spare", || {
        let found = tree.search(&SearchOptions::new("needle"));
        assert!(found.matches.len() <= 2);
        assert_eq!(found.skipped, Skipped::default(), "a pipe was taken for a file");
    });
}

#[test]
fn a_tree_without_a_bottom_is_left_at_some_depth() {
    let tree = Tree::with(&[("top", "needle\n")]);
    let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
    let mut here = openat(CWD, tree.path(), flags, Mode::empty()).unwrap();
    for _ in 0..400 {
        mkdirat(&here, "d", Mode::RWXU).unwrap();
        here = openat(&here, "d", flags, Mode::empty()).unwrap();
    }
    let found = tree.search(&SearchOptions::new("needle"));
    assert_eq!((places(&found), found.skipped.too_deep), (vec!["top:1".to_owned()], 1));
}

/// Root may read everything, so the thread switches to another user id; the threads it starts inherit that.
fn as_nobody<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|threads| {
        let thread = threads.spawn(|| {
            if rustix::process::geteuid().is_root() {
                let nobody = rustix::thread::Uid::from_raw(65534);
                rustix::thread::set_thread_res_uid(None, nobody, None).unwrap();
            }
            work()
        });
        thread.join().unwrap()
    })
}

#[test]
fn what_may_not_be_read_is_counted_and_the_rest_is_searched() {
    let tree =
        Tree::with(&[("a", "needle\n"), ("closed/b", "needle\n"), ("c", "needle\n"), ("z", "needle\n")]);
    let permit =
        |path: &str, mode| fs::set_permissions(tree.path().join(path), Permissions::from_mode(mode)).unwrap();
    permit("", 0o755);
    permit("closed", 0o000);
    permit("c", 0o000);
    as_nobody(|| {
        let found = tree.search(&SearchOptions::new("needle"));
        assert_eq!((places(&found), found.skipped.unreadable), (vec!["a:1".to_owned(), "z:1".to_owned()], 2));
        assert_eq!(tree.find(&FindOptions::new("*")).skipped.unreadable, 1);
    });
    permit("closed", 0o700);
}

#[test]
fn files_that_shrink_and_grow_while_they_are_read_do_no_harm() {
    let tree = Tree::with(&[("a", "")]);
    let path = tree.path().join("a");
    let stop = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let long = "needle\n".repeat(40_000);
            while !stop.load(Ordering::Relaxed) {
                fs::write(&path, &long).unwrap();
                std::thread::sleep(Duration::from_micros(50));
                fs::write(&path, "needle\n").unwrap();
            }
        });
        let _also_after_a_failure = WhenDropped(&stop);
        for _ in 0..500 {
            let found =
                tree.search(&SearchOptions { max_matches: 1_000_000, ..SearchOptions::new("needle") });
            assert!(found.matches.len() <= 40_000);
        }
    });
}

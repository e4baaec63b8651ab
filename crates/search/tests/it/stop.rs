use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use toolgate_search::{
    FindOptions, ListOptions, SearchOptions, SearchResults, SearchTarget, find, list, search,
};
use toolgate_types::{CancellationReason, Deadline};

use crate::tree::{Tree, everything};

/// Cancels at the given check, and counts the checks.
fn at_question(number: usize) -> (Deadline, Arc<AtomicUsize>) {
    let questions = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&questions);
    (Deadline::never().with_signal(move || counter.fetch_add(1, Ordering::Relaxed) >= number), questions)
}

fn searched(tree: &Tree, pattern: &str, stop: &Deadline) -> SearchResults {
    let options =
        SearchOptions { max_matches: 1_000_000, max_bytes: usize::MAX, ..SearchOptions::new(pattern) };
    search(SearchTarget::Tree(tree.start()), &everything, &options, stop).unwrap()
}

fn many_files() -> Tree {
    let tree = Tree::new();
    for number in 0..500 {
        tree.write(format!("{}/{number}", number % 7), format!("needle\n{}", "x\n".repeat(1000)));
    }
    tree
}

#[test]
fn a_cancelled_search_returns_what_it_has() {
    let tree = many_files();
    let all = searched(&tree, "needle", &Deadline::never());
    assert_eq!((all.matches.len(), all.stopped), (500, None));
    for number in [0, 1, 10, 200] {
        let (stop, _) = at_question(number);
        let found = searched(&tree, "needle", &stop);
        assert_eq!(found.stopped, Some(CancellationReason::Cancelled));
        assert!(found.matches.len() <= number, "{} matches after {number} questions", found.matches.len());
        assert!(found.matches.iter().all(|one| all.matches.contains(one)));
    }
    let (stop, _) = at_question(1000);
    assert!(!searched(&tree, "needle", &stop).matches.is_empty());
}

#[test]
fn large_files_are_left_in_the_middle() {
    let tree = Tree::with(&[("a", &"some text without it\n".repeat(100_000))]);
    let (stop, questions) = at_question(usize::MAX);
    let all = searched(&tree, "needle", &stop);
    let asked = questions.load(Ordering::Relaxed);
    assert!(asked >= 2_100_000 / 65_536, "asked only {asked} times");
    let (stop, _) = at_question(asked / 2);
    let found = searched(&tree, "needle", &stop);
    assert_eq!(found.stopped, Some(CancellationReason::Cancelled));
    assert!(found.stats.bytes_searched < all.stats.bytes_searched);
}

#[test]
fn every_match_asks() {
    let tree = Tree::with(&[("a", &"x\n".repeat(5000))]);
    let (stop, _) = at_question(100);
    let found = searched(&tree, "x", &stop);
    assert_eq!(found.stopped, Some(CancellationReason::Cancelled));
    assert!((1..=100).contains(&found.matches.len()), "{}", found.matches.len());
}

#[test]
fn a_deadline_in_the_past_stops_everything_at_once() {
    let tree = many_files();
    let past = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
    let stop = Deadline::at(past);
    assert_eq!(searched(&tree, "needle", &stop).stopped, Some(CancellationReason::Deadline));
    let found = find(tree.start(), &everything, &FindOptions::new("*"), &stop).unwrap();
    assert_eq!((found.paths.len(), found.stopped), (0, Some(CancellationReason::Deadline)));
    let file = std::fs::File::open(tree.path().join("0/0")).unwrap();
    let target = SearchTarget::File { file: std::os::fd::AsFd::as_fd(&file), path: Path::new("0/0") };
    let found = search(target, &everything, &SearchOptions::new("needle"), &stop).unwrap();
    assert_eq!(found.stopped, Some(CancellationReason::Deadline));
}

#[test]
fn a_huge_directory_is_left_in_the_middle() {
    let tree = Tree::new();
    for number in 0..3000 {
        tree.write(number.to_string(), "");
    }
    let options =
        ListOptions { max_entries: 5000, include_hidden: true, include_symlinks: true, with_size: false };
    let (stop, _) = at_question(0);
    let listing = list(tree.start(), &everything, &options, &stop).unwrap();
    assert_eq!(listing.stopped, Some(CancellationReason::Cancelled));
    assert!(listing.entries.len() < 3000);
    let found = find(tree.start(), &everything, &FindOptions::new("*"), &stop).unwrap();
    assert_eq!(found.stopped, Some(CancellationReason::Cancelled));
}

#[test]
fn a_rule_that_panics_ends_the_search_instead_of_hanging_it() {
    let tree = many_files();
    let asked = AtomicUsize::new(0);
    let rules = |_: &Path, _: bool| {
        assert!(asked.fetch_add(1, Ordering::Relaxed) < 300, "the rule fails");
        true
    };
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        search(SearchTarget::Tree(tree.start()), &rules, &SearchOptions::new("nowhere"), &Deadline::never())
    }));
    assert!(outcome.is_err());
}

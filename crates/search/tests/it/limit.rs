use toolgate_search::{FindOptions, SearchOptions, SearchResults};

use crate::tree::{Tree, places};

/// Enough files for several threads, with a match in every third, two in every ninth.
fn large() -> Tree {
    let tree = Tree::new();
    for number in 0..900 {
        let folder = ["a", "a/deep", "b", "b.d", "c/x/y"][number % 5];
        let mut text = "filler\n".repeat(300);
        if number % 3 == 0 {
            text.insert_str(0, "needle one\n");
        }
        if number % 9 == 0 {
            text.push_str("needle two\n");
        }
        tree.write(format!("{folder}/{number:03}.txt"), text);
    }
    tree
}

fn all(tree: &Tree) -> SearchResults {
    let found = tree.search(&SearchOptions { max_matches: 10_000, ..SearchOptions::new("needle") });
    assert!(!found.truncated);
    found
}

#[test]
fn a_limit_keeps_the_first_in_path_order_however_the_work_was_shared() {
    let tree = large();
    let all = all(&tree);
    assert_eq!((all.matches.len(), all.stats.files_with_matches), (400, 300));
    assert_eq!((all.stats.matches_seen, all.stats.files_searched), (400, 900));
    assert!(all.matches.is_sorted_by(|one, other| (&one.path, one.number) < (&other.path, other.number)));
    for limit in [0, 1, 7, 50, 399, 400, 401] {
        for _ in 0..8 {
            let found = tree.search(&SearchOptions { max_matches: limit, ..SearchOptions::new("needle") });
            assert_eq!(found.matches, all.matches[..limit.min(400)], "{limit}");
            assert_eq!(found.truncated, limit < 400, "{limit}");
        }
    }
}

#[test]
fn a_limit_on_bytes_counts_neighbours_and_keeps_one_match() {
    let tree = large();
    let options = SearchOptions { max_matches: 10_000, after: 1, ..SearchOptions::new("needle") };
    let all = tree.search(&options);
    let sizes = all.matches.iter().map(|found| {
        found.line.text.len()
            + found.before.iter().chain(&found.after).map(|line| line.text.len()).sum::<usize>()
    });
    let sums: Vec<usize> = sizes
        .scan(0, |sum, size| {
            *sum += size;
            Some(*sum)
        })
        .collect();
    for (limit, expected) in
        [(0, 1), (1, 1), (sums[0], 1), (sums[0] + 1, 1), (sums[1], 2), (sums[99] + 1, 100)]
    {
        for _ in 0..4 {
            let found = tree.search(&SearchOptions { max_bytes: limit, ..options });
            assert_eq!(found.matches, all.matches[..expected], "{limit}");
            assert!(found.truncated);
        }
    }
    let found = tree.search(&SearchOptions { max_bytes: sums[399], ..options });
    assert_eq!((found.matches.len(), found.truncated), (400, false));
}

#[test]
fn what_cannot_be_answered_any_more_is_not_searched() {
    let tree = large();
    let found = tree.search(&SearchOptions { max_matches: 1, ..SearchOptions::new("filler") });
    assert_eq!(places(&found), ["a/000.txt:2"]);
    assert!(found.stats.files_searched < 10, "{:?}", found.stats);
}

#[test]
fn found_paths_are_the_first_too() {
    let tree = large();
    let all = tree.find(&FindOptions::new("*5.txt"));
    assert_eq!((all.paths.len(), all.truncated, all.files_seen), (90, false, 90));
    assert!(all.paths.is_sorted());
    for limit in [0, 1, 45, 89, 90, 91] {
        for _ in 0..8 {
            let found = tree.find(&FindOptions { max_results: limit, ..FindOptions::new("*5.txt") });
            assert_eq!(found.paths, all.paths[..limit.min(90)]);
            assert_eq!(found.truncated, limit < 90);
        }
    }
}

#[test]
fn a_file_is_left_as_soon_as_nothing_more_of_it_can_be_answered() {
    let tree = Tree::with(&[("a", &format!("needle\nneedle\n{}needle\n", "filler\n".repeat(500_000)))]);
    let found = tree.search(&SearchOptions { max_matches: 1, before: 1, ..SearchOptions::new("needle") });
    assert_eq!((places(&found), found.truncated), (vec!["a:1".to_owned()], true));
    assert!(found.stats.bytes_searched < 1_000_000, "{:?}", found.stats);
}

#[test]
fn one_file_with_very_many_matches_is_left_early() {
    let tree = Tree::with(&[("a", &"needle\n".repeat(500_000))]);
    let found =
        tree.search(&SearchOptions { max_matches: 3, before: 1, after: 1, ..SearchOptions::new("needle") });
    assert_eq!(places(&found), ["a:1", "a:2", "a:3"]);
    assert!(found.truncated);
    assert!(found.stats.matches_seen < 100 && found.stats.bytes_searched < 1_000_000, "{:?}", found.stats);
}

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use toolgate_search::{Error, MatchLine, SearchOptions, SearchTarget, WalkRoot, search};
use toolgate_types::Deadline;

use crate::tree::{Tree, everything, not_utf8, places};

fn texts(lines: &[MatchLine]) -> Vec<&str> {
    lines.iter().map(|line| line.text.as_str()).collect()
}

#[test]
fn patterns_are_text_unless_said_otherwise() {
    let tree = Tree::with(&[("a", "x.y\nxzy\nX.Y\n^x$\nétÉ\n")]);
    let plain = SearchOptions::new("");
    let any_case = SearchOptions { case_sensitive: false, ..plain };
    let regex = SearchOptions { regex: true, ..plain };
    let cases: &[(SearchOptions<'_>, &str, &[u64])] = &[
        (plain, "x.y", &[1]),
        (plain, "^x$", &[4]),
        (plain, "É", &[5]),
        (any_case, "X.y", &[1, 3]),
        (any_case, "ÉTé", &[5]),
        (regex, "x.y", &[1, 2]),
        (regex, "^x.y$", &[1, 2]),
        (regex, r"\Ax", &[1, 2]),
        (regex, r"\A[^xX]", &[4, 5]),
        (regex, r"(?i)^x\.", &[1, 3]),
        (regex, "z|É", &[2, 5]),
        (regex, "^$", &[]),
    ];
    for (options, pattern, expected) in cases {
        let found = tree.search(&SearchOptions { pattern, ..*options });
        let numbers: Vec<u64> = found.matches.iter().map(|found| found.number).collect();
        assert_eq!(numbers, *expected, "{pattern} {options:?}");
    }
}

#[test]
fn line_ends_are_not_part_of_lines() {
    let tree = Tree::with(&[("dos", "one x\r\ntwo\r\n\r\nfour x"), ("unix", "one x\ntwo\n\nfour x")]);
    let regex = SearchOptions { regex: true, after: 1, ..SearchOptions::new("x$") };
    let found = tree.search(&regex);
    assert_eq!(places(&found), ["dos:1", "dos:4", "unix:1", "unix:4"]);
    assert_eq!(found.matches[0].line.text, "one x");
    assert_eq!(texts(&found.matches[0].after), ["two"]);
    let empty = tree.search(&SearchOptions { pattern: "^$", ..regex });
    assert_eq!(places(&empty), ["dos:3", "unix:3"]);
}

#[test]
fn neighbours_are_whole_even_where_they_overlap() {
    let text = "1\n2\n3 x\n4 x\n5\n6 x\n7\n8\n9\n10\n11 x\n";
    // The second file is larger than a single read, so that it takes the other path through the searcher.
    let long = format!("{text}{}", "filler line\n".repeat(10_000));
    let tree = Tree::with(&[("a", text), ("b", &long)]);
    for (before, after) in [(0, 0), (1, 0), (0, 1), (1, 1), (2, 3), (5, 5), (20, 20)] {
        let found = tree.search(&SearchOptions { before, after, ..SearchOptions::new("x") });
        assert_eq!(found.matches.len(), 8);
        for found in &found.matches {
            let lines: Vec<&str> =
                if found.path == Path::new("a") { text.lines() } else { long.lines() }.collect();
            let at = usize::try_from(found.number).unwrap() - 1;
            assert_eq!(found.line.text, lines[at]);
            assert_eq!(
                texts(&found.before),
                lines[at.saturating_sub(before)..at],
                "{before} before {}",
                at + 1
            );
            assert_eq!(
                texts(&found.after),
                lines[at + 1..lines.len().min(at + 1 + after)],
                "{after} after {}",
                at + 1
            );
        }
    }
}

#[test]
fn a_limit_does_not_take_neighbours_away() {
    let tree = Tree::with(&[("a", "x1\nx2\nx3\nx4\nx5\n")]);
    let options = SearchOptions { before: 1, after: 3, max_matches: 2, ..SearchOptions::new("x") };
    let found = tree.search(&options);
    assert!(found.truncated);
    assert_eq!(places(&found), ["a:1", "a:2"]);
    assert_eq!(texts(&found.matches[1].after), ["x3", "x4", "x5"]);
}

#[test]
fn long_lines_are_cut_between_characters_around_the_match() {
    let line = format!("{}needle{}", "é".repeat(500), "ü".repeat(500));
    let tree = Tree::with(&[("a", &format!("{line}\n{}\n", "é".repeat(500)))]);
    let options = SearchOptions { max_line_bytes: 101, after: 1, ..SearchOptions::new("needle") };
    let found = &tree.search(&options).matches[0];
    assert_eq!(found.column, 501);
    assert!(found.line.text.contains("needle") && found.line.text.len() <= 101);
    assert!(
        line.contains(&found.line.text) && found.line.text.starts_with('é') && found.line.text.ends_with('ü')
    );
    assert!(found.line.cut_before && found.line.cut_after);
    assert_eq!(found.after[0].text, "é".repeat(50));
    assert!(!found.after[0].cut_before && found.after[0].cut_after);

    let tree = Tree::with(&[("a", &format!("needle{}", "x".repeat(500)))]);
    let found = &tree.search(&options).matches[0];
    assert_eq!((found.line.text.len(), found.line.cut_before, found.line.cut_after), (101, false, true));
    let whole = &tree.search(&SearchOptions::new("needle")).matches[0];
    assert_eq!((whole.line.text.len(), whole.line.cut_before, whole.line.cut_after), (506, false, false));
}

#[test]
fn bytes_that_are_not_text_are_replaced_within_the_limit() {
    let tree = Tree::new();
    tree.write("a", b"\xFF\xFE\xFDneedle\xFF\n".as_slice());
    tree.write("b", [b"needle".as_slice(), &[0xFF; 100]].concat());
    let found = tree.search(&SearchOptions { max_line_bytes: 50, ..SearchOptions::new("needle") });
    // The first begins with the byte order mark of UTF-16, but is not valid text in that encoding.
    assert_eq!(places(&found), ["b:1"]);
    assert!(
        found.matches[0].line.text.starts_with("needle\u{FFFD}") && found.matches[0].line.text.len() <= 50
    );
    assert!(found.matches[0].line.cut_after);
}

#[test]
fn encodings_with_a_mark_are_read() {
    let tree = Tree::new();
    let utf16: Vec<u8> = "\u{FEFF}first\r\nneedle é\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let utf16_big: Vec<u8> = "\u{FEFF}needle é\n".encode_utf16().flat_map(u16::to_be_bytes).collect();
    tree.write("little", utf16);
    tree.write("big", utf16_big);
    tree.write("utf8", "\u{FEFF}needle é");
    let found = tree.search(&SearchOptions { regex: true, ..SearchOptions::new("^needle é$") });
    assert_eq!(places(&found), ["big:1", "little:2", "utf8:1"]);
    assert!(found.matches.iter().all(|found| found.line.text == "needle é" && found.column == 1));
}

#[test]
fn binary_files_are_skipped_and_counted() {
    let tree = Tree::with(&[("small", "needle\n\0\n"), ("text", "needle\n")]);
    tree.write("large", format!("needle\n\0{}", "x\n".repeat(100_000)));
    tree.write("late", format!("needle\n{}\0\nneedle\n", "x\n".repeat(200_000)));
    let found = tree.search(&SearchOptions::new("needle"));
    assert_eq!(places(&found), ["late:1", "text:1"]);
    assert_eq!(found.skipped.binary, 3);
}

#[test]
fn only_the_beginning_of_a_monstrous_line_is_searched() {
    let tree = Tree::new();
    let far = 5 * 1024 * 1024;
    tree.write("a", format!("{}needle\nneedle\n", "x".repeat(far)));
    tree.write("b", format!("needle{}\nx\nneedle", "x".repeat(far)));
    let found = tree.search(&SearchOptions::new("needle"));
    assert_eq!(places(&found), ["a:2", "b:1", "b:3"]);
    assert_eq!(found.skipped.long_lines, 2);
}

#[test]
fn a_single_file_is_searched_through_its_handle() {
    let tree = Tree::with(&[("sub/a", "one\nneedle\n")]);
    let file = File::open(tree.path().join("sub/a")).unwrap();
    let target = SearchTarget::File { file: file.as_fd(), path: Path::new("sub/a") };
    for _ in 0..2 {
        let found = search(target, &everything, &SearchOptions::new("needle"), &Deadline::never()).unwrap();
        assert_eq!(places(&found), ["sub/a:2"]);
        assert_eq!((found.stats.files_searched, found.stats.bytes_searched), (1, 11));
    }
    let not_a_file = SearchTarget::File { file: tree.handle.as_fd(), path: Path::new("") };
    let outcome = search(not_a_file, &everything, &SearchOptions::new("needle"), &Deadline::never());
    assert!(matches!(outcome, Err(Error::NotAFile)));
}

#[test]
fn files_that_grow_from_nothing_are_read_to_their_end() {
    let file = File::open("/proc/self/status").unwrap();
    let target = SearchTarget::File { file: file.as_fd(), path: Path::new("status") };
    let found = search(target, &everything, &SearchOptions::new("Threads:"), &Deadline::never()).unwrap();
    assert_eq!(found.matches.len(), 1);
}

#[test]
fn globs_and_rules_narrow_a_search() {
    let tree = Tree::with(&[
        ("a.rs", "x"),
        ("b.txt", "x"),
        ("sub/c.rs", "x"),
        ("sub/no.rs", "x"),
        ("off/d.rs", "x"),
    ]);
    tree.write(Path::new("sub").join(not_utf8(b"\xFF.rs")), "x");
    let rules = |path: &Path, _: bool| path != Path::new("sub/no.rs") && path != Path::new("off");
    let options = SearchOptions { glob: Some("*.rs"), ..SearchOptions::new("x") };
    let found = search(SearchTarget::Tree(tree.start()), &rules, &options, &Deadline::never()).unwrap();
    assert_eq!(places(&found), ["a.rs:1", "sub/c.rs:1", "sub/\u{FFFD}.rs:1"]);
    let sub = File::open(tree.path().join("sub")).unwrap();
    let start = WalkRoot::beneath(&tree.handle, &sub, Path::new("sub"));
    let anchored = SearchOptions { glob: Some("/c.rs"), ..options };
    let found = search(SearchTarget::Tree(start), &rules, &anchored, &Deadline::never()).unwrap();
    assert_eq!(places(&found), ["sub/c.rs:1"]);
}

#[test]
fn patterns_that_defeat_backtracking_come_to_an_end() {
    let tree = Tree::with(&[("a", &format!("{}b\n", "a".repeat(20_000))), ("b", &"0110".repeat(4000))]);
    for (pattern, expected) in [
        ("(a+)+$", 0),
        ("(a|a)*c", 0),
        ("(.*)*(.*)*(.*)*x", 0),
        ("(a?){500}a{500}b", 1),
        ("[01]*1[01]{300}x", 0),
        (r"(\w+\s?)+!", 0),
    ] {
        let found = tree.search(&SearchOptions { regex: true, ..SearchOptions::new(pattern) });
        assert_eq!(found.matches.len(), expected, "{pattern}");
    }
}

//! Compared with a slow and obvious model: recursion, `read_dir`, and a check of every line.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use toolgate_search::{FindOptions, Hidden, ListOptions, Match, SearchOptions, list};
use toolgate_types::Deadline;

use crate::tree::{Tree, everything};

fn name() -> impl Strategy<Value = Vec<u8>> {
    let names: [&[u8]; 9] = [b"a", b"b", b"a.b", b"a-", b".hidden", b"\xFF", b"a\xC3", "é".as_bytes(), b"A"];
    prop::sample::select(names.map(<[u8]>::to_vec).to_vec())
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    let pieces: [&[u8]; 10] =
        [b"needle", b"NEEDLE", b"x", b" ", b"\n", b"\n", b"\r\n", b"\xFF", "é".as_bytes(), b"need"];
    let text =
        proptest::collection::vec(prop::sample::select(pieces.to_vec()), 0..25).prop_map(|all| all.concat());
    // Occasionally a binary file, or one too large for a single read.
    (text, 0..20u8).prop_map(|(mut text, kind)| {
        match kind {
            0 => text.push(0),
            1 => text.extend(b"filler\n".repeat(10_000)),
            2 => text.splice(0..0, b"filler\n".repeat(10_000)).for_each(drop),
            _ => {}
        }
        text
    })
}

fn grow(files: &[(Vec<Vec<u8>>, Vec<u8>)]) -> Tree {
    let tree = Tree::new();
    for (path, content) in files {
        let path = tree.path().join(OsStr::from_bytes(&path.join(&b'/')));
        // Where a file is in the way of a directory, or vice versa, the first one stays.
        let _stays = fs::create_dir_all(path.parent().unwrap()).and_then(|()| fs::write(path, content));
    }
    tree
}

fn naive_files(root: &Path, folder: &Path, hidden: Hidden, files: &mut Vec<PathBuf>) {
    let mut names: Vec<_> =
        fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    for name in names {
        let path = folder.join(&name);
        let is_directory = root.join(&path).is_dir();
        let taken = match hidden {
            Hidden::None => false,
            Hidden::Files => !is_directory,
            Hidden::All => true,
        };
        if !taken && name.as_bytes().starts_with(b".") {
            continue;
        }
        if is_directory {
            naive_files(root, &path, hidden, files);
        } else {
            files.push(path);
        }
    }
}

/// One line of a result, as the model and the crate can both express it.
type Plain = (PathBuf, u64, u64, String, Vec<String>, Vec<String>);

fn naive_search(root: &Path, files: Vec<PathBuf>, options: &SearchOptions<'_>) -> Vec<Plain> {
    let lossy = |line: &[u8]| String::from_utf8_lossy(line).into_owned();
    let mut found = Vec::new();
    for path in files {
        let content = fs::read(root.join(&path)).unwrap();
        if content.contains(&0) {
            continue;
        }
        let mut lines: Vec<&[u8]> = content.split(|byte| *byte == b'\n').collect();
        lines.pop_if(|last| last.is_empty());
        let lines: Vec<&[u8]> =
            lines.into_iter().map(|line| line.strip_suffix(b"\r").unwrap_or(line)).collect();
        for (index, line) in lines.iter().enumerate() {
            let pattern = options.pattern.as_bytes();
            let is_here = |at: &[u8]| {
                if options.case_sensitive { at == pattern } else { at.eq_ignore_ascii_case(pattern) }
            };
            let Some(start) = line.windows(pattern.len()).position(is_here) else { continue };
            let column = lossy(&line[..start]).chars().count() as u64 + 1;
            let before =
                lines[index.saturating_sub(options.before)..index].iter().map(|line| lossy(line)).collect();
            let after = lines[index + 1..].iter().take(options.after).map(|line| lossy(line)).collect();
            found.push((path.clone(), index as u64 + 1, column, lossy(line), before, after));
        }
    }
    found
}

fn plain(found: Match) -> Plain {
    let texts = |lines: Vec<toolgate_search::MatchLine>| lines.into_iter().map(|line| line.text).collect();
    (found.path, found.number, found.column, found.line.text, texts(found.before), texts(found.after))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn searching_finding_and_listing_agree_with_the_model(
        files in proptest::collection::vec((proptest::collection::vec(name(), 1..4), content()), 0..12),
        hidden in any::<bool>(),
        case_sensitive in any::<bool>(),
        before in 0usize..3,
        after in 0usize..3,
        limit in prop_oneof![0usize..6, Just(10_000)],
    ) {
        let tree = grow(&files);
        let mut all = Vec::new();
        let taken = if hidden { Hidden::All } else { Hidden::None };
        naive_files(tree.path(), Path::new(""), taken, &mut all);

        let finding = FindOptions { hidden, max_results: limit, ..FindOptions::new("*") };
        let found = tree.find(&finding);
        prop_assert_eq!(&found.paths[..], &all[..limit.min(all.len())]);
        prop_assert_eq!(found.truncated, all.len() > limit);

        // Page by page, the same.
        let mut paged: Vec<PathBuf> = Vec::new();
        loop {
            let after = paged.last().cloned();
            let page = tree.find(&FindOptions { after: after.as_deref(), max_results: limit.max(1), ..finding });
            paged.extend(page.paths);
            if !page.truncated {
                break;
            }
        }
        prop_assert_eq!(&paged, &all);
        // `after` need not exist.
        for gone in ["m", "b/zz", "\u{10ffff}"].map(Path::new) {
            let rest = tree.find(&FindOptions { after: Some(gone), max_results: 10_000, ..finding }).paths;
            let expected: Vec<_> = all.iter().filter(|path| path.as_path() > gone).cloned().collect();
            prop_assert_eq!(rest, expected);
        }

        for (regex, hidden) in [(false, taken), (true, taken), (true, Hidden::Files)] {
            let mut all = Vec::new();
            naive_files(tree.path(), Path::new(""), hidden, &mut all);
            let options = SearchOptions {
                hidden, case_sensitive, before, after, regex, max_matches: limit, ..SearchOptions::new("needle")
            };
            let searched = tree.search(&options);
            let mut expected = naive_search(tree.path(), all, &options);
            prop_assert_eq!(searched.truncated, expected.len() > limit);
            expected.truncate(limit);
            prop_assert_eq!(searched.matches.into_iter().map(plain).collect::<Vec<_>>(), expected);
        }

        let listing = ListOptions { max_entries: limit, include_hidden: hidden, include_symlinks: true, with_size: true };
        let listed = list(tree.start(), &everything, &listing, &Deadline::never()).unwrap();
        let read = fs::read_dir(tree.path()).unwrap().map(|entry| entry.unwrap());
        let mut expected: Vec<_> = read
            .filter(|entry| hidden || !entry.file_name().as_bytes().starts_with(b"."))
            .map(|entry| {
                let metadata = entry.metadata().unwrap();
                (entry.file_name(), metadata.is_file().then_some(metadata.len()))
            })
            .collect();
        expected.sort();
        prop_assert_eq!((listed.total, listed.truncated), (expected.len(), expected.len() > limit));
        expected.truncate(limit);
        let listed: Vec<_> = listed.entries.iter().map(|entry| (listed.name(entry).to_owned(), entry.size)).collect();
        prop_assert_eq!(listed, expected);
    }
}

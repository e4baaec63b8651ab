use std::fs::File;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use toolgate_search::{Error, FindOptions, WalkRoot, find};
use toolgate_types::{Deadline, ErrorCode};

use crate::tree::{Tree, everything, not_utf8};

fn tree() -> Tree {
    Tree::with(&[
        ("main.rs", ""),
        ("a/z.rs", ""),
        ("a/deep/er/y.rs", ""),
        ("a.rs", ""),
        ("a/readme.md", ""),
        (".config/x.rs", ""),
        (".dot.rs", ""),
        ("node_modules/lib/n.rs", ""),
        ("b/node_modules/m.rs", ""),
    ])
}

#[test]
fn globs_choose_by_name_or_by_path() {
    let tree = tree();
    let options = FindOptions { skip_directories: &["node_modules"], ..FindOptions::new("*") };
    let cases: &[(&str, &[&str])] = &[
        ("*.rs", &["a/deep/er/y.rs", "a/z.rs", "a.rs", "main.rs"]),
        ("a/*.rs", &["a/z.rs"]),
        ("a/**/*.rs", &["a/deep/er/y.rs", "a/z.rs"]),
        ("/*.rs", &["a.rs", "main.rs"]),
        ("*.{md,txt}", &["a/readme.md"]),
        ("nothing", &[]),
    ];
    for (glob, expected) in cases {
        assert_eq!(tree.walked(&FindOptions { glob, ..options }), *expected, "{glob}");
    }
}

#[test]
fn hidden_and_skipped_directories_are_choices() {
    let tree = tree();
    let options = FindOptions { hidden: true, ..FindOptions::new("*.rs") };
    let all = [
        ".config/x.rs",
        ".dot.rs",
        "a/deep/er/y.rs",
        "a/z.rs",
        "a.rs",
        "b/node_modules/m.rs",
        "main.rs",
        "node_modules/lib/n.rs",
    ];
    assert_eq!(tree.walked(&options), all);
    let skipping = FindOptions { skip_directories: &["node_modules", "a"], ..options };
    assert_eq!(tree.walked(&skipping), [".config/x.rs", ".dot.rs", "a.rs", "main.rs"]);
}

#[test]
fn paths_are_relative_to_the_mount_and_globs_to_the_start() {
    let tree = tree();
    let sub = File::open(tree.path().join("a")).unwrap();
    let start = WalkRoot::beneath(&tree.handle, &sub, Path::new("./../a/"));
    for (glob, expected) in
        [("deep/**", vec!["a/deep/er/y.rs"]), ("a/**", vec![]), ("*.md", vec!["a/readme.md"])]
    {
        let found = find(start, &everything, &FindOptions::new(glob), &Deadline::never()).unwrap();
        assert_eq!(found.paths, expected.iter().map(PathBuf::from).collect::<Vec<_>>(), "{glob}");
    }
}

#[test]
fn invisible_directories_are_not_entered_and_invisible_files_not_found() {
    let tree = tree();
    let rules = |path: &Path, is_directory: bool| {
        assert!(!path.starts_with("a/deep/er"), "asked about what lies beneath an invisible directory");
        if is_directory { path != Path::new("a/deep") } else { path != Path::new("main.rs") }
    };
    let options = FindOptions { skip_directories: &["node_modules"], ..FindOptions::new("*.rs") };
    let found = find(tree.start(), &rules, &options, &Deadline::never()).unwrap();
    assert_eq!(found.paths, [Path::new("a/z.rs"), Path::new("a.rs")]);
}

#[test]
fn links_are_neither_found_nor_followed_and_any_name_is() {
    let tree = Tree::with(&[("real/file", "")]);
    symlink("real", tree.path().join("link")).unwrap();
    symlink("real/file", tree.path().join("file")).unwrap();
    symlink(".", tree.path().join("real/loop")).unwrap();
    tree.write(Path::new("real").join(not_utf8(b"f\xFFle")), "");
    let found = tree.find(&FindOptions::new("f*"));
    assert_eq!(found.paths, [Path::new("real/file").into(), Path::new("real").join(not_utf8(b"f\xFFle"))]);
    assert_eq!(found.files_seen, 2);
    let found = tree.find(&FindOptions { text_only: true, ..FindOptions::new("f*") });
    assert_eq!(found.paths, [Path::new("real/file")]);
}

#[test]
fn a_bad_glob_is_refused_with_its_code() {
    let tree = tree();
    let outcome = find(tree.start(), &everything, &FindOptions::new("[z-a]"), &Deadline::never());
    let error = outcome.unwrap_err();
    assert!(matches!(error, Error::InvalidGlob { .. }));
    assert_eq!(error.code(), ErrorCode::InvalidPattern);
    insta::assert_snapshot!(error, @"the glob `[z-a]` cannot be used: invalid range; 'z' > 'a'");
}

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use proptest::prelude::*;
use toolgate_search::{FindOptions, WalkRoot, find};
use toolgate_types::Deadline;

use crate::tree::{Tree, everything, text};

/// The files of a case; `+` marks those that a walk with hidden files should meet.
const CASES: &[(&str, &str)] = &[
    ("plain names match at any depth", "+.gitignore=skip\n; skip; a/skip; b/skip/c; +a/skipper; +keep"),
    ("a slash anchors", "+.gitignore=/one\na/two\n; one; +b/one; a/two; +b/a/two; +two"),
    ("a final slash means directories", "+.gitignore=out/\n; out/x; a/out/x; +b/out"),
    ("stars stay within a component", "+.gitignore=a/*.o\n; a/x.o; +a/b/x.o; +x.o"),
    (
        "two stars do not",
        "+.gitignore=a/**/x\n**/deep/y\nz/**\n; a/x; a/b/c/x; +x; q/deep/y; deep/y; z/1; z/2/3",
    ),
    ("the last line wins", "+.gitignore=*.log\n!keep.log\n; a.log; +keep.log; +b/keep.log; b/c.log"),
    ("a directory that is left out takes all with it", "+.gitignore=dir\n!dir/keep\n; dir/keep; +keep"),
    (
        "what is in a directory may be left out but for one",
        "+.gitignore=dir/*\n!dir/keep\n; dir/no; +dir/keep",
    ),
    ("the nearest file wins", "+.gitignore=*.x\n; a.x; +sub/.gitignore=!*.x\n; +sub/b.x; sub2/c.x"),
    ("a deeper file is about what is beneath it", "+sub/.gitignore=/a\n; sub/a; +a; +sub/b/a"),
    ("comments, blanks, escapes", "+.gitignore=# a\n\n\\#b\n\\!c\nd\\ \n; #b; !c; +a; d ; +d"),
    ("classes", "+.gitignore=[a-c]?[!x]\n; axy; bqz; +bqx; +dxy"),
    ("spaces at the end of a line do not count", "+.gitignore=a  \n; a; +b"),
    ("a line with a carriage return", "+.gitignore=a\r\nb\r\n; a; b; +c"),
    ("a byte order mark is no part of the first line", "+.gitignore=\u{FEFF}a\n; a; +b"),
    ("hidden files too", "+.gitignore=.cache\n; .cache/x; +.config"),
    ("case counts", "+.gitignore=Name\n; Name; +name"),
];

/// Creates the files of a case and returns those that should be met.
fn arrange(tree: &Tree, case: &str) -> Vec<String> {
    let mut expected = Vec::new();
    for file in case.split("; ") {
        let (is_met, file) = match file.strip_prefix('+') {
            Some(file) => (true, file),
            None => (false, file),
        };
        let (path, content) = file.split_once('=').unwrap_or((file, ""));
        tree.write(path, content);
        if is_met {
            expected.push(path.to_owned());
        }
    }
    expected.sort_by(|one, other| Path::new(one).cmp(Path::new(other)));
    expected
}

fn walked(tree: &Tree) -> Vec<String> {
    tree.walked(&FindOptions { hidden: true, ..FindOptions::new("*") })
}

#[test]
fn the_table_holds() {
    for (what, case) in CASES {
        let tree = Tree::new();
        let expected = arrange(&tree, case);
        assert_eq!(walked(&tree), expected, "{what}");
    }
}

fn output(command: &mut Command) -> Option<Vec<u8>> {
    command.env_remove("GIT_DIR").env("HOME", "/nonexistent").env("XDG_CONFIG_HOME", "/nonexistent");
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CEILING_DIRECTORIES", "/");
    match command.stdin(Stdio::null()).output() {
        Ok(output) => Some(output.stdout),
        Err(cause) => {
            println!("not compared with {:?}: {cause}", command.get_program());
            None
        }
    }
}

fn sorted_paths(list: &[u8]) -> Vec<String> {
    let list = String::from_utf8(list.to_vec()).unwrap();
    let paths: BTreeSet<PathBuf> = list
        .split('\0')
        .filter(|path| !path.is_empty())
        .map(|path| path.trim_start_matches("./").into())
        .collect();
    paths.into_iter().map(text).collect()
}

/// Git must agree with the table, where it is installed.
#[test]
fn git_agrees_with_the_table() {
    for (what, case) in CASES {
        let tree = Tree::new();
        let expected = arrange(&tree, case);
        let mut init = Command::new("git");
        if output(init.args(["init", "-q"]).current_dir(tree.path())).is_none() {
            return;
        }
        let mut files = Command::new("git");
        files.args(["ls-files", "-z", "--others", "--exclude-standard"]).current_dir(tree.path());
        assert_eq!(sorted_paths(&output(&mut files).unwrap()), expected, "{what}");
        assert_eq!(walked(&tree), expected, "{what}, in a repository");
    }
}

#[test]
fn the_three_kinds_of_rules_have_their_rank() {
    let tree = Tree::with(&[
        (".ignore", "!a\nb\n"),
        (".gitignore", "a\n!b\nc\n"),
        (".git/info/exclude", "!c\nd\n"),
        ("a", ""),
        ("b", ""),
        ("c", ""),
        ("d", ""),
        ("e", ""),
        ("sub/.ignore", "!b\n"),
        ("sub/b", ""),
        ("sub/d", ""),
    ]);
    assert_eq!(walked(&tree), [".gitignore", ".ignore", "a", "e", "sub/.ignore", "sub/b"]);
    let all = tree.walked(&FindOptions { hidden: true, respect_gitignore: false, ..FindOptions::new("*") });
    assert_eq!(all.len(), 10, "{all:?}");
    assert!(all.iter().all(|path| !path.starts_with(".git/")), "the repository itself is never walked");
}

#[test]
fn rules_may_want_what_is_hidden() {
    let tree = Tree::with(&[(".gitignore", "!.github\n"), (".github/ci", ""), (".other/x", "")]);
    assert_eq!(tree.walked(&FindOptions::new("*")), [".github/ci"]);
}

#[test]
fn git_rules_end_at_a_nested_repository() {
    let files = [
        (".gitignore", "*.x\n"),
        (".ignore", "*.y\n"),
        ("nested/a.x", ""),
        ("nested/a.y", ""),
        ("nested/b", ""),
    ];
    let tree = Tree::with(&files);
    assert_eq!(tree.walked(&FindOptions::new("*")), ["nested/b"]);
    fs::create_dir(tree.path().join("nested/.git")).unwrap();
    assert_eq!(tree.walked(&FindOptions::new("*")), ["nested/a.x", "nested/b"]);
}

#[test]
fn rules_above_the_start_count_up_to_the_mount() {
    let outside = Tree::with(&[
        (".gitignore", "*\n"),
        ("mount/.gitignore", "*.x\n/a/b/only\n"),
        ("mount/a/.ignore", "*.y\n"),
        ("mount/a/b/1.x", ""),
        ("mount/a/b/2.y", ""),
        ("mount/a/b/3.z", ""),
        ("mount/a/b/only", ""),
        ("mount/a/b/c/only", ""),
    ]);
    let mount = File::open(outside.path().join("mount")).unwrap();
    let base = File::open(outside.path().join("mount/a/b")).unwrap();
    let met = |start: WalkRoot<'_>| -> Vec<String> {
        let found = find(start, &everything, &FindOptions::new("*"), &Deadline::never()).unwrap();
        found.paths.into_iter().map(text).collect()
    };
    assert_eq!(met(WalkRoot::beneath(&mount, &base, Path::new("a/b"))), ["a/b/3.z", "a/b/c/only"]);
    let alone = WalkRoot { mount: None, ..WalkRoot::beneath(&mount, &base, Path::new("a/b")) };
    assert_eq!(met(alone), ["a/b/1.x", "a/b/2.y", "a/b/3.z", "a/b/c/only", "a/b/only"]);
}

#[test]
fn a_huge_ignore_file_counts_as_far_as_it_is_read() {
    let tree = Tree::with(&[("first", ""), ("last", ""), ("la", ""), ("middle", "")]);
    let mut rules = String::from("first\n");
    while rules.len() < 64 * 1024 - 2 {
        rules.push_str("x\n");
    }
    // The limit falls within this line, so the line does not count at all.
    rules.push_str("last\nmiddle\n");
    tree.write(".gitignore", &rules);
    assert_eq!(tree.walked(&FindOptions::new("*")), ["la", "last", "middle"]);
}

#[test]
fn an_ignore_file_that_is_a_link_or_not_a_file_is_not_read() {
    let outside = Tree::with(&[("rules", "a\n")]);
    let tree = Tree::with(&[("a", "")]);
    std::os::unix::fs::symlink(outside.path().join("rules"), tree.path().join(".gitignore")).unwrap();
    fs::create_dir(tree.path().join(".ignore")).unwrap();
    assert_eq!(tree.walked(&FindOptions::new("*")), ["a"]);
}

fn rules() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        4 => "!?/?(a|b|ab|\\*|\\*a|b\\*|\\*\\*|\\.a)(/(a|b|\\*|\\*\\*|\\.a)){0,2}/?",
        1 => "(#a|\\\\!a|[ab]  )",
    ];
    proptest::collection::vec(line, 0..4).prop_map(|lines| lines.join("\n"))
}

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["a", "b", "ab", "ba", ".a", "c"])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// ripgrep is the oracle, where it is installed.
    #[test]
    fn ripgrep_meets_the_same_files(
        paths in proptest::collection::vec(proptest::collection::vec(name(), 1..4), 1..12),
        at_root in rules(),
        further_down in rules(),
        ignore in rules(),
        exclude in proptest::option::of(rules()),
        hidden in any::<bool>(),
    ) {
        let tree = Tree::new();
        for path in &paths {
            let path = tree.path().join(path.join("/"));
            let _may_be_a_folder = fs::create_dir_all(path.parent().unwrap()).and_then(|()| fs::write(path, ""));
        }
        tree.write(".gitignore", at_root);
        tree.write(".ignore", ignore);
        for folder in ["a", "b/a"].map(|folder| tree.path().join(folder)) {
            if folder.is_dir() {
                fs::write(folder.join(".gitignore"), &further_down).unwrap();
            }
        }
        if let Some(rules) = exclude {
            tree.write(".git/info/exclude", rules);
        }
        let mut ripgrep = Command::new("rg");
        ripgrep.args(["--no-config", "--files", "-0", "--no-require-git", "--no-ignore-global", "-g", "!.git/"]);
        if hidden {
            ripgrep.arg("--hidden");
        }
        if let Some(expected) = output(ripgrep.arg(".").current_dir(tree.path())) {
            let ours = tree.walked(&FindOptions { hidden, ..FindOptions::new("*") });
            prop_assert_eq!(ours, sorted_paths(&expected));
        }
    }
}

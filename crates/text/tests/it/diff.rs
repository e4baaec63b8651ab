#![allow(clippy::disallowed_methods, reason = "tests arrange files by hand and ask foreign programs")]

use std::path::Path;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use toolgate_text::diff::unified;
use toolgate_text::patch::{Applied, PatchKind, apply, parse};

use crate::line_texts;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_diff_applied_gives_the_new_text((old, new) in line_texts::pair(), context in 0usize..5) {
        let diff = unified(&old, &new, "a/file", "b/file", context);
        if old == new {
            prop_assert_eq!(diff, "");
        } else {
            let files = parse(&diff).map_err(|error| TestCaseError::fail(format!("{error}\n{diff}")))?;
            prop_assert_eq!(files.len(), 1);
            prop_assert_eq!(files[0].kind, PatchKind::Modify);
            let applied = apply(&files[0], &old);
            prop_assert_eq!(applied, Ok(Applied { text: new, moved: Vec::new() }), "{}", diff);
        }
    }

    #[test]
    fn files_made_and_deleted_by_a_diff((old, new) in line_texts::pair()) {
        prop_assume!(!old.is_empty() && !new.is_empty());
        let made = unified("", &new, "/dev/null", "b/sub/file", 3);
        let deleted = unified(&old, "", "a/other", "/dev/null", 3);
        let files = parse(&(made + &deleted)).unwrap();
        prop_assert_eq!(files[0].kind, PatchKind::Create);
        prop_assert_eq!((&files[0].old_path, files[0].new_path.as_deref()), (&None, Some("sub/file")));
        prop_assert_eq!(&apply(&files[0], "").unwrap().text, &new);
        prop_assert!(apply(&files[0], &old).is_err());
        prop_assert_eq!(files[1].kind, PatchKind::Delete);
        prop_assert_eq!((files[1].old_path.as_deref(), &files[1].new_path), (Some("other"), &None));
        prop_assert_eq!(&apply(&files[1], &old).unwrap().text, "");
        let longer = old.clone() + "\nmore\n";
        prop_assert!(apply(&files[1], &longer).is_err());
    }

    #[test]
    fn labels_come_back((old_name, new_name) in ("[ -~\t\n\"\\\\é]{1,8}", "[ -~é]{1,8}")) {
        let diff = unified("a\n", "b\n", &format!("a/{old_name}"), &format!("b/{old_name}"), 3);
        let files = parse(&diff).unwrap();
        prop_assert_eq!(files[0].old_path.as_ref(), Some(&old_name));
        prop_assert_eq!(files[0].new_path.as_ref(), Some(&old_name));
        if old_name != new_name {
            let diff = unified("a\n", "b\n", &format!("a/{old_name}"), &format!("b/{new_name}"), 3);
            prop_assert!(parse(&diff).is_err());
        }
    }
}

/// Runs a program that reads a patch on its standard input.
fn feed(directory: &Path, program: &str, arguments: &[&str], patch: &str) {
    let input = directory.join("input.patch");
    std::fs::write(&input, patch).unwrap();
    let output = Command::new(program)
        .args(arguments)
        .current_dir(directory)
        .env("GIT_CEILING_DIRECTORIES", directory)
        .stdin(Stdio::from(std::fs::File::open(&input).unwrap()))
        .output()
        .unwrap_or_else(|error| panic!("`{program}` is needed to test against: {error}"));
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{program}: {}\n{patch}", String::from_utf8_lossy(&said));
}

fn foreign_programs_agree(old: &str, new: &str, context: usize) {
    let diff = unified(old, new, "a/file", "b/file", context);
    let unidiff_zero: &[&str] = if context == 0 { &["--unidiff-zero"] } else { &[] };
    let git = [&["apply", "--whitespace=nowarn"], unidiff_zero, &["-"]].concat();
    for (program, arguments) in [("patch", vec!["-p1", "--silent", "--binary"]), ("git", git)] {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, old).unwrap();
        feed(directory.path(), program, &arguments, &diff);
        // `patch` removes a file that becomes empty, as POSIX requires.
        let after = std::fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(after, new, "{program} with\n{diff}");
    }
}

#[test]
fn patch_and_git_understand_the_tricky_cases() {
    for (old, new) in [
        ("a\nb\nc\n", "a\nB\nc\n"),
        ("a\nb", "a\nb\n"),
        ("a\nb\n", "a\nb"),
        ("a", "b"),
        ("a\r\nb\r\nc\r\n", "a\r\nB\r\nc\r\n"),
        ("a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\n", "A\nb\nc\nd\ne\nf\ng\nh\ni\nj\nK\n"),
        ("-- a\n++ b\n", "++ b\n-- a\n"),
        ("x\n\n\ny\n", "x\n\ny\n\n"),
    ] {
        for context in [0, 1, 3] {
            foreign_programs_agree(old, new, context);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn patch_and_git_understand_any_diff((old, new) in line_texts::pair(), context in 1usize..4) {
        prop_assume!(old != new && !old.is_empty());
        foreign_programs_agree(&old, &new, context);
    }
}

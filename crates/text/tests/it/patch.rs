use proptest::prelude::*;
use toolgate_text::diff::unified;
use toolgate_text::patch::{Applied, FilePatch, HunkError, MovedHunk, PatchKind, apply, parse};
use toolgate_types::{ErrorCode, Failure};

use crate::line_texts;

fn one(patch: &str) -> FilePatch {
    let mut files = parse(patch).unwrap_or_else(|error| panic!("{error}\n{patch}"));
    assert_eq!(files.len(), 1);
    files.remove(0)
}

fn summary(patch: &str) -> Vec<(PatchKind, Option<String>, Option<String>, usize)> {
    let files = parse(patch).unwrap_or_else(|error| panic!("{error}\n{patch}"));
    files.into_iter().map(|file| (file.kind, file.old_path, file.new_path, file.hunks.len())).collect()
}

#[test]
fn reads_what_people_and_programs_write() {
    let name = |name: &str| Some(name.to_owned());
    let hunk = "@@ -1 +1 @@\n-a\n+b\n";
    for (patch, wanted) in [
        (format!("--- a/x\n+++ b/x\n{hunk}"), vec![(PatchKind::Modify, name("x"), name("x"), 1)]),
        (format!("--- x\n+++ x\n{hunk}"), vec![(PatchKind::Modify, name("x"), name("x"), 1)]),
        (
            format!("--- x y\t2026-01-01 10:00:00.0 +0000\n+++ x y\t2026-01-02\n{hunk}"),
            vec![(PatchKind::Modify, name("x y"), name("x y"), 1)],
        ),
        (
            format!("--- \"a/\\303\\244\\t\"\n+++ \"b/ä\\t\"\n{hunk}"),
            vec![(PatchKind::Modify, name("ä\t"), name("ä\t"), 1)],
        ),
        (
            format!("diff --git a/x b/x\nindex 123..456 100755\n--- a/x\n+++ b/x\n{hunk}"),
            vec![(PatchKind::Modify, name("x"), name("x"), 1)],
        ),
        (
            "diff --git a/n b/n\nnew file mode 100644\nindex 0..1\n--- /dev/null\n+++ b/n\n@@ -0,0 +1,2 @@\n+a\n+b\n".into(),
            vec![(PatchKind::Create, None, name("n"), 1)],
        ),
        ("--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+a".into(), vec![(PatchKind::Create, None, name("n"), 1)]),
        (
            "diff --git a/empty one b/empty one\nnew file mode 100644\nindex 0..e69de29\n".into(),
            vec![(PatchKind::Create, None, name("empty one"), 0)],
        ),
        (
            "diff --git \"a/\\303\\244\" \"b/\\303\\244\"\ndeleted file mode 100644\n".into(),
            vec![(PatchKind::Delete, name("ä"), None, 0)],
        ),
        (
            "diff --git a/d b/d\ndeleted file mode 100755\n--- a/d\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n".into(),
            vec![(PatchKind::Delete, name("d"), None, 1)],
        ),
        (
            "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n".into(),
            vec![(PatchKind::Rename, name("x"), name("y"), 0)],
        ),
        (
            format!("diff --git a/x b/y\nsimilarity index 90%\nrename from x\nrename to y\nindex 1..2 100644\n--- a/x\n+++ b/y\n{hunk}"),
            vec![(PatchKind::Rename, name("x"), name("y"), 1)],
        ),
        (
            format!("Here is the change:\n```diff\n--- a/x\n+++ b/x\n{hunk}```\nI hope it helps.\n- really\n"),
            vec![(PatchKind::Modify, name("x"), name("x"), 1)],
        ),
        (
            format!("From 1234 Mon Sep 17\nSubject: x\n\n---\n x | 2 +-\n\ndiff --git a/x b/x\n--- a/x\n+++ b/x\n{hunk}-- \n2.39.5\n\nFrom 5678\n+ prose\n\n--- a/y\n+++ b/y\n{hunk}"),
            vec![(PatchKind::Modify, name("x"), name("x"), 1), (PatchKind::Modify, name("y"), name("y"), 1)],
        ),
        (
            format!("Index: x\n=======\n--- x\n+++ x\n{hunk}\ndiff -ru old/y new/y\n--- y\n+++ y\n{hunk}Only in new: z\n"),
            vec![(PatchKind::Modify, name("x"), name("x"), 1), (PatchKind::Modify, name("y"), name("y"), 1)],
        ),
    ] {
        assert_eq!(summary(&patch), wanted, "{patch}");
    }
}

#[test]
fn names_are_left_for_the_caller_to_judge() {
    for path in ["../../etc/passwd", "/etc/passwd", "@pkg/x", "C:\\x", "a//./x"] {
        let file = one(&unified("a\n", "b\n", &format!("a/{path}"), &format!("b/{path}"), 3));
        assert_eq!(file.path(), path);
    }
}

#[test]
fn applies_exactly_or_says_where() {
    let list = "1\n2\n3\n4\n5\n6\n7\n8\n";
    for (patch, original, wanted) in [
        ("@@ -2 +2 @@\n-2\n+two\n", list, "1\ntwo\n3\n4\n5\n6\n7\n8\n"),
        ("@@ -2,3 +2,3 @@ section\n 2\n-3\n+three\n 4\n", list, "1\n2\nthree\n4\n5\n6\n7\n8\n"),
        ("@@ -8,0 +9 @@\n+9\n", list, "1\n2\n3\n4\n5\n6\n7\n8\n9\n"),
        ("@@ -0,0 +1 @@\n+0\n", list, "0\n1\n2\n3\n4\n5\n6\n7\n8\n"),
        ("@@ -1 +1 @@\n-1\n+one\n@@ -1,0 +2 @@\n+1.5\n", "1\n2\n", "one\n1.5\n2\n"),
        ("@@ -1,2 +1,2 @@\n-a\n+b\n\n", "a\n\n", "b\n\n"),
        ("@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n", "a", "b"),
        ("@@ -1 +1 @@\n-a\n+b", "a\n", "b\n"),
        ("@@ -1,2 +1 @@\n-a\r\n b\r\n", "a\r\nb\r\n", "b\r\n"),
        ("@@ -1,2 +1,2 @@\n-a\r\n+b\r\n\r\n", "a\r\n\r\n", "b\r\n\r\n"),
    ] {
        let applied = apply(&one(&format!("--- a/x\n+++ b/x\n{patch}")), original).unwrap();
        assert_eq!((applied.text.as_str(), applied.moved.as_slice()), (wanted, &[][..]), "{patch}");
    }
}

#[test]
fn a_patch_sent_with_crlf_follows_the_file() {
    let patch = "--- a/x\r\n+++ b/x\r\n@@ -1,2 +1,2 @@\r\n a\r\n-b\r\n+c\r\n";
    for (original, wanted) in [("a\nb\n", "a\nc\n"), ("a\r\nb\r\n", "a\r\nc\r\n")] {
        assert_eq!(apply(&one(patch), original).unwrap().text, wanted);
    }
    assert!(apply(&one(patch), "a\r\nb\n").is_err());
    let created = "--- /dev/null\r\n+++ b/x\r\n@@ -0,0 +1 @@\r\n+a\r\n";
    assert_eq!(apply(&one(created), "").unwrap().text, "a\n");
}

#[test]
fn a_moved_hunk_takes_the_next_along() {
    let patch = one("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n+A\n b\n@@ -4 +4 @@\n-c\n+C\n");
    let applied = apply(&patch, "0\n0\na\nb\n\nc\nc\n").unwrap();
    assert_eq!(applied.text, "0\n0\nA\nb\n\nC\nc\n");
    assert_eq!(applied.moved, [MovedHunk { hunk: 1, offset: 2 }, MovedHunk { hunk: 2, offset: 2 }]);
    let upwards = apply(&one("--- a/x\n+++ b/x\n@@ -9 +9 @@\n-c\n+C\n"), "a\nc\n").unwrap();
    assert_eq!(upwards.moved, [MovedHunk { hunk: 1, offset: -7 }]);
}

#[test]
fn a_moved_hunk_is_found_in_repetitive_text() {
    let patch = one("--- a/x\n+++ b/x\n@@ -9,3 +9,2 @@\n-a\n a\n b\n");
    let applied = apply(&patch, "a\na\na\nb\n").unwrap();
    assert_eq!(applied, Applied { text: "a\na\nb\n".into(), moved: vec![MovedHunk { hunk: 1, offset: -7 }] });
}

#[test]
fn hunks_never_change_places() {
    let patch = one("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+A\n@@ -5 +5 @@\n-b\n+B\n");
    assert_eq!(apply(&patch, "a\nb\n").unwrap().text, "A\nB\n");
    assert_eq!(apply(&patch, "b\na\n").unwrap_err().hunk(), Some(2));
}

#[test]
fn lines_are_never_joined() {
    for (patch, original) in [
        ("@@ -1,0 +2 @@\n+b\n", "a"),
        ("@@ -1 +1 @@\n-a\n+A\n\\ No newline at end of file\n", "a\nb\n"),
        ("@@ -1 +1 @@\n-a\n+A\n\\ No newline at end of file\n@@ -2,0 +3 @@\n+c\n", "a\nb\n"),
    ] {
        let error = apply(&one(&format!("--- a/x\n+++ b/x\n{patch}")), original).unwrap_err();
        assert!(matches!(error, HunkError::JoinsLines { .. }), "{error:?}");
    }
}

fn told(failure: Failure) -> String {
    let details = serde_json::Value::Object(failure.details.clone());
    format!("{}: {failure}\n{details}", failure.code.as_str())
}

fn refused(patch: &str) -> String {
    let failure = Failure::from(parse(patch).expect_err(patch));
    assert_eq!(failure.code, ErrorCode::PatchInvalid);
    failure.to_string()
}

#[test]
fn refuses_with_line_and_remedy() {
    let names = "--- a/x\n+++ b/x\n";
    let git = "diff --git a/x b/x\n";
    let patches = [
        String::new(),
        "just talk\n".into(),
        "*** Begin Patch\n*** Update File: x\n@@\n-a\n+b\n*** End Patch\n".into(),
        "*** x\n--- x\n***************\n*** 1 ****\n".into(),
        "diff --cc x\n@@@ -1 -1 +1 @@@\n".into(),
        "@@ -1 +1 @@\n-a\n+b\n".into(),
        "--- a/x\n@@ -1 +1 @@\n-a\n+b\n".into(),
        format!("{git}index 1..2\nGIT binary patch\nliteral 3\n"),
        "Binary files a/x and b/x differ\n".into(),
        format!("{git}old mode 100644\nnew mode 100755\n"),
        format!("{git}new file mode 100755\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n"),
        format!("{git}new file mode 120000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+/etc/passwd\n"),
        format!("{git}index 1..2 160000\n{names}@@ -1 +1 @@\n-a\n+b\n"),
        format!("{git}similarity index 100%\ncopy from x\ncopy to y\n"),
        format!("{git}new file mode 100644\n{names}@@ -1 +1 @@\n-a\n+b\n"),
        "diff --git a/x b/y\nrename from x\n".into(),
        "diff --git a/x b/x\nrename from x\nrename to x\n".into(),
        "diff --git a/x b/y\nrename from x\nrename to z\n--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n".into(),
        "--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n".into(),
        "--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n".into(),
        "--- \"a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n".into(),
        "--- /dev/null\n+++ b/x\n@@ -1 +1,2 @@\n a\n+b\n".into(),
        "--- a/x\n+++ /dev/null\n@@ -1,2 +1 @@\n a\n-b\n".into(),
        names.into(),
        format!("{names}@@ ... @@\n-a\n+b\n"),
        format!("{names}@@ -0,1 +1 @@\n-a\n+b\n"),
        format!("{names}@@ -1,99999999999999999999 +1 @@\n-a\n+b\n"),
        format!("{names}@@ -1,3 +1,3 @@\n a\n-b\n+c\n"),
        format!("{names}@@ -1 +1 @@\n-a\n+b\n+c\n"),
        format!("{names}@@ -1,2 +1,2 @@\n a\n-b\n@@ -9 +9 @@\n-a\n+b\n"),
        format!("{names}@@ -1,2 +1,2 @@\n a\nb\n-c\n+d\n"),
        format!("{names}@@ -1 +1 @@\n-a\n+b\nand so on\n"),
        format!("{names}@@ -1,2 +1 @@\n-a\n\\ No newline at end of file\n-b\n+c\n"),
        format!("{names}@@ -5 +5 @@\n-a\n+b\n@@ -1 +1 @@\n-a\n+b\n"),
        format!("{names}@@ -1,2 +1,2 @@\n-a\n+b\n c\n@@ -2 +2 @@\n-c\n+d\n"),
        format!("{names}@@ -1 +1 @@\n-a\n+b\n{names}@@ -3 +3 @@\n-a\n+b\n"),
        "diff --git a/x b/y\nrename from x\nrename to y\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n".into(),
        format!(
            "diff --git a/x b/y\nrename from x\nrename to y\ndiff --git a/x b/x\n{names}@@ -1 +1 @@\n-a\n+b\n"
        ),
    ];
    let texts: Vec<String> = patches.iter().map(|patch| refused(patch)).collect();
    insta::assert_snapshot!(texts.join("\n"), @r#"
    the patch changes no file; send a unified diff: `--- a/FILE`, `+++ b/FILE`, hunks that begin with `@@ -1,3 +1,4 @@`
    the patch changes no file; send a unified diff: `--- a/FILE`, `+++ b/FILE`, hunks that begin with `@@ -1,3 +1,4 @@`
    patch line 1: this is a `*** Begin Patch` block, not a unified diff; send a unified diff: `--- a/FILE`, `+++ b/FILE`, hunks that begin with `@@ -1,3 +1,4 @@`
    patch line 1: this is a context diff, not a unified diff; send a unified diff: `--- a/FILE`, `+++ b/FILE`, hunks that begin with `@@ -1,3 +1,4 @@`
    patch line 1: this is the combined diff of a merge, not a unified diff; send a unified diff: `--- a/FILE`, `+++ b/FILE`, hunks that begin with `@@ -1,3 +1,4 @@`
    patch line 1: a hunk stands before any file is named; write `--- a/FILE` and `+++ b/FILE` before the hunks of each file
    patch line 1: a `---` line without a `+++` line after it; write `--- a/FILE` and `+++ b/FILE` before the hunks of each file
    patch line 3: binary patches are not accepted; leave binary files out of the patch
    patch line 1: binary patches are not accepted; leave binary files out of the patch
    patch line 2: mode changes are not accepted; leave the mode lines out; a new file is written with mode 100644
    patch line 2: file modes other than 100644 are not accepted; leave the mode lines out; a new file is written with mode 100644
    patch line 2: symbolic links are not accepted; leave the link out of the patch; only regular files can be patched
    patch line 2: submodules are not accepted; leave the submodule out of the patch; only regular files can be patched
    patch line 3: copies are not accepted; send the copy as a new file with its whole content
    patch line 1: the header lines contradict each other; use `/dev/null` as the old name of a new file and as the new name of a deleted one; a rename names both files alike everywhere
    patch line 1: the header does not say what happens to which file; write `--- a/FILE` and `+++ b/FILE` before the hunks of each file
    patch line 1: the header lines contradict each other; use `/dev/null` as the old name of a new file and as the new name of a deleted one; a rename names both files alike everywhere
    patch line 1: the header lines contradict each other; use `/dev/null` as the old name of a new file and as the new name of a deleted one; a rename names both files alike everywhere
    patch line 1: both names are `/dev/null`; write `--- a/FILE` and `+++ b/FILE` before the hunks of each file
    patch line 1: the names `x` and `y` differ; give both the same name, or add `diff --git`, `rename from` and `rename to` lines
    patch line 1: `"a/x` is not a file name; write the name bare, or quoted as in C with octal escapes
    patch line 1: a new file has one hunk with nothing but `+` lines; send the whole content of the new file as `+` lines
    patch line 1: a deleted file has one hunk with nothing but `-` lines; send the whole content of the deleted file as `-` lines
    patch line 1: no hunk follows; write at least one hunk that begins with `@@ -1,3 +1,4 @@`
    patch line 3: `@@ ... @@` is not a hunk header; write `@@ -OLD_START,OLD_COUNT +NEW_START,NEW_COUNT @@` with line numbers counted from 1
    patch line 3: `@@ -0,1 +1 @@` is not a hunk header; write `@@ -OLD_START,OLD_COUNT +NEW_START,NEW_COUNT @@` with line numbers counted from 1
    patch line 3: `@@ -1,99999999999999999999 +1 @@` is not a hunk header; write `@@ -OLD_START,OLD_COUNT +NEW_START,NEW_COUNT @@` with line numbers counted from 1
    patch line 3: the hunk header says 3 old and 3 new lines, but 2 and 2 follow; write `@@ -1,2 +1,2 @@`, or complete the hunk
    patch line 3: the hunk header says 1 old and 1 new lines, but 1 and 2 follow; write `@@ -1,1 +1,2 @@`, or complete the hunk
    patch line 3: the hunk header says 2 old and 2 new lines, but 2 and 1 follow; write `@@ -1,2 +1,1 @@`, or complete the hunk
    patch line 5: `b` is no part of a patch here; begin each line of a hunk with a space, `-` or `+`, and count them in the hunk header
    patch line 6: `and so on` is no part of a patch here; begin each line of a hunk with a space, `-` or `+`, and count them in the hunk header
    patch line 5: `\ No newline at end of file` stands after a line that is not the last; put the marker after the last line of the file, or leave it out
    patch line 6: the hunk begins at old line 1, before the one above it ends at 5; put the hunks in the order of the file and join those that touch
    patch line 7: the hunk begins at old line 2, before the one above it ends at 2; put the hunks in the order of the file and join those that touch
    patch line 6: `x` was already changed at patch line 1; put all hunks of a file into one part of the patch, or send two patches
    patch line 1: the header lines contradict each other; use `/dev/null` as the old name of a new file and as the new name of a deleted one; a rename names both files alike everywhere
    patch line 4: `x` was already changed at patch line 1; put all hunks of a file into one part of the patch, or send two patches
    "#);
}

#[test]
fn a_conflict_shows_both_sides() {
    let conflict = |patch: &str, original: &str| {
        told(apply(&one(&format!("--- a/x\n+++ b/x\n{patch}")), original).unwrap_err().into())
    };
    let code = "fn main() {\n    let total = add(1, 2);\n    print(total);\n}\n";
    insta::assert_snapshot!(conflict("@@ -2,2 +2,2 @@\n     let total = add(1, 3);\n-    print(total);\n+    show(total);\n", code), @r#"
    patch_conflict: hunk 1 does not fit at line 2: line 2 is `    let total = add(1, 2);`, but the hunk expects `    let total = add(1, 3);`; lines 2-3 come nearest and differ in words (94 % the same):
        let total = add(1, 2);
        print(total);

    {"hunk":1,"patch_line":3,"line":2,"expected":["    let total = add(1, 3);","    print(total);"],"found":["    let total = add(1, 2);","    print(total);"],"nearest":{"start_line":2,"end_line":3,"text":"    let total = add(1, 2);\n    print(total);\n","difference":"similar","similarity_percent":94}}
    "#);
    insta::assert_snapshot!(conflict("@@ -2 +2 @@\n-\tprint(total);\n+\tshow(total);\n", code), @r#"
    patch_conflict: hunk 1 does not fit at line 2: line 2 is `    let total = add(1, 2);`, but the hunk expects `\tprint(total);`; line 3 comes nearest and differs only in tabs and spaces:
        print(total);

    {"hunk":1,"patch_line":3,"line":2,"expected":["\\tprint(total);"],"found":["    let total = add(1, 2);"],"nearest":{"start_line":3,"end_line":3,"text":"    print(total);\n","difference":"tabs_and_spaces"}}
    "#);
    insta::assert_snapshot!(conflict("@@ -7 +7 @@\n-zzz\n+yyy\n", "a\nb\n"), @r#"
    patch_conflict: hunk 1 does not fit at line 7: the file has only 2 lines; read the file again and make the patch from what it says now
    {"hunk":1,"patch_line":3,"line":7,"expected":["zzz"],"found":[],"nearest":null}
    "#);
    insta::assert_snapshot!(conflict("@@ -9,0 +10 @@\n+yyy\n", "a\nb\n"), @r#"
    patch_conflict: hunk 1 does not fit at line 10: the file has only 2 lines; read the file again and make the patch from what it says now
    {"hunk":1,"patch_line":3,"line":10,"expected":[],"found":[],"nearest":null}
    "#);
    insta::assert_snapshot!(conflict("@@ -1 +1 @@\n-last\n+end\n", "last"), @r#"
    patch_conflict: hunk 1 does not fit at line 1: line 1 and the line that the hunk expects differ in their line end; the file ends without a line end: put `\ No newline at end of file` after its last line
    {"hunk":1,"patch_line":3,"line":1,"expected":["last"],"found":["last"],"nearest":{"start_line":1,"end_line":1,"text":"last","difference":"final_newline"}}
    "#);
    insta::assert_snapshot!(conflict("@@ -5 +5 @@\n-a\n+b\n", "a\nx\na\n"), @r#"
    patch_conflict: hunk 1 does not fit at its line, but at lines 1, 3; add context lines until the hunk fits only one place, or correct its line
    {"hunk":1,"patch_line":3,"lines":[1,3]}
    "#);
    insta::assert_snapshot!(conflict("@@ -1,0 +2 @@\n+b\n", "a"), @r#"
    patch_conflict: hunk 1 puts a line behind one that has no line end; the file ends without a line end: remove its last line and add it again, with `\ No newline at end of file` after the old one
    {"hunk":1}
    "#);
    let delete = one("--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n");
    insta::assert_snapshot!(told(apply(&delete, "a\nb\nc\n").unwrap_err().into()), @r#"
    patch_conflict: the patch deletes the file, but 2 lines of it are not in the patch; name every line of the file with `-`, or delete it with the tool for that
    {"remaining_lines":2}
    "#);
    let create = one("--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n");
    insta::assert_snapshot!(told(apply(&create, "a\n").unwrap_err().into()), @r"
    patch_conflict: the patch creates the file, but it has content already; make the patch from the file as it is, or delete the file first
    {}
    ");
}

/// The reference: applies hunks to a list of lines by trying every place; `None` where the crate must refuse.
fn applied_slowly(patch: &FilePatch, original: &str) -> Option<String> {
    let lines: Vec<&str> = original.split_inclusive('\n').collect();
    let (mut out, mut done, mut offset) = (Vec::new(), 0usize, 0isize);
    for hunk in &patch.hunks {
        let old: Vec<&str> = hunk.old_lines().collect();
        let stands =
            |place: usize| lines.len() >= place + old.len() && lines[place..place + old.len()] == old[..];
        let said = if old.is_empty() { hunk.old_start } else { hunk.old_start - 1 };
        let expected = said.saturating_add_signed(offset);
        let everywhere: Vec<usize> = (0..lines.len()).filter(|place| stands(*place)).collect();
        let place = if expected >= done && stands(expected) {
            expected
        } else if !old.is_empty() && everywhere.len() == 1 && everywhere[0] >= done {
            everywhere[0]
        } else {
            return None;
        };
        offset = place as isize - said as isize;
        out.extend(lines[done..place].iter().copied());
        out.extend(hunk.new_lines());
        done = place + old.len();
    }
    out.extend(lines[done..].iter().copied());
    let joined = out.iter().rev().skip(1).any(|line| !line.ends_with('\n'));
    (!joined).then(|| out.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn applying_agrees_with_the_model(
        (old, new) in line_texts::pair(),
        context in 0usize..4,
        steps in any::<prop::sample::Index>(),
        inserted in prop::collection::vec(line_texts::line(), 0..3),
    ) {
        prop_assume!(old != new);
        let file = one(&unified(&old, &new, "a/x", "b/x", context));
        // The file has changed since the patch was made.
        let mut lines: Vec<String> = old.split_inclusive('\n').map(str::to_owned).collect();
        let at = steps.index(lines.len() + 1);
        for line in inserted {
            lines.insert(at.min(lines.len()), format!("{line}\n"));
        }
        let moved = lines.concat();
        let applied = apply(&file, &moved).ok().map(|applied| applied.text);
        prop_assert_eq!(applied, applied_slowly(&file, &moved), "{:?} on {:?}", file, moved);
    }
}

#[test]
fn large_and_hostile_patches_stay_cheap() {
    // Every hunk is out of place, and all lines are equal.
    let original = "a\n".repeat(200_000);
    let hunks: String = (0..500).map(|index| format!("@@ -{} +1,0 @@\n-b\n", 300_000 + index)).collect();
    let error = apply(&one(&format!("--- a/x\n+++ b/x\n{hunks}")), &original).unwrap_err();
    assert_eq!(error.hunk(), Some(1));
    // A pattern that makes a naive search quadratic.
    let body = "-a\n".repeat(50_000) + "-b\n";
    let patch = format!("--- a/x\n+++ b/x\n@@ -9,50001 +1,0 @@\n{body}");
    assert!(apply(&one(&patch), &original).is_err());
    // Many small hunks in place.
    let original: String = (0..50_000).map(|number| format!("{number}\n")).collect();
    let hunks: String = (0..50_000)
        .step_by(2)
        .map(|number| format!("@@ -{0} +{0} @@\n-{number}\n+x\n", number + 1))
        .collect();
    assert_eq!(
        apply(&one(&format!("--- a/x\n+++ b/x\n{hunks}")), &original).unwrap().text.matches('x').count(),
        25_000
    );
}

#[test]
fn hunks_that_all_have_to_be_searched_are_refused_at_some_point() {
    let original: String =
        (0..1000).map(|number| format!("{number}\n{}", "pad\n".repeat(number % 3))).collect();
    let hunks: String =
        (0..1000).map(|number| format!("@@ -{0} +{0} @@\n-{number}\n+x\n", number + 5000)).collect();
    let error = apply(&one(&format!("--- a/x\n+++ b/x\n{hunks}")), &original).unwrap_err();
    assert!(matches!(error, HunkError::TooManyMoved { .. }), "{error:?}");
}

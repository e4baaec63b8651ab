//! Line ranges, limits and digests of a read, compared with the same on a string in memory.

use std::fs::{self, File};

use proptest::prelude::*;
use toolgate_types::{Deadline, Limits, Sha256};
use toolgate_workspace::{
    EntireContent, FileContent, Mount, MountAccess, MountRules, PathStyle, ReadRequest, Workspace,
    WorkspaceError, WorkspaceView,
};

use crate::resolution::LIMITS;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn a_window_is_what_splitting_the_text_gives(
        text in "([a-zé漢🦀]{0,5}(\n|\r\n)){0,8}[aé🦀]{0,4}",
        start in 1u64..12,
        length in 0u64..12,
        limit in 0u64..40,
    ) {
        let scratch = tempfile::tempdir().unwrap();
        fs::write(scratch.path().join("f"), &text).unwrap();
        let root = File::open(scratch.path()).unwrap();
        let mount = Mount::new("@project", root, scratch.path(), MountAccess::ReadOnly, MountRules::new()).unwrap();
        let workspace = Workspace::new(vec![mount.as_default()]).unwrap();
        let (limits, stop) = (Limits { max_read_bytes: limit, ..LIMITS }, Deadline::never());
        let view = WorkspaceView { workspace: &workspace, style: PathStyle::Free, limits: &limits, grant: None, stop: &stop, unlocked: None };
        let request = ReadRequest { start_line: Some(start), end_line: Some(start + length), refuse_oversize: false };
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let Ok(read) = view.read("f", &request) else {
            prop_assert!(start > lines.len().max(1) as u64, "refused {start} of {} lines", lines.len());
            return Ok(());
        };
        prop_assert!(start <= lines.len().max(1) as u64);
        prop_assert_eq!((read.bytes, read.sha256), (text.len() as u64, Sha256::of(text.as_bytes())));
        let FileContent::Text(window) = read.content else { panic!("text was taken for binary") };
        let first = usize::try_from(start - 1).unwrap().min(lines.len());
        let last = usize::try_from(start + length).unwrap().min(lines.len());
        let whole: String = lines[first..last].concat();
        let kept = (0..=whole.len()).rev().find(|end| *end as u64 <= limit && whole.is_char_boundary(*end)).unwrap();
        prop_assert_eq!(&window.text, &whole[..kept]);
        prop_assert_eq!(window.truncated, whole.len() as u64 > limit);
        prop_assert_eq!(window.total_lines, lines.len() as u64);
    }
}

/// Something to do with a large file before it is read again.
#[derive(Clone, Debug)]
enum Step {
    Same,
    /// Another text of about this length.
    Write(usize),
    /// Overwrites some bytes with these.
    Overwrite(prop::sample::Index, &'static [u8]),
    Append(&'static [u8]),
    Shorten(prop::sample::Index),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = prop::sample::select(vec![
        &b"x"[..],
        b"\n",
        b"\0",
        b"\xff",
        b"\xc3",
        "é".as_bytes(),
        "🦀".as_bytes(),
        b"xyz\n",
    ]);
    let step = prop_oneof![
        2 => Just(Step::Same),
        1 => (4 * 128 * 1024usize - 2..4 * 128 * 1024 + 300_000).prop_map(Step::Write),
        3 => (any::<prop::sample::Index>(), bytes.clone()).prop_map(|(place, bytes)| Step::Overwrite(place, bytes)),
        1 => bytes.prop_map(Step::Append),
        1 => any::<prop::sample::Index>().prop_map(Step::Shorten),
    ];
    prop::collection::vec(step, 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// The last text is cached; the answer must not depend on it.
    #[test]
    fn whatever_was_read_before_the_answer_is_that_of_the_bytes_that_are_there(
        line in "[a-zé漢🦀]{0,60}\n",
        length in 4 * 128 * 1024usize - 2..4 * 128 * 1024 + 300_000,
        steps in steps(),
    ) {
        let scratch = tempfile::tempdir().unwrap();
        let root = File::open(scratch.path()).unwrap();
        let mount = Mount::new("@project", root, scratch.path(), MountAccess::ReadOnly, MountRules::new()).unwrap();
        let workspace = Workspace::new(vec![mount.as_default()]).unwrap();
        let (limits, stop) = (Limits { max_read_bytes: 1 << 30, ..LIMITS }, Deadline::never());
        let view = WorkspaceView { workspace: &workspace, style: PathStyle::Free, limits: &limits, grant: None, stop: &stop, unlocked: None };
        let text_of = |length: usize| line.repeat(length.div_ceil(line.len())).into_bytes();
        let mut bytes = text_of(length);
        for step in std::iter::once(Step::Same).chain(steps) {
            match step {
                Step::Same => {}
                Step::Write(length) => bytes = text_of(length),
                Step::Overwrite(place, with) => {
                    let begin = place.index(bytes.len() - with.len());
                    bytes[begin..begin + with.len()].copy_from_slice(with);
                }
                Step::Append(more) => bytes.extend_from_slice(more),
                Step::Shorten(by) => bytes.truncate(bytes.len() - by.index(5)),
            }
            fs::write(scratch.path().join("f"), &bytes).unwrap();
            let read = view.read("f", &ReadRequest::default()).unwrap();
            prop_assert_eq!((read.bytes, read.sha256), (bytes.len() as u64, Sha256::of(&bytes)));
            match (read.content, std::str::from_utf8(&bytes).ok().filter(|text| !text.contains('\0'))) {
                (FileContent::Text(window), Some(text)) => {
                    prop_assert!(window.text == text && !window.truncated);
                    let lines = text.split_inclusive('\n').count() as u64;
                    prop_assert_eq!((window.first_line, window.last_line, window.total_lines), (1, lines, lines));
                }
                (FileContent::Binary { .. }, None) => {}
                (FileContent::Text(_), None) => prop_assert!(false, "taken for text"),
                (FileContent::Binary { .. }, Some(_)) => prop_assert!(false, "text was taken for binary"),
            }
        }
    }
}

/// Large files are read in another way; the answer must not depend on it.
#[test]
fn a_large_file_is_read_as_a_small_one_is() {
    let scratch = tempfile::tempdir().unwrap();
    let root = File::open(scratch.path()).unwrap();
    let mount =
        Mount::new("@project", root, scratch.path(), MountAccess::ReadOnly, MountRules::new()).unwrap();
    let workspace = Workspace::new(vec![mount.as_default()]).unwrap();
    let stop = Deadline::never();
    let line = "aé漢🦀 and more\n";
    let chunk = 128 * 1024;
    for (name, bytes, limit) in [
        ("whole", line.repeat(50_000).into_bytes(), 1 << 30),
        ("no end", (line.repeat(50_000) + "x").into_bytes(), 1 << 30),
        ("just large", "x".repeat(4 * chunk).into_bytes(), 1 << 30),
        ("not yet large", "x".repeat(4 * chunk - 1).into_bytes(), 1 << 30),
        ("exactly the limit", "x".repeat(5 * chunk).into_bytes(), 5 * chunk as u64),
        ("over the limit", line.repeat(50_000).into_bytes(), 5 * chunk as u64),
        ("binary at its end", [line.repeat(50_000).as_bytes(), b"\0"].concat(), 1 << 30),
        ("cut in a character", [line.repeat(50_000).as_bytes(), b"\xe6\xbc"].concat(), 1 << 30),
    ] {
        fs::write(scratch.path().join("f"), &bytes).unwrap();
        let limits = Limits { max_read_bytes: limit, ..LIMITS };
        let view = WorkspaceView {
            workspace: &workspace,
            style: PathStyle::Free,
            limits: &limits,
            grant: None,
            stop: &stop,
            unlocked: None,
        };
        let read = view.read("f", &ReadRequest::default()).unwrap();
        assert_eq!((read.bytes, read.sha256), (bytes.len() as u64, Sha256::of(&bytes)), "{name}");
        match (read.content, std::str::from_utf8(&bytes).ok().filter(|text| !text.contains('\0'))) {
            (FileContent::Text(window), Some(text)) => {
                let kept = text.floor_char_boundary(usize::try_from(limit).unwrap());
                assert!(window.text == text[..kept], "{name}");
                assert_eq!(window.truncated, kept < text.len(), "{name}");
                assert_eq!(window.total_lines, text.lines().count() as u64, "{name}");
            }
            (FileContent::Binary { .. }, None) => {}
            (content, _) => panic!("{name}: {content:?}"),
        }
    }
}

proptest! {
    #[test]
    fn an_entire_file_is_all_of_it_or_refused(
        bytes in prop_oneof!["[a-zé漢🦀\0\n]{0,40}".prop_map(String::into_bytes), prop::collection::vec(any::<u8>(), 0..40)],
        most in 0u64..60,
    ) {
        let scratch = tempfile::tempdir().unwrap();
        fs::write(scratch.path().join("f"), &bytes).unwrap();
        let root = File::open(scratch.path()).unwrap();
        let mount = Mount::new("@project", root, scratch.path(), MountAccess::ReadOnly, MountRules::new()).unwrap();
        let workspace = Workspace::new(vec![mount.as_default()]).unwrap();
        // The limit for a model's answer does not apply here.
        let (limits, stop) = (Limits { max_read_bytes: 1, ..LIMITS }, Deadline::never());
        let view = WorkspaceView { workspace: &workspace, style: PathStyle::Free, limits: &limits, grant: None, stop: &stop, unlocked: None };
        let length = bytes.len() as u64;
        match view.read_entire("@project/f", most) {
            Err(WorkspaceError::ReadLimit { path, bytes, limit }) => {
                prop_assert!(length > most);
                prop_assert_eq!((path.as_str(), bytes, limit), ("@project/f", length, most));
            }
            Err(error) => prop_assert!(false, "{error}"),
            Ok(file) => {
                prop_assert!(length <= most);
                prop_assert_eq!((file.path.as_str(), file.bytes, file.sha256), ("f", length, Sha256::of(&bytes)));
                match (file.content, String::from_utf8(bytes.clone()).ok().filter(|text| !text.contains('\0'))) {
                    (EntireContent::Text(read), Some(text)) => prop_assert_eq!(read, text),
                    (EntireContent::Bytes(read), None) => prop_assert_eq!(read, bytes),
                    (content, text) => prop_assert!(false, "{content:?} instead of {text:?}"),
                }
            }
        }
    }
}

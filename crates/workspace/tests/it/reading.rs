//! Windows, limits and digests of a read, against the same done on a string in memory.

use std::fs::{self, File};

use proptest::prelude::*;
use toolgate_types::{Limits, Sha256, Stop};
use toolgate_workspace::{Access, FileContent, Mount, PathStyle, ReadRequest, Rules, View, Workspace};

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
        let mount = Mount::new("@project", root, scratch.path(), Access::ReadOnly, Rules::new()).unwrap();
        let workspace = Workspace::new(vec![mount.as_default()]).unwrap();
        let (limits, stop) = (Limits { max_read_bytes: limit, ..LIMITS }, Stop::never());
        let view = View { workspace: &workspace, style: PathStyle::Free, limits: &limits, grant: None, stop: &stop, unlocked: None };
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

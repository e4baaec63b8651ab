//! No input causes a panic, and errors stay small.

use proptest::prelude::*;
use toolgate_text::diff::unified;
use toolgate_text::edit::{self, Edit};
use toolgate_text::nearest_name::nearest_name;
use toolgate_text::patch;
use toolgate_types::Failure;

use crate::line_texts;

/// Pieces of patches in any order.
fn patch_soup() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "--- a/x",
            "+++ b/x",
            "--- /dev/null",
            "+++ /dev/null",
            "@@ -1 +1 @@",
            "@@ -0,0 +1 @@",
            "@@ -1,2 +1 @@ fn",
            "@@ -4294967295,4294967295 +1 @@",
            "@@ -1,0 +1,0 @@",
            "@@@ -1 -1 +1 @@@",
            "diff --git a/x b/x",
            "new file mode 100644",
            "deleted file mode 100644",
            "rename from x",
            "rename to y",
            "index 1..2 120000",
            "+++ \"b/\\303\"",
            "--- \"",
            "GIT binary patch",
            "-- ",
            "2.39",
            "\\ No newline at end of file",
            "-a",
            "+a",
            " a",
            "a",
            "\r",
            "",
        ])
        .prop_map(str::to_owned),
        any::<String>(),
    ];
    (prop::collection::vec(piece, 0..14), prop::sample::select(vec!["\n", "\r\n"]))
        .prop_map(|(pieces, end)| pieces.join(end))
}

fn bounded(failure: &Failure) -> bool {
    failure.to_string().len() < 8000
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn patches(soup in patch_soup(), original in line_texts::text()) {
        match patch::parse(&soup) {
            Ok(files) => for file in &files {
                if let Err(error) = patch::apply(file, &original) {
                    prop_assert!(bounded(&Failure::from(error)));
                }
            },
            Err(error) => prop_assert!(bounded(&Failure::from(error))),
        }
    }

    #[test]
    fn edits(text in any::<String>(), old_text in any::<String>(), new_text in any::<String>()) {
        let edit = Edit { old_text, new_text, replace_all: true };
        if let Err(error) = edit::apply(&text, &[edit]) {
            prop_assert!(bounded(&Failure::from(error)));
        }
    }

    #[test]
    fn diffs(old in any::<String>(), new in any::<String>(), label in any::<String>(), context in any::<usize>()) {
        let diff = unified(&old, &new, &label, &label, context);
        prop_assert_eq!(diff.is_empty(), old == new);
    }

    #[test]
    fn names(asked in any::<String>(), known in prop::collection::vec(any::<String>(), 0..4)) {
        let found = nearest_name(&asked, known.iter().map(String::as_str));
        prop_assert!(found.is_none_or(|name| known.iter().any(|known| known == name)));
    }
}

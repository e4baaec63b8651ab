//! Any edit of any text: either the result of a plain search and replace, or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolgate_text::diff::unified;
use toolgate_text::edit::{Edit, apply};
use toolgate_text::patch;

fuzz_target!(|input: (&str, &str, &str, bool)| {
    let (original, old, new, replace_all) = input;
    let edit = Edit { old_text: old.to_owned(), new_text: new.to_owned(), replace_all };
    let count = if old.is_empty() { 0 } else { original.matches(old).count() };
    match apply(original, &[edit]) {
        Ok(edited) => {
            assert!(count == 1 || (replace_all && count > 0));
            assert_eq!(edited.text, original.replace(old, new));
            // The diff that is shown is exactly the change.
            let diff = unified(original, &edited.text, "file", "file", 3);
            if let Ok(files) = patch::parse(&diff) {
                assert_eq!(patch::apply(&files[0], original).unwrap().text, edited.text);
            }
        }
        Err(error) => {
            assert!(count != 1 || old == new, "{error}");
            let _ = error.to_string();
        }
    }
});

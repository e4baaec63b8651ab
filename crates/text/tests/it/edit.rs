use proptest::prelude::*;
use toolgate_text::edit::{Edit, EditError, apply, apply_within};
use toolgate_types::{ErrorCode, Failure};

/// The reference: byte by byte from left to right.
fn replaced_slowly(text: &str, old: &str, new: &str) -> (String, usize) {
    let (mut out, mut count, mut rest) = (String::new(), 0, text);
    while !rest.is_empty() {
        if rest.starts_with(old) {
            out.push_str(new);
            count += 1;
            rest = &rest[old.len()..];
        } else {
            let character = rest.chars().next().unwrap();
            out.push(character);
            rest = &rest[character.len_utf8()..];
        }
    }
    (out, count)
}

fn edits_slowly(text: &str, edits: &[Edit]) -> Result<(String, Vec<usize>), ErrorCode> {
    let (mut text, mut counts) = (text.to_owned(), Vec::new());
    for edit in edits {
        if edit.old_text.is_empty() || edit.old_text == edit.new_text {
            return Err(ErrorCode::InvalidArguments);
        }
        let (next, count) = replaced_slowly(&text, &edit.old_text, &edit.new_text);
        match count {
            0 => return Err(ErrorCode::EditNotFound),
            2.. if !edit.replace_all => return Err(ErrorCode::EditAmbiguous),
            _ => {}
        }
        text = next;
        counts.push(count);
    }
    Ok((text, counts))
}

fn edit() -> impl Strategy<Value = Edit> {
    ("[ab\r\n é]{0,3}", "[abc\n]{0,3}", any::<bool>()).prop_map(|(old_text, new_text, replace_all)| Edit {
        old_text,
        new_text,
        replace_all,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn edits_agree_with_the_model(text in "[ab\r\n é]{0,20}", edits in prop::collection::vec(edit(), 1..4)) {
        match (apply(&text, &edits), edits_slowly(&text, &edits)) {
            (Ok(edited), Ok((text, counts))) => {
                prop_assert_eq!(edited.text, text);
                prop_assert_eq!(edited.replacements, counts);
            }
            (Err(error), Err(code)) => prop_assert_eq!(error.code(), code),
            (result, model) => prop_assert!(false, "{result:?} instead of {model:?}"),
        }
    }

    #[test]
    fn an_ambiguous_edit_names_the_lines(lines in prop::collection::vec("[xy]{0,2}", 0..30)) {
        let text = lines.join("\n");
        let edit = Edit { old_text: "x".into(), new_text: "z".into(), replace_all: false };
        if let Err(EditError::Ambiguous { count, lines: named, .. }) = apply(&text, &[edit]) {
            let all: Vec<usize> = (1..).zip(&lines).flat_map(|(number, line)| vec![number; line.matches('x').count()]).collect();
            prop_assert_eq!(count, all.len());
            prop_assert_eq!(named, all.into_iter().take(10).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_near_place_is_really_there(text in crate::line_texts::text(), wanted in crate::line_texts::text()) {
        let edit = Edit { old_text: wanted, new_text: "other".into(), replace_all: false };
        if let Err(EditError::NotFound { nearest: Some(place), .. }) = apply(&text, &[edit]) {
            let lines: Vec<&str> = text.split_inclusive('\n').collect();
            prop_assert!(1 <= place.first_line && place.first_line <= place.last_line && place.last_line <= lines.len());
            prop_assert_eq!(lines[place.first_line - 1..place.last_line].concat(), place.text);
        }
    }

    #[test]
    fn nothing_larger_than_allowed_is_made(text in "a{0,20}", new in "b{0,20}", max_bytes in 0usize..100) {
        let edit = Edit { old_text: "a".into(), new_text: new, replace_all: true };
        if let Ok(edited) = apply_within(&text, &[edit], max_bytes) {
            prop_assert!(edited.text.len() <= max_bytes);
        }
    }
}

#[test]
fn a_miss_in_a_large_file_is_explained_and_bounded() {
    let text = "fn same() { 0 }\n".repeat(1 << 16) + "the line that is almost it\n";
    let wanted = "fn same() { 1 }\n".repeat(200) + "the line that is almost it!\n";
    let edit = Edit { old_text: wanted, new_text: String::new(), replace_all: false };
    let failure = Failure::from(apply(&text, &[edit]).unwrap_err());
    assert_eq!(failure.code, ErrorCode::EditNotFound);
    assert!(failure.to_string().len() < 4000);
    assert!(failure.details.contains_key("nearest"));
}

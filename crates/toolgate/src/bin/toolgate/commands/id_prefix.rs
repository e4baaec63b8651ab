//! Ids by their beginning, or by their last digits as listings show them.

use std::fmt::Display;

use crate::exit::CliError;

/// The digits at the end of an id that listings show. The first digits of a call's id are a time, and those of neighbouring calls are equal.
pub(super) const SHORT_DIGITS: usize = 8;

/// How many candidates an ambiguous prefix lists.
const MAX_CANDIDATES: usize = 8;

/// The id that a text means: itself, or the only one that begins with it or, if it is long enough, ends with it. Text without a match is returned as `None`.
pub(super) fn find_by_prefix<Id: Display + Clone + PartialEq>(
    what: &str,
    text: &str,
    known: impl IntoIterator<Item = Id>,
) -> Result<Option<Id>, CliError> {
    let wanted = text.trim_end_matches('…').to_ascii_lowercase();
    let mut found: Vec<Id> = Vec::new();
    for id in known {
        let shown = id.to_string().to_ascii_lowercase();
        if shown == wanted {
            return Ok(Some(id));
        }
        let is_end = wanted.len() >= SHORT_DIGITS && shown.ends_with(&wanted);
        if (is_end || shown.starts_with(&wanted)) && !wanted.is_empty() && !found.contains(&id) {
            found.push(id);
        }
    }
    match found.as_slice() {
        [] => Ok(None),
        [only] => Ok(Some(only.clone())),
        several => {
            let shown: Vec<String> = several.iter().take(MAX_CANDIDATES).map(ToString::to_string).collect();
            let more = several.len().checked_sub(MAX_CANDIDATES).filter(|more| *more > 0);
            let more = more.map(|more| format!(" and {more} more")).unwrap_or_default();
            Err(CliError::usage(format!("{} {what}s begin or end with `{text}`", several.len()))
                .help(format!("write more of one of {}{more}", shown.join(", "))))
        }
    }
}

/// The last digits of an id.
pub(super) fn short_id(id: impl Display) -> String {
    let id = id.to_string();
    id.get(id.len().saturating_sub(SHORT_DIGITS)..).unwrap_or(&id).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_finds_the_only_id_that_begins_with_it() {
        let known = ["0199a1", "0199a2", "0199b", "0199", "03-12345678", "04-12345678"];
        let found = |text: &str| match find_by_prefix("call", text, known.map(str::to_owned)) {
            Ok(found) => found.unwrap_or_else(|| "none".to_owned()),
            Err(failed) => format!("{} / {}", failed.message, failed.help.unwrap_or_default()),
        };
        for (text, expected) in [
            ("0199b", "0199b"),
            ("0199B", "0199b"),
            ("0199b…", "0199b"),
            ("0199a1", "0199a1"),
            // An exact match takes precedence over longer ids.
            ("0199", "0199"),
            ("02", "none"),
            ("3-12345678", "03-12345678"),
            ("2345678", "none"),
            (
                "12345678",
                "2 calls begin or end with `12345678` / write more of one of 03-12345678, 04-12345678",
            ),
            ("", "none"),
            ("0199a", "2 calls begin or end with `0199a` / write more of one of 0199a1, 0199a2"),
        ] {
            assert_eq!(found(text), expected, "{text}");
        }
    }
}

//! Truncates untrusted text so that it cannot bloat a record. A marker shows the original length.

use std::borrow::Cow;

/// Characters of a name, an id or a field path.
const MAX_NAME_CHARS: usize = 256;
/// Characters of a reason, which operators read.
const MAX_REASON_CHARS: usize = 1024;
/// Entries of a list.
const MAX_LIST_ENTRIES: usize = 64;

/// Truncates a name, an id or a field path.
pub(crate) fn truncate_name(text: &str) -> Cow<'_, str> {
    truncate(text, MAX_NAME_CHARS)
}

/// Truncates a reason.
pub(crate) fn truncate_reason(text: &str) -> Cow<'_, str> {
    truncate(text, MAX_REASON_CHARS)
}

/// Truncates a list of names; the last entry says how many were omitted.
pub(crate) fn truncate_list<'a>(
    entries: impl IntoIterator<Item = &'a String, IntoIter: ExactSizeIterator>,
) -> impl Iterator<Item = Cow<'a, str>> {
    let entries = entries.into_iter();
    let left_out = entries.len().saturating_sub(MAX_LIST_ENTRIES);
    let kept = if left_out == 0 { MAX_LIST_ENTRIES } else { MAX_LIST_ENTRIES - 1 };
    let note = (left_out > 0).then(|| Cow::Owned(format!("…[{} more]", left_out + 1)));
    entries.take(kept).map(|entry| truncate_name(entry)).chain(note)
}

/// The marker counts towards the limit, so that truncation is idempotent.
fn truncate(text: &str, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit || text.chars().nth(limit).is_none() {
        return Cow::Borrowed(text);
    }
    let marker = format!("…[{} characters]", text.chars().count());
    let kept = limit.saturating_sub(marker.chars().count());
    text.chars().take(kept).chain(marker.chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_text_is_kept_and_long_text_says_how_long_it_was() {
        assert_eq!(truncate_name(&"é".repeat(256)), "é".repeat(256));
        let whole = "é".repeat(100_000);
        let long = truncate_name(&whole);
        assert_eq!(long.chars().count(), 256);
        assert!(long.ends_with("é…[100000 characters]"), "{long}");
        assert_eq!(truncate_name(&long), long);
    }

    #[test]
    fn long_lists_say_how_much_is_missing() {
        let names: Vec<String> = (0..100).map(|number| number.to_string()).collect();
        assert_eq!(truncate_list(&names[..64]).collect::<Vec<_>>(), names[..64]);
        let list: Vec<_> = truncate_list(&names).collect();
        assert_eq!((list.len(), &*list[62], &*list[63]), (64, "62", "…[37 more]"));
    }
}

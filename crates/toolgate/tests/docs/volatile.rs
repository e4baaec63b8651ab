//! Values that differ between two runs of the same command, and are not compared: ids, times, digests and durations.

/// Followed by whole milliseconds in the log of a run.
const DURATION: &str = "\"durationMs\":";

/// The text with every volatile value replaced by its kind.
pub(crate) fn settled(text: &str) -> String {
    let text = replaced(text, |word| match kind(word) {
        Some(kind) => format!("<{kind}>"),
        None => word.to_owned(),
    });
    let mut parts = text.split(DURATION);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        text + DURATION + "<number>" + part.trim_start_matches(|c: char| c.is_ascii_digit())
    })
}

/// The ids of calls, in order.
pub(crate) fn ids(text: &str) -> Vec<String> {
    let mut ids = Vec::new();
    replaced(text, |word| {
        if matches!(kind(word), Some("id" | "short-id")) {
            ids.push(word.to_owned());
        }
        String::new()
    });
    ids
}

/// The text with every word replaced.
pub(crate) fn replaced(text: &str, mut replace: impl FnMut(&str) -> String) -> String {
    let is_part = |character: char| character.is_ascii_alphanumeric() || ".:-".contains(character);
    let mut result = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(is_part) {
        let (before, from_word) = rest.split_at(start);
        let (word, after) = from_word.split_at(from_word.find(|c| !is_part(c)).unwrap_or(from_word.len()));
        let bare = word.trim_matches(['.', ':', '-']);
        result.push_str(before);
        if bare.is_empty() {
            result.push_str(word);
        } else {
            result.push_str(&word.replace(bare, &replace(bare)));
        }
        rest = after;
    }
    result + rest
}

fn kind(word: &str) -> Option<&'static str> {
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let parts: Vec<&str> = word.split('-').collect();
    if parts.len() == 5 && word.len() == 36 && parts.iter().all(|part| is_hex(part)) {
        Some("id")
    } else if word.len() == 8 && is_hex(word) {
        Some("short-id")
    } else if matches!(word.len(), 64 | 128) && is_hex(word) {
        Some("hex")
    } else if is_session(word) {
        Some("session")
    } else if begins_with_a_day(word) || is_time_of_day(word) {
        Some("time")
    } else if parts.len() == 2 && parts[0] == "default" && parts[1].len() == 12 && is_hex(parts[1]) {
        Some("run")
    } else if word.contains('.') && word.parse::<f64>().is_ok() {
        Some("number")
    } else {
        None
    }
}

/// Session ids mix letters and digits.
fn is_session(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let is_letter =
        |byte: u8| byte.is_ascii_digit() || (byte.is_ascii_lowercase() && !b"ilou".contains(&byte));
    word.len() == 10 && (1..10).contains(&digits) && word.bytes().all(is_letter)
}

/// `11-15`, `05:58:15` or `05:58:15.390`, as `audit show` has them.
fn is_time_of_day(word: &str) -> bool {
    let word = match word.split_once('.') {
        Some((time, fraction)) if fraction.parse::<u16>().is_ok() => time,
        _ => word,
    };
    let are_pairs = |by: char| {
        word.split(by).all(|pair| pair.len() == 2 && pair.bytes().all(|byte| byte.is_ascii_digit()))
    };
    (word.len() == 5 && are_pairs('-')) || (word.len() == 8 && are_pairs(':'))
}

/// `2026-11-15`, with or without a time after it.
fn begins_with_a_day(word: &str) -> bool {
    let Some((day, _)) = word.split_at_checked(10) else { return false };
    day.bytes().enumerate().all(|(index, byte)| match index {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    })
}

#[test]
fn only_what_differs_between_runs_is_replaced() {
    let id = "01a1ddbb-88ae-7635-ae6c-503d3927592a";
    let digest = "e8658f16650b23d4b3b54f5e14e173d1541cf982f6540fe77ab132730e093052";
    let line =
        format!("   3  2026-11-15T05:43:38.430Z  DENIED  x  7.8 ms  {id}: v0.1.0 29 {digest}, \"d\":0.5,");
    assert_eq!(
        settled(&line),
        "   3  <time>  DENIED  x  <number> ms  <id>: v0.1.0 29 <hex>, \"d\":<number>,"
    );
    assert_eq!(ids(&line), [id]);
    assert_eq!(settled("2026-11-19 01:18:24.390 +00:00"), "<time> <time> +00:00");
    // One id in 2,500 has no digit.
    assert_eq!(ids("ALLOWED  read_file  bddadabe"), ["bddadabe"]);
    assert_eq!(settled("{\"durationMs\":12}"), settled("{\"durationMs\":3}"));
}

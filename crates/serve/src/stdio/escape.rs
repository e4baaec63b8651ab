//! Texts as JSON strings, faster than byte by byte.

const EVERY: u64 = 0x0101_0101_0101_0101;
const HIGHEST: u64 = 0x8080_8080_8080_8080;

/// Appends a text as it stands between the quotes of a JSON string.
pub(super) fn escape(text: &[u8], json: &mut Vec<u8>) {
    let mut rest = text;
    loop {
        let (plain, after) = rest.split_at_checked(plain_length(rest)).unwrap_or((rest, &[]));
        json.extend_from_slice(plain);
        let Some((byte, after)) = after.split_first() else { return };
        match byte {
            b'"' => json.extend_from_slice(b"\\\""),
            b'\\' => json.extend_from_slice(b"\\\\"),
            b'\n' => json.extend_from_slice(b"\\n"),
            b'\r' => json.extend_from_slice(b"\\r"),
            b'\t' => json.extend_from_slice(b"\\t"),
            0x08 => json.extend_from_slice(b"\\b"),
            0x0c => json.extend_from_slice(b"\\f"),
            other => json.extend_from_slice(format!("\\u{other:04x}").as_bytes()),
        }
        rest = after;
    }
}

/// How many bytes come before the first that cannot stand in a JSON string as it is.
fn plain_length(text: &[u8]) -> usize {
    let (words, rest) = text.as_chunks::<8>();
    for (number, word) in words.iter().enumerate() {
        let found = special(u64::from_le_bytes(*word));
        if found != 0 {
            return number * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let plain = rest.iter().take_while(|byte| !is_special(**byte)).count();
    words.len() * 8 + plain
}

fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// The highest bit of every byte that cannot stand as it is. Bytes after the first such byte may be marked as well.
fn special(word: u64) -> u64 {
    let control = word.wrapping_sub(EVERY * 0x20) & !word;
    let is = |byte: u8| {
        let zero_where = word ^ (EVERY * u64::from(byte));
        zero_where.wrapping_sub(EVERY) & !zero_where
    };
    (control | is(b'"') | is(b'\\')) & HIGHEST
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn escaped(text: &str) -> String {
        let mut json = vec![b'"'];
        escape(text.as_bytes(), &mut json);
        json.push(b'"');
        String::from_utf8(json).unwrap()
    }

    #[test]
    fn every_character_is_written_as_others_write_it() {
        for byte in 0..=255u8 {
            for place in 0..17 {
                let text = "x".repeat(place) + &char::from(byte).to_string() + "yé\u{1F600}z";
                assert_eq!(escaped(&text), serde_json::to_string(&text).unwrap());
            }
        }
    }

    proptest! {
        #[test]
        fn every_text_is_written_as_others_write_it(text in "([\\PC\n\t\"\\\\\u{0}-\u{1f}\u{7f}\u{80}-\u{ff}]){0,200}") {
            prop_assert_eq!(escaped(&text), serde_json::to_string(&text).unwrap());
        }
    }
}

//! Texts as JSON strings, faster than byte by byte.

/// Looked at together.
const BLOCK: usize = 16;

/// Appends a text as it stands between the quotes of a JSON string.
pub(super) fn escape(text: &[u8], json: &mut Vec<u8>) {
    json.reserve(text.len() + text.len() / BLOCK);
    let mut rest = text;
    while let Some((block, after)) = rest.split_first_chunk::<BLOCK>() {
        json.extend_from_slice(block);
        let marks = specials(block);
        if marks == 0 {
            rest = after;
            continue;
        }
        // Copied before it was looked at, because nearly every block holds something that stands as it is; the rest is taken back.
        let plain = marks.trailing_zeros() as usize / 8;
        json.truncate(json.len() - BLOCK + plain);
        let Some((byte, after)) = rest.get(plain..).and_then(<[u8]>::split_first) else { return };
        put_special(*byte, json);
        rest = after;
    }
    for byte in rest {
        match is_special(*byte) {
            true => put_special(*byte, json),
            false => json.push(*byte),
        }
    }
}

/// A byte that is not zero for every one that cannot stand as it is, the first lowest. Compilers make a handful of instructions of it.
fn specials(block: &[u8; BLOCK]) -> u128 {
    u128::from_le_bytes(block.map(|byte| if is_special(byte) { 0xff } else { 0 }))
}

fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

fn put_special(byte: u8, json: &mut Vec<u8>) {
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
            for place in 0..35 {
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

//! Forms in which a secret could leave: as it is, and in the simple encodings that a command line has at hand.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::process::spawn;

/// A secret, in every form that is looked for.
pub(super) struct SecretForms(Vec<(&'static str, String)>);

impl SecretForms {
    pub(super) fn new(secret: &str) -> Self {
        let bytes = secret.as_bytes();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let octal: String = bytes.iter().map(|byte| format!("{byte:03o}")).collect();
        let rotated: String = secret.chars().map(rotated).collect();
        let mut forms = vec![
            ("as it is", secret.to_owned()),
            ("reversed", secret.chars().rev().collect()),
            ("in hexadecimal", hex.clone()),
            ("in hexadecimal", hex.to_uppercase()),
            ("in octal", octal),
            ("rotated by 13", rotated),
            ("in upper case", secret.to_uppercase()),
        ];
        // Where the secret begins at another byte of a group of three, its base64 is another text; the edges depend on what is around.
        for shift in 0..3 {
            let mut padded = vec![b' '; shift];
            padded.extend_from_slice(bytes);
            let encoded = base64(&padded);
            let inner: String = encoded.chars().skip(4).take(encoded.len().saturating_sub(12)).collect();
            forms.push(("in base64", inner));
        }
        Self(forms)
    }

    /// Adds what `gzip` makes of a file that holds the secret.
    #[expect(clippy::disallowed_methods, reason = "the host's gzip is the one that commands run")]
    pub(super) fn add_compressed(&mut self, file: &Path) {
        let mut gzip = Command::new("gzip");
        gzip.arg("-nc").arg(file).stdin(Stdio::null()).stdout(Stdio::piped());
        let output = spawn(&mut gzip).and_then(std::process::Child::wait_with_output);
        let compressed = output.map(|output| output.stdout).unwrap_or_default();
        if !compressed.is_empty() {
            self.0.push(("compressed", base64(&compressed)));
        }
    }

    /// The form in which the text shows the secret.
    pub(super) fn found_in(&self, text: &str) -> Option<&'static str> {
        let find =
            |text: &str| self.0.iter().find(|(_, form)| text.contains(form.as_str())).map(|(how, _)| *how);
        // In JSON, white space of an answer is `\n`, and some of what stands between is spaces.
        find(text).or_else(|| {
            let joined = text.replace("\\n", "").replace("\\t", "");
            find(&joined.chars().filter(|character| !character.is_whitespace()).collect::<String>())
        })
    }
}

fn rotated(character: char) -> char {
    let by_13 = |first: u8, letter: char| {
        char::from(first + (u8::try_from(letter).unwrap_or(first) - first + 13) % 26)
    };
    match character {
        'a'..='z' => by_13(b'a', character),
        'A'..='Z' => by_13(b'A', character),
        other => other,
    }
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits =
            group.iter().fold(0_u32, |bits, byte| (bits << 8) | u32::from(*byte)) << (8 * (3 - group.len()));
        for place in 0..=group.len() {
            let index = usize::try_from((bits >> (18 - 6 * place)) & 63).unwrap_or_default();
            text.push(LETTERS.get(index).copied().map_or('=', char::from));
        }
        text.extend(std::iter::repeat_n('=', 3 - group.len()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_as_rfc_4648_has_it() {
        for (plain, encoded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
            ("\u{ff}\u{fe}", "w7/Dvg=="),
        ] {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
    }

    #[test]
    fn a_secret_is_found_in_every_simple_encoding_and_not_where_it_is_absent() {
        let secret = "canaryX1y2Z3X1y2Z3X1y2Z3";
        let forms = SecretForms::new(secret);
        let file = format!("API_KEY={secret}\n");
        let spaced: String = secret.chars().map(|letter| format!("{letter} ")).collect();
        let hex: String = file.bytes().map(|byte| format!(" {byte:02x}")).collect();
        for text in [
            file.clone(),
            base64(file.as_bytes()),
            base64(format!("x{file}").as_bytes()),
            base64(format!("xy{file}").as_bytes()),
            file.chars().rev().collect(),
            spaced,
            hex,
            "canary\\nX1y2Z3X1y2\\nZ3X1y2Z3".to_owned(),
            file.chars().map(rotated).collect(),
            file.to_uppercase(),
        ] {
            assert!(forms.found_in(&text).is_some(), "{text}");
        }
        assert_eq!(forms.found_in("canary and nothing else, API_KEY="), None);
    }
}

//! Redacts a secret from untrusted text that may repeat it.

/// A shorter secret also occurs by chance, as a part of unrelated words.
const LONG: usize = 8;

/// Replaces every occurrence of the secret by a mark. A secret of fewer than eight characters is replaced only where it stands alone: `a` is no
/// reason to remove every `a` from a message.
#[must_use]
pub fn without_secret(text: &str, secret: &str, mark: &str) -> String {
    if secret.is_empty() {
        return text.to_owned();
    }
    if secret.chars().nth(LONG - 1).is_some() {
        return text.replace(secret, mark);
    }
    let (mut kept, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once(secret) {
        let behind = kept.chars().chain(before.chars()).next_back();
        let is_word = |next: Option<char>| next.is_some_and(char::is_alphanumeric);
        let stands_alone = !is_word(behind) && !is_word(after.chars().next());
        kept.push_str(before);
        kept.push_str(if stands_alone { mark } else { secret });
        rest = after;
    }
    kept.push_str(rest);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_secrets_are_taken_out_of_a_text_and_not_out_of_its_words() {
        for (secret, text, expected) in [
            ("a", "a bad key: a, `a`=a", "… bad key: …, `…`=…"),
            ("key1", "key1 key12 xkey1 key1.", "… key12 xkey1 …."),
            ("sk-1234", "no sk-1234 here, nor sk-12345", "no … here, nor sk-12345"),
            ("sk-12345", "xsk-12345x", "x…x"),
            ("", "nothing", "nothing"),
            ("aa", "aaa aa", "aaa …"),
        ] {
            assert_eq!(without_secret(text, secret, "…"), expected, "{secret}");
        }
    }
}

//! Words of names, descriptions and queries.

use bm25::Tokenizer;

/// How many words of one text count. A server that writes more about a tool gains nothing by it.
const MAX_TOKENS: usize = 256;

/// A longer word is cut: it is no word.
const MAX_TOKEN_CHARS: usize = 40;

/// From here on, scripts are written without spaces: every character is a word. CJK radicals are the first.
const FIRST_UNSPACED: char = '\u{2e80}';

/// Splits at everything but letters and digits, and inside names: `createIssue`, `create_issue` and `create-issues` are the same two words.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NameTokenizer;

impl Tokenizer for NameTokenizer {
    fn tokenize(&self, text: &str) -> Vec<String> {
        let mut tokens = Vec::new();
        let (mut word, mut was_lower) = (String::new(), false);
        for character in text.chars() {
            let is_unspaced = character >= FIRST_UNSPACED;
            let begins =
                !character.is_alphanumeric() || is_unspaced || (was_lower && character.is_uppercase());
            if begins {
                push(&mut tokens, &mut word);
            }
            if character.is_alphanumeric() && word.chars().count() < MAX_TOKEN_CHARS {
                word.extend(character.to_lowercase());
            }
            if is_unspaced {
                push(&mut tokens, &mut word);
            }
            was_lower = character.is_lowercase() || character.is_numeric();
            if tokens.len() >= MAX_TOKENS {
                return tokens;
            }
        }
        push(&mut tokens, &mut word);
        tokens
    }
}

fn push(tokens: &mut Vec<String>, word: &mut String) {
    if !word.is_empty() {
        tokens.push(stem(word));
        word.clear();
    }
}

/// Without the endings that make the same word another one in English: `issues` and `issue`, `creates`, `created` and `create`.
fn stem(word: &str) -> String {
    fn without<'w>(word: &'w str, ending: &str) -> Option<&'w str> {
        word.strip_suffix(ending).filter(|rest| rest.chars().count() >= 3)
    }
    if let Some(rest) = without(word, "ies") {
        return format!("{rest}y");
    }
    let singular = if word.ends_with("ss") { word } else { without(word, "s").unwrap_or(word) };
    let base = without(singular, "ing").or_else(|| without(singular, "ed")).unwrap_or(singular);
    without(base, "e").unwrap_or(base).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_words_are_split_alike() {
        let tokens = |text: &str| NameTokenizer.tokenize(text).join(" ");
        let issue = tokens("create issue");
        assert_eq!(tokens("strings"), tokens("string"));
        for same in [
            "createIssue",
            "create_issue",
            "create-issues",
            "CREATE ISSUE",
            "creates, issue!",
            "created issues",
        ] {
            assert_eq!(tokens(same), issue, "{same}");
        }
        assert_eq!(tokens("repositories"), tokens("repository"));
        assert_eq!(tokens("access"), "access");
        assert_eq!(tokens("github__list_v2"), "github list v2");
        assert_eq!(tokens("文件 search"), "文 件 search");
        assert_eq!(tokens(" \u{202e}-_ "), "");
    }

    #[test]
    fn a_text_has_a_bounded_number_of_words() {
        assert_eq!(NameTokenizer.tokenize(&"word ".repeat(100_000)).len(), MAX_TOKENS);
        assert!(NameTokenizer.tokenize(&"x".repeat(100_000))[0].len() <= MAX_TOKEN_CHARS);
    }
}

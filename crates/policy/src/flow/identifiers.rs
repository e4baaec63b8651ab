//! Short numbers as identifiers. Up to four digits are a day, a year or an amount as often as they are an id, so "June 13" does not name the file `13`.

use super::provenance::is_said_in;

/// A longer number is no common word.
const MAX_COMMON_DIGITS: usize = 4;

/// Words for an identifier, in the singular.
const ID_WORDS: [&str; 5] = ["id", "no", "nr", "num", "number"];

/// What joins the members of a list: `files 13, 14 and 15`.
const JOINTS: [&str; 4] = ["and", "or", "&", ""];

/// Quotation marks that begin and end a value.
const QUOTES: [(char, char); 5] = [('"', '"'), ('\'', '\''), ('`', '`'), ('“', '”'), ('‘', '’')];

/// Whether a value is up to four digits.
pub(super) fn is_short_number(value: &str) -> bool {
    (1..=MAX_COMMON_DIGITS).contains(&value.len()) && value.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether an argument of this path is an identifier by its name: `id`, `file_id`, `fileIds`, `issue_number`.
pub(super) fn is_identifier(argument: &str) -> bool {
    words_of_name(argument).last().is_some_and(|last| ID_WORDS.contains(&last.as_str()))
}

/// Whether a text names a short number as an identifier: alone in quotation marks, or after a word for an identifier or a word of the argument's name
/// (`file` for `file_id`), also as a member of a list.
pub(super) fn is_id_said_in(value: &str, argument: &str, text: &str) -> bool {
    let tokens: Vec<&str> = text.split_whitespace().collect();
    let names = words_of_name(argument);
    let is_name = |word: &str| {
        let word = singular(&word.to_ascii_lowercase());
        ID_WORDS.contains(&word.as_str()) || names.contains(&word)
    };
    tokens.iter().enumerate().filter(|(_, token)| is_said_in(value, token)).any(|(index, token)| {
        let mut before = tokens.iter().take(index).rev().map(|token| plain(token));
        let is_listed = |word: &&str| JOINTS.contains(word) || word.bytes().all(|byte| byte.is_ascii_digit());
        is_quoted(value, token) || before.find(|word| !is_listed(word)).is_some_and(is_name)
    })
}

fn is_quoted(value: &str, token: &str) -> bool {
    QUOTES.iter().any(|(open, close)| token.contains(&format!("{open}{value}{close}")))
}

/// A word without the punctuation around it.
fn plain(token: &str) -> &str {
    token.trim_matches(|character: char| !character.is_alphanumeric() && character != '&')
}

/// The words of the last part of an argument's path, in lower case and in the singular.
fn words_of_name(argument: &str) -> Vec<String> {
    let name = argument.rsplit('.').next().unwrap_or_default();
    let mut words = vec![String::new()];
    for character in name.chars() {
        if character.is_ascii_uppercase() || !character.is_alphanumeric() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| character.is_alphanumeric()) {
            word.push(character.to_ascii_lowercase());
        }
    }
    words.into_iter().filter(|word| !word.is_empty()).map(|word| singular(&word)).collect()
}

fn singular(word: &str) -> String {
    word.strip_suffix('s').filter(|rest| !rest.is_empty()).unwrap_or(word).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_number_is_named_as_an_identifier_only() {
        for text in [
            "Delete the file 13.",
            "the file with ID '13' and no other",
            "files 12, 13 and 14",
            "delete `13`",
            "id: 13",
            "please close no. 13!",
        ] {
            assert!(is_id_said_in("13", "file_id", text), "{text}");
        }
        for text in [
            "What do we do on June 13?",
            "13 people will come",
            "from 12 to 13",
            "chapter 13 of the file",
            "the files of 13 May",
            "'June 13' is in the file",
            "file 130, file 1.13",
            "",
        ] {
            assert!(!is_id_said_in("13", "file_id", text), "{text}");
        }
    }

    #[test]
    fn an_argument_is_an_identifier_by_the_last_word_of_its_name() {
        for name in ["id", "file_id", "fileIds", "message.issue_number", "ids"] {
            assert!(is_identifier(name), "{name}");
        }
        for name in ["amount", "idea", "id_card", "to", "", "valid"] {
            assert!(!is_identifier(name), "{name}");
        }
    }
}

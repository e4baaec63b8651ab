//! The arguments of a server's program.

use super::secret_variables::ServerImport;
use super::variables::translated;
use toolgate_manifest::shown;
use toolgate_text::secret_detection::{is_secret, names_secret, without_scheme};

/// VS Code's variable for the open directory.
pub(super) const PROJECT_FOLDER: &str = "${workspaceFolder}";

/// The imported arguments.
pub(super) fn arguments(words: &[String], taking: &mut ServerImport<'_>) -> Vec<String> {
    let mut option = "";
    let mut taken = Vec::new();
    for word in words {
        // `--token SECRET`: the option's name decides whether its value is a secret.
        let belongs = names_secret(option) && !is_option(word);
        taken.push(if belongs { named(option, word, taking) } else { one(word, taking) });
        option = if word.starts_with('-') && !word.contains('=') { word } else { "" };
    }
    taken
}

/// `--long` or `-s`. Other words with a dash may be secrets.
fn is_option(word: &str) -> bool {
    word.starts_with("--") || (word.starts_with('-') && word.chars().count() == 2)
}

/// A single argument.
fn one(word: &str, taking: &mut ServerImport<'_>) -> String {
    if let Some((name, value)) = assignment(word) {
        return format!("{name}={}", named(name, value, taking));
    }
    named("", word, taking)
}

/// `--name=value`, `NAME=value`
fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (!name.is_empty() && name.bytes().all(fine)).then_some((name, value))
}

/// A value with a name, or without one.
fn named(name: &str, value: &str, taking: &mut ServerImport<'_>) -> String {
    if let Some((header, content)) = header(value) {
        let space = if content.starts_with(' ') { " " } else { "" };
        return format!("{header}:{space}{}", taking.header(header, content.trim_start()));
    }
    let mut notes = Vec::new();
    let in_project = value.replace(PROJECT_FOLDER, "/mnt/project");
    let translated = translated(&in_project, &mut notes);
    if is_secret(name, &translated.literal) {
        let (scheme, secret) = without_scheme(value);
        let label = name.trim_start_matches('-');
        let replaced = match label {
            "" => taking.replaced("the secret among the arguments", "secret", secret),
            label => taking.replaced(&format!("the value of the argument `{}`", shown(name)), label, secret),
        };
        return format!("{scheme}{replaced}");
    }
    taking.sees_project |= in_project != value;
    taking.notes.extend(notes);
    taking.path(translated.text)
}

/// `Authorization: Bearer SECRET` as one argument, if the header's name indicates a secret.
fn header(value: &str) -> Option<(&str, &str)> {
    let (name, content) = value.split_once(':')?;
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (!name.is_empty() && name.bytes().all(fine) && names_secret(name)).then_some((name, content))
}

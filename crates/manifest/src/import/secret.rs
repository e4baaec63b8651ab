//! Telling secrets, so that none is copied.

use crate::tool::{is_variable, looks_secret};

/// How well-known secrets begin.
const BEGINNINGS: &[&str] = &[
    "sk-",
    "sk_",
    "pk_",
    "rk_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xapp-",
    "AKIA",
    "ASIA",
    "AIza",
    "eyJ",
    "ya29.",
    "npm_",
    "pypi-",
    "hf_",
    "lin_api_",
    "ntn_",
    "secret_",
    "tvly-",
    "ATATT",
    "dop_v1_",
    "SG.",
    "-----BEGIN",
];

/// Whether a value is, or may be, a secret: by its name, by how it begins, or because it looks like nothing a person chose.
pub(super) fn is_secret(name: &str, value: &str) -> bool {
    let name = name.replace('-', "_");
    !value.is_empty() && (looks_secret(&name) || holds_secret(value) || looks_random(value))
}

/// Whether a value is a well-known kind of secret.
pub(super) fn holds_secret(value: &str) -> bool {
    BEGINNINGS.iter().any(|beginning| value.starts_with(beginning)) || has_password(value)
}

/// `postgres://user:password@host`
fn has_password(value: &str) -> bool {
    let authority = value.split_once("://").and_then(|(_, rest)| rest.split(['/', '?', '#']).next());
    authority.and_then(|authority| authority.rsplit_once('@')).is_some_and(|(user, _)| user.contains(':'))
}

/// One long word of letters and digits.
fn looks_random(value: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'+' | b'=');
    value.len() >= 20
        && value.bytes().all(word)
        && value.bytes().any(|byte| byte.is_ascii_digit())
        && value.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// The name of a variable, made of whatever words there are.
pub(super) fn variable(words: &[&str]) -> String {
    let joined = words.join("_").to_ascii_uppercase();
    let name: String = joined
        .chars()
        .map(|character| if character.is_ascii_alphanumeric() { character } else { '_' })
        .collect();
    if is_variable(&name) { name } else { format!("_{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_told_by_name_and_by_look() {
        for (name, value) in [
            ("API_KEY", "x"),
            ("X-Api-Key", "x"),
            ("PAT", "x"),
            ("WHATEVER", "ghp_abcdef"),
            ("DATABASE_URL", "postgres://me:pw@localhost/db"),
            ("ID", "0123456789abcdef0123456789abcdef"),
        ] {
            assert!(is_secret(name, value), "{name}={value}");
        }
        for (name, value) in [
            ("LOG_LEVEL", "debug"),
            ("API_KEY", ""),
            ("URL", "https://example.com/a/path/that/is/quite/long/1"),
            ("DIR", "/home/sam/projects/number-one-2026"),
            ("NAME", "averylongnamewithoutdigits"),
        ] {
            assert!(!is_secret(name, value), "{name}={value}");
        }
    }

    #[test]
    fn variables_have_names() {
        for (words, expected) in
            [(&["git-hub", "token"][..], "GIT_HUB_TOKEN"), (&["7z"], "_7Z"), (&["ä"], "_"), (&[""], "_")]
        {
            assert_eq!(variable(words), expected);
            assert!(is_variable(&variable(words)));
        }
    }
}

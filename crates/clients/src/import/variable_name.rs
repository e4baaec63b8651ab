//! Names of variables that replace secrets.

use toolgate_manifest::is_variable;

/// A variable name made of these words.
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
    fn variables_have_names() {
        for (words, expected) in
            [(&["git-hub", "token"][..], "GIT_HUB_TOKEN"), (&["7z"], "_7Z"), (&["ä"], "_"), (&[""], "_")]
        {
            assert_eq!(variable(words), expected);
            assert!(is_variable(&variable(words)));
        }
    }
}

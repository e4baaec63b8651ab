//! Variables in clients' syntax.

use super::variable_name::variable;
use toolgate_manifest::is_variable;
use toolgate_manifest::shown;

/// Text with the client's variables translated to the gate's.
pub(super) struct Translated {
    pub(super) text: String,
    /// The literal parts, including the defaults of variables.
    pub(super) literal: String,
}

/// `${env:NAME}` and `{env:NAME}` become `${NAME}`; `${input:name}` and other variables of a client become variables of
/// their own.
pub(super) fn translated(text: &str, notes: &mut Vec<String>) -> Translated {
    let (mut translated, mut literal) = (String::new(), String::new());
    let mut rest = text;
    while let Some((at, inside, behind)) = next_variable(rest) {
        let before = rest.get(..at).unwrap_or_default();
        let (name, otherwise) = match inside.split_once(":-") {
            Some((name, otherwise)) => (name, Some(otherwise)),
            None => (inside, None),
        };
        let (kind, bare) = name.split_once(':').unwrap_or(("", name));
        let known = match (kind, bare) {
            ("", "userHome") => "HOME".to_owned(),
            ("" | "env", bare) if is_variable(bare) => bare.to_owned(),
            (_, bare) => variable(&[bare]),
        };
        if kind != "env" && known != bare {
            notes.push(format!("`${{{}}}` is the variable `{known}` here", shown(name)));
        }
        literal.extend([before, otherwise.unwrap_or_default()]);
        let otherwise = otherwise.map(|text| format!(":-{text}")).unwrap_or_default();
        translated.push_str(&format!("{before}${{{known}{otherwise}}}"));
        rest = behind;
    }
    translated.push_str(rest);
    literal.push_str(rest);
    Translated { text: translated, literal }
}

/// The offset of the next variable, its name, and the text after it.
fn next_variable(text: &str) -> Option<(usize, &str, &str)> {
    let dollar = text.find("${").map(|at| (at, 2));
    let braces = text.find("{env:").map(|at| (at, 1));
    let (at, width) = [dollar, braces].into_iter().flatten().min_by_key(|(at, _)| *at)?;
    let (inside, behind) = text.get(at + width..)?.split_once('}')?;
    Some((at, inside, behind))
}

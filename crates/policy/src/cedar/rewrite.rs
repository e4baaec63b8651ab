//! Rewrites a condition's variables to Cedar's.
//!
//! Cedar has only four variables, so `input`, `path`, `caller` and `session` become `context.input` and so on,
//! token by token. A bug here could change the meaning of an expression but never make it more than an
//! expression: the result is parsed as a single expression before it becomes part of anything.

use super::tokens::{CedarToken, tokens};

const PREFIX: &str = "context.";
const CONDITION_VARIABLES: [&str; 4] = ["input", "path", "caller", "session"];
const CEDAR_VARIABLES: [&str; 4] = ["principal", "action", "resource", "context"];

/// A rewritten condition, with a mapping back to the original.
#[derive(Debug)]
pub(super) struct Rewritten {
    pub(super) text: String,
    /// Offsets in the original where a prefix was inserted, in order.
    inserted: Vec<usize>,
}

impl Rewritten {
    /// The offset in the original for an offset in the rewritten text.
    pub(super) fn original_offset(&self, offset: usize) -> usize {
        let mut original = offset;
        for (earlier, place) in self.inserted.iter().enumerate() {
            let begins = place + earlier * PREFIX.len();
            if offset <= begins {
                break;
            }
            original = place.max(&offset.saturating_sub((earlier + 1) * PREFIX.len())).to_owned();
        }
        original
    }
}

/// One of Cedar's own variables in a condition, and its offset.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ForeignVariable<'t> {
    pub(super) name: &'t str,
    pub(super) offset: usize,
}

/// Rewrites a condition, or returns a variable that a condition must not use.
pub(super) fn rewrite(original: &str) -> Result<Rewritten, ForeignVariable<'_>> {
    let tokens: Vec<CedarToken<'_>> = tokens(original).collect();
    let mut rewritten = Rewritten { text: String::with_capacity(original.len() + 64), inserted: Vec::new() };
    let (mut rest, mut copied) = (original, 0);
    for (index, token) in tokens.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|index| tokens.get(index)).map_or("", |token| token.text);
        let after = tokens.get(index + 1).map_or("", |token| token.text);
        if !is_variable(before, after) {
            continue;
        }
        let then = tokens.get(index + 2).map_or("", |token| token.text);
        // A call may have no path, and only `context` can be checked for one.
        if (token.text, after, then) == ("context", "has", "path") {
            continue;
        }
        if CEDAR_VARIABLES.contains(&token.text) {
            return Err(ForeignVariable { name: token.text, offset: token.offset });
        }
        if CONDITION_VARIABLES.contains(&token.text) {
            // An offset that is none of the text refuses the condition: a condition that lost a part of itself would allow more.
            let foreign = ForeignVariable { name: token.text, offset: token.offset };
            let (before, after) = rest.split_at_checked(token.offset - copied).ok_or(foreign)?;
            rewritten.text += before;
            rewritten.text += PREFIX;
            rewritten.inserted.push(token.offset);
            (rest, copied) = (after, token.offset);
        }
    }
    rewritten.text += rest;
    Ok(rewritten)
}

/// Whether a word between these two is a variable, rather than a field name, a record key, a type or a function.
fn is_variable(before: &str, after: &str) -> bool {
    !matches!(before, "." | "has" | "is" | "::" | "@") && !matches!(after, ":" | "::" | "(")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_rewritten_and_nothing_else() {
        for (original, expected) in [
            ("input.count > 20", "context.input.count > 20"),
            ("input[\"odd name\"]", "context.input[\"odd name\"]"),
            ("input.input == input.caller", "context.input.input == context.input.caller"),
            (
                "input has input && !(input has session)",
                "context.input has input && !(context.input has session)",
            ),
            ("{input: input, \"caller\": caller}", "{input: context.input, \"caller\": context.caller}"),
            ("\"input\" == caller . subject", "\"input\" == context.caller . subject"),
            ("\"a\\\"input\" like \"input\" // input", "\"a\\\"input\" like \"input\" // input"),
            ("// input\ninput.a", "// input\ncontext.input.a"),
            ("input_1 + inputs + _input", "input_1 + inputs + _input"),
            ("input::\"x\" == session", "input::\"x\" == context.session"),
            ("caller is input", "context.caller is input"),
            (
                "[input.a,input.b].contains(session.calls)",
                "[context.input.a,context.input.b].contains(context.session.calls)",
            ),
            ("\"never closed input", "\"never closed input"),
            ("input.principal", "context.input.principal"),
            ("context has path && path in x", "context has path && context.path in x"),
            (
                "path in Path::\"@a/path\" && input.path in path",
                "context.path in Path::\"@a/path\" && context.input.path in context.path",
            ),
        ] {
            assert_eq!(rewrite(original).unwrap().text, expected, "{original}");
        }
    }

    #[test]
    fn variables_of_cedar_are_not_a_conditions_to_use() {
        for (original, name, offset) in [
            ("principal == 1", "principal", 0),
            ("true && context.input.a", "context", 8),
            ("[resource]", "resource", 1),
            ("context has input", "context", 0),
            ("context.path has path", "context", 0),
        ] {
            assert_eq!(rewrite(original).unwrap_err(), ForeignVariable { name, offset });
        }
    }

    #[test]
    fn places_are_found_again() {
        let original = "input.a > 1 && caller.b";
        let rewritten = rewrite(original).unwrap();
        for word in ["a >", "1", "&&", "b"] {
            let (there, here) = (rewritten.text.find(word).unwrap(), original.find(word).unwrap());
            if word != "a >" {
                assert_eq!(rewritten.original_offset(there), here, "{word}");
            }
        }
        assert_eq!(rewritten.original_offset(0), 0);
        assert_eq!(rewritten.original_offset(3), 0, "inside what was put in");
        assert_eq!(rewritten.original_offset(rewritten.text.find("context.caller").unwrap()), 15);
    }
}

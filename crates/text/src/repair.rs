//! Repairs arguments that are almost JSON, where the intended meaning is unambiguous.
//!
//! The repairs are a closed list ([`Repair`]). Nothing is guessed: an unterminated string, a number at the very end of the text, a comma before the
//! end of the text and a name without a value may have lost something, and are left unchanged. Valid JSON is never changed.

use serde_json::Value;
use toolgate_types::Repair;

/// Deeper nesting is refused; serde_json has the same limit.
const MAX_DEPTH: usize = 127;

/// JSON, and the repairs that produced it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// The text.
    pub json: String,
    /// Each kind once, in the order of occurrence.
    pub repairs: Vec<Repair>,
}

/// Repairs a text. `None` where the meaning is ambiguous.
#[must_use]
pub fn repair_json(text: &str) -> Option<Repaired> {
    let mut repairs = Vec::new();
    let bare = unfenced(text, &mut repairs);
    if let Ok(inner) = serde_json::from_str::<String>(bare)
        && inner.trim_start().starts_with('{')
        && is_json(&inner)
    {
        repairs.push(Repair::Quoted);
        return Some(Repaired { json: inner, repairs });
    }
    if is_json(bare) {
        return Some(Repaired { json: bare.to_owned(), repairs });
    }
    let mut mender = Mender { rest: bare, json: String::with_capacity(bare.len() + 8), repairs };
    mender.value(0)?;
    mender.space();
    let Mender { rest, json, repairs } = mender;
    (rest.is_empty() && is_json(&json)).then_some(Repaired { json, repairs })
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok()
}

/// The text between Markdown fences, if there are any: three backticks, perhaps followed by `json`.
fn unfenced<'t>(text: &'t str, repairs: &mut Vec<Repair>) -> &'t str {
    let inner = text.trim().strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    let Some(inner) = inner else { return text };
    repairs.push(Repair::Fence);
    inner.strip_prefix("json").unwrap_or(inner)
}

/// Copies a text, repairing it on the way.
struct Mender<'t> {
    rest: &'t str,
    json: String,
    repairs: Vec<Repair>,
}

/// Whether another item follows in an object or an array.
enum Next {
    Item,
    End,
}

impl Mender<'_> {
    fn note(&mut self, repair: Repair) {
        if !self.repairs.contains(&repair) {
            self.repairs.push(repair);
        }
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn skip(&mut self, bytes: usize) -> Option<()> {
        self.rest = self.rest.get(bytes..)?;
        Some(())
    }

    /// Copies this many bytes.
    fn copy(&mut self, bytes: usize) -> Option<()> {
        self.json.push_str(self.rest.get(..bytes)?);
        self.skip(bytes)?;
        Some(())
    }

    fn space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
    }

    fn value(&mut self, depth: usize) -> Option<()> {
        self.space();
        match self.peek()? {
            '{' if depth < MAX_DEPTH => self.container(depth, '}'),
            '[' if depth < MAX_DEPTH => self.container(depth, ']'),
            '"' => self.string(),
            '\'' => self.single_quoted(),
            _ => self.word(),
        }
    }

    /// An object or an array, to its end or to the end of the text.
    fn container(&mut self, depth: usize, close: char) -> Option<()> {
        self.copy(1)?;
        self.space();
        if self.peek() == Some(close) {
            return self.copy(1);
        }
        loop {
            if close == '}' {
                self.name()?;
            }
            self.value(depth + 1)?;
            match self.behind_item(close)? {
                Next::Item => {}
                Next::End => return Some(()),
            }
        }
    }

    fn behind_item(&mut self, close: char) -> Option<Next> {
        self.space();
        match self.peek() {
            Some(',') => {
                self.skip(1)?;
                self.space();
                if self.peek()? == close {
                    self.note(Repair::TrailingComma);
                    self.copy(1)?;
                    return Some(Next::End);
                }
                self.json.push(',');
                Some(Next::Item)
            }
            Some(other) if other == close => self.copy(1).map(|()| Next::End),
            // Further digits may be missing.
            None if !self.json.ends_with(|last: char| last.is_ascii_digit()) => {
                self.note(Repair::MissingBrace);
                self.json.push(close);
                Some(Next::End)
            }
            _ => None,
        }
    }

    /// The name of a member, and its colon.
    fn name(&mut self) -> Option<()> {
        match self.peek()? {
            '"' => self.string()?,
            '\'' => self.single_quoted()?,
            _ => self.bare_name()?,
        }
        self.space();
        if self.peek()? != ':' {
            return None;
        }
        self.copy(1)
    }

    fn bare_name(&mut self) -> Option<()> {
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '$' | '-');
        let end = self.rest.find(|letter: char| !is_part(letter)).unwrap_or(self.rest.len());
        let name = self.rest.get(..end)?;
        if !name.starts_with(|first: char| first.is_ascii_alphabetic() || matches!(first, '_' | '$')) {
            return None;
        }
        self.json.push('"');
        self.copy(end)?;
        self.json.push('"');
        self.note(Repair::UnquotedKey);
        Some(())
    }

    /// Copies a string unchanged.
    fn string(&mut self) -> Option<()> {
        let mut is_escaped = false;
        let end = self.rest.char_indices().skip(1).find(|(_, letter)| {
            let ends = *letter == '"' && !is_escaped;
            is_escaped = *letter == '\\' && !is_escaped;
            ends
        });
        self.copy(end?.0 + 1)
    }

    /// A string in single quotes: its content stays the same.
    fn single_quoted(&mut self) -> Option<()> {
        self.json.push('"');
        let mut letters = self.rest.char_indices().skip(1);
        let end = loop {
            match letters.next()? {
                (at, '\'') => break at,
                (_, '"') => self.json.push_str("\\\""),
                (_, '\\') => match letters.next()?.1 {
                    '\'' => self.json.push('\''),
                    other => self.json.extend(['\\', other]),
                },
                (_, other) => self.json.push(other),
            }
        };
        self.json.push('"');
        self.skip(end + 1)?;
        self.note(Repair::SingleQuotes);
        Some(())
    }

    /// A number, `true`, `false` or `null`. Validated when the whole result is parsed.
    fn word(&mut self) -> Option<()> {
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '+' | '-' | '.');
        let end = self.rest.find(|letter: char| !is_part(letter)).unwrap_or(self.rest.len());
        if end == 0 { None } else { self.copy(end) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn each_mistake_of_the_list_is_mended_and_named() {
        use Repair::{Fence, MissingBrace, Quoted, SingleQuotes, TrailingComma, UnquotedKey};
        for (text, json, repairs) in [
            ("{}", "{}", vec![]),
            (" {\"a\": 1} ", " {\"a\": 1} ", vec![]),
            ("{\"a\": 1,}", "{\"a\":1}", vec![TrailingComma]),
            ("{\"a\": [1, 2, ], }", "{\"a\":[1,2]}", vec![TrailingComma]),
            ("{'a': 'say \"x\"'}", r#"{"a":"say \"x\""}"#, vec![SingleQuotes]),
            (r"{'a': 'it\'s'}", r#"{"a":"it's"}"#, vec![SingleQuotes]),
            (r"{'a': 'C:\\x\n'}", r#"{"a":"C:\\x\n"}"#, vec![SingleQuotes]),
            ("{path: \"a\", start_line: 3}", r#"{"path":"a","start_line":3}"#, vec![UnquotedKey]),
            ("{\"a\": {\"b\": [\"c\"", r#"{"a":{"b":["c"]}}"#, vec![MissingBrace]),
            ("{\"a\": true", r#"{"a":true}"#, vec![MissingBrace]),
            ("```json\n{\"a\": 1}\n```", "\n{\"a\": 1}\n", vec![Fence]),
            ("```\n{a: 'b',}\n```", r#"{"a":"b"}"#, vec![Fence, UnquotedKey, SingleQuotes, TrailingComma]),
            (r#""{\"a\": 1}""#, "{\"a\": 1}", vec![Quoted]),
        ] {
            assert_eq!(repair_json(text), Some(Repaired { json: json.to_owned(), repairs }), "{text}");
        }
    }

    #[test]
    fn what_may_have_lost_something_is_not_mended() {
        for text in [
            "",
            "{",
            "{\"a\"",
            "{\"a\":",
            "{\"a\": \"b",
            "{\"a\": 12",
            "{\"a\": 1,",
            "{\"a\": [1, 2",
            "{'a': 'it's'}",
            "{\"a\" 1}",
            "{a b: 1}",
            "{1: 2}",
            "{\"a\": 1} x",
            "{\"a\": 1}}",
            "{\"a\": [1}",
            "{,}",
            "[,]",
            "{\"a\": 01}",
            "{\"a\": None}",
            "{\"a\": 'x\ny'}",
            "path: a",
        ] {
            assert_eq!(repair_json(text), None, "{text}");
        }
        assert_eq!(repair_json(&("[".repeat(100_000) + "'x'")), None);
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "\\PC{0,8}|['\"\\\\,:{}` \n]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-z_'\" ]{0,4}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// JSON is never changed, whatever its content.
        #[test]
        fn valid_json_is_never_altered(value in any_json(), pretty in any::<bool>()) {
            let text = if pretty { serde_json::to_string_pretty(&value).unwrap() } else { value.to_string() };
            // A string that contains an object is the one exception, by [`Repair::Quoted`].
            let is_quoted = value.as_str().is_some_and(|inner| inner.trim_start().starts_with('{') && is_json(inner));
            prop_assume!(!is_quoted);
            prop_assert_eq!(repair_json(&text), Some(Repaired { json: text, repairs: Vec::new() }));
        }

        /// Each error introduced into an object is repaired: the result is the object.
        #[test]
        fn what_was_meant_comes_back(value in any_json(), comma in any::<bool>(), close in any::<bool>(), fence in any::<bool>()) {
            let object = json!({"a": value, "b": "end"});
            let mut text = object.to_string();
            text.pop();
            if comma && !close {
                text.push(',');
            }
            if !close {
                text.push('}');
            }
            if fence {
                text = format!("```json\n{text}\n```");
            }
            let repaired = repair_json(&text).unwrap();
            prop_assert_eq!(serde_json::from_str::<Value>(&repaired.json).unwrap(), object);
            prop_assert_eq!(repaired.repairs.is_empty(), !(comma || close || fence));
        }

        /// Any text is refused or becomes JSON.
        #[test]
        fn arbitrary_text_does_not_panic(text in "[a1{}\\[\\],:'\"\\\\` \n]{0,40}|\\PC{0,40}") {
            if let Some(repaired) = repair_json(&text) {
                prop_assert!(is_json(&repaired.json));
            }
        }
    }
}

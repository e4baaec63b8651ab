//! JSON with comments and trailing commas, as MCP clients use it. It is parsed, and a member is set or removed without
//! touching anything else.

use std::ops::Range;

use serde::de::IgnoredAny;
use serde_json::{Deserializer, Map, Value};

/// Why a text could not be edited without changing anything else.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsoncEditError {
    /// It is not JSON.
    #[error("it is not JSON: {0}")]
    NotJson(String),
    /// Something other than an object where one is expected.
    #[error("`{0}` is not an object in it")]
    NotAnObject(String),
    /// A key appears twice, so it is ambiguous.
    #[error("`{0}` appears twice in it")]
    Twice(String),
    /// The edited text would not have the intended meaning.
    #[error("it is laid out in a way that is not understood")]
    Unclear,
}

/// Parses a text, ignoring comments and trailing commas.
///
/// # Errors
/// What is wrong with it.
pub fn parse_jsonc(text: &str) -> Result<Value, JsoncEditError> {
    parse(&plain(text))
}

fn parse(plain: &str) -> Result<Value, JsoncEditError> {
    serde_json::from_str(plain).map_err(|error| JsoncEditError::NotJson(error.to_string()))
}

/// Sets the member `name` of the object `section`. An empty text becomes a new document.
///
/// # Errors
/// Why the text cannot be edited.
pub fn set_member(text: &str, section: &str, name: &str, value: &Value) -> Result<String, JsoncEditError> {
    if text.trim().is_empty() {
        let root = Value::Object(with_member(Map::new(), section, name, value)?);
        return Ok(format!("{}\n", rendered(&root, "  ", "")));
    }
    let plain = plain(text);
    let Value::Object(before) = parse(&plain)? else {
        return Err(JsoncEditError::NotAnObject("the file".to_owned()));
    };
    let expected = with_member(before, section, name, value)?;
    let edited = edit(text, &plain, section, name, value).ok_or(JsoncEditError::Unclear)??;
    match parse_jsonc(&edited) {
        Ok(Value::Object(found)) if found == expected => Ok(edited),
        _ => Err(JsoncEditError::Unclear),
    }
}

/// Removes the member `name` of the object `section`; `None` if there is none.
///
/// # Errors
/// Why the text cannot be edited.
pub fn remove_member(text: &str, section: &str, name: &str) -> Result<Option<String>, JsoncEditError> {
    let plain = plain(text);
    let Value::Object(mut expected) = parse(&plain)? else {
        return Err(JsoncEditError::NotAnObject("the file".to_owned()));
    };
    let Some(inner) = expected.get_mut(section) else { return Ok(None) };
    let Value::Object(members) = inner else { return Err(JsoncEditError::NotAnObject(section.to_owned())) };
    if members.shift_remove(name).is_none() {
        return Ok(None);
    }
    let edited = remove(text, &plain, section, name).ok_or(JsoncEditError::Unclear)??;
    match parse_jsonc(&edited) {
        Ok(Value::Object(found)) if found == expected => Ok(Some(edited)),
        _ => Err(JsoncEditError::Unclear),
    }
}

/// The text without an existing member; `None` as for `edit`.
fn remove(text: &str, plain: &str, section: &str, name: &str) -> Option<Result<String, JsoncEditError>> {
    let root = JsoncObject::read(plain, plain.find('{')?)?;
    let found = root.find(section).and_then(|place| {
        let inner = place.and_then(|place| JsoncObject::read(plain, place.start));
        inner.map(|inner| inner.find(name).map(|_| inner)).transpose()
    });
    let inner = match found {
        Ok(inner) => inner?,
        Err(twice) => return Some(Err(twice)),
    };
    let at = inner.members.iter().position(|member| member.key == name)?;
    let JsoncMember { start, value, .. } = inner.members.get(at)?;
    let (mut start, mut end) = (*start, value.end);
    // The commas of the original text: a trailing one is blank in the plain text.
    let clean = without_comments(text);
    let comma = skip(&clean, end, &[' ', '\t', '\r', '\n']);
    if clean.get(comma..)?.starts_with(',') {
        end = comma + 1;
    } else if let Some(before) = at.checked_sub(1).and_then(|before| inner.members.get(before)) {
        let comma = before.value.end + clean.get(before.value.end..start)?.find(',')?;
        let kept = text.get(comma + 1..start)?;
        let kept = kept.trim_end_matches([' ', '\t']).trim_end_matches('\n').trim_end_matches('\r');
        return Some(Ok(format!("{}{kept}{}", text.get(..comma)?, text.get(end..)?)));
    }
    // A line that is empty afterwards is removed too.
    let line = text.get(..start)?.rfind('\n').map_or(0, |at| at + 1);
    let rest = text.get(end..)?;
    let behind = rest.len() - rest.trim_start_matches([' ', '\t', '\r']).len();
    if text.get(line..start)?.trim().is_empty() && rest.get(behind..)?.starts_with('\n') {
        (start, end) = (line, end + behind + 1);
    }
    Some(Ok(format!("{}{}", text.get(..start)?, text.get(end..)?)))
}

fn with_member(
    mut root: Map<String, Value>,
    section: &str,
    name: &str,
    value: &Value,
) -> Result<Map<String, Value>, JsoncEditError> {
    let inner = root.entry(section).or_insert_with(|| Value::Object(Map::new()));
    let Value::Object(members) = inner else { return Err(JsoncEditError::NotAnObject(section.to_owned())) };
    members.insert(name.to_owned(), value.clone());
    Ok(root)
}

/// `None` if the layout does not match what was parsed, which cannot happen for a text that parses.
fn edit(
    text: &str,
    plain: &str,
    section: &str,
    name: &str,
    value: &Value,
) -> Option<Result<String, JsoncEditError>> {
    let root = JsoncObject::read(plain, plain.find('{')?)?;
    let unit = root.unit(text);
    let inner = match root.find(section) {
        Ok(Some(place)) => JsoncObject::read(plain, place.start)?,
        Ok(None) => {
            let object = Value::Object(Map::from_iter([(name.to_owned(), value.clone())]));
            return Some(Ok(root.append(text, &unit, section, &object)));
        }
        Err(twice) => return Some(Err(twice)),
    };
    match inner.find(name) {
        Ok(Some(place)) => {
            let indent = format!("{}{unit}", inner.indent(text));
            let (before, after) = (text.get(..place.start)?, text.get(place.end..)?);
            Some(Ok(format!("{before}{}{after}", rendered(value, &unit, &indent))))
        }
        Ok(None) => Some(Ok(inner.append(text, &unit, name, value))),
        Err(twice) => Some(Err(twice)),
    }
}

/// An object and the positions of its members.
struct JsoncObject {
    open: usize,
    members: Vec<JsoncMember>,
    close: usize,
}

struct JsoncMember {
    key: String,
    /// Start of the key.
    start: usize,
    value: Range<usize>,
}

impl JsoncObject {
    /// Reads the object at an offset of JSON without comments.
    fn read(plain: &str, open: usize) -> Option<Self> {
        let mut at = open + 1;
        let mut members = Vec::new();
        loop {
            at = skip(plain, at, &[' ', '\t', '\r', '\n', ',']);
            if plain.get(at..)?.starts_with('}') {
                return Some(Self { open, members, close: at });
            }
            let begin = at;
            let mut keys = Deserializer::from_str(plain.get(at..)?).into_iter::<String>();
            let key = keys.next()?.ok()?;
            let start = skip(plain, at + keys.byte_offset(), &[' ', '\t', '\r', '\n', ':']);
            let mut values = Deserializer::from_str(plain.get(start..)?).into_iter::<IgnoredAny>();
            values.next()?.ok()?;
            at = start + values.byte_offset();
            members.push(JsoncMember { key, start: begin, value: start..at });
        }
    }

    fn find(&self, key: &str) -> Result<Option<Range<usize>>, JsoncEditError> {
        let mut found = self.members.iter().filter(|known| known.key == key).map(|known| known.value.clone());
        let first = found.next();
        if found.next().is_some() {
            return Err(JsoncEditError::Twice(key.to_owned()));
        }
        Ok(first)
    }

    /// The indentation of the closing brace's line, or of the opening one's if both are on one line.
    fn indent<'t>(&self, text: &'t str) -> &'t str {
        let line = text.get(..self.open).and_then(|before| before.rsplit('\n').next()).unwrap_or_default();
        let width = line.len() - line.trim_start_matches([' ', '\t']).len();
        line.get(..width).unwrap_or_default()
    }

    /// The indentation of a member relative to the object.
    fn unit(&self, text: &str) -> String {
        let within = text.get(self.open + 1..self.close).unwrap_or_default();
        let lines = within.split('\n').skip(1).filter(|line| line.trim_start().starts_with('"'));
        let first = lines.map(|line| line.get(..line.len() - line.trim_start().len()).unwrap_or_default());
        let indent = first.map(|indent| indent.strip_prefix(self.indent(text)).unwrap_or(indent)).next();
        indent.filter(|indent| !indent.is_empty()).unwrap_or("  ").to_owned()
    }

    /// Appends a member after the others and after their comments.
    fn append(&self, text: &str, unit: &str, key: &str, value: &Value) -> String {
        let outer = self.indent(text);
        let indent = format!("{outer}{unit}");
        let last = self.members.last().map_or(self.open + 1, |last| last.value.end);
        let head = text.get(..last).unwrap_or_default();
        let between = text.get(last..self.close).unwrap_or_default();
        let tail = text.get(self.close..).unwrap_or_default();
        let has_comma =
            without_comments(text).get(last..).is_some_and(|rest| rest.trim_start().starts_with(','));
        let comma = if self.members.is_empty() || has_comma { "" } else { "," };
        let kept = between.trim_end();
        let key = Value::String(key.to_owned());
        format!("{head}{comma}{kept}\n{indent}{key}: {}\n{outer}{tail}", rendered(value, unit, &indent))
    }
}

/// The first offset from `at` on with none of these characters.
fn skip(text: &str, at: usize, these: &[char]) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    text.len() - rest.trim_start_matches(these).len()
}

/// A value over several lines; all but the first start with `indent`.
fn rendered(value: &Value, unit: &str, indent: &str) -> String {
    let mut bytes = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(unit.as_bytes());
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
    // Cannot fail: all keys are strings, and a `Vec` grows.
    let _ = serde::Serialize::serialize(value, &mut serializer);
    String::from_utf8_lossy(&bytes).replace('\n', &format!("\n{indent}"))
}

/// The same text, of the same length, as plain JSON.
fn plain(text: &str) -> String {
    let mut bytes = without_comments(text).into_bytes();
    let mut in_text = false;
    let mut escaped = false;
    let mut comma = None;
    for at in 0..bytes.len() {
        let Some(byte) = bytes.get(at).copied() else { break };
        match byte {
            _ if in_text => {
                in_text = escaped || byte != b'"';
                escaped = !escaped && byte == b'\\';
            }
            b' ' | b'\t' | b'\r' | b'\n' => {}
            b'}' | b']' => {
                if let Some(place) = comma.take().and_then(|place: usize| bytes.get_mut(place)) {
                    *place = b' ';
                }
            }
            _ => {
                in_text = byte == b'"';
                comma = (byte == b',').then_some(at);
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The same text, of the same length, with spaces in place of comments and of a byte order mark.
fn without_comments(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = comment(rest).or_else(|| rest.starts_with('\u{feff}').then_some(3));
        if let Some(end) = end {
            let (hidden, behind) = rest.split_at_checked(end).unwrap_or((rest, ""));
            clean.extend(hidden.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
            rest = behind;
            continue;
        }
        let end =
            if rest.starts_with('"') { string(rest) } else { rest.chars().next().map_or(0, char::len_utf8) };
        let (kept, behind) = rest.split_at_checked(end).unwrap_or((rest, ""));
        clean.push_str(kept);
        rest = behind;
    }
    clean
}

/// The length of the comment that a text starts with.
fn comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    let inside = text.strip_prefix("/*")?;
    Some(inside.find("*/").map_or(text.len(), |end| end + 4))
}

/// The length of the string literal that a text starts with.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn comments_and_commas_too_many_are_left_out() {
        for (text, expected) in [
            ("{\"a\": 1,}", json!({"a": 1})),
            ("// x\n{\"a\": [1, 2, /* , */ ], /* ä */ }", json!({"a": [1, 2]})),
            ("{\"a\": \"// no /* comment */ ,}\"}", json!({"a": "// no /* comment */ ,}"})),
            ("{\"a\\\"//\": 1} // end", json!({"a\"//": 1})),
            ("\u{feff}{}", json!({})),
            ("[1, // ]\n2]", json!([1, 2])),
        ] {
            assert_eq!(parse_jsonc(text), Ok(expected), "{text}");
        }
        for bad in ["", "{", "{\"a\": 1,,}", "/* {}", "{a: 1}", "{} {}", "\"", "{,}x"] {
            assert!(parse_jsonc(bad).is_err(), "{bad}");
        }
    }

    fn set(text: &str) -> Result<String, JsoncEditError> {
        set_member(text, "servers", "gate", &json!({"command": "toolgate", "args": ["mcp"]}))
    }

    #[test]
    fn nothing_else_is_touched() {
        let cases = [
            "",
            "{}",
            "{\n}\n",
            "// mine\n{\n\t// why\n\t\"theme\": \"dark\", // because\n\t\"servers\": {\n\t\t\"a\": {\"command\": \"x\"} // last\n\t}\n}\n",
            "{\"servers\": {\"a\": 1}, \"z\": [1,\n 2]}",
            "{\n    \"servers\": {\n        \"gate\": {\"command\": \"old\"},\n        \"b\": 2,\n    },\n}\n",
            "{\n  \"z\": 1, // trailing\n  /* nothing more */\n}",
            "{\n  \"servers\": {\n    // none yet\n  }\n}",
        ];
        let shown: Vec<String> =
            cases.iter().map(|text| format!("{text}\n=>\n{}", set(text).unwrap())).collect();
        insta::assert_snapshot!("edited", shown.join("\n----\n"));
    }

    #[test]
    fn a_member_is_taken_out_and_nothing_else() {
        for (text, expected) in [
            ("{\"servers\": {\"gate\": 1}}", "{\"servers\": {}}"),
            ("{\"servers\": {\"gate\": 1, \"b\": 2}}", "{\"servers\": { \"b\": 2}}"),
            ("{\"servers\": {\"a\": 1, \"gate\": {\"x\": []}}}", "{\"servers\": {\"a\": 1}}"),
            (
                "{\n  \"servers\": {\n    \"a\": 1, // one\n    \"gate\": {\n      \"x\": 1\n    }\n  }\n}\n",
                "{\n  \"servers\": {\n    \"a\": 1 // one\n  }\n}\n",
            ),
            (
                "{\n  \"servers\": {\n    // mine\n    \"gate\": 1, // why\n    \"b\": 2,\n  },\n}\n",
                "{\n  \"servers\": {\n    // mine\n     // why\n    \"b\": 2,\n  },\n}\n",
            ),
            (
                "{\r\n  \"servers\": {\r\n    \"gate\": 1,\r\n    \"b\": 2\r\n  }\r\n}\r\n",
                "{\r\n  \"servers\": {\r\n    \"b\": 2\r\n  }\r\n}\r\n",
            ),
        ] {
            assert_eq!(remove_member(text, "servers", "gate"), Ok(Some(expected.to_owned())), "{text}");
        }
        for text in ["{}", "{\"servers\": {\"a\": \"gate\"}, \"gate\": 1}"] {
            assert_eq!(remove_member(text, "servers", "gate"), Ok(None), "{text}");
        }
        let twice = "{\"servers\": {\"gate\": 1, \"gate\": 2}}";
        assert_eq!(remove_member(twice, "servers", "gate"), Err(JsoncEditError::Twice("gate".to_owned())));
        assert!(remove_member("{\"servers\": []}", "servers", "gate").is_err());
    }

    #[test]
    fn what_is_not_clear_is_refused() {
        for (text, expected) in [
            ("[]", JsoncEditError::NotAnObject("the file".to_owned())),
            ("{\"servers\": []}", JsoncEditError::NotAnObject("servers".to_owned())),
            ("{\"servers\": {}, \"servers\": {}}", JsoncEditError::Twice("servers".to_owned())),
            ("{\"servers\": {\"gate\": 1, \"gate\": 2}}", JsoncEditError::Twice("gate".to_owned())),
        ] {
            assert_eq!(set(text), Err(expected), "{text}");
        }
        assert!(matches!(set("{\"servers\": {}"), Err(JsoncEditError::NotJson(_))));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf =
            prop_oneof![any::<i32>().prop_map(Value::from), "[a-z\"\\\\/*, {}ä]{0,6}".prop_map(Value::from)];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map("servers|gate|[a-c/\"]{1,2}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_was_added_is_taken_out_again(value in any_json(), pretty in any::<bool>()) {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
            let had_one = value.pointer("/servers/gate").is_some();
            if let Ok(added) = set(&text) && !had_one {
                let taken = remove_member(&added, "servers", "gate").unwrap().unwrap();
                let mut expected = value.clone();
                expected.as_object_mut().unwrap().entry("servers").or_insert_with(|| json!({}));
                prop_assert_eq!(parse_jsonc(&taken).unwrap(), expected);
            }
        }

        #[test]
        fn editing_means_the_same_as_setting(value in any_json(), pretty in any::<bool>()) {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
            match set(&text) {
                Ok(edited) => {
                    let mut expected = value;
                    expected["servers"]["gate"] = json!({"command": "toolgate", "args": ["mcp"]});
                    prop_assert_eq!(parse_jsonc(&edited).unwrap(), expected);
                }
                Err(error) => prop_assert!(matches!(error, JsoncEditError::NotAnObject(_)), "{error}: {text}"),
            }
        }

        #[test]
        fn any_text_is_edited_or_refused(text in "[ \\n{}\\[\\]\",:/*a1\\\\ä-]{0,24}") {
            let _ = set(&text);
        }
    }
}

//! JSON with comments and trailing commas, as MCP clients use it. It is parsed, and a member is set or removed without
//! touching anything else.

use jsonc_parser::cst::{
    CstContainerNode, CstInputValue, CstNewlineKind, CstNode, CstObject, CstObjectProp, CstRootNode,
};
use jsonc_parser::errors::ParseError;
use jsonc_parser::{ParseOptions, parse_to_serde_value};
use serde_json::{Map, Value};

/// Comments and trailing commas, as VS Code's `jsonc` has them. Nothing of JSON5.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// U+FEFF in front of a text, which some editors write.
const BYTE_ORDER_MARK: &str = "\u{feff}";

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
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    // Without a value the parser answers `null`.
    if parse_tree(text)?.value().is_none() {
        return Err(JsoncEditError::NotJson("it holds no value".to_owned()));
    }
    parse_to_serde_value(text, &OPTIONS).map_err(not_json)
}

fn parse_tree(text: &str) -> Result<CstRootNode, JsoncEditError> {
    CstRootNode::parse(text, &OPTIONS).map_err(not_json)
}

/// The parser's messages begin with a capital letter; ours are fragments.
#[expect(clippy::needless_pass_by_value, reason = "the signature that `map_err` takes")]
fn not_json(error: ParseError) -> JsoncEditError {
    let message = error.to_string();
    let mut letters = message.chars();
    let first = letters.next().map(|letter| letter.to_ascii_lowercase());
    JsoncEditError::NotJson(first.into_iter().chain(letters).collect())
}

/// Sets the member `name` of the object `section`. An empty text becomes a new document.
///
/// # Errors
/// Why the text cannot be edited.
pub fn set_member(text: &str, section: &str, name: &str, value: &Value) -> Result<String, JsoncEditError> {
    let text = if text.trim().is_empty() { "{}\n" } else { text };
    let expected = with_member(parse_object(text)?, section, name, value)?;
    let (mark, tree, root) = open(text)?;
    let member = match unique(&root, section)? {
        None => {
            let object = CstInputValue::Object(vec![(name.to_owned(), input(value))]);
            root.append(section, object)
        }
        Some(found) => {
            let object =
                found.object_value().ok_or_else(|| JsoncEditError::NotAnObject(section.to_owned()))?;
            match unique(&object, name)? {
                None => object.append(name, input(value)),
                Some(member) => {
                    member.set_value(input(value));
                    member
                }
            }
        }
    };
    spread(&member.into());
    edited(format!("{mark}{tree}"), &expected)
}

/// Removes the member `name` of the object `section`; `None` if there is none.
///
/// # Errors
/// Why the text cannot be edited.
pub fn remove_member(text: &str, section: &str, name: &str) -> Result<Option<String>, JsoncEditError> {
    let mut expected = parse_object(text)?;
    let Some(inner) = expected.get_mut(section) else { return Ok(None) };
    let Value::Object(members) = inner else { return Err(JsoncEditError::NotAnObject(section.to_owned())) };
    if members.shift_remove(name).is_none() {
        return Ok(None);
    }
    let find = |text: &str| {
        let (mark, tree, root) = open(text)?;
        let object = unique(&root, section)?.and_then(|found| found.object_value());
        let member = object.map(|object| unique(&object, name)).transpose()?.flatten();
        Ok((mark.to_owned(), tree, member.ok_or(JsoncEditError::Unclear)?))
    };
    let (mark, tree, member) = find(text)?;
    detach_comments(&member, tree.newline_kind());
    let (mark, tree, member) = find(&format!("{mark}{tree}"))?;
    member.remove();
    edited(format!("{mark}{tree}"), &expected).map(Some)
}

/// Puts comments on the line of a member on lines of their own. They are a person's, and the tree removes them with the member otherwise.
fn detach_comments(member: &CstObjectProp, newline: CstNewlineKind) {
    let newline = match newline {
        CstNewlineKind::LineFeed => "\n",
        CstNewlineKind::CarriageReturnLineFeed => "\r\n",
        CstNewlineKind::CarriageReturn => "\r",
    };
    let indent = format!("{newline}{}", member.indent_text().unwrap_or_default());
    let node = CstNode::from(member.clone());
    for comment in node.leading_comments_same_line() {
        comment.set_raw_value(format!("{}{indent}", comment.raw_value()));
    }
    let on_line =
        node.next_siblings().take_while(|next| next.is_whitespace() || next.is_comma() || next.is_comment());
    for comment in on_line.filter_map(|next| next.as_comment()) {
        comment.set_raw_value(format!("{indent}{}", comment.raw_value()));
    }
}

/// Returns the edited text if it has the intended meaning.
fn edited(text: String, expected: &Map<String, Value>) -> Result<String, JsoncEditError> {
    match parse_jsonc(&text) {
        Ok(Value::Object(found)) if found == *expected => Ok(text),
        _ => Err(JsoncEditError::Unclear),
    }
}

fn parse_object(text: &str) -> Result<Map<String, Value>, JsoncEditError> {
    match parse_jsonc(text)? {
        Value::Object(members) => Ok(members),
        _ => Err(JsoncEditError::NotAnObject("the file".to_owned())),
    }
}

/// The concrete syntax tree of a text, with the byte order mark before it and its object.
fn open(text: &str) -> Result<(&'static str, CstRootNode, CstObject), JsoncEditError> {
    let (mark, text) = match text.strip_prefix(BYTE_ORDER_MARK) {
        Some(text) => (BYTE_ORDER_MARK, text),
        None => ("", text),
    };
    let tree = parse_tree(text)?;
    let root = tree.object_value().ok_or_else(|| JsoncEditError::NotAnObject("the file".to_owned()))?;
    Ok((mark, tree, root))
}

/// The member of this name, if there is one. With two, it is ambiguous which one a client reads.
fn unique(object: &CstObject, name: &str) -> Result<Option<CstObjectProp>, JsoncEditError> {
    let members = object.properties();
    let mut named =
        members.into_iter().filter(|member| member.decoded_name().is_some_and(|known| known == name));
    let first = named.next();
    match named.next() {
        None => Ok(first),
        Some(_) => Err(JsoncEditError::Twice(name.to_owned())),
    }
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

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(flag) => CstInputValue::Bool(*flag),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(members) => {
            CstInputValue::Object(members.iter().map(|(name, value)| (name.clone(), input(value))).collect())
        }
    }
}

/// Puts every item of an array on a line of its own, as `JSON.stringify` with an indent does.
fn spread(node: &CstNode) {
    if let CstNode::Container(CstContainerNode::Array(array)) = node
        && !array.elements().is_empty()
    {
        array.ensure_multiline();
    }
    node.children_exclude_trivia_and_tokens().iter().for_each(spread);
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
                "{\n  \"servers\": {\n    // mine\n    // why\n    \"b\": 2,\n  },\n}\n",
            ),
            (
                "{\r\n  \"servers\": {\r\n    \"gate\": 1,\r\n    \"b\": 2\r\n  }\r\n}\r\n",
                "{\r\n  \"servers\": {\r\n    \"b\": 2\r\n  }\r\n}\r\n",
            ),
        ] {
            assert_eq!(remove_member(text, "servers", "gate"), Ok(Some(expected.to_owned())), "{text}");
        }
        // Comments on the line of the member stay, on lines of their own.
        for (text, expected) in [
            (
                "{\"servers\": {\r\n  /* 1 */ \"gate\": 1, // 2\r\n  \"b\": 2\r\n}}",
                "{\"servers\": {\r\n  /* 1 */\r\n  // 2\r\n  \"b\": 2\r\n}}",
            ),
            ("\u{feff}{\"servers\": {\"gate\": 1 /* 2 */}}", "\u{feff}{\"servers\": {/* 2 */}}"),
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

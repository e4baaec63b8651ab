//! Strict parsing of a call's arguments: one JSON object, nothing after it, and no duplicate keys.

use std::collections::HashSet;
use std::fmt::{self, Write as _};

use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use toolgate_llm::{ModelCall, ToolDefinition};
use toolgate_schema::required_names;
use toolgate_text::json_complexity::measure;
use toolgate_text::repair::{Repaired, repair_json};
use toolgate_types::{ErrorCode, Failure, JsonType, Repair};

/// The maximum number of JSON values: a short text of them takes a hundred times its size in memory.
const MAX_VALUES: usize = 100_000;

/// A duplicate key is cut to this length in the message.
const MAX_NAME_CHARS: usize = 60;

/// The maximum number of properties that are listed to a model that got them wrong.
const MAX_LISTED_PROPERTIES: usize = 20;

/// Parses the arguments of a call.
///
/// # Errors
/// They are invalid; the failure says what the tool expects.
pub(crate) fn read(
    call: &ModelCall,
    tool: &ToolDefinition,
    repair: bool,
) -> Result<ParsedArguments, Failure> {
    let exact = parse(&call.arguments).map(|arguments| (arguments, Vec::new()));
    exact
        .or_else(
            |problem| if repair { repair_and_parse(&call.arguments).ok_or(problem) } else { Err(problem) },
        )
        .map(|(arguments, repairs)| ParsedArguments { arguments: Value::Object(arguments), repairs })
        .map_err(|problem| Failure::new(ErrorCode::InvalidArguments, problem).help(expected_arguments(tool)))
}

/// Valid arguments.
pub(crate) struct ParsedArguments {
    pub(crate) arguments: Value,
    /// The repairs that were applied.
    pub(crate) repairs: Vec<Repair>,
}

/// Any JSON within the limits.
pub(crate) fn parse_any(text: &str) -> Option<Value> {
    if exceeds_limits(text) { None } else { serde_json::from_str(text).ok() }
}

fn exceeds_limits(text: &str) -> bool {
    text.len() > MAX_VALUES && measure(text.as_bytes()).values > MAX_VALUES
}

fn parse(text: &str) -> Result<Map<String, Value>, String> {
    if exceeds_limits(text) {
        return Err(format!("the arguments hold more than {MAX_VALUES} values"));
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(arguments)) => match serde_json::from_str(text) {
            Ok(UniqueKeys) => Ok(arguments),
            Err(error) => Err(format!("the arguments are ambiguous: {error}")),
        },
        Ok(other) => Err(format!("the arguments are {}, not an object", JsonType::of(&other).description())),
        Err(error) => Err(format!("the arguments are not JSON: {error}")),
    }
}

/// Rejects duplicate keys: of two values for one key, each parser may use another.
struct UniqueKeys;

impl<'de> Deserialize<'de> for UniqueKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for UniqueKeys {
    type Value = Self;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self, A::Error> {
        let mut names = HashSet::new();
        while let Some(name) = fields.next_key::<String>()? {
            if names.contains(&name) {
                let shown: String = name.chars().take(MAX_NAME_CHARS).collect();
                return Err(de::Error::custom(format_args!("`{shown}` is there twice")));
            }
            names.insert(name);
            fields.next_value::<Self>()?;
        }
        Ok(self)
    }
}

/// Repairs unambiguous mistakes. The result is parsed as strictly as text that needs no repair.
fn repair_and_parse(text: &str) -> Option<(Map<String, Value>, Vec<Repair>)> {
    if exceeds_limits(text) {
        return None;
    }
    let Repaired { json, repairs } = repair_json(text)?;
    Some((parse(&json).ok()?, repairs))
}

/// What the tool expects, for a model that sent something else.
fn expected_arguments(tool: &ToolDefinition) -> String {
    let schema = &tool.input_schema;
    let required = required_names(schema.get("required"));
    let properties = schema.get("properties").and_then(Value::as_object);
    let mut text = "send one JSON object".to_owned();
    let Some(properties) = properties.filter(|properties| !properties.is_empty()) else {
        return text + ", such as {}";
    };
    text.push_str(" with");
    for (number, (name, property)) in properties.iter().take(MAX_LISTED_PROPERTIES).enumerate() {
        let comma = if number == 0 { "" } else { "," };
        let _ = write!(text, "{comma} `{name}`");
        let kind = property.get("type").and_then(Value::as_str);
        let needed = if required.contains(&name.as_str()) { "required" } else { "optional" };
        let _ = match kind {
            Some(kind) => write!(text, " ({kind}, {needed})"),
            None => write!(text, " ({needed})"),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn told(arguments: &str, repair: bool) -> String {
        let call = ModelCall { id: "1".to_owned(), name: "read".to_owned(), arguments: arguments.to_owned() };
        let schema = json!({
            "type": "object",
            "properties": {"path": {"type": "string"}, "from": {"type": "integer"}, "any": {}},
            "required": ["path"],
        });
        let tool = ToolDefinition {
            name: "read".to_owned(),
            description: String::new(),
            input_schema: Arc::new(schema.as_object().unwrap().clone()),
        };
        match read(&call, &tool, repair) {
            Ok(read) => read.arguments.to_string(),
            Err(failure) => failure.message,
        }
    }

    #[test]
    fn only_one_object_is_arguments() {
        let many = format!("[{}1]", "1,".repeat(MAX_VALUES));
        for (arguments, strictly, repaired) in [
            ("{}", "{}", "{}"),
            (r#" {"path": "a"} "#, r#"{"path":"a"}"#, r#"{"path":"a"}"#),
            ("", "the arguments are not JSON: EOF while parsing a value at line 1 column 0", "-"),
            (
                r#"{"path": "a"#,
                "the arguments are not JSON: EOF while parsing a string at line 1 column 11",
                "-",
            ),
            (
                r#"{"path": "a",}"#,
                "the arguments are not JSON: trailing comma at line 1 column 14",
                r#"{"path":"a"}"#,
            ),
            (
                r#"{"path": "a"} {}"#,
                "the arguments are not JSON: trailing characters at line 1 column 15",
                "-",
            ),
            ("[1]", "the arguments are an array, not an object", "-"),
            ("null", "the arguments are null, not an object", "-"),
            (r#""x""#, "the arguments are a string, not an object", "-"),
            (r#""{\"path\": \"a\"}""#, "the arguments are a string, not an object", r#"{"path":"a"}"#),
            (
                "```json\n{\"path\": \"a\"}\n```",
                "the arguments are not JSON: expected value at line 1 column 1",
                r#"{"path":"a"}"#,
            ),
            (
                r#"{"path": "a", "path": "b"}"#,
                "the arguments are ambiguous: `path` is there twice at line 1 column 20",
                "-",
            ),
            (
                r#"{"path": "a", "p\u0061th": "b"}"#,
                "the arguments are ambiguous: `path` is there twice at line 1 column 25",
                "-",
            ),
            (
                r#"{"path": [null, -1, 0.5, true, {"x": 1, "y": {"x": 1}, "x": 1}]}"#,
                "the arguments are ambiguous: `x` is there twice at line 1 column 58",
                "-",
            ),
            (
                r#"{"path": [null, -1, 0.5, true, {"x": {"x": 1}}, {"x": 1}]}"#,
                r#"{"path":[null,-1,0.5,true,{"x":{"x":1}},{"x":1}]}"#,
                "-",
            ),
            (&many, "the arguments hold more than 100000 values", "-"),
        ] {
            assert_eq!(told(arguments, false), strictly, "{arguments:.60}");
            let repaired = if repaired == "-" { strictly } else { repaired };
            assert_eq!(told(arguments, true), repaired, "{arguments:.60}");
        }
    }

    #[test]
    fn a_model_is_told_what_would_fit() {
        let tool = |schema: Value| ToolDefinition {
            name: "x".to_owned(),
            description: String::new(),
            input_schema: Arc::new(schema.as_object().unwrap().clone()),
        };
        let schema = json!({
            "properties": {"path": {"type": "string"}, "from": {"type": "integer"}, "any": {}},
            "required": ["path"],
        });
        assert_eq!(
            expected_arguments(&tool(schema)),
            "send one JSON object with `path` (string, required), `from` (integer, optional), `any` (optional)"
        );
        assert_eq!(expected_arguments(&tool(json!({"type": "object"}))), "send one JSON object, such as {}");
    }
}

//! The arguments of `toolgate call`: one JSON object, or `KEY=VALUE` pairs that take their types from the tool's schema.

use std::fmt::Write as _;

use serde_json::{Map, Number, Value};
use toolgate_text::nearest_name::nearest_name;

use crate::exit::CliError;

/// The arguments as they were typed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum GivenArguments<'a> {
    /// A JSON text, or `-` for standard input.
    Json(&'a str),
    /// `KEY=VALUE` and `KEY:=JSON`.
    Pairs(Vec<ArgumentPair<'a>>),
}

/// The arguments before the schema of the tool is known.
pub(super) enum CallInput<'a> {
    /// A parsed JSON text.
    Object(Value),
    /// `KEY=VALUE` and `KEY:=JSON`.
    Pairs(Vec<ArgumentPair<'a>>),
}

/// One `KEY=VALUE` or `KEY:=JSON`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ArgumentPair<'a> {
    key: &'a str,
    value: &'a str,
    is_json: bool,
}

impl<'a> GivenArguments<'a> {
    /// Separates pairs from JSON. A single word that is no pair is JSON, whose parser reports what is wrong with it.
    pub(super) fn parse(words: &'a [String]) -> Result<Self, CliError> {
        match words {
            [] => return Ok(Self::Json("{}")),
            [word] if ArgumentPair::parse(word).is_none() => return Ok(Self::Json(word)),
            _ => {}
        }
        let pair = |word: &'a String| {
            ArgumentPair::parse(word).ok_or_else(|| {
                CliError::usage(format!("`{word}` is neither KEY=VALUE nor KEY:=JSON")).help(
                    "write each argument as KEY=VALUE, or all of them as one JSON object in single quotes",
                )
            })
        };
        words.iter().map(pair).collect::<Result<_, _>>().map(Self::Pairs)
    }

    /// Parses a JSON text with this function.
    pub(super) fn read(
        self,
        parse: impl FnOnce(&str) -> Result<Value, CliError>,
    ) -> Result<CallInput<'a>, CliError> {
        match self {
            Self::Json(text) => parse(text).map(CallInput::Object),
            Self::Pairs(pairs) => Ok(CallInput::Pairs(pairs)),
        }
    }
}

impl<'a> ArgumentPair<'a> {
    fn parse(word: &'a str) -> Option<Self> {
        let (name, value) = word.split_once('=')?;
        let (key, is_json) = name.strip_suffix(':').map_or((name, false), |key| (key, true));
        let is_key = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        (!key.is_empty() && key.bytes().all(is_key)).then_some(Self { key, value, is_json })
    }
}

/// The object of some pairs. Without a schema, as for an unknown tool, every value is text: the gate answers what is wrong with the call.
pub(super) fn typed_object(
    pairs: &[ArgumentPair<'_>],
    schema: Option<&Map<String, Value>>,
) -> Result<Value, CliError> {
    let mut object = Map::new();
    for pair in pairs {
        let types = match schema {
            Some(schema) => ArgumentTypes::of_property(pair.key, schema)?,
            None => ArgumentTypes::default(),
        };
        let repeated = object.contains_key(pair.key);
        let value = types.value(pair, repeated)?;
        match (object.get_mut(pair.key), value) {
            (Some(Value::Array(known)), Value::Array(more)) if !pair.is_json => known.extend(more),
            (Some(_), _) => {
                return Err(CliError::usage(format!("`{}` is given twice, and takes one value", pair.key))
                    .help("leave one of them out"));
            }
            (None, value) => {
                object.insert(pair.key.to_owned(), value);
            }
        }
    }
    Ok(Value::Object(object))
}

/// The types that a schema allows for an argument.
#[derive(Default)]
struct ArgumentTypes<'s> {
    names: Vec<&'s str>,
    /// The schema of an array's items.
    items: Option<&'s Value>,
}

impl<'s> ArgumentTypes<'s> {
    fn of_property(key: &str, schema: &'s Map<String, Value>) -> Result<Self, CliError> {
        let properties = schema.get("properties").and_then(Value::as_object);
        let Some(property) = properties.and_then(|properties| properties.get(key)) else {
            let is_open = !matches!(schema.get("additionalProperties"), Some(Value::Bool(false)));
            return if is_open { Ok(Self::default()) } else { Err(unknown_key(key, properties)) };
        };
        Ok(Self::of(property))
    }

    fn of(schema: &'s Value) -> Self {
        let mut found = Self { names: Vec::new(), items: schema.get("items") };
        match schema.get("type") {
            Some(Value::String(name)) => found.names.push(name),
            Some(Value::Array(names)) => found.names.extend(names.iter().filter_map(Value::as_str)),
            _ => {}
        }
        let branches = ["anyOf", "oneOf"].iter().filter_map(|key| schema.get(*key)?.as_array()).flatten();
        for branch in branches.map(Self::of) {
            found.names.extend(branch.names);
            found.items = found.items.or(branch.items);
        }
        found
    }

    fn allows(&self, name: &str) -> bool {
        self.names.contains(&name)
    }

    /// A value as the first type that it fits; text comes first, since every value is one.
    fn value(&self, pair: &ArgumentPair<'_>, repeated: bool) -> Result<Value, CliError> {
        let ArgumentPair { key, value: text, is_json } = *pair;
        if is_json {
            return serde_json::from_str(text).map_err(|error| {
                CliError::usage(format!("the value of `{key}` is not JSON: {error}"))
                    .help(format!("write {key}=… for plain text"))
            });
        }
        if self.names.is_empty() || (self.allows("string") && !(repeated && self.allows("array"))) {
            return Ok(Value::String(text.to_owned()));
        }
        let scalar = self.scalar(text);
        match (scalar, self.allows("array")) {
            (Some(value), false) => Ok(value),
            (Some(value), true) if !repeated => Ok(value),
            (_, true) => {
                let items = self.items.map(Self::of).unwrap_or_default();
                let item = items.value(pair, false)?;
                Ok(Value::Array(vec![item]))
            }
            (None, false) => Err(self.misfit(key, text)),
        }
    }

    fn scalar(&self, text: &str) -> Option<Value> {
        let integer = || {
            let signed = text.parse::<i64>().map(Value::from);
            signed.or_else(|_| text.parse::<u64>().map(Value::from)).ok()
        };
        let number = || text.parse::<f64>().ok().and_then(Number::from_f64).map(Value::Number);
        let of_type = |name: &&str| match *name {
            "integer" => integer(),
            "number" => integer().or_else(number),
            "boolean" => text.parse::<bool>().ok().map(Value::Bool),
            "null" if text == "null" => Some(Value::Null),
            _ => None,
        };
        self.names.iter().find_map(of_type)
    }

    fn misfit(&self, key: &str, text: &str) -> CliError {
        let names: Vec<&str> = self.names.iter().copied().filter(|name| *name != "null").collect();
        let article =
            if names.first().is_some_and(|name| name.starts_with(['i', 'o', 'a'])) { "an" } else { "a" };
        let failed =
            CliError::usage(format!("`{key}` must be {article} {}, not `{text}`", names.join(" or ")));
        match (self.allows("object"), self.allows("boolean")) {
            (true, _) => failed.help(format!("write it as JSON: {key}:='{{…}}'")),
            (false, true) => failed.help("write true or false"),
            (false, false) => failed,
        }
    }
}

fn unknown_key(key: &str, properties: Option<&Map<String, Value>>) -> CliError {
    let names = || properties.into_iter().flat_map(Map::keys).map(String::as_str);
    let failed = CliError::usage(format!("there is no argument `{key}`"));
    if let Some(nearest) = nearest_name(key, names()) {
        return failed.help(format!("did you mean `{nearest}`?"));
    }
    let mut known = String::new();
    for name in names() {
        let _ = write!(known, "{}`{name}`", if known.is_empty() { "" } else { ", " });
    }
    failed.help(if known.is_empty() {
        "the tool takes none".to_owned()
    } else {
        format!("there are {known}")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(line: &[&str]) -> Result<Value, String> {
        let schema = json!({
            "properties": {
                "path": {"type": "string"},
                "start_line": {"type": "integer"},
                "ratio": {"type": "number"},
                "regex": {"type": ["boolean", "null"]},
                "globs": {"type": "array", "items": {"type": "string"}},
                "lines": {"type": "array", "items": {"type": "integer"}},
                "either": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
                "edits": {"type": "object"},
            },
            "additionalProperties": false,
        });
        let words: Vec<String> = line.iter().map(|word| (*word).to_owned()).collect();
        let said = |failed: CliError| {
            format!("{}{}", failed.message, failed.help.map(|help| format!(" / {help}")).unwrap_or_default())
        };
        match GivenArguments::parse(&words).map_err(said)? {
            GivenArguments::Json(text) => Ok(json!({ "json": text })),
            GivenArguments::Pairs(pairs) => typed_object(&pairs, schema.as_object()).map_err(said),
        }
    }

    #[test]
    fn pairs_take_their_types_from_the_schema() {
        for (line, expected) in [
            (&["path=a=b.txt"][..], json!({"path": "a=b.txt"})),
            (&["path=7", "start_line=7"], json!({"path": "7", "start_line": 7})),
            (&["start_line=-3", "ratio=0.5"], json!({"start_line": -3, "ratio": 0.5})),
            (&["start_line=18446744073709551615"], json!({"start_line": u64::MAX})),
            (&["regex=true"], json!({"regex": true})),
            (&["regex=null"], json!({"regex": null})),
            (&["globs=*.rs"], json!({"globs": ["*.rs"]})),
            (&["globs=*.rs", "globs=*.md"], json!({"globs": ["*.rs", "*.md"]})),
            (&["lines=1", "lines=2"], json!({"lines": [1, 2]})),
            (&["lines:=[1, 2]"], json!({"lines": [1, 2]})),
            (&["either=a"], json!({"either": "a"})),
            (&["edits:={\"a\": 1}", "path="], json!({"edits": {"a": 1}, "path": ""})),
            (&["path:=7"], json!({"path": 7})),
        ] {
            assert_eq!(object(line), Ok(expected), "{line:?}");
        }
    }

    #[test]
    fn a_single_word_that_is_no_pair_is_json() {
        for text in ["-", "{\"path\": \"a=b\"}", "[\"a=b\"]", "\"a=b\"", "nonsense", " {\"a\": \"=\"}"] {
            assert_eq!(object(&[text]), Ok(json!({ "json": text })), "{text}");
        }
        assert_eq!(object(&[]), Ok(json!({ "json": "{}" })));
    }

    #[test]
    fn what_does_not_fit_is_said_with_what_would() {
        let lines: Vec<String> = [
            &["start_line=abc"][..],
            &["start_line=1.5"],
            &["regex=yes"],
            &["lines=1", "lines=x"],
            &["edits=x"],
            &["edits:={x"],
            &["pth=a"],
            &["zzzzzzzz=a"],
            &["path=a", "path=b"],
            &["path=a", "b"],
        ]
        .iter()
        .map(|line| format!("{}\n  {}", line.join(" "), object(line).unwrap_err()))
        .collect();
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn without_a_schema_values_are_text() {
        let words = ["a=1".to_owned(), "b:=1".to_owned()];
        let Ok(GivenArguments::Pairs(pairs)) = GivenArguments::parse(&words) else { panic!("not pairs") };
        assert_eq!(typed_object(&pairs, None).unwrap(), json!({"a": "1", "b": 1}));
    }
}

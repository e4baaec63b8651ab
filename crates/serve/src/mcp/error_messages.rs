//! Readable messages for invalid requests.

use rmcp::model::{
    CallToolRequestParams, ErrorCode, ErrorData, InitializeRequestParams, PaginatedRequestParams,
    ReadResourceRequestParams, SubscriptionsListenRequestParams,
};
use serde::de::DeserializeOwned;
use serde::de::value::MapDeserializer;
use serde_json::Value;
use toolgate_text::is_invisible;

/// The parameter names of all methods. Other parameters are ignored, however many there are.
const KNOWN_PARAMS: &[&str] = &[
    "name",
    "arguments",
    "uri",
    "cursor",
    "notifications",
    "protocolVersion",
    "capabilities",
    "clientInfo",
    "inputResponses",
    "requestState",
    "_meta",
];

/// Maximum length of serde's error message, which may quote the request.
const MAX_REASON_CHARS: usize = 200;
/// Maximum length of a quoted method name.
const MAX_METHOD_CHARS: usize = 100;

/// The method does not exist.
pub(crate) fn method_not_found(method: &str) -> ErrorData {
    let told = format!("there is no such method `{}`", shortened(method, MAX_METHOD_CHARS));
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, told, None)
}

/// The first `most` visible characters of a text.
fn shortened(text: &str, most: usize) -> String {
    let mut shown = text.chars().filter(|letter| !is_invisible(*letter) && *letter != '\n');
    let mut short: String = shown.by_ref().take(most).collect();
    if shown.next().is_some() {
        short.push('…');
    }
    short
}

/// Why the parameters do not match the method.
pub(crate) fn invalid_params(method: &str, params: Value) -> ErrorData {
    let why = match method {
        "initialize" => param_error::<InitializeRequestParams>(&params),
        "tools/call" => param_error::<CallToolRequestParams>(&params),
        "resources/read" => param_error::<ReadResourceRequestParams>(&params),
        "subscriptions/listen" => param_error::<SubscriptionsListenRequestParams>(&params),
        _ => param_error::<PaginatedRequestParams>(&params),
    };
    let told = match why {
        Some(why) => format!("the parameters do not fit `{method}`: {why}"),
        None => format!("the parameters do not fit `{method}`"),
    };
    ErrorData::invalid_params(told, None)
}

/// What is wrong with the parameters, with the name of the parameter if it is one of them.
fn param_error<Params: DeserializeOwned>(params: &Value) -> Option<String> {
    let Value::Object(fields) = params else { return Some("they are not an object".to_owned()) };
    let known = || KNOWN_PARAMS.iter().filter_map(|name| Some((*name, fields.get(*name)?)));
    let read = |without: Option<&str>| {
        let left = known().filter(|(name, _)| Some(*name) != without);
        let read = Params::deserialize(MapDeserializer::<_, serde_json::Error>::new(left));
        read.err().map(|error| error.to_string())
    };
    let whole = read(None)?;
    // The parameter without which the error changes or vanishes.
    let culprit = match whole.starts_with("missing field") {
        true => None,
        false => known().find(|(name, _)| read(Some(name)).as_ref() != Some(&whole)),
    };
    let told = describe_expected(&shortened(&whole, MAX_REASON_CHARS));
    Some(match culprit {
        Some((name, _)) => format!("`{name}`: {told}"),
        None => told,
    })
}

/// Replaces Rust's type words in serde's message with JSON's.
fn describe_expected(words: &str) -> String {
    let mut told = Vec::new();
    let mut words = words.split(' ').peekable();
    while let Some(word) = words.next() {
        match word {
            "struct" | "map" => {
                let _ = words.next_if(|_| word == "struct");
                told.push("an object");
            }
            "enum" | "variant" => {
                let _ = words.next();
                told.push("one of its values");
            }
            "sequence" => told.push("list"),
            other => told.push(other),
        }
    }
    told.join(" ").replace("a an object", "an object")
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    #[test]
    fn parameters_that_do_not_fit_are_named() {
        for (method, params, told) in [
            ("tools/call", json!({}), "missing field `name`"),
            ("tools/call", json!({"name": 1}), "`name`: invalid type: integer `1`, expected a string"),
            ("tools/call", json!({"name": "x", "arguments": "y"}), "`arguments`: "),
            ("tools/call", json!([1]), "they are not an object"),
            ("resources/read", json!({"uri": null}), "`uri`: "),
            ("resources/read", json!({}), "missing field `uri`"),
            ("tools/list", json!({"cursor": 7}), "`cursor`: "),
            ("initialize", json!({"protocolVersion": "2025-11-25"}), "missing field"),
        ] {
            let error = invalid_params(method, params.clone());
            assert!(
                error.message.contains(told) && error.message.contains(method),
                "{params}: {}",
                error.message
            );
            assert!(
                !error.message.contains("struct") && !error.message.contains("Params"),
                "{}",
                error.message
            );
        }
    }

    thread_local! {
        static READ: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }

    /// Parameters that match nothing, and count how often they are read.
    struct Unfit;

    impl<'de> serde::Deserialize<'de> for Unfit {
        fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
            READ.set(READ.get() + 1);
            Err(serde::de::Error::custom("unfit"))
        }
    }

    #[test]
    fn a_request_with_much_that_is_unknown_costs_no_more_than_another() {
        let mut params: Map<String, Value> = (0..2000).map(|number| (number.to_string(), json!(0))).collect();
        params.extend(KNOWN_PARAMS.iter().map(|name| ((*name).to_owned(), json!(0))));
        assert_eq!(param_error::<Unfit>(&Value::Object(params)).as_deref(), Some("unfit"));
        assert_eq!(READ.get(), 1 + KNOWN_PARAMS.len());
        let mut params: Map<String, Value> =
            (0..99_000).map(|number| (number.to_string(), json!(0))).collect();
        params.insert("name".to_owned(), json!(1));
        let told = invalid_params("tools/call", Value::Object(params)).message;
        assert!(told.contains("`name`: invalid type: integer `1`"), "{told}");
    }

    #[test]
    fn what_came_is_repeated_within_bounds_and_with_nothing_hidden() {
        let long = "x\u{202e}\u{e0041}\u{200b}\n".repeat(100_000);
        for (method, params) in [
            ("tools/call", json!({"name": "x", "arguments": long})),
            ("initialize", json!({"protocolVersion": "2025-11-25", "capabilities": long})),
            ("subscriptions/listen", json!({"notifications": {"resourceSubscriptions": long}})),
        ] {
            let told = invalid_params(method, params).message;
            assert!(told.len() < 400, "{} bytes: {told:.400}", told.len());
            assert!(!told.chars().any(|letter| is_invisible(letter) || letter == '\n'), "{told:?}");
        }
    }

    #[test]
    fn methods_that_are_not_there_are_named_within_bounds() {
        assert_eq!(method_not_found("prompts/list").message, "there is no such method `prompts/list`");
        assert!(method_not_found(&"x\u{1b}".repeat(1000)).message.len() < 200);
    }
}

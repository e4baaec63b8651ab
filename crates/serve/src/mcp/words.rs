//! Refusals of requests that are none, in words that help.

use rmcp::model::{
    CallToolRequestParams, ErrorCode, ErrorData, InitializeRequestParams, PaginatedRequestParams,
    ReadResourceRequestParams, SubscriptionsListenRequestParams,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// What the library says to a client that has begun nothing.
const NOTHING_BEGUN: &str = "request _meta is missing";

/// What the library says, in words that somebody can act on.
pub(crate) fn in_words(error: &mut ErrorData) {
    match error.code {
        ErrorCode::METHOD_NOT_FOUND if !error.message.contains(' ') => *error = no_method(&error.message),
        ErrorCode::INVALID_PARAMS if error.message.starts_with(NOTHING_BEGUN) => {
            error.message = format!("{}; or begin a session with `initialize` first", error.message).into();
        }
        _ => {}
    }
}

/// There is no such method.
pub(crate) fn no_method(method: &str) -> ErrorData {
    let short: String = method.chars().filter(|letter| !letter.is_control()).take(100).collect();
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("there is no such method `{short}`"), None)
}

/// Why parameters do not fit a method.
pub(crate) fn misfit(method: &str, params: Option<Value>) -> ErrorData {
    let params = params.unwrap_or_else(|| Value::Object(serde_json::Map::new()));
    let why = match method {
        "initialize" => why::<InitializeRequestParams>(params),
        "tools/call" => why::<CallToolRequestParams>(params),
        "resources/read" => why::<ReadResourceRequestParams>(params),
        "subscriptions/listen" => why::<SubscriptionsListenRequestParams>(params),
        _ => why::<PaginatedRequestParams>(params),
    };
    let told = match why {
        Some(why) => format!("the parameters do not fit `{method}`: {why}"),
        None => format!("the parameters do not fit `{method}`"),
    };
    ErrorData::invalid_params(told, None)
}

/// What is wrong with parameters, by name where it is one of them.
fn why<Params: DeserializeOwned>(params: Value) -> Option<String> {
    let Value::Object(fields) = params else { return Some("they are not an object".to_owned()) };
    let read = |fields: &serde_json::Map<String, Value>| {
        serde_json::from_value::<Params>(Value::Object(fields.clone())).err().map(|error| error.to_string())
    };
    let whole = read(&fields)?;
    if whole.starts_with("missing field") {
        return Some(whole);
    }
    // The one without which something else is wrong, or nothing.
    let culprit = fields.keys().find(|name| {
        let mut others = fields.clone();
        others.shift_remove(*name);
        read(&others).as_ref() != Some(&whole)
    });
    let whole = without_types(&whole);
    Some(match culprit {
        Some(name) => format!("`{name}`: {whole}"),
        None => whole,
    })
}

/// What is expected, in words of JSON.
fn without_types(words: &str) -> String {
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
    use serde_json::json;

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
            let error = misfit(method, Some(params.clone()));
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

    #[test]
    fn methods_that_are_not_there_are_named_within_bounds() {
        assert_eq!(no_method("prompts/list").message, "there is no such method `prompts/list`");
        assert!(no_method(&"x\u{1b}".repeat(1000)).message.len() < 200);
        let said = |code, message: &str| {
            let mut error = ErrorData::new(code, message.to_owned(), None);
            in_words(&mut error);
            error.message.into_owned()
        };
        assert_eq!(said(ErrorCode::METHOD_NOT_FOUND, "ping"), "there is no such method `ping`");
        assert!(said(ErrorCode::INVALID_PARAMS, &format!("{NOTHING_BEGUN} x")).contains("`initialize`"));
        assert_eq!(said(ErrorCode::INVALID_PARAMS, "other"), "other");
    }
}

//! A fast path for the most common line: `tools/call` with a name, arguments and nothing else.
//!
//! The general decoder tries several message types in turn. Deserialising into the one expected type costs a fraction of that. Every line that does
//! not match exactly falls back to the general decoder, which also reports errors.

use rmcp::model::{JsonObject, RequestId};
use serde::Deserialize;

use crate::json_limits::MAX_VALUES;

/// A `tools/call` without `_meta` or other fields.
#[derive(Debug)]
pub(crate) struct SimpleToolCall {
    pub(crate) id: RequestId,
    pub(crate) tool: String,
    pub(crate) arguments: JsonObject,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SimpleLine<'l> {
    jsonrpc: &'l str,
    id: RequestId,
    method: &'l str,
    params: SimpleParams,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SimpleParams {
    name: String,
    arguments: JsonObject,
}

/// The call, if the line is exactly one; `None` falls back to the general decoder.
pub(super) fn read(line: &[u8]) -> Option<SimpleToolCall> {
    // A line with fewer bytes than `MAX_VALUES` cannot contain too many values; a longer one is measured by the general decoder.
    if line.len() > MAX_VALUES {
        return None;
    }
    let SimpleLine { jsonrpc, id, method, params } = serde_json::from_slice(line).ok()?;
    let SimpleParams { name, arguments } = params;
    (jsonrpc == "2.0" && method == "tools/call").then_some(SimpleToolCall { id, tool: name, arguments })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rmcp::model::{ClientRequest, JsonRpcMessage};
    use serde_json::json;

    use super::*;
    use crate::stdio::message::{Decoded, decode};

    /// What the general decoder makes of a line, if it is a simple call.
    fn the_long_way(line: &[u8]) -> Option<SimpleToolCall> {
        let Decoded::Message(message) = decode(line) else { return None };
        let JsonRpcMessage::Request(request) = *message else { return None };
        let ClientRequest::CallToolRequest(call) = request.request else { return None };
        let params = call.params;
        let is_plain =
            params.meta.is_none() && params.input_responses.is_none() && params.request_state.is_none();
        assert!(is_plain, "something was passed over: {}", String::from_utf8_lossy(line));
        Some(SimpleToolCall { id: request.id, tool: params.name.into_owned(), arguments: params.arguments? })
    }

    fn is_the_same(line: &str) -> Result<(), TestCaseError> {
        if let Some(SimpleToolCall { id, tool, arguments }) = read(line.as_bytes()) {
            let usual = the_long_way(line.as_bytes());
            prop_assert!(usual.is_some(), "{line}");
            let usual = usual.unwrap();
            prop_assert_eq!((&id, &tool, &arguments), (&usual.id, &usual.tool, &usual.arguments), "{}", line);
            let order = |map: &JsonObject| map.keys().cloned().collect::<Vec<_>>();
            prop_assert_eq!(order(&arguments), order(&usual.arguments), "{}", line);
        }
        Ok(())
    }

    #[test]
    fn plain_calls_are_read_and_nothing_else_is() {
        let plain = |line: &str| read(line.as_bytes()).is_some();
        let call =
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"b":[1]}}}"#;
        assert!(plain(call));
        assert!(plain(&call.replace(":1,", ":\"one\",").replace(',', " , ")));
        for (from, to) in [
            ("2.0", "1.0"),
            ("tools/call", "tools/list"),
            ("tools/call", "tools\\/call"),
            (":1,", ":null,"),
            (":1,", ":1.5,"),
            (":1,", ":1,\"id\":2,"),
            ("\"id\":1,", ""),
            ("\"params\"", "\"x\":1,\"params\""),
            ("\"arguments\"", "\"_meta\":{},\"arguments\""),
            ("\"arguments\"", "\"task\":{},\"arguments\""),
            ("\"arguments\"", "\"requestState\":\"s\",\"arguments\""),
            ("\"arguments\":{\"b\":[1]}", "\"arguments\":null"),
            ("\"arguments\":{\"b\":[1]}", "\"arguments\":[]"),
            ("}}}", "}}}}"),
            ("}}}", "}}"),
        ] {
            let other = call.replacen(from, to, 1);
            assert!(other != call && !plain(&other), "{other}");
        }
        assert!(!plain(&call.replace("[1]", &format!("[1{}]", ",1".repeat(MAX_VALUES)))));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn what_is_read_is_what_the_long_way_reads(
            id in prop_oneof!["-?[0-9]{1,20}", "\"[a-z\\\\n\"]{0,4}\"", Just("1.0".to_owned()), Just("1e2".to_owned())],
            name in "[\\PC]{0,6}",
            arguments in r#"\{("(a|b|\\u0061)":(1|-0|1\.50|1e400|18446744073709551615|99999999999999999999|"\\ud83e\\udd80"|"\\ud800"|\[\{\}\]|\{"x":null\})(,)?){0,4}\}"#,
            extra in prop::sample::select(vec!["", "\"_meta\":{},", "\"arguments\":{},", "\"name\":\"x\",", "\"x\":0,"]),
            (before, after) in ("[ \t]{0,1}", "[ \t]{0,1}"),
        ) {
            let name = json!(name);
            let params = format!(r#"{{{extra}"name":{name},{before}"arguments":{arguments}}}"#);
            is_the_same(&format!(r#"{{"jsonrpc":"2.0",{before}"id":{id},"method":"tools/call","params":{params}{after}}}"#))?;
            is_the_same(&format!(r#"{{"params":{params},"method":{after}"tools/call","id":{id},"jsonrpc":"2.0"}}"#))?;
        }
    }
}

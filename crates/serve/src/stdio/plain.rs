//! The most usual line: a call of a tool by its name, with its arguments and nothing else about it.
//!
//! Every message can be read the long way, which finds out step by step what it is. Most are the same few fields around different arguments, and reading
//! those costs a fraction when it is known what to expect. Whatever is not exactly that is left to the long way, which also explains what is wrong.

use rmcp::model::{JsonObject, RequestId};
use serde::Deserialize;

use crate::weight::MOST_VALUES;

/// A call as it came, and nothing that would have to be understood first.
#[derive(Debug)]
pub(crate) struct PlainCall {
    pub(crate) id: RequestId,
    pub(crate) tool: String,
    pub(crate) arguments: JsonObject,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlainLine<'l> {
    jsonrpc: &'l str,
    id: RequestId,
    method: &'l str,
    params: PlainParams,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlainParams {
    name: String,
    arguments: JsonObject,
}

/// The call that a line is; nothing where it is anything else, or may be.
pub(super) fn read(line: &[u8]) -> Option<PlainCall> {
    // Fewer bytes cannot hold too many values; whether more do is found out elsewhere.
    if line.len() > MOST_VALUES {
        return None;
    }
    let PlainLine { jsonrpc, id, method, params } = serde_json::from_slice(line).ok()?;
    let PlainParams { name, arguments } = params;
    (jsonrpc == "2.0" && method == "tools/call").then_some(PlainCall { id, tool: name, arguments })
}

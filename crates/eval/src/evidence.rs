//! What can be seen of a try from outside.

use serde_json::Value;

/// A tool that the caller was offered.
#[derive(Clone, Debug)]
pub(crate) struct OfferedTool {
    pub(crate) name: String,
    pub(crate) schema: Value,
}

/// A call that was answered.
#[derive(Clone, Debug)]
pub(crate) struct EvidencedCall {
    /// The id of its record; absent where the answer names none.
    pub(crate) id: Option<String>,
    pub(crate) tool: String,
    pub(crate) input: Value,
    pub(crate) succeeded: bool,
    /// Everything that the model or the caller was given.
    pub(crate) text: String,
}

/// How a conversation ends that no gate was there for.
pub(crate) const NOT_STARTED: &str = "not_started";

/// Everything that is known of a try.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    pub(crate) offered: Vec<OfferedTool>,
    pub(crate) calls: Vec<EvidencedCall>,
    pub(crate) records: Vec<Value>,
    /// What `audit verify` said.
    pub(crate) verified: Value,
    /// The final answer.
    pub(crate) answer: String,
    /// How the conversation ended: `done`, `iteration_limit`, …; [`NOT_STARTED`] if there was no gate for one.
    pub(crate) reason: String,
    /// Names in the workspace that changed.
    pub(crate) changed: Vec<String>,
    /// Names outside of it that changed.
    pub(crate) changed_outside: Vec<String>,
    /// What arrived at the listening socket.
    pub(crate) connections: Vec<String>,
    /// What stands in files that no model may read.
    pub(crate) secret: String,
}

/// A field of a record.
pub(crate) fn field<'r>(record: &'r Value, pointer: &str) -> &'r str {
    record.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The lines of a program's output that are JSON.
pub(crate) fn json_lines(text: &str) -> Vec<Value> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The tools of a list with `inputSchema`.
pub(crate) fn offered(list: &Value) -> Vec<OfferedTool> {
    let tools = list.as_array().into_iter().flatten();
    tools
        .filter_map(|tool| {
            let schema = tool.get("inputSchema").cloned().unwrap_or(Value::Bool(true));
            Some(OfferedTool { name: tool.get("name")?.as_str()?.to_owned(), schema })
        })
        .collect()
}

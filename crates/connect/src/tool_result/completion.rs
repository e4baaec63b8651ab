//! Converts a server's completion of an argument.

use rmcp::model::CompletionInfo;
use serde_json::json;
use toolgate_types::ToolOutput;

use super::sanitize_text;
use crate::definition::truncate;

/// The longest value.
const MAX_VALUE_BYTES: usize = 1_024;

/// Converts a completion: at most 100 values (the limit of MCP), each on one line.
pub(crate) fn read_completion(result: CompletionInfo) -> ToolOutput {
    let is_more = result.values.len() > CompletionInfo::MAX_VALUES || result.has_more == Some(true);
    let values = result.values.iter().take(CompletionInfo::MAX_VALUES);
    let values: Vec<String> =
        values.map(|value| sanitize_text(&truncate(value, MAX_VALUE_BYTES)).replace('\n', " ")).collect();
    let text = values.join("\n");
    ToolOutput::new(text, json!({"values": values, "total": result.total, "hasMore": is_more}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_values_are_a_hundred() {
        let values = (0..1_000_000).map(|number| format!("v\u{202e}{number}\n")).collect();
        let mut info = CompletionInfo::default();
        (info.values, info.total) = (values, Some(1_000_000));
        let output = read_completion(info);
        let values = output.structured.into_value();
        assert_eq!(values["values"].as_array().unwrap().len(), 100);
        assert_eq!((&values["values"][7], &values["hasMore"]), (&json!("v7 "), &json!(true)));
    }
}

//! The classes that servers' own hints suggest, as a block for the configuration.
//!
//! A hint is a claim of the server about itself. So nothing is decided by one: the block is printed, for the operator to copy from.

use std::fmt::Write as _;

use toolgate_connect::{Definition, ServerName};
use toolgate_manifest::Config;
use toolgate_types::ToolClass;

/// A suggestion for one tool.
pub(crate) struct SuggestedClass {
    server: ServerName,
    tool: String,
    class: ToolClass,
}

impl SuggestedClass {
    /// The suggestion for a tool to which the configuration gives no class.
    pub(crate) fn of(config: &Config, server: &ServerName, definition: &Definition) -> Option<Self> {
        let declared = config.mcp_servers.iter().find(|known| known.name.value == server.as_str())?;
        let entry = declared.tool(&definition.name).and_then(|entry| entry.class.as_ref());
        let class = definition.suggested_class().filter(|_| entry.or(declared.class.as_ref()).is_none())?;
        Some(Self { server: server.clone(), tool: definition.name.clone(), class })
    }
}

/// The block; empty without suggestions.
pub(crate) fn block(suggestions: &[SuggestedClass]) -> String {
    if suggestions.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "What the servers themselves say that these tools do. Nothing is decided by it: put into the configuration what you agree with.\n\nmcp_servers:\n",
    );
    let mut last = None;
    for SuggestedClass { server, tool, class } in suggestions {
        if last != Some(server) {
            let _ = writeln!(text, "  {server}:\n    tools:");
            last = Some(server);
        }
        let _ = writeln!(text, "      {}: {{class: {}}}", key(tool), class.as_str());
    }
    text
}

/// A key of YAML that is the tool's name, whatever characters it has; control characters are escaped.
fn key(tool: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let begins = tool.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
    match begins && tool.bytes().all(is_plain) {
        true => tool.to_owned(),
        false => serde_json::Value::String(tool.escape_debug().to_string()).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_key_of_yaml() {
        for (name, written) in [
            ("get_issue", "get_issue"),
            ("1st", "\"1st\""),
            ("a: {class: read}, b", "\"a: {class: read}, b\""),
            ("x\nclass: read", "\"x\\\\nclass: read\""),
            ("no\u{202e}", "\"no\\\\u{202e}\""),
        ] {
            assert_eq!(key(name), written, "{name:?}");
        }
    }
}

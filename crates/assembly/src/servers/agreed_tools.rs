//! What policies can say about tools of servers, whether or not the servers list them now.

use serde_json::json;
use toolgate_connect::{PinFile, PinKey, ServerName};
use toolgate_gate::ToolSchema;
use toolgate_manifest::ServerConfig;
use toolgate_types::{ToolClass, ToolName};

use super::pin_origin::pin_origin;
use super::pins;
use crate::config_files::SourceFile;
use crate::settings::Settings;

/// A server's tool as it was agreed to.
pub struct AgreedTool {
    pub name: String,
    pub class: ToolClass,
    pub schema: ToolSchema,
}

/// The tools of declared servers: those with a pin, and those that policies name before anything is known about them.
pub fn agreed_tools(settings: &Settings, policies: &[SourceFile]) -> Vec<AgreedTool> {
    let pins = pins(settings);
    let mut tools = Vec::new();
    for server in &settings.loaded.config.mcp_servers {
        let name: Option<ServerName> = server.name.value.parse().ok();
        let known =
            name.and_then(|name| pins.for_server(&PinKey::new(name, pin_origin(settings, server))).ok());
        tools.extend(known.iter().flat_map(|known| pinned(server, known)));
        let named = |file: &SourceFile| named(server, &String::from_utf8_lossy(&file.bytes));
        for name in policies.iter().flat_map(named) {
            if !tools.iter().any(|tool: &AgreedTool| tool.name == name) {
                let class = class(server, server.own_tool_name(&name).unwrap_or_default());
                tools.push(AgreedTool { name, class, schema: json!({"type": "object"}).into() });
            }
        }
    }
    tools
}

fn pinned(server: &ServerConfig, known: &PinFile) -> Vec<AgreedTool> {
    let agreed = known.tools().filter_map(|(name, pinned)| Some((name, pinned.agreed()?)));
    let tool = |(name, definition): (&str, &toolgate_connect::Definition)| AgreedTool {
        name: format!("{}{name}", server.tool_prefix()),
        class: class(server, name),
        schema: definition.input_schema.clone().into(),
    };
    agreed.map(tool).collect()
}

fn class(server: &ServerConfig, tool: &str) -> ToolClass {
    let own = server.tool(tool).and_then(|entry| entry.class.as_ref());
    own.or(server.class.as_ref()).map_or(ToolClass::Destructive, |class| class.value)
}

/// The names of a server's tools that occur in double quotes in a text. Of one without a prefix no name shows that it is one of its tools.
fn named(server: &ServerConfig, text: &str) -> Vec<String> {
    if server.is_unprefixed {
        return Vec::new();
    }
    quoted_with_prefix(&server.tool_prefix(), text)
}

fn quoted_with_prefix(prefix: &str, text: &str) -> Vec<String> {
    let of_server = text.split('"').skip(1).filter(|word| word.starts_with(prefix));
    of_server.filter(|word| word.parse::<ToolName>().is_ok()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_quotes_are_found() {
        let text =
            r#"forbid(principal, action in [Action::"a__x", Action::"ab__y", Action::"a__z w"], resource);"#;
        assert_eq!(quoted_with_prefix("a__", text), ["a__x"]);
        assert_eq!(quoted_with_prefix("ab__", text), ["ab__y"]);
        assert!(quoted_with_prefix("c__", text).is_empty());
    }
}

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
        for name in
            policies.iter().flat_map(|file| named(&server.name.value, &String::from_utf8_lossy(&file.bytes)))
        {
            if !tools.iter().any(|tool: &AgreedTool| tool.name == name) {
                let class = class(server, name.split_once("__").map_or("", |(_, tool)| tool));
                tools.push(AgreedTool { name, class, schema: json!({"type": "object"}).into() });
            }
        }
    }
    tools
}

fn pinned(server: &ServerConfig, known: &PinFile) -> Vec<AgreedTool> {
    let agreed = known.tools().filter_map(|(name, pinned)| Some((name, pinned.agreed()?)));
    let tool = |(name, definition): (&str, &toolgate_connect::Definition)| AgreedTool {
        name: format!("{}__{name}", server.name.value),
        class: class(server, name),
        schema: definition.input_schema.clone().into(),
    };
    agreed.map(tool).collect()
}

fn class(server: &ServerConfig, tool: &str) -> ToolClass {
    let own = server.tool(tool).and_then(|entry| entry.class.as_ref());
    own.or(server.class.as_ref()).map_or(ToolClass::Destructive, |class| class.value)
}

/// The names of a server's tools that occur in double quotes in a text.
fn named(server: &str, text: &str) -> Vec<String> {
    let quoted = text.split('"').skip(1);
    let of_server =
        quoted.filter(|word| word.strip_prefix(server).is_some_and(|rest| rest.starts_with("__")));
    of_server.filter(|word| word.parse::<ToolName>().is_ok()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_quotes_are_found() {
        let text =
            r#"forbid(principal, action in [Action::"a__x", Action::"ab__y", Action::"a__z w"], resource);"#;
        assert_eq!(named("a", text), ["a__x"]);
        assert_eq!(named("ab", text), ["ab__y"]);
        assert!(named("c", text).is_empty());
    }
}

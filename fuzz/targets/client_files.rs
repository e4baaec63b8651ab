//! Any text as the configuration file of an MCP client: rejected, or edited so that its meaning is kept and the new entry added; its servers are left
//! out, or converted into a valid configuration.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::json;
use toolgate_clients::{import_servers, insert_servers, parse_jsonc, set_member};
use toolgate_manifest::Config;

fuzz_target!(|text: &str| {
    let entry = json!({"command": "toolgate", "args": ["mcp"]});
    if let Ok(edited) = set_member(text, "mcpServers", "gate", &entry) {
        let mut expected =
            if text.trim().is_empty() { json!({}) } else { parse_jsonc(text).expect("it was edited") };
        expected["mcpServers"]["gate"] = entry;
        assert_eq!(parse_jsonc(&edited), Ok(expected));
    }
    let Ok(imported) = import_servers(text) else { return };
    if imported.servers.is_empty() {
        return;
    }
    let config = Config::parse("toolgate.yaml", &imported.render()).expect("what is printed is understood");
    assert_eq!(config.mcp_servers.len(), imported.servers.len());
    let _ = insert_servers("toolgate.yaml", text, &imported);
});

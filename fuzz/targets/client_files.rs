//! Any text as the file of an MCP client: refused, or edited so that it means what it did and the new entry; its servers left out, or turned into a
//! configuration that is understood.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::json;
use toolgate_manifest::{Config, import_servers, insert_servers, parse_jsonc, set_member};

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

//! Output schemas, and what is sent besides structured content.

use std::sync::Arc;

use serde_json::json;
use toolgate_attack::person;
use toolgate_gate::{ApprovedCall, CallContext, Tool, ToolFuture, ToolSpec};
use toolgate_types::{Category, ToolClass, ToolOutput};

use crate::http_shutdown::spec;
use crate::stdio_fixture::{ERAS, Era, World, guided};

#[test]
fn an_error_is_told_beside_what_the_tool_declares() {
    let world = World::new();
    for era in ERAS {
        let mut client = world.client_as(era, json!({}), guided());
        let tools = client.request("tools/list", json!({}))["result"]["tools"].clone();
        for (tool, arguments, code, stage) in [
            ("list_directory", json!({"path": "none"}), "not_found", "EXECUTION"),
            ("read_file", json!({"path": "none"}), "not_found", "EXECUTION"),
            ("read_file", json!({"pfad": "none"}), "invalid_arguments", "VALIDATION"),
            ("write_file", json!({"path": "q", "content": "x"}), "approval_unavailable", "APPROVAL"),
            ("reed_file", json!({}), "unknown_tool", "REGISTRY"),
        ] {
            let result = client.call(tool, arguments);
            assert_eq!(result["isError"], true, "{result}");
            assert!(result.get("structuredContent").is_none(), "its schema knows no errors: {result}");
            let error = &result["_meta"]["toolgate/error"];
            assert_eq!(
                (error["code"].as_str(), error["stage"].as_str()),
                (Some(code), Some(stage)),
                "{result}"
            );
            let text = result["content"][0]["text"].as_str().unwrap();
            for told in ["code", "message", "help"].map(|name| error[name].as_str().unwrap()) {
                assert!(text.contains(told), "{told}: {text}");
            }
        }
        let done = client.call("list_directory", json!({}));
        assert!(done["_meta"].get("toolgate/error").is_none() && done["structuredContent"].is_object());
        assert!(tools.to_string().contains("outputSchema"));
    }
}

/// A foreign tool whose result has a property with the same name as the built-in ones.
struct Strange(ToolSpec, String);

impl Tool for Strange {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run(self: Arc<Self>, _: ApprovedCall, _: CallContext) -> ToolFuture {
        let output = ToolOutput::new(self.1.clone(), json!({"content": self.1}));
        Box::pin(async move { Ok(output) })
    }
}

#[test]
fn what_others_declare_is_told_whatever_it_is_called() {
    let text = "a line of text\n".repeat(5000);
    for class in [ToolClass::Read, ToolClass::Write] {
        let world = World::new();
        let content =
            json!({"type": "object", "properties": {"content": {"type": "string"}}, "required": ["content"]});
        let spec = ToolSpec {
            category: Category::Mcp,
            output_schema: content.clone().into(),
            ..spec("strange", class)
        };
        let mut loaded = world.bench.loaded().clone();
        loaded.registry.register(Arc::new(Strange(spec, text.clone()))).unwrap();
        world.bench.gate().replace_config(loaded);
        let mut client = world.client_as(Era::Older, json!({}), person("mcp-strange"));
        let tools = client.request("tools/list", json!({}))["result"]["tools"].clone();
        let told = tools.as_array().unwrap().iter().find(|tool| tool["name"] == "strange").unwrap();
        assert_eq!(told["outputSchema"], content);
        // Without a declaration the most dangerous class is assumed.
        let hints = &told["annotations"];
        let is_read = class == ToolClass::Read;
        assert_eq!((&hints["readOnlyHint"], &hints["destructiveHint"]), (&json!(is_read), &json!(!is_read)));
        assert_eq!((&hints["idempotentHint"], &hints["openWorldHint"]), (&json!(is_read), &json!(true)));
        let result = client.call("strange", json!({}));
        assert_eq!(result["structuredContent"]["content"], text, "a client that knows the schema expects it");
    }
}

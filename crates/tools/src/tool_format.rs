//! Tool definitions as model APIs take them.

use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_gate::{Tool, ToolSpec};

/// The formats in which tool definitions are sent to models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolFormat {
    /// OpenAI function tools.
    OpenAi,
    /// Anthropic tools.
    Anthropic,
    /// Ollama's `tools` array.
    Ollama,
}

impl ToolFormat {
    /// The tool definitions in this format.
    #[must_use]
    pub fn write(self, tools: &[Arc<dyn Tool>]) -> Value {
        Value::Array(tools.iter().map(|tool| self.write_one(tool.spec())).collect())
    }

    fn write_one(self, spec: &ToolSpec) -> Value {
        let name = spec.name.as_str();
        match self {
            Self::OpenAi | Self::Ollama => json!({
                "type": "function",
                "function": {"name": name, "description": spec.description, "parameters": spec.input_schema},
            }),
            Self::Anthropic => {
                json!({"name": name, "description": spec.description, "input_schema": spec.input_schema})
            }
        }
    }
}

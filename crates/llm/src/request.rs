//! The request for a step.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::message::Message;

/// One step: the whole conversation so far, and the tools.
#[derive(Clone, Copy, Debug)]
pub struct StepRequest<'r> {
    /// The system prompt.
    pub system: Option<&'r str>,
    /// The conversation, oldest first.
    pub messages: &'r [Message],
    /// The tools that the model may call.
    pub tools: &'r [ToolDefinition],
    /// Whether it may call them in this step.
    pub tool_choice: ToolChoice,
    /// The output limit in tokens; the wire's default if absent.
    pub max_output_tokens: Option<u32>,
    /// Whether it should think first.
    pub thinking: ThinkingMode,
}

/// A tool as a model sees it.
#[derive(Clone, Debug)]
pub struct ToolDefinition {
    /// The name under which calls come back. Wires with stricter rules for names use another one, which never leaves this crate.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The JSON Schema of its arguments, shared with the tool.
    pub input_schema: Arc<Map<String, Value>>,
}

/// Whether tools may be called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// Not in this step. The definitions are still sent if the wire needs them to parse earlier calls.
    None,
}

/// Whether a model should think first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThinkingMode {
    /// The model's default.
    #[default]
    Default,
    /// Yes, if supported.
    On,
    /// No, if supported.
    Off,
}

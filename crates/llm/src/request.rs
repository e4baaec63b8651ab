//! What a model is asked.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::message::Message;

/// One step: the whole conversation so far, and what the model may use.
#[derive(Clone, Copy, Debug)]
pub struct StepRequest<'r> {
    /// What stands before everything.
    pub system: Option<&'r str>,
    /// The conversation, oldest first.
    pub messages: &'r [Message],
    /// The tools that the model may call.
    pub tools: &'r [ToolDefinition],
    /// Whether it may call them in this step.
    pub tool_choice: ToolChoice,
    /// How much it may say, in tokens; the wire's usual bound where it is absent.
    pub max_output_tokens: Option<u32>,
    /// Whether it should think first.
    pub thinking: ThinkingMode,
}

/// A tool as a model sees it.
#[derive(Clone, Debug)]
pub struct ToolDefinition {
    /// The name that calls come back under. Wires with narrower rules for names are told another one, which never leaves this crate.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of its arguments, the one that the tool itself holds.
    pub input_schema: Arc<Map<String, Value>>,
}

/// Whether tools may be called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// As the model likes.
    #[default]
    Auto,
    /// Not in this step. The definitions still go with it where the wire needs them to read earlier calls.
    None,
}

/// Whether a model should think first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThinkingMode {
    /// As the model does by itself.
    #[default]
    Default,
    /// Yes, where it can.
    On,
    /// No, where that can be said.
    Off,
}

//! Validates requests as the vendor does, with its error messages.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::conversation::{ModelTurnCall, SentConversation, ToolCallResult};
use crate::exchange::{Exchange, ResponseOptions, ThinkingDisplay, is_wire_name};
use crate::reply::tokens;
use crate::request_rejection::RequestRejection;
use crate::script::Script;
use crate::signature;
use crate::step_selection::lacks_thoughts;

/// The known request fields.
const KNOWN_FIELDS: &[&str] = &[
    "max_tokens",
    "messages",
    "model",
    "cache_control",
    "container",
    "diagnostics",
    "inference_geo",
    "metadata",
    "output_config",
    "service_tier",
    "speed",
    "stop_sequences",
    "stream",
    "system",
    "thinking",
    "tool_choice",
    "tools",
    "user_profile_id",
];

/// Fields that API versions before `WITHOUT_SAMPLING` also accept.
const SAMPLING_FIELDS: &[&str] = &["temperature", "top_p", "top_k"];
const WITHOUT_SAMPLING: &str = "2026-10-21";

const MAX_CACHE_MARKS: usize = 4;

pub(super) fn request(script: &Script, version: &str, body: &Value) -> Result<Exchange, RequestRejection> {
    let entries = body
        .as_object()
        .ok_or_else(|| RequestRejection::bad_request("Input should be a valid dictionary"))?;
    for key in entries.keys() {
        let older = version < WITHOUT_SAMPLING && SAMPLING_FIELDS.contains(&key.as_str());
        if !older && !KNOWN_FIELDS.contains(&key.as_str()) {
            return Err(RequestRejection::bad_request(format!("{key}: Extra inputs are not permitted")));
        }
    }
    let model = text(body, "model")?;
    if script.model.name.as_ref().is_some_and(|name| *name != model) {
        return Err(RequestRejection::new(404, format!("model: {model}")));
    }
    let max_tokens = body.get("max_tokens").ok_or_else(|| required("max_tokens"))?;
    let max_tokens = max_tokens
        .as_u64()
        .ok_or_else(|| RequestRejection::bad_request("max_tokens: Input should be a valid integer"))?;
    if max_tokens > script.model.max_output_tokens {
        let most = script.model.max_output_tokens;
        return Err(RequestRejection::bad_request(format!(
            "max_tokens: {max_tokens} > {most}, which is the maximum allowed number of output tokens for {model}"
        )));
    }
    let offered = tools(script, body)?;
    let mut reader =
        AnthropicRequestReader { conversation: SentConversation::default(), has_tool_blocks: false };
    reader.conversation.system = system(body)?;
    reader.messages(body)?;
    if reader.has_tool_blocks && offered.is_empty() {
        return Err(RequestRejection::bad_request(
            "Requests which have `tool_use` or `tool_result` blocks must define tools",
        ));
    }
    let mut conversation = reader.conversation;
    conversation.tools_on = !offered.is_empty() && tools_on(body, !offered.is_empty())?;
    conversation.offered = offered;
    cache_marks(body)?;
    let thinking = thinking(script, body, max_tokens)?;
    if thinking != ThinkingDisplay::Off && lacks_thoughts(script, &conversation) {
        return Err(RequestRejection::bad_request(
            "messages: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a final \
             `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks).",
        ));
    }
    let input_tokens = tokens(body.to_string().len());
    if input_tokens > script.model.context_window {
        let most = script.model.context_window;
        return Err(RequestRejection::bad_request(format!(
            "prompt is too long: {input_tokens} tokens > {most} maximum"
        )));
    }
    let is_streamed = body.get("stream").and_then(Value::as_bool).unwrap_or(false);
    Ok(Exchange {
        conversation,
        is_streamed,
        thinking,
        model,
        input_tokens,
        options: ResponseOptions::default(),
    })
}

fn required(path: &str) -> RequestRejection {
    RequestRejection::bad_request(format!("{path}: Field required"))
}

fn text(value: &Value, key: &str) -> Result<String, RequestRejection> {
    text_at(value, key, key)
}

fn text_at(value: &Value, key: &str, path: &str) -> Result<String, RequestRejection> {
    let text = value.get(key).ok_or_else(|| required(path))?;
    text.as_str()
        .map(str::to_owned)
        .ok_or_else(|| RequestRejection::bad_request(format!("{path}: Input should be a valid string")))
}

fn system(body: &Value) -> Result<String, RequestRejection> {
    match body.get("system") {
        None => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Array(blocks)) => {
            let texts =
                blocks.iter().enumerate().map(|(at, block)| text_block(block, &format!("system.{at}")));
            texts.collect::<Result<Vec<_>, _>>().map(|texts| texts.join("\n"))
        }
        Some(_) => Err(RequestRejection::bad_request("system: Input should be a valid list")),
    }
}

fn text_block(block: &Value, path: &str) -> Result<String, RequestRejection> {
    if block.get("type").and_then(Value::as_str) != Some("text") {
        return Err(RequestRejection::bad_request(format!("{path}.type: Input should be 'text'")));
    }
    let text = text_at(block, "text", &format!("{path}.text"))?;
    if text.is_empty() {
        return Err(RequestRejection::bad_request(format!("{path}: text content blocks must be non-empty")));
    }
    if text.trim().is_empty() {
        return Err(RequestRejection::bad_request(format!(
            "{path}: text content blocks must contain non-whitespace text"
        )));
    }
    Ok(text)
}

fn tools(script: &Script, body: &Value) -> Result<Vec<String>, RequestRejection> {
    let Some(tools) = body.get("tools") else { return Ok(Vec::new()) };
    let tools = tools
        .as_array()
        .ok_or_else(|| RequestRejection::bad_request("tools: Input should be a valid list"))?;
    if !tools.is_empty() && !script.model.tools {
        return Err(RequestRejection::bad_request("tools: this model does not support tools"));
    }
    let mut names = Vec::new();
    for (at, tool) in tools.iter().enumerate() {
        let path = format!("tools.{at}.custom");
        let name = text_at(tool, "name", &format!("{path}.name"))?;
        if !is_wire_name(&name, 128) {
            let message = format!("{path}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'");
            return Err(RequestRejection::bad_request(message));
        }
        if names.contains(&name) {
            return Err(RequestRejection::bad_request("tools: Tool names must be unique."));
        }
        let schema = tool.get("input_schema").ok_or_else(|| required(&format!("{path}.input_schema")))?;
        match schema.get("type").and_then(Value::as_str) {
            Some("object") => {}
            Some(_) => {
                return Err(RequestRejection::bad_request(format!(
                    "{path}.input_schema.type: Input should be 'object'"
                )));
            }
            None => return Err(required(&format!("{path}.input_schema.type"))),
        }
        names.push(name);
    }
    Ok(names)
}

fn tools_on(body: &Value, any: bool) -> Result<bool, RequestRejection> {
    let Some(choice) = body.get("tool_choice") else { return Ok(true) };
    if !any {
        return Err(RequestRejection::bad_request(
            "tool_choice: may only be specified while providing tools",
        ));
    }
    match choice.get("type").and_then(Value::as_str) {
        Some("auto" | "any" | "tool") => Ok(true),
        Some("none") => Ok(false),
        _ => Err(RequestRejection::bad_request(
            "tool_choice.type: Input should be 'auto', 'any', 'tool' or 'none'",
        )),
    }
}

fn thinking(script: &Script, body: &Value, max_tokens: u64) -> Result<ThinkingDisplay, RequestRejection> {
    let Some(thinking) = body.get("thinking") else {
        return Ok(if script.model.thinking { ThinkingDisplay::Shown } else { ThinkingDisplay::Off });
    };
    match thinking.get("type").and_then(Value::as_str) {
        Some("disabled") => return Ok(ThinkingDisplay::Off),
        Some("enabled") => {
            let budget = thinking.get("budget_tokens").and_then(Value::as_u64);
            let budget = budget.ok_or_else(|| required("thinking.enabled.budget_tokens"))?;
            if budget < 1024 {
                return Err(RequestRejection::bad_request(
                    "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
                ));
            }
            if budget >= max_tokens {
                return Err(RequestRejection::bad_request(
                    "`max_tokens` must be greater than `thinking.budget_tokens`",
                ));
            }
        }
        Some("adaptive" | "between_tools") => {}
        _ => {
            let message = "thinking: Input tag does not match any of the expected tags: 'enabled', 'disabled', 'adaptive', 'between_tools'";
            return Err(RequestRejection::bad_request(message));
        }
    }
    if !script.model.thinking {
        return Err(RequestRejection::bad_request("thinking: this model does not support thinking"));
    }
    let omitted = thinking.get("display").and_then(Value::as_str) == Some("omitted");
    Ok(if omitted { ThinkingDisplay::Omitted } else { ThinkingDisplay::Shown })
}

/// Every block may have `cache_control`, up to the vendor's limit.
fn cache_marks(body: &Value) -> Result<(), RequestRejection> {
    fn count(value: &Value) -> usize {
        match value {
            Value::Array(values) => values.iter().map(count).sum(),
            Value::Object(entries) => {
                let own = usize::from(entries.get("cache_control").is_some_and(|mark| !mark.is_null()));
                // A call's arguments are the caller's data, whatever their keys are called.
                let inner = entries.iter().filter(|(key, _)| *key != "input" && *key != "input_schema");
                own + inner.map(|(_, value)| count(value)).sum::<usize>()
            }
            _ => 0,
        }
    }
    let marks = count(body);
    if marks > MAX_CACHE_MARKS {
        let most = MAX_CACHE_MARKS;
        return Err(RequestRejection::bad_request(format!(
            "A maximum of {most} blocks with cache_control may be provided. Found {marks}."
        )));
    }
    Ok(())
}

struct AnthropicRequestReader {
    conversation: SentConversation,
    has_tool_blocks: bool,
}

impl AnthropicRequestReader {
    fn messages(&mut self, body: &Value) -> Result<(), RequestRejection> {
        let messages = body.get("messages").ok_or_else(|| required("messages"))?;
        let messages = messages
            .as_array()
            .ok_or_else(|| RequestRejection::bad_request("messages: Input should be a valid list"))?;
        if messages.is_empty() {
            return Err(RequestRejection::bad_request("messages: at least one message is required"));
        }
        // The calls of the message before, which this one must answer.
        let mut open = BTreeSet::new();
        for (at, message) in messages.iter().enumerate() {
            let content = content(message, at)?;
            let role = message.get("role").and_then(Value::as_str);
            if role != Some("user") {
                unanswered(&open, at)?;
            }
            match role {
                Some("user") => self.user(&content, at, std::mem::take(&mut open))?,
                Some("assistant") => open = self.assistant(&content, at)?,
                Some("system") => {
                    for (number, block) in content.iter().enumerate() {
                        let text = text_block(block, &format!("messages.{at}.content.{number}"))?;
                        self.conversation.system.push_str(&text);
                    }
                }
                _ => {
                    let message =
                        format!("messages.{at}.role: Input should be 'user', 'assistant' or 'system'");
                    return Err(RequestRejection::bad_request(message));
                }
            }
        }
        unanswered(&open, messages.len())?;
        if messages.last().and_then(|message| message.get("role")).and_then(Value::as_str)
            == Some("assistant")
        {
            return Err(RequestRejection::bad_request(
                "This model does not support assistant message prefill. The conversation must end with a user message.",
            ));
        }
        Ok(())
    }

    fn user(
        &mut self,
        blocks: &[Value],
        at: usize,
        mut open: BTreeSet<String>,
    ) -> Result<(), RequestRejection> {
        let mut texts = Vec::new();
        let mut answered = BTreeSet::new();
        for (number, block) in blocks.iter().enumerate() {
            let path = format!("messages.{at}.content.{number}");
            match block.get("type").and_then(Value::as_str) {
                Some("tool_result") => {
                    self.has_tool_blocks = true;
                    // Results must come first: one after other content answers nothing.
                    if !texts.is_empty() {
                        unanswered(&open, at)?;
                    }
                    let id = text_at(block, "tool_use_id", &format!("{path}.tool_result.tool_use_id"))?;
                    if answered.contains(&id) {
                        return Err(RequestRejection::bad_request(format!(
                            "{path}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: {id}"
                        )));
                    }
                    if !open.remove(&id) {
                        return Err(RequestRejection::bad_request(format!(
                            "{path}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block must \
                             have a corresponding `tool_use` block in the previous message."
                        )));
                    }
                    let outcome = ToolCallResult {
                        tool: self.conversation.tool_of(&id),
                        text: result_text(block, &path)?,
                    };
                    self.conversation.result(outcome);
                    answered.insert(id);
                }
                Some("text") => texts.push(text_block(block, &path)?),
                Some("image" | "document") => texts.push(String::new()),
                other => return Err(unknown_block(&path, other)),
            }
        }
        unanswered(&open, at)?;
        if !texts.is_empty() {
            self.conversation.prompt(&texts.join("\n"));
        }
        Ok(())
    }

    fn assistant(&mut self, blocks: &[Value], at: usize) -> Result<BTreeSet<String>, RequestRejection> {
        let mut ids = BTreeSet::new();
        // A step with only text counts too.
        self.conversation.model_turn(|_| ());
        for (number, block) in blocks.iter().enumerate() {
            let path = format!("messages.{at}.content.{number}");
            match block.get("type").and_then(Value::as_str) {
                Some("text") => {
                    text_block(block, &path)?;
                }
                Some("thinking") => {
                    let text = text_at(block, "thinking", &format!("{path}.thinking.thinking"))?;
                    let signature = text_at(block, "signature", &format!("{path}.thinking.signature"))?;
                    self.thought(&signature, &text, &path, "thinking")?;
                }
                Some("redacted_thinking") => {
                    let data = text_at(block, "data", &format!("{path}.redacted_thinking.data"))?;
                    self.thought(&data, "", &path, "redacted_thinking")?;
                }
                Some("tool_use") => {
                    self.has_tool_blocks = true;
                    let call = call(block, &path)?;
                    if !ids.insert(call.id.clone()) {
                        return Err(RequestRejection::bad_request(format!(
                            "messages.{at}.content: `tool_use` ids must be unique"
                        )));
                    }
                    self.conversation.model_turn(|said| said.calls.push(call));
                }
                other => return Err(unknown_block(&path, other)),
            }
        }
        Ok(ids)
    }

    fn thought(&mut self, given: &str, text: &str, path: &str, kind: &str) -> Result<(), RequestRejection> {
        if !signature::verify(given, text) {
            let what = if kind == "thinking" { "`signature`" } else { "`data`" };
            return Err(RequestRejection::bad_request(format!("{path}: Invalid {what} in `{kind}` block")));
        }
        self.conversation.model_turn(|said| said.thoughts += 1);
        Ok(())
    }
}

fn content(message: &Value, at: usize) -> Result<Vec<Value>, RequestRejection> {
    let content = message.get("content").ok_or_else(|| required(&format!("messages.{at}.content")))?;
    let blocks = match content {
        Value::String(text) if text.is_empty() => Vec::new(),
        Value::String(text) => vec![serde_json::json!({"type": "text", "text": text})],
        Value::Array(blocks) => blocks.clone(),
        _ => {
            return Err(RequestRejection::bad_request(format!(
                "messages.{at}.content: Input should be a valid list"
            )));
        }
    };
    if blocks.is_empty() {
        return Err(RequestRejection::bad_request(format!(
            "messages.{at}: all messages must have non-empty content except for the optional final assistant message"
        )));
    }
    Ok(blocks)
}

fn unanswered(open: &BTreeSet<String>, at: usize) -> Result<(), RequestRejection> {
    if open.is_empty() {
        return Ok(());
    }
    let ids: Vec<&str> = open.iter().map(String::as_str).collect();
    Err(RequestRejection::bad_request(format!(
        "messages.{}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each `tool_use` block must \
         have a corresponding `tool_result` block in the next message.",
        at.saturating_sub(1),
        ids.join(", ")
    )))
}

fn call(block: &Value, path: &str) -> Result<ModelTurnCall, RequestRejection> {
    let id = text_at(block, "id", &format!("{path}.tool_use.id"))?;
    let tool = text_at(block, "name", &format!("{path}.tool_use.name"))?;
    if !is_wire_name(&id, usize::MAX) {
        return Err(RequestRejection::bad_request(format!(
            "{path}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
        )));
    }
    if !is_wire_name(&tool, 200) {
        let message = format!("{path}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,200}}$'");
        return Err(RequestRejection::bad_request(message));
    }
    match block.get("input") {
        Some(Value::Object(_)) => Ok(ModelTurnCall { id, tool }),
        Some(_) => Err(RequestRejection::bad_request(format!(
            "{path}.tool_use.input: Input should be a valid dictionary"
        ))),
        None => Err(required(&format!("{path}.tool_use.input"))),
    }
}

fn result_text(block: &Value, path: &str) -> Result<String, RequestRejection> {
    match block.get("content") {
        None => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Array(blocks)) => {
            let texts = blocks.iter().enumerate().map(|(number, block)| {
                match block.get("type").and_then(Value::as_str) {
                    Some("image" | "document" | "search_result") => Ok(String::new()),
                    _ => text_block(block, &format!("{path}.tool_result.content.{number}")),
                }
            });
            texts.collect::<Result<Vec<_>, _>>().map(|texts| texts.join("\n"))
        }
        Some(_) => Err(RequestRejection::bad_request(format!(
            "{path}.tool_result.content: Input should be a valid list"
        ))),
    }
}

fn unknown_block(path: &str, found: Option<&str>) -> RequestRejection {
    let found = found.unwrap_or_default();
    RequestRejection::bad_request(format!(
        "{path}: Input tag '{found}' found using 'type' does not match any of the expected tags"
    ))
}

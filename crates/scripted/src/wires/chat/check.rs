//! Validates requests as the vendor does, with its error messages.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{check_length, check_model, check_name, tools_on};
use crate::conversation::{ModelTurnCall, SentConversation, ToolCallResult};
use crate::exchange::{Exchange, ResponseOptions, ThinkingDisplay};
use crate::reply::tokens;
use crate::request_rejection::RequestRejection;
use crate::script::{Reasoning, Script};
use crate::signature;
use crate::step_selection::lacks_thoughts;

/// The known request fields: the vendor's own, then those of compatible servers.
const KNOWN_FIELDS: &[&str] = &[
    "messages",
    "model",
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "metadata",
    "n",
    "parallel_tool_calls",
    "presence_penalty",
    "prompt_cache_key",
    "reasoning_effort",
    "response_format",
    "safety_identifier",
    "seed",
    "service_tier",
    "stop",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "user",
    "verbosity",
    "include_reasoning",
    "provider",
    "reasoning",
    "transforms",
    "usage",
];

pub(crate) fn request(script: &Script, body: &Value) -> Result<Exchange, RequestRejection> {
    let unread = "We could not parse the JSON body of your request.";
    let entries = body.as_object().ok_or_else(|| RequestRejection::bad_request(unread))?;
    if let Some(key) = entries.keys().find(|key| !KNOWN_FIELDS.contains(&key.as_str())) {
        return Err(RequestRejection::bad_request(format!("Unrecognized request argument supplied: {key}")));
    }
    let model = check_model(script, body)?;
    let is_streamed = body.get("stream").and_then(Value::as_bool).unwrap_or(false);
    let options = body.get("stream_options").filter(|options| !options.is_null());
    if options.is_some() && !is_streamed {
        let message = "The 'stream_options' parameter is only allowed when 'stream' is enabled.";
        return Err(RequestRejection::bad_request(message).param("stream_options"));
    }
    let usage_in_stream = options.and_then(|options| options.get("include_usage")).and_then(Value::as_bool);
    if body.get("max_tokens").is_some() && body.get("max_completion_tokens").is_some() {
        let message = "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.";
        return Err(RequestRejection::bad_request(message)
            .param("max_tokens")
            .code("invalid_parameter_combination"));
    }
    let offered = tools(script, body)?;
    let mut reader = ChatRequestReader {
        conversation: SentConversation::default(),
        open: BTreeSet::new(),
        details: script.model.reasoning,
    };
    reader.messages(body)?;
    let mut conversation = reader.conversation;
    conversation.tools_on = tools_on(body, !offered.is_empty())?;
    conversation.offered = offered;
    let off = body.pointer("/reasoning/enabled") == Some(&Value::Bool(false))
        || body.get("reasoning_effort").and_then(Value::as_str) == Some("none");
    if !off && script.model.reasoning == Reasoning::ReasoningDetails && lacks_thoughts(script, &conversation)
    {
        let message = "reasoning_details of earlier tool calls must be preserved and passed back";
        return Err(RequestRejection::bad_request(message).param("messages"));
    }
    let input_tokens = tokens(body.to_string().len());
    check_length(script, input_tokens, "messages")?;
    Ok(Exchange {
        conversation,
        is_streamed,
        thinking: if off { ThinkingDisplay::Off } else { ThinkingDisplay::Shown },
        model,
        input_tokens,
        options: ResponseOptions {
            usage_in_stream: usage_in_stream.unwrap_or(false),
            ..ResponseOptions::default()
        },
    })
}

fn tools(script: &Script, body: &Value) -> Result<Vec<String>, RequestRejection> {
    let Some(tools) = body.get("tools").filter(|tools| !tools.is_null()) else { return Ok(Vec::new()) };
    let tools = tools.as_array().map(Vec::as_slice).unwrap_or_default();
    if tools.is_empty() {
        return Err(empty_array("tools"));
    }
    if !script.model.tools {
        // OpenRouter's message: the vendor itself has no such models.
        return Err(RequestRejection::new(404, "No endpoints found that support tool use."));
    }
    let names = tools.iter().enumerate().map(|(at, tool)| {
        if tool.get("type").and_then(Value::as_str) != Some("function") {
            let message = format!("Missing required parameter: 'tools[{at}].type'.");
            return Err(RequestRejection::bad_request(message)
                .param(format!("tools[{at}].type"))
                .code("missing_required_parameter"));
        }
        let name = check_name(tool.pointer("/function/name"), &format!("tools[{at}].function.name"))?;
        if tool.pointer("/function/parameters").is_some_and(|schema| !schema.is_object()) {
            let message = format!("Invalid type for 'tools[{at}].function.parameters': expected an object.");
            return Err(RequestRejection::bad_request(message).code("invalid_type"));
        }
        Ok(name)
    });
    names.collect()
}

fn empty_array(path: &str) -> RequestRejection {
    let message = format!(
        "Invalid '{path}': empty array. Expected an array with minimum length 1, but got an empty array instead."
    );
    RequestRejection::bad_request(message).param(path).code("empty_array")
}

struct ChatRequestReader {
    conversation: SentConversation,
    /// The unanswered calls of the message before.
    open: BTreeSet<String>,
    details: Reasoning,
}

impl ChatRequestReader {
    fn messages(&mut self, body: &Value) -> Result<(), RequestRejection> {
        let messages = body.get("messages").and_then(Value::as_array).ok_or_else(|| {
            let message = "Missing required parameter: 'messages'.";
            RequestRejection::bad_request(message).param("messages").code("missing_required_parameter")
        })?;
        if messages.is_empty() {
            return Err(empty_array("messages"));
        }
        for (at, message) in messages.iter().enumerate() {
            self.message(message, at)?;
        }
        self.answered(messages.len())
    }

    fn message(&mut self, message: &Value, at: usize) -> Result<(), RequestRejection> {
        let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
        if role != "tool" {
            self.answered(at)?;
        }
        match role {
            "system" | "developer" => {
                let text = content(message, at, false)?;
                self.conversation.system.push_str(&text);
            }
            "user" => {
                let text = content(message, at, false)?;
                self.conversation.prompt(&text);
            }
            "assistant" => self.assistant(message, at)?,
            "tool" => self.result(message, at)?,
            other => {
                let message = format!(
                    "Invalid value: '{other}'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'."
                );
                return Err(RequestRejection::bad_request(message)
                    .param(format!("messages[{at}].role"))
                    .code("invalid_value"));
            }
        }
        Ok(())
    }

    fn assistant(&mut self, message: &Value, at: usize) -> Result<(), RequestRejection> {
        let calls = message.get("tool_calls").filter(|calls| !calls.is_null());
        let calls = calls.map(|calls| calls.as_array().map(Vec::as_slice).unwrap_or_default());
        if calls.is_some_and(<[_]>::is_empty) {
            return Err(empty_array(&format!("messages[{at}].tool_calls")));
        }
        content(message, at, calls.is_some())?;
        self.conversation.model_turn(|_| ());
        self.details(message, at)?;
        for (number, call) in calls.unwrap_or_default().iter().enumerate() {
            let path = format!("messages[{at}].tool_calls[{number}]");
            let missing = |key: &str| {
                let path = format!("{path}.{key}");
                let message = format!("Missing required parameter: '{path}'.");
                RequestRejection::bad_request(message).param(path).code("missing_required_parameter")
            };
            let id = call.get("id").and_then(Value::as_str).ok_or_else(|| missing("id"))?;
            if call.get("type").and_then(Value::as_str) != Some("function") {
                return Err(missing("type"));
            }
            let tool = check_name(call.pointer("/function/name"), &format!("{path}.function.name"))?;
            if !call.pointer("/function/arguments").is_some_and(Value::is_string) {
                return Err(missing("function.arguments"));
            }
            self.open.insert(id.to_owned());
            self.conversation.model_turn(|said| said.calls.push(ModelTurnCall { id: id.to_owned(), tool }));
        }
        Ok(())
    }

    /// Signed reasoning that must be sent back unchanged.
    fn details(&mut self, message: &Value, at: usize) -> Result<(), RequestRejection> {
        if self.details != Reasoning::ReasoningDetails {
            return Ok(());
        }
        let details = message.get("reasoning_details").and_then(Value::as_array);
        for (number, detail) in details.into_iter().flatten().enumerate() {
            let field = |name: &str| detail.get(name).and_then(Value::as_str).unwrap_or_default();
            let whole = match field("type") {
                "reasoning.text" => signature::verify(field("signature"), field("text")),
                "reasoning.encrypted" => signature::verify(field("data"), ""),
                _ => false,
            };
            if !whole {
                let path = format!("messages[{at}].reasoning_details[{number}]");
                return Err(RequestRejection::bad_request(format!(
                    "Invalid '{path}': the signature does not fit."
                ))
                .param(path));
            }
            self.conversation.model_turn(|said| said.thoughts += 1);
        }
        Ok(())
    }

    fn result(&mut self, message: &Value, at: usize) -> Result<(), RequestRejection> {
        let id = message.get("tool_call_id").and_then(Value::as_str).ok_or_else(|| {
            let path = format!("messages[{at}].tool_call_id");
            let message = format!("Missing required parameter: '{path}'.");
            RequestRejection::bad_request(message).param(path).code("missing_required_parameter")
        })?;
        if !self.open.remove(id) {
            let message = "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.";
            return Err(RequestRejection::bad_request(message).param(format!("messages.[{at}].role")));
        }
        let outcome =
            ToolCallResult { tool: self.conversation.tool_of(id), text: content(message, at, false)? };
        self.conversation.result(outcome);
        Ok(())
    }

    fn answered(&self, at: usize) -> Result<(), RequestRejection> {
        if self.open.is_empty() {
            return Ok(());
        }
        let ids: Vec<&str> = self.open.iter().map(String::as_str).collect();
        let message = format!(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following \
             tool_call_ids did not have response messages: {}",
            ids.join(", ")
        );
        Err(RequestRejection::bad_request(message).param(format!("messages.[{at}].role")))
    }
}

fn content(message: &Value, at: usize, may_be_absent: bool) -> Result<String, RequestRejection> {
    match message.get("content") {
        Some(Value::String(text)) => Ok(text.clone()),
        None | Some(Value::Null) if may_be_absent => Ok(String::new()),
        Some(Value::Array(parts)) => {
            let texts = parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str));
            Ok(texts.collect::<Vec<_>>().join("\n"))
        }
        None | Some(Value::Null) => {
            let message = "Invalid value for 'content': expected a string, got null.";
            Err(RequestRejection::bad_request(message).param(format!("messages.[{at}].content")))
        }
        Some(_) => {
            let path = format!("messages[{at}].content");
            let message = format!("Invalid type for '{path}': expected one of a string or array of objects.");
            Err(RequestRejection::bad_request(message).param(path).code("invalid_type"))
        }
    }
}

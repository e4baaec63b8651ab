//! Validates requests as the vendor does, with its error messages.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::conversation::{ModelTurnCall, SentConversation, ToolCallResult};
use crate::exchange::{Exchange, ResponseOptions, ThinkingDisplay};
use crate::reply::tokens;
use crate::request_rejection::RequestRejection;
use crate::script::Script;
use crate::signature;
use crate::step_selection::lacks_thoughts;
use crate::wires::chat::{check_length, check_model, check_name, tools_on};

/// The known request fields.
const KNOWN_FIELDS: &[&str] = &[
    "background",
    "context_management",
    "conversation",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "model",
    "moderation",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
];

const ENCRYPTED: &str = "reasoning.encrypted_content";
const MIN_OUTPUT_TOKENS: u64 = 16;

pub(crate) fn request(script: &Script, body: &Value) -> Result<Exchange, RequestRejection> {
    let unread = "We could not parse the JSON body of your request.";
    let entries = body.as_object().ok_or_else(|| RequestRejection::bad_request(unread))?;
    if let Some(key) = entries.keys().find(|key| !KNOWN_FIELDS.contains(&key.as_str())) {
        let message = format!("Unknown parameter: '{key}'.");
        return Err(RequestRejection::bad_request(message).param(key.as_str()).code("unknown_parameter"));
    }
    let model = check_model(script, body)?;
    nothing_remembered(body)?;
    bounds(body)?;
    let offered = tools(script, body)?;
    let kept = body.get("store").and_then(Value::as_bool).unwrap_or(true);
    let mut reader = ResponsesRequestReader {
        conversation: SentConversation::default(),
        open: BTreeSet::new(),
        is_stored: kept,
    };
    reader.conversation.system =
        body.get("instructions").and_then(Value::as_str).unwrap_or_default().to_owned();
    reader.input(body)?;
    let mut conversation = reader.conversation;
    conversation.tools_on = tools_on(body, !offered.is_empty())?;
    conversation.offered = offered;
    let thinking = thinking(script, body);
    if thinking != ThinkingDisplay::Off && lacks_thoughts(script, &conversation) {
        let message = "Item of type 'function_call' was provided without its required 'reasoning' item.";
        return Err(RequestRejection::bad_request(message).param("input"));
    }
    let input_tokens = tokens(body.to_string().len());
    check_length(script, input_tokens, "input")?;
    Ok(Exchange {
        conversation,
        is_streamed: body.get("stream").and_then(Value::as_bool).unwrap_or(false),
        thinking,
        model,
        input_tokens,
        options: ResponseOptions {
            encrypted_reasoning: includes_encrypted(body)?,
            echo: echo(body),
            ..ResponseOptions::default()
        },
    })
}

/// This server stores no responses that a request could continue from.
fn nothing_remembered(body: &Value) -> Result<(), RequestRejection> {
    match body.get("previous_response_id") {
        None | Some(Value::Null) => Ok(()),
        Some(id) => {
            let id = id.as_str().unwrap_or_default();
            let message = format!("Previous response with id '{id}' not found.");
            Err(RequestRejection::bad_request(message)
                .param("previous_response_id")
                .code("previous_response_not_found"))
        }
    }
}

fn bounds(body: &Value) -> Result<(), RequestRejection> {
    let most = body.get("max_output_tokens").and_then(Value::as_u64);
    if let Some(most) = most.filter(|most| *most < MIN_OUTPUT_TOKENS) {
        let message = format!(
            "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= {MIN_OUTPUT_TOKENS}, but got {most} instead."
        );
        return Err(RequestRejection::bad_request(message)
            .param("max_output_tokens")
            .code("integer_below_min_value"));
    }
    Ok(())
}

fn includes_encrypted(body: &Value) -> Result<bool, RequestRejection> {
    let mut encrypted = false;
    for (at, wanted) in body.get("include").and_then(Value::as_array).into_iter().flatten().enumerate() {
        match wanted.as_str() {
            Some(ENCRYPTED) => encrypted = true,
            Some("message.output_text.logprobs" | "web_search_call.action.sources") => {}
            _ => {
                let message = format!("Invalid value: {wanted}. Supported values are: '{ENCRYPTED}'.");
                return Err(RequestRejection::bad_request(message)
                    .param(format!("include[{at}]"))
                    .code("invalid_value"));
            }
        }
    }
    Ok(encrypted)
}

/// Reasoning is shown only if a summary is requested.
fn thinking(script: &Script, body: &Value) -> ThinkingDisplay {
    let reasoning =
        |key: &str| body.get("reasoning").and_then(|reasoning| reasoning.get(key)).and_then(Value::as_str);
    if !script.model.thinking || reasoning("effort") == Some("none") {
        ThinkingDisplay::Off
    } else if reasoning("summary").is_some() {
        ThinkingDisplay::Shown
    } else {
        ThinkingDisplay::Omitted
    }
}

/// The request fields that the answer echoes.
fn echo(body: &Value) -> Map<String, Value> {
    let mut echo = Map::new();
    for (key, usual) in [
        ("instructions", Value::Null),
        ("max_output_tokens", Value::Null),
        ("max_tool_calls", Value::Null),
        ("metadata", json!({})),
        ("parallel_tool_calls", json!(true)),
        ("previous_response_id", Value::Null),
        ("prompt_cache_key", Value::Null),
        ("reasoning", json!({"effort": null, "summary": null})),
        ("safety_identifier", Value::Null),
        ("store", json!(true)),
        ("temperature", json!(1.0)),
        ("text", json!({"format": {"type": "text"}, "verbosity": "medium"})),
        ("tool_choice", json!("auto")),
        ("tools", json!([])),
        ("top_logprobs", json!(0)),
        ("top_p", json!(1.0)),
        ("truncation", json!("disabled")),
        ("user", Value::Null),
    ] {
        let asked = body.get(key).filter(|value| !value.is_null());
        echo.insert(key.to_owned(), asked.cloned().unwrap_or(usual));
    }
    echo
}

fn tools(script: &Script, body: &Value) -> Result<Vec<String>, RequestRejection> {
    let tools = body.get("tools").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if !tools.is_empty() && !script.model.tools {
        return Err(RequestRejection::bad_request("Tools are not supported with this model.").param("tools"));
    }
    let names = tools.iter().enumerate().map(|(at, tool)| {
        if tool.get("type").and_then(Value::as_str) != Some("function") {
            let path = format!("tools[{at}].type");
            let message = format!("Missing required parameter: '{path}'.");
            return Err(RequestRejection::bad_request(message)
                .param(path)
                .code("missing_required_parameter"));
        }
        let name = check_name(tool.get("name"), &format!("tools[{at}].name"))?;
        strict_schema(tool, &name, at)?;
        Ok(name)
    });
    names.collect()
}

/// A schema with `strict: true` must meet the strict rules.
fn strict_schema(tool: &Value, name: &str, at: usize) -> Result<(), RequestRejection> {
    if tool.get("strict") != Some(&Value::Bool(true)) {
        return Ok(());
    }
    let refused = |reason: &str| {
        let message = format!("Invalid schema for function '{name}': In context=(), {reason}");
        RequestRejection::bad_request(message)
            .param(format!("tools[{at}].parameters"))
            .code("invalid_function_parameters")
    };
    let schema = tool.get("parameters").and_then(Value::as_object);
    let schema = schema.ok_or_else(|| refused("schema must be a JSON Schema of 'type: \"object\"'."))?;
    if schema.get("additionalProperties") != Some(&Value::Bool(false)) {
        return Err(refused("'additionalProperties' is required to be supplied and to be false."));
    }
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut properties = schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys);
    match properties.find(|property| !required.contains(&property.as_str())) {
        Some(missing) => Err(refused(&format!(
            "'required' is required to be supplied and to be an array including every key in properties. Missing '{missing}'."
        ))),
        None => Ok(()),
    }
}

struct ResponsesRequestReader {
    conversation: SentConversation,
    /// The calls without an output.
    open: BTreeSet<String>,
    /// Whether the vendor would have stored its answers.
    is_stored: bool,
}

impl ResponsesRequestReader {
    fn input(&mut self, body: &Value) -> Result<(), RequestRejection> {
        let missing = || {
            let message = "Missing required parameter: 'input'.";
            RequestRejection::bad_request(message).param("input").code("missing_required_parameter")
        };
        match body.get("input").ok_or_else(missing)? {
            Value::String(text) => self.conversation.prompt(text),
            Value::Array(items) => {
                for (at, item) in items.iter().enumerate() {
                    self.item(item, at, items.get(at + 1))?;
                }
            }
            _ => {
                let message = "Invalid type for 'input': expected one of a string or array of input items.";
                return Err(RequestRejection::bad_request(message).param("input").code("invalid_type"));
            }
        }
        match self.open.first() {
            Some(id) => {
                Err(RequestRejection::bad_request(format!("No tool output found for function call {id}."))
                    .param("input"))
            }
            None => Ok(()),
        }
    }

    fn item(&mut self, item: &Value, at: usize, next: Option<&Value>) -> Result<(), RequestRejection> {
        match item.get("type").and_then(Value::as_str) {
            None | Some("message") => self.message(item, at),
            Some("reasoning") => self.reasoning(item, at, next),
            Some("function_call") => self.call(item, at),
            Some("function_call_output") => self.output(item, at),
            Some(other) => {
                let path = format!("input[{at}]");
                let message = format!(
                    "Invalid value: '{other}'. Supported values are: 'message', 'reasoning', 'function_call' and 'function_call_output'."
                );
                Err(RequestRejection::bad_request(message).param(path).code("invalid_value"))
            }
        }
    }

    fn message(&mut self, item: &Value, at: usize) -> Result<(), RequestRejection> {
        let role = item.get("role").and_then(Value::as_str).unwrap_or_default();
        let text = content(item, role, at)?;
        match role {
            "user" => self.conversation.prompt(&text),
            "system" | "developer" => self.conversation.system.push_str(&text),
            "assistant" => {
                check_id(item, "msg", at)?;
                self.conversation.model_turn(|_| ());
            }
            other => {
                let message = format!(
                    "Invalid value: '{other}'. Supported values are: 'assistant', 'system', 'developer', and 'user'."
                );
                return Err(RequestRejection::bad_request(message)
                    .param(format!("input[{at}]"))
                    .code("invalid_value"));
            }
        }
        Ok(())
    }

    fn reasoning(&mut self, item: &Value, at: usize, next: Option<&Value>) -> Result<(), RequestRejection> {
        let id = required_text(item, "id", at)?;
        check_id(item, "rs", at)?;
        if !item.get("summary").is_some_and(Value::is_array) {
            return Err(missing(&format!("input[{at}].summary")));
        }
        match item.get("encrypted_content").and_then(Value::as_str) {
            Some(content) if !signature::verify(content, &id) => {
                let message = format!(
                    "The encrypted content for item {id} could not be verified. Reason: Encrypted content could not be decrypted or parsed."
                );
                return Err(RequestRejection::bad_request(message).code("invalid_encrypted_content"));
            }
            None if !self.is_stored => {
                let message = format!(
                    "Item with id '{id}' not found. Items are not persisted when `store` is set to false. Try again with `store` set to \
                     true, or remove this item from your input."
                );
                return Err(RequestRejection::new(404, message).param("input"));
            }
            _ => {}
        }
        let goes_on = next.is_some_and(|next| {
            let kind = next.get("type").and_then(Value::as_str);
            let is_answer = next.get("role").and_then(Value::as_str) == Some("assistant");
            matches!(kind, Some("reasoning" | "function_call")) || is_answer
        });
        if !goes_on {
            let message =
                format!("Item '{id}' of type 'reasoning' was provided without its required following item.");
            return Err(RequestRejection::bad_request(message).param("input"));
        }
        self.conversation.model_turn(|said| said.thoughts += 1);
        Ok(())
    }

    fn call(&mut self, item: &Value, at: usize) -> Result<(), RequestRejection> {
        check_id(item, "fc", at)?;
        let id = required_text(item, "call_id", at)?;
        required_text(item, "arguments", at)?;
        let tool = check_name(item.get("name"), &format!("input[{at}].name"))?;
        if !self.open.insert(id.clone()) {
            return Err(RequestRejection::bad_request(format!("Duplicate function call with call_id {id}."))
                .param("input"));
        }
        self.conversation.model_turn(|said| said.calls.push(ModelTurnCall { id, tool }));
        Ok(())
    }

    fn output(&mut self, item: &Value, at: usize) -> Result<(), RequestRejection> {
        let id = required_text(item, "call_id", at)?;
        if !self.open.remove(&id) {
            let message = format!("No tool call found for function call output with call_id {id}.");
            return Err(RequestRejection::bad_request(message).param("input"));
        }
        let text = match item.get("output") {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Array(parts)) => {
                let texts = parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str));
                texts.collect::<Vec<_>>().join("\n")
            }
            _ => return Err(missing(&format!("input[{at}].output"))),
        };
        self.conversation.result(ToolCallResult { tool: self.conversation.tool_of(&id), text });
        Ok(())
    }
}

fn missing(path: &str) -> RequestRejection {
    let message = format!("Missing required parameter: '{path}'.");
    RequestRejection::bad_request(message).param(path).code("missing_required_parameter")
}

fn required_text(item: &Value, key: &str, at: usize) -> Result<String, RequestRejection> {
    let text = item.get(key).and_then(Value::as_str);
    text.map(str::to_owned).ok_or_else(|| missing(&format!("input[{at}].{key}")))
}

/// An item's id must have the vendor's prefix.
fn check_id(item: &Value, prefix: &str, at: usize) -> Result<(), RequestRejection> {
    match item.get("id") {
        None | Some(Value::Null) => Ok(()),
        Some(Value::String(id)) if id.starts_with(prefix) => Ok(()),
        Some(other) => {
            let path = format!("input[{at}].id");
            let message = format!("Invalid '{path}': {other}. Expected an ID that begins with '{prefix}'.");
            Err(RequestRejection::bad_request(message).param(path).code("invalid_value"))
        }
    }
}

/// The text of a message, from the kinds of parts that its role allows.
fn content(item: &Value, role: &str, at: usize) -> Result<String, RequestRejection> {
    let (kinds, supported): (&[&str], &str) = if role == "assistant" {
        (&["output_text", "refusal"], "'output_text' and 'refusal'")
    } else {
        (&["input_text", "input_image", "input_file"], "'input_text', 'input_image', and 'input_file'")
    };
    match item.get("content") {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Array(parts)) => {
            let texts = parts.iter().enumerate().map(|(number, part)| {
                let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
                if !kinds.contains(&kind) {
                    let message = format!("Invalid value: '{kind}'. Supported values are: {supported}.");
                    let path = format!("input[{at}].content[{number}]");
                    return Err(RequestRejection::bad_request(message).param(path).code("invalid_value"));
                }
                Ok(part.get("text").and_then(Value::as_str).unwrap_or_default())
            });
            texts.collect::<Result<Vec<_>, _>>().map(|texts| texts.join("\n"))
        }
        _ => Err(missing(&format!("input[{at}].content"))),
    }
}

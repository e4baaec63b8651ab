//! The schemas of the events. A test compares them with what the events serialise to.

use serde_json::{Map, Value, json};

/// What a field holds.
#[derive(Clone, Copy)]
enum Field {
    Text,
    Texts,
    Integer,
    Flag,
    Any,
    Object,
    /// A text, or null where there is none.
    KnownText,
    /// An integer, or null where it is not known.
    KnownInteger,
    /// A number, or null where it is not known.
    KnownNumber,
    OneOf(&'static [&'static str]),
    Of(&'static str),
    ListOf(&'static str),
}

/// The name of an event, that of its schema, and the fields of its data. A field with a `?` may be absent.
type EventSchema = (&'static str, &'static str, &'static [(&'static str, Field)]);

use Field::{
    Any, Flag, Integer, KnownInteger, KnownNumber, KnownText, ListOf, Object, Of, OneOf, Text, Texts,
};

/// Every event of a session: the numbered ones, then those of one connection.
const EVENTS: &[EventSchema] = &[
    (
        "chat:user-message",
        "ChatUserMessage",
        &[("messageId", Text), ("text", Text), ("by", Of("By")), ("attachments?", Texts)],
    ),
    ("chat:text-delta", "ChatTextDelta", &[("messageId", Text), ("text", Text)]),
    ("chat:thinking-delta", "ChatThinkingDelta", &[("messageId", Text), ("text", Text)]),
    (
        "chat:tool-input-delta",
        "ChatToolInputDelta",
        &[("messageId", Text), ("toolId", Text), ("toolName", Text), ("chunk", Text)],
    ),
    (
        "chat:tool-start",
        "ChatToolStart",
        &[("messageId", Text), ("toolId", Text), ("toolName", Text), ("input", Any), ("inputText?", Text)],
    ),
    ("chat:tool-delta", "ChatToolDelta", &[("messageId", Text), ("toolId", Text), ("chunk", Text)]),
    (
        "chat:tool-confirm",
        "ChatToolConfirm",
        &[
            ("messageId", Text),
            ("toolId", Text),
            ("toolName", Text),
            ("input", Any),
            ("class", Text),
            ("summary", Texts),
            ("text?", Text),
            ("diff?", Text),
            ("card", Object),
            ("timeoutMs", Integer),
            ("expiresAt", Text),
            ("escalations?", ListOf("Escalation")),
            ("mayLast", Flag),
            ("grants", ListOf("GrantOffer")),
        ],
    ),
    (
        "chat:tool-answered",
        "ChatToolAnswered",
        &[
            ("toolId", Text),
            ("approved", Flag),
            ("scope", Text),
            ("by", Of("By")),
            ("reason?", Text),
            ("changed?", Flag),
        ],
    ),
    ("chat:tool-withdrawn", "ChatToolWithdrawn", &[("messageId", Text), ("toolId", Text)]),
    (
        "chat:tool-result",
        "ChatToolResult",
        &[
            ("messageId", Text),
            ("toolId", Text),
            ("toolName", Text),
            ("status", OneOf(&["success", "error"])),
            ("result", Text),
            ("coloured?", Text),
            ("metadata", Of("ResultMetadata")),
        ],
    ),
    ("chat:plan", "ChatPlan", &[("messageId", Text), ("toolId", Text), ("steps", ListOf("PlanStep"))]),
    (
        "chat:context",
        "ChatContext",
        &[
            ("usedTokens", Integer),
            ("contextWindow", KnownInteger),
            ("fraction", KnownNumber),
            ("warning", Flag),
        ],
    ),
    ("chat:notice", "ChatNotice", &[("text", Text)]),
    (
        "chat:error",
        "ChatError",
        &[
            ("code", Text),
            ("message", Text),
            ("retryable", Flag),
            ("attempt?", Integer),
            ("waitMs?", Integer),
            ("voided?", Text),
        ],
    ),
    (
        "chat:stream-end",
        "ChatStreamEnd",
        &[
            ("reason", Text),
            ("text", Text),
            ("usage", Of("Usage")),
            ("iterations", Integer),
            ("sessionId?", Text),
        ],
    ),
    ("chat:session", "ChatSession", &[("title?", Text), ("model?", Text), ("trust?", Of("Trust"))]),
    (
        "chat:hello",
        "ChatHello",
        &[
            ("session", Of("Session")),
            ("client", Text),
            ("seq", Integer),
            ("running", Flag),
            ("heartbeatMs", Integer),
        ],
    ),
    ("chat:reset", "ChatReset", &[("seq", Integer)]),
    ("chat:heartbeat", "ChatHeartbeat", &[]),
    ("chat:deleted", "ChatDeleted", &[]),
];

/// What a problem of one connection has besides: `chat:error` is also the answer to a wrong message.
const OF_PROBLEMS: &[(&str, Field)] = &[
    ("type?", Text),
    ("title?", Text),
    ("status?", Integer),
    ("stage?", Text),
    ("detail?", Text),
    ("help?", Text),
    ("answeredBy?", Of("By")),
    ("approved?", Flag),
    ("scope?", Text),
];

/// What events hold besides texts and numbers.
const PARTS: &[EventSchema] = &[
    (
        "",
        "ResultMetadata",
        &[
            ("callId", Text),
            ("durationMs", Integer),
            ("waitedMs?", Integer),
            ("decision", OneOf(&["ALLOWED", "DENIED", "ERROR"])),
            ("stage?", Text),
            ("code?", Text),
            ("structured?", Any),
            ("changedInput?", Any),
        ],
    ),
    ("", "PlanStep", &[("step", Text), ("status", OneOf(&["pending", "in_progress", "completed"]))]),
    (
        "",
        "GrantOffer",
        &[("id", Text), ("covers", Text), ("lasts", Text), ("text", Text), ("expiresAt", KnownText)],
    ),
];

/// The name of the schema of an event's data.
#[must_use]
pub fn schema_of_event(event: &str) -> Option<&'static str> {
    EVENTS.iter().find(|(name, ..)| *name == event).map(|(_, schema, _)| *schema)
}

/// The schemas of the data of each event.
#[must_use]
pub fn event_schemas() -> Map<String, Value> {
    let all = EVENTS.iter().chain(PARTS);
    let mut schemas: Map<String, Value> =
        all.map(|(_, schema, fields)| ((*schema).to_owned(), object(fields))).collect();
    if let Some(properties) = schemas.get_mut("ChatError").and_then(|error| error.get_mut("properties")) {
        let more = object(OF_PROBLEMS);
        if let (Some(properties), Some(more)) =
            (properties.as_object_mut(), more.get("properties").and_then(Value::as_object))
        {
            properties.extend(more.clone());
        }
    }
    // Facts of the tool come beside what every result has.
    if let Some(metadata) = schemas.get_mut("ResultMetadata").and_then(Value::as_object_mut) {
        metadata.insert("additionalProperties".to_owned(), json!(true));
    }
    let names: Vec<&str> = EVENTS.iter().map(|(event, ..)| *event).collect();
    let frame = json!({
        "type": "object",
        "description": "A message of the WebSocket; `seq` is null for what concerns one connection alone",
        "required": ["seq", "event", "data"],
        "properties": {"seq": {"type": ["integer", "null"]}, "event": {"enum": names}, "data": {"type": "object"}},
    });
    schemas.insert("ChatFrame".to_owned(), frame);
    schemas
}

fn object(fields: &[(&str, Field)]) -> Value {
    let required: Vec<&str> =
        fields.iter().map(|(name, _)| *name).filter(|name| !name.ends_with('?')).collect();
    let properties: Map<String, Value> =
        fields.iter().map(|(name, field)| (name.trim_end_matches('?').to_owned(), field.schema())).collect();
    json!({"type": "object", "required": required, "properties": properties})
}

impl Field {
    fn schema(self) -> Value {
        let reference = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
        match self {
            Text => json!({"type": "string"}),
            Texts => json!({"type": "array", "items": {"type": "string"}}),
            Integer => json!({"type": "integer"}),
            Flag => json!({"type": "boolean"}),
            Any => json!({}),
            Object => json!({"type": "object"}),
            KnownText => json!({"type": ["string", "null"]}),
            KnownInteger => json!({"type": ["integer", "null"]}),
            KnownNumber => json!({"type": ["number", "null"]}),
            OneOf(words) => json!({"enum": words}),
            Of(name) => reference(name),
            ListOf(name) => json!({"type": "array", "items": reference(name)}),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use toolgate_agent::{ChatEvent, EndReason, MessageId, ResultMetadata, ToolConfirm, ToolStatus};
    use toolgate_conversation::{LiveEvent, Participant};
    use toolgate_types::CallId;

    use super::*;

    /// Each event of the agent, with all that it can have and with nothing that it can lack.
    fn agent_events(is_full: bool) -> Vec<ChatEvent> {
        let (message_id, tool_id) = (MessageId::from("m"), CallId::fresh());
        let (tool_name, text) = ("tool".to_owned(), "text".to_owned());
        let some = |value: Value| Some(value).filter(|_| is_full);
        let id = || message_id.clone();
        let metadata = ResultMetadata {
            call_id: tool_id,
            duration_ms: 1,
            waited_ms: Some(1).filter(|_| is_full),
            decision: "ALLOWED",
            stage: Some("EXECUTION").filter(|_| is_full),
            code: Some("timeout").filter(|_| is_full),
            structured: some(json!({})),
            changed_input: some(json!({})),
            facts: Map::new(),
            full_output: None,
            operator_note: None,
        };
        let word = |text: &str| Some(text.to_owned()).filter(|_| is_full);
        vec![
            ChatEvent::TextDelta { message_id: id(), text: text.clone() },
            ChatEvent::ThinkingDelta { message_id: id(), text: text.clone() },
            ChatEvent::ToolInputDelta {
                message_id: id(),
                tool_id,
                tool_name: tool_name.clone(),
                chunk: text.clone(),
            },
            ChatEvent::ToolStart {
                message_id: id(),
                tool_id,
                tool_name: tool_name.clone(),
                input: json!({}),
                input_text: word("x"),
            },
            ChatEvent::ToolDelta { message_id: id(), tool_id, chunk: text.clone() },
            ChatEvent::ToolConfirm(Box::new(confirm(is_full, id(), tool_id))),
            ChatEvent::ToolWithdrawn { message_id: id(), tool_id },
            ChatEvent::ToolResult {
                message_id: id(),
                tool_id,
                tool_name,
                status: ToolStatus::Denied,
                result: text.clone(),
                coloured: word("x"),
                metadata: Box::new(metadata),
            },
            ChatEvent::Plan { message_id: id(), tool_id, steps: Vec::new() },
            ChatEvent::Context {
                used_tokens: 1,
                context_window: Some(1).filter(|_| is_full),
                fraction: Some(0.5).filter(|_| is_full),
                warning: false,
            },
            ChatEvent::Notice { text: text.clone() },
            ChatEvent::Error {
                code: "c",
                message: text.clone(),
                retryable: true,
                attempt: Some(1).filter(|_| is_full),
                wait_ms: Some(1).filter(|_| is_full),
                voided: Some(id()).filter(|_| is_full),
            },
            ChatEvent::StreamEnd {
                reason: EndReason::Done,
                text,
                usage: toolgate_llm::Usage::default(),
                iterations: 1,
                session_id: "s".parse().ok().filter(|_| is_full),
            },
        ]
    }

    fn confirm(is_full: bool, message_id: MessageId, tool_id: CallId) -> ToolConfirm {
        let word = || Some("x".to_owned()).filter(|_| is_full);
        ToolConfirm {
            message_id,
            tool_id,
            tool_name: "tool".to_owned(),
            input: json!({}),
            class: toolgate_types::ToolClass::Write,
            summary: vec!["x".to_owned()],
            text: word(),
            diff: word(),
            card: toolgate_gate::ApprovalCard {
                tool: "tool".to_owned(),
                summary: Vec::new(),
                warnings: Vec::new(),
                body: None,
                digest: "d".to_owned(),
            },
            timeout_ms: 1,
            expires_at: "t".to_owned(),
            escalations: match is_full {
                true => vec![toolgate_agent::EscalationChoice { id: "i".to_owned(), text: "t".to_owned() }],
                false => Vec::new(),
            },
            may_last: true,
            grants: Vec::new(),
        }
    }

    fn live_events(is_full: bool) -> Vec<LiveEvent> {
        let word = || Some("x".to_owned()).filter(|_| is_full);
        let by = || Participant { subject: "a".to_owned(), client: word(), via: "web" };
        vec![
            LiveEvent::UserMessage {
                message_id: "m".to_owned(),
                text: "t".to_owned(),
                by: by(),
                attachments: word().into_iter().collect(),
            },
            LiveEvent::ToolAnswered {
                tool_id: CallId::fresh(),
                approved: true,
                scope: "once",
                by: by(),
                reason: word(),
                changed: is_full,
            },
            LiveEvent::Session {
                title: word(),
                model: word(),
                trust: Some(toolgate_types::Trust::Guided).filter(|_| is_full),
            },
        ]
    }

    /// A new event fails to compile here until it is among the samples.
    fn is_sampled(agent: &ChatEvent, live: &LiveEvent) {
        match agent {
            ChatEvent::TextDelta { .. }
            | ChatEvent::ThinkingDelta { .. }
            | ChatEvent::ToolInputDelta { .. }
            | ChatEvent::ToolStart { .. }
            | ChatEvent::ToolDelta { .. }
            | ChatEvent::ToolConfirm(_)
            | ChatEvent::ToolWithdrawn { .. }
            | ChatEvent::ToolResult { .. }
            | ChatEvent::Plan { .. }
            | ChatEvent::Context { .. }
            | ChatEvent::Notice { .. }
            | ChatEvent::Error { .. }
            | ChatEvent::StreamEnd { .. } => {}
        }
        match live {
            LiveEvent::UserMessage { .. } | LiveEvent::ToolAnswered { .. } | LiveEvent::Session { .. } => {}
        }
    }

    fn names(value: &Value) -> Vec<String> {
        let mut names: Vec<String> = match value {
            Value::Array(items) => items.iter().map(|item| item.as_str().unwrap().to_owned()).collect(),
            Value::Object(fields) => fields.keys().cloned().collect(),
            other => panic!("{other}"),
        };
        names.sort();
        names
    }

    /// What an event of a session can have.
    fn properties(schema: &Value) -> Vec<String> {
        let of_problems =
            |name: &String| OF_PROBLEMS.iter().any(|(field, _)| field.trim_end_matches('?') == name);
        let is_error = schema["properties"].get("retryable").is_some();
        names(&schema["properties"]).into_iter().filter(|name| !is_error || !of_problems(name)).collect()
    }

    fn compare(event: &impl Serialize, is_full: bool) {
        let event = serde_json::to_value(event).unwrap();
        let name = event["event"].as_str().unwrap();
        let schemas = event_schemas();
        let schema = &schemas[schema_of_event(name).unwrap_or_else(|| panic!("{name} has no schema"))];
        let mut expected = vec![(names(&event["data"]), schema)];
        if let Some(metadata) = event["data"].get("metadata") {
            expected.push((names(metadata), &schemas["ResultMetadata"]));
        }
        for (fields, schema) in expected {
            match is_full {
                true => assert_eq!(fields, properties(schema), "{name}"),
                false => assert_eq!(fields, names(&schema["required"]), "{name}"),
            }
        }
    }

    #[test]
    fn events_are_what_the_document_says() {
        for is_full in [true, false] {
            let (agent, live) = (agent_events(is_full), live_events(is_full));
            is_sampled(&agent[0], &live[0]);
            assert_eq!(agent.len() + live.len() + 4, EVENTS.len(), "four are of one connection alone");
            agent.iter().for_each(|event| compare(event, is_full));
            live.iter().for_each(|event| compare(event, is_full));
        }
    }
}

//! The OpenAPI 3.1 document, generated from the list of operations and the types that they read and write.
//!
//! No framework for this is used: `utoipa` wants its own derive beside the one that the tools' schemas have already, and `aide` its own router; the list
//! of operations is all that either would add.

use axum::Json;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::dto;
use crate::routes::{AnswerContent, ApiOperation, BASE, OPERATIONS};

pub(crate) async fn serve() -> Json<Value> {
    Json(document())
}

/// The document.
#[must_use]
pub fn document() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut generator = settings.into_generator();
    let mut paths = Map::new();
    for operation in OPERATIONS {
        let item = paths.entry(format!("{BASE}{}", operation.path)).or_insert_with(|| json!({}));
        if let Value::Object(item) = item {
            item.insert(operation.method.to_owned(), describe(operation, &mut generator));
        }
    }
    generator.subschema_for::<dto::ScopeDto>();
    let mut schemas = generator.take_definitions(true);
    schemas.insert("Problem".to_owned(), problem());
    schemas.extend(event_schemas());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Toolgate",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Conversations, calls, approvals, changes and the record of a gate. Events come over the WebSocket `/ws?session=ID&after=SEQ`, or as server-sent events.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}, {"cookie": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "toolgate-PORT"},
            },
        },
    })
}

fn describe(operation: &ApiOperation, generator: &mut SchemaGenerator) -> Value {
    let mut described = json!({
        "operationId": operation.id,
        "summary": operation.summary,
        "responses": {
            operation.status.to_string(): answer(operation, generator),
            "default": {
                "description": "A problem",
                "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
            },
        },
    });
    let parameters: Vec<Value> = path_parameters(operation.path)
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .chain(operation.query.iter().map(|(name, kind)| {
            let schema = match *kind {
                "integer" => json!({"type": "integer", "minimum": 0}),
                kind => json!({"type": kind}),
            };
            json!({"name": name, "in": "query", "required": false, "schema": schema})
        }))
        .chain((operation.method != "get").then(|| {
            json!({
                "name": "Idempotency-Key", "in": "header", "required": false,
                "description": "A repeated request with this key gets the first answer.",
                "schema": {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[!-~]+$"},
            })
        }))
        .collect();
    if let Value::Object(described) = &mut described {
        if !parameters.is_empty() {
            described.insert("parameters".to_owned(), Value::Array(parameters));
        }
        if let Some(body) = operation.body {
            let content = json!({"application/json": {"schema": body(generator)}});
            described.insert("requestBody".to_owned(), json!({"required": true, "content": content}));
        }
    }
    described
}

fn answer(operation: &ApiOperation, generator: &mut SchemaGenerator) -> Value {
    let content = match operation.answer {
        AnswerContent::Json(schema) => json!({"application/json": {"schema": schema(generator)}}),
        AnswerContent::AnyJson => json!({"application/json": {"schema": {"type": "object"}}}),
        AnswerContent::Text(kind) => json!({kind: {"schema": {"type": "string"}}}),
        AnswerContent::Empty => return json!({"description": operation.summary}),
    };
    json!({"description": operation.summary, "content": content})
}

fn path_parameters(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

fn problem() -> Value {
    json!({
        "type": "object",
        "description": "An error (RFC 9457)",
        "required": ["type", "title", "status", "code", "detail"],
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "code": {"type": "string", "description": "A stable code"},
            "stage": {"type": "string", "description": "The stage of the gate that refused"},
            "detail": {"type": "string"},
            "help": {"type": "string"},
        },
    })
}

/// The schemas of the data of each event.
#[must_use]
pub fn event_schemas() -> Map<String, Value> {
    let text = || json!({"type": "string"});
    let object = |required: &[&str], properties: Value| json!({"type": "object", "required": required, "properties": properties});
    let by = || json!({"$ref": "#/components/schemas/By"});
    let number = || json!({"type": "integer"});
    let flag = || json!({"type": "boolean"});
    let delta = || object(&["messageId", "text"], json!({"messageId": text(), "text": text()}));
    let events = [
        (
            "ChatUserMessage",
            object(
                &["messageId", "text", "by"],
                json!({"messageId": text(), "text": text(), "by": by(), "attachments": {"type": "array", "items": text()}}),
            ),
        ),
        ("ChatTextDelta", delta()),
        ("ChatThinkingDelta", delta()),
        (
            "ChatToolInputDelta",
            object(
                &["messageId", "toolId", "toolName", "chunk"],
                json!({"messageId": text(), "toolId": text(), "toolName": text(), "chunk": text()}),
            ),
        ),
        (
            "ChatToolStart",
            object(
                &["messageId", "toolId", "toolName", "input"],
                json!({"messageId": text(), "toolId": text(), "toolName": text(), "input": {}, "inputText": text()}),
            ),
        ),
        (
            "ChatToolDelta",
            object(
                &["messageId", "toolId", "chunk"],
                json!({"messageId": text(), "toolId": text(), "chunk": text()}),
            ),
        ),
        (
            "ChatToolConfirm",
            object(
                &[
                    "messageId",
                    "toolId",
                    "toolName",
                    "input",
                    "class",
                    "summary",
                    "card",
                    "timeoutMs",
                    "expiresAt",
                    "mayLast",
                    "grants",
                ],
                json!({
                    "messageId": text(), "toolId": text(), "toolName": text(), "input": {}, "class": text(),
                    "summary": {"type": "array", "items": text()}, "text": text(), "diff": text(), "card": {"type": "object"},
                    "timeoutMs": number(), "expiresAt": text(), "mayLast": flag(),
                    "grants": {"type": "array", "items": {"type": "object"}},
                    "escalations": {"type": "array", "items": {"$ref": "#/components/schemas/Escalation"}},
                }),
            ),
        ),
        (
            "ChatToolAnswered",
            object(
                &["toolId", "approved", "scope", "by"],
                json!({"toolId": text(), "approved": flag(), "scope": text(), "by": by(), "reason": text(), "changed": flag()}),
            ),
        ),
        (
            "ChatToolWithdrawn",
            object(&["messageId", "toolId"], json!({"messageId": text(), "toolId": text()})),
        ),
        (
            "ChatToolResult",
            object(
                &["messageId", "toolId", "toolName", "status", "result", "metadata"],
                json!({
                    "messageId": text(), "toolId": text(), "toolName": text(), "status": {"enum": ["success", "error"]},
                    "result": text(), "metadata": {"type": "object"},
                }),
            ),
        ),
        (
            "ChatContext",
            object(
                &["usedTokens", "contextWindow", "fraction", "warning"],
                json!({
                    "usedTokens": number(), "contextWindow": {"type": ["integer", "null"]},
                    "fraction": {"type": ["number", "null"]}, "warning": flag(),
                }),
            ),
        ),
        ("ChatNotice", object(&["text"], json!({"text": text()}))),
        (
            "ChatError",
            object(
                &["code", "message", "retryable"],
                json!({"code": text(), "message": text(), "retryable": flag(), "attempt": number(), "waitMs": number(), "voided": text()}),
            ),
        ),
        (
            "ChatStreamEnd",
            object(
                &["reason", "text", "usage", "iterations"],
                json!({"reason": text(), "text": text(), "usage": {"type": "object"}, "iterations": number(), "sessionId": text()}),
            ),
        ),
        ("ChatSession", object(&[], json!({"title": text(), "model": text(), "trust": text()}))),
        (
            "ChatHello",
            object(
                &["session", "client", "seq", "running", "heartbeatMs"],
                json!({
                    "session": {"$ref": "#/components/schemas/Session"}, "client": text(), "seq": number(),
                    "running": flag(), "heartbeatMs": number(),
                }),
            ),
        ),
        ("ChatReset", object(&["seq"], json!({"seq": number()}))),
    ];
    events.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The committed document, which clients are generated from. `TOOLGATE_OPENAPI=update cargo test -p toolgate-api` writes it anew; read the difference.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test compares a file of the source tree")]
    fn the_committed_document_is_the_generated_one() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.json");
        let text = serde_json::to_string_pretty(&document()).unwrap() + "\n";
        if std::env::var("TOOLGATE_OPENAPI").is_ok_and(|what| what == "update") {
            std::fs::write(&file, &text).unwrap();
        }
        let committed = std::fs::read_to_string(&file).unwrap();
        assert!(
            committed == text,
            "crates/api/openapi.json is not up to date: TOOLGATE_OPENAPI=update cargo test -p toolgate-api"
        );
    }

    #[test]
    fn every_reference_of_the_document_leads_somewhere() {
        fn references<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
            match value {
                Value::Object(fields) => {
                    found.extend(fields.get("$ref").and_then(Value::as_str));
                    fields.values().for_each(|value| references(value, found));
                }
                Value::Array(items) => items.iter().for_each(|value| references(value, found)),
                _ => {}
            }
        }
        let document = document();
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 40, "{}", found.len());
        for reference in found {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }
}

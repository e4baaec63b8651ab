//! The OpenAPI 3.1 document, generated from the list of operations and the types that they read and write.
//!
//! No framework for this is used: `utoipa` wants its own derive beside the one that the tools' schemas have already, and `aide` its own router; the list
//! of operations is all that either would add.

mod events;
mod streams;

use axum::Json;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

pub use self::events::{event_schemas, schema_of_event};
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
    paths.extend(streams::paths());
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
            "responses": problem_answers(),
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
        },
    });
    for status in operation.problems() {
        if let Some(responses) = described.get_mut("responses").and_then(Value::as_object_mut) {
            responses.insert(status.to_string(), problem_answer(status));
        }
    }
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

/// Every status that a problem has, and what it says.
const PROBLEMS: &[(u16, &str)] = &[
    (400, "The body is not JSON, or is nested too deeply"),
    (401, "No token or cookie that counts"),
    (403, "This caller may not do that, or the request comes from another site"),
    (404, "There is no such thing, or it is another caller's"),
    (408, "The body did not arrive in time"),
    (409, "It cannot be done as things are now"),
    (413, "The body is too long"),
    (415, "The body is not sent as JSON"),
    (422, "The request does not fit"),
    (429, "Too many requests"),
    (500, "This machine failed; the log of the gate has the reason"),
    (502, "The model's server failed"),
    (503, "Too many streams or long requests, or the gate is closing"),
];

/// A reference to what is answered with this status.
fn problem_answer(status: u16) -> Value {
    json!({"$ref": format!("#/components/responses/Problem{status}")})
}

fn problem_answers() -> Map<String, Value> {
    let content = json!({"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}});
    let answer = |(status, description): &(u16, &str)| {
        (format!("Problem{status}"), json!({"description": description, "content": content}))
    };
    PROBLEMS.iter().map(answer).collect()
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

//! The paths of the document that are no operations of the API: the login of browsers, and the WebSocket.

use serde_json::{Map, Value, json};

use super::problem_answer;

pub(super) fn paths() -> Map<String, Value> {
    let paths = [
        ("/api/v1/login", json!({"post": login()})),
        ("/api/v1/logout", json!({"post": logout()})),
        ("/ws", json!({"get": socket()})),
    ];
    paths.into_iter().map(|(path, item)| (path.to_owned(), item)).collect()
}

fn with_problems(mut operation: Value, statuses: &[u16]) -> Value {
    if let Some(responses) = operation.get_mut("responses").and_then(Value::as_object_mut) {
        responses.extend(statuses.iter().map(|status| (status.to_string(), problem_answer(*status))));
    }
    operation
}

fn login() -> Value {
    let body = json!({
        "type": "object", "required": ["token"], "additionalProperties": false,
        "properties": {"token": {"type": "string", "description": "The token of `keys/serve.token`; with `--auth jwt` the token of the caller"}},
    });
    let answer = json!({
        "type": "object", "required": ["subject", "auth"],
        "properties": {"subject": {"type": "string"}, "auth": {"type": "string"}},
    });
    let operation = json!({
        "operationId": "login",
        "summary": "Exchanges a token for the cookie of a browser",
        "security": [],
        "requestBody": {"required": true, "content": {"application/json": {"schema": body}}},
        "responses": {"200": {
            "description": "The cookie is set",
            "headers": {"Set-Cookie": {"schema": {"type": "string"}}},
            "content": {"application/json": {"schema": answer}},
        }},
    });
    with_problems(operation, &[400, 401, 403, 404, 408, 413, 429, 503])
}

fn logout() -> Value {
    let operation = json!({
        "operationId": "logout",
        "summary": "Removes the cookie; a request without an `Origin` of this server is refused",
        "security": [],
        "responses": {"204": {"description": "The cookie is removed"}},
    });
    with_problems(operation, &[403])
}

fn socket() -> Value {
    let parameter = |name: &str, is_required: bool, schema: Value| json!({"name": name, "in": "query", "required": is_required, "schema": schema});
    let operation = json!({
        "operationId": "openSocket",
        "summary": "The WebSocket of a session: its messages are `ChatFrame`s",
        "parameters": [
            parameter("session", true, json!({"type": "string"})),
            parameter("after", false, json!({"type": "integer", "minimum": 0})),
        ],
        "responses": {"101": {"description": "The connection is a WebSocket"}},
    });
    with_problems(operation, &[401, 403, 404, 422, 429, 500, 503])
}

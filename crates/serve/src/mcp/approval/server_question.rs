//! Questions of servers behind the gate, as the client's person sees them: in the server's words, framed so that they cannot be taken for a question of the
//! gate.

use std::collections::BTreeMap;

use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, InputRequest, InputRequiredResult,
    InputResponses,
};
use serde_json::{Map, Value};
use toolgate_gate::{QuestionBody, ServerAnswer, ServerQuestion};
use toolgate_text::confusables::{Charset, Escaping, TextKind, WrapMode, wrap_rows};

use super::form::ANSWER_KEY;
use super::question_text::{EDGE, MAX_COLUMNS};

/// The key of the answer if the server has none that may be used.
const FALLBACK_KEY: &str = "question";

/// The question, for both protocols; `None` if this client cannot show it.
pub(super) fn server_form(question: &ServerQuestion, can_open: bool) -> Option<ElicitRequestParams> {
    let message = render(question);
    match &question.body {
        QuestionBody::Form(_) => {
            let requested_schema = serde_json::from_value(question.body.schema()).ok()?;
            Some(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema })
        }
        QuestionBody::Url { url, id } => can_open.then(|| ElicitRequestParams::UrlElicitationParams {
            meta: None,
            message,
            url: url.clone(),
            elicitation_id: id.clone(),
        }),
    }
}

/// The server's words between two rows of the gate. Every row of the server has a prefix.
fn render(question: &ServerQuestion) -> String {
    let (server, tool) = (&question.server, &question.tool);
    let mut text = format!(
        "The MCP server {server} asks you something while it runs {tool}. This is not a question of Toolgate, and no answer approves a call.\n"
    );
    let escaping = Escaping { content: TextKind::Remark, charset: Charset::Unicode };
    let lines = question.message.lines().filter(|line| !line.trim().is_empty());
    for row in lines.flat_map(|line| wrap_rows(&escaping.line(line, 0), MAX_COLUMNS, WrapMode::Anywhere)) {
        text.push_str(&format!("{EDGE}{row}\n"));
    }
    let asked = match &question.body {
        QuestionBody::Form(_) => "What you answer goes to this server".to_owned(),
        QuestionBody::Url { url, .. } => format!("It wants you to open {url}"),
    };
    let (left, until) = (question.timeout.as_secs(), question.expires_at_rfc3339());
    text.push_str(&format!("{asked}. You can decline. Waits {left} s, until {until}."));
    text
}

/// The question as an `input_required` result (stateless protocol).
pub(crate) fn server_input_required(
    question: &ServerQuestion,
    can_open: bool,
    state: String,
) -> Option<InputRequiredResult> {
    let asked = InputRequest::Elicitation(ElicitRequest::new(server_form(question, can_open)?));
    let requests = BTreeMap::from([(key(question).to_owned(), asked)]);
    Some(InputRequiredResult::new(Some(requests), Some(state)))
}

/// The key of the answer: the server's, if it is not that of approvals.
fn key(question: &ServerQuestion) -> &str {
    question.key.as_deref().filter(|key| *key != ANSWER_KEY).unwrap_or(FALLBACK_KEY)
}

/// The person's answer in a repeated request (stateless protocol), if it contains one that fits.
pub(crate) fn server_answer_in(
    question: &ServerQuestion,
    responses: Option<&InputResponses>,
) -> Option<ServerAnswer> {
    let answer = responses?.get(key(question))?.clone();
    let result: ElicitResult = serde_json::from_value(answer).ok()?;
    match server_answer(&result) {
        ServerAnswer::Accepted(content) => question.accept(content).map(ServerAnswer::Accepted),
        other => Some(other),
    }
}

/// The person's answer.
pub(super) fn server_answer(result: &ElicitResult) -> ServerAnswer {
    match result.action {
        ElicitationAction::Accept => ServerAnswer::Accepted(match &result.content {
            Some(Value::Object(content)) => content.clone(),
            _ => Map::new(),
        }),
        ElicitationAction::Decline => ServerAnswer::Declined,
        _ => ServerAnswer::Cancelled,
    }
}

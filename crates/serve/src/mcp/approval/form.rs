//! The elicitation form, and parsing its answer. The accept action is the approval; the form only chooses its
//! scope.

use std::collections::BTreeMap;

use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema, EnumSchema,
    InputRequest, InputRequiredResult, InputResponses, PrimitiveSchemaDefinition,
};
use serde_json::Value;
use toolgate_gate::{ApprovalReply, ApprovalRequest, ApprovalUnavailable};

use super::question_text::{MAX_QUESTION_BYTES, QuestionTooLong, render_question};

/// The key of the answer in `inputResponses`.
pub(crate) const ANSWER_KEY: &str = "approval";

/// For how long the approval is.
const SCOPE_FIELD: &str = "scope";

/// What is allowed beyond the configuration.
const ALLOW_FIELD: &str = "allow";

/// The value of [`ALLOW_FIELD`] that allows nothing more.
const NOTHING: &str = "nothing";

/// The form, for both protocols. Fails if the question is too long to be shown whole.
pub(super) fn form(question: &ApprovalRequest) -> Result<ElicitRequestParams, ApprovalUnavailable> {
    let message = render_question(question).map_err(|QuestionTooLong(bytes)| {
        let most = MAX_QUESTION_BYTES / 1024;
        ApprovalUnavailable::with_reason(format!("is too long to be shown whole ({bytes} bytes)"))
            .with_remedy(format!("make it in parts of at most {most} KiB"))
    })?;
    let lasting = scope(question).map(|scope| (SCOPE_FIELD.to_owned(), scope));
    let more = (!question.escalations.is_empty()).then(|| (ALLOW_FIELD.to_owned(), allow(question)));
    let schema = ElicitationSchema::new(lasting.into_iter().chain(more).collect());
    Ok(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema: schema })
}

/// What an acceptance can cover: this call, every later call of the tool in the session, or a lasting grant by the id of its offer. `None` if it can
/// only be this call.
fn scope(question: &ApprovalRequest) -> Option<PrimitiveSchemaDefinition> {
    let session = question
        .can_grant_session
        .then(|| ("session".to_owned(), "every later call of this tool in this session".to_owned()));
    let grants = question.grants.iter().map(|offer| (offer.id.clone(), offer.words()));
    let wider: Vec<(String, String)> = session.into_iter().chain(grants).collect();
    if wider.is_empty() {
        return None;
    }
    let once = [("once".to_owned(), "this call alone".to_owned())];
    let choices: Vec<(String, String)> = once.into_iter().chain(wider).collect();
    let names: Vec<String> = choices.iter().map(|(name, _)| name.clone()).collect();
    let described: Vec<String> = choices.iter().map(|(name, words)| format!("{name}: {words}")).collect();
    let choice =
        || EnumSchema::builder(names.clone()).title("For how long").description(described.join("; "));
    let with_default = choice().with_default("once").map(|choice| choice.build());
    Some(PrimitiveSchemaDefinition::Enum(with_default.unwrap_or_else(|_| choice().build())))
}

fn allow(question: &ApprovalRequest) -> PrimitiveSchemaDefinition {
    let ids = question.escalations.iter().map(|offer| offer.id.clone());
    let texts = question.escalations.iter().map(|offer| format!("{}: {}", offer.id, offer.text()));
    let described = texts.collect::<Vec<_>>().join("; ");
    let choice = || {
        EnumSchema::builder(std::iter::once(NOTHING.to_owned()).chain(ids.clone()).collect())
            .title("What it lacked before")
            .description(described.clone())
    };
    let with_default = choice().with_default(NOTHING).map(|choice| choice.build());
    PrimitiveSchemaDefinition::Enum(with_default.unwrap_or_else(|_| choice().build()))
}

/// The question as an `input_required` result (stateless protocol).
pub(crate) fn input_required(
    question: &ApprovalRequest,
    state: String,
) -> Result<InputRequiredResult, ApprovalUnavailable> {
    let asked = InputRequest::Elicitation(ElicitRequest::new(form(question)?));
    Ok(InputRequiredResult::new(Some(BTreeMap::from([(ANSWER_KEY.to_owned(), asked)])), Some(state)))
}

/// The person's answer in a repeated request (stateless protocol), if it contains one.
pub(super) fn reply_to(responses: Option<&InputResponses>) -> Option<ApprovalReply> {
    let answer = responses?.get(ANSWER_KEY)?.clone();
    serde_json::from_value::<ElicitResult>(answer).ok().map(|result| reply(&result))
}

/// The person's answer. Only the accept action approves.
pub(super) fn reply(result: &ElicitResult) -> ApprovalReply {
    match result.action {
        ElicitationAction::Accept => {
            let field =
                |name| result.content.as_ref().and_then(|content| content.get(name)).and_then(Value::as_str);
            if let Some(id) = field(ALLOW_FIELD).filter(|id| *id != NOTHING) {
                return ApprovalReply::Escalated(vec![id.to_owned()]);
            }
            match field(SCOPE_FIELD) {
                None | Some("once") => ApprovalReply::Once,
                Some("session") => ApprovalReply::ForSession,
                // The gate accepts only what it offered.
                Some(grant) => ApprovalReply::Granted(grant.to_owned()),
            }
        }
        ElicitationAction::Cancel => ApprovalReply::Dismissed,
        _ => ApprovalReply::Denied(None),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_an_acceptance_is_a_yes() {
        for (answer, expected) in [
            (json!({"action": "accept"}), Some(ApprovalReply::Once)),
            (json!({"action": "accept", "content": {}}), Some(ApprovalReply::Once)),
            (json!({"action": "accept", "content": {"scope": "once"}}), Some(ApprovalReply::Once)),
            (json!({"action": "accept", "content": {"scope": "session"}}), Some(ApprovalReply::ForSession)),
            (
                json!({"action": "accept", "content": {"scope": "forever"}}),
                Some(ApprovalReply::Granted("forever".to_owned())),
            ),
            (json!({"action": "accept", "content": {"scope": true}}), Some(ApprovalReply::Once)),
            (json!({"action": "accept", "content": {"allow": "nothing"}}), Some(ApprovalReply::Once)),
            (
                json!({"action": "accept", "content": {"allow": "host-1", "scope": "session"}}),
                Some(ApprovalReply::Escalated(vec!["host-1".to_owned()])),
            ),
            (json!({"action": "decline", "content": {"allow": "host-1"}}), Some(ApprovalReply::Denied(None))),
            (
                json!({"action": "decline", "content": {"scope": "session"}}),
                Some(ApprovalReply::Denied(None)),
            ),
            (json!({"action": "cancel", "content": {"scope": "session"}}), Some(ApprovalReply::Dismissed)),
            (json!({"action": "yes"}), None),
            (json!({"action": true}), None),
            (json!({}), None),
            (json!("accept"), None),
            (json!(null), None),
            (json!(1), None),
            (json!([{"action": "accept"}]), None),
        ] {
            let responses = InputResponses::from([(ANSWER_KEY.to_owned(), answer.clone())]);
            assert_eq!(reply_to(Some(&responses)), expected, "{answer}");
        }
        assert_eq!(reply_to(None), None);
        let elsewhere = InputResponses::from([("other".to_owned(), json!({"action": "accept"}))]);
        assert_eq!(reply_to(Some(&elsewhere)), None);
    }
}

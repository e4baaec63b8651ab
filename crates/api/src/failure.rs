//! Errors of operations as problem details. None names a path of this machine.

use axum::http::StatusCode;
use serde_json::json;
use toolgate_conversation::{AnswerError, ConversationError, ModelErrorKind};
use toolgate_gate::UndoError;
use toolgate_serve::Problem;
use toolgate_types::{ErrorCode, Failure, Stage};

use crate::dto::ParticipantDto;

/// The result of a handler.
pub(crate) type ApiResult<T> = Result<T, Problem>;

pub(crate) fn not_found(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "not_found", detail)
}

pub(crate) fn invalid(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_request", detail)
}

pub(crate) fn conflict(code: &'static str, detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::CONFLICT, code, detail)
}

pub(crate) fn unavailable(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail)
}

/// A failure of this machine. The reason is for the operator's log, not for a client: it may name a path.
pub(crate) fn internal(what: &str) -> Problem {
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", format!("{what} failed"))
        .help("the log of the gate has the reason")
}

pub(crate) fn of_conversation(error: ConversationError) -> Problem {
    match error {
        ConversationError::Unknown(_) => not_found("there is no such session"),
        ConversationError::Busy => conflict("busy", error.to_string()).help("wait for its end, or cancel it"),
        ConversationError::InUse => conflict("session_in_use", error.to_string())
            .help("leave it there first: `toolgate chat` or `run`"),
        ConversationError::Invalid { message, help } => with_help(invalid(message), help),
        ConversationError::Model(error) => {
            let problem = match error.kind {
                ModelErrorKind::Configuration => {
                    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "no_model", error.message)
                }
                ModelErrorKind::Provider => {
                    Problem::new(StatusCode::BAD_GATEWAY, "provider_error", error.message)
                }
                ModelErrorKind::Cancelled => unavailable(error.message),
                ModelErrorKind::Environment => return internal("preparing the model"),
            };
            with_help(problem, error.help)
        }
        ConversationError::Session(_) => internal("reading or storing the session"),
        ConversationError::Closing => unavailable(error.to_string()),
    }
}

pub(crate) fn of_answer(error: AnswerError) -> Problem {
    match error {
        AnswerError::Unknown => not_found(error.to_string()),
        AnswerError::Expired => conflict(ErrorCode::ApprovalExpired.as_str(), error.to_string())
            .stage(Stage::Approval.as_str())
            .help("the caller can make the call again"),
        AnswerError::Withdrawn => {
            conflict(ErrorCode::Cancelled.as_str(), error.to_string()).stage(Stage::Approval.as_str())
        }
        AnswerError::Answered(before) => conflict("already_answered", error_text(&before.approved))
            .stage(Stage::Approval.as_str())
            .with("answeredBy", json!(ParticipantDto::from(&before.by)))
            .with("approved", json!(before.approved))
            .with("scope", json!(before.scope.as_str())),
        AnswerError::Invalid(detail) => invalid(detail).stage(Stage::Approval.as_str()),
    }
}

fn error_text(approved: &bool) -> String {
    let how = if *approved { "approved" } else { "refused" };
    format!("this call was {how} already")
}

pub(crate) fn of_undo(error: &UndoError) -> Problem {
    let detail = match error {
        // The host path of the mount and the text of an I/O error stay here.
        UndoError::OtherMount { alias, .. } => {
            format!("the mount `{alias}` is not there now, or is another directory")
        }
        UndoError::Journal(_) => return internal("reading or writing the journal"),
        UndoError::NotRecorded(_) => "the undo could not be recorded, so nothing was restored".to_owned(),
        other => other.to_string(),
    };
    match error {
        UndoError::Unknown(_) | UndoError::Dropped(_) => not_found(detail),
        UndoError::NotRecorded(_) => unavailable(detail),
        UndoError::AlreadyUndone { by, .. } => conflict("already_undone", detail).with("undoneBy", json!(by)),
        UndoError::Conflict { .. } => conflict("conflict", detail)
            .help("repeat it with `force: true` to restore over what was changed since"),
        _ => conflict(error.code().as_str(), detail),
    }
}

/// A failure of the gate before there was a call.
pub(crate) fn of_failure(failure: &Failure) -> Problem {
    let (status, stage) = match failure.code {
        ErrorCode::Unauthenticated => (StatusCode::UNAUTHORIZED, Stage::Auth),
        ErrorCode::RateLimited => (StatusCode::TOO_MANY_REQUESTS, Stage::Permission),
        _ => (StatusCode::FORBIDDEN, Stage::Permission),
    };
    let problem = Problem::new(status, failure.code.as_str(), failure.message.clone());
    with_help(problem.stage(stage.as_str()), failure.help.clone())
}

/// Something that this caller may not do.
pub(crate) fn not_permitted(detail: &str, help: &str) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, "not_permitted", detail).stage(Stage::Permission.as_str()).help(help)
}

fn with_help(problem: Problem, help: Option<String>) -> Problem {
    match help {
        Some(help) => problem.help(help),
        None => problem,
    }
}

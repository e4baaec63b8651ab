//! How an earlier call of a session went.

use schemars::JsonSchema;
use serde::Serialize;
use toolgate_llm::RecordedOutcome;
use toolgate_types::{ErrorCode, Stage};

/// How a call went, as it is on record; the names are those of the metadata of `chat:tool-result`.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RecordedOutcome")]
pub(crate) struct RecordedDto {
    /// Its id, as recorded.
    call_id: String,
    /// `ALLOWED`, `DENIED` or `ERROR`.
    decision: String,
    /// The stage that refused it, or where it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    stage: Option<String>,
    /// The stable code of the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    /// How long it took, without the wait below.
    duration_ms: u64,
    /// How long a person was waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    waited_ms: Option<u64>,
    /// The exit code of a command.
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i64>,
}

impl From<RecordedOutcome> for RecordedDto {
    fn from(outcome: RecordedOutcome) -> Self {
        let RecordedOutcome { call_id, decision, stage, code, duration_ms, waited_ms, exit_code } = outcome;
        Self {
            call_id: call_id.to_string(),
            decision: decision.as_str().to_owned(),
            stage: stage.map(|stage| Stage::as_str(stage).to_owned()),
            code: code.map(|code| ErrorCode::as_str(code).to_owned()),
            duration_ms,
            waited_ms,
            exit_code,
        }
    }
}

//! The presentation of a tool proxy: declared tools, answered as `{ok, data}` or `{ok, error}`.

use serde_json::{Value, json};
use toolgate_types::Outcome;

use crate::profiled_gate::ModelAnswer;

/// The error codes are the gate's own.
pub(crate) fn render(outcome: Outcome) -> ModelAnswer {
    let (result, is_error) = match outcome {
        Outcome::Done(output) => (json!({"ok": true, "data": output.structured.into_value()}), false),
        Outcome::Failed { stage, failure } => {
            let mut details = failure.details;
            if let Some(help) = failure.help {
                details.insert("help".to_owned(), json!(help));
            }
            let error = json!({
                "code": failure.code.as_str(), "message": failure.message, "stage": stage.as_str(),
                "details": Value::Object(details),
            });
            (json!({"ok": false, "error": error}), true)
        }
    };
    ModelAnswer { text: result.to_string(), structured: Some(result.into()), is_error }
}

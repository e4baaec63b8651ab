//! The presentation of a tool proxy: declared tools, answered as `{ok, data}` or `{ok, error}`.

use std::time::Duration;

use serde_json::{Value, json};
use toolgate_manifest::ProfileName;
use toolgate_types::{Limits, Outcome};

use super::{AnswerShape, LIMITS, Profile, ProfileDefinition};
use crate::declared::SHIPPED;
use crate::profiled_gate::ModelAnswer;

impl Profile {
    /// What manifests declare, and nothing else.
    pub const PROXY: Self = Self(&ProfileDefinition {
        limits: Limits { timeout: Duration::from_secs(30), ..LIMITS },
        shipped: SHIPPED,
        strict_manifests: true,
        ..ProfileDefinition::new(ProfileName::Proxy, || &[], render, AnswerShape::Envelope("data"))
    });
}

fn render(_: &str, outcome: Outcome) -> ModelAnswer {
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

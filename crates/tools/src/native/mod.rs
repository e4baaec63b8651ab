//! Toolgate's own presentation: text for the model, and the same as structured JSON.

mod reading;
mod writing;

use serde_json::{Value, json};
use toolgate_command::output_before;
use toolgate_types::{Failure, Outcome, Stage};

use crate::file_tool::ToolDeclaration;
use crate::profiled_gate::ModelAnswer;

pub(crate) use reading::{about_file, content_notice, list_text};

pub(crate) fn tools() -> Vec<ToolDeclaration> {
    let mut tools = reading::tools();
    tools.extend(writing::tools());
    tools
}

/// A success is the tool's own text; a failure is the code, the message and the help.
pub(crate) fn render(outcome: Outcome) -> ModelAnswer {
    match outcome {
        Outcome::Done(output) => {
            ModelAnswer { text: output.text, structured: Some(output.structured), is_error: false }
        }
        Outcome::Failed { stage, failure } => ModelAnswer {
            text: failure_text(&failure),
            structured: Some(json!({"error": failure_json(stage, &failure)}).into()),
            is_error: true,
        },
    }
}

fn failure_text(failure: &Failure) -> String {
    let mut text = format!("{}: {}", failure.code.as_str(), failure.message);
    if let Some(help) = &failure.help {
        text.push_str("\nhelp: ");
        text.push_str(help);
    }
    text.push_str(&output_before(failure));
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn failure_json(stage: Stage, failure: &Failure) -> Value {
    let mut error =
        json!({"code": failure.code.as_str(), "message": failure.message, "stage": stage.as_str()});
    if let Value::Object(fields) = &mut error {
        if let Some(help) = &failure.help {
            fields.insert("help".to_owned(), json!(help));
        }
        if !failure.details.is_empty() {
            fields.insert("details".to_owned(), Value::Object(failure.details.clone()));
        }
    }
    error
}

//! Toolgate's own presentation: text for the model, and the same as structured JSON.

mod planning;
mod reading;
mod writing;

use std::sync::LazyLock;
use std::time::Duration;

use serde_json::{Value, json};
use toolgate_command::{ShellTimeouts, output_before};
use toolgate_manifest::ProfileName;
use toolgate_types::{Failure, Outcome, Stage};

use super::{AnswerShape, Profile, ProfileDefinition, scalar_members};
use crate::command_answer::{all_fields, shell_schema};
use crate::file_tool::ToolDeclaration;
use crate::profiled_gate::ModelAnswer;
use crate::shell::ShellPresentation;

pub(super) use reading::{content_notice, list_text};

impl Profile {
    /// Toolgate's own.
    pub const NATIVE: Self = Self(&ProfileDefinition {
        text_is_json: false,
        facts: scalar_members,
        shell: Some(&ShellPresentation {
            name: "run_command",
            title: "Run a command",
            description: "Run a shell line in a sandbox: the mounts are at /mnt/NAME (the workspace is /mnt/project), the rest of the system is \
                          read-only, and there is no network unless the operator opened some hosts. Answers with the output and the exit code. \
                          Nothing that was started goes on after the answer, unless `background` is set; each command has a loopback of its own.",
            has_background: true,
            output: shell_schema,
            prefers_bash: false,
            may_fetch: true,
            // A build takes longer than a minute.
            timeouts: ShellTimeouts {
                default: Some(Duration::from_secs(120)),
                max: Some(Duration::from_secs(600)),
            },
            answer: all_fields,
        }),
        searches_web: true,
        tracks_flow: true,
        ..ProfileDefinition::new(ProfileName::Native, tools, render, AnswerShape::Declared)
    });
}

fn tools() -> &'static [ToolDeclaration] {
    static TOOLS: LazyLock<Vec<ToolDeclaration>> = LazyLock::new(|| {
        reading::tools().into_iter().chain(writing::tools()).chain(planning::tools()).collect()
    });
    &TOOLS
}

/// A success is the tool's own text; a failure is the code, the message and the help.
fn render(_: &str, outcome: Outcome) -> ModelAnswer {
    match outcome {
        Outcome::Done(output) => ModelAnswer {
            text: output.text.into_string(),
            structured: Some(output.structured),
            is_error: false,
        },
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

//! `toolgate call`: one call through the whole gate.

use std::io::{self, IsTerminal as _, Read as _};

use serde_json::{Value, json};
use toolgate_gate::{CallOptions, Settled};
use toolgate_tools::Answer;
use toolgate_types::{ErrorCode, Outcome, ToolCall, Trust};

use super::{print, runtime};
use crate::arguments::Common;
use crate::build;
use crate::exit::{DENIED, DONE, Failed, INTERRUPTED, LIMIT, TOOL_ERROR};
use crate::settings::{Settings, settle};
use crate::terminal::{complain, reveal};

/// Arguments longer than this are no tool call.
const MAX_ARGUMENTS: u64 = 64 * 1024 * 1024;

pub(crate) fn run(common: &Common, tool: String, arguments: &str) -> Result<u8, Failed> {
    // A person typed the call, so nothing is asked unless somebody says so.
    let settings = settle(common, Trust::Autonomous)?;
    let arguments = parse_arguments(arguments)?;
    let built = build::gate(&settings, None)?;
    let call = ToolCall::new(tool.clone(), arguments);
    let calling = built.front.call(call, settings.caller.clone(), CallOptions::default());
    let (answer, settled) = runtime()?.block_on(calling);
    drop(built);
    if common.json {
        print(&format!("{}\n", envelope(&settings, &tool, &answer, &settled)))?;
    } else {
        print(&answer.text)?;
        if !answer.text.ends_with('\n') && (answer.text.starts_with('{') || io::stdout().is_terminal()) {
            print("\n")?;
        }
    }
    explain(&settled);
    Ok(exit_code(&settled.outcome))
}

fn parse_arguments(text: &str) -> Result<Value, Failed> {
    let text = match text {
        "-" => {
            let mut read = String::new();
            io::stdin().take(MAX_ARGUMENTS).read_to_string(&mut read).map_err(|error| {
                Failed::usage(format!("the arguments cannot be read from standard input: {error}"))
            })?;
            read
        }
        given => given.to_owned(),
    };
    serde_json::from_str(&text).map_err(|error| {
        Failed::usage(format!("the arguments are not JSON: {error}"))
            .help(r#"write an object in single quotes, such as '{"path": "README.md"}', or - to read it from standard input"#)
    })
}

fn envelope(settings: &Settings, tool: &str, answer: &Answer, settled: &Settled) -> Value {
    let mut value = json!({
        "call": settled.call, "profile": settings.profile.name(), "tool": tool,
        "decision": settled.outcome.decision().as_str(), "isError": answer.is_error,
        "text": answer.text, "structured": answer.structured, "durationMs": settled.duration.as_secs_f64() * 1e3,
    });
    if let (Outcome::Failed { stage, failure }, Value::Object(fields)) = (&settled.outcome, &mut value) {
        fields.insert("stage".to_owned(), json!(stage.as_str()));
        fields.insert("code".to_owned(), json!(failure.code.as_str()));
        fields.insert("operatorNote".to_owned(), json!(failure.operator_note));
    }
    value
}

/// What the person at the keyboard may know and the model may not.
fn explain(settled: &Settled) {
    if let Outcome::Failed { stage, failure } = &settled.outcome {
        let note =
            failure.operator_note.as_ref().map(|note| format!(": {}", reveal(note))).unwrap_or_default();
        let decision = settled.outcome.decision().as_str();
        complain(&format!(
            "{decision} at {} with {}{note} (call {})",
            stage.as_str(),
            failure.code.as_str(),
            settled.call
        ));
    }
}

fn exit_code(outcome: &Outcome) -> u8 {
    match outcome {
        Outcome::Done(_) => DONE,
        Outcome::Failed { failure, .. } => match failure.code {
            ErrorCode::Timeout => LIMIT,
            ErrorCode::Cancelled => INTERRUPTED,
            code if code.is_denial() => DENIED,
            _ => TOOL_ERROR,
        },
    }
}

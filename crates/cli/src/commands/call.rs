//! `toolgate call`: one call through the whole gate.

use std::io::{self, IsTerminal as _, Read as _};

use serde_json::{Value, json};
use toolgate_gate::CallOptions;
use toolgate_tools::Called;
use toolgate_types::{ErrorCode, Failure, Stage, ToolCall, Trust};

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
    let called = runtime()?.block_on(calling);
    drop(built);
    if common.json {
        print(&format!("{}\n", envelope(&settings, &tool, &called)))?;
    } else {
        let text = &called.answer.text;
        print(text)?;
        if !text.ends_with('\n') && (text.starts_with('{') || io::stdout().is_terminal()) {
            print("\n")?;
        }
    }
    if let Some((stage, failure)) = &called.failed {
        explain(&called, *stage, failure);
    }
    Ok(called.failed.map_or(DONE, |(_, failure)| exit_code(failure.code)))
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

fn envelope(settings: &Settings, tool: &str, called: &Called) -> Value {
    let Called { answer, call, decision, failed, duration } = called;
    let mut value = json!({
        "call": call, "profile": settings.profile.name(), "tool": tool,
        "decision": decision.as_str(), "isError": answer.is_error,
        "text": answer.text, "structured": answer.structured, "durationMs": duration.as_secs_f64() * 1e3,
    });
    if let (Some((stage, failure)), Value::Object(fields)) = (failed, &mut value) {
        fields.insert("stage".to_owned(), json!(stage.as_str()));
        fields.insert("code".to_owned(), json!(failure.code.as_str()));
        fields.insert("operatorNote".to_owned(), json!(failure.operator_note));
    }
    value
}

/// What the person at the keyboard may know and the model may not.
fn explain(called: &Called, stage: Stage, failure: &Failure) {
    let note = failure.operator_note.as_ref().map(|note| format!(": {}", reveal(note))).unwrap_or_default();
    let (decision, code) = (called.decision.as_str(), failure.code.as_str());
    complain(&format!("{decision} at {} with {code}{note} (call {})", stage.as_str(), called.call));
}

fn exit_code(code: ErrorCode) -> u8 {
    match code {
        ErrorCode::Timeout => LIMIT,
        ErrorCode::Cancelled => INTERRUPTED,
        code if code.is_denial() => DENIED,
        _ => TOOL_ERROR,
    }
}

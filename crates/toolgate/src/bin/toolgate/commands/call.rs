//! `toolgate call`: one call through the gate.

use std::collections::HashSet;
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use toolgate_assembly::gate_builder::{self, GateBuildOptions};
use toolgate_assembly::servers::ServerSelection;
use toolgate_assembly::settings::Settings;
use toolgate_gate::{CallOptions, Progress, ProgressUpdate};
use toolgate_tools::{CallResponse, WEB_SEARCH};
use toolgate_types::{Attachment, DocumentContent, ErrorCode, Failure, Stage, ToolCall, Trust};

use super::call_arguments::{CallInput, GivenArguments, typed_object};
use super::{StdoutStatus, close_servers, print, print_json, runtime, serving_runtime, token_verification};
use crate::arguments::GlobalOptions;
use crate::exit::{CliError, DENIED, INTERRUPTED, LIMIT, SUCCESS, TOOL_ERROR};
use crate::interrupt::Interrupt;
use crate::startup::resolve_settings;
use crate::terminal::{
    TerminalApprover, can_erase, debug, escape_control_chars, escape_json, escape_line, screen, wants_colour,
    warn,
};
use toolgate_render::StreamingWrapper;

/// Longer arguments are rejected.
const MAX_ARGUMENTS_BYTES: u64 = 64 * 1024 * 1024;

pub(crate) fn run(
    common: &GlobalOptions,
    tool: String,
    arguments: &[String],
    timeout: Option<Duration>,
) -> Result<u8, CliError> {
    // The user typed the call, so by default no approval is asked.
    let settings = resolve_settings(common, Trust::Autonomous)?;
    let given = GivenArguments::parse(arguments)?.read(parse_arguments)?;
    let credential = settings.credential(&common.overrides())?;
    let interrupt = Interrupt::install();
    let which = ServerSelection::of_tool(&tool, &settings.loaded.config.mcp_servers);
    let needs_network = which.is_some() || tool == WEB_SEARCH;
    let runtime = if needs_network { serving_runtime()? } else { runtime(token_verification(common))? };
    let approver = Arc::new(TerminalApprover { interrupt: interrupt.clone() });
    let servers = which.map(|which| (which, runtime.handle().clone()));
    let built = gate_builder::build_gate(
        &settings,
        GateBuildOptions {
            servers,
            wait_on: Some(&runtime),
            ..GateBuildOptions::without_servers(approver, token_verification(common))
        },
    )?;
    settings.warn_of_unknown_tools(&built.tools);
    let arguments = match given {
        CallInput::Object(value) => value,
        CallInput::Pairs(pairs) => {
            // A caller that is refused gets its refusal from the call below.
            let tools = runtime.block_on(built.gate.gate().tools_for(credential.clone())).unwrap_or_default();
            let spec = tools.iter().map(|known| known.spec()).find(|spec| spec.name.as_str() == tool);
            typed_object(&pairs, spec.map(|spec| &*spec.input_schema))?
        }
    };
    let call = ToolCall::new(tool.clone(), arguments);
    let shown = ProgressPrinter::on_terminal(common, &settings);
    let options = CallOptions {
        cancelled: interrupt.token(),
        interrupted: Some(interrupt.flag()),
        progress: shown.as_ref().map(ProgressPrinter::progress),
        timeout,
        by_person: true,
        ..CallOptions::default()
    };
    let calling = built.gate.call(call, credential, options);
    let called = runtime.block_on(async {
        // A signal's flag wakes no future: what waits for the network is woken by the token. Without a pipe the flag is polled between two waits.
        let _watching = needs_network.then(|| interrupt.watch().ok()).flatten();
        let called = calling.await;
        close_servers(built.servers.as_deref()).await;
        called
    });
    drop(built);
    shown.iter().for_each(ProgressPrinter::end);
    match common.json {
        true => print_json(&envelope(&settings, &tool, &called))?,
        false => print_answer(&settings, &called, shown.as_ref())?,
    };
    match &called.failed {
        Some((stage, failure)) => explain(&called, *stage, failure),
        None => debug(|| {
            let milliseconds = called.duration.as_secs_f64() * 1e3;
            format!("{} in {milliseconds:.1} ms (call {})", called.decision.as_str(), called.call)
        }),
    }
    Ok(called.failed.map_or(SUCCESS, |(_, failure)| exit_code(failure.code)))
}

/// Shows live output on the terminal, indented, so that no line of it can be mistaken for the gate's. It is not the result, which follows on standard
/// output; if that is the same terminal, what was already shown is not repeated.
struct ProgressPrinter(Arc<Mutex<LiveOutput>>);

struct LiveOutput {
    prose: StreamingWrapper,
    /// All text shown so far.
    words: String,
}

impl ProgressPrinter {
    fn on_terminal(common: &GlobalOptions, settings: &Settings) -> Option<Self> {
        let stderr = io::stderr();
        let colour = if wants_colour(true) { "2" } else { "" };
        let live = || LiveOutput {
            prose: StreamingWrapper::new(screen(&stderr).columns, can_erase(true), colour),
            words: String::new(),
        };
        // A result that is an object contains the output in another form, and would show it a second time.
        let is_twice = io::stdout().is_terminal() && settings.profile.answers_json();
        (!common.quiet && stderr.is_terminal() && !is_twice).then(|| Self(Arc::new(Mutex::new(live()))))
    }

    fn lock(&self) -> MutexGuard<'_, LiveOutput> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn progress(&self) -> Progress {
        let live = Self(Arc::clone(&self.0));
        Arc::new(move |said: ProgressUpdate<'_>| {
            let mut live = live.lock();
            live.words.push_str(said.text);
            let written = live.prose.push(said.text);
            let _ = write!(io::stderr(), "{written}");
        })
    }

    /// Ends the current row.
    fn end(&self) {
        let _ = write!(io::stderr(), "{}", self.lock().prose.end());
    }

    /// The part of a result that was not shown live.
    fn rest(&self, text: &str) -> String {
        let live = self.lock();
        if let Some(rest) = text.strip_prefix(live.words.as_str()) {
            return rest.to_owned();
        }
        // Truncated output, or lines overwritten with `\r`, differ from the result's text: its lines that were not shown remain.
        let shown: HashSet<&str> = live.words.split(['\n', '\r']).collect();
        let is_new = |line: &&str| !shown.contains(line.trim_end_matches(['\n', '\r']));
        text.split_inclusive('\n').filter(is_new).collect()
    }
}

/// Prints exactly what a model receives, and a line for each image, audio or document beside it. A line end is added for people and for readers of
/// consecutive objects. Control characters of file names and contents are escaped if standard output is a terminal, since it would obey them.
fn print_answer(
    settings: &Settings,
    called: &CallResponse,
    shown: Option<&ProgressPrinter>,
) -> Result<StdoutStatus, CliError> {
    let is_object = settings.profile.answers_json();
    let shown = shown.filter(|_| io::stdout().is_terminal());
    let mut text = shown.map_or_else(|| called.answer.text.clone(), |shown| shown.rest(&called.answer.text));
    let is_alone = called.attachments.is_empty();
    let ends = if is_alone { is_object || io::stdout().is_terminal() } else { !text.is_empty() };
    if ends && !text.ends_with('\n') && !(text.is_empty() && shown.is_some()) {
        text.push('\n');
    }
    text.extend(
        called
            .attachments
            .iter()
            .map(|attachment| format!("[{}]\n", escape_line(&describe_attachment(attachment)))),
    );
    match (io::stdout().is_terminal(), is_object) {
        (false, _) => print(&text),
        (true, false) => print(&escape_control_chars(&text)),
        (true, true) => print(&escape_json(&text)),
    }
}

/// The type and size of an attachment.
fn describe_attachment(attachment: &Attachment) -> String {
    let bytes = |base64: &str| {
        let digits = base64.trim_end_matches('=').len();
        format!("{} bytes", digits * 3 / 4)
    };
    match attachment {
        Attachment::Image { mime_type, data } => format!("image {mime_type}, {}", bytes(data)),
        Attachment::Audio { mime_type, data } => format!("audio {mime_type}, {}", bytes(data)),
        Attachment::Document { uri, mime_type, content } => {
            let kind = mime_type.as_ref().map(|kind| format!(" {kind}")).unwrap_or_default();
            let size = match content {
                DocumentContent::Text(text) => format!("{} bytes", text.len()),
                DocumentContent::Base64(data) => bytes(data),
            };
            format!("document {uri}{kind}, {size}")
        }
    }
}

/// An attachment as MCP content.
fn attachment_json(attachment: &Attachment) -> Value {
    match attachment {
        Attachment::Image { mime_type, data } => {
            json!({"type": "image", "mimeType": mime_type, "data": data})
        }
        Attachment::Audio { mime_type, data } => {
            json!({"type": "audio", "mimeType": mime_type, "data": data})
        }
        Attachment::Document { uri, mime_type, content } => {
            let (key, value) = match content {
                DocumentContent::Text(text) => ("text", text.as_str()),
                DocumentContent::Base64(data) => ("blob", data.as_str()),
            };
            json!({"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, key: value}})
        }
    }
}

fn parse_arguments(text: &str) -> Result<Value, CliError> {
    let text = match text {
        "-" => {
            let mut read = String::new();
            io::stdin().take(MAX_ARGUMENTS_BYTES).read_to_string(&mut read).map_err(|error| {
                CliError::usage(format!("the arguments cannot be read from standard input: {error}"))
            })?;
            read
        }
        given => given.to_owned(),
    };
    serde_json::from_str(&text).map_err(|error| {
        CliError::usage(format!("the arguments are not JSON: {error}"))
            .help(r#"write path=README.md, or an object in single quotes, such as '{"path": "README.md"}', or - to read it from standard input"#)
    })
}

/// The result and its metadata. It includes `operatorNote`, because `--json` output is for the operator: a runtime passes `text` or `structured` to
/// its model, and never the note.
fn envelope(settings: &Settings, tool: &str, called: &CallResponse) -> Value {
    let CallResponse { answer, call, decision, failed, duration, waited, changed, .. } = called;
    let mut value = json!({
        "call": call, "profile": settings.profile.name(), "tool": tool,
        "decision": decision.as_str(), "isError": answer.is_error,
        "text": answer.text, "structured": called.structured(), "durationMs": rounded_millis(*duration),
    });
    if let (false, Value::Object(fields)) = (waited.is_zero(), &mut value) {
        fields.insert("waitedMs".to_owned(), json!(rounded_millis(*waited)));
    }
    if let (Some(changed), Value::Object(fields)) = (changed, &mut value) {
        fields.insert("changedInput".to_owned(), changed.clone());
    }
    if let (false, Value::Object(fields)) = (called.attachments.is_empty(), &mut value) {
        fields.insert("attachments".to_owned(), called.attachments.iter().map(attachment_json).collect());
    }
    if let (Some((stage, failure)), Value::Object(fields)) = (failed, &mut value) {
        fields.insert("stage".to_owned(), json!(stage.as_str()));
        fields.insert("code".to_owned(), json!(failure.code.as_str()));
        fields.insert("operatorNote".to_owned(), json!(failure.operator_note));
    }
    value
}

/// Milliseconds to the microsecond, as in the record.
fn rounded_millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

/// Prints what the operator may see and the model may not.
fn explain(called: &CallResponse, stage: Stage, failure: &Failure) {
    let note = failure.operator_note.as_ref().map(|note| format!(": {note}")).unwrap_or_default();
    let (decision, code) = (called.decision.as_str(), failure.code.as_str());
    warn(&format!("{decision} at {} with {code}{note} (call {})", stage.as_str(), called.call));
    if let Some(aside) = &failure.terminal_note {
        warn(aside);
    }
}

fn exit_code(code: ErrorCode) -> u8 {
    match code {
        ErrorCode::Timeout | ErrorCode::RateLimited | ErrorCode::ResourceLimit => LIMIT,
        ErrorCode::Cancelled => INTERRUPTED,
        code if code.is_denial() => DENIED,
        _ => TOOL_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_no_more_digits_than_they_mean() {
        for (nanos, shown) in [(548_247, "0.548"), (17_874_000, "17.874"), (0, "0.0"), (1, "0.0")] {
            assert_eq!(json!(rounded_millis(Duration::from_nanos(nanos))).to_string(), shown);
        }
    }
}

//! A try as a conversation: a model, the agent loop, and the gate, in the process that ships.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::case::{Case, CaseCommands, ExpectedOutcome};
use crate::evidence::{Evidence, EvidencedCall, NOT_STARTED, field, json_lines, offered};
use crate::http_try::scripted_calls;
use crate::playground::Playground;
use crate::process::{self, FinishedProcess, finish};

/// How long a command that only reads may take.
const QUERY_TIMEOUT: Duration = Duration::from_secs(60);

/// Plays the case with this model; a scripted one by default.
pub(crate) fn play(
    binary: &Path,
    case: &Case,
    place: &Playground,
    model: Option<&str>,
    timeout: Duration,
) -> Result<Evidence, String> {
    for command in &case.gate.person {
        let command: Vec<String> = command.iter().map(|argument| place.fill(argument)).collect();
        let arguments: Vec<&str> = command.iter().map(String::as_str).collect();
        let finished = run(binary, case, place, &arguments, false, QUERY_TIMEOUT)?;
        if !finished.status.is_some_and(|status| status.success()) {
            return Err(format!("`toolgate {}` failed: {}", command.join(" "), finished.stderr.trim()));
        }
    }
    let offered = match offered_tools(binary, case, place) {
        Err(_) if case.expect.outcome == ExpectedOutcome::NotStarted => {
            return Ok(Evidence { reason: NOT_STARTED.to_owned(), ..Evidence::default() });
        }
        offered => offered?,
    };
    let mut evidence = Evidence { offered, ..Evidence::default() };
    let script = format!("scripted/{}", place.path("gate/script.yaml").display());
    let seconds = format!("{}s", timeout.as_secs().max(1));
    let trust = case.gate.trust.as_deref().unwrap_or("autonomous");
    let prompt = place.fill(&case.prompt);
    let mut options =
        vec!["--trust", trust, "run", "--model", model.unwrap_or(&script), "--time-limit", &seconds];
    options.extend(["--", prompt.as_str()]);
    // Beyond its own limit it hangs.
    let finished = run(binary, case, place, &options, model.is_some(), timeout.saturating_mul(2))?;
    let Some(status) = finished.status else { return Err("the conversation did not end".to_owned()) };
    let events = json_lines(&finished.stdout);
    let Some(end) = events.iter().rfind(|event| field(event, "/event") == "chat:stream-end") else {
        return Err(format!("the conversation ended with {status}: {}", finished.stderr.trim()));
    };
    field(end, "/data/reason").clone_into(&mut evidence.reason);
    field(end, "/data/text").clone_into(&mut evidence.answer);
    evidence.calls = answered_calls(&events);
    if case.gate.commands == Some(CaseCommands::Host) {
        run_unconfined(case, place)?;
    }
    Ok(evidence)
}

/// What the commands of the script do without a gate.
fn run_unconfined(case: &Case, place: &Playground) -> Result<(), String> {
    for (_, input) in scripted_calls(case, place).iter().filter(|(tool, _)| tool == "run_command") {
        let command = process::host_shell(field(input, "/command"), &place.path("workspace"));
        finish(command, QUERY_TIMEOUT).map_err(|error| format!("the host's shell: {error}"))?;
    }
    Ok(())
}

/// The record of the gate, and the state of its chain.
pub(crate) fn read_record(
    binary: &Path,
    case: &Case,
    place: &Playground,
    evidence: &mut Evidence,
) -> Result<(), String> {
    let show = ["audit", "show", "--limit", "1000000"];
    let records = run(binary, case, place, &show, false, QUERY_TIMEOUT)?;
    evidence.records = json_lines(&records.stdout);
    let verified = run(binary, case, place, &["audit", "verify"], false, QUERY_TIMEOUT)?;
    evidence.verified = json_lines(&verified.stdout).into_iter().next().unwrap_or(Value::Null);
    Ok(())
}

fn offered_tools(
    binary: &Path,
    case: &Case,
    place: &Playground,
) -> Result<Vec<crate::evidence::OfferedTool>, String> {
    let listed = run(binary, case, place, &["tools", "--format", "mcp"], false, QUERY_TIMEOUT)?;
    let unbuilt = || format!("the gate cannot be built: {}", listed.stderr.trim());
    // A mistake is JSON too.
    listed.status.filter(std::process::ExitStatus::success).ok_or_else(unbuilt)?;
    let list: Value = serde_json::from_str(&listed.stdout).map_err(|_| unbuilt())?;
    Ok(offered(&list))
}

fn run(
    binary: &Path,
    case: &Case,
    place: &Playground,
    arguments: &[&str],
    with_model: bool,
    timeout: Duration,
) -> Result<FinishedProcess, String> {
    let mut command = place.command(binary, with_model);
    command.args(place.options(case)).args(arguments);
    finish(command, timeout).map_err(|error| format!("{} cannot be started: {error}", binary.display()))
}

/// Every call with its result, in order.
fn answered_calls(events: &[Value]) -> Vec<EvidencedCall> {
    let started = |id: &str| {
        let is_start = |event: &&Value| {
            field(event, "/event") == "chat:tool-start" && field(event, "/data/toolId") == id
        };
        events.iter().find(is_start).and_then(|event| event.pointer("/data/input")).cloned()
    };
    let results = events.iter().filter(|event| field(event, "/event") == "chat:tool-result");
    results
        .map(|event| EvidencedCall {
            id: event.pointer("/data/metadata/callId").and_then(Value::as_str).map(str::to_owned),
            tool: field(event, "/data/toolName").to_owned(),
            input: started(field(event, "/data/toolId")).unwrap_or(Value::Null),
            succeeded: field(event, "/data/status") == "success",
            text: event.pointer("/data").map(Value::to_string).unwrap_or_default(),
        })
        .collect()
}

//! A try as a caller with a token: the calls of the script, one by one, over HTTP.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use serde_json::{Value, json};

use crate::case::{Case, TokenSetup};
use crate::evidence::{Evidence, EvidencedCall, field, offered};
use crate::http_client::HttpClient;
use crate::playground::Playground;
use crate::process::{finish, kill, spawn, terminate};

/// How long the server may take to end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(20);

/// Plays the calls of the case's script as this caller.
pub(crate) fn play(
    binary: &Path,
    case: &Case,
    place: &Playground,
    caller: &TokenSetup,
    timeout: Duration,
) -> Result<Evidence, String> {
    let token = match &caller.forged {
        Some(forged) => forged.clone(),
        None => mint(binary, case, place, caller)?,
    };
    let server = ServedGate::start(binary, case, place)?;
    let client = HttpClient { address: server.address.clone(), host: caller.host.clone(), token, timeout };
    let mut evidence = Evidence { reason: "done".to_owned(), ..Evidence::default() };
    let listed = client.send("GET", "/api/v1/tools", "")?;
    let usable = |tool: &&Value| tool.get("available") == Some(&Value::Bool(true));
    let tools: Vec<Value> =
        listed.get("items").and_then(Value::as_array).into_iter().flatten().filter(usable).cloned().collect();
    evidence.offered = offered(&Value::Array(tools));
    for (tool, input) in scripted_calls(case, place) {
        let answer =
            client.send("POST", "/api/v1/calls", &json!({"tool": tool, "arguments": input}).to_string())?;
        evidence.calls.push(EvidencedCall {
            id: answer.get("callId").and_then(Value::as_str).map(str::to_owned),
            tool,
            input,
            succeeded: field(&answer, "/decision") == "ALLOWED",
            text: answer.to_string(),
        });
    }
    if let Some(last) = evidence.calls.last() {
        evidence.answer.clone_from(&last.text);
    }
    server.stop()?;
    Ok(evidence)
}

/// The calls of all steps, in order.
pub(crate) fn scripted_calls(case: &Case, place: &Playground) -> Vec<(String, Value)> {
    let script = place.fill(&case.script.to_string());
    let steps: Value = serde_json::from_str(&script).unwrap_or_default();
    let calls = steps.as_array().into_iter().flatten().filter_map(|step| step.get("calls")?.as_array());
    calls
        .flatten()
        .map(|call| {
            (field(call, "/tool").to_owned(), call.get("arguments").cloned().unwrap_or_else(|| json!({})))
        })
        .collect()
}

fn mint(binary: &Path, case: &Case, place: &Playground, caller: &TokenSetup) -> Result<String, String> {
    let mut command = place.command(binary, false);
    command.args(place.options(case)).args(["token", "mint", "--subject", &caller.subject]);
    for permission in &caller.permissions {
        command.args(["--permission", permission]);
    }
    let minted = finish(command, SHUTDOWN_TIMEOUT).map_err(|error| error.to_string())?;
    let told: Value = serde_json::from_str(&minted.stdout).unwrap_or_default();
    match told.get("token").and_then(Value::as_str) {
        Some(token) => Ok(token.to_owned()),
        None => Err(format!("no token was made: {}", minted.stderr.trim())),
    }
}

/// A gate that is served.
struct ServedGate {
    process: Child,
    address: String,
}

impl ServedGate {
    fn start(binary: &Path, case: &Case, place: &Playground) -> Result<Self, String> {
        // A gate that verifies tokens needs a key before it starts.
        let any =
            TokenSetup { subject: "nobody".to_owned(), permissions: Vec::new(), forged: None, host: None };
        mint(binary, case, place, &any)?;
        let mut command = place.command(binary, false);
        let trust = case.gate.trust.as_deref().unwrap_or("autonomous");
        command.args(place.options(case)).args(["--trust", trust]);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--auth", case.gate.auth.as_deref().unwrap_or("jwt")])
            .stderr(std::process::Stdio::null());
        let mut process = spawn(&mut command).map_err(|error| error.to_string())?;
        let mut line = String::new();
        if let Some(stdout) = process.stdout.take() {
            let _ = BufReader::new(stdout).read_line(&mut line);
        }
        let told: Value = serde_json::from_str(&line).unwrap_or_default();
        match told.get("listen").and_then(Value::as_str) {
            Some(address) => Ok(Self { process, address: address.to_owned() }),
            None => {
                kill(&mut process);
                Err("the gate is not served".to_owned())
            }
        }
    }

    fn stop(mut self) -> Result<(), String> {
        let ended = terminate(&mut self.process, SHUTDOWN_TIMEOUT).map_err(|error| error.to_string())?;
        ended.map(drop).ok_or_else(|| "the server did not end".to_owned())
    }
}

impl Drop for ServedGate {
    fn drop(&mut self) {
        if matches!(self.process.try_wait(), Ok(None)) {
            kill(&mut self.process);
        }
    }
}

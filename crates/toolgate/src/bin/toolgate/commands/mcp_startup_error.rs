//! Answers the client of a gate that cannot start with the reason: clients show JSON-RPC errors, and often nothing of a server's standard error.

use std::io::{self, BufRead, Read as _, Write};

use serde_json::{Value, json};

use crate::exit::CliError;

/// The first requests of a client are shorter than this.
const MAX_LINE_BYTES: u64 = 1024 * 1024;

/// From the range that JSON-RPC 2.0 reserves for server errors.
const SERVER_ERROR_CODE: i64 = -32000;

/// Answers every request with the reason, until the client closes its end. There may be more than one: some clients send `server/discover` first and
/// fall back to `initialize` after its error.
pub(super) fn answer(failed: &CliError) {
    answer_after(&[], failed);
}

/// The same, beginning with what was read before.
pub(super) fn answer_after(read: &[u8], failed: &CliError) {
    answer_all(read.chain(io::stdin().lock()), io::stdout().lock(), failed);
}

fn answer_all(mut input: impl BufRead, mut output: impl Write, failed: &CliError) {
    let help = failed.help.as_ref().map(|help| format!("; {help}")).unwrap_or_default();
    let message = format!("{}{help}", failed.message);
    let mut line = Vec::new();
    loop {
        line.clear();
        match input.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) if !line.ends_with(b"\n") && line.len() as u64 == MAX_LINE_BYTES => return,
            Ok(_) => {}
        }
        let Some(id) = request_id(&line) else { continue };
        let error = json!({"code": SERVER_ERROR_CODE, "message": message});
        let answer = json!({"jsonrpc": "2.0", "id": id, "error": error});
        if writeln!(output, "{answer}").and_then(|()| output.flush()).is_err() {
            return;
        }
    }
}

/// The id of a request; `None` for a notification.
fn request_id(line: &[u8]) -> Option<Value> {
    let message: Value = serde_json::from_slice(line).ok()?;
    message.get("method")?;
    message.get("id").filter(|id| id.is_string() || id.is_number()).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_answered_with_the_reason_and_nothing_else_is() {
        let sent = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server/discover\"}\nnonsense\n\
                    {\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n\
                    {\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"initialize\",\"params\":{}}";
        let mut output = Vec::new();
        answer_all(sent.as_bytes(), &mut output, &CliError::usage("not agreed").help("agree"));
        let answers = String::from_utf8(output).unwrap();
        let answers: Vec<Value> = answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let ids: Vec<&Value> = answers.iter().map(|answer| &answer["id"]).collect();
        assert_eq!(ids, [&json!(1), &json!("x")]);
        assert!(
            answers.iter().all(|answer| answer["error"]["message"] == "not agreed; agree"),
            "{answers:?}"
        );
    }

    #[test]
    fn a_line_without_an_end_is_not_waited_for() {
        let mut output = Vec::new();
        answer_all(io::BufReader::new(io::repeat(b'a')), &mut output, &CliError::usage("no"));
        assert!(output.is_empty());
    }
}

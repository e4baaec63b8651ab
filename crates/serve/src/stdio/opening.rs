//! The beginning of a session before there is a gate: the roots of the client decide which workspace the gate will have.
//!
//! `initialize` is answered here, because a client answers `roots/list` only after it was initialised. Everything else is read and kept for the gate.

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use rmcp::model::{InitializeRequestParams, ServerJsonRpcMessage, ServerResult};
use rustix::io::Errno;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::error::ServeError;
use crate::mcp::handler::{ServedSurfaces, negotiated, server_info};
use crate::mcp::message::decode;
use crate::mcp::request::{McpRequest, ReceivedMessage};
use crate::stdio::connection::read_available;
use crate::stdio::descriptor::{Descriptor, IoDirection};

/// How long a client has for `notifications/initialized`, and then for its roots.
const ROOTS_TIMEOUT: Duration = Duration::from_secs(5);

/// How much is read before the gate: requests that a client sends without waiting.
const MAX_EARLY_BYTES: usize = 1 << 20;

/// How many roots are looked at.
const MAX_ROOTS: usize = 64;

/// The id of the request for roots. The gate's own requests have other ids.
const ROOTS_ID: &str = "toolgate-roots";

/// What was read of a session before there was a gate.
#[derive(Default)]
pub struct StdioOpening {
    /// What was negotiated, if `initialize` was answered.
    pub(super) session: Option<InitializeRequestParams>,
    /// What the gate has to handle, as it was read.
    pub(super) bytes: Vec<u8>,
    /// The directories of the client's roots, if it was asked and has answered. None of them was looked at.
    pub roots: Option<Vec<PathBuf>>,
}

impl StdioOpening {
    /// Reads the beginning of a session. A client without roots, or of the stateless protocol, is answered nothing.
    ///
    /// # Errors
    /// A descriptor cannot be used.
    pub async fn negotiate(
        input: OwnedFd,
        output: OwnedFd,
        surfaces: ServedSurfaces,
    ) -> Result<Self, ServeError> {
        let input = Descriptor::new(input, IoDirection::In).map_err(ServeError::io("standard input"))?;
        let output = Descriptor::new(output, IoDirection::Out).map_err(ServeError::io("standard output"))?;
        let mut reading = EarlyInput { input, unread: Vec::new(), kept: Vec::new() };
        let first = reading.line(None).await;
        let Some((id, params)) = first.as_deref().and_then(initialize_with_roots) else {
            return Ok(reading.into_opening(first, None, None));
        };
        let params = negotiated(params);
        let mut info = server_info(surfaces, None);
        info.protocol_version = params.protocol_version.clone();
        let mut result = ServerResult::InitializeResult(info);
        result.strip_result_type_for_legacy_peer();
        let answer = serde_json::to_vec(&ServerJsonRpcMessage::response(result, id)).unwrap_or_default();
        write(&output, answer).await;
        let roots = reading.roots(&output).await;
        Ok(reading.into_opening(None, Some(params), roots))
    }

    /// What was read and not answered: for a gate that cannot start after all.
    #[must_use]
    pub fn unanswered(&self) -> &[u8] {
        &self.bytes
    }
}

/// The id and the parameters of `initialize`, if the client has roots.
fn initialize_with_roots(line: &[u8]) -> Option<(rmcp::model::RequestId, InitializeRequestParams)> {
    match decode(line.trim_ascii()).map(ReceivedMessage::from) {
        Ok(ReceivedMessage::Request { id, request: McpRequest::Initialize(params), .. }) => {
            params.capabilities.roots.is_some().then_some((id, *params))
        }
        _ => None,
    }
}

/// The input until there is a gate.
struct EarlyInput {
    input: Descriptor,
    unread: Vec<u8>,
    /// Lines for the gate.
    kept: Vec<u8>,
}

impl EarlyInput {
    /// The next line with its end; `None` at the end of the input, after the deadline, or if too much was read.
    async fn line(&mut self, deadline: Option<Instant>) -> Option<Vec<u8>> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let rest = self.unread.split_off(end + 1);
                return Some(std::mem::replace(&mut self.unread, rest));
            }
            if self.unread.len() + self.kept.len() > MAX_EARLY_BYTES {
                return None;
            }
            let reading = read_available(&self.input, &mut self.unread);
            let count = match deadline {
                Some(deadline) => tokio::time::timeout_at(deadline, reading).await.ok()?,
                None => reading.await,
            };
            count.ok().filter(|count| *count > 0)?;
        }
    }

    /// Asks for the roots once the client is initialised. A client that goes on without answering is served without them.
    async fn roots(&mut self, output: &Descriptor) -> Option<Vec<PathBuf>> {
        let deadline = Instant::now() + ROOTS_TIMEOUT;
        loop {
            let line = self.line(Some(deadline)).await?;
            self.kept.extend_from_slice(&line);
            match decode(line.trim_ascii()).map(ReceivedMessage::from) {
                Ok(ReceivedMessage::Initialized) => break,
                // It does not wait for the end of the handshake, so it is not kept waiting either.
                Ok(ReceivedMessage::Request { .. }) => return None,
                _ => {}
            }
        }
        let request = json!({"jsonrpc": "2.0", "id": ROOTS_ID, "method": "roots/list"});
        write(output, request.to_string().into_bytes()).await;
        let deadline = Instant::now() + ROOTS_TIMEOUT;
        loop {
            let line = self.line(Some(deadline)).await?;
            match serde_json::from_slice::<Value>(&line) {
                Ok(message)
                    if message.get("id").is_some_and(|id| id == ROOTS_ID)
                        && message.get("method").is_none() =>
                {
                    return message.get("result").map(paths);
                }
                _ => self.kept.extend_from_slice(&line),
            }
        }
    }

    fn into_opening(
        mut self,
        first: Option<Vec<u8>>,
        session: Option<InitializeRequestParams>,
        roots: Option<Vec<PathBuf>>,
    ) -> StdioOpening {
        let mut bytes = first.unwrap_or_default();
        bytes.append(&mut self.kept);
        bytes.append(&mut self.unread);
        StdioOpening { session, bytes, roots }
    }
}

/// The paths of the roots that are directories of this machine.
fn paths(result: &Value) -> Vec<PathBuf> {
    let roots = result.get("roots").and_then(Value::as_array).into_iter().flatten();
    roots.take(MAX_ROOTS).filter_map(|root| path_of(root.get("uri")?.as_str()?)).collect()
}

/// The path of a `file` URI of this machine.
fn path_of(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file://")?;
    let rest = rest.strip_prefix("localhost").unwrap_or(rest);
    let bytes: Vec<u8> = percent_decode_str(rest).collect();
    let is_path = bytes.starts_with(b"/") && !bytes.contains(&0);
    is_path.then(|| PathBuf::from(std::ffi::OsString::from_vec(bytes)))
}

/// Writes a line. If the client is gone, reading ends too.
async fn write(output: &Descriptor, mut line: Vec<u8>) {
    line.push(b'\n');
    let mut rest = line.as_slice();
    while !rest.is_empty() {
        let Ok(ready) = output.writable().await else { return };
        match rustix::io::write(output.fd(), rest) {
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(Errno::AGAIN) => ready.end(),
            Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_a_path_of_this_machine() {
        for (uri, expected) in [
            ("file:///home/sam/a%20b", Some("/home/sam/a b")),
            ("file://localhost/w", Some("/w")),
            ("file://elsewhere/w", None),
            ("https://example.com/w", None),
            ("file:///a%00b", None),
            ("/w", None),
        ] {
            assert_eq!(path_of(uri), expected.map(PathBuf::from), "{uri}");
        }
    }
}

//! Requests to a gate that is served.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::mpsc::Sender;
use std::time::Duration;

use serde_json::Value;

/// One request per connection: what is judged is the gate, not a client.
#[derive(Clone)]
pub(crate) struct HttpClient {
    pub(crate) address: String,
    /// The name that is sent as `Host`, if not the address.
    pub(crate) host: Option<String>,
    pub(crate) token: String,
    pub(crate) timeout: Duration,
}

impl HttpClient {
    /// The JSON of the answer.
    pub(crate) fn send(&self, method: &str, path: &str, body: &str) -> Result<Value, String> {
        self.exchange(&format!("{method} {path}"), "", body, None)
    }

    /// The JSON of the answer to a request with further headers. `opened` gets the connection once the request is sent.
    pub(crate) fn exchange(
        &self,
        line: &str,
        headers: &str,
        body: &str,
        opened: Option<&Sender<TcpStream>>,
    ) -> Result<Value, String> {
        let request = format!(
            "{line} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n{headers}\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.host.as_ref().unwrap_or(&self.address),
            self.token,
            body.len()
        );
        let answer = || -> std::io::Result<Vec<u8>> {
            let mut stream = TcpStream::connect(&self.address)?;
            stream.set_read_timeout(Some(self.timeout))?;
            stream.write_all(request.as_bytes())?;
            if let Some(opened) = opened {
                let _ = opened.send(stream.try_clone()?);
            }
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer)?;
            Ok(answer)
        };
        let answer = answer().map_err(|error| format!("{line}: {error}"))?;
        let text = String::from_utf8_lossy(&answer);
        let (_, body) = text.split_once("\r\n\r\n").unwrap_or_default();
        // An answer with events is JSON in the `data` of the last one.
        let event = || {
            serde_json::from_str(body.lines().filter_map(|line| line.strip_prefix("data: ")).next_back()?)
                .ok()
        };
        serde_json::from_str(body)
            .ok()
            .or_else(event)
            .ok_or_else(|| format!("{line} was not answered with JSON: {text}"))
    }
}

//! Requests to a gate that is served.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// One request per connection: what is judged is the gate, not a client.
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
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.host.as_ref().unwrap_or(&self.address),
            self.token,
            body.len()
        );
        let answer = || -> std::io::Result<Vec<u8>> {
            let mut stream = TcpStream::connect(&self.address)?;
            stream.set_read_timeout(Some(self.timeout))?;
            stream.write_all(request.as_bytes())?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer)?;
            Ok(answer)
        };
        let answer = answer().map_err(|error| format!("{method} {path}: {error}"))?;
        let text = String::from_utf8_lossy(&answer);
        let (_, body) = text.split_once("\r\n\r\n").unwrap_or_default();
        serde_json::from_str(body).map_err(|_| format!("{method} {path} was not answered with JSON: {text}"))
    }
}

//! A model server's address, key and timeouts.

use std::fmt;
use std::time::Duration;

use crate::capabilities::StatedCapabilities;
use crate::recording::StreamRecorder;
use crate::wire_names::ToolNames;

/// The endpoint of a model server.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// The base URL that the wire's paths are appended to, as the wire's official clients take it: `https://api.anthropic.com`,
    /// `https://api.openai.com/v1`, `http://127.0.0.1:11434`.
    pub base_url: String,
    /// The API key, if one is needed. It is sent to other machines only over TLS.
    pub key: Option<ApiKey>,
    /// Headers in addition to the wire's own.
    pub headers: Vec<(String, ApiKey)>,
    /// The timeouts.
    pub timeouts: Timeouts,
    /// Records the streams, if set.
    pub recorder: Option<StreamRecorder>,
    /// The configured capabilities of the model. They take precedence over the server's.
    pub stated: StatedCapabilities,
    /// Which tool names the server accepts. Ollama accepts any name, whatever this says.
    pub tool_names: ToolNames,
}

impl Endpoint {
    /// An endpoint without a key.
    #[must_use]
    pub fn new(base_url: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            key: None,
            headers: Vec::new(),
            timeouts: Timeouts::default(),
            recorder: None,
            stated: StatedCapabilities::default(),
            tool_names: ToolNames::default(),
        }
    }

    /// The same with a key.
    #[must_use]
    pub fn key(mut self, key: Option<ApiKey>) -> Self {
        self.key = key;
        self
    }
}

/// A secret that is sent and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// Wraps a secret. Surrounding white space, such as the line break at the end of a file, is removed.
    #[must_use]
    pub fn new(text: impl AsRef<str>) -> Self {
        Self(text.as_ref().trim().to_owned())
    }

    /// The secret, for sending it.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("…")
    }
}

/// The timeouts of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For connecting.
    pub connect: Duration,
    /// For the first byte of an answer. The server may load the model first, or the model may think.
    pub first_byte: Duration,
    /// For each further byte.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        let patient = Duration::from_secs(120);
        Self { connect: Duration::from_secs(10), first_byte: patient, idle: patient }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_server_is_given_up_after_two_minutes() {
        let Timeouts { first_byte, idle, .. } = Timeouts::default();
        assert_eq!((first_byte, idle), (Duration::from_secs(120), Duration::from_secs(120)));
    }
}

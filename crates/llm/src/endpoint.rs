//! Where a model is asked, and with what key.

use std::fmt;
use std::time::Duration;

use crate::capabilities::StatedCapabilities;
use crate::recording::StreamRecorder;
use crate::wire_names::ToolNames;

/// Where a model is asked.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// The address that the paths of the wire are added to, as the wire's official clients take it: `https://api.anthropic.com`,
    /// `https://api.openai.com/v1`, `http://127.0.0.1:11434`.
    pub base_url: String,
    /// The key, where one is needed. It goes to other machines only over TLS.
    pub key: Option<ApiKey>,
    /// Headers besides those of the wire.
    pub headers: Vec<(String, ApiKey)>,
    /// How long is waited.
    pub timeouts: Timeouts,
    /// Who writes down what comes back.
    pub recorder: Option<StreamRecorder>,
    /// What the configuration says of the model. It goes before what the server says.
    pub stated: StatedCapabilities,
    /// How it takes the names of tools. Ollama takes them as they are, whatever this says.
    pub tool_names: ToolNames,
}

impl Endpoint {
    /// An address, without a key.
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

/// Something that is sent and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// Keeps a text from being shown. Space around it, such as the end of a file's line, is no part of it.
    #[must_use]
    pub fn new(text: impl AsRef<str>) -> Self {
        Self(text.as_ref().trim().to_owned())
    }

    /// The text, for whoever must send it.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("…")
    }
}

/// How long is waited, at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For a connection.
    pub connect: Duration,
    /// For the first byte of an answer. A model may be loaded first, or think.
    pub first_byte: Duration,
    /// For the next byte.
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

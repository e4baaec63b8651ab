//! A rejected request, before a wire formats it.

/// Why a request is rejected.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RequestRejection {
    pub(crate) status: u16,
    /// The wire's error type; by default that of the status.
    pub(crate) kind: Option<String>,
    pub(crate) message: String,
    pub(crate) param: Option<String>,
    pub(crate) code: Option<String>,
    /// Additional headers.
    pub(crate) headers: Vec<(&'static str, String)>,
}

impl RequestRejection {
    pub(crate) fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, kind: None, message: message.into(), param: None, code: None, headers: Vec::new() }
    }

    /// A 400 error.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, message)
    }

    pub(crate) fn param(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    pub(crate) fn code(mut self, code: impl Into<String>) -> Self {
        self.code = Some(code.into());
        self
    }
}

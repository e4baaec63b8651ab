//! A request that is not answered, before a wire puts it in its own words.

/// Why a request is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RequestRejection {
    pub(crate) status: u16,
    /// The kind of error in the wire's word; where it is absent, the one that goes with the status.
    pub(crate) kind: Option<String>,
    pub(crate) message: String,
    pub(crate) param: Option<String>,
    pub(crate) code: Option<String>,
    /// Headers that go with it.
    pub(crate) headers: Vec<(&'static str, String)>,
}

impl RequestRejection {
    pub(crate) fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, kind: None, message: message.into(), param: None, code: None, headers: Vec::new() }
    }

    /// A request that makes no sense.
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

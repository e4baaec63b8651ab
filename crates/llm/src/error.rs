//! Why a step failed. Never contains a key, a header or a part of the request.

use std::time::Duration;

/// A failed step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProviderError {
    /// The kind of failure.
    pub kind: ErrorKind,
    /// What is wrong: a lower-case fragment. Text from the server in it is truncated and sanitised.
    pub message: String,
    /// What helps.
    pub help: Option<String>,
    /// The server's `Retry-After`, if it sent one.
    pub retry_after: Option<Duration>,
    /// The server's `x-should-retry`, which overrides the kind's default.
    pub should_retry: Option<bool>,
}

impl ProviderError {
    /// An error without hints.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), help: None, retry_after: None, should_retry: None }
    }

    /// Adds the help.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Whether the same step may be retried.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.should_retry.unwrap_or_else(|| self.kind.is_retryable())
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $retry:literal;)*) => {
        /// The kind of failure, with a stable code and whether it is transient.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ErrorKind {
            $($(#[$doc])* $name,)*
        }

        impl ErrorKind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The stable code.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Whether it is transient.
            #[must_use]
            pub fn is_retryable(self) -> bool {
                match self { $(Self::$name => $retry,)* }
            }
        }
    };
}

kinds! {
    /// No server answers at the address.
    Unreachable = "unreachable", true;
    /// The key is missing, wrong or lacks a permission.
    Unauthorized = "unauthorized", false;
    /// The model does not exist.
    UnknownModel = "unknown_model", false;
    /// The server rejects the request.
    BadRequest = "bad_request", false;
    /// The conversation does not fit the model's context.
    ContextExceeded = "context_exceeded", false;
    /// The rate limit is exceeded.
    RateLimited = "rate_limited", true;
    /// The account's credit or quota is used up.
    SpendLimit = "spend_limit", false;
    /// The server is overloaded.
    Overloaded = "overloaded", true;
    /// The server failed.
    ServerError = "server_error", true;
    /// The stream ended before the wire's terminator.
    Truncated = "truncated", true;
    /// The response cannot be parsed.
    Garbled = "garbled", true;
    /// The server sent nothing before the timeout.
    Silent = "silent", false;
    /// The response exceeds a size limit.
    TooLarge = "too_large", false;
    /// The client cannot be used here, such as without CA certificates.
    Unusable = "unusable", false;
}

//! Why a step failed. Never holds a key, a header or what was asked.

use std::time::Duration;

/// A step that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProviderError {
    /// What kind of failure.
    pub kind: ErrorKind,
    /// What is wrong: a lower-case fragment. Words of the server in it are cut and cleaned of control characters.
    pub message: String,
    /// What would help.
    pub help: Option<String>,
    /// How long the server wants to be left alone, where it says so.
    pub retry_after: Option<Duration>,
    /// What the server said of trying again (`x-should-retry`), above what the kind says.
    pub should_retry: Option<bool>,
}

impl ProviderError {
    /// A failure without hints.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), help: None, retry_after: None, should_retry: None }
    }

    /// Says what to do.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Whether the same step may be tried again.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.should_retry.unwrap_or_else(|| self.kind.is_retryable())
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $retry:literal;)*) => {
        /// What kind of failure, with a stable code and whether it may pass by itself.
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

            /// Whether it may pass by itself.
            #[must_use]
            pub fn is_retryable(self) -> bool {
                match self { $(Self::$name => $retry,)* }
            }
        }
    };
}

kinds! {
    /// Nobody answers at the address.
    Unreachable = "unreachable", true;
    /// The key is missing, wrong or may not do this.
    Unauthorized = "unauthorized", false;
    /// There is no such model.
    UnknownModel = "unknown_model", false;
    /// The server does not accept the request.
    BadRequest = "bad_request", false;
    /// The conversation does not fit the model's context.
    ContextExceeded = "context_exceeded", false;
    /// Too often.
    RateLimited = "rate_limited", true;
    /// The account has no money or no allowance left.
    SpendLimit = "spend_limit", false;
    /// The server has too much to do.
    Overloaded = "overloaded", true;
    /// The server failed.
    ServerError = "server_error", true;
    /// The stream ended before the wire's terminator.
    Truncated = "truncated", true;
    /// What came cannot be read.
    Garbled = "garbled", true;
    /// Nothing came for too long.
    Silent = "silent", false;
    /// More came than is taken.
    TooLarge = "too_large", false;
    /// The client cannot be used here, such as without certificates.
    Unusable = "unusable", false;
}

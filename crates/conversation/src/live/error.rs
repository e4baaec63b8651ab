//! Why an operation on a conversation failed.

use toolgate_session::SessionError;
use toolgate_types::SessionId;

use crate::model_error::ModelError;

/// Why an operation on a conversation failed.
#[derive(Debug, thiserror::Error)]
pub enum ConversationError {
    /// There is none with this id, or it belongs to another caller: the two are not distinguished.
    #[error("there is no conversation `{0}`")]
    Unknown(SessionId),
    /// A turn of it is running.
    #[error("the model is still at work in this conversation")]
    Busy,
    /// Another process uses it.
    #[error("this conversation is open in another process")]
    InUse,
    /// What was asked for is not possible.
    #[error("{message}")]
    Invalid {
        /// What is wrong.
        message: String,
        /// What helps.
        help: Option<String>,
    },
    /// There is no model for it.
    #[error("{0}")]
    Model(#[from] ModelError),
    /// It cannot be read or stored.
    #[error("{0}")]
    Session(SessionError),
    /// The process ends.
    #[error("this gate is closing")]
    Closing,
}

impl ConversationError {
    pub(crate) fn invalid(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Invalid { message: message.into(), help: Some(help.into()) }
    }
}

impl From<SessionError> for ConversationError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::InUse { .. } => Self::InUse,
            SessionError::Unknown { name } if name.parse::<SessionId>().is_ok() => match name.parse() {
                Ok(id) => Self::Unknown(id),
                Err(_) => Self::Session(SessionError::Unknown { name }),
            },
            other => Self::Session(other),
        }
    }
}

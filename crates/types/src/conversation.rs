//! What to do when a conversation reaches one of its limits.

/// What to do about a call that violates its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OnViolation {
    /// The model gets an error, and continues.
    Answer,
    /// The conversation ends.
    Stop,
}

/// What to do when a conversation nearly fills the model's context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OnFull {
    /// The turn ends with an answer.
    Stop,
    /// Old tool output is elided and older messages are summarised.
    Compact,
}

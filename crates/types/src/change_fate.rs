//! The fate of file changes of a call whose process died.

/// What the undo journal knows about the changes of an interrupted call: for the audit record of that call, and for the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangeFate {
    /// The journal has no change of it: no file tool had changed anything yet, or an earlier start rolled it back. Changes made by a command are not
    /// journalled.
    NoEntry,
    /// This start rolled its changes back.
    PutBack,
    /// They were complete before the process died: they stay, and can be undone.
    Stayed,
    /// They could not be rolled back, or not all of them. The journal entry and the blobs stay pending for the next start.
    Unresolved,
    /// The journal no longer keeps entries of that age, or cannot be read.
    Unknown,
}

impl ChangeFate {
    /// As audit records write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoEntry => "no_entry",
            Self::PutBack => "put_back",
            Self::Stayed => "stayed",
            Self::Unresolved => "unresolved",
            Self::Unknown => "unknown",
        }
    }

    /// For people: the end of a sentence that begins with the call.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::NoEntry => "the undo journal has no change of it",
            Self::PutBack => "its changes were put back",
            Self::Stayed => "its changes were complete and stay",
            Self::Unresolved => "its changes could not all be put back and are still pending",
            Self::Unknown => "the undo journal no longer knows whether it changed files",
        }
    }
}

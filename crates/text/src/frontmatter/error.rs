//! Why frontmatter cannot be parsed or changed.

use thiserror::Error;
use toolgate_types::{ErrorCode, Failure};

use super::operation;

/// What is wrong, with the line of the document where there is one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FrontmatterError {
    /// The document does not begin with `---`.
    #[error("the document has no frontmatter")]
    Missing,
    /// There is no second `---`.
    #[error("line 1: the frontmatter is not closed")]
    Unclosed,
    /// The frontmatter exceeds the size limit.
    #[error("the frontmatter is larger than {} bytes", super::MAX_BYTES)]
    TooLarge,
    /// The YAML does not parse, or has a duplicate key.
    #[error("line {line}: the frontmatter is not valid: {problem}")]
    Yaml {
        /// The line of the document.
        line: usize,
        /// The parser's message.
        problem: String,
    },
    /// A list or a scalar.
    #[error("line {line}: the frontmatter is not a mapping of names to values")]
    NotAMapping {
        /// The line of the document.
        line: usize,
    },
    /// Valid YAML that is not accepted here.
    #[error("line {line}: {what} are not accepted in frontmatter")]
    NotAccepted {
        /// The line of the document.
        line: usize,
        /// The construct.
        what: &'static str,
        /// The remedy.
        remedy: &'static str,
    },
    /// The whole frontmatter is one `{…}`.
    #[error("line {line}: frontmatter in braces cannot be changed in place")]
    Braces {
        /// The line of the document.
        line: usize,
    },
    /// A field has a value of the wrong type for the operation.
    #[error("line {line}: `{field}` is not {wanted}")]
    WrongKind {
        /// The line of the document.
        line: usize,
        /// The field.
        field: String,
        /// The expected type.
        wanted: &'static str,
    },
    /// A field is written in a form that cannot be changed in place.
    #[error("line {line}: the way `{field}` is written cannot be changed in place")]
    Unwritable {
        /// The line of the document.
        line: usize,
        /// The field.
        field: String,
    },
    /// An update without operations.
    #[error("the update has no operations")]
    NothingToDo,
    /// No such operation.
    #[error("there is no operation `{asked}`")]
    UnknownOperation {
        /// The requested operation.
        asked: String,
        /// What was probably meant.
        nearest: Option<String>,
    },
    /// An operation has an argument of the wrong type.
    #[error("`{operation}` takes {wanted}")]
    WrongArgument {
        /// The operation.
        operation: String,
        /// The expected type.
        wanted: &'static str,
    },
    /// The same operation in both notations.
    #[error("`{operation}` is given twice")]
    GivenTwice {
        /// The operation.
        operation: String,
    },
    /// The changed document would not have had the intended meaning.
    #[error("the frontmatter could not be changed safely")]
    NotAsIntended,
}

impl FrontmatterError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Missing
            | Self::Unclosed
            | Self::TooLarge
            | Self::Yaml { .. }
            | Self::NotAMapping { .. }
            | Self::NotAccepted { .. }
            | Self::Braces { .. }
            | Self::WrongKind { .. }
            | Self::Unwritable { .. } => ErrorCode::InvalidFrontmatter,
            Self::NothingToDo
            | Self::UnknownOperation { .. }
            | Self::WrongArgument { .. }
            | Self::GivenTwice { .. } => ErrorCode::InvalidArguments,
            Self::NotAsIntended => ErrorCode::Internal,
        }
    }

    /// The line of the document.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        match self {
            Self::Unclosed => Some(1),
            Self::Yaml { line, .. }
            | Self::NotAMapping { line }
            | Self::NotAccepted { line, .. }
            | Self::Braces { line }
            | Self::WrongKind { line, .. }
            | Self::Unwritable { line, .. } => Some(*line),
            _ => None,
        }
    }

    fn help(&self) -> String {
        match self {
            Self::Missing => {
                "begin the document with a `---` line, `name: value` lines and another `---` line".into()
            }
            Self::Unclosed => "close the frontmatter with a line that holds only `---`".into(),
            Self::TooLarge => "move long values into the body of the document".into(),
            Self::Yaml { .. } => "correct the YAML at that line".into(),
            Self::NotAMapping { .. } | Self::Braces { .. } => {
                "write the frontmatter as `name: value` lines".into()
            }
            Self::NotAccepted { remedy, .. } => (*remedy).into(),
            Self::WrongKind { field, wanted, .. } => format!("make `{field}` {wanted}, or remove it"),
            Self::Unwritable { field, .. } => {
                format!("write it as `{field}: value` on a line of its own first")
            }
            Self::UnknownOperation { nearest: Some(nearest), .. } => {
                format!("did you mean `{nearest}`? {}", operation::known())
            }
            Self::NothingToDo | Self::UnknownOperation { nearest: None, .. } => operation::known(),
            Self::WrongArgument { operation, .. } => operation::example(operation),
            Self::GivenTwice { .. } => "give it once, with all its values".into(),
            Self::NotAsIntended => "nothing was changed; write the whole document instead".into(),
        }
    }
}

impl From<FrontmatterError> for Failure {
    fn from(error: FrontmatterError) -> Self {
        let failure = Self::new(error.code(), error.to_string()).help(error.help());
        let failure = match error.line() {
            Some(line) => failure.detail("line", line),
            None => failure,
        };
        match error {
            FrontmatterError::WrongKind { field, .. } | FrontmatterError::Unwritable { field, .. } => {
                failure.detail("field", field)
            }
            FrontmatterError::UnknownOperation { .. } | FrontmatterError::NothingToDo => {
                failure.detail("operations", operation::names())
            }
            _ => failure,
        }
    }
}

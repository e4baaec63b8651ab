//! How a call ended.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::{Escalation, Failure, HashedText, Stage, Structured};

/// What a tool returns on success.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolOutput {
    /// For the model to read, with its digest for the audit record.
    pub text: HashedText,
    /// For programs; fits the tool's output schema.
    pub structured: Structured,
    /// Parts that are neither, such as images. Dropped for a tool with an output policy: their content cannot be filtered.
    pub attachments: Vec<Attachment>,
    /// The whole text, where `text` had to be truncated. A front end that can store it for a while may offer it beside the answer. Dropped for a tool
    /// with an output policy.
    pub full_text: Option<String>,
    /// The property of `structured` whose value is `text` and was left out there, so that the text is held once.
    pub text_field: Option<&'static str>,
    /// The content for a resource request (by URI); `text` is empty then. Dropped for a tool with an output policy.
    pub resource: Option<ResourceContent>,
    /// What a person may allow the same call if it is made again: hosts that a command was refused.
    pub lacked: Escalation,
}

impl ToolOutput {
    /// An answer of text and structured content only.
    #[must_use]
    pub fn new(text: impl Into<HashedText>, structured: impl Into<Structured>) -> Self {
        Self {
            text: text.into(),
            structured: structured.into(),
            attachments: Vec::new(),
            full_text: None,
            text_field: None,
            resource: None,
            lacked: Escalation::default(),
        }
    }

    /// The answer to a resource request, with the structured content that the tool declares.
    #[must_use]
    pub fn from_resource(browsed: ResourceContent, structured: impl Into<Structured>) -> Self {
        Self { resource: Some(browsed), ..Self::new(String::new(), structured) }
    }
}

/// A part of an answer that is not text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// An image, in base64.
    Image {
        /// Its media type.
        mime_type: String,
        /// Its bytes in base64.
        data: String,
    },
    /// Audio, in base64.
    Audio {
        /// Its media type.
        mime_type: String,
        /// Its bytes in base64.
        data: String,
    },
    /// An embedded document.
    Document {
        /// Its URI.
        uri: String,
        /// Its media type.
        mime_type: Option<String>,
        /// Its content.
        content: DocumentContent,
    },
}

impl Attachment {
    /// The content as it is sent.
    #[must_use]
    pub fn data(&self) -> &str {
        match self {
            Self::Image { data, .. } | Self::Audio { data, .. } => data,
            Self::Document { content, .. } => content.data(),
        }
    }
}

/// The content of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocumentContent {
    /// Text.
    Text(HashedText),
    /// Anything else, in base64.
    Base64(String),
}

impl DocumentContent {
    /// The content as it is sent.
    #[must_use]
    pub fn data(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Base64(data) => data,
        }
    }
}

/// The content for a resource request, for the front end that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceContent {
    /// One page of the files of a mount.
    Page {
        /// Path relative to the root of the mount, in order, and size.
        files: Vec<(String, u64)>,
        /// The path after which the next page begins; `None` on the last page.
        next: Option<String>,
    },
    /// The content of a whole file.
    File(DocumentContent),
}

impl ResourceContent {
    /// What the audit record's digest covers: a file as it is sent, or the paths and sizes as JSON.
    #[must_use]
    pub fn data(&self) -> Cow<'_, str> {
        match self {
            Self::Page { files, .. } => Cow::Owned(serde_json::to_string(files).unwrap_or_default()),
            Self::File(content) => Cow::Borrowed(content.data()),
        }
    }

    /// Its approximate size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Page { files, .. } => files.iter().map(|(path, _)| path.len()).sum(),
            Self::File(content) => content.data().len(),
        }
    }
}

/// The end of a call. A denial is an outcome like any other.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The tool succeeded.
    Done(ToolOutput),
    /// It was denied, or it failed; the code says which.
    Failed {
        /// The stage that failed it.
        stage: Stage,
        /// The reason.
        failure: Failure,
    },
}

impl Outcome {
    /// The decision for the audit record.
    #[must_use]
    pub fn decision(&self) -> Decision {
        match self {
            Self::Done(_) => Decision::Allowed,
            Self::Failed { failure, .. } if failure.code.is_denial() => Decision::Denied,
            Self::Failed { .. } => Decision::Error,
        }
    }

    /// Whether its content is known to have at most this many bytes. It is not of structured content that was not serialised yet.
    #[must_use]
    pub fn fits(&self, most: usize) -> bool {
        let Self::Done(output) = self else { return true };
        let ToolOutput { text, structured, attachments, full_text, resource, .. } = output;
        let Structured::Raw(structured) = structured else { return false };
        attachments.is_empty()
            && full_text.is_none()
            && resource.is_none()
            && text.len().saturating_add(structured.as_str().len()) <= most
    }
}

/// The decision in the audit record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Decision {
    /// The call ran and was answered.
    Allowed,
    /// The call was denied.
    Denied,
    /// The call was allowed and failed.
    Error,
}

impl Decision {
    /// The word in the audit record.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "ALLOWED",
            Self::Denied => "DENIED",
            Self::Error => "ERROR",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ErrorCode;
    use crate::structured::JsonObjectWriter;

    #[test]
    fn what_is_known_of_the_size_of_an_answer() {
        let object = || JsonObjectWriter::with_capacity(8).field("a", &1).finish();
        let of = |output: ToolOutput| Outcome::Done(output).fits(10);
        assert!(of(ToolOutput::new("123", object())), "three bytes and seven");
        assert!(!of(ToolOutput::new("1234", object())));
        assert!(!of(ToolOutput::new("", json!({"a": 1}))), "it was not serialised");
        assert!(!of(ToolOutput { full_text: Some(String::new()), ..ToolOutput::new("", object()) }));
        let failure = Failure::new(ErrorCode::NotPermitted, "this call is not permitted");
        assert!(Outcome::Failed { stage: Stage::Permission, failure }.fits(0));
    }
}

//! How a call ended.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::{Failure, Sha256, Stage, Structured};

/// What a tool hands back when it did what was asked.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolOutput {
    /// For the model to read.
    pub text: String,
    /// For programs; fits the tool's output schema.
    pub structured: Structured,
    /// What is neither, such as pictures. A tool with an output policy hands out none: nothing in them can be filtered.
    pub attachments: Vec<Attachment>,
    /// The whole text, where `text` had to be cut. Whoever can keep it for a while may offer it beside the answer. Nor does it leave a tool with an output policy.
    pub full_text: Option<String>,
    /// The digest of `text`, where whoever made it knows: the record holds it, and nobody computes it twice.
    pub text_sha256: Option<Sha256>,
    /// The property of `structured` that `text` is the value of, where it was left out: a text is held once.
    pub text_field: Option<&'static str>,
    /// What a door is given that made the call to show something by address; there is no text then. Nor does it leave a tool with an output policy.
    pub resource: Option<ResourceContent>,
}

impl ToolOutput {
    /// An answer of text and structure alone.
    #[must_use]
    pub fn new(text: impl Into<String>, structured: impl Into<Structured>) -> Self {
        Self {
            text: text.into(),
            structured: structured.into(),
            attachments: Vec::new(),
            full_text: None,
            text_sha256: None,
            text_field: None,
            resource: None,
        }
    }

    /// The answer to a door, and what the tool declares to tell programs.
    #[must_use]
    pub fn from_resource(browsed: ResourceContent, structured: impl Into<Structured>) -> Self {
        Self { resource: Some(browsed), ..Self::new(String::new(), structured) }
    }
}

/// A part of an answer that is not text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// A picture, in base64.
    Image {
        /// What kind of picture.
        mime_type: String,
        /// Its bytes in base64.
        data: String,
    },
    /// A sound, in base64.
    Audio {
        /// What kind of sound.
        mime_type: String,
        /// Its bytes in base64.
        data: String,
    },
    /// A document that came along.
    Document {
        /// What it is called.
        uri: String,
        /// What kind of document.
        mime_type: Option<String>,
        /// What is in it.
        content: DocumentContent,
    },
}

impl Attachment {
    /// What it holds, as it is sent.
    #[must_use]
    pub fn data(&self) -> &str {
        match self {
            Self::Image { data, .. } | Self::Audio { data, .. } => data,
            Self::Document { content, .. } => content.data(),
        }
    }
}

/// What is in a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocumentContent {
    /// Text.
    Text(String),
    /// Anything else, in base64.
    Base64(String),
}

impl DocumentContent {
    /// What it is, as it is sent.
    #[must_use]
    pub fn data(&self) -> &str {
        match self {
            Self::Text(data) | Self::Base64(data) => data,
        }
    }
}

/// What is shown by address, for the program that shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceContent {
    /// Some of the files of a mount.
    Page {
        /// Where they are, relative to the root of the mount, in order, and their sizes.
        files: Vec<(String, u64)>,
        /// After which path there are more, if there are.
        next: Option<String>,
    },
    /// A whole file.
    File {
        /// What is in it.
        content: DocumentContent,
        /// The digest of that as it is sent, where whoever read it knows: the record holds it, and nobody computes it twice.
        sha256: Option<Sha256>,
    },
}

impl ResourceContent {
    /// What the record is of: a file as it is sent, or the paths and sizes as JSON.
    #[must_use]
    pub fn data(&self) -> Cow<'_, str> {
        match self {
            Self::Page { files, .. } => Cow::Owned(serde_json::to_string(files).unwrap_or_default()),
            Self::File { content, .. } => Cow::Borrowed(content.data()),
        }
    }

    /// The digest of that, where it is known.
    #[must_use]
    pub fn sha256(&self) -> Option<Sha256> {
        match self {
            Self::Page { .. } => None,
            Self::File { sha256, .. } => *sha256,
        }
    }

    /// About how many bytes it has.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Page { files, .. } => files.iter().map(|(path, _)| path.len()).sum(),
            Self::File { content, .. } => content.data().len(),
        }
    }
}

/// The end of a call. A denial is an outcome like any other.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The tool did it.
    Done(ToolOutput),
    /// It was refused, or it failed; the code says which.
    Failed {
        /// Where.
        stage: Stage,
        /// Why.
        failure: Failure,
    },
}

impl Outcome {
    /// What the audit record says.
    #[must_use]
    pub fn decision(&self) -> Decision {
        match self {
            Self::Done(_) => Decision::Allowed,
            Self::Failed { failure, .. } if failure.code.is_denial() => Decision::Denied,
            Self::Failed { .. } => Decision::Error,
        }
    }
}

/// The word in the audit record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Decision {
    /// The call ran and was answered.
    Allowed,
    /// The call was refused.
    Denied,
    /// The call was let through and failed.
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

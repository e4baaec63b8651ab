//! An approval question as it is shown in the terminal, in an MCP client and on a web page: one card, which each renderer only splits into rows.
//!
//! All text that a model wrote is escaped and folded here (`toolgate_text::confusables`, `toolgate_text::whitespace_fold`), so that two different
//! calls never show the same text. A renderer may wrap lines and must mark the continuations; it changes no character.

use serde::Serialize;
use toolgate_text::confusables::{Charset, Escaping, TextKind};
use toolgate_text::whitespace_fold::{Folded, FoldedRow, line};
use toolgate_workspace::FileMark;

use crate::approval::ApprovalRequest;
use crate::tool::PreviewBody;

/// How many hex digits of the arguments' digest are shown.
const DIGEST_DIGITS: usize = 16;

/// What a person is shown of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ApprovalCard {
    /// The tool.
    pub tool: String,
    /// What would happen, line by line.
    pub summary: Vec<String>,
    /// The lines of the summary that warn of files that are executed later or read by agents.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The full text, unless the summary is complete.
    #[serde(flatten)]
    pub body: Option<CardBody>,
    /// Digest of the tool's name and the arguments. It differs for calls that were sent differently, even if their effect is the same.
    pub digest: String,
}

/// The full text of what would happen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CardBody {
    /// Its size: `3 lines, 2,140 bytes`.
    pub size: String,
    /// Its lines.
    pub rows: Vec<CardRow>,
    /// How much of it is shown: `3 lines shown of 3, 2,140 bytes`.
    pub shown: String,
}

/// One line of the full text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CardRow {
    /// `text`, or a part of a diff: `header`, `hunk`, `context`, `added`, `removed`, `note`.
    pub kind: &'static str,
    /// Without the diff marker.
    pub text: String,
    /// With the diff marker.
    #[serde(skip)]
    pub line: String,
}

impl From<&FoldedRow> for CardRow {
    fn from(row: &FoldedRow) -> Self {
        Self { kind: row.kind.as_str(), text: row.text.clone(), line: row.line() }
    }
}

impl From<&Folded> for CardBody {
    fn from(folded: &Folded) -> Self {
        let rows = folded.rows.iter().map(CardRow::from).collect();
        Self { size: folded.size(), rows, shown: folded.shown() }
    }
}

impl ApprovalRequest {
    /// The card, rendered for a terminal or page with this character set.
    #[must_use]
    pub fn card(&self, charset: Charset) -> ApprovalCard {
        let summary = Escaping { content: TextKind::Composed, charset };
        let body = match &self.preview.body {
            PreviewBody::Nothing => None,
            PreviewBody::Text(text) => Some(Folded::command(text, charset)),
            PreviewBody::Diff(diff) => Some(Folded::diff(diff, charset)),
        };
        let summary: Vec<String> = self.preview.summary.iter().map(|text| line(text, summary)).collect();
        ApprovalCard {
            tool: line(&self.tool, Escaping { content: TextKind::Command, charset }),
            warnings: summary.iter().filter(|line| FileMark::is_warning(line)).cloned().collect(),
            summary,
            body: body.as_ref().map(CardBody::from),
            digest: self.arguments.to_string().chars().take(DIGEST_DIGITS).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::tool::Preview;

    mod lookalikes {
        include!("../../text/tests/shared/lookalikes.rs");
    }
    use lookalikes::{pair, skeleton};

    mod questions {
        include!("../tests/shared/question.rs");
    }
    use questions::question;

    fn json(question: &ApprovalRequest) -> String {
        serde_json::to_string(&question.card(Charset::Unicode)).unwrap()
    }

    #[test]
    fn a_card_for_programs_is_escaped_and_has_a_kind_for_each_row() {
        let diff = "--- a\n+++ a\n@@ -1 +1,2 @@\n-x\n+y\u{a0}\n+\n\\ No newline at end of file\n";
        let card = question(&["edit a"], PreviewBody::Diff(diff.to_owned())).card(Charset::Unicode);
        assert_eq!(
            serde_json::to_value(&card).unwrap(),
            json!({
                "tool": "run_command",
                "summary": ["edit a"],
                "size": "7 lines, 64 bytes",
                "rows": [
                    {"kind": "header", "text": "--- a"},
                    {"kind": "header", "text": "+++ a"},
                    {"kind": "hunk", "text": "@@ -1 +1,2 @@"},
                    {"kind": "removed", "text": "x"},
                    {"kind": "added", "text": "y\\u{a0}"},
                    {"kind": "added", "text": ""},
                    {"kind": "note", "text": "\\ No newline at end of file"},
                ],
                "shown": "7 lines shown of 7, 64 bytes",
                "digest": "e3b0c44298fc1c14",
            })
        );
    }

    proptest! {
        /// The digest is equal in this test: what must differ is the visible text.
        #[test]
        fn two_calls_never_make_the_same_card(texts in pair()) {
            let (one, other) = texts;
            prop_assume!(one != other);
            let path = |text: &str| json(&question(&[&format!("create {} (1 bytes)", toolgate_text::confusables::quote_value(text))], PreviewBody::Nothing));
            prop_assert_ne!(skeleton(&path(&one)), skeleton(&path(&other)));
            let command = |text: &str| json(&question(&["run in ."], PreviewBody::Text(text.to_owned())));
            prop_assert_ne!(skeleton(&command(&one)), skeleton(&command(&other)));
            let diff = |text: &str| json(&question(&["edit a"], PreviewBody::Diff(format!("--- a\n+++ a\n@@ -0,0 +1 @@\n+{text}\n"))));
            prop_assert_ne!(diff(&one), diff(&other));
        }
    }
}

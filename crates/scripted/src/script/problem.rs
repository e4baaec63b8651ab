//! Problems of a script, with their positions.

use std::fmt;

use serde_saphyr::Location;

/// One mistake in a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptProblem {
    /// The script's file name.
    pub file: String,
    /// The line, from 1.
    pub line: u64,
    /// The column in characters, from 1.
    pub column: u64,
    /// What is wrong: a lower-case fragment.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl fmt::Display for ScriptProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, message, help } = self;
        write!(formatter, "{file}:{line}:{column}: {message}")?;
        match help {
            Some(help) => write!(formatter, " — {help}"),
            None => Ok(()),
        }
    }
}

/// Every mistake that was found in a script, in the order of the file; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptProblems(Vec<ScriptProblem>);

impl ScriptProblems {
    /// The problems, in the order of the file.
    #[must_use]
    pub fn as_slice(&self) -> &[ScriptProblem] {
        &self.0
    }
}

impl fmt::Display for ScriptProblems {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(ScriptProblem::to_string).collect();
        formatter.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for ScriptProblems {}

/// Collects problems while a script is parsed.
pub(super) struct ProblemCollector<'f> {
    file: &'f str,
    problems: Vec<ScriptProblem>,
}

impl<'f> ProblemCollector<'f> {
    pub(super) fn new(file: &'f str) -> Self {
        Self { file, problems: Vec::new() }
    }

    pub(super) fn add(&mut self, at: Location, message: impl Into<String>, help: impl Into<String>) {
        self.push(at, message.into(), Some(help.into()));
    }

    /// The YAML parser's error, which ends the parsing.
    pub(super) fn unread(mut self, error: &serde_saphyr::Error) -> ScriptProblems {
        let at = error.location().unwrap_or(Location::UNKNOWN);
        let text = error.without_snippet().to_string();
        let (message, help) = reworded(text.lines().next().unwrap_or_default());
        self.push(at, message, help);
        ScriptProblems(self.problems)
    }

    pub(super) fn finish(mut self) -> Result<(), ScriptProblems> {
        self.problems.sort_by_key(|problem| (problem.line, problem.column));
        if self.problems.is_empty() { Ok(()) } else { Err(ScriptProblems(self.problems)) }
    }

    fn push(&mut self, at: Location, message: String, help: Option<String>) {
        let (line, column) = (at.line(), at.column());
        self.problems.push(ScriptProblem { file: self.file.to_owned(), line, column, message, help });
    }
}

/// The YAML parser's message in our wording, and a remedy.
fn reworded(text: &str) -> (String, Option<String>) {
    // The position is reported separately, and the parser's own settings are irrelevant.
    let text = text.split(" at line ").next().unwrap_or(text).split(", set ").next().unwrap_or(text);
    let (message, expected) = text.split_once(", expected ").unwrap_or((text, ""));
    let message = message.replace("unknown field", "unknown key").replace("unknown variant", "unknown word");
    let message = message.replace("missing field", "missing key");
    let known = expected.strip_prefix("one of ").unwrap_or(expected);
    let help = (!known.is_empty()).then(|| format!("use {known}"));
    (message, help)
}

//! Collects every problem of one file.

use crate::problem::{ConfigProblem, ConfigProblems, ConfigWarning, Located, SourcePosition, SourceText};
use crate::yaml_tree::ConfigNode;

/// The problems and warnings found so far.
pub(crate) struct ProblemReport<'s> {
    source: &'s SourceText,
    problems: Vec<ConfigProblem>,
    warnings: Vec<ConfigProblem>,
}

impl<'s> ProblemReport<'s> {
    pub(crate) fn new(source: &'s SourceText) -> Self {
        Self { source, problems: Vec::new(), warnings: Vec::new() }
    }

    /// Reports a problem at a position.
    pub(crate) fn at(
        &mut self,
        place: SourcePosition,
        width: usize,
        message: impl Into<String>,
        help: Option<String>,
    ) {
        self.problems.push(self.source.problem(place, width, message, help));
    }

    /// Reports a problem with a node.
    pub(crate) fn node(&mut self, node: &ConfigNode, message: impl Into<String>, help: Option<String>) {
        self.at(node.position, node.width, message, help);
    }

    /// Reports a problem with a node that contains a secret: its line is not shown.
    pub(crate) fn secret(&mut self, node: &ConfigNode, message: impl Into<String>, help: Option<String>) {
        let problem = self.source.problem(node.position, node.width, message, help);
        self.problems.push(problem.without_line());
    }

    /// Reports a problem with a declared value.
    pub(crate) fn located<T>(&mut self, at: &Located<T>, message: impl Into<String>, help: Option<String>) {
        self.at(at.position(), at.width, message, help);
    }

    /// Reports a warning about a node.
    pub(crate) fn warn(&mut self, node: &ConfigNode, message: impl Into<String>, help: impl Into<String>) {
        self.warn_at(node.position, node.width, message, help);
    }

    /// Reports a warning at a position.
    pub(crate) fn warn_at(
        &mut self,
        place: SourcePosition,
        width: usize,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.warnings.push(self.source.problem(place, width, message, Some(help.into())));
    }

    /// The number of problems so far.
    pub(crate) fn count(&self) -> usize {
        self.problems.len()
    }

    /// The warnings in file order, or all problems if there are any.
    pub(crate) fn finish(self) -> Result<Vec<ConfigWarning>, ConfigProblems> {
        let problems = in_order(self.problems);
        if !problems.is_empty() {
            return Err(ConfigProblems(problems));
        }
        Ok(in_order(self.warnings).into_iter().map(ConfigWarning).collect())
    }
}

/// A mistake that an alias repeats is reported once.
fn in_order(mut problems: Vec<ConfigProblem>) -> Vec<ConfigProblem> {
    problems.sort_by_cached_key(|problem| (problem.line, problem.column, problem.message.clone()));
    problems.dedup();
    problems
}

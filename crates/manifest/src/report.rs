//! Collects every problem of one file.

use crate::problem::{Located, Place, Problem, Problems, Source};
use crate::tree::Node;

/// The problems found so far.
pub(crate) struct Report<'s> {
    source: &'s Source,
    problems: Vec<Problem>,
}

impl<'s> Report<'s> {
    pub(crate) fn new(source: &'s Source) -> Self {
        Self { source, problems: Vec::new() }
    }

    /// A problem at a place.
    pub(crate) fn at(
        &mut self,
        place: Place,
        width: usize,
        message: impl Into<String>,
        help: Option<String>,
    ) {
        self.problems.push(self.source.problem(place, width, message, help));
    }

    /// A problem with a node.
    pub(crate) fn node(&mut self, node: &Node, message: impl Into<String>, help: Option<String>) {
        self.at(node.place, node.width, message, help);
    }

    /// A problem with something that was declared.
    pub(crate) fn located<T>(&mut self, at: &Located<T>, message: impl Into<String>, help: Option<String>) {
        self.at(at.place(), at.width, message, help);
    }

    /// Everything that was found, in the order of the file; `Ok` when that is nothing.
    pub(crate) fn finish(mut self) -> Result<(), Problems> {
        if self.problems.is_empty() {
            return Ok(());
        }
        let order = |problem: &Problem| (problem.line, problem.column, problem.message.clone());
        self.problems.sort_by_cached_key(order);
        // What an alias brings to several places is one mistake, not several.
        self.problems.dedup();
        Err(Problems(self.problems))
    }
}

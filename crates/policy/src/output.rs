//! Which fields of a result may be returned.
//!
//! Rules select fields by path. A field without a rule is dropped; nothing is returned by default.
//!
//! ## Paths
//!
//! | pattern | matches |
//! |---|---|
//! | `customer.email` | that field |
//! | `items[].name` | `name` in every item of the array `items` |
//! | `items.*.name` | the same, and in every field of an object `items` |
//! | `customer.*` | everything beneath `customer`, at any depth |
//! | `*.email` | every `email`, at any depth, the outermost too |
//! | `*`, `**` | everything |
//! | `a.**.b` | `b` beneath `a` with any number of names between, none too |
//! | the empty path | the whole result |
//!
//! So a star at the start or the end stands for any depth, and one between two names for exactly one name. `\` before `.`,
//! `*`, `[`, `]` or `\` escapes it. Names are case-sensitive. An empty name can only be matched by a star.
//!
//! ## Which rule decides
//!
//! A rule applies to what it matches and to everything inside. If several apply, the most specific kind decides, and within
//! a kind the strictest:
//!
//! | first | then | last |
//! |---|---|---|
//! | a path without stars that is exactly this one | a pattern with a name in it, or a path around this one | `*` and `**` |
//! | `redact` before `mask` before `allow` | `redact` before `mask` before `allow` | `redact` before `mask` before `allow` |
//!
//! To allow one field inside something that is redacted, name it exactly.
//!
//! ## Effects
//!
//! | rule | strings | other scalars | objects and arrays |
//! |---|---|---|---|
//! | `allow` | kept | kept | kept, except for what other rules say about their contents |
//! | `mask` | first and last character around `***`; `***` alone if shorter than eight characters | `***` | `[redacted]` |
//! | `redact` | `[redacted]` | `[redacted]` | `[redacted]` |
//! | none | dropped | dropped | dropped, unless a rule applies to something inside |
//!
//! An object or array that rules look into but of which nothing is kept becomes `{}` or `[]`; so does the result itself, and
//! a scalar result that is dropped becomes `null`. Anything nested deeper than [`MAX_DEPTH`] levels is redacted.

mod pattern;
mod automaton;
mod filter;

pub use filter::{Filtered, MAX_DEPTH, MAX_LISTED_PATHS};
pub use pattern::OutputPolicyError;

use automaton::Automaton;
use pattern::FieldPattern;
use std::collections::BTreeSet;

use serde_json::Value;

/// The treatment of a field, in order of strictness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OutputRule {
    /// Returned.
    Allow,
    /// Only its first and last character are returned.
    Mask,
    /// Only its existence is visible.
    Redact,
}

/// Compiled rules for the results of one tool.
#[derive(Clone, Debug)]
pub struct OutputPolicy {
    automaton: Automaton,
    /// The literal names in the rules.
    names: BTreeSet<String>,
}

impl OutputPolicy {
    /// Compiles patterns and their rules. Without any, nothing is returned.
    ///
    /// # Errors
    /// If a pattern is invalid, or so many overlap that matching would take too much memory.
    pub fn compile<S: AsRef<str>>(rules: &[(S, OutputRule)]) -> Result<Self, OutputPolicyError> {
        let patterns: Result<Vec<(FieldPattern, OutputRule)>, _> =
            rules.iter().map(|(glob, rule)| Ok((FieldPattern::parse(glob.as_ref())?, *rule))).collect();
        let patterns = patterns?;
        let names = patterns.iter().flat_map(|(pattern, _)| pattern.names()).map(str::to_owned).collect();
        Ok(Self { automaton: Automaton::compile(&patterns)?, names })
    }

    /// Whether a rule contains this field name. Other names come from the result itself, and may be data.
    #[must_use]
    pub fn names(&self, field: &str) -> bool {
        self.names.contains(field)
    }

    /// Filters a result.
    #[must_use]
    pub fn apply(&self, value: Value) -> Filtered {
        filter::apply(&self.automaton, value)
    }
}

//! What of an answer may leave.
//!
//! Rules name fields by path. What no rule speaks for is dropped; nothing leaves by default.
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
//! | the empty path | the whole answer |
//!
//! So a star at the beginning or the end stands for any depth, and one between two names for exactly one
//! name. `\` before `.`, `*`, `[`, `]` or `\` takes away its meaning. Names are compared letter by letter. An
//! empty name can only be matched by a star.
//!
//! ## Which rule decides
//!
//! A rule speaks for what it matches and for everything inside. Where several speak, the closest kind
//! decides, and within a kind the strictest:
//!
//! | first | then | last |
//! |---|---|---|
//! | a path without stars that is exactly this one | a pattern with a name in it, or a path around this one | `*` and `**` |
//! | `redact` before `mask` before `allow` | `redact` before `mask` before `allow` | `redact` before `mask` before `allow` |
//!
//! To open one field inside something that is redacted, name it exactly.
//!
//! ## What happens
//!
//! | rule | text | other plain values | objects and arrays |
//! |---|---|---|---|
//! | `allow` | stays | stay | stay, but for what other rules say about their inside |
//! | `mask` | first and last character around `***`; `***` alone when shorter than eight characters | `***` | `[redacted]` |
//! | `redact` | `[redacted]` | `[redacted]` | `[redacted]` |
//! | none | dropped | dropped | dropped, unless a rule speaks for something inside |
//!
//! An object or array of which nothing may stay, but which rules look into, stays as `{}` or `[]`; so does
//! the answer itself, and a plain answer that is dropped becomes `null`. What lies deeper than [`DEEPEST`]
//! levels is redacted.

mod pattern;
mod automaton;
mod filter;

pub use filter::{Filtered, MAX_DEPTH, MAX_LISTED_PATHS};
pub use pattern::OutputPolicyError;

use automaton::Automaton;
use pattern::FieldPattern;
use std::collections::BTreeSet;

use serde_json::Value;

/// What happens to a field. Later ones are stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OutputRule {
    /// It may leave.
    Allow,
    /// Its first and last character may leave.
    Mask,
    /// Only that it exists may leave.
    Redact,
}

/// Compiled rules for the answers of one tool.
#[derive(Clone, Debug)]
pub struct OutputPolicy {
    automaton: Automaton,
    /// The names that the rules spell out.
    names: BTreeSet<String>,
}

impl OutputPolicy {
    /// Compiles patterns and their rules. Without any, nothing leaves.
    ///
    /// # Errors
    /// When a pattern means nothing, or when there are so many that overlap that matching would take too much
    /// memory.
    pub fn compile<S: AsRef<str>>(rules: &[(S, OutputRule)]) -> Result<Self, OutputPolicyError> {
        let patterns: Result<Vec<(FieldPattern, OutputRule)>, _> =
            rules.iter().map(|(glob, rule)| Ok((FieldPattern::parse(glob.as_ref())?, *rule))).collect();
        let patterns = patterns?;
        let names = patterns.iter().flat_map(|(pattern, _)| pattern.names()).map(str::to_owned).collect();
        Ok(Self { automaton: Automaton::compile(&patterns)?, names })
    }

    /// Whether a rule spells out this name of a field. Other names come from the answer itself, and may be data.
    #[must_use]
    pub fn names(&self, field: &str) -> bool {
        self.names.contains(field)
    }

    /// Keeps what may leave.
    #[must_use]
    pub fn apply(&self, value: Value) -> Filtered {
        filter::apply(&self.automaton, value)
    }
}

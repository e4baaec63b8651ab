//! Filters a result in place.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, Hash as _, Hasher as _, RandomState};

use serde_json::Value;

use super::OutputRule;
use super::automaton::{Automaton, AutomatonState, ContainerAction, StateId};
use super::pattern::{escape, with_known_names};

/// Maximum nesting depth that is filtered; anything deeper is redacted.
pub const MAX_DEPTH: usize = 128;

/// Maximum number of listed paths.
pub const MAX_LISTED_PATHS: usize = 100;

/// Maximum length of a listed path in characters.
const MAX_PATH_CHARS: usize = 200;

/// The prefix of the number of paths that are not listed.
const MORE: &str = "…and ";
const REDACTED: &str = "[redacted]";
const MASKED: &str = "***";

/// A filtered result.
#[derive(Clone, Debug, PartialEq)]
pub struct Filtered {
    /// The remaining value.
    pub value: Value,
    /// The paths that were masked or redacted, without duplicates, with `*` for array items, in order of occurrence. At most
    /// [`MAX_LISTED_PATHS`], then how many more there were.
    pub redacted: Vec<String>,
    /// The paths that were dropped because no rule applies to them, likewise.
    pub dropped: Vec<String>,
}

impl Filtered {
    /// Every path that was changed, without duplicates, with `?` in place of unknown names: names in a result may be data.
    #[must_use]
    pub fn known_paths(&self, is_known: &dyn Fn(&str) -> bool) -> Vec<String> {
        let mut paths: Vec<String> = Vec::new();
        for path in self.redacted.iter().chain(&self.dropped) {
            let is_count = path.starts_with(MORE);
            let path =
                if is_count || path.is_empty() { path.clone() } else { with_known_names(path, is_known) };
            if is_count || !paths.contains(&path) {
                paths.push(path);
            }
        }
        paths
    }
}

pub(super) fn apply(automaton: &Automaton, mut value: Value) -> Filtered {
    let mut filter = OutputFilter {
        automaton,
        hasher: FieldPathHasher::default(),
        redacted: ListedPaths::default(),
        dropped: ListedPaths::default(),
    };
    let answer = FieldPath { around: None, step: PathSegment::Answer, key: 0 };
    if let Some(state) = automaton.state(Automaton::START) {
        filter.answer(&mut value, state, &answer);
    } else {
        drop_iteratively(std::mem::take(&mut value));
    }
    Filtered { value, redacted: filter.redacted.finish(), dropped: filter.dropped.finish() }
}

/// The path from the result to a field, as a linked list on the stack.
#[derive(Clone, Copy)]
struct FieldPath<'a> {
    around: Option<&'a FieldPath<'a>>,
    step: PathSegment<'a>,
    /// A hash that identifies this path, computed once something inside is visited.
    key: u64,
}

#[derive(Clone, Copy, Hash)]
enum PathSegment<'a> {
    Answer,
    Name(&'a str),
    Item,
}

impl<'a> FieldPath<'a> {
    fn inside(&'a self, step: PathSegment<'a>) -> FieldPath<'a> {
        FieldPath { around: Some(self), step, key: 0 }
    }

    fn write(&self, path: &mut String) {
        if let Some(around) = self.around {
            around.write(path);
            if !path.is_empty() {
                path.push('.');
            }
        }
        match self.step {
            PathSegment::Answer => {}
            PathSegment::Item => path.push('*'),
            // A longer name would not fit into the listed path.
            PathSegment::Name(name) => {
                let end = name.char_indices().nth(MAX_PATH_CHARS + 1).map_or(name.len(), |(index, _)| index);
                escape(name.get(..end).unwrap_or_default(), path);
            }
        }
    }
}

struct OutputFilter<'a> {
    automaton: &'a Automaton,
    hasher: FieldPathHasher,
    redacted: ListedPaths,
    dropped: ListedPaths,
}

impl OutputFilter<'_> {
    fn answer(&mut self, value: &mut Value, state: &AutomatonState, trail: &FieldPath<'_>) {
        match (&mut *value, state.container) {
            // The result itself keeps its type.
            (Value::Object(_) | Value::Array(_), ContainerAction::Dropped) => {
                self.open(value, state, trail, 0)
            }
            (Value::Object(_) | Value::Array(_), _) => {
                self.container(value, state, trail, 0);
            }
            (plain, _) => {
                if !self.plain(plain, self.automaton.plain_answer, trail) {
                    *value = Value::Null;
                }
            }
        }
    }

    /// Filters one field; returns false if it must be dropped.
    fn field(&mut self, value: &mut Value, id: StateId, trail: &FieldPath<'_>, depth: usize) -> bool {
        let Some(state) = self.automaton.state(id) else { return false };
        match value {
            Value::Object(_) | Value::Array(_) => self.container(value, state, trail, depth),
            plain => self.plain(plain, state.plain, trail),
        }
    }

    fn plain(&mut self, value: &mut Value, rule: Option<OutputRule>, trail: &FieldPath<'_>) -> bool {
        match rule {
            Some(OutputRule::Allow) => return true,
            Some(OutputRule::Mask) => mask(value),
            Some(OutputRule::Redact) => rewrite(value, |text| {
                text.clear();
                text.push_str(REDACTED);
            }),
            None => {
                self.dropped.note(trail, &self.hasher);
                return false;
            }
        }
        self.redacted.note(trail, &self.hasher);
        true
    }

    fn container(
        &mut self,
        value: &mut Value,
        state: &AutomatonState,
        trail: &FieldPath<'_>,
        depth: usize,
    ) -> bool {
        match state.container {
            ContainerAction::Dropped => {
                drop_iteratively(std::mem::take(value));
                self.dropped.note(trail, &self.hasher);
                return false;
            }
            ContainerAction::Redacted => self.redact(value, trail),
            ContainerAction::Opened | ContainerAction::Stays if depth >= MAX_DEPTH => {
                self.redact(value, trail)
            }
            ContainerAction::Opened => self.open(value, state, trail, depth),
            ContainerAction::Stays => self.redact_deeper(value, trail, depth),
        }
        true
    }

    fn open(&mut self, value: &mut Value, state: &AutomatonState, trail: &FieldPath<'_>, depth: usize) {
        let trail = FieldPath { key: self.hasher.key(trail), ..*trail };
        match value {
            Value::Object(fields) => fields.retain(|name, field| {
                self.field(field, state.name(name), &trail.inside(PathSegment::Name(name)), depth + 1)
            }),
            Value::Array(items) => {
                let trail = trail.inside(PathSegment::Item);
                let mut index = 0;
                items.retain_mut(|item| {
                    let id = state.item(index);
                    index += 1;
                    self.field(item, id, &trail, depth + 1)
                });
            }
            _ => {}
        }
    }

    /// Keeps everything that is not nested too deeply.
    fn redact_deeper(&mut self, value: &mut Value, trail: &FieldPath<'_>, depth: usize) {
        let trail = &FieldPath { key: self.hasher.key(trail), ..*trail };
        let is_container = |value: &Value| matches!(value, Value::Object(_) | Value::Array(_));
        if depth >= MAX_DEPTH {
            self.redact(value, trail);
            return;
        }
        match value {
            Value::Object(fields) => {
                for (name, field) in fields.iter_mut().filter(|(_, field)| is_container(field)) {
                    self.redact_deeper(field, &trail.inside(PathSegment::Name(name)), depth + 1);
                }
            }
            Value::Array(items) => {
                for item in items.iter_mut().filter(|item| is_container(item)) {
                    self.redact_deeper(item, &trail.inside(PathSegment::Item), depth + 1);
                }
            }
            _ => {}
        }
    }

    fn redact(&mut self, value: &mut Value, trail: &FieldPath<'_>) {
        drop_iteratively(std::mem::replace(value, Value::String(REDACTED.to_owned())));
        self.redacted.note(trail, &self.hasher);
    }
}

/// In a shorter text two characters would reveal too much, and the rest could be guessed.
const MIN_MASKED_CHARS: usize = 8;

/// The first and last character of a text that is long enough; nothing of anything else.
fn mask(value: &mut Value) {
    rewrite(value, |text| {
        let is_long = text.chars().nth(MIN_MASKED_CHARS - 1).is_some();
        let ends = text.chars().next().zip(text.chars().next_back()).filter(|_| is_long);
        text.clear();
        text.extend(ends.map(|(first, _)| first));
        text.push_str(MASKED);
        text.extend(ends.map(|(_, last)| last));
    });
}

/// Replaces a scalar by a text, reusing the buffer of a string.
fn rewrite(value: &mut Value, change: impl FnOnce(&mut String)) {
    if !value.is_string() {
        *value = Value::String(String::new());
    }
    if let Value::String(text) = value {
        change(text);
    }
}

/// Drops a value level by level: the recursive drop of a deeply nested one would overflow the stack.
fn drop_iteratively(value: Value) {
    if !is_deeper(&value, MAX_DEPTH) {
        return;
    }
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        match value {
            Value::Array(items) => waiting.extend(items),
            Value::Object(fields) => waiting.extend(fields.into_iter().map(|(_, field)| field)),
            _ => {}
        }
    }
}

fn is_deeper(value: &Value, levels: usize) -> bool {
    let Some(inside) = levels.checked_sub(1) else { return true };
    match value {
        Value::Array(items) => items.iter().any(|item| is_deeper(item, inside)),
        Value::Object(fields) => fields.values().any(|field| is_deeper(field, inside)),
        _ => false,
    }
}

/// Hashes paths: one hash of the parent's key and one segment, so that the cost does not depend on the length.
#[derive(Default)]
struct FieldPathHasher(RandomState);

impl FieldPathHasher {
    fn key(&self, trail: &FieldPath<'_>) -> u64 {
        let mut hasher = self.0.build_hasher();
        trail.around.map(|around| around.key).hash(&mut hasher);
        trail.step.hash(&mut hasher);
        hasher.finish()
    }
}

/// Paths without duplicates.
#[derive(Default)]
struct ListedPaths {
    seen: HashSet<u64>,
    shown: Vec<String>,
}

impl ListedPaths {
    fn note(&mut self, trail: &FieldPath<'_>, keys: &FieldPathHasher) {
        if self.seen.insert(keys.key(trail)) && self.shown.len() < MAX_LISTED_PATHS {
            let mut path = String::new();
            trail.write(&mut path);
            if let Some((end, _)) = path.char_indices().nth(MAX_PATH_CHARS) {
                path.truncate(end);
                path.push('…');
            }
            self.shown.push(path);
        }
    }

    fn finish(mut self) -> Vec<String> {
        let more = self.seen.len().saturating_sub(self.shown.len());
        if more > 0 {
            self.shown.push(format!("{MORE}{more} more"));
        }
        self.shown
    }
}

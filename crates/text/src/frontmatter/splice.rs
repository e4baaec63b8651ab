//! Changes YAML text at known positions, leaving every other byte unchanged.

use std::ops::Range;

use serde_json::{Map, Value};

use super::FrontmatterError;
use super::operation::FieldEdit;
use super::outline::{Outline, ScalarForm, YamlEntry, YamlNode, YamlShape};
use super::write;

/// The indentation of new blocks below their name.
const INDENT_COLUMNS: usize = 2;

/// The YAML with all edits applied.
pub(super) fn apply(
    yaml: &str,
    outline: &Outline,
    edits: &[FieldEdit],
    line_end: &'static str,
) -> Result<String, FrontmatterError> {
    if let Some(YamlNode { line, shape: YamlShape::Mapping { flow: true, .. }, .. }) = outline.root {
        return Err(FrontmatterError::Braces { line });
    }
    let mut work = Splicer { yaml, outline, line_end, splices: Vec::new(), tail: String::new() };
    for edit in edits {
        match edit {
            FieldEdit::Append { field, items } => work.append(field, items)?,
            FieldEdit::Put { field, entries } => work.put(field, entries)?,
            FieldEdit::Set { field, value } => work.set(field, value)?,
        }
    }
    Ok(work.finish())
}

struct Splicer<'a> {
    yaml: &'a str,
    outline: &'a Outline,
    line_end: &'static str,
    /// Ranges to replace; an empty range is an insertion.
    splices: Vec<(Range<usize>, String)>,
    /// New names, appended at the end.
    tail: String,
}

impl Splicer<'_> {
    fn append(&mut self, field: &str, items: &[Value]) -> Result<(), FrontmatterError> {
        let (indent, line_end) = (self.outline.indent, self.line_end);
        let Some(entry) = self.outline.entry(field) else {
            self.tail.push_str(&format!("{:indent$}{field}:{line_end}", ""));
            self.tail.push_str(&write::item_lines(items, indent + INDENT_COLUMNS, line_end));
            return Ok(());
        };
        match &entry.value.shape {
            _ if self.is_empty(&entry.value) => {
                self.become_block(entry, write::item_lines(items, indent + INDENT_COLUMNS, line_end))
            }
            YamlShape::Sequence { flow: true, items: children } => {
                let text: Vec<String> = items.iter().map(write::inline).collect();
                self.insert_in_flow(
                    &entry.value,
                    children.last().map(|item| item.span.end),
                    &text.join(", "),
                );
                Ok(())
            }
            _ => {
                let indent = self.block_indent(entry)?;
                let lines = write::item_lines(items, indent, line_end);
                self.insert(self.after(entry.value.span.end), lines);
                Ok(())
            }
        }
    }

    fn put(&mut self, field: &str, entries: &Map<String, Value>) -> Result<(), FrontmatterError> {
        let (indent, line_end) = (self.outline.indent, self.line_end);
        let Some(entry) = self.outline.entry(field) else {
            self.tail.push_str(&format!("{:indent$}{field}:{line_end}", ""));
            self.tail.push_str(&write::entry_lines(entries, indent + INDENT_COLUMNS, line_end));
            return Ok(());
        };
        if self.is_empty(&entry.value) {
            return self.become_block(entry, write::entry_lines(entries, indent + INDENT_COLUMNS, line_end));
        }
        let mut new = Map::new();
        let children = entry.value.entries();
        let in_flow = matches!(entry.value.shape, YamlShape::Mapping { flow: true, .. });
        for (name, value) in entries {
            match children.get(name.as_str()) {
                Some(child) => self.replace_value(child, value, in_flow)?,
                None => drop(new.insert(name.clone(), value.clone())),
            }
        }
        if new.is_empty() { Ok(()) } else { self.add_entries(entry, &new) }
    }

    fn add_entries(&mut self, entry: &YamlEntry, new: &Map<String, Value>) -> Result<(), FrontmatterError> {
        if let YamlShape::Mapping { flow: true, entries } = &entry.value.shape {
            let text: Vec<String> = new.iter().map(|(name, value)| write::entry(name, value)).collect();
            let last = entries.last().map(|last| last.key_span.end.max(last.value.span.end));
            self.insert_in_flow(&entry.value, last, &text.join(", "));
            return Ok(());
        }
        let indent = self.block_indent(entry)?;
        let lines = write::entry_lines(new, indent, self.line_end);
        self.insert(self.after(entry.value.span.end), lines);
        Ok(())
    }

    fn set(&mut self, field: &str, value: &Value) -> Result<(), FrontmatterError> {
        match self.outline.entry(field) {
            Some(entry) => self.replace_value(entry, value, false),
            None => {
                let indent = self.outline.indent;
                let line = format!("{:indent$}{}{}", "", write::entry(field, value), self.line_end);
                self.tail.push_str(&line);
                Ok(())
            }
        }
    }

    /// Replaces the value of a name. A comment after the value stays; what is inside a block is removed with it.
    fn replace_value(
        &mut self,
        entry: &YamlEntry,
        value: &Value,
        in_flow: bool,
    ) -> Result<(), FrontmatterError> {
        let text = write::inline(value);
        let place = entry.value.span.clone();
        match &entry.value.shape {
            YamlShape::Scalar(ScalarForm::Nothing) => match self.colon(entry) {
                Some(colon) => self.insert(colon, format!(" {text}")),
                // `{name}` has no colon yet.
                None if in_flow => self.insert(entry.key_span.end, format!(": {text}")),
                None => return Err(unwritable(entry)),
            },
            YamlShape::Scalar(ScalarForm::Quoted) => {
                let text = value.as_str().map(write::quoted).unwrap_or(text);
                self.splices.push((place, text));
            }
            YamlShape::Scalar(ScalarForm::Plain)
            | YamlShape::Sequence { flow: true, .. }
            | YamlShape::Mapping { flow: true, .. } => self.splices.push((place, text)),
            YamlShape::Scalar(ScalarForm::Block) => {
                let colon = self.colon_or_refuse(entry)?;
                let written = self.slice(colon..place.end.max(colon)).trim_end().len();
                self.splices.push((colon..self.after(colon + written), format!(" {text}{}", self.line_end)));
            }
            YamlShape::Sequence { .. } | YamlShape::Mapping { .. } => {
                let colon = self.colon_or_refuse(entry)?;
                self.insert(colon, format!(" {text}"));
                self.splices.push((self.after(colon)..self.after(place.end), String::new()));
            }
        }
        Ok(())
    }

    /// Adds lines below a name whose value was empty, `null`, `[]` or `{}`. A comment after it stays.
    fn become_block(&mut self, entry: &YamlEntry, lines: String) -> Result<(), FrontmatterError> {
        let colon = self.colon_or_refuse(entry)?;
        let value = entry.value.span.clone();
        if value.is_empty() {
            self.insert(self.after(colon), lines);
            return Ok(());
        }
        let kept = self.slice(colon..value.start).trim_end_matches([' ', '\t']).len();
        self.splices.push((colon + kept..value.end, String::new()));
        self.insert(self.after(value.end), lines);
        Ok(())
    }

    /// Inserts text after the last element of `[…]` or `{…}`.
    fn insert_in_flow(&mut self, node: &YamlNode, last: Option<usize>, text: &str) {
        let close = node.span.end.saturating_sub(1);
        let Some(last) = last else { return self.insert(close, text.to_owned()) };
        let rest = self.slice(last..close);
        let has_comma =
            rest.lines().any(|line| line.split('#').next().is_some_and(|code| code.contains(',')));
        // A comment would swallow text inserted after the last element, so then it goes before the bracket.
        let (place, space) =
            if rest.contains('#') { (close, "") } else { (last + rest.trim_end().len(), " ") };
        let lead = if has_comma { space } else { ", " };
        self.insert(place, format!("{lead}{text}"));
    }

    fn insert(&mut self, place: usize, text: String) {
        self.splices.push((place..place, text));
    }

    /// Whether a value contains nothing that must be kept.
    fn is_empty(&self, node: &YamlNode) -> bool {
        let inside = self.slice(node.span.clone());
        match &node.shape {
            YamlShape::Scalar(ScalarForm::Nothing) => true,
            // The plan turns only a null into a list or a mapping.
            YamlShape::Scalar(ScalarForm::Plain) => true,
            YamlShape::Scalar(ScalarForm::Quoted | ScalarForm::Block) => false,
            YamlShape::Sequence { flow, items } => *flow && items.is_empty() && !inside.contains('#'),
            YamlShape::Mapping { flow, entries } => *flow && entries.is_empty() && !inside.contains('#'),
        }
    }

    /// The position after the colon of a name, if it follows on the same line.
    fn colon(&self, entry: &YamlEntry) -> Option<usize> {
        let rest = self.slice(entry.key_span.end..self.yaml.len());
        let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        rest.trim_start_matches([' ', '\t']).starts_with(':').then(|| entry.key_span.end + blanks + 1)
    }

    fn colon_or_refuse(&self, entry: &YamlEntry) -> Result<usize, FrontmatterError> {
        self.colon(entry).ok_or_else(|| unwritable(entry))
    }

    /// The indentation of the block below a name: that of its first line that is not a comment.
    fn block_indent(&self, entry: &YamlEntry) -> Result<usize, FrontmatterError> {
        let below = self.after(self.colon_or_refuse(entry)?);
        let first = self
            .slice(below..self.yaml.len())
            .lines()
            .find(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'));
        let spaces = first.map_or(0, |line| line.len() - line.trim_start_matches(' ').len());
        match first {
            // Some parsers accept tabs where only spaces are valid; such a block cannot be continued safely.
            Some(line) if line.trim_start_matches(' ').starts_with('\t') => Err(unwritable(entry)),
            _ => Ok(spaces),
        }
    }

    /// The beginning of the first line after a position.
    fn after(&self, place: usize) -> usize {
        if place > 0 && self.slice(0..place).ends_with('\n') {
            return place;
        }
        let rest = self.slice(place..self.yaml.len());
        rest.find('\n').map_or(self.yaml.len(), |line_feed| place + line_feed + 1)
    }

    fn slice(&self, range: Range<usize>) -> &str {
        self.yaml.get(range).unwrap_or_default()
    }

    fn finish(mut self) -> String {
        self.splices.sort_by_key(|(place, _)| place.start);
        let mut out = String::with_capacity(self.yaml.len() + self.tail.len());
        let mut done = 0;
        for (place, text) in &self.splices {
            out.push_str(self.slice(done..place.start));
            out.push_str(text);
            done = place.end;
        }
        out.push_str(self.slice(done..self.yaml.len()));
        out.push_str(&self.tail);
        out
    }
}

fn unwritable(entry: &YamlEntry) -> FrontmatterError {
    FrontmatterError::Unwritable { line: entry.line, field: entry.key.clone() }
}

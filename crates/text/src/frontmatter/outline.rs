//! The positions of all values in a YAML text.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use serde_json::{Map, Value};
use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, Span, StructureStyle, options};
use serde_saphyr::{DuplicateKeyPolicy, MergeKeyPolicy, NonFiniteFloatPolicy};

use super::FrontmatterError;
use crate::line_index::truncate_at_char_boundary;

/// The maximum nesting of collections.
const MAX_DEPTH: usize = 64;

const IN_FULL: &str = "write the values out in full";
const ONE_DOCUMENT: &str = "keep the frontmatter to one document between its two `---` lines";

/// The names and values of the top level, with their positions.
#[derive(Debug, Default)]
pub(super) struct Outline {
    /// The column where names begin.
    pub(super) indent: usize,
    /// The top-level mapping; `None` when there are only comments.
    pub(super) root: Option<YamlNode>,
}

/// A value and its position. Offsets are bytes of the YAML, lines are lines of the document.
#[derive(Debug)]
pub(super) struct YamlNode {
    pub(super) span: Range<usize>,
    pub(super) line: usize,
    pub(super) shape: YamlShape,
}

#[derive(Debug)]
pub(super) enum YamlShape {
    Scalar(ScalarForm),
    Sequence { flow: bool, items: Vec<YamlNode> },
    Mapping { flow: bool, entries: Vec<YamlEntry> },
}

/// How a scalar is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScalarForm {
    /// Empty.
    Nothing,
    Plain,
    Quoted,
    /// After `|` or `>`; its span begins with the text, not with the indicator.
    Block,
}

/// A name with its value.
#[derive(Debug)]
pub(super) struct YamlEntry {
    pub(super) key: String,
    pub(super) key_span: Range<usize>,
    pub(super) line: usize,
    pub(super) value: YamlNode,
}

impl Outline {
    /// Parses the positions, and refuses what is not accepted.
    pub(super) fn read(yaml: &str) -> Result<Self, FrontmatterError> {
        if let Some(line) = lone_return(yaml) {
            let (what, remedy) = ("carriage returns without line feed", "end lines with `\\n` or `\\r\\n`");
            return Err(FrontmatterError::NotAccepted { line, what, remedy });
        }
        let mut builder = Builder { yaml, ..Builder::default() };
        let options = options! { emit_comments: false, emit_unresolved_aliases: true };
        for event in Parser::new_from_str_with_options(yaml, options) {
            let (event, span) = event.map_err(|error| FrontmatterError::Yaml {
                line: document_line(error.marker().line()),
                problem: error.info().to_owned(),
            })?;
            builder.take(event, &span)?;
        }
        builder.finish()
    }

    /// The entry with this name on the top level.
    pub(super) fn entry(&self, name: &str) -> Option<&YamlEntry> {
        match self.root.as_ref().map(|root| &root.shape) {
            Some(YamlShape::Mapping { entries, .. }) => entries.iter().find(|entry| entry.key == name),
            _ => None,
        }
    }
}

impl YamlNode {
    /// The entries by name, if it is a mapping.
    pub(super) fn entries(&self) -> HashMap<&str, &YamlEntry> {
        match &self.shape {
            YamlShape::Mapping { entries, .. } => {
                entries.iter().map(|entry| (entry.key.as_str(), entry)).collect()
            }
            YamlShape::Scalar(_) | YamlShape::Sequence { .. } => HashMap::new(),
        }
    }
}

/// The value of the YAML, with the booleans of YAML 1.2. An empty document is an empty mapping.
pub(super) fn value(yaml: &str) -> Result<Map<String, Value>, FrontmatterError> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        emit_comments: false,
        with_snippet: false,
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Error,
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
    };
    // Common mistakes were already refused by the outline with a clear reason; the messages of this parser are for programmers.
    let value = serde_saphyr::from_str_with_options::<Value>(yaml, options).map_err(|error| {
        let line = error.location().map_or(1, |location| location.line());
        let line = document_line(line.try_into().unwrap_or(1));
        FrontmatterError::Yaml { line, problem: "something here cannot be read".to_owned() }
    })?;
    match value {
        Value::Object(map) => Ok(map),
        Value::Null => Ok(Map::new()),
        _ => Err(FrontmatterError::NotAMapping { line: document_line(1) }),
    }
}

/// The YAML begins after the opening fence.
fn document_line(yaml_line: usize) -> usize {
    yaml_line.saturating_add(1)
}

fn lone_return(yaml: &str) -> Option<usize> {
    let line = yaml.split_inclusive('\n').position(|line| line.trim_end_matches("\r\n").contains('\r'))?;
    Some(document_line(line + 1))
}

/// Builds the tree from the parser's events, without recursion.
#[derive(Default)]
struct Builder<'a> {
    yaml: &'a str,
    open: Vec<Collection>,
    documents: usize,
    indent: usize,
    root: Option<YamlNode>,
}

/// A collection that has begun and not ended.
struct Collection {
    start: usize,
    line: usize,
    flow: bool,
    content: CollectionContent,
}

enum CollectionContent {
    Sequence(Vec<YamlNode>),
    Mapping { entries: Vec<YamlEntry>, names: HashSet<String>, key: Option<YamlKey> },
}

impl CollectionContent {
    fn mapping() -> Self {
        Self::Mapping { entries: Vec::new(), names: HashSet::new(), key: None }
    }
}

struct YamlKey {
    text: String,
    span: Range<usize>,
    line: usize,
}

impl YamlKey {
    /// A key that is text, not a merge key, and not a duplicate.
    fn new(
        node: YamlNode,
        text: Option<String>,
        names: &mut HashSet<String>,
    ) -> Result<Self, FrontmatterError> {
        let YamlNode { span, line, shape } = node;
        let refuse = |what, remedy| FrontmatterError::NotAccepted { line, what, remedy };
        let text = text.ok_or_else(|| refuse("collections as names", "use text as names"))?;
        match shape {
            YamlShape::Scalar(ScalarForm::Plain) if text == "<<" => {
                return Err(refuse("merge keys", IN_FULL));
            }
            YamlShape::Scalar(ScalarForm::Nothing) => {
                return Err(refuse("empty names", "write a name before the colon"));
            }
            YamlShape::Scalar(ScalarForm::Plain)
                if ["~", "null", "Null", "NULL"].contains(&text.as_str()) =>
            {
                return Err(refuse("nulls as names", "put the name into quotes"));
            }
            _ => {}
        }
        if !names.insert(text.clone()) {
            let shown = truncate_at_char_boundary(&text, 80).escape_debug();
            return Err(FrontmatterError::Yaml { line, problem: format!("the name `{shown}` occurs twice") });
        }
        Ok(Self { text, span, line })
    }
}

impl Builder<'_> {
    fn take(&mut self, event: Event<'_>, span: &Span) -> Result<(), FrontmatterError> {
        let line = document_line(span.start.line());
        let refuse = |what, remedy| Err(FrontmatterError::NotAccepted { line, what, remedy });
        let place = bytes(span);
        match event {
            Event::Alias(_) | Event::UnresolvedAlias(_) => return refuse("aliases", IN_FULL),
            Event::Scalar(_, _, anchor, _)
            | Event::SequenceStart(_, anchor, _)
            | Event::MappingStart(_, anchor, _)
                if anchor != 0 =>
            {
                return refuse("anchors", IN_FULL);
            }
            Event::Scalar(_, _, _, Some(_))
            | Event::SequenceStart(_, _, Some(_))
            | Event::MappingStart(_, _, Some(_)) => return refuse("tags", IN_FULL),
            Event::DocumentStart(explicit, _) => {
                self.documents += 1;
                if explicit || self.documents > 1 {
                    return refuse("further documents", ONE_DOCUMENT);
                }
            }
            Event::DocumentEnd if !place.is_empty() => return refuse("document ends (`...`)", ONE_DOCUMENT),
            Event::Scalar(text, style, _, _) => {
                let style = ScalarForm::of(style, &place);
                let span = if style == ScalarForm::Block { self.block_text(place, &text) } else { place };
                self.add(YamlNode { span, line, shape: YamlShape::Scalar(style) }, Some(text.into_owned()))?;
            }
            Event::SequenceStart(style, ..) => {
                self.begin(place.start, line, style, CollectionContent::Sequence(Vec::new()))?;
            }
            Event::MappingStart(style, ..) => {
                if self.open.is_empty() {
                    self.indent = span.start.col();
                }
                self.begin(place.start, line, style, CollectionContent::mapping())?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(place.end)?,
            _ => {}
        }
        Ok(())
    }

    fn begin(
        &mut self,
        start: usize,
        line: usize,
        style: StructureStyle,
        content: CollectionContent,
    ) -> Result<(), FrontmatterError> {
        if self.open.len() >= MAX_DEPTH {
            let (what, remedy) = ("more than 64 levels", "write flatter values");
            return Err(FrontmatterError::NotAccepted { line, what, remedy });
        }
        self.open.push(Collection { start, line, flow: style == StructureStyle::Flow, content });
        Ok(())
    }

    /// The lines of a block scalar with the value `text`. The parser may end it behind the spaces of the next line, and includes blank lines below it
    /// even where they do not count.
    fn block_text(&self, place: Range<usize>, text: &str) -> Range<usize> {
        let written = self.yaml.get(place.clone()).unwrap_or_default();
        let last_line = text.strip_suffix('\n').unwrap_or(text);
        let blank_lines_say_nothing = !last_line.is_empty() && !last_line.ends_with(char::is_whitespace);
        let kept = if blank_lines_say_nothing {
            written.trim_end()
        } else {
            Some(written.trim_end_matches(' ')).filter(|lines| lines.ends_with('\n')).unwrap_or(written)
        };
        place.start..place.start + kept.len()
    }

    /// Closes the innermost collection. The parser places the end of a block where the next token begins, so its real end is that of its last part.
    fn end(&mut self, end: usize) -> Result<(), FrontmatterError> {
        let Some(Collection { start, line, flow, content }) = self.open.pop() else { return Ok(()) };
        let (last, shape) = match content {
            CollectionContent::Sequence(items) => {
                (items.last().map(|item| item.span.end), YamlShape::Sequence { flow, items })
            }
            CollectionContent::Mapping { entries, .. } => {
                let last = entries.last().map(|entry| entry.value.span.end.max(entry.key_span.end));
                (last, YamlShape::Mapping { flow, entries })
            }
        };
        let end = if flow { end } else { last.unwrap_or(start) };
        self.add(YamlNode { span: start..end, line, shape }, None)
    }

    /// Adds a finished node to its parent; `text` is the value of a scalar.
    fn add(&mut self, node: YamlNode, text: Option<String>) -> Result<(), FrontmatterError> {
        let Some(collection) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match &mut collection.content {
            CollectionContent::Sequence(items) => items.push(node),
            CollectionContent::Mapping { entries, names, key } => match key.take() {
                Some(YamlKey { text, span, line }) => {
                    entries.push(YamlEntry { key: text, key_span: span, line, value: node });
                }
                None => *key = Some(YamlKey::new(node, text, names)?),
            },
        }
        Ok(())
    }

    fn finish(self) -> Result<Outline, FrontmatterError> {
        match &self.root {
            Some(YamlNode { line, shape: YamlShape::Scalar(_) | YamlShape::Sequence { .. }, .. }) => {
                Err(FrontmatterError::NotAMapping { line: *line })
            }
            _ => Ok(Outline { indent: self.indent, root: self.root }),
        }
    }
}

impl ScalarForm {
    fn of(style: ScalarStyle, place: &Range<usize>) -> Self {
        match style {
            ScalarStyle::Plain if place.is_empty() => Self::Nothing,
            ScalarStyle::Plain => Self::Plain,
            ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => Self::Quoted,
            ScalarStyle::Literal | ScalarStyle::Folded => Self::Block,
        }
    }
}

/// The span in bytes. The parser knows them whenever it reads from a string.
fn bytes(span: &Span) -> Range<usize> {
    let start = span.start.byte_offset().unwrap_or_default();
    start..span.end.byte_offset().unwrap_or(start).max(start)
}

//! YAML as a tree with source positions.
//!
//! The tree keeps scalars as text: what `5` or `yes` means is decided by the key, not guessed. YAML features that a
//! configuration does not need are problems: tags, merge keys, second documents, keys that are not text, duplicate
//! keys. Aliases share their node, but their expanded size counts against the node limit, so that a small file
//! cannot become a large tree ("billion laughs").

use std::collections::HashMap;
use std::rc::Rc;

use serde_saphyr::granit_parser::{
    self, ErrorKind, Event, Marker, Parser, ScalarStyle, ScanError, Span, StrInput, Tag,
};

use crate::problem::{SourcePosition, shown};
use crate::problem_report::ProblemReport;

/// Maximum size of a file.
pub(crate) const MAX_BYTES: usize = 1 << 20;
/// Maximum number of nodes of a file with aliases expanded.
const MAX_NODES: usize = 50_000;
/// Maximum nesting depth, through aliases too.
const MAX_DEPTH: usize = 32;

/// A value and its position.
#[derive(Debug)]
pub(crate) struct ConfigNode {
    pub(crate) position: SourcePosition,
    /// How many characters to underline.
    pub(crate) width: usize,
    pub(crate) kind: NodeKind,
    /// The number of nodes with aliases expanded, itself included.
    weight: usize,
    /// The number of levels, itself included.
    height: usize,
}

/// The kind of a value.
#[derive(Debug)]
pub(crate) enum NodeKind {
    Scalar { text: String, plain: bool },
    List(Vec<Rc<ConfigNode>>),
    Map(Vec<(Rc<ConfigNode>, Rc<ConfigNode>)>),
}

impl ConfigNode {
    /// The text of a scalar.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.kind {
            NodeKind::Scalar { text, .. } => Some(text),
            NodeKind::List(_) | NodeKind::Map(_) => None,
        }
    }

    /// Whether it is empty or one of YAML's null words.
    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.kind, NodeKind::Scalar { text, plain: true } if matches!(&**text, "" | "~" | "null" | "Null" | "NULL"))
    }

    /// The value at a JSON pointer, or the last existing one on its path.
    pub(crate) fn at(&self, pointer: &str) -> &Self {
        let mut node = self;
        for step in pointer.split('/').skip(1) {
            let step = step.replace("~1", "/").replace("~0", "~");
            let next = match &node.kind {
                NodeKind::Map(entries) => {
                    entries.iter().find(|(key, _)| key.text() == Some(&step)).map(|(_, value)| value)
                }
                NodeKind::List(items) => step.parse::<usize>().ok().and_then(|index| items.get(index)),
                NodeKind::Scalar { .. } => None,
            };
            let Some(next) = next else { break };
            node = next;
        }
        node
    }

    /// The value of a key, if this is a mapping that has it.
    pub(crate) fn get(&self, name: &str) -> Option<&Rc<Self>> {
        let NodeKind::Map(entries) = &self.kind else { return None };
        entries.iter().find(|(key, _)| key.text() == Some(name)).map(|(_, value)| value)
    }

    /// A description of the value for messages.
    pub(crate) fn describe(&self) -> String {
        match &self.kind {
            NodeKind::Scalar { .. } if self.is_null() => "nothing".to_owned(),
            NodeKind::Scalar { text, plain: true } => format!("`{}`", shown(text)),
            NodeKind::Scalar { text, plain: false } => format!("the text `{}`", shown(text)),
            NodeKind::List(_) => "a list".to_owned(),
            NodeKind::Map(_) => "a mapping".to_owned(),
        }
    }
}

/// How many documents a file may contain.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Documents {
    One,
    Many,
}

/// Parses text into a tree. `None` if it is empty or the tree would be incomplete; in the latter case there are
/// problems in the report.
pub(crate) fn read(text: &str, report: &mut ProblemReport<'_>) -> Option<Rc<ConfigNode>> {
    compose(text, Documents::One, report)?.pop()
}

/// Parses text into one tree per document. `None` if some tree would be incomplete.
pub(crate) fn read_all(text: &str, report: &mut ProblemReport<'_>) -> Option<Vec<Rc<ConfigNode>>> {
    compose(text, Documents::Many, report)
}

fn compose(text: &str, documents: Documents, report: &mut ProblemReport<'_>) -> Option<Vec<Rc<ConfigNode>>> {
    if text.len() > MAX_BYTES {
        let message = format!("the file has {} bytes and at most {MAX_BYTES} are read", text.len());
        report.at(SourcePosition { line: 1, column: 1 }, 1, message, None);
        return None;
    }
    let options = granit_parser::options! {
        emit_comments: false,
        emit_unresolved_aliases: true,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    let (open, anchors, roots) = (Vec::new(), HashMap::new(), Vec::new());
    let mut composer = Composer { report, documents, open, anchors, nodes: 0, roots };
    for event in Parser::<StrInput<'_>>::new_from_str_with_options(text, options) {
        match event
            .map_err(|error| composer.unreadable(&error))
            .and_then(|(event, span)| composer.take(event, &span))
        {
            Ok(()) => {}
            Err(ReadAborted) => return None,
        }
    }
    Some(composer.roots)
}

/// The rest of the file cannot be parsed; the problem has been reported.
struct ReadAborted;

/// A list or mapping that is not closed yet.
struct OpenCollection {
    position: SourcePosition,
    anchor: usize,
    items: Items,
}

enum Items {
    List(Vec<Rc<ConfigNode>>),
    /// With the line on which each key first appears.
    Map {
        entries: Vec<(Rc<ConfigNode>, Rc<ConfigNode>)>,
        lines: HashMap<String, usize>,
        key: NextInMapping,
    },
}

/// The role of the next node in a mapping.
enum NextInMapping {
    /// It is a key.
    Key,
    /// It is the value of this key.
    Value(Rc<ConfigNode>),
    /// It is the value of a rejected key.
    Nothing,
}

struct Composer<'r, 's> {
    report: &'r mut ProblemReport<'s>,
    documents: Documents,
    open: Vec<OpenCollection>,
    /// Complete nodes by anchor; an anchor that is missing here is still open.
    anchors: HashMap<usize, Rc<ConfigNode>>,
    nodes: usize,
    roots: Vec<Rc<ConfigNode>>,
}

impl Composer<'_, '_> {
    fn take(&mut self, event: Event<'_>, span: &Span) -> Result<(), ReadAborted> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_tag(tag.as_deref(), span);
                let plain = style == ScalarStyle::Plain;
                let kind = NodeKind::Scalar { text: text.into_owned(), plain };
                self.finish(position_of(&span.start), span.len(), kind, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.begin(span, anchor, tag.as_deref(), Items::List(Vec::new()))
            }
            Event::MappingStart(_, anchor, tag) => {
                let items =
                    Items::Map { entries: Vec::new(), lines: HashMap::new(), key: NextInMapping::Key };
                self.begin(span, anchor, tag.as_deref(), items)
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(anchor) => self.alias(anchor, span),
            Event::UnresolvedAlias(name) => self.unresolved_alias(&name, span),
            Event::DocumentStart(..) if self.documents == Documents::One && !self.roots.is_empty() => self
                .abandon(
                    span,
                    "a second document begins here",
                    Some("keep one document per file".to_owned()),
                ),
            _ => Ok(()),
        }
    }

    fn begin(
        &mut self,
        span: &Span,
        anchor: usize,
        tag: Option<&Tag>,
        items: Items,
    ) -> Result<(), ReadAborted> {
        self.refuse_tag(tag, span);
        self.open.push(OpenCollection { position: position_of(&span.start), anchor, items });
        Ok(())
    }

    fn end(&mut self) -> Result<(), ReadAborted> {
        let Some(OpenCollection { position: place, anchor, items }) = self.open.pop() else { return Ok(()) };
        let kind = match items {
            Items::List(items) => NodeKind::List(items),
            Items::Map { entries, .. } => NodeKind::Map(entries),
        };
        self.finish(place, 1, kind, anchor)
    }

    fn finish(
        &mut self,
        place: SourcePosition,
        width: usize,
        kind: NodeKind,
        anchor: usize,
    ) -> Result<(), ReadAborted> {
        let (weight, height) = measure(&kind);
        let node = Rc::new(ConfigNode { position: place, width, kind, weight, height });
        if anchor != 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        self.spend(1, &node)?;
        self.attach(node);
        Ok(())
    }

    fn alias(&mut self, anchor: usize, span: &Span) -> Result<(), ReadAborted> {
        let Some(node) = self.anchors.get(&anchor).cloned() else {
            return self.abandon(span, "an alias stands inside the value it names", None);
        };
        self.spend(node.weight, &node)?;
        self.attach(node);
        Ok(())
    }

    /// Usually a glob without quotes, so it is treated as that text.
    fn unresolved_alias(&mut self, name: &str, span: &Span) -> Result<(), ReadAborted> {
        let text = format!("*{name}");
        let help = format!("put text that begins with `*` in quotes: `\"{}\"`", shown(&text));
        self.report.at(
            position_of(&span.start),
            span.len(),
            format!("`{}` names no anchor", shown(&text)),
            Some(help),
        );
        self.finish(position_of(&span.start), span.len(), NodeKind::Scalar { text, plain: false }, 0)
    }

    /// Counts nodes and levels against the limits.
    fn spend(&mut self, nodes: usize, node: &ConfigNode) -> Result<(), ReadAborted> {
        self.nodes = self.nodes.saturating_add(nodes);
        let message = if self.nodes > MAX_NODES {
            format!("the file amounts to more than {MAX_NODES} values")
        } else if node.height > MAX_DEPTH {
            too_deep()
        } else {
            return Ok(());
        };
        self.report.at(node.position, node.width, message, None);
        Err(ReadAborted)
    }

    fn attach(&mut self, node: Rc<ConfigNode>) {
        match self.open.last_mut().map(|open| &mut open.items) {
            None => self.roots.push(node),
            Some(Items::List(items)) => items.push(node),
            Some(Items::Map { entries, lines, key }) => match std::mem::replace(key, NextInMapping::Key) {
                NextInMapping::Key if is_key(&node, lines, self.report) => *key = NextInMapping::Value(node),
                NextInMapping::Key => *key = NextInMapping::Nothing,
                NextInMapping::Value(name) => entries.push((name, node)),
                NextInMapping::Nothing => {}
            },
        }
    }

    fn refuse_tag(&mut self, tag: Option<&Tag>, span: &Span) {
        let Some(tag) = tag else { return };
        let span = span.tag_span().unwrap_or(*span);
        let message = format!("the tag `{}` means nothing here", shown(&tag.original()));
        self.report.at(position_of(&span.start), span.len(), message, Some("remove it".to_owned()));
    }

    fn abandon(
        &mut self,
        span: &Span,
        message: impl Into<String>,
        help: Option<String>,
    ) -> Result<(), ReadAborted> {
        self.report.at(position_of(&span.start), span.len(), message, help);
        Err(ReadAborted)
    }

    fn unreadable(&mut self, error: &ScanError) -> ReadAborted {
        let (message, help) = match error.kind() {
            ErrorKind::UnexpectedCharacter { character } if character.is_control() => {
                ("this is not text".to_owned(), None)
            }
            ErrorKind::UnexpectedCharacter { character } => {
                let character = shown(&character.to_string());
                let help = format!("put text that begins with `{character}` in quotes");
                (format!("nothing may begin with `{character}`"), Some(help))
            }
            ErrorKind::TabInIndentation | ErrorKind::TabInBlockIndentation | ErrorKind::TabNotAllowed => {
                ("a tab cannot indent YAML".to_owned(), Some("use spaces".to_owned()))
            }
            ErrorKind::RecursionLimitExceeded => (too_deep(), None),
            other => (format!("this is not YAML: {other}"), None),
        };
        self.report.at(position_of(error.marker()), 1, message, help);
        ReadAborted
    }
}

/// Whether a node is a valid key besides those on these lines; if not, reports why.
fn is_key(node: &ConfigNode, lines: &mut HashMap<String, usize>, report: &mut ProblemReport<'_>) -> bool {
    let NodeKind::Scalar { text, plain } = &node.kind else {
        report.node(
            node,
            "a key must be text",
            Some("quote it if it begins with `[`, `{`, `&` or `*`".to_owned()),
        );
        return false;
    };
    if *plain && text == "<<" {
        let help = "repeat the keys, or share a whole value with `&name` and `*name`".to_owned();
        report.node(node, "the merge key `<<` is not understood", Some(help));
        return false;
    }
    let earlier = lines.get(text).copied();
    match earlier {
        Some(line) => {
            let message = format!("the key `{}` appears twice", shown(text));
            report.node(node, message, Some(format!("it is already on line {line}; keep one of them")));
        }
        None => _ = lines.insert(text.clone(), node.position.line),
    }
    earlier.is_none()
}

fn too_deep() -> String {
    format!("values are nested more than {MAX_DEPTH} levels deep")
}

fn measure(kind: &NodeKind) -> (usize, usize) {
    let children: Vec<&ConfigNode> = match kind {
        NodeKind::Scalar { .. } => Vec::new(),
        NodeKind::List(items) => items.iter().map(|item| &**item).collect(),
        NodeKind::Map(entries) => entries.iter().flat_map(|(key, value)| [&**key, &**value]).collect(),
    };
    let weight = children.iter().fold(1usize, |sum, child| sum.saturating_add(child.weight));
    (weight, 1 + children.iter().map(|child| child.height).max().unwrap_or(0))
}

fn position_of(marker: &Marker) -> SourcePosition {
    SourcePosition { line: marker.line(), column: marker.col() + 1 }
}

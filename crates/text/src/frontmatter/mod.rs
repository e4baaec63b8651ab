//! YAML frontmatter of Markdown documents: parsed, and changed without touching the rest.
//!
//! The YAML stands between two `---` lines at the beginning of the document. An update changes only the lines it has to: comments, blank lines,
//! order, quotes, line ends and the whole body stay byte for byte. The text is changed at positions that the YAML parser reports, and the result is
//! parsed again and compared with the intended value before it is returned. Anchors, aliases, tags and further documents are refused: frontmatter
//! does not need them, and they make one line change the meaning of another.

mod error;
mod operation;
mod outline;
mod splice;
mod write;

use serde_json::{Map, Value};

pub use error::FrontmatterError;

/// Frontmatter larger than this is refused.
pub const MAX_BYTES: usize = 1 << 20;

/// A document split at its fences.
#[derive(Clone, Debug, PartialEq)]
pub struct Frontmatter<'a> {
    /// The lines between the fences.
    pub yaml: &'a str,
    /// Everything after the closing fence.
    pub body: &'a str,
    /// The parsed YAML, in its order.
    pub value: Map<String, Value>,
}

/// Parses the frontmatter of a document.
///
/// # Errors
/// When there is none, or it is not a plain mapping; with the line of the document.
pub fn parse(document: &str) -> Result<Frontmatter<'_>, FrontmatterError> {
    let fenced = Fenced::find(document)?;
    let (_, value) = read(fenced.yaml)?;
    Ok(Frontmatter { yaml: fenced.yaml, body: fenced.body, value })
}

/// Changes the frontmatter of a document.
///
/// Known operations: `stepsCompleted.append` and `artifacts.append` (strings that are not there yet), `decisionLog.append` (objects), `variables.set`
/// (names and values, merged), `currentNodeId.set` and `updatedAt.set`. They may be nested (`{"variables": {"set": {…}}}`) or dotted
/// (`{"variables.set": {…}}`). A document without frontmatter gets one.
///
/// # Errors
/// When the operations or the frontmatter are invalid. If the result would not have exactly the intended meaning, that is an internal error and no
/// document is returned.
pub fn update(document: &str, update: &Map<String, Value>) -> Result<String, FrontmatterError> {
    let operations = operation::read(update)?;
    let begun;
    let fenced = match Fenced::find(document) {
        Err(FrontmatterError::Missing) => {
            begun = begin(document);
            Fenced::find(&begun)?
        }
        found => found?,
    };
    let (outline, value) = read(fenced.yaml)?;
    let plan = operation::plan(&value, operations, &outline)?;
    if plan.edits.is_empty() {
        return Ok(document.to_owned());
    }
    let yaml = splice::apply(fenced.yaml, &outline, &plan.edits, fenced.line_end)?;
    if yaml.len() > MAX_BYTES {
        return Err(FrontmatterError::TooLarge);
    }
    let changed = [fenced.before, &yaml, fenced.closing, fenced.body].concat();
    verify(&changed, &yaml, fenced.body, &plan.intended)?;
    Ok(changed)
}

/// The document with empty frontmatter in front of it, with its own line ends.
fn begin(document: &str) -> String {
    let text = document.strip_prefix('\u{feff}').unwrap_or(document);
    let mark = if text.len() < document.len() { "\u{feff}" } else { "" };
    let first = text.split_inclusive('\n').next().unwrap_or_default();
    let line_end = if first.ends_with("\r\n") { "\r\n" } else { "\n" };
    format!("{mark}---{line_end}---{line_end}{text}")
}

/// Checks the result of the splices: the document must have the intended meaning, and nothing else may have changed.
fn verify(
    changed: &str,
    yaml: &str,
    body: &str,
    intended: &Map<String, Value>,
) -> Result<(), FrontmatterError> {
    let again = parse(changed).map_err(|_| FrontmatterError::NotAsIntended)?;
    if again.yaml == yaml && again.body == body && again.value == *intended {
        return Ok(());
    }
    Err(FrontmatterError::NotAsIntended)
}

fn read(yaml: &str) -> Result<(outline::Outline, Map<String, Value>), FrontmatterError> {
    let outline = outline::Outline::read(yaml)?;
    let value = outline::value(yaml)?;
    Ok((outline, value))
}

/// A document split at its fences; the parts in order are the document.
struct Fenced<'a> {
    /// The opening fence, and a byte order mark if there is one.
    before: &'a str,
    yaml: &'a str,
    closing: &'a str,
    body: &'a str,
    /// The line end of the document.
    line_end: &'static str,
}

impl<'a> Fenced<'a> {
    fn find(document: &'a str) -> Result<Self, FrontmatterError> {
        let text = document.strip_prefix('\u{feff}').unwrap_or(document);
        let mut lines = text.split_inclusive('\n');
        let opening = lines.next().filter(|line| is_fence(line) && line.ends_with('\n'));
        let opening = opening.ok_or(FrontmatterError::Missing)?;
        let start = document.len() - text.len() + opening.len();
        let mut end = start;
        for line in lines {
            if is_fence(line) {
                return Self::cut(document, start, end, line).ok_or(FrontmatterError::Unclosed);
            }
            end += line.len();
            if end - start > MAX_BYTES {
                return Err(FrontmatterError::TooLarge);
            }
        }
        Err(FrontmatterError::Unclosed)
    }

    fn cut(document: &'a str, start: usize, end: usize, closing: &'a str) -> Option<Self> {
        let before = document.get(..start)?;
        Some(Self {
            before,
            yaml: document.get(start..end)?,
            closing,
            body: document.get(end + closing.len()..)?,
            line_end: if before.ends_with("\r\n") { "\r\n" } else { "\n" },
        })
    }
}

/// `---`, alone on its line except for white space.
fn is_fence(line: &str) -> bool {
    line.strip_prefix("---").is_some_and(|rest| rest.trim_matches([' ', '\t', '\r', '\n']).is_empty())
}

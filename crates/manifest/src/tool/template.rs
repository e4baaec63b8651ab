//! Argument lists with placeholders, checked when they are loaded.
//!
//! - `{name}` stands for one argument of the call; `{{` and `}}` are braces.
//! - An element that is exactly `{name}` becomes one argument per item if the value is a list. Nothing else ever becomes
//!   more than one argument, and no text is ever split.
//! - An element whose placeholder has no value is omitted. A nested list, such as `["--author", "{author}"]`, is omitted
//!   as a whole.
//! - `{if: verbose, then: [--verbose], else: [--quiet]}` chooses by a boolean; `else` is optional.
//! - `{git_pathspecs: "@project"}` expands to pathspecs that limit git's history to what tools can access in that mount.
//! - The program is literal.

use super::property::ValueRules;

/// A compiled program with its arguments.
#[derive(Clone, Debug)]
pub struct CommandTemplate {
    pub(super) program: String,
    pub(super) parts: Vec<TemplatePart>,
}

impl CommandTemplate {
    /// The program: a name, or an absolute path.
    #[must_use]
    pub fn program(&self) -> &str {
        &self.program
    }

    /// The program and every possible argument, with `{name}` in place of a value.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let arguments = self.parts.iter().flat_map(TemplatePart::elements).map(Element::as_written);
        std::iter::once(self.program.clone()).chain(arguments).collect()
    }

    /// The mount whose rules become pathspecs, if any.
    #[must_use]
    pub fn pathspecs_of(&self) -> Option<&str> {
        self.parts.iter().find_map(|part| match part {
            TemplatePart::Pathspecs { alias } => Some(alias.as_str()),
            TemplatePart::Group(_) | TemplatePart::Choice { .. } => None,
        })
    }
}

/// Text with placeholders, for standard input. The rules of arguments apply to its values; see [`super::rendering`].
#[derive(Clone, Debug)]
pub struct TextTemplate {
    pub(super) pieces: Vec<TemplatePiece>,
}

/// One entry of the list.
#[derive(Clone, Debug)]
pub(super) enum TemplatePart {
    /// Elements that are present or absent together; usually one.
    Group(Vec<Element>),
    Choice {
        name: String,
        then: Vec<Element>,
        otherwise: Vec<Element>,
    },
    /// The rules of a mount as git pathspecs.
    Pathspecs {
        alias: String,
    },
}

impl TemplatePart {
    pub(super) fn elements(&self) -> impl Iterator<Item = &Element> {
        let (first, second): (&[Element], &[Element]) = match self {
            Self::Group(elements) => (elements, &[]),
            Self::Choice { then, otherwise, .. } => (then, otherwise),
            Self::Pathspecs { .. } => (&[], &[]),
        };
        first.iter().chain(second)
    }
}

/// An element that becomes one argument.
#[derive(Clone, Debug)]
pub(super) struct Element {
    pub(super) pieces: Vec<TemplatePiece>,
    /// Whether a literal `--` always precedes it, so that it cannot be read as an option.
    pub(super) after_separator: bool,
}

impl Element {
    pub(super) fn slots(&self) -> impl Iterator<Item = &Slot> {
        slots(&self.pieces)
    }

    /// The slot, if it is the whole element.
    pub(super) fn whole(&self) -> Option<&Slot> {
        match &*self.pieces {
            [TemplatePiece::Slot(slot)] => Some(slot),
            _ => None,
        }
    }

    fn as_written(&self) -> String {
        let written = |piece: &TemplatePiece| match piece {
            TemplatePiece::Literal(text) => text.clone(),
            TemplatePiece::Slot(slot) => format!("{{{}}}", slot.name),
        };
        self.pieces.iter().map(written).collect()
    }

    pub(super) fn is_separator(&self) -> bool {
        matches!(&*self.pieces, [TemplatePiece::Literal(text)] if text == "--")
    }
}

pub(super) fn slots(pieces: &[TemplatePiece]) -> impl Iterator<Item = &Slot> {
    pieces.iter().filter_map(|piece| match piece {
        TemplatePiece::Slot(slot) => Some(slot),
        TemplatePiece::Literal(_) => None,
    })
}

#[derive(Clone, Debug)]
pub(super) enum TemplatePiece {
    Literal(String),
    Slot(Slot),
}

/// A placeholder, and what its value may be.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) name: String,
    pub(super) required: bool,
    /// Whether a number is always an integer, so that `5.0` is written `5`.
    pub(super) whole_numbers: bool,
    pub(super) rules: ValueRules,
    /// The prefix of a path: `.` or the mount point inside the sandbox.
    pub(super) root: String,
}

/// A piece of an element as written.
pub(super) enum RawPiece {
    Literal(String),
    Placeholder(String),
}

/// Splits text at its placeholders.
pub(super) fn split(text: &str) -> Result<Vec<RawPiece>, &'static str> {
    let (mut pieces, mut literal) = (Vec::new(), String::new());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '{' | '}' if characters.peek() == Some(&character) => {
                characters.next();
                literal.push(character);
            }
            '{' => {
                if !literal.is_empty() {
                    pieces.push(RawPiece::Literal(std::mem::take(&mut literal)));
                }
                pieces.push(RawPiece::Placeholder(placeholder(&mut characters)?));
            }
            '}' => return Err("a `}` closes nothing"),
            other => literal.push(other),
        }
    }
    if !literal.is_empty() || pieces.is_empty() {
        pieces.push(RawPiece::Literal(literal));
    }
    Ok(pieces)
}

fn placeholder(characters: &mut impl Iterator<Item = char>) -> Result<String, &'static str> {
    let mut name = String::new();
    loop {
        match characters.next() {
            Some('}') if name.is_empty() => return Err("a placeholder has no name"),
            Some('}') => return Ok(name),
            Some('{') => return Err("a `{` stands inside a placeholder"),
            Some(other) => name.push(other),
            None => return Err("a `{` is not closed"),
        }
    }
}

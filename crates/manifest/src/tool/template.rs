//! Argument lists with placeholders, checked when they are loaded.
//!
//! - `{name}` stands for one argument of the call; `{{` and `}}` are braces.
//! - An element that is exactly `{name}` becomes one argument for each item when the value is a list. Nothing else ever
//!   becomes more than one argument, and no text is ever split.
//! - An element whose placeholder has no value is left out. A list inside the list, such as `["--author", "{author}"]`,
//!   is left out as a whole.
//! - `{if: verbose, then: [--verbose], else: [--quiet]}` chooses by a truth value; `else` may be missing.
//! - `{git_pathspecs: "@project"}` becomes what git must be told to show of a history only what tools reach in that mount.
//! - The program is literal.

use super::property::ValueRules;

/// A program and its arguments, compiled.
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

    /// The program and every argument that a call could lead to, with `{name}` where a value goes.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let arguments = self.parts.iter().flat_map(TemplatePart::elements).map(Element::as_written);
        std::iter::once(self.program.clone()).chain(arguments).collect()
    }

    /// The mount whose rules git is told, if it is told any.
    #[must_use]
    pub fn pathspecs_of(&self) -> Option<&str> {
        self.parts.iter().find_map(|part| match part {
            TemplatePart::Pathspecs { alias } => Some(alias.as_str()),
            TemplatePart::Group(_) | TemplatePart::Choice { .. } => None,
        })
    }
}

/// Text with placeholders, for standard input. The rules of arguments hold for its values; see [`super::rendering`].
#[derive(Clone, Debug)]
pub struct TextTemplate {
    pub(super) pieces: Vec<TemplatePiece>,
}

/// One entry of the list.
#[derive(Clone, Debug)]
pub(super) enum TemplatePart {
    /// Elements that are there or left out together; most often one.
    Group(Vec<Element>),
    Choice {
        name: String,
        then: Vec<Element>,
        otherwise: Vec<Element>,
    },
    /// The rules of a mount as git understands them.
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

/// What becomes one argument.
#[derive(Clone, Debug)]
pub(super) struct Element {
    pub(super) pieces: Vec<TemplatePiece>,
    /// Whether a literal `--` certainly stands before it, so that it cannot be read as an option.
    pub(super) after_separator: bool,
}

impl Element {
    pub(super) fn slots(&self) -> impl Iterator<Item = &Slot> {
        slots(&self.pieces)
    }

    /// The slot that is the whole element.
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

/// Where a value goes, and what it may be there.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) name: String,
    pub(super) required: bool,
    /// Whether a number is always whole, so that `5.0` is written `5`.
    pub(super) whole_numbers: bool,
    pub(super) rules: ValueRules,
    /// What a path of its mount is written behind: `.` or the place of the mount inside the sandbox.
    pub(super) root: String,
}

/// A piece of an element as it is spelt.
pub(super) enum RawPiece {
    Literal(String),
    Placeholder(String),
}

/// Takes text apart at its placeholders.
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

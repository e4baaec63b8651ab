//! Renders the arguments of a call as the arguments of a command.
//!
//! A value that the schema accepts is checked once more by its position. Refused, whatever the schema says: NUL, invisible characters (line breaks
//! and tabs unless `x-toolgate-multiline`), empty text (unless `enum` lists it or `x-toolgate-allow: [empty]`), text that makes an argument start
//! with `-` before a literal `--`, text that starts with `@` at the start of an argument or after `=`, or contains `=@` (unless `x-toolgate-allow:
//! ["@"]`: many programs read such a file), and more bytes than the kernel accepts. The same holds for `stdin`, line by line.

use serde_json::Value;
use toolgate_types::{ErrorCode, Failure};

use super::paths::{RealPaths, join_path};
use super::template::{CommandTemplate, Element, Slot, TemplatePart, TemplatePiece, TextTemplate, slots};
use crate::problem::shown;

/// Maximum bytes of one argument: Linux's `MAX_ARG_STRLEN` is 128 KiB including the NUL.
const MAX_ARGUMENT_BYTES: usize = 128 * 1024 - 1;
/// Maximum bytes of all arguments, with the kernel's overhead for each.
const MAX_ARGUMENTS_BYTES: usize = 1 << 20;
/// The kernel's overhead for each argument: the NUL and a pointer.
const ARGUMENT_OVERHEAD_BYTES: usize = 9;
/// Replaces the pathspecs if no workspace provides rules, as in examples and approval questions.
pub const WHOLE_WORKTREE: &str = ":(top)";
/// Maximum bytes of a path: `PATH_MAX` without the NUL.
const MAX_PATH_BYTES: usize = 4095;

impl CommandTemplate {
    /// The program and its arguments for one call, with paths as written.
    ///
    /// # Errors
    /// `invalid_arguments`, with the argument and a remedy.
    pub fn render(&self, input: &Value) -> Result<Vec<String>, Failure> {
        self.render_with(input, &[WHOLE_WORKTREE.to_owned()], &RealPaths::default())
    }

    /// The same with these pathspecs, and with resolved paths.
    ///
    /// # Errors
    /// `invalid_arguments`, with the argument and a remedy.
    pub fn render_with(
        &self,
        input: &Value,
        pathspecs: &[String],
        real: &RealPaths,
    ) -> Result<Vec<String>, Failure> {
        let mut arguments = vec![self.program.clone()];
        for part in &self.parts {
            match part {
                TemplatePart::Group(elements) => group(elements, input, real, &mut arguments)?,
                TemplatePart::Pathspecs { .. } => arguments.extend_from_slice(pathspecs),
                TemplatePart::Choice { name, then, otherwise } => {
                    let chosen = if is_set(name, input)? { then } else { otherwise };
                    for element in chosen {
                        group(std::slice::from_ref(element), input, real, &mut arguments)?;
                    }
                }
            }
        }
        let total: usize = arguments.iter().map(|argument| argument.len() + ARGUMENT_OVERHEAD_BYTES).sum();
        if total > MAX_ARGUMENTS_BYTES {
            let message = format!(
                "the arguments have {total} bytes together and at most {MAX_ARGUMENTS_BYTES} are taken"
            );
            return Err(Failure::new(ErrorCode::InvalidArguments, message).help("send less"));
        }
        Ok(arguments)
    }
}

impl TextTemplate {
    /// The text for one call; `None` if a placeholder has no value. A value that is the whole text is unrestricted: a string is written as it is, any
    /// other value as JSON. Within other text the rules of arguments apply, per line instead of per argument, or a value could add lines of its own
    /// to what the operator wrote. A path is checked as a path in both cases.
    ///
    /// # Errors
    /// `invalid_arguments` if a value is refused.
    pub fn render(&self, input: &Value, real: &RealPaths) -> Result<Option<String>, Failure> {
        if slots(&self.pieces).any(|slot| given(slot, input).is_none()) {
            return Ok(None);
        }
        let alone = self.pieces.len() == 1;
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                TemplatePiece::Literal(literal) => text.push_str(literal),
                TemplatePiece::Slot(slot) => match given(slot, input) {
                    Some(value) if alone => text.push_str(&free(value, slot, input, real)?),
                    Some(value) => {
                        let value = written(value, slot, &slot.name, real)?;
                        begins_well(&text, &value, slot)?;
                        text.push_str(&value);
                    }
                    None => {}
                },
            }
        }
        Ok(Some(text))
    }
}

/// A value that is the whole standard input.
fn free(value: &Value, slot: &Slot, input: &Value, real: &RealPaths) -> Result<String, Failure> {
    if slot.rules.path.is_some() {
        let paths = items(slot, input).into_iter().map(|(place, value)| written(value, slot, &place, real));
        return Ok(paths.collect::<Result<Vec<_>, _>>()?.join("\n"));
    }
    match value {
        Value::Array(_) | Value::Object(_) => Ok(value.to_string()),
        value => plain(value, slot, &slot.name),
    }
}

/// Checks a value within a line: no option and no `@file` for programs that read arguments from their standard input, unless the value may contain
/// lines.
fn begins_well(before: &str, value: &str, slot: &Slot) -> Result<(), Failure> {
    if slot.rules.multiline {
        return Ok(());
    }
    let leads = before.is_empty() || before.ends_with('\n');
    if names_a_file(leads || before.ends_with('='), value) && !slot.rules.at_sign {
        return Err(read_as_file(&slot.name, value));
    }
    // A negative number is no option.
    if leads && value.starts_with('-') && value.parse::<f64>().is_err() {
        return Err(read_as_option(&slot.name));
    }
    Ok(())
}

/// Whether text is `@file` at a position where that has a meaning, or contains it after `=`: programs such as curl read the file of that name.
fn names_a_file(begins: bool, text: &str) -> bool {
    (begins && text.starts_with('@')) || text.contains("=@")
}

fn read_as_file(place: &str, text: &str) -> Failure {
    let where_it_is = if text.starts_with('@') { "begins with `@`" } else { "holds `=@`" };
    let reason = format!("{where_it_is}, which a program may take for a file to read");
    unfit(place, &reason, "leave out the `@`")
}

fn read_as_option(place: &str) -> Failure {
    let help = "give a value that does not begin with `-`";
    unfit(place, "begins with `-`, which a program may take for an option", help)
}

/// Adds elements that are present or absent together.
fn group(
    elements: &[Element],
    input: &Value,
    real: &RealPaths,
    arguments: &mut Vec<String>,
) -> Result<(), Failure> {
    for slot in elements.iter().flat_map(Element::slots) {
        if given(slot, input).is_some() {
            continue;
        }
        if slot.required && input.get(&slot.name).is_none() {
            return Err(unfit(&slot.name, "is missing", "give it"));
        }
        return Ok(());
    }
    for element in elements {
        match element.whole() {
            Some(slot) => {
                for (place, value) in items(slot, input) {
                    arguments.push(element.render(real, |_| Some((place.clone(), value)))?);
                }
            }
            None => {
                let value = |slot: &Slot| given(slot, input).map(|value| (slot.name.clone(), value));
                arguments.push(element.render(real, value)?);
            }
        }
    }
    Ok(())
}

/// A value that is present: neither absent nor null nor an empty list.
fn given<'i>(slot: &Slot, input: &'i Value) -> Option<&'i Value> {
    input.get(&slot.name).filter(|value| match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        _ => true,
    })
}

/// A value or each of its items, with its name for messages.
fn items<'i>(slot: &Slot, input: &'i Value) -> Vec<(String, &'i Value)> {
    match given(slot, input) {
        Some(Value::Array(items)) => {
            items.iter().enumerate().map(|(index, item)| (format!("{}/{index}", slot.name), item)).collect()
        }
        Some(value) => vec![(slot.name.clone(), value)],
        None => Vec::new(),
    }
}

fn is_set(name: &str, input: &Value) -> Result<bool, Failure> {
    match input.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(set)) => Ok(*set),
        Some(_) => Err(unfit(name, "is not a truth value", "give `true` or `false`")),
    }
}

impl Element {
    fn render<'i>(
        &self,
        real: &RealPaths,
        value_of: impl Fn(&Slot) -> Option<(String, &'i Value)>,
    ) -> Result<String, Failure> {
        let mut argument = String::new();
        // The slot whose value the argument starts with, if any.
        let mut leader = None;
        for piece in &self.pieces {
            match piece {
                TemplatePiece::Literal(literal) => argument.push_str(literal),
                TemplatePiece::Slot(slot) => {
                    let Some((place, value)) = value_of(slot) else { continue };
                    let text = written(value, slot, &place, real)?;
                    let leads = argument.is_empty();
                    if names_a_file(leads || argument.ends_with('='), &text) && !slot.rules.at_sign {
                        return Err(read_as_file(&place, &text));
                    }
                    argument.push_str(&text);
                    if leads {
                        leader = Some(place);
                    }
                }
            }
        }
        match leader {
            Some(place) if argument.starts_with('-') && !self.after_separator => Err(read_as_option(&place)),
            leader if argument.len() > MAX_ARGUMENT_BYTES => {
                let place =
                    leader.or_else(|| self.slots().next().map(|slot| slot.name.clone())).unwrap_or_default();
                Err(too_long(&place, argument.len(), MAX_ARGUMENT_BYTES))
            }
            _ => Ok(argument),
        }
    }
}

/// A value as part of an argument.
fn written(value: &Value, slot: &Slot, place: &str, real: &RealPaths) -> Result<String, Failure> {
    if let Some(folder) = &slot.rules.path {
        let spelt = join_path(&folder.path, &path(value, place)?);
        return Ok(join_path(&slot.root, real.get(place).unwrap_or(&spelt)));
    }
    let text = plain(value, slot, place)?;
    if text.len() > MAX_ARGUMENT_BYTES {
        return Err(too_long(place, text.len(), MAX_ARGUMENT_BYTES));
    }
    if text.is_empty() && !slot.rules.empty {
        return Err(unfit(place, "is empty", "give some text, or leave it out"));
    }
    let refused = |character: &char| {
        character.is_control() && !(slot.rules.multiline && matches!(character, '\n' | '\r' | '\t'))
    };
    match text.chars().find(refused) {
        Some(character) => Err(invisible(place, character)),
        None => Ok(text),
    }
}

/// A string, number or boolean as text.
fn plain(value: &Value, slot: &Slot, place: &str) -> Result<String, Failure> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(set) => Ok(set.to_string()),
        Value::Number(number) => Ok(match number.as_f64() {
            // JSON Schema counts `5.0` as an integer.
            Some(float) if slot.whole_numbers && number.is_f64() && float.fract() == 0.0 => {
                format!("{float:.0}")
            }
            _ => number.to_string(),
        }),
        Value::Null | Value::Array(_) | Value::Object(_) => {
            Err(unfit(place, "is not plain", "give text, a number or a truth value"))
        }
    }
}

/// A path beneath its directory, without empty and `.` components; empty is the directory itself.
pub(super) fn path(value: &Value, place: &str) -> Result<String, Failure> {
    const HELP: &str = "give a path such as `src/main.rs`, or `.` for the folder itself";
    let Some(text) = value.as_str() else {
        return Err(unfit(place, "is not a path", HELP));
    };
    let reason = if text.is_empty() {
        "is empty"
    } else if text.starts_with('/') || text.starts_with('\\') {
        "is an absolute path"
    } else if text.starts_with('@') {
        "begins with an alias; the path is relative already"
    } else if text.starts_with('-') {
        "begins with `-`"
    } else if text.split(['/', '\\']).any(|part| part == "..") {
        "leads upward with `..`"
    } else if text.len() > MAX_PATH_BYTES {
        return Err(too_long(place, text.len(), MAX_PATH_BYTES));
    } else if let Some(character) = text.chars().find(|character| character.is_control()) {
        return Err(invisible(place, character));
    } else {
        let parts: Vec<&str> = text.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
        return Ok(parts.join("/"));
    };
    Err(unfit(place, reason, HELP))
}

fn invisible(place: &str, character: char) -> Failure {
    let named = match character {
        '\0' => "NUL".to_owned(),
        '\n' | '\r' => "a line break".to_owned(),
        '\t' => "a tab".to_owned(),
        other => format!("the invisible character `{}`", other.escape_unicode()),
    };
    unfit(place, &format!("holds {named}"), "leave it out")
}

fn too_long(place: &str, bytes: usize, most: usize) -> Failure {
    unfit(place, &format!("has {bytes} bytes"), &format!("give at most {most} bytes"))
}

fn unfit(place: &str, reason: &str, help: &str) -> Failure {
    let pointer = format!("/{place}");
    Failure::new(ErrorCode::InvalidArguments, format!("`{}` {reason}", shown(place)))
        .help(help)
        .detail("path", pointer)
}

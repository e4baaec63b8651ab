//! A question of a server behind the gate, on a terminal: shown in the server's words, in a form that an approval never has.

use std::fs::File;
use std::io::{self, Write as _};
use std::time::Instant;

use rustix::termios::{QueueSelector, tcflush};
use serde_json::{Map, Value};
use toolgate_gate::{FieldKind, FieldOption, FormField, QuestionBody, ServerAnswer, ServerQuestion};

use crate::answer_row::read_line;
use crate::terminal::escape_line;

/// How often a value that does not fit may be typed again.
const MAX_TRIES: usize = 3;

/// The answer, or `None` after the timeout or a cancellation.
pub(crate) fn prompt_server_question(
    mut terminal: &File,
    question: &ServerQuestion,
    stop: &dyn Fn() -> bool,
) -> io::Result<Option<ServerAnswer>> {
    let deadline = Instant::now() + question.timeout;
    let _ = tcflush(terminal, QueueSelector::IFlush);
    terminal.write_all(card(question).as_bytes())?;
    let mut read = |words: &str| -> io::Result<Option<String>> {
        terminal.write_all(words.as_bytes())?;
        read_line(terminal, deadline, stop)
    };
    let start = match &question.body {
        QuestionBody::Form(_) => "Answer this server? [y/N] ",
        QuestionBody::Url { .. } => "Did you open it, and want to tell the server so? [y/N] ",
    };
    let Some(wants) = read(start)? else { return Ok(None) };
    if !matches!(wants.trim(), "y" | "Y" | "yes") {
        return Ok(Some(ServerAnswer::Declined));
    }
    let mut content = Map::new();
    if let QuestionBody::Form(fields) = &question.body {
        for field in fields {
            let mut tries = 0;
            loop {
                let Some(typed) = read(&label(field))? else { return Ok(None) };
                match value(field, typed.trim()) {
                    Ok(Some(value)) => drop(content.insert(field.name.clone(), value)),
                    Ok(None) => {}
                    Err(()) if tries + 1 < MAX_TRIES => {
                        tries += 1;
                        continue;
                    }
                    Err(()) => return Ok(Some(ServerAnswer::Cancelled)),
                }
                break;
            }
        }
    }
    Ok(Some(ServerAnswer::Accepted(content)))
}

/// The question. Rows of the server have a mark that no row of the gate has.
fn card(question: &ServerQuestion) -> String {
    let (server, tool) = (escape_line(&question.server), escape_line(&question.tool));
    let mut text = format!(
        "\nThe MCP server {server} asks you something while it runs {tool}.\nThis is not a question of Toolgate, and no answer approves a call.\n"
    );
    for line in question.message.lines().filter(|line| !line.trim().is_empty()) {
        text.push_str(&format!("  | {}\n", escape_line(line)));
    }
    if let QuestionBody::Url { url, .. } = &question.body {
        text.push_str(&format!(
            "It wants you to open this address; nothing opens it for you:\n  | {}\n",
            escape_line(url)
        ));
    }
    text
}

/// What a field is, before its value is typed.
fn label(field: &FormField) -> String {
    let options = |options: &[FieldOption]| {
        let shown = options.iter().map(|option| match &option.title {
            Some(title) => format!("{} ({title})", option.value),
            None => option.value.clone(),
        });
        shown.collect::<Vec<_>>().join(", ")
    };
    let kind = match &field.kind {
        FieldKind::Text { format: Some(format), .. } => format.clone(),
        FieldKind::Text { .. } => "text".to_owned(),
        FieldKind::Number { is_whole: true, .. } => "whole number".to_owned(),
        FieldKind::Number { .. } => "number".to_owned(),
        FieldKind::Boolean => "yes or no".to_owned(),
        FieldKind::Choice(choices) => format!("one of {}", options(choices)),
        FieldKind::Choices { options: choices, .. } => format!("some of {}, with commas", options(choices)),
    };
    let need = match (&field.default, field.is_required) {
        (Some(Value::String(default)), _) => format!(", empty for {default}"),
        (Some(default), _) => format!(", empty for {default}"),
        (None, true) => String::new(),
        (None, false) => ", may be empty".to_owned(),
    };
    let said = [field.title.as_deref(), field.description.as_deref()];
    let said: Vec<&str> = said.into_iter().flatten().collect();
    let said =
        if said.is_empty() { String::new() } else { format!("  | {}\n", escape_line(&said.join(": "))) };
    format!("{said}{} [{}]: ", escape_line(&field.name), escape_line(&format!("{kind}{need}")))
}

/// The value that was typed; `None` for no value.
fn value(field: &FormField, typed: &str) -> Result<Option<Value>, ()> {
    if typed.is_empty() {
        return match (&field.default, field.is_required) {
            (Some(default), _) => Ok(Some(default.clone())),
            (None, false) => Ok(None),
            (None, true) => Err(()),
        };
    }
    let value = match &field.kind {
        FieldKind::Text { .. } | FieldKind::Choice(_) => Value::from(typed),
        FieldKind::Number { is_whole: true, .. } => typed.parse::<i64>().map_err(|_| ())?.into(),
        FieldKind::Number { .. } => typed.parse::<f64>().map_err(|_| ())?.into(),
        FieldKind::Boolean => match typed.to_ascii_lowercase().as_str() {
            "y" | "yes" | "true" => true.into(),
            "n" | "no" | "false" => false.into(),
            _ => return Err(()),
        },
        FieldKind::Choices { .. } => typed.split(',').map(|one| Value::from(one.trim())).collect(),
    };
    if field.kind.accepts(&value) { Ok(Some(value)) } else { Err(()) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn field(kind: FieldKind, is_required: bool, default: Option<Value>) -> FormField {
        FormField {
            name: "f".to_owned(),
            title: None,
            description: None,
            kind,
            is_required,
            default,
            has_enum_names: false,
        }
    }

    #[test]
    fn what_is_typed_is_a_value_of_the_field_or_nothing() {
        let options = || {
            vec![
                FieldOption { value: "a".to_owned(), title: None },
                FieldOption { value: "b".to_owned(), title: None },
            ]
        };
        let text = FieldKind::Text { min: None, max: Some(3), format: None };
        let whole = FieldKind::Number { is_whole: true, min: Some(1.0), max: None };
        for (kind, typed, expected) in [
            (text.clone(), "abc", Ok(Some(json!("abc")))),
            (text.clone(), "abcd", Err(())),
            (text, "", Err(())),
            (whole.clone(), "7", Ok(Some(json!(7)))),
            (whole.clone(), "0", Err(())),
            (whole, "x", Err(())),
            (FieldKind::Boolean, "Yes", Ok(Some(json!(true)))),
            (FieldKind::Boolean, "maybe", Err(())),
            (FieldKind::Choice(options()), "b", Ok(Some(json!("b")))),
            (FieldKind::Choice(options()), "c", Err(())),
            (
                FieldKind::Choices { options: options(), min: None, max: None },
                "a, b",
                Ok(Some(json!(["a", "b"]))),
            ),
            (FieldKind::Choices { options: options(), min: None, max: None }, "a, c", Err(())),
        ] {
            assert_eq!(value(&field(kind.clone(), true, None), typed), expected, "{kind:?} {typed:?}");
        }
        assert_eq!(value(&field(FieldKind::Boolean, false, None), ""), Ok(None));
        assert_eq!(value(&field(FieldKind::Boolean, true, Some(json!(true))), ""), Ok(Some(json!(true))));
    }
}

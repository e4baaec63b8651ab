//! Converts a command's output into a tool's answer.

use serde_json::Value;
use toolgate_command::truncate_json;
use toolgate_manifest::OutputParse;
use toolgate_text::json_len::json_len;
use toolgate_text::sanitize_value;
use toolgate_types::{ErrorCode, Failure, ToolOutput};

/// Reserved for the truncation notice.
const NOTICE_BYTES: usize = 200;

/// Parses the output. Long text and lines are truncated with a notice; truncated JSON would be something else, so it is an error.
pub(super) fn answer(parse: OutputParse, output: &str, most: usize) -> Result<ToolOutput, Failure> {
    let structured = match parse {
        OutputParse::Text => Value::String(cut_text(output, most)),
        OutputParse::Lines => Value::Array(cut_lines(output, most).into_iter().map(Value::String).collect()),
        OutputParse::Json => whole(json(output)?, output.len(), most)?,
        OutputParse::JsonLines => {
            let lines = output.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
            let values = lines.map(|(index, line)| {
                json(line).map_err(|failure| {
                    let note = failure.operator_note.clone().unwrap_or_default();
                    failure.operator_note(format!("line {}: {note}", index + 1))
                })
            });
            whole(Value::Array(values.collect::<Result<_, _>>()?), output.len(), most)?
        }
    };
    Ok(ToolOutput::new(shown(&structured), structured))
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn json(text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map(sanitize_value).map_err(|error| {
        Failure::new(ErrorCode::OutputInvalid, "the tool answered with something that it did not declare")
            .operator_note(format!("the output is not JSON: {error}"))
    })
}

fn whole(value: Value, bytes: usize, most: usize) -> Result<Value, Failure> {
    if bytes <= most {
        return Ok(value);
    }
    let message = format!("the answer has {bytes} bytes, and at most {most} may leave");
    Err(Failure::new(ErrorCode::ResourceLimit, message).help("ask for less at once"))
}

fn notice(shown: usize, all: usize) -> String {
    format!("[truncated: {shown} of {all} bytes shown; ask for less at once]")
}

fn cut_text(text: &str, most: usize) -> String {
    let (kept, cut) = truncate_json(text, most);
    if !cut {
        return kept;
    }
    let (kept, _) = truncate_json(text, most.saturating_sub(NOTICE_BYTES));
    let shown = kept.len();
    let line = if kept.is_empty() || kept.ends_with('\n') { "" } else { "\n" };
    format!("{kept}{line}{}\n", notice(shown, text.len()))
}

fn cut_lines(text: &str, most: usize) -> Vec<String> {
    // Each line costs two quotes and a comma.
    let cost = |line: &str| json_len(line) + 3;
    let all: usize = text.lines().map(cost).sum();
    if all <= most {
        return text.lines().map(str::to_owned).collect();
    }
    let mut left = most.saturating_sub(NOTICE_BYTES);
    let fits = |line: &&str| match left.checked_sub(cost(line)) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    let mut kept: Vec<String> = text.lines().take_while(fits).map(str::to_owned).collect();
    let shown = kept.iter().map(|line| line.len() + 1).sum();
    kept.push(notice(shown, text.len()));
    kept
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn value(parse: OutputParse, output: &str, most: usize) -> Value {
        answer(parse, output, most).unwrap().structured.into_value()
    }

    #[test]
    fn each_way_of_reading() {
        for (parse, output, wanted) in [
            (OutputParse::Text, "a\nb\n", json!("a\nb\n")),
            (OutputParse::Text, "", json!("")),
            (OutputParse::Lines, "a\n\nb\n", json!(["a", "", "b"])),
            (OutputParse::Lines, "", json!([])),
            (OutputParse::Json, " {\"a\": [1, \"\\u001b[31mred\\u202e\"]}\n", json!({"a": [1, "red"]})),
            (OutputParse::JsonLines, "{\"a\":1}\n\n2\n", json!([{"a": 1}, 2])),
            (OutputParse::JsonLines, "", json!([])),
        ] {
            assert_eq!(value(parse, output, 1000), wanted, "{output:?}");
        }
    }

    #[test]
    fn what_is_not_json_is_the_operators_business() {
        for (parse, output) in
            [(OutputParse::Json, ""), (OutputParse::Json, "{} {}"), (OutputParse::JsonLines, "1\nx y\n")]
        {
            let failure = answer(parse, output, 1000).unwrap_err();
            assert_eq!(failure.code, ErrorCode::OutputInvalid);
            assert!(!failure.to_string().contains("x y"));
            assert!(failure.operator_note.is_some_and(|note| note.contains("not JSON")), "{output:?}");
        }
    }

    #[test]
    fn long_answers_are_cut_or_refused() {
        let text = value(OutputParse::Text, &"ä\n".repeat(5000), 1000);
        assert!(text.to_string().len() <= 1000 && text.as_str().unwrap().contains("of 15000 bytes shown"));
        let lines = value(OutputParse::Lines, &"line\n".repeat(5000), 1000);
        assert!(lines.to_string().len() <= 1000);
        assert!(lines.as_array().unwrap().last().unwrap().as_str().unwrap().starts_with("[truncated: "));
        let list = format!("[{}1]", "1,".repeat(1000));
        assert_eq!(answer(OutputParse::Json, &list, 1000).unwrap_err().code, ErrorCode::ResourceLimit);
    }
}

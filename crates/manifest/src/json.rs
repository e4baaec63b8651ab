//! Converts the located tree to JSON, for schemas and the inputs of examples.
//!
//! Plain scalars follow the YAML 1.2 core schema. Spellings on which YAML versions disagree, and numbers that JSON
//! cannot represent, are problems rather than guesses.

use serde_json::{Map, Number, Value};

use crate::problem::shown;
use crate::problem_report::ProblemReport;
use crate::yaml_tree::{ConfigNode, NodeKind};

/// The value of a node, or `None` if some of it has no JSON form; the problem has been reported.
pub(crate) fn value(node: &ConfigNode, report: &mut ProblemReport<'_>) -> Option<Value> {
    match &node.kind {
        NodeKind::Scalar { text, plain: false } => Some(Value::String(text.clone())),
        NodeKind::Scalar { text, plain: true } => scalar(text, node, report),
        NodeKind::List(items) => {
            // Every item is converted, so that every problem is reported.
            let items: Vec<Option<Value>> = items.iter().map(|item| value(item, report)).collect();
            items.into_iter().collect::<Option<_>>().map(Value::Array)
        }
        NodeKind::Map(entries) => {
            let entry = |(key, item): &(std::rc::Rc<ConfigNode>, std::rc::Rc<ConfigNode>)| {
                let item = value(item, report);
                Some((key.text()?.to_owned(), item?))
            };
            let entries: Vec<Option<(String, Value)>> = entries.iter().map(entry).collect();
            entries.into_iter().collect::<Option<Map<_, _>>>().map(Value::Object)
        }
    }
}

fn scalar(text: &str, node: &ConfigNode, report: &mut ProblemReport<'_>) -> Option<Value> {
    match text {
        _ if node.is_null() => Some(Value::Null),
        "true" | "True" | "TRUE" => Some(Value::Bool(true)),
        "false" | "False" | "FALSE" => Some(Value::Bool(false)),
        _ => match number(text) {
            Scalar::Text => Some(Value::String(text.to_owned())),
            Scalar::Number(number) => Some(Value::Number(number)),
            Scalar::Unclear(help) => {
                let message = format!("`{}` can be read as more than one thing", shown(text));
                report.node(node, message, Some(help.to_owned()));
                None
            }
        },
    }
}

#[derive(Debug, PartialEq)]
enum Scalar {
    Text,
    Number(Number),
    /// Ambiguous, with an unambiguous spelling.
    Unclear(&'static str),
}

fn number(text: &str) -> Scalar {
    let digits = text.trim_start_matches(['-', '+']);
    if text.len() > digits.len() + 1 {
        return Scalar::Text;
    }
    let special = digits.to_ascii_lowercase();
    if matches!(&*special, ".inf" | ".nan") {
        return Scalar::Unclear("JSON has no such number; put text in quotes");
    }
    if is_radix(&special) {
        return Scalar::Unclear("write a number in decimal, or put text in quotes");
    }
    if !is_decimal(digits) {
        return Scalar::Text;
    }
    if digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Scalar::Unclear("write a number without a leading zero, or put text in quotes");
    }
    decimal(text.trim_start_matches('+'))
        .map_or(Scalar::Unclear("the number is too large; put text in quotes"), Scalar::Number)
}

/// `0x1f`, `0o17`
fn is_radix(text: &str) -> bool {
    ["0x", "0o"].iter().any(|prefix| {
        text.strip_prefix(prefix)
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_hexdigit()))
    })
}

/// `(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_decimal(text: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty()) && exponent
}

fn decimal(text: &str) -> Option<Number> {
    if text.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit()) {
        let negative = text.parse::<i64>().ok().map(Number::from);
        return negative.or_else(|| text.parse::<u64>().ok().map(Number::from));
    }
    text.parse::<f64>().ok().and_then(Number::from_f64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::problem::SourceText;

    fn read(text: &str) -> Result<Value, String> {
        let source = SourceText::new("f.yaml", text);
        let mut report = ProblemReport::new(&source);
        let node = crate::yaml_tree::read(text, &mut report).unwrap();
        let value = value(&node, &mut report);
        report.finish().map_err(|problems| problems.to_string())?;
        Ok(value.unwrap())
    }

    #[test]
    fn plain_scalars_mean_what_yaml_says() {
        for (text, expected) in [
            ("~", json!(null)),
            ("null", json!(null)),
            ("true", json!(true)),
            ("False", json!(false)),
            ("yes", json!("yes")),
            ("no", json!("no")),
            ("5", json!(5)),
            ("-5", json!(-5)),
            ("+5", json!(5)),
            ("0", json!(0)),
            ("18446744073709551615", json!(u64::MAX)),
            ("1.5", json!(1.5)),
            (".5", json!(0.5)),
            ("5.", json!(5.0)),
            ("1e3", json!(1000.0)),
            ("1e", json!("1e")),
            (".", json!(".")),
            ("--5", json!("--5")),
            ("1_000", json!("1_000")),
            ("12:30", json!("12:30")),
            ("1.2.3", json!("1.2.3")),
            ("0x", json!("0x")),
            ("'5'", json!("5")),
            ("\"true\"", json!("true")),
            ("[a, {b: [1, null]}]", json!(["a", {"b": [1, null]}])),
        ] {
            assert_eq!(read(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_unclear_is_refused() {
        for text in ["007", "-012", "0x1F", "0o17", ".inf", "-.INF", ".nan", "18446744073709551616", "1e999"]
        {
            assert!(read(text).is_err(), "{text}");
        }
        let told = read("[01, {a: 02}]").unwrap_err();
        assert_eq!(told.lines().count(), 2, "{told}");
    }
}

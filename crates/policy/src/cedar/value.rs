//! Converts JSON values to Cedar values, by type.

use cedar_policy::{EvaluationError, RestrictedExpression};
use serde_json::{Map, Number, Value};

use super::path::{CallPaths, RealPath};
use super::typing::{CedarType, RecordType};

/// 2^53: integers up to here are exact in an `f64`.
const MAX_EXACT_FLOAT: f64 = 9_007_199_254_740_992.0;

/// Why an expression cannot be evaluated for a call. Contains names and types, never values: it goes into
/// audit records.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undecidable {
    /// An argument does not have the declared type, or exceeds Cedar's range.
    #[error("the argument `{path}` is not {wanted}")]
    Unfit {
        /// The argument.
        path: String,
        /// The expected type.
        wanted: &'static str,
    },
    /// A required argument is missing.
    #[error("the argument `{path}` is missing")]
    Missing {
        /// The argument.
        path: String,
    },
    /// The paths of the call could not be resolved.
    #[error("its paths could not be resolved")]
    NoPaths,
    /// The evaluation itself failed.
    #[error("{0}")]
    Evaluation(&'static str),
}

impl Undecidable {
    fn unfit(kind: &CedarType) -> Self {
        Self::Unfit { path: String::new(), wanted: kind.name() }
    }

    /// Prefixes the path with the enclosing field.
    fn inside(mut self, outer: &str) -> Self {
        if let Self::Unfit { path, .. } | Self::Missing { path } = &mut self {
            let joint = if path.is_empty() || path.starts_with('[') { "" } else { "." };
            *path = format!("{outer}{joint}{path}");
        }
        self
    }
}

/// Cedar's own messages can quote values, so they are replaced.
impl From<&EvaluationError> for Undecidable {
    fn from(error: &EvaluationError) -> Self {
        Self::Evaluation(match error {
            EvaluationError::IntegerOverflow(_) => "an integer overflowed",
            EvaluationError::RecordAttrDoesNotExist(_) | EvaluationError::EntityAttrDoesNotExist(_) => {
                "an attribute was missing"
            }
            EvaluationError::TypeError(_) => "a value had another type than declared",
            EvaluationError::FailedExtensionFunctionExecution(_) => "a `decimal` could not be made",
            EvaluationError::RecursionLimit(_) => "the expression is nested too deep",
            _ => "the expression could not be evaluated",
        })
    }
}

/// The selected fields of an object, as attributes.
pub(crate) fn attributes(
    object: &Value,
    fields: &RecordType,
    paths: Option<&CallPaths>,
    wanted: impl Fn(&str) -> bool,
) -> Result<Vec<(String, RestrictedExpression)>, Undecidable> {
    let Value::Object(object) = object else {
        return Err(Undecidable::Unfit { path: String::new(), wanted: "an object" });
    };
    let mut attributes = chosen(object, fields, |name| wanted(name) && !is_path(fields, name))?;
    for (name, field) in fields.named.iter().filter(|(name, field)| wanted(name) && field.kind.is_path()) {
        let place = path(name, object.get(name), paths)?;
        match place {
            Some(place) => attributes.push((name.clone(), place)),
            None if field.required => return Err(Undecidable::Missing { path: name.clone() }),
            None => {}
        }
    }
    Ok(attributes)
}

fn is_path(fields: &RecordType, name: &str) -> bool {
    fields.named.get(name).is_some_and(|field| field.kind.is_path())
}

/// The resolved path of an argument, or of each of its items. Its text is never used.
fn path(
    name: &str,
    value: Option<&Value>,
    paths: Option<&CallPaths>,
) -> Result<Option<RestrictedExpression>, Undecidable> {
    let real = |place: &str| {
        let found = paths.and_then(|paths| paths.argument(place));
        found.map(RealPath::to_cedar).transpose()
    };
    let unresolved =
        |place: &str| Undecidable::Unfit { path: place.to_owned(), wanted: CedarType::Path.name() };
    match value {
        Some(Value::Array(items)) => {
            let one = |index| {
                let place = format!("{name}/{index}");
                real(&place)?.ok_or_else(|| unresolved(&place))
            };
            let items: Result<Vec<_>, _> = (0..items.len()).map(one).collect();
            Ok(Some(RestrictedExpression::new_set(items?)))
        }
        Some(_) => real(name)?.ok_or_else(|| unresolved(name)).map(Some),
        // What a call without it means was determined when the paths were resolved.
        None => real(name),
    }
}

fn chosen(
    object: &Map<String, Value>,
    fields: &RecordType,
    wanted: impl Fn(&str) -> bool,
) -> Result<Vec<(String, RestrictedExpression)>, Undecidable> {
    let mut attributes = Vec::new();
    for (name, field) in fields.named.iter().filter(|(name, _)| wanted(name)) {
        match object.get(name) {
            Some(value) => {
                let value = expression(value, &field.kind).map_err(|unfit| unfit.inside(name))?;
                attributes.push((name.clone(), value));
            }
            None if field.required => return Err(Undecidable::Missing { path: name.clone() }),
            None => {}
        }
    }
    Ok(attributes)
}

/// Converts a value to a restricted expression.
fn expression(value: &Value, kind: &CedarType) -> Result<RestrictedExpression, Undecidable> {
    match (kind, value) {
        (CedarType::String, Value::String(text)) => Ok(RestrictedExpression::new_string(text.clone())),
        (CedarType::Boolean, Value::Bool(truth)) => Ok(RestrictedExpression::new_bool(*truth)),
        (CedarType::Long, Value::Number(number)) => {
            integer(number).map(RestrictedExpression::new_long).ok_or_else(|| Undecidable::unfit(kind))
        }
        (CedarType::Decimal, Value::Number(number)) => {
            decimal(number).map(RestrictedExpression::new_decimal).ok_or_else(|| Undecidable::unfit(kind))
        }
        (CedarType::Set(item), Value::Array(items)) => {
            let items: Result<Vec<_>, _> = items
                .iter()
                .map(|value| expression(value, item).map_err(|unfit| unfit.inside("[]")))
                .collect();
            Ok(RestrictedExpression::new_set(items?))
        }
        (CedarType::Record(fields), Value::Object(object)) => {
            let attributes = chosen(object, fields, |_| true)?;
            RestrictedExpression::new_record(attributes).map_err(|_| Undecidable::unfit(kind))
        }
        _ => Err(Undecidable::unfit(kind)),
    }
}

/// JSON Schema accepts `2.0` as an integer.
fn integer(number: &Number) -> Option<i64> {
    if let Some(whole) = number.as_i64() {
        return Some(whole);
    }
    let float = number.as_f64().filter(|float| number.is_f64() && float.fract() == 0.0)?;
    #[expect(clippy::cast_possible_truncation, reason = "the range was checked, and there is no fraction")]
    (float.abs() <= MAX_EXACT_FLOAT).then_some(float as i64)
}

/// Cedar's decimals have one to four decimal places and a range of about ±922 trillion.
fn decimal(number: &Number) -> Option<String> {
    const MAX_DECIMAL: i64 = 922_337_203_685_477;
    if let Some(whole) = number.as_i64() {
        return (whole.unsigned_abs() <= MAX_DECIMAL.unsigned_abs()).then(|| format!("{whole}.0"));
    }
    let float = number.as_f64().filter(|float| number.is_f64() && float.abs() < MAX_DECIMAL as f64)?;
    // The shortest decimal that parses to the same number; Rust uses no exponent here.
    let shown = format!("{float}");
    match shown.split_once('.') {
        None => Some(format!("{shown}.0")),
        Some((_, places)) => (places.len() <= 4).then_some(shown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn number(value: Value) -> Number {
        match value {
            Value::Number(number) => number,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn integers_are_exact_or_refused() {
        for (value, expected) in [
            (json!(5), Some(5)),
            (json!(-5), Some(-5)),
            (json!(i64::MIN), Some(i64::MIN)),
            (json!(i64::MAX), Some(i64::MAX)),
            (json!(i64::MAX as u64 + 1), None),
            (json!(u64::MAX), None),
            (json!(2.0), Some(2)),
            (json!(2.5), None),
            (json!(1e15), Some(1_000_000_000_000_000)),
            (json!(1e19), None),
            (json!(-1e300), None),
        ] {
            assert_eq!(integer(&number(value.clone())), expected, "{value}");
        }
    }

    #[test]
    fn decimals_are_exact_or_refused() {
        for (value, expected) in [
            (json!(5), Some("5.0")),
            (json!(0.5), Some("0.5")),
            (json!(-0.25), Some("-0.25")),
            (json!(1.2345), Some("1.2345")),
            (json!(1.23456), None),
            (json!(1e-7), None),
            (json!(1e20), None),
            (json!(i64::MAX), None),
            (json!(3.0), Some("3.0")),
        ] {
            assert_eq!(decimal(&number(value.clone())).as_deref(), expected, "{value}");
        }
    }
}

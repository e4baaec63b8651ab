//! Do the arguments fit, does the answer fit.

use std::sync::OnceLock;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use serde_json::{Value, json};
use toolgate_text::nearest::nearest_name;
use toolgate_types::{ErrorCode, Failure};

use crate::quick::proves;

/// How many problems of one call are told at once.
const MAX_PROBLEMS: usize = 8;

/// A schema that is compiled when it is first needed. One that does not compile lets nothing through.
#[derive(Default)]
struct Lazy(OnceLock<Result<Validator, String>>);

impl Lazy {
    fn validator(&self, schema: &Value) -> Result<&Validator, Failure> {
        let compiled = self.0.get_or_init(|| {
            jsonschema::draft202012::options().build(schema).map_err(|error| error.to_string())
        });
        compiled.as_ref().map_err(|reason| {
            Failure::new(ErrorCode::Internal, "the tool's schema cannot be used")
                .operator_note(reason.clone())
        })
    }
}

/// Checks arguments.
#[derive(Default)]
pub(crate) struct InputCheck(Lazy);

impl InputCheck {
    /// What does not fit, in words that let the model repair its call.
    pub(crate) fn check(&self, schema: &Value, arguments: &Value) -> Result<(), Failure> {
        if proves(schema, arguments) {
            return Ok(());
        }
        let validator = self.0.validator(schema)?;
        if validator.is_valid(arguments) {
            return Ok(());
        }
        let known = known_names(schema);
        let problems: Vec<String> = validator
            .iter_errors(arguments)
            .take(MAX_PROBLEMS)
            .flat_map(|error| describe(&error, &known))
            .collect();
        let message =
            if problems.is_empty() { "the arguments do not fit".to_owned() } else { problems.join("; ") };
        let required: Vec<&Value> =
            schema.get("required").and_then(Value::as_array).into_iter().flatten().collect();
        Err(Failure::new(ErrorCode::InvalidArguments, message)
            .help(format!("known arguments: {}", known.join(", ")))
            .detail("problems", problems)
            .detail("known", known)
            .detail("required", json!(required)))
    }
}

fn known_names(schema: &Value) -> Vec<String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.into_iter().flat_map(|properties| properties.keys().cloned()).collect()
}

fn describe(error: &ValidationError<'_>, known: &[String]) -> Vec<String> {
    let place = error.instance_path().to_string();
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            unexpected.iter().take(MAX_PROBLEMS).map(|name| unknown_argument(name, &place, known)).collect()
        }
        ValidationErrorKind::Required { property } => {
            vec![format!("missing argument `{}`", join(&place, property.as_str().unwrap_or_default()))]
        }
        _ => vec![format!(
            "{}{}",
            if place.is_empty() { String::new() } else { format!("`{}`: ", place.trim_start_matches('/')) },
            bounded(&error.to_string())
        )],
    }
}

fn unknown_argument(name: &str, place: &str, known: &[String]) -> String {
    let shown = bounded(&join(place, name));
    match nearest_name(name, known.iter().map(String::as_str)) {
        Some(nearest) if place.is_empty() => format!("unknown argument `{shown}`; did you mean `{nearest}`?"),
        _ => format!("unknown argument `{shown}`"),
    }
}

fn join(place: &str, name: &str) -> String {
    if place.is_empty() { name.to_owned() } else { format!("{}/{name}", place.trim_start_matches('/')) }
}

/// Values are quoted back to the model that sent them, but not whole files of them.
fn bounded(text: &str) -> String {
    const SHOWN: usize = 300;
    if text.chars().count() <= SHOWN {
        text.to_owned()
    } else {
        text.chars().take(SHOWN).chain("…".chars()).collect()
    }
}

/// Checks answers.
#[derive(Default)]
pub(crate) struct OutputCheck(Lazy);

impl OutputCheck {
    /// The model is not told what is wrong with an answer that it will not get; the operator is.
    pub(crate) fn check(&self, schema: &Value, structured: &Value) -> Result<(), Failure> {
        if proves(schema, structured) {
            return Ok(());
        }
        match self.0.validator(schema)?.validate(structured) {
            Ok(()) => Ok(()),
            Err(error) => {
                let note = format!("`{}`: {}", error.instance_path(), bounded(&error.masked().to_string()));
                Err(Failure::new(
                    ErrorCode::OutputInvalid,
                    "the tool answered with something it did not declare",
                )
                .operator_note(note))
            }
        }
    }
}

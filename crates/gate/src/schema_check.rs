//! Validates arguments and outputs against their JSON Schemas.

use std::sync::{Arc, OnceLock};

use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use serde_json::{Map, Value};
use toolgate_schema::{FieldSchema, is_certainly_valid, required_names, schema_problem, validator};
use toolgate_text::escaped_line;
use toolgate_text::nearest_name::nearest_name;
use toolgate_types::{Category, Deadline, ErrorCode, Failure, RawJsonObject};

use crate::dedicated_thread::{SingleFlight, run_on_dedicated_thread};
use crate::tool::Tool;

/// How many validation problems one failure lists.
const MAX_PROBLEMS: usize = 8;

/// The largest schema check that runs inline: parts of the schema times parts of the value.
const MAX_INLINE_COMPARISONS: usize = 1 << 16;

/// A schema compiled on first use. A schema that does not compile refuses every value.
#[derive(Default)]
pub(crate) struct LazySchema {
    compiled: OnceLock<Result<Validator, String>>,
    /// Number of parts of the schema.
    parts: OnceLock<usize>,
    single_flight: SingleFlight,
}

impl LazySchema {
    fn validator(&self, schema: &Map<String, Value>) -> Result<&Validator, Failure> {
        let compile = || validator(&Value::Object(schema.clone())).map_err(|error| schema_problem(&error));
        let compiled = self.compiled.get_or_init(compile);
        compiled.as_ref().map_err(|reason| {
            Failure::new(ErrorCode::Internal, "the tool's schema cannot be used")
                .operator_note(reason.clone())
        })
    }

    /// Whether the value is certainly valid and small enough to check inline.
    fn is_trivially_valid(&self, schema: &Map<String, Value>, value: &Value) -> bool {
        let room = MAX_INLINE_COMPARISONS
            / self.parts.get_or_init(|| count_object_parts(schema, usize::MAX)).max(&1);
        count_parts(value, room) < room && is_certainly_valid(schema, value)
    }
}

/// Approximate number of parts of a value, counted up to `most`. A string counts one part per 64 bytes.
fn count_parts(value: &Value, most: usize) -> usize {
    match value {
        Value::Array(items) => items.iter().fold(1, |sum, item| add_parts(sum, item, most)),
        Value::Object(fields) => count_object_parts(fields, most),
        Value::String(text) => 1 + text.len() / 64,
        _ => 1,
    }
}

/// The same for an object.
fn count_object_parts(fields: &Map<String, Value>, most: usize) -> usize {
    let with_name = |sum: usize, name: &str| sum.saturating_add(name.len() / 64);
    fields.iter().fold(1, |sum, (name, value)| add_parts(with_name(sum, name), value, most))
}

fn add_parts(sum: usize, value: &Value, most: usize) -> usize {
    if sum < most { sum.saturating_add(count_parts(value, most - sum)) } else { sum }
}

/// A check of a tool's arguments or of its output.
pub(crate) trait SchemaCheck: Send + Sync + 'static {
    fn schema<'t>(&self, tool: &'t dyn Tool) -> &'t Map<String, Value>;
    fn lazy(&self) -> &LazySchema;
    fn check(&self, schema: &Map<String, Value>, value: &Value) -> Result<(), Failure>;
}

/// Returns the value if it is valid. A check against an MCP server's schema runs on a dedicated thread, unless it is trivially valid. Only there is
/// the deadline made: most checks take less time than preparing it.
pub(crate) async fn check_value<C: SchemaCheck>(
    check: &Arc<C>,
    tool: &Arc<dyn Tool>,
    value: Value,
    deadline: impl FnOnce() -> Deadline,
) -> Result<Value, Failure> {
    let schema = check.schema(tool.as_ref());
    if tool.spec().category != Category::Mcp {
        return check.check(schema, &value).map(|()| value);
    }
    if check.lazy().is_trivially_valid(schema, &value) {
        return Ok(value);
    }
    let (own, tool) = (Arc::clone(check), Arc::clone(tool));
    let work = move || own.check(own.schema(tool.as_ref()), &value).map(|()| value);
    let (flight, deadline) = (&check.lazy().single_flight, deadline());
    // In a box: few calls come here.
    Box::pin(run_on_dedicated_thread(flight, &deadline, work)).await?
}

/// Validates arguments.
#[derive(Default)]
pub(crate) struct InputCheck(LazySchema);

impl SchemaCheck for InputCheck {
    fn schema<'t>(&self, tool: &'t dyn Tool) -> &'t Map<String, Value> {
        &tool.spec().input_schema
    }

    fn lazy(&self) -> &LazySchema {
        &self.0
    }

    /// Names what is invalid, so that the model can correct its call.
    fn check(&self, schema: &Map<String, Value>, arguments: &Value) -> Result<(), Failure> {
        if is_certainly_valid(schema, arguments) {
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
        // Argument names and values are the caller's, so they are escaped.
        Err(Failure::new(ErrorCode::InvalidArguments, escaped_line(&message))
            .help(format!("known arguments: {}", known.join(", ")))
            .detail("problems", problems)
            .detail("known", known)
            .detail("required", required_names(schema.get("required"))))
    }
}

fn known_names(schema: &Map<String, Value>) -> Vec<String> {
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
            vec![format!("missing argument `{}`", join_path(&place, property.as_str().unwrap_or_default()))]
        }
        _ => vec![format!(
            "{}{}",
            if place.is_empty() { String::new() } else { format!("`{}`: ", place.trim_start_matches('/')) },
            truncate(&error.to_string())
        )],
    }
}

fn unknown_argument(name: &str, place: &str, known: &[String]) -> String {
    let shown = truncate(&join_path(place, name));
    match nearest_name(name, known.iter().map(String::as_str)) {
        Some(nearest) if place.is_empty() => format!("unknown argument `{shown}`; did you mean `{nearest}`?"),
        _ => format!("unknown argument `{shown}`"),
    }
}

fn join_path(place: &str, name: &str) -> String {
    if place.is_empty() { name.to_owned() } else { format!("{}/{name}", place.trim_start_matches('/')) }
}

/// Values are quoted back to the model that sent them, but truncated.
fn truncate(text: &str) -> String {
    const MAX_SHOWN_CHARS: usize = 300;
    if text.chars().count() <= MAX_SHOWN_CHARS {
        text.to_owned()
    } else {
        text.chars().take(MAX_SHOWN_CHARS).chain("…".chars()).collect()
    }
}

/// Validates outputs.
#[derive(Default)]
pub(crate) struct OutputCheck {
    schema: LazySchema,
    /// The schema for answers that are JSON already, compiled on first use; `None` if it says more than types.
    fields: OnceLock<Option<FieldSchema>>,
}

impl SchemaCheck for OutputCheck {
    fn schema<'t>(&self, tool: &'t dyn Tool) -> &'t Map<String, Value> {
        &tool.spec().output_schema
    }

    fn lazy(&self) -> &LazySchema {
        &self.schema
    }

    /// The details of an invalid output go to the operator only: the model does not get the output, so it must not get quotes of it either.
    fn check(&self, schema: &Map<String, Value>, structured: &Value) -> Result<(), Failure> {
        if is_certainly_valid(schema, structured) {
            return Ok(());
        }
        match self.schema.validator(schema)?.validate(structured) {
            Ok(()) => Ok(()),
            Err(error) => {
                let note = format!("`{}`: {}", error.instance_path(), truncate(&error.masked().to_string()));
                Err(Failure::new(
                    ErrorCode::OutputInvalid,
                    "the tool answered with something it did not declare",
                )
                .operator_note(note))
            }
        }
    }
}

impl OutputCheck {
    /// The same for an answer that is JSON already.
    pub(crate) fn check_raw(
        &self,
        schema: &Map<String, Value>,
        written: &RawJsonObject,
    ) -> Result<(), Failure> {
        let compiled = self.fields.get_or_init(|| FieldSchema::compile(schema));
        match (written.field_types(), compiled) {
            (Some(fields), Some(compiled)) if compiled.is_certainly_valid(fields) => Ok(()),
            _ => self.check(schema, &written.parse()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolgate_types::ToolClass;

    use super::*;
    use crate::stages::ApprovedCall;
    use crate::tool::{CallContext, ToolFuture, ToolSpec};

    struct Strange(ToolSpec);

    impl Tool for Strange {
        fn spec(&self) -> &ToolSpec {
            &self.0
        }

        fn run(self: Arc<Self>, _: ApprovedCall, _: CallContext) -> ToolFuture {
            Box::pin(async { Err(Failure::new(ErrorCode::Internal, "never run")) })
        }
    }

    fn strange(output_schema: Value) -> Arc<dyn Tool> {
        Arc::new(Strange(ToolSpec {
            name: "strange__tool".parse().unwrap(),
            title: String::new(),
            description: String::new(),
            class: ToolClass::Read,
            category: Category::Mcp,
            input_schema: json!({"type": "object"}).into(),
            output_schema: output_schema.into(),
            requirements: None,
            output_policy: None,
            timeout: None,
            suspended: None,
        }))
    }

    fn fits(
        check: &Arc<OutputCheck>,
        tool: &Arc<dyn Tool>,
        value: Value,
        stop: &Deadline,
    ) -> Result<Value, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(check_value(check, tool, value, || stop.clone()))
    }

    #[test]
    fn a_schema_that_could_be_slow_by_design_lets_nothing_through() {
        for pattern in [r"(.*)\1x", "^(?!a)b"] {
            let (check, tool) = (Arc::default(), strange(json!({"not": {"pattern": pattern}})));
            let failure = fits(&check, &tool, json!("a"), &Deadline::never()).unwrap_err();
            assert_eq!(
                (failure.code, failure.message.as_str()),
                (ErrorCode::Internal, "the tool's schema cannot be used")
            );
        }
    }

    /// A slow check: many parts of a value against many parts of a schema.
    fn long() -> (Arc<dyn Tool>, Value) {
        let parts: Vec<Value> = (0..2000).map(|part| json!({"not": {"const": part}})).collect();
        (strange(json!({"items": {"allOf": parts}})), json!(vec!["x"; 20_000]))
    }

    #[test]
    fn a_strangers_schema_cannot_hold_a_call_longer_than_it_may_last() {
        let ((tool, value), check) = (long(), Arc::default());
        let past = Deadline::at(std::time::Instant::now());
        assert_eq!(fits(&check, &tool, value.clone(), &past).unwrap_err().code, ErrorCode::Timeout);
        let ended = Deadline::never().with_signal(|| true);
        assert_eq!(fits(&check, &tool, value, &ended).unwrap_err().code, ErrorCode::Cancelled);
    }

    #[test]
    fn what_fits_comes_back_as_it_was_and_what_does_not_is_told() {
        let (check, tool) =
            (Arc::default(), strange(json!({"type": "object", "properties": {"a": {"type": "integer"}}})));
        let large = json!({"a": 5, "b": vec![json!({"c": "d"}); 40_000]});
        for value in [json!({"a": 5}), json!({"a": 5.0}), large] {
            assert_eq!(fits(&check, &tool, value.clone(), &Deadline::never()).unwrap(), value);
        }
        let failure = fits(&check, &tool, json!({"a": "x"}), &Deadline::never()).unwrap_err();
        assert_eq!(failure.code, ErrorCode::OutputInvalid);
    }

    #[test]
    fn parts_are_counted_no_further_than_anybody_wants_to_know() {
        let value = json!({"a": [1, 2, {"b": "x".repeat(640)}], "c": null});
        assert_eq!(count_parts(&value, usize::MAX), 17);
        for most in 0..20 {
            let counted = count_parts(&value, most);
            assert!(counted == 17 || counted >= most, "{most} {counted}");
        }
    }
}

//! A condition on a call, typed by the tool's schema.

use std::fmt;
use std::str::FromStr as _;
use std::sync::Arc;

use cedar_policy::{
    Entities, EntityId, EntityTypeName, EntityUid, EvalResult, Expression, Policy, PolicySet, Request,
    Schema, ValidationMode, ValidationWarning, Validator, eval_expression,
};
use serde_json::{Value, json};

use super::context_reads::{ContextReads, Misuse, analyse};
use super::context_schema::{ContextSchema, schema};
use super::path::RealPath;
use super::rewrite::{Rewritten, rewrite};
use super::source::PolicyDiagnostic;
use super::tokens::{too_deep, with_large_stack};
use super::typing::ToolTyping;
use super::value::Undecidable;
use crate::call_facts::CallFacts;

/// Maximum length; a longer condition belongs in a policy file.
const MAX_CONDITION_BYTES: usize = 4096;

/// A Cedar expression over `input`, `caller` and `session`, validated for one tool.
#[derive(Clone)]
pub struct Condition(Arc<CompiledCondition>);

struct CompiledCondition {
    text: String,
    expression: Expression,
    context: ContextSchema,
    reads: ContextReads,
    principal: EntityUid,
    action: EntityUid,
    resource: EntityUid,
}

/// Why a condition was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ConditionError {
    /// What is wrong.
    pub message: String,
    /// A remedy.
    pub help: Option<String>,
    /// The byte offset of the mistake in the expression, if known.
    pub offset: Option<usize>,
}

impl ConditionError {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), help: None, offset: None }
    }

    fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl Condition {
    /// Validates an expression against the schema of a tool's arguments.
    ///
    /// # Errors
    /// If it is not a single boolean expression, refers to a field that is not declared or has no type,
    /// uses an optional field without checking `has` first, or can never hold.
    pub fn compile(expression: &str, schema: &Value) -> Result<Self, ConditionError> {
        Self::compile_for(expression, ToolTyping::of(schema))
    }

    /// The same for arguments with known types, paths among them.
    ///
    /// # Errors
    /// As [`Self::compile`]; and if it compares a path as text.
    pub fn compile_for(expression: &str, typing: ToolTyping) -> Result<Self, ConditionError> {
        if expression.len() > MAX_CONDITION_BYTES {
            return Err(ConditionError::new(format!(
                "a condition is at most {MAX_CONDITION_BYTES} bytes long"
            ))
            .help("put it into a policy file"));
        }
        if let Some(offset) = too_deep(expression) {
            return Err(ConditionError {
                offset: Some(offset),
                ..ConditionError::new("the condition is nested too deep")
            });
        }
        let rewritten = rewrite(expression).map_err(|foreign| ConditionError {
            message: format!("`{}` is not known in a condition", foreign.name),
            help: Some("a condition is about `input`, `path`, `caller` and `session`".to_owned()),
            offset: Some(foreign.offset),
        })?;
        let surroundings = ContextSchema::of(typing);
        let (parsed, reads) =
            with_large_stack(|| Ok((parse(&rewritten)?, check(&rewritten, &surroundings)?)))?;
        let [principal, action, resource] = ["Caller", "Action", "Tool"].map(named_condition);
        Ok(Self(Arc::new(CompiledCondition {
            text: expression.to_owned(),
            expression: parsed,
            context: surroundings,
            reads,
            principal: principal?,
            action: action?,
            resource: resource?,
        })))
    }

    /// The expression as written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// Whether it holds for a call.
    ///
    /// # Errors
    /// If it cannot be evaluated; the caller must then assume the worse case.
    pub fn holds(&self, facts: &CallFacts<'_>) -> Result<bool, Undecidable> {
        let compiled = &*self.0;
        let mut holds = false;
        let entities = compiled.context.entities(&compiled.reads, facts, &Entities::empty())?;
        let entities = entities.unwrap_or_else(Entities::empty);
        for path in compiled.context.cases(&compiled.reads, facts)? {
            holds |= compiled.holds_for(facts, path, &entities)?;
        }
        Ok(holds)
    }

    /// Whether it can be evaluated only after the paths of a call were resolved.
    #[must_use]
    pub fn needs_paths(&self) -> bool {
        self.0.context.needs_paths(&self.0.reads)
    }
}

impl CompiledCondition {
    /// Whether it holds for a call and one of its paths.
    fn holds_for(
        &self,
        facts: &CallFacts<'_>,
        path: Option<&RealPath>,
        entities: &Entities,
    ) -> Result<bool, Undecidable> {
        let context = self.context.context(&self.reads, facts, path)?;
        let [principal, action, resource] = [&self.principal, &self.action, &self.resource].map(Clone::clone);
        let request = Request::new(principal, action, resource, context, None)
            .map_err(|_| Undecidable::Evaluation("the call could not be put into Cedar's terms"))?;
        match eval_expression(&request, entities, &self.expression) {
            Ok(EvalResult::Bool(holds)) => Ok(holds),
            Ok(_) => Err(Undecidable::Evaluation("the condition is not a truth value")),
            Err(error) => Err(Undecidable::from(&error)),
        }
    }
}

impl fmt::Debug for Condition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Condition").field(&self.0.text).finish()
    }
}

/// Parses the text as a single expression, so that no text can close what is later put around it.
fn parse(rewritten: &Rewritten) -> Result<Expression, ConditionError> {
    Expression::from_str(&rewritten.text).map_err(|errors| match errors.iter().next() {
        Some(error) => refused(rewritten, PolicyDiagnostic::in_diagnostic(error)),
        None => ConditionError::new("the condition is not an expression"),
    })
}

fn refused(rewritten: &Rewritten, found: PolicyDiagnostic) -> ConditionError {
    ConditionError {
        message: restore_variables(&found.message),
        help: found.help.as_deref().map(restore_variables),
        offset: found.offset.map(|offset| rewritten.original_offset(offset)),
    }
}

/// Cedar's messages quote the rewritten expression.
fn restore_variables(message: &str) -> String {
    let mut message = message.replace(" in context for Action::\"condition\"", "");
    for name in ["input", "path", "caller", "session"] {
        message = message.replace(&format!("context.{name}"), name);
        message = message.replace(&format!("context[\"{name}\"]"), name);
    }
    message
}

/// Validates the expression as the only clause of the only policy, and finds out what it reads.
fn check(rewritten: &Rewritten, surroundings: &ContextSchema) -> Result<ContextReads, ConditionError> {
    const BEFORE: &str = "permit(principal,action,resource)when{";
    // The line break ends a comment at the end of the expression.
    let text = format!("{BEFORE}{}\n}};", rewritten.text);
    let defect = || ConditionError::new("the condition is not a single expression");
    let policy = Policy::parse(None, text).map_err(|_| defect())?;
    let tree = policy.to_pst().map_err(|_| defect())?;
    if tree.body().clauses().len() != 1 {
        return Err(defect());
    }
    let policies = PolicySet::from_policies([policy]).map_err(|_| defect())?;
    let actions = json!({"condition": {"appliesTo": {
        "principalTypes": ["Caller"], "resourceTypes": ["Tool"], "context": surroundings.to_cedar(),
    }}});
    let schema = Schema::from_json_value(schema(actions))
        .map_err(|error| ConditionError::new(format!("the tool's schema cannot be typed: {error}")))?;
    let validated = Validator::new(schema).validate(&policies, ValidationMode::Strict);
    // Cedar's order is not deterministic.
    let found = validated.validation_errors().map(|error| PolicyDiagnostic::in_diagnostic(error));
    if let Some(mut found) = found.min_by_key(|found| (found.offset, found.message.clone())) {
        found.offset = found.offset.map(|offset| offset.saturating_sub(BEFORE.len()));
        found.explain_left_out(&surroundings.typing);
        return Err(refused(rewritten, found));
    }
    let mounts: Vec<&str> = surroundings.typing.mounts().collect();
    let (reads, misuses) = analyse(&tree, &|place| vec![surroundings.at(place)], &mounts);
    if let Some(misuse) = misuses.first() {
        return Err(misused(misuse, &surroundings.typing));
    }
    if validated
        .validation_warnings()
        .any(|warning| matches!(warning, ValidationWarning::ImpossiblePolicy(_)))
    {
        return Err(ConditionError::new("the condition can never hold"));
    }
    Ok(reads)
}

fn misused(misuse: &Misuse, typing: &ToolTyping) -> ConditionError {
    let found = PolicyDiagnostic::misuse(misuse, "", &|name| typing.why_left_out(name));
    ConditionError { message: found.message, help: found.help, offset: None }
}

fn named_condition(kind: &str) -> Result<EntityUid, ConditionError> {
    let kind = EntityTypeName::from_str(kind)
        .map_err(|error| ConditionError::new(format!("the type `{kind}` cannot be named: {error}")))?;
    Ok(EntityUid::from_type_name_and_id(kind, EntityId::new("condition")))
}

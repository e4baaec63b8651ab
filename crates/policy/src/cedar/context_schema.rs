//! The context of a call for Cedar: its types and its values.

use cedar_policy::{Context, ContextCreationError, Entities, RestrictedExpression};
use serde_json::{Value, json};

use super::context_reads::ContextReads;
use super::path::{LOCATION, PATH, RealPath, with_paths};
use super::typing::{CedarType, RecordField, RecordType, ToolTyping};
use super::value::{Undecidable, attributes};
use crate::call_facts::{CallFacts, HeldPermissions};

/// The types of everything below `context`, for one tool.
#[derive(Clone, Debug)]
pub(crate) struct ContextSchema {
    types: RecordType,
    pub(crate) typing: ToolTyping,
}

impl ContextSchema {
    pub(crate) fn of(typing: ToolTyping) -> Self {
        let mut types = RecordType::new([
            ("input", RecordField::required(CedarType::Record(typing.input.clone()))),
            ("caller", RecordField::required(CedarType::Record(caller_fields()))),
            ("session", RecordField::required(CedarType::Record(session_fields()))),
        ]);
        if !typing.paths.is_empty() {
            let path = RecordField { kind: CedarType::Path, required: typing.always_has_path() };
            types.named.insert("path".to_owned(), path);
        }
        Self { types, typing }
    }

    /// Whether paths that are read must be resolved first.
    pub(crate) fn needs_paths(&self, reads: &ContextReads) -> bool {
        let is_read = |(name, field): (&String, &RecordField)| field.kind.is_path() && reads.input.has(name);
        !self.typing.paths.is_empty() && (reads.path || self.typing.input.named.iter().any(is_read))
    }

    /// The paths that a call is judged for, one after the other; a single `None` if they are not read.
    pub(crate) fn cases<'f>(
        &self,
        reads: &ContextReads,
        facts: &CallFacts<'f>,
    ) -> Result<Vec<Option<&'f RealPath>>, Undecidable> {
        if !reads.path || self.typing.paths.is_empty() {
            return Ok(vec![None]);
        }
        let paths = facts.paths.ok_or(Undecidable::NoPaths)?;
        let each: Vec<_> = paths.each().into_iter().map(Some).collect();
        match (each.is_empty(), self.typing.always_has_path()) {
            (true, true) => Err(Undecidable::NoPaths),
            (true, false) => Ok(vec![None]),
            (false, _) => Ok(each),
        }
    }

    /// The given entities and those of the call's paths.
    pub(crate) fn entities(
        &self,
        reads: &ContextReads,
        facts: &CallFacts<'_>,
        known: &Entities,
    ) -> Result<Option<Entities>, Undecidable> {
        if !self.needs_paths(reads) {
            return Ok(None);
        }
        let paths = facts.paths.ok_or(Undecidable::NoPaths)?;
        with_paths(known.clone(), paths).map(Some)
    }

    /// The type at a path below `context`.
    pub(crate) fn at(&self, place: &[&str]) -> Option<&CedarType> {
        self.types.at(place.iter().copied())
    }

    pub(crate) fn to_cedar(&self) -> Value {
        self.types.to_cedar()
    }

    /// The values that are read, as Cedar's context, for one of the paths of the call.
    pub(crate) fn context(
        &self,
        reads: &ContextReads,
        facts: &CallFacts<'_>,
        path: Option<&RealPath>,
    ) -> Result<Context, Undecidable> {
        let mut parts = Vec::with_capacity(4);
        if !reads.input.is_empty() {
            let (fields, paths) = (&self.typing.input, facts.paths);
            let input = attributes(facts.input, fields, paths, |name| reads.input.has(name))?;
            parts.push(("input".to_owned(), record(input)?));
        }
        if let Some(path) = path {
            parts.push(("path".to_owned(), path.to_cedar()?));
        }
        if !reads.caller.is_empty() {
            parts.push(("caller".to_owned(), record(caller(reads, facts))?));
        }
        if !reads.session.is_empty() {
            parts.push(("session".to_owned(), record(session(reads, facts))?));
        }
        Context::from_pairs(parts).map_err(|error| context_failed(&error))
    }
}

fn record(attributes: Vec<(String, RestrictedExpression)>) -> Result<RestrictedExpression, Undecidable> {
    RestrictedExpression::new_record(attributes)
        .map_err(|_| Undecidable::Evaluation("an attribute was given twice"))
}

fn context_failed(_: &ContextCreationError) -> Undecidable {
    Undecidable::Evaluation("the arguments could not be put into Cedar's terms")
}

fn text(value: impl AsRef<str>) -> RestrictedExpression {
    RestrictedExpression::new_string(value.as_ref().to_owned())
}

fn caller_fields() -> RecordType {
    RecordType::new([
        ("subject", RecordField::required(CedarType::String)),
        ("agent", RecordField::optional(CedarType::String)),
        ("permissions", RecordField::required(CedarType::Set(Box::new(CedarType::String)))),
        ("unrestricted", RecordField::required(CedarType::Boolean)),
        ("trust", RecordField::required(CedarType::String)),
    ])
}

fn caller(reads: &ContextReads, facts: &CallFacts<'_>) -> Vec<(String, RestrictedExpression)> {
    let mut attributes = Vec::new();
    let mut add = |name: &str, value: &dyn Fn() -> RestrictedExpression| {
        if reads.caller.has(name) {
            attributes.push((name.to_owned(), value()));
        }
    };
    add("subject", &|| text(&facts.caller.subject));
    if let Some(agent) = &facts.caller.agent {
        add("agent", &|| text(agent.as_str()));
    }
    let granted = match facts.held {
        HeldPermissions::Only(held) => held,
        HeldPermissions::Everything => &facts.caller.permissions,
    };
    add("permissions", &|| RestrictedExpression::new_set(granted.iter().map(text)));
    add("unrestricted", &|| RestrictedExpression::new_bool(facts.held.is_everything()));
    add("trust", &|| text(facts.caller.trust.as_str()));
    attributes
}

fn session_fields() -> RecordType {
    RecordType::new([
        ("id", RecordField::required(CedarType::String)),
        ("run", RecordField::optional(CedarType::String)),
        ("calls", RecordField::required(CedarType::Long)),
    ])
}

fn session(reads: &ContextReads, facts: &CallFacts<'_>) -> Vec<(String, RestrictedExpression)> {
    let mut attributes = Vec::new();
    let mut add = |name: &str, value: &dyn Fn() -> RestrictedExpression| {
        if reads.session.has(name) {
            attributes.push((name.to_owned(), value()));
        }
    };
    add("id", &|| text(facts.caller.session.as_str()));
    if let Some(run) = &facts.caller.run {
        add("run", &|| text(run.as_str()));
    }
    add("calls", &|| RestrictedExpression::new_long(i64::try_from(facts.calls).unwrap_or(i64::MAX)));
    attributes
}

/// The declarations that all tools share, in Cedar's JSON schema format, with those of the actions.
pub(crate) fn schema(actions: Value) -> Value {
    json!({"": {
        "entityTypes": {
            "Caller": {},
            PATH: {"memberOfTypes": [PATH], "shape": {"type": "Record", "attributes": {
                LOCATION: {"type": "String"},
            }}},
            "Agent": {},
            "Tool": {"shape": {"type": "Record", "attributes": {
                "name": {"type": "String"},
                "class": {"type": "String"},
            }}},
        },
        "actions": actions,
    }})
}

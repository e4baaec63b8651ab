//! The operations of an update, and the value that the frontmatter must have afterwards.

use serde_json::{Map, Value};

use super::FrontmatterError;
use super::outline::Outline;
use super::write;
use crate::line_index::truncate_at_char_boundary;
use crate::nearest_name::nearest_name;

/// Longer names, as written, are not parsed back as keys.
const MAX_NAME_BYTES: usize = 500;
/// The maximum nesting of values.
const MAX_DEPTH: usize = 32;
/// Bytes of an unknown operation that an error repeats.
const MAX_SHOWN_BYTES: usize = 80;

/// The known operations.
const OPERATIONS: [OperationSpec; 6] = [
    OperationSpec {
        name: "stepsCompleted.append",
        field: "stepsCompleted",
        kind: OperationKind::AppendUniqueStrings,
    },
    OperationSpec { name: "variables.set", field: "variables", kind: OperationKind::Merge },
    OperationSpec { name: "decisionLog.append", field: "decisionLog", kind: OperationKind::AppendObjects },
    OperationSpec { name: "artifacts.append", field: "artifacts", kind: OperationKind::AppendUniqueStrings },
    OperationSpec { name: "currentNodeId.set", field: "currentNodeId", kind: OperationKind::SetString },
    OperationSpec { name: "updatedAt.set", field: "updatedAt", kind: OperationKind::SetString },
];

struct OperationSpec {
    name: &'static str,
    field: &'static str,
    kind: OperationKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum OperationKind {
    AppendUniqueStrings,
    AppendObjects,
    Merge,
    SetString,
}

impl OperationKind {
    fn wanted(self) -> &'static str {
        match self {
            Self::AppendUniqueStrings => "a string or a list of strings",
            Self::AppendObjects => "an object or a list of objects",
            Self::Merge => "an object of names and values",
            Self::SetString => "a string",
        }
    }

    fn example(self) -> &'static str {
        match self {
            Self::AppendUniqueStrings => r#"["first", "second"]"#,
            Self::AppendObjects => r#"[{"decision": "what", "reason": "why"}]"#,
            Self::Merge => r#"{"name": "value"}"#,
            Self::SetString => r#""value""#,
        }
    }
}

/// One operation with its arguments.
pub(super) struct Operation {
    known: &'static OperationSpec,
    values: OperationValues,
}

enum OperationValues {
    Items(Vec<Value>),
    Entries(Map<String, Value>),
    Single(Value),
}

/// The names of all operations.
pub(super) fn names() -> Vec<&'static str> {
    OPERATIONS.iter().map(|known| known.name).collect()
}

/// A sentence that names all operations.
pub(super) fn known() -> String {
    let names: Vec<String> = names().iter().map(|name| format!("`{name}`")).collect();
    format!("the operations are {}", names.join(", "))
}

/// An example of an operation.
pub(super) fn example(operation: &str) -> String {
    let kind = OPERATIONS.iter().find(|known| known.name == operation).map(|known| known.kind.example());
    format!("for example `{{\"{operation}\": {}}}`", kind.unwrap_or_default())
}

/// Parses an update in either notation.
pub(super) fn read(update: &Map<String, Value>) -> Result<Vec<Operation>, FrontmatterError> {
    let mut operations: Vec<Operation> = Vec::new();
    for (name, value) in update {
        let nested = value.as_object().filter(|_| OPERATIONS.iter().any(|known| known.field == name));
        let pairs: Vec<(String, &Value)> = match nested {
            Some(verbs) => verbs.iter().map(|(verb, value)| (format!("{name}.{verb}"), value)).collect(),
            None => vec![(name.clone(), value)],
        };
        for (name, value) in pairs {
            let operation = read_one(&name, value)?;
            if operations.iter().any(|other| other.known.name == operation.known.name) {
                return Err(FrontmatterError::GivenTwice { operation: name });
            }
            operations.push(operation);
        }
    }
    if operations.is_empty() { Err(FrontmatterError::NothingToDo) } else { Ok(operations) }
}

fn read_one(name: &str, value: &Value) -> Result<Operation, FrontmatterError> {
    let known = OPERATIONS.iter().find(|known| known.name == name).ok_or_else(|| unknown(name))?;
    let wrong =
        || FrontmatterError::WrongArgument { operation: name.to_owned(), wanted: known.kind.wanted() };
    let writable = is_writable(value, 0);
    let values = match (known.kind, value) {
        _ if !writable => {
            let wanted = "names of up to 500 bytes other than `<<`, and values of up to 32 levels";
            return Err(FrontmatterError::WrongArgument { operation: name.to_owned(), wanted });
        }
        (OperationKind::AppendUniqueStrings, value) => {
            OperationValues::Items(items(value, Value::is_string).ok_or_else(wrong)?)
        }
        (OperationKind::AppendObjects, value) => {
            OperationValues::Items(items(value, Value::is_object).ok_or_else(wrong)?)
        }
        (OperationKind::Merge, Value::Object(entries)) => OperationValues::Entries(entries.clone()),
        (OperationKind::SetString, Value::String(_)) => OperationValues::Single(value.clone()),
        (OperationKind::Merge | OperationKind::SetString, _) => return Err(wrong()),
    };
    Ok(Operation { known, values })
}

fn unknown(name: &str) -> FrontmatterError {
    let asked = truncate_at_char_boundary(name, MAX_SHOWN_BYTES).to_owned();
    let nearest = nearest_name(&asked, names()).map(str::to_owned);
    FrontmatterError::UnknownOperation { asked, nearest }
}

/// One value or a list of them, if they are all of the right type.
fn items(value: &Value, right: fn(&Value) -> bool) -> Option<Vec<Value>> {
    let items = match value {
        Value::Array(items) => items.clone(),
        single => vec![single.clone()],
    };
    items.iter().all(right).then_some(items)
}

/// Whether a value can be written on one line of YAML and parsed back.
fn is_writable(value: &Value, depth: usize) -> bool {
    match value {
        _ if depth > MAX_DEPTH => false,
        Value::Array(items) => items.iter().all(|item| is_writable(item, depth + 1)),
        Value::Object(entries) => entries.iter().all(|(name, value)| {
            write::name(name).len() <= MAX_NAME_BYTES && name != "<<" && is_writable(value, depth + 1)
        }),
        _ => true,
    }
}

/// The edits, and the intended result.
pub(super) struct UpdatePlan {
    pub(super) edits: Vec<FieldEdit>,
    pub(super) intended: Map<String, Value>,
}

/// A change that has an effect.
pub(super) enum FieldEdit {
    /// Append these to a list.
    Append { field: &'static str, items: Vec<Value> },
    /// Set these entries of a mapping.
    Put { field: &'static str, entries: Map<String, Value> },
    /// Set a field.
    Set { field: &'static str, value: Value },
}

/// Computes the edits against the current frontmatter.
pub(super) fn plan(
    value: &Map<String, Value>,
    operations: Vec<Operation>,
    outline: &Outline,
) -> Result<UpdatePlan, FrontmatterError> {
    let mut plan = UpdatePlan { edits: Vec::new(), intended: value.clone() };
    for Operation { known, values } in operations {
        let field = known.field;
        let line = outline.entry(field).map_or(1, |entry| entry.line);
        let wrong = |wanted| FrontmatterError::WrongKind { line, field: field.to_owned(), wanted };
        let now = plan.intended.get(field).cloned().unwrap_or_default();
        match (values, now) {
            (OperationValues::Items(items), now @ (Value::Array(_) | Value::Null)) => {
                plan.append(field, items, now, known.kind == OperationKind::AppendUniqueStrings);
            }
            (OperationValues::Items(_), _) => return Err(wrong("a list")),
            (OperationValues::Entries(entries), now @ (Value::Object(_) | Value::Null)) => {
                plan.put(field, entries, now)
            }
            (OperationValues::Entries(_), _) => return Err(wrong("a mapping of names to values")),
            (OperationValues::Single(value), now) => plan.set(field, value, &now),
        }
    }
    Ok(plan)
}

impl UpdatePlan {
    fn append(&mut self, field: &'static str, items: Vec<Value>, now: Value, unique: bool) {
        let mut list = match now {
            Value::Array(list) => list,
            _ => Vec::new(),
        };
        let before = list.len();
        if unique {
            let mut seen: std::collections::HashSet<String> =
                list.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            list.extend(
                items
                    .into_iter()
                    .filter(|item| item.as_str().is_some_and(|text| seen.insert(text.to_owned()))),
            );
        } else {
            list.extend(items);
        }
        let added: Vec<Value> = list.iter().skip(before).cloned().collect();
        if !added.is_empty() {
            self.intended.insert(field.to_owned(), Value::Array(list));
            self.edits.push(FieldEdit::Append { field, items: added });
        }
    }

    fn put(&mut self, field: &'static str, mut entries: Map<String, Value>, now: Value) {
        let mut mapping = match now {
            Value::Object(mapping) => mapping,
            _ => Map::new(),
        };
        entries.retain(|name, value| mapping.get(name) != Some(value));
        if !entries.is_empty() {
            mapping.extend(entries.clone());
            self.intended.insert(field.to_owned(), Value::Object(mapping));
            self.edits.push(FieldEdit::Put { field, entries });
        }
    }

    fn set(&mut self, field: &'static str, value: Value, now: &Value) {
        if value != *now {
            self.intended.insert(field.to_owned(), value.clone());
            self.edits.push(FieldEdit::Set { field, value });
        }
    }
}

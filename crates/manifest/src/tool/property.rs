//! What the schema of an argument implies about the values that a command gets.

use serde_json::Value;
use toolgate_schema::pattern;
use toolgate_schema::required_names;
use toolgate_types::JsonType;

use crate::problem::shown;
use crate::problem_report::ProblemReport;
use crate::yaml_tree::{ConfigNode, NodeKind};

use super::MountPath;
use super::schema::{TYPES, kinds_of};

/// Maximum number of local references to follow.
const MAX_REFERENCES: usize = 8;

/// The arguments of a tool.
#[derive(Clone, Debug, Default)]
pub(super) struct Properties(Vec<Property>);

/// One argument.
#[derive(Clone, Debug)]
pub(super) struct Property {
    pub(super) name: String,
    pub(super) required: bool,
    pub(super) facts: ValueFacts,
    /// The facts about its items, if it is a list.
    pub(super) items: Option<ValueFacts>,
}

/// The facts about a value.
#[derive(Clone, Debug, Default)]
pub(super) struct ValueFacts {
    /// The types it may have; empty if the schema does not say.
    pub(super) kinds: Vec<&'static str>,
    /// All values that it may have, if the schema lists them.
    pub(super) values: Option<Vec<Value>>,
    pub(super) pattern: Option<String>,
    pub(super) minimum: Option<f64>,
    pub(super) rules: ValueRules,
}

/// What an argument's text may contain, beyond the schema.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ValueRules {
    /// `x-toolgate-multiline`: line breaks and tabs.
    pub(super) multiline: bool,
    /// `x-toolgate-allow: ["@"]`: text that starts with `@`, or has one after `=`.
    pub(super) at_sign: bool,
    /// `x-toolgate-allow: [empty]`, or an `enum` that lists it: empty text.
    pub(super) empty: bool,
    /// `x-toolgate-path`: a path beneath this directory.
    pub(super) path: Option<MountPath>,
    /// `x-toolgate-extensions`: the allowed file extensions, without the dot; empty means any.
    pub(super) extensions: Vec<String>,
    /// `x-toolgate-exists`: the path must exist.
    pub(super) must_exist: bool,
}

impl Property {
    /// The facts about the value, or about each item if it may be a list.
    pub(super) fn of_one_value(&self) -> &ValueFacts {
        self.items.as_ref().filter(|_| self.facts.is("array")).unwrap_or(&self.facts)
    }
}

impl Properties {
    pub(super) fn of(schema: &Value) -> Self {
        let required = required_names(schema.get("required"));
        let properties = schema.get("properties").and_then(Value::as_object);
        let property = |(name, declared): (&String, &Value)| Property {
            name: name.clone(),
            required: required.contains(&name.as_str()),
            facts: ValueFacts::of(declared, schema),
            items: resolved(declared, schema).get("items").map(|items| ValueFacts::of(items, schema)),
        };
        Self(properties.into_iter().flatten().map(property).collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&Property> {
        self.0.iter().find(|property| property.name == name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Property> {
        self.0.iter()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.0.iter().map(|property| property.name.as_str())
    }
}

/// The schema that a local reference points to.
fn resolved<'s>(schema: &'s Value, root: &'s Value) -> &'s Value {
    let mut schema = schema;
    for _ in 0..MAX_REFERENCES {
        let target =
            schema.get("$ref").and_then(Value::as_str).and_then(|reference| reference.strip_prefix('#'));
        match target.and_then(|pointer| root.pointer(pointer)) {
            Some(next) => schema = next,
            None => break,
        }
    }
    schema
}

impl ValueFacts {
    fn of(schema: &Value, root: &Value) -> Self {
        let target = resolved(schema, root);
        let says = |keyword: &str| schema.get(keyword).or_else(|| target.get(keyword));
        let values = values(says("enum"), says("const"));
        let pattern = says("pattern").and_then(Value::as_str).map(str::to_owned);
        Self {
            kinds: kinds(says("type"), values.as_deref()),
            minimum: minimum(says("minimum"), says("exclusiveMinimum")),
            rules: ValueRules::of(&says, values.as_deref()),
            values,
            pattern,
        }
    }

    pub(super) fn is(&self, kind: &str) -> bool {
        self.kinds.contains(&kind)
    }

    /// Whether it can be a single argument of a command.
    pub(super) fn is_plain(&self) -> bool {
        !self.kinds.is_empty() && !self.is("object") && !self.is("array")
    }

    /// Whether it is an enumerated value, a number or a boolean: nothing that carries arbitrary text.
    pub(super) fn is_closed(&self) -> bool {
        self.values.is_some() || !self.is("string")
    }

    /// Whether its text can start with a dash.
    pub(super) fn may_begin_with_a_dash(&self) -> bool {
        if self.rules.path.is_some() {
            return false;
        }
        if let Some(values) = &self.values {
            let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            return values.iter().any(|value| text(value).starts_with('-'));
        }
        let text = self.is("string")
            && self.pattern.as_ref().is_none_or(|pattern| pattern::may_begin_with(pattern, '-'));
        let number = self.is("integer") || self.is("number");
        text || (number && self.minimum.is_none_or(|minimum| minimum < 0.0))
    }
}

fn values(several: Option<&Value>, one: Option<&Value>) -> Option<Vec<Value>> {
    let one = one.map(|value| vec![value.clone()]);
    one.or_else(|| several.and_then(Value::as_array).cloned())
}

fn kinds(declared: Option<&Value>, values: Option<&[Value]>) -> Vec<&'static str> {
    let declared = declared.map(kinds_of).unwrap_or_default();
    let words: Vec<&str> = match (declared.is_empty(), values) {
        (true, Some(values)) => values.iter().map(|value| JsonType::of(value).name()).collect(),
        _ => declared,
    };
    TYPES.iter().copied().filter(|kind| words.contains(kind)).collect()
}

fn minimum(at_least: Option<&Value>, more_than: Option<&Value>) -> Option<f64> {
    let numbers = [at_least, more_than].into_iter().flatten().filter_map(Value::as_f64);
    numbers.reduce(f64::max)
}

impl ValueRules {
    fn of<'s>(says: &impl Fn(&str) -> Option<&'s Value>, values: Option<&[Value]>) -> Self {
        let allowed = says("x-toolgate-allow").and_then(Value::as_array);
        let allows = |word: &str| allowed.is_some_and(|words| words.iter().any(|allowed| allowed == word));
        let listed = values.is_some_and(|values| values.iter().any(|value| value == ""));
        let is_set = |name: &str| says(name) == Some(&Value::Bool(true));
        Self {
            multiline: is_set("x-toolgate-multiline"),
            at_sign: allows("@") || names_a_file(values),
            empty: allows("empty") || listed,
            path: says("x-toolgate-path")
                .and_then(Value::as_str)
                .and_then(|text| MountPath::parse(text).ok()),
            extensions: texts(says("x-toolgate-extensions")),
            must_exist: is_set("x-toolgate-exists"),
        }
    }
}

fn texts(list: Option<&Value>) -> Vec<String> {
    let items = list.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// An enumerated value comes from the operator, so it may start with `@`.
fn names_a_file(values: Option<&[Value]>) -> bool {
    let at = |value: &Value| value.as_str().is_some_and(|text| text.starts_with('@') || text.contains("=@"));
    values.is_some_and(|values| values.iter().any(at))
}

/// Checks Toolgate's own keywords.
pub(super) fn check_extensions(schema: &ConfigNode, report: &mut ProblemReport<'_>) {
    if let Some(path) = schema.get("x-toolgate-path")
        && let Err((message, help)) = MountPath::parse(path.text().unwrap_or_default())
    {
        report.node(path, format!("`x-toolgate-path`: {message}"), Some(help));
    }
    let is_flag = |node: &ConfigNode| matches!(&node.kind, NodeKind::Scalar { text, plain: true } if matches!(&**text, "true" | "false"));
    for name in ["x-toolgate-multiline", "x-toolgate-exists"] {
        if let Some(node) = schema.get(name).filter(|node| !is_flag(node)) {
            let help = "write it without quotes".to_owned();
            report.node(node, format!("`{name}` must be `true` or `false`"), Some(help));
        }
    }
    if let (Some(exists), None) = (schema.get("x-toolgate-exists"), schema.get("x-toolgate-path")) {
        let help = Some("add `x-toolgate-path`".to_owned());
        report.node(exists, "`x-toolgate-exists` is about files, and this is no path", help);
    }
    if let Some(allow) = schema.get("x-toolgate-allow") {
        check_allow(allow, report);
    }
    if let Some(extensions) = schema.get("x-toolgate-extensions") {
        check_file_extensions(extensions, schema, report);
    }
}

fn check_file_extensions(extensions: &ConfigNode, schema: &ConfigNode, report: &mut ProblemReport<'_>) {
    let help = || Some("list endings without the dot, such as `[rs, md]`".to_owned());
    let NodeKind::List(words) = &extensions.kind else {
        report.node(extensions, "`x-toolgate-extensions` must be a list", help());
        return;
    };
    if words.is_empty() {
        report.node(extensions, "`x-toolgate-extensions` is empty, so no file would fit", help());
    }
    if schema.get("x-toolgate-path").is_none() {
        let help = Some("add `x-toolgate-path`".to_owned());
        report.node(extensions, "`x-toolgate-extensions` is about files, and this is no path", help);
    }
    let is_ending = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_+-".contains(&byte))
    };
    for word in words.iter().filter(|word| !word.text().is_some_and(is_ending)) {
        let text = shown(word.text().unwrap_or_default());
        report.node(word, format!("`{text}` is not the ending of a file's name"), help());
    }
}

fn check_allow(allow: &ConfigNode, report: &mut ProblemReport<'_>) {
    let help = || Some("write `[\"@\"]`, `[empty]` or both".to_owned());
    let NodeKind::List(words) = &allow.kind else {
        report.node(allow, "`x-toolgate-allow` must be a list", help());
        return;
    };
    for word in words.iter().filter(|word| !matches!(word.text(), Some("@" | "empty"))) {
        let text = shown(word.text().unwrap_or_default());
        report.node(word, format!("`{text}` is nothing that can be allowed"), help());
    }
}

//! Makes a server's JSON schema safe to validate with.
//!
//! A hostile schema could be endless: refer to itself, double at every step, or refer to another host. So references must stay inside the schema,
//! cyclic references are removed (the server validates that part itself), and the rest must not expand beyond a limit. Its patterns run in linear
//! time and within a memory budget per server.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};
use toolgate_schema::{MAX_COMPILED_PATTERN_BYTES, schema_problem, validator, validator_within};
use toolgate_text::sanitize_value;

use crate::definition::truncate;

/// Maximum size of a schema as JSON.
const MAX_SCHEMA_BYTES: usize = 256 * 1024;

/// Maximum number of subschemas and values after expanding all references.
const MAX_PARTS: usize = 20_000;

/// Maximum length of a chain of references.
const MAX_REFERENCE_CHAIN: usize = 32;

/// Maximum length of an error message.
const MAX_PROBLEM_BYTES: usize = 500;

/// Maximum length of a pattern.
const MAX_SCHEMA_PATTERN_BYTES: usize = 8 * 1024;

/// Maximum memory of one tool's compiled patterns.
const MAX_TOOL_PATTERN_BYTES: usize = 4 << 20;

/// Maximum memory of one server's compiled patterns.
const MAX_SERVER_PATTERN_BYTES: usize = 16 << 20;

/// The compiled size that a pattern is charged: the smallest of these that it fits into.
const PATTERN_SIZE_CLASSES: [usize; 5] = [16 << 10, 64 << 10, 256 << 10, 1 << 20, MAX_COMPILED_PATTERN_BYTES];

/// The remaining memory for compiled patterns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PatternBudget(usize);

impl PatternBudget {
    /// For all tools of one server.
    pub(crate) fn for_server() -> Self {
        Self(MAX_SERVER_PATTERN_BYTES)
    }

    /// For one tool, within the server's budget.
    pub(crate) fn for_tool(self) -> Self {
        Self(self.0.min(MAX_TOOL_PATTERN_BYTES))
    }

    /// How much was used.
    pub(crate) fn used_since(self, before: Self) -> usize {
        before.0.saturating_sub(self.0)
    }

    /// Subtracts from the budget.
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.0 = self.0.saturating_sub(bytes);
    }

    /// Reserves memory for the patterns of a schema. An invalid pattern is charged the maximum, because trying it cost as much.
    fn reserve(&mut self, schema: &Value) -> Result<(), String> {
        let mut known = HashSet::new();
        for pattern in patterns(schema).filter(|pattern| known.insert(*pattern)) {
            if pattern.len() > MAX_SCHEMA_PATTERN_BYTES {
                return Err(format!("one of its patterns is longer than {MAX_SCHEMA_PATTERN_BYTES} bytes"));
            }
            let full = || "its patterns, or those of the server's other tools, take too much room".to_owned();
            if self.0 == 0 {
                return Err(full());
            }
            let alone = json!({ "pattern": pattern });
            let size = PATTERN_SIZE_CLASSES
                .into_iter()
                .filter(|size| *size <= self.0)
                .find(|size| validator_within(&alone, *size).is_ok());
            let Some(size) = size else {
                let problem =
                    validator(&alone).map(|_| full()).unwrap_or_else(|error| schema_problem(&error));
                self.consume(MAX_COMPILED_PATTERN_BYTES);
                return Err(toolgate_text::escape_control_chars(&problem));
            };
            self.consume(size);
        }
        Ok(())
    }
}

/// All strings in a schema that may be patterns.
fn patterns(schema: &Value) -> Box<dyn Iterator<Item = &str> + '_> {
    match schema {
        Value::Object(fields) => Box::new(fields.iter().flat_map(|(name, value)| patterns_of(name, value))),
        Value::Array(items) => Box::new(items.iter().flat_map(patterns)),
        _ => Box::new(std::iter::empty()),
    }
}

fn patterns_of<'s>(keyword: &str, value: &'s Value) -> Box<dyn Iterator<Item = &'s str> + 's> {
    match (keyword, value) {
        ("pattern", Value::String(pattern)) => Box::new(std::iter::once(pattern.as_str())),
        ("patternProperties", Value::Object(by_pattern)) => {
            Box::new(by_pattern.keys().map(String::as_str).chain(patterns(value)))
        }
        (keyword, _) if holds_values(keyword) => Box::new(std::iter::empty()),
        _ => patterns(value),
    }
}

/// Keywords that contain values instead of schemas.
fn holds_values(keyword: &str) -> bool {
    matches!(keyword, "const" | "default" | "enum" | "examples")
}

/// Whether the schema contains a negation: inside one, removing a constraint would make it stricter.
fn has_negation(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => fields.iter().any(|(keyword, value)| {
            matches!(keyword.as_str(), "not" | "oneOf" | "if")
                || !holds_values(keyword) && has_negation(value)
        }),
        Value::Array(items) => items.iter().any(has_negation),
        _ => false,
    }
}

/// Removes patterns with lookaround, such as those of common libraries for e-mail addresses. They cannot be matched in linear time; the server
/// validates them itself.
fn remove_lookarounds(schema: &mut Value) {
    const GROUPS: [&str; 4] = ["(?=", "(?!", "(?<=", "(?<!"];
    match schema {
        Value::Object(fields) => {
            let looks_around = |pattern: &str| GROUPS.iter().any(|group| pattern.contains(group));
            if fields.get("pattern").and_then(Value::as_str).is_some_and(looks_around) {
                fields.shift_remove("pattern");
            }
            let schemas = fields.iter_mut().filter(|(keyword, _)| !holds_values(keyword));
            schemas.for_each(|(_, value)| remove_lookarounds(value));
        }
        Value::Array(items) => items.iter_mut().for_each(remove_lookarounds),
        _ => {}
    }
}

/// The schema that the gate validates with and a model reads, or what is wrong with it.
pub(crate) fn sanitize_schema(
    schema: &Value,
    must_be_object: bool,
    room: &mut PatternBudget,
) -> Result<Value, String> {
    if !schema.is_object() {
        return Err("it is not an object".to_owned());
    }
    if must_be_object && schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err("it does not say `\"type\": \"object\"`".to_owned());
    }
    if schema.to_string().len() > MAX_SCHEMA_BYTES {
        return Err(format!("it is longer than {MAX_SCHEMA_BYTES} bytes"));
    }
    let mut schema = sanitize_text(schema)?;
    let circles = find_cycles(&schema)?;
    for place in circles {
        remove_reference(&mut schema, &place);
    }
    let mut parts = HashMap::new();
    if expanded_parts(&schema, &schema, "", &mut parts) > MAX_PARTS {
        return Err(format!("it unfolds to more than {MAX_PARTS} parts"));
    }
    if !has_negation(&schema) {
        remove_lookarounds(&mut schema);
    }
    room.reserve(&schema)?;
    match validator(&schema) {
        Ok(_) => Ok(schema),
        Err(error) => {
            Err(toolgate_text::escape_control_chars(&truncate(&schema_problem(&error), MAX_PROBLEM_BYTES)))
        }
    }
}

/// Sanitises texts. Field names are the arguments' names, so hidden characters in them are an error.
fn sanitize_text(schema: &Value) -> Result<Value, String> {
    if !names(schema).all(|name| {
        name.chars().all(|character| !toolgate_text::is_invisible(character) && character != '\n')
    }) {
        return Err("the name of a field has hidden characters".to_owned());
    }
    Ok(sanitize_value(schema.clone()))
}

fn names(value: &Value) -> Box<dyn Iterator<Item = &str> + '_> {
    match value {
        Value::Object(fields) => Box::new(
            fields.iter().flat_map(|(name, value)| std::iter::once(name.as_str()).chain(names(value))),
        ),
        Value::Array(items) => Box::new(items.iter().flat_map(names)),
        _ => Box::new(std::iter::empty()),
    }
}

/// Finds cyclic references.
struct CycleFinder<'s> {
    schema: &'s Value,
    open: HashSet<String>,
    done: HashSet<String>,
    cycles: Vec<String>,
}

/// The JSON pointers of references that close a cycle.
fn find_cycles(schema: &Value) -> Result<Vec<String>, String> {
    let mut walk = CycleFinder { schema, open: HashSet::new(), done: HashSet::new(), cycles: Vec::new() };
    walk.visit(schema, "", 0)?;
    Ok(walk.cycles)
}

impl<'s> CycleFinder<'s> {
    fn visit(&mut self, value: &'s Value, place: &str, chain: usize) -> Result<(), String> {
        if self.done.contains(place) {
            return Ok(());
        }
        self.open.insert(place.to_owned());
        for (name, child) in children(value) {
            self.visit(child, &format!("{place}/{name}"), chain)?;
        }
        if let Some(target) = reference(value)? {
            self.follow(target, place, chain)?;
        }
        self.open.remove(place);
        self.done.insert(place.to_owned());
        Ok(())
    }

    fn follow(&mut self, target: &'s str, place: &str, chain: usize) -> Result<(), String> {
        let found = self.schema.pointer(target).ok_or_else(|| format!("`#{target}` is not in it"))?;
        if self.open.contains(target) {
            self.cycles.push(place.to_owned());
            return Ok(());
        }
        if chain >= MAX_REFERENCE_CHAIN {
            return Err(format!("more than {MAX_REFERENCE_CHAIN} references follow one another"));
        }
        self.visit(found, target, chain + 1)
    }
}

/// The children of a value, with their names escaped as in a JSON pointer (RFC 6901).
fn children(value: &Value) -> Vec<(String, &Value)> {
    match value {
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.replace('~', "~0").replace('/', "~1"), value)).collect()
        }
        Value::Array(items) => {
            items.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect()
        }
        _ => Vec::new(),
    }
}

/// The target of a reference as a JSON pointer. Only references inside the schema are allowed.
fn reference(value: &Value) -> Result<Option<&str>, String> {
    for unknown in ["$dynamicRef", "$recursiveRef"] {
        if value.get(unknown).is_some_and(Value::is_string) {
            return Err(format!("`{unknown}` is not supported"));
        }
    }
    let Some(reference) = value.get("$ref").and_then(Value::as_str) else { return Ok(None) };
    match reference.strip_prefix('#') {
        Some(inside) if inside.is_empty() || (inside.starts_with('/') && !inside.contains('%')) => {
            Ok(Some(inside))
        }
        _ => Err(format!(
            "the reference `{}` leads outside",
            reference.chars().take(100).collect::<String>().escape_debug()
        )),
    }
}

/// Removes a reference, so that anything is valid there.
fn remove_reference(schema: &mut Value, place: &str) {
    if let Some(part) = schema.pointer_mut(place).and_then(Value::as_object_mut) {
        part.shift_remove("$ref");
    }
}

/// The number of parts after expanding all references. There are no cycles left.
fn expanded_parts(schema: &Value, value: &Value, place: &str, known: &mut HashMap<String, usize>) -> usize {
    if let Some(parts) = known.get(place) {
        return *parts;
    }
    let inside = children(value).into_iter().fold(1usize, |sum, (name, child)| {
        sum.saturating_add(expanded_parts(schema, child, &format!("{place}/{name}"), known))
    });
    let beyond = reference(value).ok().flatten().and_then(|target| Some((target, schema.pointer(target)?)));
    let beyond = beyond.map_or(0, |(target, found)| expanded_parts(schema, found, target, known));
    let parts = inside.saturating_add(beyond);
    known.insert(place.to_owned(), parts);
    parts
}

/// The schema for results of a tool that declares none.
pub(crate) fn any_value_schema() -> Value {
    let mut schema = Map::new();
    schema.insert("type".to_owned(), Value::from("object"));
    Value::Object(schema)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_cannot_be_used_is_refused() {
        let deep = (0..40).map(|step| (format!("d{step}"), json!({"allOf": [{"$ref": format!("#/$defs/d{}", step + 1)}, {"$ref": format!("#/$defs/d{}", step + 1)}]})));
        let mut doubling: Map<String, Value> = deep.collect();
        doubling.insert("d40".to_owned(), json!({}));
        for (schema, wanted) in [
            (json!([]), "not an object"),
            (json!({}), "does not say"),
            (json!({"type": "string"}), "does not say"),
            (
                json!({"type": "object", "properties": {"a": {"$ref": "http://evil.example/s.json"}}}),
                "leads outside",
            ),
            (json!({"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}}), "leads outside"),
            (json!({"type": "object", "properties": {"a": {"$ref": "other.json#/x"}}}), "leads outside"),
            (json!({"type": "object", "properties": {"a": {"$ref": "#anchor"}}}), "leads outside"),
            (json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}}), "is not in it"),
            (json!({"type": "object", "properties": {"a": {"$dynamicRef": "#x"}}}), "not supported"),
            (json!({"type": "object", "properties": {"a\u{200b}": {}}}), "hidden"),
            (json!({"type": "object", "properties": 5}), ""),
            (json!({"type": "object", "properties": {"a": {"pattern": "("}}}), "not a regular expression"),
            (json!({"type": "object", "properties": {"a": {"pattern": r"(.*)\1x"}}}), "refers back"),
            (json!({"type": "object", "properties": {"a": {"not": {"pattern": "^(?!a)"}}}}), "looks ahead"),
            (json!({"type": "object", "patternProperties": {"(?<=a)b": {}}}), "looks ahead or behind"),
            (json!({"type": "object", "properties": {"a": {"pattern": r"(\w{900}){90}"}}}), "too large"),
            (
                json!({"type": "object", "properties": {"a": {"pattern": "x".repeat(MAX_SCHEMA_PATTERN_BYTES + 1)}}}),
                "patterns is longer",
            ),
            (json!({"type": "object", "description": "x".repeat(MAX_SCHEMA_BYTES)}), "longer than"),
            (json!({"type": "object", "$ref": "#/$defs/d0", "$defs": doubling}), "references follow"),
        ] {
            let reason = sanitize_schema(&schema, true, &mut PatternBudget::for_server())
                .expect_err(&schema.to_string().chars().take(200).collect::<String>());
            assert!(reason.contains(wanted), "{reason}");
        }
    }

    #[test]
    fn doubling_within_the_longest_chain_is_refused_too() {
        let link = |step: usize| json!({"allOf": [{"$ref": format!("#/$defs/d{}", step + 1)}, {"$ref": format!("#/$defs/d{}", step + 1)}]});
        let mut links: Map<String, Value> = (0..20).map(|step| (format!("d{step}"), link(step))).collect();
        links.insert("d20".to_owned(), json!({}));
        let reason = sanitize_schema(
            &json!({"type": "object", "$ref": "#/$defs/d0", "$defs": links}),
            true,
            &mut PatternBudget::for_server(),
        )
        .unwrap_err();
        assert!(reason.contains("unfolds"), "{reason}");
    }

    #[test]
    fn circles_are_opened_and_checking_ends() {
        let tree = json!({
            "type": "object",
            "properties": {"root": {"$ref": "#/$defs/node"}, "self": {"$ref": "#"}},
            "$defs": {"node": {"type": "object", "properties": {"left": {"$ref": "#/$defs/node"}, "right": {"$ref": "#/$defs/other"}, "n": {"type": "integer"}}},
                      "other": {"allOf": [{"$ref": "#/$defs/node"}, {"$ref": "#/$defs/node"}]}},
        });
        let usable = sanitize_schema(&tree, true, &mut PatternBudget::for_server()).unwrap();
        let tree = validator(&usable).unwrap();
        assert!(tree.is_valid(&json!({"root": {"n": 1, "left": {"n": "unchecked"}}})));
        assert!(!tree.is_valid(&json!({"root": {"n": "no"}})));
        let mut deep = json!({});
        for _ in 0..100 {
            deep = json!({"right": deep, "left": deep, "self": {}});
            if deep.to_string().len() > 100_000 {
                break;
            }
        }
        assert!(tree.is_valid(&json!({"root": deep})));
        for schema in
            [json!({"type": "object", "$ref": "#"}), json!({"type": "object", "allOf": [{"$ref": "#"}]})]
        {
            let usable = sanitize_schema(&schema, true, &mut PatternBudget::for_server()).unwrap();
            assert!(validator(&usable).unwrap().is_valid(&json!({})));
        }
    }

    #[test]
    fn patterns_of_common_libraries_are_left_to_the_server() {
        let mail = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$";
        let schema = |to: Value| json!({"type": "object", "properties": {"to": to, "pattern": {"type": "string", "pattern": "^a"}}});
        let written = schema(json!({"type": "string", "format": "email", "pattern": mail}));
        let opened = schema(json!({"type": "string", "format": "email"}));
        assert_eq!(sanitize_schema(&written, true, &mut PatternBudget::for_server()).unwrap(), opened);
        // Not removed where that would make the schema stricter.
        let opposite = schema(json!({"not": {"pattern": mail}}));
        assert!(sanitize_schema(&opposite, true, &mut PatternBudget::for_server()).is_err());
    }

    #[test]
    fn common_schemas_stay_as_they_are() {
        for schema in [
            json!({"type": "object"}),
            json!({"type": "object", "properties": {"path": {"type": "string", "description": "a/b"}}, "required": ["path"],
                   "additionalProperties": false, "$schema": "http://json-schema.org/draft-07/schema#"}),
            json!({"type": "object", "properties": {"edits": {"type": "array", "items": {"$ref": "#/$defs/edit"}}},
                   "$defs": {"edit": {"type": "object", "properties": {"$ref": {"type": "string"}}}}}),
        ] {
            assert_eq!(sanitize_schema(&schema, true, &mut PatternBudget::for_server()).unwrap(), schema);
        }
    }

    fn with_patterns(count: usize, pattern: impl Fn(usize) -> String) -> Value {
        let all: Vec<Value> = (0..count).map(|index| json!({"pattern": pattern(index)})).collect();
        json!({"type": "object", "properties": {"a": {"allOf": all}}})
    }

    #[test]
    fn patterns_take_no_more_room_than_one_tool_may_have() {
        let small = with_patterns(MAX_TOOL_PATTERN_BYTES / PATTERN_SIZE_CLASSES[0], |index| {
            format!("^[a-z]+{index}$")
        });
        assert!(sanitize_schema(&small, true, &mut PatternBudget::for_server().for_tool()).is_ok());
        let many = with_patterns(MAX_TOOL_PATTERN_BYTES / PATTERN_SIZE_CLASSES[0] + 1, |index| {
            format!("^[a-z]+{index}$")
        });
        let large = with_patterns(6500, |index| format!(r"\w{{4000}}{index}"));
        for schema in [many, large] {
            let reason =
                sanitize_schema(&schema, true, &mut PatternBudget::for_server().for_tool()).unwrap_err();
            assert!(reason.contains("too much room"), "{reason}");
        }
        // The same pattern again is not charged twice.
        let same = with_patterns(2000, |_| "^[a-z]+$".to_owned());
        assert!(sanitize_schema(&same, true, &mut PatternBudget::for_server().for_tool()).is_ok());
    }

    #[test]
    fn room_that_is_gone_holds_no_pattern_and_anything_else() {
        let mut room = PatternBudget::for_server();
        room.consume(MAX_SERVER_PATTERN_BYTES);
        assert!(sanitize_schema(&with_patterns(1, |_| "a".to_owned()), true, &mut room).is_err());
        assert!(
            sanitize_schema(
                &json!({"type": "object", "properties": {"pattern": {"type": "string"}}}),
                true,
                &mut room
            )
            .is_ok()
        );
        let values = json!({"type": "object", "default": {"pattern": "(?=a)"}, "properties": {"a": {"examples": [{"pattern": "("}]}}});
        assert!(sanitize_schema(&values, true, &mut room).is_ok());
    }
}

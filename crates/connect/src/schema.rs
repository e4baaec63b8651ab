//! Is a schema that a stranger wrote safe to check values with?
//!
//! A server that lies could send one that never ends: that refers to itself, doubles at every step, or points to another machine. So references stay
//! inside the schema, those that lead in a circle are opened (the server checks that part itself), and what is left may not unfold to more than
//! can be checked in a moment.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};
use toolgate_tools::clean_value;

/// The longest schema, in bytes of JSON.
const LONGEST: usize = 256 * 1024;

/// How many parts a schema may have once every reference in it is followed.
const MOST_PARTS: usize = 20_000;

/// How many references may follow one another.
const LONGEST_CHAIN: usize = 32;

/// The schema as the gate checks by it and a model reads it, or what is wrong with it.
pub(crate) fn usable(schema: &Value, must_be_object: bool) -> Result<Value, String> {
    if !schema.is_object() {
        return Err("it is not an object".to_owned());
    }
    if must_be_object && schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err("it does not say `\"type\": \"object\"`".to_owned());
    }
    if schema.to_string().len() > LONGEST {
        return Err(format!("it is longer than {LONGEST} bytes"));
    }
    let mut schema = cleaned(schema)?;
    let circles = circles(&schema)?;
    for place in circles {
        open(&mut schema, &place);
    }
    let mut parts = HashMap::new();
    if unfolded(&schema, &schema, "", &mut parts) > MOST_PARTS {
        return Err(format!("it unfolds to more than {MOST_PARTS} parts"));
    }
    match jsonschema::draft202012::options().build(&schema) {
        Ok(_) => Ok(schema),
        Err(error) => Err(error.masked().to_string()),
    }
}

/// Without hidden characters. Names of fields are what arguments are called, so these must have none.
fn cleaned(schema: &Value) -> Result<Value, String> {
    if !names(schema)
        .all(|name| name.chars().all(|character| !toolgate_tools::is_hidden(character) && character != '\n'))
    {
        return Err("the name of a field has hidden characters".to_owned());
    }
    Ok(clean_value(schema.clone()))
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

/// Looks for references that lead back to where they came from.
struct Walk<'s> {
    schema: &'s Value,
    open: HashSet<String>,
    done: HashSet<String>,
    circles: Vec<String>,
}

/// The places of references that close a circle.
fn circles(schema: &Value) -> Result<Vec<String>, String> {
    let mut walk = Walk { schema, open: HashSet::new(), done: HashSet::new(), circles: Vec::new() };
    walk.visit(schema, "", 0)?;
    Ok(walk.circles)
}

impl<'s> Walk<'s> {
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
            self.circles.push(place.to_owned());
            return Ok(());
        }
        if chain >= LONGEST_CHAIN {
            return Err(format!("more than {LONGEST_CHAIN} references follow one another"));
        }
        self.visit(found, target, chain + 1)
    }
}

/// The parts of a value with their names as JSON pointers write them.
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

/// Where a reference leads, as a JSON pointer. Only those that stay inside are known.
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

/// Takes a reference out, so that anything fits there.
fn open(schema: &mut Value, place: &str) {
    if let Some(part) = schema.pointer_mut(place).and_then(Value::as_object_mut) {
        part.shift_remove("$ref");
    }
}

/// How many parts there are once every reference is followed. There are no circles left.
fn unfolded(schema: &Value, value: &Value, place: &str, known: &mut HashMap<String, usize>) -> usize {
    if let Some(parts) = known.get(place) {
        return *parts;
    }
    let inside = children(value).into_iter().fold(1usize, |sum, (name, child)| {
        sum.saturating_add(unfolded(schema, child, &format!("{place}/{name}"), known))
    });
    let beyond = reference(value).ok().flatten().and_then(|target| Some((target, schema.pointer(target)?)));
    let beyond = beyond.map_or(0, |(target, found)| unfolded(schema, found, target, known));
    let parts = inside.saturating_add(beyond);
    known.insert(place.to_owned(), parts);
    parts
}

/// What anything fits that a server answers without having declared it.
pub(crate) fn anything() -> Value {
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
            (json!({"type": "object", "properties": {"a": {"pattern": "("}}}), ""),
            (json!({"type": "object", "description": "x".repeat(LONGEST)}), "longer than"),
            (json!({"type": "object", "$ref": "#/$defs/d0", "$defs": doubling}), "references follow"),
        ] {
            let reason =
                usable(&schema, true).expect_err(&schema.to_string().chars().take(200).collect::<String>());
            assert!(reason.contains(wanted), "{reason}");
        }
    }

    #[test]
    fn doubling_within_the_longest_chain_is_refused_too() {
        let link = |step: usize| json!({"allOf": [{"$ref": format!("#/$defs/d{}", step + 1)}, {"$ref": format!("#/$defs/d{}", step + 1)}]});
        let mut links: Map<String, Value> = (0..20).map(|step| (format!("d{step}"), link(step))).collect();
        links.insert("d20".to_owned(), json!({}));
        let reason =
            usable(&json!({"type": "object", "$ref": "#/$defs/d0", "$defs": links}), true).unwrap_err();
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
        let usable = usable(&tree, true).unwrap();
        let validator = jsonschema::draft202012::options().build(&usable).unwrap();
        assert!(validator.is_valid(&json!({"root": {"n": 1, "left": {"n": "unchecked"}}})));
        assert!(!validator.is_valid(&json!({"root": {"n": "no"}})));
        let mut deep = json!({});
        for _ in 0..100 {
            deep = json!({"right": deep, "left": deep, "self": {}});
            if deep.to_string().len() > 100_000 {
                break;
            }
        }
        assert!(validator.is_valid(&json!({"root": deep})));
        for schema in
            [json!({"type": "object", "$ref": "#"}), json!({"type": "object", "allOf": [{"$ref": "#"}]})]
        {
            let usable = super::usable(&schema, true).unwrap();
            assert!(jsonschema::draft202012::options().build(&usable).unwrap().is_valid(&json!({})));
        }
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
            assert_eq!(usable(&schema, true).unwrap(), schema);
        }
    }
}

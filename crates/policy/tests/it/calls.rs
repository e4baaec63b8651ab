//! Calls for the tests.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use toolgate_policy::{CallFacts, HeldPermissions};
use toolgate_types::{Caller, Trust};

/// A caller with these permissions, on behalf of an agent or not.
pub(crate) fn caller(agent: Option<&str>, permissions: &[&str]) -> Caller {
    Caller {
        subject: "ann".to_owned(),
        permissions: permissions.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>(),
        agent: agent.map(|name| name.parse().unwrap()),
        session: "monday".parse().unwrap(),
        run: None,
        trust: Trust::Guided,
    }
}

/// The facts of a call by a caller with the permissions it was granted.
pub(crate) fn facts<'a>(caller: &'a Caller, input: &'a Value) -> CallFacts<'a> {
    CallFacts { caller, held: HeldPermissions::granted(caller), input, paths: None, calls: 3 }
}

/// A schema with something of everything.
pub(crate) fn rich_schema() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["count", "path"],
        "properties": {
            "count": {"type": "integer"},
            "path": {"type": "string"},
            "author": {"type": "string"},
            "deep": {"type": "boolean"},
            "ratio": {"type": "number"},
            "order": {"enum": ["new", "old"]},
            "fixed": {"const": 5},
            "tags": {"type": "array", "items": {"type": "string"}},
            "odd name": {"type": "integer"},
            "": {"type": "integer"},
            "input": {"type": "string"},
            "maybe": {"type": ["string", "null"]},
            "nothing": {"type": "null"},
            "mixed": {"enum": ["a", 1]},
            "anything": {},
            "bag": {"type": "object"},
            "list": {"type": "array"},
            "again": {"$ref": "#/$defs/level"},
            "circle": {"$ref": "#/$defs/circle"},
            "options": {
                "type": "object",
                "required": ["level"],
                "properties": {
                    "level": {"type": "integer"},
                    "note": {"type": "string"},
                    "inner": {
                        "type": "object",
                        "additionalProperties": false,
                        "required": ["flag"],
                        "properties": {"flag": {"type": "boolean"}},
                    },
                    "unclear": {},
                },
            },
        },
        "$defs": {
            "level": {"type": "integer"},
            "circle": {"type": "object", "properties": {"circle": {"$ref": "#/$defs/circle"}}},
        },
    })
}

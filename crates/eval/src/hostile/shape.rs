//! What a tool list shows of each tool: all that the generator knows of a gate.

use serde_json::{Map, Value, json};

use crate::evidence::OfferedTool;

/// A tool, as its name and its schema show it.
#[derive(Clone, Debug)]
pub(super) struct ToolShape {
    pub(super) name: String,
    pub(super) use_of: ToolUse,
    pub(super) arguments: Vec<ArgumentShape>,
    /// Whether paths begin with the alias of a mount.
    pub(super) has_aliases: bool,
}

/// What a tool seems to be for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToolUse {
    Command,
    Move,
    Patch,
    Edit,
    Append,
    Write,
    Delete,
    Search,
    Revision,
    Read,
    Other,
}

/// An argument of a tool.
#[derive(Clone, Debug)]
pub(super) struct ArgumentShape {
    pub(super) name: String,
    pub(super) schema: Value,
    pub(super) required: bool,
}

impl ArgumentShape {
    pub(super) fn is_path(&self) -> bool {
        let known = ["path", "from", "to", "cwd", "directory", "file", "filename", "folder", "dir"];
        known.contains(&self.name.as_str())
            && self.kind() != "boolean"
            && self.schema.get("maxLength").and_then(Value::as_u64) != Some(200)
    }

    pub(super) fn kind(&self) -> &str {
        match self.schema.get("type") {
            Some(Value::String(kind)) => kind,
            Some(Value::Array(kinds)) => {
                kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null").unwrap_or("string")
            }
            _ => "string",
        }
    }
}

/// The tools of a list.
pub(super) fn shapes(tools: &[OfferedTool]) -> Vec<ToolShape> {
    tools.iter().map(shape).collect()
}

fn shape(tool: &OfferedTool) -> ToolShape {
    let empty = Map::new();
    let properties = tool.schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let required: Vec<&str> = tool
        .schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let arguments: Vec<ArgumentShape> = properties
        .iter()
        .map(|(name, schema)| ArgumentShape {
            name: name.clone(),
            schema: schema.clone(),
            required: required.contains(&name.as_str()),
        })
        .collect();
    let has_aliases = tool.schema.to_string().contains("@project");
    ToolShape { name: tool.name.clone(), use_of: use_of(&tool.name, properties), arguments, has_aliases }
}

fn use_of(name: &str, properties: &Map<String, Value>) -> ToolUse {
    let has = |argument: &str| properties.contains_key(argument);
    let named = |part: &str| name.to_ascii_lowercase().contains(part);
    if has("command") {
        ToolUse::Command
    } else if has("patch") {
        ToolUse::Patch
    } else if has("old_text") || has("oldText") || has("old") {
        ToolUse::Edit
    } else if has("revision") || (has("from") && has("stat")) {
        ToolUse::Revision
    } else if has("from") && has("to") {
        ToolUse::Move
    } else if has("content") && named("append") {
        ToolUse::Append
    } else if has("content") {
        ToolUse::Write
    } else if named("delete") || named("remove") {
        ToolUse::Delete
    } else if has("pattern") || has("glob") || (has("query") && named("search")) {
        ToolUse::Search
    } else if has("path") || has("directory") {
        ToolUse::Read
    } else {
        ToolUse::Other
    }
}

impl ToolShape {
    /// A call of this tool with the one value that matters, and as little else as the schema asks for.
    pub(super) fn with(&self, values: &[(&str, Value)]) -> Value {
        let mut arguments = Map::new();
        for argument in &self.arguments {
            let given = values.iter().find(|(name, _)| *name == argument.name);
            match given {
                Some((_, value)) => drop(arguments.insert(argument.name.clone(), value.clone())),
                None if argument.required => drop(arguments.insert(argument.name.clone(), plain(argument))),
                None => {}
            }
        }
        Value::Object(arguments)
    }
}

/// A value that the schema of an argument accepts, in most cases.
pub(super) fn plain(argument: &ArgumentShape) -> Value {
    if let Some(first) = argument.schema.get("enum").and_then(Value::as_array).and_then(|all| all.first()) {
        return first.clone();
    }
    match argument.kind() {
        "integer" | "number" => argument.schema.get("minimum").cloned().unwrap_or_else(|| json!(1)),
        "boolean" => json!(false),
        "array" => json!([]),
        "object" => json!({}),
        _ if argument.is_path() => json!("README.md"),
        _ => json!("HEAD"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_known_by_its_arguments() {
        let of = |name: &str, arguments: &[&str]| {
            let properties: Map<String, Value> = arguments
                .iter()
                .map(|argument| ((*argument).to_owned(), json!({"type": "string"})))
                .collect();
            let schema = json!({"type": "object", "properties": properties, "required": arguments});
            shape(&OfferedTool { name: name.to_owned(), schema }).use_of
        };
        assert_eq!(of("bash", &["command", "cwd"]), ToolUse::Command);
        assert_eq!(of("x", &["from", "to"]), ToolUse::Move);
        assert_eq!(of("x", &["from", "to", "stat"]), ToolUse::Revision);
        assert_eq!(of("append_file", &["path", "content"]), ToolUse::Append);
        assert_eq!(of("fs.write", &["path", "content"]), ToolUse::Write);
        assert_eq!(of("delete_file", &["path"]), ToolUse::Delete);
        assert_eq!(of("read_file", &["path"]), ToolUse::Read);
        assert_eq!(of("ping", &[]), ToolUse::Other);
    }
}

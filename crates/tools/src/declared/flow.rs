//! What a manifest declares about information flow, and what follows from the rest of it.

use serde_json::Value;
use toolgate_manifest::ToolManifest;
use toolgate_types::{ArgumentRole, FlowDeclaration, FlowEffect, FlowLabels, FlowMounts, ToolClass};

/// A command with hosts to reach sends something out and returns what others wrote, unless the manifest says otherwise. Values that the schema of a target
/// lists are of the configuration.
pub(super) fn declaration(manifest: &ToolManifest) -> FlowDeclaration {
    let by_class = match manifest.class.value {
        ToolClass::Read => FlowEffect::Read,
        ToolClass::Write => FlowEffect::Write,
        ToolClass::Destructive => FlowEffect::Destroy,
    };
    let mounts = manifest.command.mounts.iter().map(|mount| mount.alias.value.clone()).collect();
    let default = match manifest.command.network.is_empty() {
        true => FlowDeclaration::new(by_class, FlowLabels::NONE),
        false => FlowDeclaration::new(FlowEffect::Egress, FlowLabels::UNTRUSTED),
    };
    let mut declared = manifest.flow.over(default.reading(FlowMounts::Named(mounts)));
    for (name, role) in &mut declared.arguments {
        if let ArgumentRole::Target(allowed) = role {
            allowed.extend(listed_values(&manifest.input, name));
        }
    }
    declared
}

/// The values that the schema of an argument names: `const`, `enum` and `default`, also of the items of a list.
fn listed_values(schema: &Value, path: &str) -> Vec<String> {
    let mut at = schema;
    for name in path.split('.') {
        let Some(property) = at.get("properties").and_then(|properties| properties.get(name)) else {
            return Vec::new();
        };
        at = property;
    }
    let of = |schema: &Value| {
        let single = ["const", "default"].into_iter().filter_map(|word| schema.get(word).cloned());
        let many = schema.get("enum").and_then(Value::as_array).cloned().unwrap_or_default();
        single.chain(many).collect::<Vec<Value>>()
    };
    let values = of(at).into_iter().chain(at.get("items").map(of).unwrap_or_default());
    let text = |value: Value| match value {
        Value::String(text) => Some(text),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    };
    values.filter_map(text).collect()
}

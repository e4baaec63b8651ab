//! The tools that a caller may use, as MCP tells of them.

use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};
use toolgate_gate::ToolSpec;
use toolgate_tools::Front;
use toolgate_types::{Category, Failure, ToolClass};

use crate::mcp::Visitor;
use crate::mcp::answer::NOTICE;

/// How many callers' lists are remembered.
const REMEMBERED: usize = 16;

/// Lists that were made before, and are good as long as the gate decides by the same.
#[derive(Default)]
pub(crate) struct ToolLists(Mutex<Vec<Remembered>>);

struct Remembered {
    binding: [u8; 32],
    generation: u64,
    tools: Arc<[Tool]>,
}

impl ToolLists {
    /// The tools that this visitor may use, in their order.
    pub(crate) async fn of(&self, front: &Front, visitor: &Visitor) -> Result<Arc<[Tool]>, Failure> {
        let generation = front.gate().generation();
        // Who comes with a token is verified each time: a list does not outlive what it was made for.
        let visible = front.gate().tools_for(visitor.credential.clone()).await?;
        let binding = visitor.binding;
        let is_current = front.gate().generation() == generation;
        let names = visible.iter().map(|tool| tool.spec().name.as_str());
        if let Some(known) = self.remembered(binding, generation, names).filter(|_| is_current) {
            return Ok(known);
        }
        let tools: Arc<[Tool]> =
            visible.iter().map(|tool| described(tool.spec(), front.tells_structure())).collect();
        if is_current {
            self.remember(Remembered { binding, generation, tools: Arc::clone(&tools) });
        }
        Ok(tools)
    }

    /// The list of this caller, if it is of exactly these tools as they are defined now.
    fn remembered<'a>(
        &self,
        binding: [u8; 32],
        generation: u64,
        names: impl Iterator<Item = &'a str>,
    ) -> Option<Arc<[Tool]>> {
        let lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = lists.iter().find(|list| list.binding == binding)?;
        let is_same = found.generation == generation && found.tools.iter().map(|tool| &*tool.name).eq(names);
        is_same.then(|| Arc::clone(&found.tools))
    }

    fn remember(&self, list: Remembered) {
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lists.retain(|known| known.binding != list.binding);
        if lists.len() == REMEMBERED {
            lists.remove(0);
        }
        lists.push(list);
    }
}

fn described(spec: &ToolSpec, structure: bool) -> Tool {
    let tool = Tool::new(spec.name.as_str().to_owned(), spec.description.clone(), object(&spec.input_schema))
        .with_title(spec.title.clone())
        .with_annotations(annotations(spec));
    // What a policy takes out of an answer may be what the schema demands of it, and a long content is not told twice.
    let declares = structure
        && spec.output_policy.is_none()
        && is_object(&spec.output_schema)
        && !repeats_text(&spec.output_schema);
    if declares { tool.with_raw_output_schema(Arc::new(output_schema(&spec.output_schema))) } else { tool }
}

fn annotations(spec: &ToolSpec) -> ToolAnnotations {
    let is_read = spec.class == ToolClass::Read;
    ToolAnnotations::with_title(spec.title.clone())
        .read_only(is_read)
        .destructive(spec.class == ToolClass::Destructive)
        .idempotent(is_read)
        .open_world(matches!(spec.category, Category::Mcp | Category::Web))
}

fn is_object(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("object")
}

/// Whether the structured answer repeats the text that a model reads.
fn repeats_text(schema: &Value) -> bool {
    schema.pointer("/properties/content").is_some()
}

/// What a tool declares, and what is said about answers that were cut.
fn output_schema(schema: &Value) -> JsonObject {
    let mut schema = object(schema);
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut)
        && properties.contains_key("truncated")
    {
        properties.entry(NOTICE).or_insert_with(|| json!({"type": "string"}));
    }
    schema
}

fn object(schema: &Value) -> JsonObject {
    schema.as_object().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_remembered_for_the_same_tools_of_the_same_generation_alone() {
        let tool = |name: &'static str| Tool::new(name, "", JsonObject::new());
        let lists = ToolLists::default();
        let tools = Arc::from([tool("alpha"), tool("beta")]);
        lists.remember(Remembered { binding: [1; 32], generation: 7, tools });
        let found = |binding: u8, generation, names: &[&str]| {
            lists.remembered([binding; 32], generation, names.iter().copied()).is_some()
        };
        assert!(found(1, 7, &["alpha", "beta"]));
        assert!(!found(1, 7, &["alpha", "gamma"]), "as many, and others");
        assert!(!found(1, 7, &["alpha"]) && !found(1, 7, &["alpha", "beta", "gamma"]));
        assert!(!found(1, 8, &["alpha", "beta"]), "defined anew");
        assert!(!found(2, 7, &["alpha", "beta"]), "somebody else's");
    }
}

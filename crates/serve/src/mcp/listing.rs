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
        let specs = front.gate().tools_for(visitor.credential.clone()).await?;
        if let Some(known) = self.remembered(visitor, generation, specs.len()) {
            return Ok(known);
        }
        let tools: Arc<[Tool]> =
            specs.iter().map(|tool| described(tool.spec(), front.tells_structure())).collect();
        self.remember(Remembered { binding: visitor.binding, generation, tools: Arc::clone(&tools) });
        Ok(tools)
    }

    fn remembered(&self, visitor: &Visitor, generation: u64, count: usize) -> Option<Arc<[Tool]>> {
        let lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = lists.iter().find(|list| list.binding == visitor.binding)?;
        // A token may have been replaced by one that grants less, for the same binding.
        (found.generation == generation && found.tools.len() == count).then(|| Arc::clone(&found.tools))
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
        .open_world(spec.category == Category::Mcp)
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

//! The tools that a caller may use, as `tools/list` returns them.

use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{Icon, JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};
use toolgate_gate::{Tool as GateTool, ToolIcon, ToolSchema, ToolSpec};
use toolgate_tools::{Hints, NOTICE, ProfiledGate};
use toolgate_types::Failure;

use crate::mcp::ClientIdentity;

/// How many callers' lists are cached.
const MAX_CACHED_LISTS: usize = 16;

/// Cached lists, valid for one generation of the gate's configuration.
#[derive(Default)]
pub(crate) struct ToolLists(Mutex<Vec<CachedList>>);

struct CachedList {
    binding: [u8; 32],
    generation: u64,
    tools: Arc<[Tool]>,
}

impl ToolLists {
    /// The tools that this caller may use, in order.
    pub(crate) async fn of(
        &self,
        front: &ProfiledGate,
        visitor: &ClientIdentity,
    ) -> Result<Arc<[Tool]>, Failure> {
        let generation = front.gate().generation();
        // A token is verified each time: a cached list must not outlive the token.
        let visible = front.gate().offered_tools(visitor.credential.clone()).await?;
        let binding = visitor.binding;
        let is_current = front.gate().generation() == generation;
        let names = visible.iter().map(|tool| tool.spec().name.as_str());
        if let Some(known) = self.cached(binding, generation, names).filter(|_| is_current) {
            return Ok(known);
        }
        let tools = list(front, &visible);
        if is_current {
            self.insert(CachedList { binding, generation, tools: Arc::clone(&tools) });
        }
        Ok(tools)
    }

    /// The cached list of this caller, if it has exactly these tools of this generation.
    fn cached<'a>(
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

    fn insert(&self, list: CachedList) {
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lists.retain(|known| known.binding != list.binding);
        if lists.len() == MAX_CACHED_LISTS {
            lists.remove(0);
        }
        lists.push(list);
    }
}

/// Tools as `tools/list` returns them.
#[must_use]
pub fn listed_tools(front: &ProfiledGate, tools: &[Arc<dyn GateTool>]) -> Value {
    json!(list(front, tools))
}

fn list(front: &ProfiledGate, tools: &[Arc<dyn GateTool>]) -> Arc<[Tool]> {
    tools.iter().map(|tool| described(tool.as_ref(), front.has_native_structure())).collect()
}

fn described(tool: &dyn GateTool, structure: bool) -> Tool {
    let spec = tool.spec();
    let mut told =
        Tool::new(spec.name.as_str().to_owned(), spec.description.clone(), spec.input_schema.share())
            .with_title(spec.title.clone())
            .with_annotations(annotations(tool));
    told.icons = wire_icons(tool.icons());
    // An output policy may remove properties that the schema requires, and a long content is not repeated in the structured part.
    let declares =
        structure && spec.output_policy.is_none() && is_object(&spec.output_schema) && !repeats_text(spec);
    if declares { told.with_raw_output_schema(declared_schema(&spec.output_schema)) } else { told }
}

/// Icons as clients get them.
pub(crate) fn wire_icons(icons: Vec<ToolIcon>) -> Option<Vec<Icon>> {
    let icon = |icon: ToolIcon| {
        let media_type = icon.src.strip_prefix("data:").and_then(|rest| rest.split(';').next());
        let mut wire = Icon::new(&*icon.src);
        wire.mime_type = media_type.map(str::to_owned);
        wire.sizes = (!icon.sizes.is_empty()).then_some(icon.sizes);
        wire.theme = icon.theme.and_then(|theme| serde_json::from_value(Value::from(theme)).ok());
        wire
    };
    (!icons.is_empty()).then(|| icons.into_iter().map(icon).collect())
}

fn annotations(tool: &dyn GateTool) -> ToolAnnotations {
    let Hints { read_only, destructive, idempotent, open_world } = Hints::of(tool);
    ToolAnnotations::with_title(tool.spec().title.clone())
        .read_only(read_only)
        .destructive(destructive)
        .idempotent(idempotent)
        .open_world(open_world)
}

fn is_object(schema: &ToolSchema) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("object")
}

/// Whether the structured content repeats the text, and so is left out if that is long. For built-in file tools it is the `content` property. A
/// property of that name in other tools is what they declared, and is always sent.
pub(crate) fn repeats_text(spec: &ToolSpec) -> bool {
    spec.is_built_in_file_tool() && spec.output_schema.property("content").is_some()
}

/// The output schema. If results can be truncated but the schema lacks the notice, as with tools of other servers, it is added to a copy.
fn declared_schema(schema: &ToolSchema) -> Arc<JsonObject> {
    let mut told = schema.share();
    let tells_of_a_cut = schema.property("truncated").is_some() && schema.property(NOTICE).is_none();
    if tells_of_a_cut && let Some(Value::Object(properties)) = Arc::make_mut(&mut told).get_mut("properties")
    {
        properties.insert(NOTICE.to_owned(), json!({"type": "string"}));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_remembered_for_the_same_tools_of_the_same_generation_alone() {
        let tool = |name: &'static str| Tool::new(name, "", JsonObject::new());
        let lists = ToolLists::default();
        let tools = Arc::from([tool("alpha"), tool("beta")]);
        lists.insert(CachedList { binding: [1; 32], generation: 7, tools });
        let found = |binding: u8, generation, names: &[&str]| {
            lists.cached([binding; 32], generation, names.iter().copied()).is_some()
        };
        assert!(found(1, 7, &["alpha", "beta"]));
        assert!(!found(1, 7, &["alpha", "gamma"]), "as many, and others");
        assert!(!found(1, 7, &["alpha"]) && !found(1, 7, &["alpha", "beta", "gamma"]));
        assert!(!found(1, 8, &["alpha", "beta"]), "defined anew");
        assert!(!found(2, 7, &["alpha", "beta"]), "somebody else's");
    }

    #[test]
    fn a_schema_is_copied_only_to_say_what_a_tool_of_others_leaves_unsaid() {
        let schema =
            |properties: Value| ToolSchema::from(json!({"type": "object", "properties": properties}));
        let text = json!({"type": "string"});
        for (properties, is_copied) in [
            (json!({"truncated": {}}), true),
            (json!({"truncated": {}, "notice": text}), false),
            (json!({"truncated": {}, "notice": {"type": "integer"}}), false),
            (json!({"path": text}), false),
            (json!({}), false),
        ] {
            let schema = schema(properties.clone());
            let (told, declared) = (declared_schema(&schema), schema.share());
            assert_eq!(Arc::ptr_eq(&told, &declared), !is_copied, "{properties}");
            if is_copied {
                assert_eq!(told["properties"], json!({"truncated": {}, "notice": text}), "{properties}");
                assert_eq!(declared["properties"], properties);
            }
        }
        let nothing = ToolSchema::from(json!({"type": "object"}));
        assert!(Arc::ptr_eq(&declared_schema(&nothing), &nothing.share()));
    }
}

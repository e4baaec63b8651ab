//! The tools that a model is offered: those that the caller may use, from the gate's current configuration.

use std::collections::HashMap;

use serde_json::{Map, Value};
use toolgate_gate::{Credential, Gate, needs_question};
use toolgate_llm::ToolDefinition;
use toolgate_types::{Failure, ToolClass};

/// The tools of one caller.
pub(crate) struct ToolCatalogue {
    generation: u64,
    pub(crate) definitions: Vec<ToolDefinition>,
    classes: HashMap<String, ToolClass>,
    /// Whether read-only calls need approval.
    reads_need_approval: bool,
    /// The approximate size of the definitions.
    pub(crate) bytes: u64,
}

impl ToolCatalogue {
    /// No tools.
    pub(crate) fn empty() -> Self {
        Self {
            generation: 0,
            definitions: Vec::new(),
            classes: HashMap::new(),
            reads_need_approval: true,
            bytes: 0,
        }
    }

    /// The tools that a caller may use.
    ///
    /// # Errors
    /// The caller cannot be identified.
    pub(crate) async fn for_caller(gate: &Gate, credential: &Credential) -> Result<Self, Failure> {
        // The generation is read first: a concurrent reload then makes this catalogue stale.
        let generation = gate.generation();
        let tools = gate.offered_tools(credential.clone()).await?;
        let caller = gate.identify(credential.clone()).await?;
        let asks_before_reading = needs_question(caller.trust, ToolClass::Read);
        let mut offer = Self { generation, reads_need_approval: asks_before_reading, ..Self::empty() };
        for spec in tools.iter().map(|tool| tool.spec()) {
            let (name, description, input_schema) =
                (spec.name.to_string(), spec.description.clone(), spec.input_schema.share());
            offer.bytes += (name.len() + description.len() + json_len(&input_schema)) as u64;
            offer.classes.insert(name.clone(), spec.class);
            offer.definitions.push(ToolDefinition { name, description, input_schema });
        }
        Ok(offer)
    }

    /// Whether the gate's configuration has changed since.
    pub(crate) fn is_stale(&self, gate: &Gate) -> bool {
        self.generation != gate.generation()
    }

    pub(crate) fn find(&self, name: &str) -> Option<&ToolDefinition> {
        self.definitions.iter().find(|tool| tool.name == name)
    }

    /// Whether calls of this tool may run concurrently: it is declared read-only and needs no approval. Approval requests are sent one at a time,
    /// each with its full timeout, and one answer may cover the next request.
    pub(crate) fn can_run_in_parallel(&self, name: &str) -> bool {
        !self.reads_need_approval && self.classes.get(name) == Some(&ToolClass::Read)
    }
}

/// The length of a schema as JSON.
fn json_len(schema: &Map<String, Value>) -> usize {
    serde_json::to_string(schema).map_or(0, |json| json.len())
}

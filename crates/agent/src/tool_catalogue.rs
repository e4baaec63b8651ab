//! The tools that a model is offered: those that its caller may use, as the gate has them at the moment.

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
    /// Whether a person is asked before a call that only reads.
    reads_need_approval: bool,
    /// About how many bytes the model is told about them.
    pub(crate) bytes: u64,
}

impl ToolCatalogue {
    /// None.
    pub(crate) fn empty() -> Self {
        Self {
            generation: 0,
            definitions: Vec::new(),
            classes: HashMap::new(),
            reads_need_approval: true,
            bytes: 0,
        }
    }

    /// What a caller may use.
    ///
    /// # Errors
    /// Nobody knows who that is.
    pub(crate) async fn for_caller(gate: &Gate, credential: &Credential) -> Result<Self, Failure> {
        // The number first: what is replaced meanwhile is then seen to be newer.
        let generation = gate.generation();
        let tools = gate.tools_for(credential.clone()).await?;
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

    /// Whether the gate decides by something else by now.
    pub(crate) fn is_stale(&self, gate: &Gate) -> bool {
        self.generation != gate.generation()
    }

    pub(crate) fn find(&self, name: &str) -> Option<&ToolDefinition> {
        self.definitions.iter().find(|tool| tool.name == name)
    }

    /// Whether calls of this tool can be made beside others: it only reads, for all that was declared, and nobody is asked first. Questions come one at
    /// a time, each with the whole time for an answer, and an answer may make the next question needless.
    pub(crate) fn can_run_in_parallel(&self, name: &str) -> bool {
        !self.reads_need_approval && self.classes.get(name) == Some(&ToolClass::Read)
    }
}

/// How long a schema is as JSON.
fn json_len(schema: &Map<String, Value>) -> usize {
    serde_json::to_string(schema).map_or(0, |json| json.len())
}

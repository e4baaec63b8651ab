//! The registered tools.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use toolgate_policy::PathInputs;
use toolgate_types::{Failure, FlowDeclaration, Sha256};

use crate::breaker::Breaker;
use crate::error::GateError;
use crate::schema_check::{InputCheck, OutputCheck};
use crate::tool::{Tool, ToolSpec};

/// A tool with its schema checks. The schemas are compiled on first use, so that one call does not pay for every tool.
#[derive(Clone)]
pub(crate) struct RegisteredTool {
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) input: Arc<InputCheck>,
    pub(crate) output: Arc<OutputCheck>,
    pub(crate) breaker: Arc<Breaker>,
    definition: Arc<OnceLock<Sha256>>,
    path_inputs: Arc<OnceLock<PathInputs>>,
    flow: Arc<OnceLock<FlowDeclaration>>,
}

impl RegisteredTool {
    fn new(tool: Arc<dyn Tool>) -> Self {
        let (input, output, breaker) = (Arc::default(), Arc::default(), Arc::default());
        Self {
            tool,
            input,
            output,
            breaker,
            definition: Arc::default(),
            path_inputs: Arc::default(),
            flow: Arc::default(),
        }
    }

    /// Whether its digest of the definition is the same in every process: only then can a stored grant name it.
    pub(crate) fn is_recognisable(&self) -> bool {
        self.tool.fingerprint().is_some() || self.tool.spec().requirements.is_none()
    }

    /// Which of its arguments are paths; computed once.
    pub(crate) fn path_inputs(&self) -> &PathInputs {
        self.path_inputs.get_or_init(|| self.tool.path_inputs())
    }

    /// What it declares about information flow; computed once.
    pub(crate) fn flow(&self) -> &FlowDeclaration {
        self.flow.get_or_init(|| self.tool.information_flow())
    }

    /// Digest of the tool's definition. A tool with requirements and without a fingerprint gets a new digest in every generation, because nothing
    /// proves that it is unchanged.
    pub(crate) fn definition(&self, generation: u64) -> Sha256 {
        *self.definition.get_or_init(|| {
            let spec = self.tool.spec();
            let behaviour = match (self.tool.fingerprint(), &spec.requirements) {
                (Some(fingerprint), _) => fingerprint.to_string(),
                (None, None) => "built in".to_owned(),
                (None, Some(_)) => format!("generation {generation}"),
            };
            digest(spec, &behaviour)
        })
    }
}

fn digest(spec: &ToolSpec, behaviour: &str) -> Sha256 {
    let requirements = spec.requirements.as_ref().map(|requirements| {
        let elevated = requirements.elevated.as_ref();
        let elevated = elevated.map(|elevated| (elevated.condition.text(), &elevated.permissions));
        (&requirements.permissions, elevated, requirements.class)
    });
    let whole = serde_json::json!([
        "toolgate.tool.v1",
        spec.name,
        spec.title,
        spec.description,
        spec.class,
        spec.category,
        spec.input_schema,
        spec.output_schema,
        requirements,
        behaviour,
    ]);
    Sha256::of(whole.to_string().as_bytes())
}

/// A tool that is declared and cannot be offered now, such as one of a server that is not up.
pub struct AbsentTool {
    /// What its declaration says about it, which decides whether a caller gets the reason.
    pub spec: ToolSpec,
    /// Why it cannot be called.
    pub failure: Failure,
}

/// Knows tools that are declared and cannot be offered now.
pub trait AbsentTools: Send + Sync {
    /// The tool of this name. No other tool is registered under it.
    fn find(&self, name: &str) -> Option<AbsentTool>;

    /// The servers whose tools cannot be called because they failed.
    fn failed_servers(&self) -> Vec<FailedServer>;
}

/// A declared server that failed.
pub struct FailedServer {
    /// What its declaration says about its tools, declared and undeclared: a caller that could use one of them may know that it failed.
    pub tools: Vec<ToolSpec>,
    /// Why none of them can be called.
    pub failure: Failure,
}

/// The tools of a gate, by name.
#[derive(Clone, Default)]
pub struct Registry {
    tools: BTreeMap<String, RegisteredTool>,
    order: Vec<String>,
    absent: Option<Arc<dyn AbsentTools>>,
}

impl Registry {
    /// An empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool.
    ///
    /// # Errors
    /// A tool of that name is registered already.
    pub fn register(&mut self, tool: Arc<dyn Tool>) -> Result<(), GateError> {
        let name = tool.spec().name.as_str().to_owned();
        if self.tools.contains_key(&name) {
            return Err(GateError::DuplicateTool { name });
        }
        self.order.push(name.clone());
        self.tools.insert(name, RegisteredTool::new(tool));
        Ok(())
    }

    /// Sets what knows the tools that cannot be offered now.
    pub fn set_absent(&mut self, absent: Arc<dyn AbsentTools>) {
        self.absent = Some(absent);
    }

    pub(crate) fn absent(&self, name: &str) -> Option<AbsentTool> {
        self.absent.as_ref()?.find(name)
    }

    pub(crate) fn failed_servers(&self) -> Vec<FailedServer> {
        self.absent.as_ref().map(|absent| absent.failed_servers()).unwrap_or_default()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&RegisteredTool> {
        self.tools.get(name)
    }

    /// Takes over the state of unchanged tools: compiled schemas and circuit breakers.
    pub(crate) fn inherit_from(&mut self, generation: u64, before: &Self, before_generation: u64) {
        for (name, tool) in &mut self.tools {
            let Some(earlier) = before.tools.get(name) else { continue };
            if earlier.definition(before_generation) == tool.definition(generation) {
                tool.input = Arc::clone(&earlier.input);
                tool.output = Arc::clone(&earlier.output);
                tool.breaker = Arc::clone(&earlier.breaker);
            }
        }
    }

    /// All tools, in registration order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.order.iter().filter_map(|name| self.tools.get(name)).map(|registered| &registered.tool)
    }

    /// All names, in registration order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.order.iter().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolgate_types::{Category, ToolClass};

    use super::*;

    /// The digest of `["toolgate.tool.v1","look","Look","Looks.","read","file",{…},{"type":"object"},null,"built in"]`, computed independently.
    #[test]
    fn what_a_tool_is_has_the_same_digest_wherever_its_schemas_are_held() {
        let spec = ToolSpec {
            name: "look".parse().unwrap(),
            title: "Look".to_owned(),
            description: "Looks.".to_owned(),
            class: ToolClass::Read,
            category: Category::File,
            input_schema: json!({
                "type": "object",
                "properties": {"z": {"type": "string"}, "a": {"type": "integer"}},
                "required": ["z"],
                "additionalProperties": false,
            })
            .into(),
            output_schema: json!({"type": "object"}).into(),
            requirements: None,
            output_policy: None,
            timeout: None,
            suspended: None,
        };
        assert_eq!(
            digest(&spec, "built in").to_string(),
            "bc914a77fce035abab69444ef12b7ae7d1c0fe21f463efeeb6879bc38e1a57c4"
        );
    }
}

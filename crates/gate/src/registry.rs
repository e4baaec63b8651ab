//! Which tools there are.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::GateError;
use crate::schema::{InputCheck, OutputCheck};
use crate::tool::Tool;

/// A tool with its checks; these are compiled when first needed, so that one call does not pay for every tool.
#[derive(Clone)]
pub(crate) struct Registered {
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) input: Arc<InputCheck>,
    pub(crate) output: Arc<OutputCheck>,
}

/// The tools of a gate, by name.
#[derive(Clone, Default)]
pub struct Registry {
    tools: BTreeMap<String, Registered>,
    order: Vec<String>,
}

impl Registry {
    /// No tools.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool.
    ///
    /// # Errors
    /// A tool of that name is there already.
    pub fn register(&mut self, tool: Arc<dyn Tool>) -> Result<(), GateError> {
        let name = tool.spec().name.as_str().to_owned();
        if self.tools.contains_key(&name) {
            return Err(GateError::DuplicateTool { name });
        }
        let (input, output) = (Arc::new(InputCheck::default()), Arc::new(OutputCheck::default()));
        self.order.push(name.clone());
        self.tools.insert(name, Registered { tool, input, output });
        Ok(())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Registered> {
        self.tools.get(name)
    }

    /// All tools, in the order they were registered.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.order.iter().filter_map(|name| self.tools.get(name)).map(|registered| &registered.tool)
    }

    /// All names, in the order they were registered.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.order.iter().map(String::as_str)
    }
}

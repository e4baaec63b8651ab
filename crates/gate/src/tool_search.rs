//! Many tools: above a threshold a model is offered a search and an indirect call in place of most of them.
//!
//! `find_tools` answers from the tools that its caller may use, and `call_tool` names one of them. A call of `call_tool` is replaced by the call that it
//! names before anything is decided or recorded: permissions, rates, policies, approvals and the audit record are those of that tool.

use std::sync::Arc;

use serde_json::Value;
use toolgate_types::{ErrorCode, Failure, ToolCall};

use crate::caller::AuthenticatedCaller;
use crate::registry::Registry;
use crate::snapshot::Snapshot;
use crate::tool::{Surface, Tool, ToolSpec};

/// The tool that finds tools.
pub const FIND_TOOLS: &str = "find_tools";

/// The tool that calls another one by name.
pub const CALL_TOOL: &str = "call_tool";

/// When most tools are not offered, but found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolSearchRule {
    /// Up to this number of visible tools, all are offered.
    pub above: usize,
    /// Tools that are always offered, besides the built-in ones.
    pub always: Vec<String>,
}

/// Whether a tool is one of the two. They need no grant: one only names what its caller may use anyway, the other is never run itself.
pub(crate) fn is_search_tool(spec: &ToolSpec) -> bool {
    spec.is_built_in() && matches!(spec.name.as_str(), FIND_TOOLS | CALL_TOOL)
}

/// The tools that a caller may use, in registration order.
pub(crate) fn visible_tools_of(snapshot: &Snapshot, who: &AuthenticatedCaller<'_>) -> Vec<Arc<dyn Tool>> {
    surfaced_tools_of(snapshot, who, Surface::Tool).cloned().collect()
}

/// What a caller may use of this surface, in registration order.
pub(crate) fn surfaced_tools_of<'s>(
    snapshot: &'s Snapshot,
    who: &'s AuthenticatedCaller<'_>,
    surface: Surface,
) -> impl Iterator<Item = &'s Arc<dyn Tool>> {
    snapshot.registry.iter().filter(move |tool| tool.surface() == surface && who.can_see(tool.spec()))
}

/// The tools among which `find_tools` searches.
pub(crate) fn searchable_tools_of(
    snapshot: &Snapshot,
    who: &AuthenticatedCaller<'_>,
) -> Arc<[Arc<dyn Tool>]> {
    let tools = surfaced_tools_of(snapshot, who, Surface::Tool);
    tools.filter(|tool| !is_search_tool(tool.spec())).cloned().collect()
}

/// The tools that a model is offered which calls as this caller.
pub(crate) fn offered_tools_of(snapshot: &Snapshot, who: &AuthenticatedCaller<'_>) -> Vec<Arc<dyn Tool>> {
    let mut tools = visible_tools_of(snapshot, who);
    let count = tools.iter().filter(|tool| !is_search_tool(tool.spec())).count();
    match &snapshot.tool_search {
        Some(rule) if count > rule.above => {
            tools.retain(|tool| {
                tool.spec().is_built_in() || rule.always.contains(&tool.spec().name.to_string())
            });
        }
        _ => tools.retain(|tool| !is_search_tool(tool.spec())),
    }
    tools
}

impl Registry {
    /// Replaces a call that names another one by that.
    ///
    /// # Errors
    /// It does not name one; or one that names another in turn.
    pub(crate) fn redirect(&self, call: &mut ToolCall) -> Result<(), Failure> {
        let target = |name: &str, arguments: &Value| self.get(name)?.tool.target(arguments);
        let Some(named) = target(&call.tool, &call.arguments) else { return Ok(()) };
        let (tool, arguments) = named?;
        if target(&tool, &arguments).is_some() {
            return Err(Failure::new(
                ErrorCode::InvalidArguments,
                format!("`{tool}` cannot be called by `{}`", call.tool),
            )
            .help("name the tool that is meant"));
        }
        (call.tool, call.arguments) = (tool, arguments);
        Ok(())
    }
}

//! Tool annotations that clients receive with the tool list.

use toolgate_gate::{Effect, Tool};
use toolgate_types::{Category, ToolClass};

/// MCP's tool annotations (`readOnlyHint`, `destructiveHint`, …). Each is accurate or errs on the side of caution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hints {
    /// It changes nothing.
    pub read_only: bool,
    /// It may do more than add.
    pub destructive: bool,
    /// Repeating a call has no further effect.
    pub idempotent: bool,
    /// It reaches beyond this machine.
    pub open_world: bool,
}

impl Hints {
    /// The hints of a tool. A declared tool is read-only only if the operator says so, and is never taken to be only additive.
    #[must_use]
    pub fn of(tool: &dyn Tool) -> Self {
        let (spec, effect) = (tool.spec(), tool.effect());
        let read_only = spec.class == ToolClass::Read && effect != Effect::Sets;
        Self {
            read_only,
            destructive: !read_only && (spec.class == ToolClass::Destructive || effect != Effect::Adds),
            idempotent: read_only || effect == Effect::Sets,
            open_world: matches!(spec.category, Category::Mcp | Category::Web),
        }
    }
}

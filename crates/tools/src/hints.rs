//! What clients are told about a tool before anybody calls it.

use toolgate_gate::{Effect, Tool};
use toolgate_types::{Category, ToolClass};

/// The hints of MCP, in its words. Each is true to what the tool does, or errs to the careful side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hints {
    /// It changes nothing.
    pub read_only: bool,
    /// It may do more than add to what is there.
    pub destructive: bool,
    /// A call that is made twice leaves the same as one.
    pub idempotent: bool,
    /// It deals with more than this machine.
    pub open_world: bool,
}

impl Hints {
    /// The hints of a tool. What others declared is believed to read only where the operator says so, and to add only by nobody.
    #[must_use]
    pub fn of(tool: &dyn Tool) -> Self {
        let (spec, effect) = (tool.spec(), tool.effect());
        let read_only = spec.class == ToolClass::Read;
        Self {
            read_only,
            destructive: !read_only && (spec.class == ToolClass::Destructive || effect != Effect::Adds),
            idempotent: read_only || effect == Effect::Sets,
            open_world: matches!(spec.category, Category::Mcp | Category::Web),
        }
    }
}

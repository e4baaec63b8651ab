//! Pure decisions.
//!
//! Given what an operator declared and what a caller requests, this crate allows or denies, and says why. It
//! reads no file, clock or environment, keeps no state, and runs nothing: the same question always has the same
//! answer. Nothing here defaults to allowed, and trust is separate from permissions: an [`AgentScope`] says
//! what an agent may do, [`needs_question`] says whether a person must approve first, and neither can change
//! the other's answer.
//!
//! A call passes if all of these agree: its agent's [`AgentScope`], the tool's [`Requirements`], and the
//! organisation's [`Policies`]. Its result passes an [`OutputPolicy`], which drops what no rule allows.

pub mod limits;
pub mod paths;
pub mod scope;
pub mod trust;
pub mod call_facts;
pub mod requirements;
pub mod cedar;
pub mod output;
pub mod grants;
pub mod flow;

pub use call_facts::{CallFacts, HeldPermissions, PolicyDecision};
pub use cedar::{
    CallPaths, Condition, ConditionError, PathInput, PathInputs, PathSource, Policies, PolicyProblem,
    PolicySource, PolicyTool, ToolTyping, Undecidable,
};
pub use flow::{FlowDecision, FlowFacts, FlowTarget, is_said_in, judge, targets_of};
pub use grants::{CallKind, GrantFacts, GrantMatcher, GrantedPlace, PathPattern};
pub use limits::effective_limits;
pub use output::{Filtered, OutputPolicy, OutputPolicyError, OutputRule};
pub use paths::PathScope;
pub use requirements::{ALLOW_DESTRUCTIVE, ElevatedPermissions, Elevation, Requirements};
pub use scope::{AgentScope, Grant, ScopeVerdict};
pub use trust::needs_question;

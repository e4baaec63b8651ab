//! Conditions and organisation-wide policy, in Cedar.
//!
//! Cedar is typed here: a tool's JSON Schema becomes the type of its arguments, and every expression is
//! validated strictly when it is loaded. What Cedar would let pass is closed on top: a policy that errors
//! denies instead of being skipped, and `has` with a name that no tool has, which Cedar takes for plainly
//! false, refuses to load.
//!
//! ## What expressions see
//!
//! | name | type |
//! |---|---|
//! | `input` | the tool's arguments, by its schema |
//! | `caller.subject` | `String`: who calls |
//! | `caller.agent` | `String`, optional: the agent on whose behalf |
//! | `caller.permissions` | `Set<String>`: what it was granted by name |
//! | `caller.unrestricted` | `Bool`: a person at the keyboard, who holds everything |
//! | `caller.trust` | `String`: `supervised`, `guided` or `autonomous` |
//! | `session.id` | `String` |
//! | `session.run` | `String`, optional: the workflow run |
//! | `session.calls` | `Long`: calls that the session made before this one |
//!
//! A condition writes `input.count > 20`; a policy file writes `context.input.count > 20`, as Cedar itself
//! demands.

mod typing;
mod value;
mod reads;
mod surroundings;
mod tokens;
mod rewrite;
mod condition;
mod source;
mod rule;
mod example;
mod policies;
mod load;

pub use condition::{Condition, ConditionError};
pub use load::PolicyTool;
pub use policies::Policies;
pub use source::{PolicyProblem, PolicySource};
pub use typing::ToolTyping;
pub use value::Undecidable;

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
//! | `input` | the tool's arguments, by its schema; those that are paths of the workspace as `Path` |
//! | `path` | `Path`: each path of the call in turn, wherever it is named; for tools that have some |
//! | `caller.subject` | `String`: who calls |
//! | `caller.agent` | `String`, optional: the agent on whose behalf |
//! | `caller.permissions` | `Set<String>`: what it was granted by name |
//! | `caller.unrestricted` | `Bool`: a person at the keyboard, who holds everything |
//! | `caller.trust` | `String`: `supervised`, `guided` or `autonomous` |
//! | `session.id` | `String` |
//! | `session.run` | `String`, optional: the workflow run |
//! | `session.calls` | `Long`: calls that the session made before this one |
//!
//! A `Path` is where a path really leads: `input.path in Path::"@project/secrets"`, and
//! `input.path.location like "*.pem"`. A condition holds if it does for one of the paths; a `permit` must for each.
//!
//! A condition writes `input.count > 20`; a policy file writes `context.input.count > 20`, as Cedar itself
//! demands.

mod path;
mod typing;
mod value;
mod context_reads;
mod context_schema;
mod tokens;
mod rewrite;
mod condition;
mod source;
mod compiled_policy;
mod example;
mod policies;
mod load;

pub use condition::{Condition, ConditionError};
pub use load::PolicyTool;
pub use path::{CallPaths, PathInput, PathInputs, PathSource};
pub use policies::Policies;
pub use source::{PolicyProblem, PolicySource};
pub use typing::ToolTyping;
pub use value::Undecidable;

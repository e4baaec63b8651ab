//! Conditions and organisation-wide policies, in Cedar.
//!
//! Cedar is typed here: a tool's JSON Schema becomes the type of its arguments, and every expression is validated
//! strictly when it is loaded. Two things are stricter than in Cedar: a policy that errors denies instead of being
//! skipped, and `has` with a name that no tool has, which Cedar evaluates to false, fails to load.
//!
//! ## What expressions see
//!
//! | name | type |
//! |---|---|
//! | `input` | the tool's arguments, by its schema; those that are paths of the workspace as `Path` |
//! | `path` | `Path`: each path of the call in turn, from any source; for tools that have some |
//! | `caller.subject` | `String`: the caller |
//! | `caller.agent` | `String`, optional: the agent that the caller acts for |
//! | `caller.permissions` | `Set<String>`: the permissions granted by name |
//! | `caller.unrestricted` | `Bool`: the local user, who has all permissions |
//! | `caller.trust` | `String`: `supervised`, `guided` or `autonomous` |
//! | `session.id` | `String` |
//! | `session.run` | `String`, optional: the workflow run |
//! | `session.calls` | `Long`: calls that the session made before this one |
//!
//! A `Path` is a resolved path: `input.path in Path::"@project/secrets"`, and `input.path.location like "*.pem"`. A
//! condition holds if it holds for one of the paths; a `permit` must match for each.
//!
//! A condition is written `input.count > 20`; in a policy file it is `context.input.count > 20`, as Cedar requires.

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

//! The built-in file tools, and the profiles that dress them.
//!
//! There is one core: the operations of `toolgate-workspace`, behind the gate. A profile fixes names, schemas, limits and wording; it never decides
//! whether something is allowed. [`Front`] puts a profile in front of a gate and answers with exactly what a model is given.

mod file_tool;
mod preview;
mod output;
mod arguments;
mod edit;
mod profile;
mod native;
mod claw;
mod crew;
mod sidecar;
mod studio;
mod front;

pub use crew::{RunError, initialise_run};
pub use front::{Answer, Called, Front};
pub use profile::{Profile, ToolFormat};

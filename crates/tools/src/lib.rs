//! The built-in tools, those that manifests declare, and the profiles that dress them.
//!
//! There is one core: the operations of `toolgate-workspace` and commands in `toolgate-sandbox`, behind the gate. A profile fixes names, schemas,
//! limits and wording; it never decides whether something is allowed. [`Front`] puts a profile in front of a gate and answers with exactly what a
//! model is given. Nothing here starts a process outside the sandbox, nothing but `web_search` asks
//! anybody on the network, and no host path is ever in an answer.

mod browse;
mod schemas;
mod file_tool;
mod preview;
mod output;
mod arguments;
mod edit;
mod command;
mod listener;
mod web_search;
mod declared;
mod hints;
mod profile;
mod native;
mod claw;
mod crew;
mod proxy;
mod sidecar;
mod studio;
mod call_log;
mod front;
mod fault;

pub use command::{
    CommandOptions, CommandRunner, ConfinedProcess, Confinement, Identity, LastingProcess, OwnFolders,
    ProcessEnd, Started, clean, clean_value, spelt_out,
};
pub use crew::{RunError, initialise_run};
pub use declared::{LoadedTools, SHIPPED, Surroundings, load_manifests};
pub use fault::Fault;
pub use front::{Answer, Called, Front};
pub use hints::Hints;
pub use listener::{Heard, Listener};
pub use profile::{FileTools, Parts, Profile, ToolFormat};
pub use schemas::NOTICE;
pub use web_search::{
    SearchKey, WEB_SEARCH, WebSearch, WebSearchError, WebSearchOptions, usual_key_variable,
};

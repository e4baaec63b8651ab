//! The built-in tools, the tools that manifests declare, and the profiles that present them.
//!
//! There is one core: the operations of `toolgate-workspace` and commands in `toolgate-sandbox`, behind the gate. A profile fixes names, schemas,
//! limits and wording; it never decides whether something is allowed. [`ProfiledGate`] puts a profile in front of a gate and answers with exactly
//! what a model is given. No process starts outside the sandbox, only `web_search` uses the network, and an answer never contains a host path.

mod resource_files;
mod schemas;
mod file_tool;
mod preview;
mod plan;
mod output_budget;
mod edit;
mod blocked_commands;
mod command_answer;
mod shell;
mod background_tools;
mod progress_buffer;
mod web_search;
mod tool_search;
mod declared;
mod hints;
mod profiles;
mod tool_format;
mod call_log;
mod run_log;
mod refused_path;
mod profiled_gate;
mod fault;

pub use declared::{LoadedTools, ManifestContext, SHIPPED, load_manifests};
pub use fault::Fault;
pub use hints::Hints;
pub use plan::{PLAN_TOOL, Plan, PlanStatus, PlanStep};
pub use profiled_gate::{CallResponse, ModelAnswer, ProfiledGate};
pub use profiles::{ConversationDefaults, FileTools, Profile, RunError, ToolComponents};
pub use progress_buffer::{ProgressBuffer, ProgressChunk};
pub use schemas::NOTICE;
pub use shell::BackgroundAccess;
pub use tool_format::ToolFormat;
pub use tool_search::tool_search_tools;
pub use web_search::{
    SearchKey, WEB_SEARCH, WebSearch, WebSearchError, WebSearchOptions, default_key_variable,
};

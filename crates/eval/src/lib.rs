//! Cases that prove the boundary of the gate.
//!
//! A case is a prompt, a workspace, and what may happen. It is played by the binary that ships, in processes of its own and in a directory that is
//! thrown away: a model (scripted, or a real one) talks through the agent loop to the gate, or a caller with a token talks to it over HTTP. What
//! happened is judged from outside: by the record, the events, the files, a listening socket and the process list, never by what the gate says of
//! itself.
//!
//! This crate knows nothing of how a call is decided, and links none of the gate.

// What is played.
mod case;
mod suite;
mod sample;

// Where it is played.
mod playground;
mod file_tree;
mod canary;
mod process;
mod http_client;
mod kept_record;

// One try.
mod evidence;
mod conversation_try;
mod http_try;
mod checks;

// All of them, and what is reported.
mod runner;
mod report;

// Cases that are generated.
mod hostile;

pub use case::{Case, CaseKind, Player, Weakening};
pub use checks::CheckResult;
pub use hostile::{
    Escape, HostileCall, HostileEvent, HostileFailure, HostileOptions, HostileReport, HostileSequence,
    HostileStep, HostileTarget, Tap, attack, targets,
};
pub use report::{html, json, junit, table};
pub use runner::{CaseResult, EvalError, EvalOptions, TryResult, run};
pub use suite::{SuiteError, built_in, load};

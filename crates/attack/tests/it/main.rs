//! The whole gate under attack.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests arrange files by hand, fail by panicking, and say what they counted"
)]

mod fixture;
mod dress;
mod hostile_paths;
mod odd_names;
mod repositories;
mod hooks_path;
mod obeyed_names;
mod undo;
mod undo_rules;
mod race;
mod killed;
mod crash_recovery;
mod bounded;
mod crashed;
mod writers;
mod disk;
mod recording;
mod touched;
mod approval;
mod grants;
mod information_flow;
mod agreed;
mod answers;
mod stages;
mod spans;
mod declared;
mod callers;
mod permissions;
mod rules_on_paths;
mod swapped;
mod output;
mod pace;
mod tool_search;
mod reload;
mod commands;
mod injection;
mod journal_bounds;
mod hostile_repository;
mod sandbox_host;
mod sandbox_shown;
mod sandbox_table;
mod sandbox;
mod sandbox_runs;

//! The binary as users and scripts run it, and under hostile conditions.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::print_stdout,
    reason = "tests arrange files by hand, run processes, fail by panicking, and say what they counted"
)]

mod fixture;
mod untrusted_state;
mod crash_recovery;
mod concurrent_writers;
mod file_size;
mod undo;
mod gate_assembly;
mod home_directories;
mod output_and_exit;
mod command_line;
mod log;
mod telemetry;
mod tokens;
mod trust;
mod manifests;
mod check_and_doctor;
mod mcp_servers;
mod mcp_surfaces;
mod mcp_packages;
mod mcp_programs;
mod mcp_roots;
mod mcp_registries;
mod hostile_packages;
mod mcp_containers;
mod clients;
mod examples;
mod serve;
mod overlapping_commands;
mod approval_answers;
mod background;
mod sessions;
mod pty;
mod audit_integrity;
mod running;
mod studio;
mod web_search;
mod chatting;
mod chat_comforts;
mod chat_looks;
mod long_answers;
mod day;
mod whole_day;
mod completions;
mod container;
mod hostile_words;
mod information_flow;
mod hostile_names;

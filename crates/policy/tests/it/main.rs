//! Decisions, from a configuration file to a verdict, and against slow reference models.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic is how a test fails"
)]

mod calls;
mod declared;
mod properties;
mod conditions;
mod requirements;
mod policies;
mod paths;
mod output;
mod shell_lines;
mod flow;

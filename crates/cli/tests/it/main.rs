//! The binary as people and scripts run it, and as hostile circumstances end it.
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

mod place;
mod planted;
mod killed;
mod writers;
mod file_size;
mod undo;
mod wiring;
mod homes;
mod manners;
mod tokens;
mod trust;
mod declared;
mod checked;
mod bridged;
mod clients;
mod examples;
mod served;
mod overlapping;
mod sessions;
mod pty;
mod recording;
mod running;
mod studio;
mod searching;
mod chatting;
mod hostile_words;
mod hostile_names;

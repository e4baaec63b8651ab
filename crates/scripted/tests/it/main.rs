//! Scripts: parsing, problems, and the bytes on four wires.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic is how a test fails"
)]

mod client;

mod crowd;
mod faults;
mod problems;
mod refused;
mod wires;

//! The audit log from the outside: what is written, what is detected, what survives.

#![allow(clippy::disallowed_methods, reason = "tests arrange files and processes by hand")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic: that is how they fail")]
#![allow(clippy::indexing_slicing, clippy::string_slice, reason = "tests may panic: that is how they fail")]

mod fixture;
mod child;

mod records;
mod hostile_names;
mod rotation;
mod tampering;
mod mutation;
mod checkpoints;
mod multi_process;
mod crashes;
mod recovery;
mod durability;
mod failures;
mod gaps;
mod queries;
mod follower;

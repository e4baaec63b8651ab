//! Locks on files and directories that others opened, and which process holds one.
//!
//! This crate opens nothing but `/proc/locks` and `/proc/PID/comm`, and decides nothing.

mod holder;
mod file_lock;

pub use file_lock::{FileLock, NotLocked};
pub use holder::Holder;

//! `flock` on files and directories that the caller opened, and the process that holds a lock.
//!
//! This crate opens nothing but `/proc/locks` and `/proc/PID/comm`, and decides nothing.

mod holder;
mod file_lock;

pub use file_lock::{FileLock, NotLocked};
pub use holder::Holder;

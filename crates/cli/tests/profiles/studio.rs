//! The profile `studio`.

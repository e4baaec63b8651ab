//! The profile `claw`.

//! The profile `sidecar`.

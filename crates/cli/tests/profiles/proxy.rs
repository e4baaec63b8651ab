//! The profile `proxy`.

//! The profile `crew`.

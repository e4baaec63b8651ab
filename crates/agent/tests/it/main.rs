//! Whole turns: a model, real or fake, in front of a real gate.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "tests arrange files by hand and fail by panicking"
)]

// Fixtures.
mod fake_model;
mod event_log;
mod fixture;

// Tests.
mod turns;
mod bounds;
mod retries;
mod context;
mod violations;
mod wires;
mod concurrency;

//! Text of a model as a terminal shows it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::string_slice, reason = "tests fail by panicking")]

mod fixture;
mod hostile;
mod markdown;

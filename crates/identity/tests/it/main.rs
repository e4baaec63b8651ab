//! The verifier from the outside: what it accepts, what it rejects, and what it fetches.

#![allow(clippy::disallowed_methods, reason = "tests arrange files by hand")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic: that is how they fail")]
#![allow(clippy::indexing_slicing, clippy::string_slice, reason = "tests may panic: that is how they fail")]

mod fixture;
mod server;

mod tokens;
mod mutation;
mod claim_times;
mod confusion;
mod setup;
mod minting;
mod fetching;
mod single_flight;

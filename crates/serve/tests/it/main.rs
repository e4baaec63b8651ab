//! The doors as clients meet them, good ones and bad ones.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests arrange files by hand, cut what they know, and fail by panicking"
)]

mod http_world;
mod http_names;
mod http_tokens;
mod http_sessions;
mod http_refusals;
mod http_callers;
mod http_bounds;
mod http_load;
mod http_closing;
mod stdio_world;
mod framing;
mod serving;
mod declared;
mod approvals;
mod at_once;
mod resources;
mod resource_bounds;

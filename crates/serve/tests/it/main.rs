//! The front ends as clients meet them, well-behaved and hostile ones.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests arrange files by hand, cut what they know, and fail by panicking"
)]

mod http_fixture;
mod http_host_check;
mod http_tokens;
mod http_sessions;
mod http_rejections;
mod http_callers;
mod http_limits;
mod http_load;
mod http_shutdown;
mod stdio_fixture;
mod framing;
mod stdio_session;
mod output_schemas;
mod approvals;
mod concurrent_calls;
mod resources;
mod resource_limits;

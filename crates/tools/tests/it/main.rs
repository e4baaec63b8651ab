//! What the profiles say, held against the pages that describe them.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod codes;
mod deny_list;
mod page;
mod profiles;

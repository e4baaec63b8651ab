//! What the profiles say, held against the pages that describe them; and what manifests become.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests arrange files by hand and fail by panicking"
)]

mod browsed;
mod codes;
mod deny_list;
mod lasting;
mod manifests;
mod page;
mod profiles;
mod reads;
mod setting;
mod web_search;

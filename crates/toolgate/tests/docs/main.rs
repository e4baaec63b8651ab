//! Compares the documentation with the program.
//!
//! Every `console` block of `README.md` and `docs/*.md` is run, page by page, and what it prints is compared
//! with what the page shows. `TOOLGATE_DOCS=update cargo test -p toolgate --test docs` writes the real output
//! into the pages; read the difference before you commit it.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests read the pages, arrange files by hand, start the program, and fail by panicking"
)]

mod page;
mod volatile;
mod scratch;
mod examples;
mod coverage;
mod references;
mod snapshots;

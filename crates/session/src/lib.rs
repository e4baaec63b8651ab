//! Conversations as they are kept: whole messages in an embedded database, in order, each on disk before anything follows from it.
//!
//! A conversation that was cut off in the middle of a call opens with that call answered as interrupted, once. One process at a time holds a
//! conversation. What this crate refuses to know: models, tools, and what a message means.

//! Stored conversations: complete messages in an embedded database, in order, each on disk before anything follows from it.
//!
//! A [`SessionStore`] is one SQLite file. A [`Session`] is one conversation with an exclusive lock, also across processes, which ends with its
//! process. A model is shown [`Session::messages`]; a summary may replace the first of them ([`Session::replace_front`]), while a [`Transcript`]
//! always contains everything.
//!
//! Three guarantees hold even after `kill -9` or on a full disk: what was appended is there; nothing is there partially; no call has two results. A
//! call that was interrupted stays open ([`Session::unanswered`]) until a result is added.
//!
//! What this crate refuses to know: models, tools, and what a message means.

// Metadata and errors.
mod summary;
mod error;

// The order of messages, without I/O.
mod history;

// The disk.
mod private_dir;
mod session_lock;
mod schema;
mod database;

// The operations.
mod row;
mod load;
mod store;
mod retention;
mod session;
mod transcript;

pub use error::SessionError;
pub use retention::SessionBounds;
pub use session::Session;
pub use store::SessionStore;
pub use summary::{ListFilter, NewSession, SessionOwner, SessionSummary};
pub use transcript::{Transcript, TranscriptEntry};

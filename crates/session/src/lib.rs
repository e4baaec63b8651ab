//! Conversations as they are kept: whole messages in an embedded database, in order, each on disk before anything follows from it.
//!
//! A [`SessionStore`] is one SQLite file. A [`Session`] is one conversation that is held: by one holder at a time, also across processes, and the hold
//! ends with its process. What a model is shown is [`Session::messages`]; a shorter text may stand there for what came first
//! ([`Session::replace_front`]), while a [`Transcript`] always tells everything.
//!
//! Three sentences hold whatever happens, `kill -9` and a full disk included: what was appended is there; nothing is there by halves; no call has
//! two results. A call that was cut off stays open ([`Session::unanswered`]) until somebody says what became of it.
//!
//! What this crate refuses to know: models, tools, and what a message means.

// What is kept of a conversation beside its messages.
mod summary;
mod error;

// The order of messages, without a disk.
mod history;

// The disk.
mod private_dir;
mod session_lock;
mod schema;
mod database;

// What is done with it.
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
pub use summary::{ListFilter, NewSession, SessionSummary};
pub use transcript::{Transcript, TranscriptEntry};

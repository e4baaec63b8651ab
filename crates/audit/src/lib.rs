//! The audit log: append-only, one record per call, hash-chained, with signed checkpoints.
//!
//! It lets an operator, or an outsider with the public key, find out what was done and verify that the account was not changed. It owns the audit
//! directory and nothing else. It decides nothing: whether a call may continue when its record cannot be written is up to the gate. It never sees
//! arguments or output, only their digests. It is synchronous and needs no runtime; a [`Ticket`] can be awaited on any.
//!
//! ```
//! # use toolgate_audit::{AuditLog, LogOptions, RecordFilter, query_records, verify, VerifyOptions, AuditEntry};
//! # use toolgate_types::{CallId, Caller, Sha256, StateKey, ToolClass, Trust};
//! # let scratch = tempfile::tempdir()?;
//! # let directory = scratch.path().join("audit");
//! # let caller = Caller { subject: "alice".into(), permissions: Default::default(), agent: None,
//! #     session: "s1".parse()?, run: None, trust: Trust::Guided };
//! let (log, _recovered) = AuditLog::open(LogOptions::new(&directory), &StateKey::new([7; 32]))?;
//! let ticket = log.append(&AuditEntry {
//!     call: CallId::fresh(),
//!     client_call_id: None,
//!     caller: &caller,
//!     tool: "read_file",
//!     class: Some(ToolClass::Read),
//!     version: None,
//!     args_hash: Sha256::of(b"{}"),
//!     changed_from: None,
//!     escalation: &[],
//!     repairs: &[],
//!     grant: None,
//!     denial: None,
//!     response: None,
//!     details: None,
//!     flow: None,
//!     duration: std::time::Duration::from_micros(1234),
//!     waited: std::time::Duration::ZERO,
//! })?;
//! ticket.wait()?;
//! log.close()?;
//!
//! assert!(verify(&directory, &VerifyOptions::default())?.problem.is_none());
//! let newest = query_records(&directory, RecordFilter::default())?.next().unwrap()?;
//! assert_eq!((newest.seq, newest.tool.name.as_str()), (1, "read_file"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod error;
pub mod entry;
pub mod details;
mod digest;
mod truncate;
pub mod record;
mod record_body;
mod line;
mod day;
mod directory;
mod reverse_lines;
mod line_reader;
mod preallocation;
mod writer;
mod dirty_files;
mod group_commit;
mod ticket;
mod write_group;
mod intents;
mod missed_calls;
mod recovery;
mod gap_tracker;
mod checkpoint_key;
mod details_key;
mod checkpoint;
mod signed_head;
mod log;
pub mod verify;
mod query;
mod follower;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use checkpoint::Checkpoint;
pub use checkpoint_key::{InvalidPublicKey, PublicKey, public_key_path};
pub use day::{Day, InvalidDay};
pub use details::CallDetails;
pub use details_key::DetailsKey;
pub use digest::{args_digest, output_digest};
pub use entry::{AuditEntry, Denial, Intent, ResponseSummary};
pub use error::{AuditError, AuditWarning};
pub use follower::Follower;
pub use log::{AuditLog, ChangeFateLookup, Clock, LogOptions, WarningSink};
pub use query::{RecordFilter, RecordIter, query_records, tail};
pub use record::{Record, RecordedFlow};
pub use recovery::{AuditRecovery, kept_aside};
pub use ticket::Ticket;
pub use verify::{
    CallGap, ChainStart, IntegrityProblem, IntegrityProblemKind, VerifyNote, VerifyOptions, VerifyReport,
    verify,
};
pub use write_group::GroupedWrite;

/// Locks, ignoring poisoning: the guarded state is checked against the disk before it is used.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

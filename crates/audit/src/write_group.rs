//! Records of calls that end together, appended with one lock of the directory and one write.
//!
//! Of a plain read through the gate, half of the system calls are those of its record. A connection that has many requests at hand polls each of them
//! once, and then again: by then their records are in one group, which the first of them writes.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use toolgate_types::CallId;

use crate::log::LogInner;
use crate::{AuditError, lock};

/// The records of a full group are not joined by more.
const MAX_RECORDS: usize = 64;

/// The group that records can join.
#[derive(Default)]
pub(crate) struct WriteGroups {
    open: Mutex<Arc<WriteGroup>>,
}

/// Some records, until they are written together.
pub(crate) struct WriteGroup(Mutex<GroupState>);

enum GroupState {
    Waiting(Vec<GroupedRecord>),
    /// Written, or not.
    Ended(Result<(), AuditError>),
}

/// A record without its position in the chain.
pub(crate) struct GroupedRecord {
    pub(crate) call: CallId,
    pub(crate) body: Vec<u8>,
}

impl Default for WriteGroup {
    fn default() -> Self {
        Self(Mutex::new(GroupState::Waiting(Vec::new())))
    }
}

impl WriteGroups {
    /// Adds a record to the open group.
    pub(crate) fn join(&self, record: GroupedRecord) -> Arc<WriteGroup> {
        let mut open = lock(&self.open);
        if let Some(record) = open.try_join(record) {
            *open = Arc::new(WriteGroup(Mutex::new(GroupState::Waiting(vec![record]))));
        }
        Arc::clone(&open)
    }

    /// Writes the records whose calls have not been polled again.
    pub(crate) fn close(&self, log: &Arc<LogInner>) -> Result<(), AuditError> {
        let open = Arc::clone(&lock(&self.open));
        open.write(log)
    }
}

impl WriteGroup {
    /// Returns the record if the group is full or has ended.
    fn try_join(&self, record: GroupedRecord) -> Option<GroupedRecord> {
        match &mut *lock(&self.0) {
            GroupState::Waiting(records) if records.len() < MAX_RECORDS => {
                records.push(record);
                None
            }
            GroupState::Waiting(_) | GroupState::Ended(_) => Some(record),
        }
    }

    /// Writes the group, unless another call did. Its lock is held for as long, so that all learn the result.
    fn write(&self, log: &Arc<LogInner>) -> Result<(), AuditError> {
        let mut state = lock(&self.0);
        match &mut *state {
            GroupState::Ended(result) => result.clone(),
            GroupState::Waiting(records) if records.is_empty() => Ok(()),
            GroupState::Waiting(records) => {
                let result = log.append_group(&std::mem::take(records));
                *state = GroupState::Ended(result.clone());
                result
            }
        }
    }
}

/// Resolves when the record is written: as durable as that of [`AuditLog::append`](crate::AuditLog::append), so it survives a crash of this process.
/// Dropping it writes the record too.
#[must_use = "the record is written when this is awaited or dropped"]
pub struct GroupedWrite {
    shared: Arc<LogInner>,
    group: Arc<WriteGroup>,
    was_polled: bool,
    has_ended: bool,
}

impl GroupedWrite {
    pub(crate) fn new(shared: Arc<LogInner>, group: Arc<WriteGroup>) -> Self {
        Self { shared, group, was_polled: false, has_ended: false }
    }

    fn write(&mut self) -> Result<(), AuditError> {
        self.has_ended = true;
        self.group.write(&self.shared)
    }
}

impl Future for GroupedWrite {
    type Output = Result<(), AuditError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if !std::mem::replace(&mut self.was_polled, true) {
            // What else is ready on this thread may join.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(self.write())
    }
}

impl Drop for GroupedWrite {
    fn drop(&mut self) {
        if !self.has_ended
            && let Err(error) = self.write()
        {
            self.shared.report_not_written(error);
        }
    }
}

impl std::fmt::Debug for GroupedWrite {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("GroupedWrite").field("has_ended", &self.has_ended).finish_non_exhaustive()
    }
}

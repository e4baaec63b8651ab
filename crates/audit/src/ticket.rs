//! Tickets: a handle to wait until a write is durable.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::AuditError;
use crate::group_commit::{GroupCommit, WakerRegistration};
use crate::log::LogInner;

/// What a ticket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TicketKind {
    /// A record that is written.
    Record,
    /// A queued record that a group-commit round will write.
    Queued,
    /// An intent that is written.
    Intent,
}

/// Settled when the write is on disk (fsync). A thread calls [`Ticket::wait`], a task awaits it. Dropping it does not drop the record.
pub struct Ticket {
    shared: Arc<LogInner>,
    kind: TicketKind,
    number: u64,
    waker_registered: bool,
}

impl Ticket {
    pub(crate) fn new(shared: Arc<LogInner>, kind: TicketKind, number: u64) -> Self {
        Self { shared, kind, number, waker_registered: false }
    }

    fn commit(&self) -> &GroupCommit {
        self.shared.commit_for(self.kind)
    }

    /// Makes the worker thread start the sync now, without waiting. [`Ticket::wait`] alone starts it only when called.
    pub fn start_sync(&self) {
        if !self.commit().request_sync(self.number) {
            self.shared.ensure_worker(self.kind);
        }
    }

    /// Blocks until it is on disk.
    ///
    /// # Errors
    /// When the sync failed.
    pub fn wait(self) -> Result<(), AuditError> {
        self.commit().wait(self.number, &*self.shared)
    }

    /// Whether it is on disk.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        matches!(self.commit().settled(self.number), Some(Ok(())))
    }
}

impl Future for Ticket {
    type Output = Result<(), AuditError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let again = std::mem::replace(&mut self.waker_registered, true);
        match self.commit().register_waker(self.number, context.waker(), again) {
            WakerRegistration::Settled(result) => Poll::Ready(result),
            WakerRegistration::Registered => Poll::Pending,
            WakerRegistration::NoWorker => {
                self.shared.ensure_worker(self.kind);
                Poll::Pending
            }
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // Only queued records keep per-ticket state.
        if self.kind == TicketKind::Queued {
            self.commit().release_ticket(self.number);
        }
    }
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Ticket")
            .field("number", &self.number)
            .field("durable", &self.is_durable())
            .finish()
    }
}

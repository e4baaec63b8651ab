//! The promise that something written will last.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::AuditError;
use crate::commit::Enlisted;
use crate::log::Shared;

/// Settled when what was written is on the disk. A thread waits with [`Ticket::wait`], a task by awaiting it;
/// whoever needs neither drops it, and the record is kept all the same.
pub struct Ticket {
    shared: Arc<Shared>,
    number: u64,
    enlisted: bool,
}

impl Ticket {
    pub(crate) fn new(shared: Arc<Shared>, number: u64) -> Self {
        Self { shared, number, enlisted: false }
    }

    /// Blocks until it is on the disk.
    ///
    /// # Errors
    /// When the disk did not confirm it.
    pub fn wait(self) -> Result<(), AuditError> {
        self.shared.commit.wait(self.number, &*self.shared)
    }

    /// Whether it is on the disk already.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        matches!(self.shared.commit.settled(self.number), Some(Ok(())))
    }
}

impl Future for Ticket {
    type Output = Result<(), AuditError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let again = std::mem::replace(&mut self.enlisted, true);
        match self.shared.commit.enlist(self.number, context.waker(), again) {
            Enlisted::Settled(result) => Poll::Ready(result),
            Enlisted::Waiting => Poll::Pending,
            Enlisted::NobodyWorks => {
                self.shared.ensure_worker();
                Poll::Pending
            }
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.shared.commit.forget(self.number);
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

//! A client's place in a conversation.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::watch;

use super::event_log::{EventFrame, LogRead};
use super::live_conversation::LiveConversation;

/// About how much a reader gets at a time.
const MAX_BATCH_BYTES: usize = 16 << 10;

/// What a reader gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The next events.
    Events(Vec<EventFrame>),
    /// Events were missed that are no longer there: the stored messages have what they said. The subscription is of no further use.
    Reset {
        /// The last number that was given.
        seq: u64,
        /// The events after this number are not among the stored messages, or are the oldest that are left: a client that goes on from here, and ignores
        /// what the messages have, misses nothing that can still be had.
        resume: u64,
    },
    /// The conversation was deleted.
    Deleted,
}

/// A client's place in a conversation. Nothing is queued for it: it reads from the log when it can, so that a slow client costs no memory.
pub struct Subscription {
    conversation: Arc<LiveConversation>,
    changed: watch::Receiver<u64>,
    after: u64,
    /// Open questions that the client may have seen before, and gets again.
    again: VecDeque<EventFrame>,
}

impl Subscription {
    pub(crate) fn new(conversation: Arc<LiveConversation>, after: u64, open: Vec<EventFrame>) -> Self {
        let changed = conversation.watch();
        let is_old = |frame: &EventFrame| after != 0 && frame.seq <= after;
        let again = open.into_iter().filter(is_old).collect();
        Self { conversation, changed, after, again }
    }

    /// The next events, as soon as there are some.
    pub async fn next(&mut self) -> Delivery {
        loop {
            // Marked as seen before the log is read, so that nothing that comes later is missed.
            self.changed.borrow_and_update();
            match self.conversation.read(self.after, MAX_BATCH_BYTES) {
                None => return Delivery::Deleted,
                Some(LogRead::Gap) => {
                    let (seq, resume) = self.conversation.reset_point();
                    return Delivery::Reset { seq, resume };
                }
                Some(LogRead::Frames(frames)) => {
                    let mut all: Vec<EventFrame> = self.again.drain(..).collect();
                    if let Some(last) = frames.last() {
                        self.after = last.seq;
                    }
                    all.extend(frames);
                    if !all.is_empty() {
                        return Delivery::Events(all);
                    }
                }
            }
            // The sender lives as long as the conversation that is held here.
            if self.changed.changed().await.is_err() {
                return Delivery::Deleted;
            }
        }
    }

    /// The last number of the log.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        self.conversation.last_seq()
    }

    /// Whether a turn runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.conversation.is_running()
    }
}

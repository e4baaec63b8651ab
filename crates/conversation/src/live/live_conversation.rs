//! One conversation in memory: its log, its running turn, its agent.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use toolgate_agent::ChatEvent;
use toolgate_session::{SessionStore, TranscriptEntry};
use toolgate_types::SessionId;

use super::error::ConversationError;
use super::event::LiveEvent;
use super::event_log::{EventFrame, EventLog, LogRead};
use crate::agent_source::ReadyAgent;

/// How often stored messages are read again because something happened in between.
const MAX_SNAPSHOT_ATTEMPTS: u32 = 8;

/// One conversation in memory.
pub(crate) struct LiveConversation {
    pub(crate) id: SessionId,
    state: Mutex<LiveState>,
    /// The last number of the log, for readers that wait.
    changed: watch::Sender<u64>,
    /// The agent of the last turn, with its model.
    pub(crate) agent: tokio::sync::Mutex<Option<CachedAgent>>,
}

/// An agent, and the name of the model that was asked for.
pub(crate) struct CachedAgent {
    pub(crate) model: String,
    pub(crate) ready: Arc<ReadyAgent>,
}

struct LiveState {
    log: EventLog,
    turn: Option<RunningTurn>,
    is_deleted: bool,
}

struct RunningTurn {
    cancelled: CancellationToken,
    /// The log before the turn, and the position of its first message. Absent while the turn is being prepared.
    start: Option<TurnStart>,
}

#[derive(Clone, Copy)]
struct TurnStart {
    seq: u64,
    position: u64,
}

/// What was said before the running turn, and where its events begin.
#[derive(Clone, Debug)]
pub struct MessageSnapshot {
    /// The stored entries.
    pub entries: Vec<TranscriptEntry>,
    /// The events after this number are not in the entries.
    pub seq: u64,
    /// Whether a turn runs.
    pub running: bool,
}

impl LiveConversation {
    pub(crate) fn new(id: SessionId, base: u64) -> Self {
        let state = LiveState { log: EventLog::after(base), turn: None, is_deleted: false };
        Self {
            id,
            state: Mutex::new(state),
            changed: watch::Sender::new(base),
            agent: tokio::sync::Mutex::new(None),
        }
    }

    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// How many readers are subscribed.
    pub(crate) fn readers(&self) -> usize {
        self.changed.receiver_count()
    }

    pub(crate) fn last_seq(&self) -> u64 {
        self.lock().log.last()
    }

    /// The last number that was given, and the one after which a client goes on that missed events.
    pub(crate) fn reset_point(&self) -> (u64, u64) {
        let state = self.lock();
        let last = state.log.last();
        let start = state.turn.as_ref().and_then(|turn| turn.start);
        (last, start.map_or(last, |start| start.seq.max(state.log.floor())))
    }

    pub(crate) fn is_running(&self) -> bool {
        self.lock().turn.is_some()
    }

    /// What a reader gets; `None` if the conversation was deleted.
    pub(crate) fn read(&self, after: u64, max_bytes: usize) -> Option<LogRead> {
        let state = self.lock();
        (!state.is_deleted).then(|| state.log.read(after, max_bytes))
    }

    pub(crate) fn push(&self, event: ChatEvent) -> EventFrame {
        self.add(|log| log.push(event))
    }

    pub(crate) fn push_event(&self, event: &impl Serialize) -> EventFrame {
        self.add(|log| log.push_event(event))
    }

    fn add(&self, add: impl FnOnce(&mut EventLog) -> EventFrame) -> EventFrame {
        let frame = add(&mut self.lock().log);
        self.changed.send_replace(frame.seq);
        frame
    }

    /// Reserves the conversation for a turn.
    pub(crate) fn reserve_turn(&self, cancelled: CancellationToken) -> Result<(), ConversationError> {
        let mut state = self.lock();
        match state.turn {
            Some(_) => Err(ConversationError::Busy),
            None if state.is_deleted => Err(ConversationError::Unknown(self.id.clone())),
            None => {
                state.turn = Some(RunningTurn { cancelled, start: None });
                Ok(())
            }
        }
    }

    /// Begins the reserved turn with the message that was sent.
    pub(crate) fn begin_turn(&self, position: u64, message: &LiveEvent) {
        let mut state = self.lock();
        let seq = state.log.last();
        if let Some(turn) = &mut state.turn {
            turn.start = Some(TurnStart { seq, position });
        }
        state.log.set_running(true);
        let frame = state.log.push_event(message);
        drop(state);
        self.changed.send_replace(frame.seq);
    }

    /// Ends the turn, with its last event: when readers see it, the next message can be sent.
    pub(crate) fn end_turn(&self, end: Option<ChatEvent>) {
        let mut state = self.lock();
        state.turn = None;
        if let Some(end) = end {
            state.log.push(end);
        }
        state.log.set_running(false);
        let last = state.log.last();
        drop(state);
        self.changed.send_replace(last);
    }

    /// Cancels the running turn, if there is one.
    pub(crate) fn cancel(&self) -> bool {
        let state = self.lock();
        state.turn.as_ref().inspect(|turn| turn.cancelled.cancel()).is_some()
    }

    /// Marks it as deleted, unless a turn runs.
    pub(crate) fn mark_deleted(&self) -> Result<(), ConversationError> {
        let mut state = self.lock();
        if state.turn.is_some() {
            return Err(ConversationError::Busy);
        }
        state.is_deleted = true;
        let last = state.log.last();
        drop(state);
        self.changed.send_replace(last);
        Ok(())
    }

    /// The deletion failed after all.
    pub(crate) fn unmark_deleted(&self) {
        self.lock().is_deleted = false;
    }

    /// What is stored, and the number from which on events add to it.
    pub(crate) async fn snapshot(&self, store: &SessionStore) -> Result<MessageSnapshot, ConversationError> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let before = self.position();
            let transcript = store.transcript(&self.id).await?;
            let (seq, running, start) = self.position();
            let is_settled = (seq, running) == (before.0, before.1);
            if start.is_none() && !is_settled && attempt < MAX_SNAPSHOT_ATTEMPTS {
                // A turn began or ended while the messages were read.
                continue;
            }
            let position = start.map_or(u64::MAX, |start| start.position);
            let is_before = |entry: &TranscriptEntry| match entry {
                TranscriptEntry::Message { position: at, .. }
                | TranscriptEntry::PartialResults { position: at, .. } => *at < position,
                TranscriptEntry::Front { .. } => true,
            };
            let entries = transcript.entries.into_iter().filter(is_before).collect();
            return Ok(MessageSnapshot { entries, seq: start.map_or(seq, |start| start.seq), running });
        }
    }

    /// The last number, whether a turn runs, and where it started.
    fn position(&self) -> (u64, bool, Option<TurnStart>) {
        let state = self.lock();
        let start = state.turn.as_ref().and_then(|turn| turn.start);
        (state.log.last(), state.turn.is_some(), start)
    }

    fn lock(&self) -> MutexGuard<'_, LiveState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

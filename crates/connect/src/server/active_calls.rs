//! The calls in flight on one connection, for messages of the server that name no call.
//!
//! In the session protocol neither a question nor a log message says which call it is about. It is only certain while one call is in
//! flight: then it belongs to that one. Otherwise it belongs to none, because it could reach the person or the client of another caller.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use toolgate_gate::{CallContext, CallElicitor, LogMessage, LogSeverity, LogSink, SessionCaller};

use super::locked;
use crate::definition::truncate;

/// A call that was given up may still be worked on. For this long, what the server says may be about it.
const ABANDONED_TIMEOUT: Duration = Duration::from_secs(30);

/// More log messages of one call are dropped.
const MAX_LOG_MESSAGES: u32 = 200;

/// The longest log message.
const MAX_LOG_BYTES: usize = 2_048;

/// The longest name of a logger.
const MAX_LOGGER_BYTES: usize = 100;

/// The calls of one connection.
#[derive(Default)]
pub(crate) struct ActiveCalls(Mutex<CallTable>);

#[derive(Default)]
struct CallTable {
    next: u64,
    calls: BTreeMap<u64, ActiveCall>,
}

struct ActiveCall {
    identity: SessionCaller,
    elicitor: Option<CallElicitor>,
    log: Option<LogSink>,
    logged: u32,
    /// Cancelled when the call ends: its questions are withdrawn.
    ended: CancellationToken,
    abandoned: Option<Instant>,
}

/// The person of a call, until it ends.
pub(crate) struct ActiveElicitor {
    pub(crate) elicitor: CallElicitor,
    pub(crate) ended: CancellationToken,
}

impl ActiveCalls {
    /// Counts a call until the guard is dropped.
    pub(crate) fn begin(self: &Arc<Self>, context: &CallContext) -> ActiveCallGuard {
        let call = ActiveCall {
            identity: context.identity(),
            elicitor: context.elicitor.clone(),
            log: context.log.clone(),
            logged: 0,
            ended: CancellationToken::new(),
            abandoned: None,
        };
        let mut table = locked(&self.0);
        table.forget_old(Instant::now());
        let id = table.next;
        table.next += 1;
        table.calls.insert(id, call);
        ActiveCallGuard { calls: Arc::clone(self), id }
    }

    /// The server has answered this call. Known where its answer arrives, so that what follows it is not taken for a part of the call.
    pub(crate) fn end(&self, call: ActiveCallId) {
        if let Some(call) = locked(&self.0).calls.remove(&call.0) {
            call.ended.cancel();
        }
    }

    /// The person of the only call that a question can be about.
    pub(crate) fn only_elicitor(&self) -> Option<ActiveElicitor> {
        let mut table = locked(&self.0);
        let call = table.only(Instant::now())?;
        Some(ActiveElicitor { elicitor: call.elicitor.clone()?, ended: call.ended.clone() })
    }

    /// Passes a log message on to the only call that it can be about; returns whether it was wanted.
    pub(crate) fn log(&self, server: &str, level: LogSeverity, logger: Option<&str>, text: &str) -> bool {
        let (sink, logger) = {
            let mut table = locked(&self.0);
            let Some(call) = table.only(Instant::now()) else { return false };
            let Some(sink) = call.log.clone().filter(|sink| level >= sink.level) else { return false };
            call.logged += 1;
            if call.logged > MAX_LOG_MESSAGES {
                return false;
            }
            let logger = logger
                .map(|name| toolgate_text::sanitize(&truncate(name, MAX_LOGGER_BYTES)).replace('\n', " "));
            (sink, logger.map_or_else(|| server.to_owned(), |name| format!("{server}/{name}")))
        };
        let text = toolgate_text::sanitize(&truncate(text, MAX_LOG_BYTES));
        (sink.sink)(LogMessage { level, logger: &logger, text: &text });
        true
    }
}

impl CallTable {
    fn forget_old(&mut self, now: Instant) {
        self.calls.retain(|_, call| {
            call.abandoned.is_none_or(|since| now.saturating_duration_since(since) < ABANDONED_TIMEOUT)
        });
    }

    /// The only call in flight, unless one of another caller was given up just before.
    fn only(&mut self, now: Instant) -> Option<&mut ActiveCall> {
        self.forget_old(now);
        let mut in_flight = self.calls.iter().filter(|(_, call)| call.abandoned.is_none());
        let (id, only) = in_flight.next().map(|(id, call)| (*id, call.identity.clone()))?;
        let is_alone = in_flight.next().is_none() && self.calls.values().all(|call| call.identity == only);
        if is_alone { self.calls.get_mut(&id) } else { None }
    }
}

/// A call in flight.
pub(crate) struct ActiveCallGuard {
    calls: Arc<ActiveCalls>,
    id: u64,
}

/// A request extension: the call that ends with the answer.
#[derive(Clone, Copy)]
pub(crate) struct ActiveCallId(u64);

impl ActiveCallGuard {
    /// Goes with the request.
    pub(crate) fn id(&self) -> ActiveCallId {
        ActiveCallId(self.id)
    }
}

impl Drop for ActiveCallGuard {
    fn drop(&mut self) {
        let mut table = locked(&self.calls.0);
        if let Some(call) = table.calls.get_mut(&self.id) {
            call.abandoned = Some(Instant::now());
            (call.elicitor, call.log) = (None, None);
            call.ended.cancel();
        }
    }
}

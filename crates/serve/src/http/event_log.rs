//! The events of a session's streams, so that a client that lost a stream can resume it with `Last-Event-ID`.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use serde::Serialize;
use tokio::sync::mpsc;

/// The newest events that are kept for a client that resumes a stream.
const MAX_KEPT_EVENTS: usize = 64;

/// Their bytes. A longer event is sent, but cannot be sent again.
const MAX_KEPT_BYTES: usize = 256 * 1024;

/// Events that a reader has not taken yet. The sender waits for it (backpressure).
const READER_CAPACITY: usize = 16;

/// Readers of one stream. The first gets the events; the others wait for it to leave, which keeps clients from displacing each other for ever.
const MAX_READERS: usize = 32;

/// How long a client should wait before it resumes a stream, in milliseconds.
const RETRY_MS: u64 = 3000;

/// The events of all streams of one session.
#[derive(Debug, Default)]
pub(crate) struct ReplayLog(Mutex<LogState>);

#[derive(Debug, Default)]
struct LogState {
    last_stream: u64,
    streams: HashMap<u64, StreamState>,
    kept: VecDeque<KeptEvent>,
    kept_bytes: usize,
    is_closed: bool,
}

#[derive(Debug, Default)]
struct StreamState {
    last_event: u64,
    /// The last event that a reader took.
    delivered: u64,
    readers: Vec<mpsc::Sender<Bytes>>,
}

#[derive(Debug)]
struct KeptEvent {
    stream: u64,
    event: u64,
    frame: Bytes,
}

/// The frame of an event.
pub(crate) fn frame(id: Option<(u64, u64)>, message: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(message.len() + 48);
    if let Some((stream, event)) = id {
        frame.extend_from_slice(format!("id: {stream}/{event}\n").as_bytes());
    }
    frame.extend_from_slice(b"data: ");
    frame.extend_from_slice(message);
    frame.extend_from_slice(b"\n\n");
    frame
}

impl ReplayLog {
    /// The stream that a client opens with GET, for what concerns no single request.
    pub(crate) const STANDALONE: u64 = 0;

    /// Begins the stream of a request.
    pub(crate) fn open_stream(&self) -> u64 {
        let mut log = self.lock();
        log.last_stream += 1;
        let stream = log.last_stream;
        log.streams.insert(stream, StreamState::default());
        stream
    }

    /// A reader of a stream, from what no reader took yet, or from after an event; `None` if there is no such stream or event any more. Without an event,
    /// its first one names the stream, and says when to resume it.
    pub(crate) fn read(&self, stream: u64, after: Option<u64>) -> Option<mpsc::Receiver<Bytes>> {
        let mut log = self.lock();
        if log.is_closed {
            return None;
        }
        let known = log.streams.contains_key(&stream) || stream == Self::STANDALONE;
        let delivered = log.streams.get(&stream).map_or(0, |state| state.delivered);
        let since =
            |after: u64| log.kept.iter().filter(move |kept| kept.stream == stream && kept.event > after);
        let missed: Vec<Bytes> = match after {
            None => since(delivered).map(|kept| kept.frame.clone()).collect(),
            Some(after) => {
                let missed: Vec<&KeptEvent> = since(after).collect();
                let last = log.streams.get(&stream).map(|state| state.last_event);
                let first = missed.first().map(|kept| kept.event);
                // A gap is not passed over: what is gone cannot be resumed.
                if first.is_some_and(|first| first != after + 1)
                    || (first.is_none() && last.is_some_and(|last| last > after))
                {
                    return None;
                }
                missed.into_iter().map(|kept| kept.frame.clone()).collect()
            }
        };
        if !known && missed.is_empty() {
            return None;
        }
        let (sender, receiver) = mpsc::channel(READER_CAPACITY + missed.len() + 1);
        if after.is_none() {
            let _ = sender.try_send(format!("id: {stream}/{delivered}\nretry: {RETRY_MS}\ndata:\n\n").into());
        }
        for frame in missed {
            let _ = sender.try_send(frame);
        }
        // A stream that is over ends after what was missed.
        if known {
            let state = log.streams.entry(stream).or_default();
            state.readers.retain(|reader| !reader.is_closed());
            // A client that resumes the stream of a request has lost its connection, which may look open for a while.
            if stream != Self::STANDALONE && after.is_some() {
                state.readers.clear();
            }
            if state.readers.len() < MAX_READERS {
                state.delivered = state.last_event;
                state.readers.push(sender);
            }
        }
        Some(receiver)
    }

    /// Sends a message to the reader of a stream, and keeps it for one that comes later.
    pub(crate) async fn send(&self, stream: u64, message: &impl Serialize) {
        if let Ok(message) = serde_json::to_vec(message) {
            self.send_bytes(stream, &message, |frame| frame.into()).await;
        }
    }

    /// The same for a message that is written already. `own` attaches what is held until the bytes are sent.
    pub(crate) async fn send_bytes(&self, stream: u64, message: &[u8], own: impl FnOnce(Vec<u8>) -> Bytes) {
        let (frame, readers, event) = {
            let mut log = self.lock();
            let state = log.streams.entry(stream).or_default();
            state.last_event += 1;
            let event = state.last_event;
            state.readers.retain(|reader| !reader.is_closed());
            let readers = state.readers.clone();
            let frame = frame(Some((stream, event)), message);
            // A copy: what is kept holds no permit of the memory for responses.
            if frame.len() <= MAX_KEPT_BYTES {
                log.keep(KeptEvent { stream, event, frame: Bytes::copy_from_slice(&frame) });
            }
            (own(frame), readers, event)
        };
        // One reader gets it: the first that has not left.
        for reader in readers {
            if reader.send(frame.clone()).await.is_ok() {
                if let Some(state) = self.lock().streams.get_mut(&stream) {
                    state.delivered = state.delivered.max(event);
                }
                return;
            }
        }
    }

    /// Ends the stream of a request. What is kept of it can still be resumed.
    pub(crate) fn end_stream(&self, stream: u64) {
        self.lock().streams.remove(&stream);
    }

    /// Ends all streams.
    pub(crate) fn close(&self) {
        let mut log = self.lock();
        log.is_closed = true;
        log.streams.clear();
        log.kept.clear();
    }

    fn lock(&self) -> MutexGuard<'_, LogState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogState {
    fn keep(&mut self, kept: KeptEvent) {
        if self.is_closed {
            return;
        }
        self.kept_bytes += kept.frame.len();
        self.kept.push_back(kept);
        while self.kept.len() > MAX_KEPT_EVENTS || self.kept_bytes > MAX_KEPT_BYTES {
            let Some(oldest) = self.kept.pop_front() else { break };
            self.kept_bytes -= oldest.frame.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(reader: &mut mpsc::Receiver<Bytes>) -> Vec<String> {
        std::iter::from_fn(|| reader.try_recv().ok())
            .map(|frame| String::from_utf8(frame.to_vec()).unwrap())
            .collect()
    }

    #[tokio::test]
    async fn a_stream_is_resumed_after_the_event_that_was_read_last() {
        let log = ReplayLog::default();
        let stream = log.open_stream();
        let mut first = log.read(stream, None).unwrap();
        for number in 1..=3 {
            log.send(stream, &json!(number)).await;
        }
        assert_eq!(
            texts(&mut first)[1..],
            ["id: 1/1\ndata: 1\n\n", "id: 1/2\ndata: 2\n\n", "id: 1/3\ndata: 3\n\n"]
        );
        drop(first);
        log.send(stream, &json!(4)).await;
        log.end_stream(stream);
        // Also after its end, and then it ends immediately.
        let mut resumed = log.read(stream, Some(2)).unwrap();
        assert_eq!(texts(&mut resumed), ["id: 1/3\ndata: 3\n\n", "id: 1/4\ndata: 4\n\n"]);
        assert!(resumed.is_closed());
        assert!(log.read(stream, Some(4)).is_none(), "there is nothing more");
        assert!(log.read(7, None).is_none() && log.read(7, Some(0)).is_none(), "there is no such stream");
        // Streams do not mix.
        assert!(texts(&mut log.read(ReplayLog::STANDALONE, Some(0)).unwrap()).is_empty());
    }

    #[tokio::test]
    async fn what_was_dropped_is_not_passed_over() {
        let log = ReplayLog::default();
        let stream = log.open_stream();
        for number in 0..2 * MAX_KEPT_EVENTS {
            log.send(stream, &json!(number)).await;
        }
        assert!(log.read(stream, Some(3)).is_none());
        let resumed = texts(&mut log.read(stream, Some(MAX_KEPT_EVENTS as u64)).unwrap());
        assert_eq!(resumed.len(), MAX_KEPT_EVENTS);
        log.send(stream, &json!("x".repeat(MAX_KEPT_BYTES))).await;
        assert!(log.read(stream, Some(2 * MAX_KEPT_EVENTS as u64)).is_none(), "it was too long to be kept");
        let state = log.lock();
        assert_eq!(state.kept_bytes, state.kept.iter().map(|kept| kept.frame.len()).sum::<usize>());
        assert!(state.kept.len() <= MAX_KEPT_EVENTS && state.kept_bytes <= MAX_KEPT_BYTES);
    }

    #[tokio::test]
    async fn what_was_sent_before_a_reader_came_is_read_first() {
        let log = ReplayLog::default();
        log.send(ReplayLog::STANDALONE, &json!("early")).await;
        let mut reader = log.read(ReplayLog::STANDALONE, None).unwrap();
        assert_eq!(texts(&mut reader)[1..], ["id: 0/1\ndata: \"early\"\n\n"]);
        drop(reader);
        let again = texts(&mut log.read(ReplayLog::STANDALONE, None).unwrap());
        assert_eq!(again.len(), 1, "it was read: {again:?}");
    }

    #[tokio::test]
    async fn a_resumed_stream_is_taken_over_from_a_half_open_connection() {
        let log = ReplayLog::default();
        let stream = log.open_stream();
        let mut lost = log.read(stream, None).unwrap();
        log.send(stream, &json!(1)).await;
        let mut resumed = log.read(stream, Some(0)).unwrap();
        log.send(stream, &json!(2)).await;
        assert_eq!(texts(&mut resumed), ["id: 1/1\ndata: 1\n\n", "id: 1/2\ndata: 2\n\n"]);
        assert_eq!(texts(&mut lost).len(), 2, "the first event and what names the stream");
    }

    #[tokio::test]
    async fn one_reader_gets_each_event_and_the_next_takes_over() {
        let log = ReplayLog::default();
        let mut first = log.read(ReplayLog::STANDALONE, None).unwrap();
        let mut second = log.read(ReplayLog::STANDALONE, None).unwrap();
        log.send(ReplayLog::STANDALONE, &json!("a")).await;
        assert_eq!((texts(&mut first).len(), texts(&mut second).len()), (2, 1));
        drop(first);
        log.send(ReplayLog::STANDALONE, &json!("b")).await;
        assert_eq!(texts(&mut second), ["id: 0/2\ndata: \"b\"\n\n"]);
        log.close();
        assert!(second.is_closed());
        assert!(log.read(ReplayLog::STANDALONE, None).is_none());
    }
}

//! Progress notifications while a call runs.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use tokio::time::Instant;
use toolgate_gate::{Fraction, Progress};
use toolgate_tools::{ProgressBuffer, ProgressChunk};

use crate::mcp::client_sink::ClientSink;

/// A silent call gets a heartbeat notification this often.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);

/// Maximum length of a message.
const MAX_MESSAGE_BYTES: usize = 4096;

/// Forwards a tool's output as progress notifications, with increasing numbers.
#[derive(Debug)]
pub(crate) struct ProgressNotifier {
    buffer: Arc<ProgressBuffer>,
    /// The last progress value that was sent.
    last_sent: Mutex<Option<f64>>,
}

impl ProgressNotifier {
    pub(crate) fn new() -> Self {
        Self { buffer: ProgressBuffer::with_limit(MAX_MESSAGE_BYTES), last_sent: Mutex::default() }
    }

    /// The sink for the tool.
    pub(crate) fn sink(&self) -> Progress {
        self.buffer.sink()
    }

    /// Forwards until the future is dropped.
    pub(crate) async fn forward(&self, client: &ClientSink, token: ProgressToken) {
        let begun = Instant::now();
        let mut last: Option<Instant> = None;
        loop {
            if tokio::time::timeout(HEARTBEAT_INTERVAL, self.buffer.changed()).await.is_ok() {
                if let Some(last) = last {
                    tokio::time::sleep_until(last + ProgressBuffer::FORWARD_INTERVAL).await;
                }
                self.flush(client, &token).await;
            } else {
                let message = format!("still running after {} s", begun.elapsed().as_secs());
                self.send(client, &token, message, None).await;
            }
            last = Some(Instant::now());
        }
    }

    /// Sends what is buffered.
    pub(crate) async fn flush(&self, client: &ClientSink, token: &ProgressToken) {
        if let Some(ProgressChunk { text: words, fraction: share }) = self.buffer.take() {
            self.send(client, token, words, share).await;
        }
    }

    async fn send(
        &self,
        client: &ClientSink,
        token: &ProgressToken,
        message: String,
        share: Option<Fraction>,
    ) {
        let progress = {
            let mut told = self.last_sent.lock().unwrap_or_else(PoisonError::into_inner);
            let next = after(*told, share);
            *told.insert(next)
        };
        let mut told = ProgressNotificationParam::new(token.clone(), progress).with_message(message);
        told.total = share.and_then(|share| share.total);
        // Fails only if the connection is closed; then the response is lost too.
        let _ = client.notify_of("notifications/progress", &told).await;
    }
}

/// The next progress value. MCP requires it to increase, whatever the tool reports.
fn after(last: Option<f64>, share: Option<Fraction>) -> f64 {
    match (last, share) {
        (None, Some(Fraction { done, .. })) => done,
        (None, None) => 1.0,
        (Some(last), Some(Fraction { done, .. })) if done > last => done,
        (Some(last), Some(_)) => last.next_up(),
        (Some(last), None) => (last + 1.0).max(last.next_up()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_tool_and_always_grow() {
        let of = |done: f64| Some(Fraction { done, total: Some(30.0) });
        for (last, share, next) in [
            (None, None, 1.0),
            (Some(1.0), None, 2.0),
            (None, of(0.0), 0.0),
            (Some(0.0), of(10.0), 10.0),
            (Some(10.0), of(20.0), 20.0),
            (Some(10.0), of(10.0), 10.0_f64.next_up()),
            (Some(10.0), of(-4.0), 10.0_f64.next_up()),
            (Some(1e300), None, 1e300_f64.next_up()),
        ] {
            assert_eq!(after(last, share), next, "{last:?} {share:?}");
            assert!(last.is_none_or(|last| next > last));
        }
    }
}

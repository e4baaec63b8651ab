//! Prints events on standard output from a thread of its own: a reader that blocks the pipe stops neither the timeouts nor Ctrl-C.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use tokio_util::sync::CancellationToken;
use toolgate_agent::{ChatEvent, EndReason, EventSink, SequencedEvent, sequenced};
use toolgate_llm::Usage;

use crate::commands::{SHUTDOWN_TIMEOUT, StdoutStatus, print};
use crate::exit::{CliError, INTERRUPTED, USAGE};
use crate::terminal::{escape_json, warn};

/// If the reader leaves more than this unread, the task is cancelled: the queue is held in memory.
const MAX_QUEUED_BYTES: usize = 64 * 1024 * 1024;

/// Whether any event was emitted. A turn that has started always emits its own end.
#[derive(Clone, Debug, Default)]
pub(super) struct StartedFlag(Arc<AtomicBool>);

impl StartedFlag {
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// A message to the printer thread.
enum PrinterMessage {
    Line(String),
    End,
}

pub(super) struct EventPrinter {
    lines: Sender<PrinterMessage>,
    /// The bytes that are not printed yet.
    queued_bytes: Arc<AtomicUsize>,
    /// Cancelled when the thread has ended.
    ended: CancellationToken,
}

impl EventPrinter {
    /// Starts the thread. It cancels `stop` when the reader closes standard output.
    pub(super) fn start(stop: &CancellationToken) -> Result<Self, CliError> {
        let (lines, told) = channel();
        let printer = Self { lines, queued_bytes: Arc::default(), ended: CancellationToken::new() };
        let (stop, waiting) = (stop.clone(), Arc::clone(&printer.queued_bytes));
        let at_the_end = printer.ended.clone().drop_guard();
        let work = move || {
            let _at_the_end = at_the_end;
            if !print_all(&told, &waiting) {
                stop.cancel();
            }
        };
        let unable = |error| CliError::error(format!("events cannot be printed: {error}"));
        std::thread::Builder::new().name("events".to_owned()).spawn(work).map_err(unable)?;
        Ok(printer)
    }

    pub(super) fn sink(&self, stop: CancellationToken, begun: StartedFlag) -> EventSink {
        let (lines, waiting) = (self.lines.clone(), Arc::clone(&self.queued_bytes));
        sequenced(move |event| {
            begun.0.store(true, Ordering::SeqCst);
            let line = line(&event);
            let before = waiting.fetch_add(line.len(), Ordering::SeqCst);
            if before > MAX_QUEUED_BYTES && !stop.is_cancelled() {
                warn("nobody reads the events; the task is stopped");
                stop.cancel();
            }
            // Fails only if the thread has ended, and then it has cancelled `stop` itself.
            let _ = lines.send(PrinterMessage::Line(line));
        })
    }

    /// Waits until everything is printed. After a cancellation it waits only for the shutdown timeout, since the reader may be blocked.
    pub(super) async fn end(self, stop: &CancellationToken) {
        let _ = self.lines.send(PrinterMessage::End);
        let too_late = async {
            stop.cancelled().await;
            tokio::time::sleep(SHUTDOWN_TIMEOUT).await;
        };
        tokio::select! {
            () = self.ended.cancelled() => {}
            () = too_late => {}
        }
    }
}

/// Prints until the end; `false` if the reader is gone.
fn print_all(told: &Receiver<PrinterMessage>, waiting: &AtomicUsize) -> bool {
    while let Ok(PrinterMessage::Line(line)) = told.recv() {
        match print(&line) {
            Ok(StdoutStatus::Open) => waiting.fetch_sub(line.len(), Ordering::SeqCst),
            Ok(StdoutStatus::Closed) | Err(_) => return false,
        };
    }
    true
}

/// Emits the events of a failed turn for a task that could not start: the error and the end.
pub(super) fn report_start_failure(failed: &CliError) {
    let events = start_failure_events(failed);
    let lines = (1..).zip(events).map(|(seq, event)| line(&SequencedEvent { seq, event }));
    // The exit code is that of the failure, whether or not the output is read.
    let _ = print(&lines.collect::<String>());
}

fn start_failure_events(failed: &CliError) -> Vec<ChatEvent> {
    let text = match &failed.help {
        Some(help) => format!("{}; {help}", failed.message),
        None => failed.message.clone(),
    };
    let end = |reason, text| {
        let (usage, iterations, session_id) = (Usage::default(), 0, None);
        ChatEvent::StreamEnd { reason, text, usage, iterations, session_id }
    };
    if failed.code == INTERRUPTED {
        return vec![end(EndReason::Cancelled, text)];
    }
    let code = if failed.code == USAGE { "usage" } else { "not_begun" };
    let (message, retryable, attempt) = (text.clone(), false, None);
    let error = ChatEvent::Error { code, message, retryable, attempt, wait_ms: None, voided: None };
    vec![error, end(EndReason::Failed, text)]
}

fn line(event: &SequencedEvent) -> String {
    match serde_json::to_string(event) {
        Ok(line) => format!("{}\n", escape_json(&line)),
        // Events always serialise to JSON.
        Err(_) => String::new(),
    }
}

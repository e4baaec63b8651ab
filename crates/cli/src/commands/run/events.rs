//! Events on standard output, printed by a thread of their own: a reader that sleeps stops neither the clock nor Ctrl-C.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use tokio_util::sync::CancellationToken;
use toolgate_agent::{EventSink, Numbered, numbered};

use crate::commands::{LAST_MOMENT, Reader, print};
use crate::exit::Failed;
use crate::terminal::{complain, spelt_out};

/// Whoever leaves more than this unread is not waited for any longer: it would all have to be kept in memory.
const MOST_WAITING: usize = 64 * 1024 * 1024;

/// What the thread is told.
enum Told {
    Line(String),
    End,
}

pub(super) struct Printer {
    lines: Sender<Told>,
    /// The bytes that were not printed yet.
    waiting: Arc<AtomicUsize>,
    /// Cancelled when the thread has nothing more to do.
    ended: CancellationToken,
}

impl Printer {
    /// Whoever stops reading has lost interest in the rest: everything is stopped.
    pub(super) fn begin(stop: &CancellationToken) -> Result<Self, Failed> {
        let (lines, told) = channel();
        let printer = Self { lines, waiting: Arc::default(), ended: CancellationToken::new() };
        let (stop, waiting) = (stop.clone(), Arc::clone(&printer.waiting));
        let at_the_end = printer.ended.clone().drop_guard();
        let work = move || {
            let _at_the_end = at_the_end;
            if !print_all(&told, &waiting) {
                stop.cancel();
            }
        };
        let unable = |error| Failed::error(format!("events cannot be printed: {error}"));
        std::thread::Builder::new().name("events".to_owned()).spawn(work).map_err(unable)?;
        Ok(printer)
    }

    pub(super) fn sink(&self, stop: CancellationToken) -> EventSink {
        let (lines, waiting) = (self.lines.clone(), Arc::clone(&self.waiting));
        numbered(move |event| {
            let line = line(&event);
            let before = waiting.fetch_add(line.len(), Ordering::SeqCst);
            if before > MOST_WAITING && !stop.is_cancelled() {
                complain("nobody reads the events; the task is stopped");
                stop.cancel();
            }
            // A thread that has ended has told so itself.
            let _ = lines.send(Told::Line(line));
        })
    }

    /// Waits until everything is printed. Who stops the task does not wait for a reader that sleeps.
    pub(super) async fn end(self, stop: &CancellationToken) {
        let _ = self.lines.send(Told::End);
        let too_late = async {
            stop.cancelled().await;
            tokio::time::sleep(LAST_MOMENT).await;
        };
        tokio::select! {
            () = self.ended.cancelled() => {}
            () = too_late => {}
        }
    }
}

/// Prints until the end; false when nobody reads any more.
fn print_all(told: &Receiver<Told>, waiting: &AtomicUsize) -> bool {
    while let Ok(Told::Line(line)) = told.recv() {
        match print(&line) {
            Ok(Reader::There) => waiting.fetch_sub(line.len(), Ordering::SeqCst),
            Ok(Reader::Gone) | Err(_) => return false,
        };
    }
    true
}

fn line(event: &Numbered) -> String {
    match serde_json::to_string(event) {
        Ok(line) => format!("{}\n", spelt_out(&line)),
        // Events hold nothing that is not JSON.
        Err(_) => String::new(),
    }
}

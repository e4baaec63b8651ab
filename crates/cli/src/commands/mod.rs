//! One file per command.

pub(crate) mod call;
pub(crate) mod tools;
pub(crate) mod check;
pub(crate) mod audit;
pub(crate) mod changes;
pub(crate) mod doctor;
pub(crate) mod completions;

use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use toolgate_gate::{Approver, NobodyToAsk};

use crate::exit::Failed;

/// Whether somebody still reads the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    There,
    Gone,
}

/// Writes results. A reader that went away, as `head` does, is not an error.
pub(crate) fn print(text: &str) -> Result<Reader, Failed> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(Reader::There),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(Failed::error(format!("the results could not be written: {error}"))),
    }
}

/// Waits, but no longer than there is a reader.
pub(crate) fn wait_with_reader(time: Duration) -> Reader {
    let stdout = io::stdout();
    let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
    let timeout = Timespec::try_from(time).ok();
    // A reader that goes away is told without being asked for.
    match poll(&mut polled, timeout.as_ref()) {
        Ok(0) | Err(_) => Reader::There,
        Ok(_) => Reader::Gone,
    }
}

/// Nobody is asked by commands that call no tool.
pub(crate) fn nobody() -> Arc<dyn Approver> {
    Arc::new(NobodyToAsk { remedy: "make the call with `toolgate call`".to_owned() })
}

/// A small runtime: one thread, and a clock for questions that expire.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failed> {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(|error| Failed::error(format!("no runtime could be made: {error}")))
}

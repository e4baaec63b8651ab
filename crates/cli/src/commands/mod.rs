//! One file per command.

pub(crate) mod call;
pub(crate) mod tools;
pub(crate) mod check;
pub(crate) mod audit;
pub(crate) mod changes;
pub(crate) mod doctor;
pub(crate) mod completions;

use std::io::{self, Write as _};

use crate::exit::Failed;

/// Writes results. A reader that went away, as `head` does, is not an error.
pub(crate) fn print(text: &str) -> Result<(), Failed> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failed::error(format!("the results could not be written: {error}")))
        }
        _ => Ok(()),
    }
}

/// A small runtime: one thread, and a clock for questions that expire.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failed> {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(|error| Failed::error(format!("no runtime could be made: {error}")))
}

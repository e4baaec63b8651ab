//! How a server is spoken to: over the pipes of a process, or over HTTP, and through a guard that both pass.

mod lines;
mod pipe;
mod guard;
mod http;

use std::sync::{Arc, Mutex, PoisonError};

pub(crate) use guard::{Guarded, Told};
pub(crate) use http::{is_expired, transport as http_transport};
pub(crate) use pipe::Pipe;

/// The longest message that a server may send.
pub(crate) const LONGEST_MESSAGE: usize = 16 << 20;

/// Why a connection came to its end; the first reason stays.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ending(Arc<Mutex<Option<String>>>);

impl Ending {
    pub(crate) fn because(&self, reason: impl Into<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| reason.into());
    }

    pub(crate) fn reason(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

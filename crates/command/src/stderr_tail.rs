//! A bounded tail of standard error.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use toolgate_text::sanitize;

/// How much is kept.
const MAX_TAIL_BYTES: usize = 16 * 1024;

/// The tail of a process's standard error.
#[derive(Debug, Default)]
pub struct StderrTail(Mutex<VecDeque<u8>>);

impl StderrTail {
    /// Appends bytes, and drops the oldest beyond the bound.
    pub fn push(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(bytes.get(bytes.len().saturating_sub(MAX_TAIL_BYTES)..).unwrap_or_default());
        let too_many = kept.len().saturating_sub(MAX_TAIL_BYTES);
        kept.drain(..too_many);
    }

    /// The sanitised text. A first line whose beginning is lost is dropped, unless it is the only one.
    #[must_use]
    pub fn text(&self) -> String {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_cut = kept.len() >= MAX_TAIL_BYTES;
        let kept: &[u8] = kept.make_contiguous();
        let first_end = kept.iter().position(|byte| *byte == b'\n').filter(|_| is_cut);
        let whole = first_end.and_then(|end| kept.get(end + 1..)).filter(|rest| !rest.is_empty());
        sanitize(&String::from_utf8_lossy(whole.unwrap_or(kept)))
    }
}

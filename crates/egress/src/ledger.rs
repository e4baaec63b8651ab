//! What went through the proxy of one call, and what did not.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::reason::Reason;

/// Different lines of one kind that a report lists; further ones are only counted.
const MAX_LINES: usize = 256;

/// A connection that was made.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Visit {
    /// `host:port` as the command asked for it, in its plain spelling.
    pub target: String,
}

/// A connection that was not made, or cut.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Refusal {
    /// `host:port` in its plain spelling; empty when no host could be read.
    pub target: String,
    /// Why.
    pub reason: Reason,
    /// The address that was the reason. For the operator: it may tell what the inside of a network looks
    /// like.
    pub address: Option<IpAddr>,
}

/// What just happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A connection was made.
    Allowed(Visit),
    /// A connection was refused or cut.
    Refused(Refusal),
    /// A name was not resolved or a host not reached.
    Failed(Refusal),
}

/// Told of every event as it happens, on the proxy's thread: it must not block.
pub type Observer = Box<dyn Fn(&Event) + Send + Sync>;

/// How often something happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted<T> {
    /// What happened.
    pub what: T,
    /// How often.
    pub times: u64,
}

/// Everything that happened, each thing once with its count, in the order of its first time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Connections that were made.
    pub allowed: Vec<Counted<Visit>>,
    /// Connections that were refused or cut.
    pub refused: Vec<Counted<Refusal>>,
    /// Connections that the network failed to make.
    pub failed: Vec<Counted<Refusal>>,
    /// Events beyond those that are listed.
    pub unlisted: u64,
    /// Bytes that came from outside.
    pub bytes_in: u64,
    /// Bytes that went outside.
    pub bytes_out: u64,
}

/// The direction of bytes, as the command sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    In,
    Out,
}

/// Keeps the books of one proxy.
pub(crate) struct Ledger {
    observer: Observer,
    total_bytes: Option<u64>,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    lines: Mutex<Lines>,
}

#[derive(Default)]
struct Lines {
    allowed: Tally<Visit>,
    refused: Tally<Refusal>,
    failed: Tally<Refusal>,
    unlisted: u64,
}

impl Ledger {
    pub(crate) fn new(observer: Observer, total_bytes: Option<u64>) -> Self {
        let (bytes_in, bytes_out) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { observer, total_bytes, bytes_in, bytes_out, lines: Mutex::default() }
    }

    pub(crate) fn allowed(&self, target: &str) {
        self.record(Event::Allowed(Visit { target: target.to_owned() }));
    }

    pub(crate) fn refused(&self, target: &str, reason: Reason, address: Option<IpAddr>) {
        let refusal = Refusal { target: target.to_owned(), reason, address };
        self.record(if reason.is_failure() { Event::Failed(refusal) } else { Event::Refused(refusal) });
    }

    /// Counts bytes before they are passed on.
    pub(crate) fn count(&self, direction: Direction, bytes: usize) -> Result<(), Reason> {
        let counter = match direction {
            Direction::In => &self.bytes_in,
            Direction::Out => &self.bytes_out,
        };
        counter.fetch_add(bytes as u64, Ordering::Relaxed);
        let total = self.bytes_in.load(Ordering::Relaxed) + self.bytes_out.load(Ordering::Relaxed);
        match self.total_bytes {
            Some(limit) if total > limit => Err(Reason::TooManyBytes),
            _ => Ok(()),
        }
    }

    pub(crate) fn report(&self) -> Report {
        let lines = self.lines();
        Report {
            allowed: lines.allowed.listed.clone(),
            refused: lines.refused.listed.clone(),
            failed: lines.failed.listed.clone(),
            unlisted: lines.unlisted,
            bytes_in: self.bytes_in.load(Ordering::Relaxed),
            bytes_out: self.bytes_out.load(Ordering::Relaxed),
        }
    }

    fn record(&self, event: Event) {
        (self.observer)(&event);
        let mut lines = self.lines();
        let listed = match event {
            Event::Allowed(visit) => lines.allowed.add(visit),
            Event::Refused(refusal) => lines.refused.add(refusal),
            Event::Failed(refusal) => lines.failed.add(refusal),
        };
        lines.unlisted += u64::from(!listed);
    }

    /// Nothing panics while it holds the lock, so a poisoned one is whole.
    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Things in the order of their first time, each with its count.
struct Tally<T> {
    listed: Vec<Counted<T>>,
    places: HashMap<T, usize>,
}

impl<T> Default for Tally<T> {
    fn default() -> Self {
        Self { listed: Vec::new(), places: HashMap::new() }
    }
}

impl<T: Clone + Eq + Hash> Tally<T> {
    /// Whether there was room to list it.
    fn add(&mut self, what: T) -> bool {
        if let Some(counted) = self.places.get(&what).and_then(|place| self.listed.get_mut(*place)) {
            counted.times += 1;
            return true;
        }
        if self.listed.len() >= MAX_LINES {
            return false;
        }
        self.places.insert(what.clone(), self.listed.len());
        self.listed.push(Counted { what, times: 1 });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_lists_each_thing_once_and_never_more_than_its_bound() {
        let ledger = Ledger::new(Box::new(|_| {}), None);
        for round in 0..2 {
            for index in 0..MAX_LINES + 10 {
                ledger.refused(&format!("host{index}.example:443"), Reason::NotListed, None);
            }
            let report = ledger.report();
            assert_eq!(report.refused.len(), MAX_LINES);
            assert!(report.refused.iter().all(|counted| counted.times == round + 1));
            assert_eq!(report.unlisted, 10 * (round + 1));
        }
    }

    #[test]
    fn bytes_are_bounded_over_both_directions() {
        let ledger = Ledger::new(Box::new(|_| {}), Some(10));
        assert_eq!(ledger.count(Direction::In, 6), Ok(()));
        assert_eq!(ledger.count(Direction::Out, 4), Ok(()));
        assert_eq!(ledger.count(Direction::Out, 1), Err(Reason::TooManyBytes));
    }
}

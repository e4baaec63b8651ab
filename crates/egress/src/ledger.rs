//! Records the connections of one call's proxy.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::address::AddressClass;
use crate::host::Host;
use crate::refusal_reason::RefusalReason;

/// How many different entries of a kind a report lists; further ones are only counted.
const MAX_LISTED: usize = 256;

/// A connection that was made.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AllowedConnection {
    /// `host:port` as requested, in canonical form.
    pub target: String,
}

/// A connection that was refused, failed or was cut.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RejectedConnection {
    /// `host:port` in canonical form; empty if no host could be parsed.
    pub target: String,
    /// The reason.
    pub reason: RefusalReason,
    /// The address that caused it. For the operator only: it may reveal the internal network.
    pub address: Option<IpAddr>,
}

impl RejectedConnection {
    /// The requested host and port; `None` if no host could be parsed.
    #[must_use]
    pub fn host(&self) -> Option<(Host, u16)> {
        Host::parse_with_port(&self.target, None).ok()
    }

    /// The entry that would have allowed this connection, if nothing but an entry was missing and the host is public: never this machine, never an
    /// address of another network. Whatever the name resolves to is checked again.
    #[must_use]
    pub fn missing_entry(&self) -> Option<String> {
        let (host, port) = self.host().filter(|_| self.reason == RefusalReason::NotListed)?;
        let is_public = match &host {
            Host::Name(name) => name != "localhost",
            Host::Address(address) => AddressClass::of(*address) == AddressClass::Public,
        };
        is_public.then(|| allowlist_entry(&host, port))
    }
}

/// The entry of an allowlist that means this host and port.
pub(crate) fn allowlist_entry(host: &Host, port: u16) -> String {
    if port == 443 || port == 80 { host.to_string() } else { format!("{host}:{port}") }
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EgressEvent {
    /// A connection was made.
    Allowed(AllowedConnection),
    /// A connection was refused or cut.
    Refused(RejectedConnection),
    /// A name could not be resolved, or a host not reached.
    Failed(RejectedConnection),
}

/// Called for every event as it happens, on the proxy's thread: it must not block.
pub type Observer = Box<dyn Fn(&EgressEvent) + Send + Sync>;

/// An item and how often it occurred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occurrences<T> {
    /// The item.
    pub item: T,
    /// The number of occurrences.
    pub count: u64,
}

/// All events, each once with its count, in the order of first occurrence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EgressReport {
    /// Connections that were made.
    pub allowed: Vec<Occurrences<AllowedConnection>>,
    /// Connections that were refused or cut.
    pub refused: Vec<Occurrences<RejectedConnection>>,
    /// Connections that the network failed to make.
    pub failed: Vec<Occurrences<RejectedConnection>>,
    /// Events that are not listed.
    pub unlisted: u64,
    /// Bytes received from outside.
    pub bytes_in: u64,
    /// Bytes sent outside.
    pub bytes_out: u64,
}

/// The direction of a transfer, from the command's view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransferDirection {
    In,
    Out,
}

/// Records the events and bytes of one proxy.
pub(crate) struct Ledger {
    observer: Observer,
    max_total_bytes: Option<u64>,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    tallies: Mutex<EventTallies>,
}

#[derive(Default)]
struct EventTallies {
    allowed: EventTally<AllowedConnection>,
    refused: EventTally<RejectedConnection>,
    failed: EventTally<RejectedConnection>,
    unlisted: u64,
}

impl Ledger {
    pub(crate) fn new(observer: Observer, max_total_bytes: Option<u64>) -> Self {
        let (bytes_in, bytes_out) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { observer, max_total_bytes, bytes_in, bytes_out, tallies: Mutex::default() }
    }

    pub(crate) fn allowed(&self, target: &str) {
        self.record(EgressEvent::Allowed(AllowedConnection { target: target.to_owned() }));
    }

    pub(crate) fn refused(&self, target: &str, reason: RefusalReason, address: Option<IpAddr>) {
        let refusal = RejectedConnection { target: target.to_owned(), reason, address };
        self.record(if reason.is_failure() {
            EgressEvent::Failed(refusal)
        } else {
            EgressEvent::Refused(refusal)
        });
    }

    /// Counts bytes before they are forwarded.
    pub(crate) fn count(&self, direction: TransferDirection, bytes: usize) -> Result<(), RefusalReason> {
        let counter = match direction {
            TransferDirection::In => &self.bytes_in,
            TransferDirection::Out => &self.bytes_out,
        };
        counter.fetch_add(bytes as u64, Ordering::Relaxed);
        let total = self.bytes_in.load(Ordering::Relaxed) + self.bytes_out.load(Ordering::Relaxed);
        match self.max_total_bytes {
            Some(limit) if total > limit => Err(RefusalReason::TooManyBytes),
            _ => Ok(()),
        }
    }

    pub(crate) fn report(&self) -> EgressReport {
        let lines = self.tallies();
        EgressReport {
            allowed: lines.allowed.listed.clone(),
            refused: lines.refused.listed.clone(),
            failed: lines.failed.listed.clone(),
            unlisted: lines.unlisted,
            bytes_in: self.bytes_in.load(Ordering::Relaxed),
            bytes_out: self.bytes_out.load(Ordering::Relaxed),
        }
    }

    fn record(&self, event: EgressEvent) {
        (self.observer)(&event);
        let mut lines = self.tallies();
        let listed = match event {
            EgressEvent::Allowed(visit) => lines.allowed.add(visit),
            EgressEvent::Refused(refusal) => lines.refused.add(refusal),
            EgressEvent::Failed(refusal) => lines.failed.add(refusal),
        };
        lines.unlisted += u64::from(!listed);
    }

    /// No code panics while holding the lock, so poisoning is ignored.
    fn tallies(&self) -> MutexGuard<'_, EventTallies> {
        self.tallies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Items in the order of first occurrence, each with its count.
struct EventTally<T> {
    listed: Vec<Occurrences<T>>,
    index: HashMap<T, usize>,
}

impl<T> Default for EventTally<T> {
    fn default() -> Self {
        Self { listed: Vec::new(), index: HashMap::new() }
    }
}

impl<T: Clone + Eq + Hash> EventTally<T> {
    /// Returns whether there was space to list it.
    fn add(&mut self, what: T) -> bool {
        if let Some(counted) = self.index.get(&what).and_then(|place| self.listed.get_mut(*place)) {
            counted.count += 1;
            return true;
        }
        if self.listed.len() >= MAX_LISTED {
            return false;
        }
        self.index.insert(what.clone(), self.listed.len());
        self.listed.push(Occurrences { item: what, count: 1 });
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
            for index in 0..MAX_LISTED + 10 {
                ledger.refused(&format!("host{index}.example:443"), RefusalReason::NotListed, None);
            }
            let report = ledger.report();
            assert_eq!(report.refused.len(), MAX_LISTED);
            assert!(report.refused.iter().all(|counted| counted.count == round + 1));
            assert_eq!(report.unlisted, 10 * (round + 1));
        }
    }

    #[test]
    fn bytes_are_bounded_over_both_directions() {
        let ledger = Ledger::new(Box::new(|_| {}), Some(10));
        assert_eq!(ledger.count(TransferDirection::In, 6), Ok(()));
        assert_eq!(ledger.count(TransferDirection::Out, 4), Ok(()));
        assert_eq!(ledger.count(TransferDirection::Out, 1), Err(RefusalReason::TooManyBytes));
    }
}

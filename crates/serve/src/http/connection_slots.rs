//! Limits the connections, evicting unauthenticated ones first.
//!
//! A connection costs its client nothing before authentication, so a client that opens many and sends nothing would lock out all others until the
//! header timeout (slowloris). When all slots are taken, the network with the most unauthenticated connections loses the oldest of them. An
//! authenticated connection keeps its slot until it closes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// How many evicted connections may still be closing. While there are more, no connection is accepted, so that their descriptors are bounded too.
const MAX_CLOSING: usize = 32;

/// The slots of one listener.
pub(crate) struct ConnectionSlots {
    max: usize,
    open: Mutex<OpenConnections>,
    descriptors: Arc<Semaphore>,
}

/// Connections by an increasing number, so that the oldest sorts first.
#[derive(Default)]
struct OpenConnections {
    next: u64,
    authenticated: BTreeSet<u64>,
    unauthenticated: BTreeMap<u64, UnauthenticatedConnection>,
}

struct UnauthenticatedConnection {
    network: IpAddr,
    evicted: CancellationToken,
}

/// The slot of one connection, released on drop.
pub(crate) struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    number: u64,
    /// Cancelled when the connection must close because its slot is needed.
    pub(crate) evicted: CancellationToken,
    /// Released when the connection has closed.
    _descriptor: Option<OwnedSemaphorePermit>,
}

impl ConnectionSlots {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        let descriptors = max.saturating_add(MAX_CLOSING).min(Semaphore::MAX_PERMITS);
        Arc::new(Self { max, open: Mutex::default(), descriptors: Arc::new(Semaphore::new(descriptors)) })
    }

    /// Waits until a connection may be accepted: until evicted ones have closed.
    pub(crate) async fn descriptor(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.descriptors).acquire_owned().await.ok()
    }

    /// Acquires a slot, evicting an unauthenticated connection if needed. Also returns whether one was evicted.
    pub(crate) fn acquire(
        self: &Arc<Self>,
        peer: IpAddr,
        descriptor: Option<OwnedSemaphorePermit>,
    ) -> Option<(ConnectionSlot, bool)> {
        let mut open = self.lock();
        let is_full = open.authenticated.len() + open.unauthenticated.len() >= self.max;
        if is_full {
            open.evict()?;
        }
        let (number, evicted) = (open.next, CancellationToken::new());
        open.next += 1;
        open.unauthenticated
            .insert(number, UnauthenticatedConnection { network: network(peer), evicted: evicted.clone() });
        Some((ConnectionSlot { slots: Arc::clone(self), number, evicted, _descriptor: descriptor }, is_full))
    }

    fn lock(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenConnections {
    /// Evicts the oldest connection of the network with the most unauthenticated ones; `None` if all are authenticated.
    fn evict(&mut self) -> Option<()> {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for unproved in self.unauthenticated.values() {
            *counts.entry(unproved.network).or_default() += 1;
        }
        let most = counts.values().copied().max()?;
        let is_crowded = |unproved: &UnauthenticatedConnection| counts.get(&unproved.network) == Some(&most);
        let (number, _) = self.unauthenticated.iter().find(|(_, unproved)| is_crowded(unproved))?;
        let number = *number;
        self.unauthenticated.remove(&number)?.evicted.cancel();
        Some(())
    }
}

impl ConnectionSlot {
    /// A request with a valid token arrived on this connection.
    pub(crate) fn mark_authenticated(&self) {
        let mut open = self.slots.lock();
        if open.unauthenticated.remove(&self.number).is_some() {
            open.authenticated.insert(self.number);
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut open = self.slots.lock();
        open.unauthenticated.remove(&self.number);
        open.authenticated.remove(&self.number);
    }
}

/// The unit that connections are counted by: an IPv4 address, or the /64 prefix of an IPv6 address, within which a client chooses its address freely.
fn network(peer: IpAddr) -> IpAddr {
    match peer {
        IpAddr::V4(_) => peer,
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_oldest_of_the_network_with_most_gives_way_and_whoever_proved_itself_stays() {
        let slots = ConnectionSlots::new(5);
        let acquire = |address: &str| slots.acquire(peer(address), None).map(|(slot, _)| slot);
        let proved = acquire("2001:db8::1").unwrap();
        proved.mark_authenticated();
        let lone = acquire("192.0.2.1").unwrap();
        let crowd: Vec<ConnectionSlot> =
            (1..=3).filter_map(|last| acquire(&format!("2001:db8::{last}"))).collect();
        let gone = |slots: &[ConnectionSlot]| -> Vec<bool> {
            slots.iter().map(|slot| slot.evicted.is_cancelled()).collect()
        };
        let newcomer = acquire("192.0.2.9").unwrap();
        assert_eq!(gone(&crowd), [true, false, false]);
        assert!(!lone.evicted.is_cancelled() && !newcomer.evicted.is_cancelled());
        let _second = acquire("2001:db8::9").unwrap();
        assert_eq!(gone(&crowd), [true, true, false]);
        assert!(!proved.evicted.is_cancelled());
    }

    #[test]
    fn where_all_have_proved_themselves_nobody_gives_way_until_one_ends() {
        let slots = ConnectionSlots::new(1);
        let (first, _) = slots.acquire(peer("192.0.2.1"), None).unwrap();
        first.mark_authenticated();
        assert!(slots.acquire(peer("192.0.2.2"), None).is_none());
        drop(first);
        assert!(slots.acquire(peer("192.0.2.2"), None).is_some());
    }
}

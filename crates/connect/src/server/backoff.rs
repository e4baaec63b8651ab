//! Exponential backoff with jitter.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// Doubles after every failure, up to a maximum, with jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The first delay.
    pub initial: Duration,
    /// The longest delay.
    pub max: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { initial: Duration::from_millis(500), max: Duration::from_secs(60) }
    }
}

impl Backoff {
    /// The delay after this many consecutive failures: between half and all of the exponential
    /// value.
    pub(super) fn after(&self, failures: u32) -> Duration {
        let doubled = self.initial.saturating_mul(2u32.saturating_pow(failures.saturating_sub(1)));
        let whole = doubled.min(self.max);
        whole / 2 + (whole / 2).mul_f64(jitter())
    }
}

/// A random number from 0 to 1. It need not be unpredictable.
fn jitter() -> f64 {
    let random = RandomState::new().hash_one(0u8);
    f64::from(u32::try_from(random >> 32).unwrap_or_default()) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_longest() {
        let backoff = Backoff::default();
        for (failures, whole) in [(1, 500), (2, 1_000), (4, 4_000), (8, 60_000), (4_000_000, 60_000)] {
            let (whole, wait) = (Duration::from_millis(whole), backoff.after(failures));
            assert!(whole / 2 <= wait && wait <= whole, "{failures}: {wait:?}");
        }
    }
}

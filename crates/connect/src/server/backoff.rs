//! How long to wait before trying again.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// Twice as long after every failure, up to a bound, and never quite the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The first wait.
    pub initial: Duration,
    /// The longest.
    pub max: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { initial: Duration::from_millis(500), max: Duration::from_secs(60) }
    }
}

impl Backoff {
    /// The wait after so many failures in a row, somewhere between half and all of what it could be.
    pub(super) fn after(&self, failures: u32) -> Duration {
        let doubled = self.initial.saturating_mul(2u32.saturating_pow(failures.saturating_sub(1)));
        let whole = doubled.min(self.max);
        whole / 2 + (whole / 2).mul_f64(jitter())
    }
}

/// From zero to one. Nothing depends on nobody knowing it.
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

//! Exponential backoff with jitter.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// The delays between attempts: twice as long after every failure, up to a maximum, with jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The delay after the first failure.
    pub initial_delay: Duration,
    /// The longest delay.
    pub max_delay: Duration,
}

impl Backoff {
    /// The delay after this many failures in a row: between half and all of what it is without jitter.
    #[must_use]
    pub fn delay(&self, failures: u32) -> Duration {
        let doubled = self.initial_delay.saturating_mul(2u32.saturating_pow(failures.saturating_sub(1)));
        let whole = doubled.min(self.max_delay);
        whole / 2 + (whole / 2).mul_f64(jitter())
    }
}

/// A random number from 0 to 1, to spread attempts that would come at the same time. It need not be unpredictable.
#[must_use]
pub fn jitter() -> f64 {
    let random = RandomState::new().hash_one(0u8);
    f64::from(u32::try_from(random >> 32).unwrap_or_default()) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_maximum() {
        let backoff =
            Backoff { initial_delay: Duration::from_millis(500), max_delay: Duration::from_secs(60) };
        for (failures, whole) in [(0, 500), (1, 500), (2, 1_000), (4, 4_000), (8, 60_000), (u32::MAX, 60_000)]
        {
            let (whole, delay) = (Duration::from_millis(whole), backoff.delay(failures));
            assert!(whole / 2 <= delay && delay <= whole, "{failures}: {delay:?}");
        }
    }
}

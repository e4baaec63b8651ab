//! The delay before a step is retried.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use crate::error::ProviderError;

/// Exponential backoff with jitter; a server's `Retry-After` takes precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The first delay.
    pub initial_delay: Duration,
    /// The longest delay, without a `Retry-After`.
    pub max_delay: Duration,
    /// The longest `Retry-After` that is accepted.
    pub max_retry_after: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            initial_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(30),
            max_retry_after: Duration::from_secs(120),
        }
    }
}

impl Backoff {
    /// The delay after this many consecutive failures. `None` if the error is not retryable, or if the `Retry-After` is too long.
    #[must_use]
    pub fn delay(&self, failures: u32, error: &ProviderError) -> Option<Duration> {
        if !error.is_retryable() {
            return None;
        }
        if let Some(asked) = error.retry_after {
            // Jitter, since many clients may have received the same `Retry-After`.
            return (asked <= self.max_retry_after)
                .then(|| asked + (asked / 10).min(self.initial_delay).mul_f64(jitter()));
        }
        let doubled = self.initial_delay.saturating_mul(2u32.saturating_pow(failures.saturating_sub(1)));
        let whole = doubled.min(self.max_delay);
        Some(whole / 2 + (whole / 2).mul_f64(jitter()))
    }
}

/// A number from 0 to 1. It need not be unpredictable.
fn jitter() -> f64 {
    let random = RandomState::new().hash_one(0u8);
    f64::from(u32::try_from(random >> 32).unwrap_or_default()) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn waits_grow_to_the_longest() {
        let (backoff, overloaded) = (Backoff::default(), ProviderError::new(ErrorKind::Overloaded, "x"));
        for (failures, whole) in [(1, 500), (2, 1_000), (4, 4_000), (8, 30_000), (4_000_000, 30_000)] {
            let (whole, wait) = (Duration::from_millis(whole), backoff.delay(failures, &overloaded).unwrap());
            assert!(whole / 2 <= wait && wait <= whole, "{failures}: {wait:?}");
        }
    }

    #[test]
    fn servers_are_obeyed() {
        let backoff = Backoff::default();
        let failed = |kind, asked: Option<u64>, should_retry| ProviderError {
            retry_after: asked.map(Duration::from_secs),
            should_retry,
            ..ProviderError::new(kind, "x")
        };
        for (error, at_least) in [
            (failed(ErrorKind::RateLimited, Some(7), None), Some(7)),
            (failed(ErrorKind::RateLimited, Some(0), None), Some(0)),
            (failed(ErrorKind::RateLimited, Some(121), None), None),
            (failed(ErrorKind::RateLimited, None, Some(false)), None),
            (failed(ErrorKind::BadRequest, Some(1), None), None),
            (failed(ErrorKind::BadRequest, Some(1), Some(true)), Some(1)),
            (failed(ErrorKind::SpendLimit, Some(1), None), None),
        ] {
            let wait = backoff.delay(1, &error);
            assert_eq!(wait.map(|wait| wait.as_secs()), at_least, "{error:?}");
            assert!(wait.is_none_or(|wait| wait >= error.retry_after.unwrap_or_default()));
        }
    }
}

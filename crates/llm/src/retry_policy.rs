//! The delay before a step is retried.

use std::time::Duration;

use toolgate_types::Backoff;
use toolgate_types::backoff::jitter;

use crate::error::ProviderError;

/// Exponential backoff; a server's `Retry-After` takes precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The delays without a `Retry-After`.
    pub backoff: Backoff,
    /// The longest `Retry-After` that is accepted.
    pub max_retry_after: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            backoff: Backoff {
                initial_delay: Duration::from_millis(500),
                max_delay: Duration::from_secs(30),
            },
            max_retry_after: Duration::from_secs(120),
        }
    }
}

impl RetryPolicy {
    /// The delay after this many consecutive failures. `None` if the error is not retryable, or if the `Retry-After` is too long.
    #[must_use]
    pub fn delay(&self, failures: u32, error: &ProviderError) -> Option<Duration> {
        if !error.is_retryable() {
            return None;
        }
        if let Some(asked) = error.retry_after {
            // Jitter, since many clients may have received the same `Retry-After`.
            return (asked <= self.max_retry_after)
                .then(|| asked + (asked / 10).min(self.backoff.initial_delay).mul_f64(jitter()));
        }
        Some(self.backoff.delay(failures))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn waits_grow_to_the_longest() {
        let (policy, overloaded) = (RetryPolicy::default(), ProviderError::new(ErrorKind::Overloaded, "x"));
        for (failures, whole) in [(1, 500), (2, 1_000), (4, 4_000), (8, 30_000), (4_000_000, 30_000)] {
            let (whole, wait) = (Duration::from_millis(whole), policy.delay(failures, &overloaded).unwrap());
            assert!(whole / 2 <= wait && wait <= whole, "{failures}: {wait:?}");
        }
    }

    #[test]
    fn servers_are_obeyed() {
        let policy = RetryPolicy::default();
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
            let wait = policy.delay(1, &error);
            assert_eq!(wait.map(|wait| wait.as_secs()), at_least, "{error:?}");
            assert!(wait.is_none_or(|wait| wait >= error.retry_after.unwrap_or_default()));
        }
    }
}

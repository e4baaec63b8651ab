//! Allocations of large futures that are used again.
//!
//! The state of a call has several kilobytes. An allocation of that size costs more than reading the JSON of a small call: it makes glibc look through
//! and join what was freed before.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio_util::sync::ReusableBoxFuture;

/// A future in an allocation that can be used again when it has ended.
pub(crate) type PooledFuture<Output> = ReusableBoxFuture<'static, Output>;

/// How many allocations are kept. Most calls end when they are first polled, so one after the other needs only one.
const MAX_KEPT: usize = 8;

/// The kept allocations for futures of one kind.
pub(crate) struct FuturePool<Output>(Mutex<Vec<PooledFuture<Output>>>);

impl<Output> Default for FuturePool<Output> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<Output> FuturePool<Output> {
    /// Boxes a future.
    pub(crate) fn boxed(
        &self,
        future: impl Future<Output = Output> + Send + 'static,
    ) -> PooledFuture<Output> {
        match self.kept().pop() {
            Some(mut kept) => {
                kept.set(future);
                kept
            }
            None => PooledFuture::new(future),
        }
    }

    /// Keeps the allocation of a future that has ended.
    pub(crate) fn keep(&self, ended: PooledFuture<Output>) {
        let mut kept = self.kept();
        if kept.len() < MAX_KEPT {
            kept.push(ended);
        }
    }

    fn kept(&self) -> MutexGuard<'_, Vec<PooledFuture<Output>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn an_allocation_is_used_again_and_drops_what_it_held() {
        let pool = FuturePool::default();
        let held = Arc::new([7_u8; 64]);
        for round in 0..3 * MAX_KEPT {
            let inside = Arc::clone(&held);
            let mut boxed = pool.boxed(async move { inside.len() + round });
            assert_eq!((&mut boxed).await, 64 + round);
            pool.keep(boxed);
            assert_eq!(pool.kept().len(), 1);
        }
        assert_eq!(Arc::strong_count(&held), 1);
        let many: Vec<_> = (0..2 * MAX_KEPT).map(|number| pool.boxed(async move { number })).collect();
        for mut boxed in many {
            (&mut boxed).await;
            pool.keep(boxed);
        }
        assert_eq!(pool.kept().len(), MAX_KEPT);
    }
}

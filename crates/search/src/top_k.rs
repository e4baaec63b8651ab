//! The first results in path order, within a limit, from several threads.
//!
//! Every thread keeps its own. Once it holds as much as the limit allows, nothing after its last path can be part of the result; the threads share
//! the smallest such path, and the walk skips everything after it. The result is the same on every run, however the work was distributed.

use std::collections::BTreeMap;
use std::collections::btree_map::IntoIter;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::path_buffer::{WalkOrderKey, walk_order};

/// The size of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResultSize {
    pub(crate) count: usize,
    pub(crate) bytes: usize,
}

impl ResultSize {
    pub(crate) fn plus(self, other: Self) -> Self {
        Self { count: self.count.saturating_add(other.count), bytes: self.bytes.saturating_add(other.bytes) }
    }

    fn minus(self, other: Self) -> Self {
        Self { count: self.count.saturating_sub(other.count), bytes: self.bytes.saturating_sub(other.bytes) }
    }

    /// Whether this exceeds the limit, so that nothing further fits. A single result may have any size: without it the answer would not show what to
    /// narrow down.
    pub(crate) fn exceeds(self, limit: Self) -> bool {
        self.count > limit.count || (self.bytes > limit.bytes && self.count > 1)
    }
}

/// The path after which nothing can be part of the result, as far as any thread knows.
#[derive(Default)]
pub(crate) struct Cutoff {
    version: AtomicUsize,
    last: Mutex<Option<Arc<[u8]>>>,
}

impl Cutoff {
    fn lower(&self, path: &[u8]) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_deref().is_none_or(|last| walk_order(path, last).is_lt()) {
            *last = Some(path.into());
            self.version.fetch_add(1, Ordering::Release);
        }
    }

    fn get(&self) -> Option<Arc<[u8]>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The results of one thread.
pub(crate) struct TopK<'a, T> {
    limit: ResultSize,
    total: ResultSize,
    by_path: BTreeMap<WalkOrderKey, (T, ResultSize)>,
    cutoff: &'a Cutoff,
    seen_version: usize,
    seen: Option<Arc<[u8]>>,
}

impl<'a, T> TopK<'a, T> {
    pub(crate) fn new(limit: ResultSize, cutoff: &'a Cutoff) -> Self {
        let total = ResultSize::default();
        Self { limit, total, by_path: BTreeMap::new(), cutoff, seen_version: 0, seen: None }
    }

    /// Whether nothing at this path or after it can be part of the result.
    pub(crate) fn is_past_cutoff(&mut self, path: &[u8]) -> bool {
        let version = self.cutoff.version.load(Ordering::Acquire);
        if version != self.seen_version {
            self.seen_version = version;
            self.seen = self.cutoff.get();
        }
        self.seen.as_deref().is_some_and(|last| walk_order(path, last).is_gt())
    }

    /// Adds a result, unless it is past the cutoff.
    pub(crate) fn insert(&mut self, path: &[u8], value: T, weight: ResultSize) {
        if self.is_past_cutoff(path) {
            return;
        }
        self.total = self.total.plus(weight);
        self.by_path.insert(WalkOrderKey(path.to_vec()), (value, weight));
        while let Some(last) = self.by_path.last_entry() {
            let without = self.total.minus(last.get().1);
            if !without.exceeds(self.limit) {
                break;
            }
            self.total = without;
            last.remove();
        }
        if let (true, Some((last, _))) = (self.total.exceeds(self.limit), self.by_path.last_key_value()) {
            self.cutoff.lower(&last.0);
        }
    }

    /// Adds the results of another thread.
    pub(crate) fn merge(&mut self, other: Self) {
        self.by_path.extend(other.by_path);
    }

    /// All results in path order; over the limit, if there are more.
    pub(crate) fn into_sorted(self) -> IntoIter<WalkOrderKey, (T, ResultSize)> {
        self.by_path.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn first_of(kept: TopK<'_, ()>, limit: usize) -> Vec<String> {
        kept.into_sorted().take(limit).map(|(path, _)| String::from_utf8(path.0).unwrap()).collect()
    }

    #[test]
    fn threads_tell_each_other_the_nearest_horizon() {
        let horizon = Cutoff::default();
        let limit = ResultSize { count: 0, bytes: usize::MAX };
        let (mut one, mut other) = (TopK::<()>::new(limit, &horizon), TopK::new(limit, &horizon));
        assert!(!one.is_past_cutoff(b"z"));
        for path in [b"m", b"f", b"k"] {
            other.insert(path, (), ResultSize { count: 1, bytes: 0 });
        }
        assert_eq!([b"e", b"f", b"g", b"l"].map(|path| one.is_past_cutoff(path)), [false, false, true, true]);
    }

    proptest! {
        #[test]
        fn two_threads_keep_the_first_of_all(
            paths in proptest::collection::btree_map("[ab]/?[ab.]{1,3}", any::<bool>(), 0..40),
            order in any::<u64>(),
            limit in 0usize..6,
        ) {
            let horizon = Cutoff::default();
            let weight = ResultSize { count: limit, bytes: usize::MAX };
            let (mut one, mut other) = (TopK::new(weight, &horizon), TopK::new(weight, &horizon));
            let mut shuffled: Vec<_> = paths.iter().collect();
            shuffled.sort_by_key(|(path, _)| path.bytes().fold(order, |sum, byte| sum.wrapping_mul(31) ^ u64::from(byte)));
            for (path, mine) in shuffled {
                let kept = if *mine { &mut one } else { &mut other };
                if !kept.is_past_cutoff(path.as_bytes()) {
                    kept.insert(path.as_bytes(), (), ResultSize { count: 1, bytes: 0 });
                }
            }
            one.merge(other);
            let more_than_enough = one.by_path.len() > limit;
            let mut expected: Vec<String> = paths.keys().cloned().collect();
            expected.sort_by(|one, other| walk_order(one.as_bytes(), other.as_bytes()));
            prop_assert_eq!(more_than_enough, expected.len() > limit);
            expected.truncate(limit);
            prop_assert_eq!(first_of(one, limit), expected);
        }
    }
}

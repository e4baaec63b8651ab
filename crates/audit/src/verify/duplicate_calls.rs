//! Finds calls with two records in bounded memory.
//!
//! The first pass is a Bloom filter: it remembers only calls whose bits were all set before, that is all true duplicates and a few false positives
//! per thousand. The second pass checks these suspects exactly.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};

use toolgate_types::CallId;

use crate::Day;

/// Records are hardly ever shorter.
const BYTES_PER_RECORD: u64 = 400;
const BITS_PER_RECORD: u64 = 16;
const MAX_WORDS: u64 = 64 * 1024 * 1024 / 8;
const BITS_PER_CALL: u64 = 4;

/// The first pass.
pub(super) struct CallBloomFilter {
    words: Vec<u64>,
    hasher: RandomState,
    suspects: HashSet<CallId>,
}

impl CallBloomFilter {
    /// Sized for a log of about this many bytes.
    pub(super) fn new(bytes: u64) -> Self {
        let words = (bytes / BYTES_PER_RECORD * BITS_PER_RECORD / 64).clamp(1024, MAX_WORDS);
        Self {
            words: vec![0; usize::try_from(words).unwrap_or(1024)],
            hasher: RandomState::new(),
            suspects: HashSet::new(),
        }
    }

    /// Adds a call.
    pub(super) fn insert(&mut self, call: CallId) {
        let hash = self.hasher.hash_one(call);
        let bits = self.words.len() as u64 * 64;
        let mut all_set = true;
        for probe in 0..BITS_PER_CALL {
            let bit = hash.wrapping_add((hash >> 32 | 1).wrapping_mul(probe)) % bits;
            let mask = 1 << (bit % 64);
            if let Some(word) = usize::try_from(bit / 64).ok().and_then(|index| self.words.get_mut(index)) {
                all_set &= *word & mask != 0;
                *word |= mask;
            }
        }
        if all_set {
            self.suspects.insert(call);
        }
    }

    /// Starts the second pass, if there are suspects.
    pub(super) fn into_suspects(self) -> Option<SuspectCalls> {
        (!self.suspects.is_empty()).then(|| SuspectCalls { calls: self.suspects, seen: HashMap::new() })
    }
}

/// The second pass.
pub(super) struct SuspectCalls {
    calls: HashSet<CallId>,
    seen: HashMap<CallId, (Day, u64)>,
}

impl SuspectCalls {
    /// Where this call was recorded before, if it was.
    pub(super) fn seen_before(&mut self, call: CallId, day: Day, line: u64) -> Option<(Day, u64)> {
        if self.calls.contains(&call) { self.seen.insert(call, (day, line)) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_repeat_is_a_suspect_and_hardly_anything_else() {
        let ids: Vec<CallId> = (0..20_000).map(|_| CallId::fresh()).collect();
        let mut calls = CallBloomFilter::new(20_000 * BYTES_PER_RECORD);
        ids.iter().for_each(|id| calls.insert(*id));
        assert!(calls.suspects.len() < 400, "{} of 20000 suspected", calls.suspects.len());
        ids.iter().step_by(100).for_each(|id| calls.insert(*id));
        assert!(ids.iter().step_by(100).all(|id| calls.suspects.contains(id)));
    }
}

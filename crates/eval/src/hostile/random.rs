//! Random numbers that are the same for a seed on every machine.

/// SplitMix64.
pub(super) struct SeededRandom(u64);

impl SeededRandom {
    /// The numbers of one sequence of a run, whatever was generated before it.
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        let mut random = Self(seed ^ stream.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        random.next();
        random
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below the bound; 0 if that is 0.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next() % bound).unwrap_or_default()
    }

    /// True in so many of a hundred cases.
    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of them; none only if there are none.
    pub(super) fn one_of<'a, T>(&mut self, choices: &'a [T]) -> Option<&'a T> {
        choices.get(self.below(choices.len()))
    }

    /// One of them.
    pub(super) fn word(&mut self, choices: &[&'static str]) -> &'static str {
        self.one_of(choices).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_and_a_stream_give_the_same_numbers_and_others_give_others() {
        let take = |seed, stream| {
            let mut random = SeededRandom::new(seed, stream);
            (0..8).map(|_| random.next()).collect::<Vec<_>>()
        };
        assert_eq!(take(1, 2), take(1, 2));
        assert_ne!(take(1, 2), take(2, 2));
        assert_ne!(take(1, 2), take(1, 3));
        let mut random = SeededRandom::new(0, 0);
        assert!((0..1000).all(|_| random.below(7) < 7));
        assert_eq!(random.one_of::<u8>(&[]), None);
    }
}

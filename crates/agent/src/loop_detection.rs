//! Detects a model that repeats itself.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// Cycles of up to this many calls are detected.
const MAX_CYCLE_LENGTH: usize = 3;

/// After this many repetitions of a cycle the model gets a notice; the next call of the cycle ends the turn.
const CYCLES_BEFORE_NOTICE: usize = 3;

/// What one more call means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repetition {
    /// No repetition.
    None,
    /// The model should get a notice.
    Noticed,
    /// The model got a notice, and repeated the call.
    Stuck,
}

/// The recent calls of a turn, each with its result. The same call with another result is not a repetition.
#[derive(Debug, Default)]
pub(crate) struct LoopDetector {
    /// The newest last.
    recent: VecDeque<u64>,
    /// For each cycle length: how many calls in a row equalled the one a cycle before.
    same: [usize; MAX_CYCLE_LENGTH],
}

impl LoopDetector {
    /// Records one more call.
    pub(crate) fn record(&mut self, tool: &str, arguments: &str, answer: &str) -> Repetition {
        let mut hasher = DefaultHasher::new();
        (tool, arguments, answer).hash(&mut hasher);
        self.record_digest(hasher.finish())
    }

    fn record_digest(&mut self, call: u64) -> Repetition {
        let mut repetition = Repetition::None;
        for (place, same) in self.same.iter_mut().enumerate() {
            let round = place + 1;
            let before = self.recent.iter().rev().nth(place);
            *same = if before == Some(&call) { *same + 1 } else { 0 };
            let enough = (CYCLES_BEFORE_NOTICE - 1) * round;
            if *same > enough {
                repetition = Repetition::Stuck;
            } else if *same == enough && repetition == Repetition::None {
                repetition = Repetition::Noticed;
            }
        }
        self.recent.push_back(call);
        if self.recent.len() > MAX_CYCLE_LENGTH {
            self.recent.pop_front();
        }
        repetition
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The reference model: computed from the whole history each time.
    fn by_the_book(calls: &[u64]) -> Repetition {
        let goes_round = |round: usize, count: usize| {
            calls.len() >= count && {
                let last = &calls[calls.len() - count..];
                last.iter().zip(&last[round..]).all(|(one, other)| one == other)
            }
        };
        let any = |more: usize| {
            (1..=MAX_CYCLE_LENGTH).any(|round| goes_round(round, CYCLES_BEFORE_NOTICE * round + more))
        };
        match (any(1), any(0)) {
            (true, _) => Repetition::Stuck,
            (false, true) => Repetition::Noticed,
            (false, false) => Repetition::None,
        }
    }

    proptest! {
        #[test]
        fn rounds_are_noticed_by_the_book(calls in prop::collection::vec(0..3_u64, 0..40)) {
            let mut repeats = LoopDetector::default();
            for until in 1..=calls.len() {
                let told = repeats.record_digest(calls[until - 1]);
                prop_assert_eq!(told, by_the_book(&calls[..until]), "{:?}", &calls[..until]);
            }
        }
    }

    #[test]
    fn the_same_question_with_another_answer_is_none() {
        let mut repeats = LoopDetector::default();
        for answer in 0..20 {
            assert_eq!(repeats.record("status", "{}", &answer.to_string()), Repetition::None);
        }
        let told: Vec<Repetition> = (0..4).map(|_| repeats.record("status", "{}", "same")).collect();
        assert_eq!(told, [Repetition::None, Repetition::None, Repetition::Noticed, Repetition::Stuck]);
    }
}

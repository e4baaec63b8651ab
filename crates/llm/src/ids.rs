//! Ids of calls on wires that take only `^[a-zA-Z0-9_-]{1,64}$`, and none twice in a conversation.
//!
//! A conversation may have begun on another wire, whose ids repeat from step to step or are spelt in ways that this one does not take. The same
//! conversation always gets the same ids, so that what a server remembers of it stays good.

use std::collections::{HashMap, HashSet};

/// The longest id that wires take.
const LONGEST: usize = 64;

/// The ids of one request, given out in the order of its messages.
#[derive(Debug, Default)]
pub(crate) struct CallIds {
    taken: HashSet<String>,
    /// Those of the newest message with calls.
    newest: HashMap<String, String>,
}

impl CallIds {
    /// A message with calls begins.
    pub(crate) fn begin_message(&mut self) {
        self.newest.clear();
    }

    /// The id that a call of this message goes by.
    pub(crate) fn call(&mut self, id: &str) -> String {
        let plain = plain(id);
        let numbered = (2_u64..).map(|number| cut(&plain, &format!("_{number}")));
        let free = std::iter::once(plain.clone()).chain(numbered).find(|other| !self.taken.contains(other));
        let free = free.unwrap_or_default();
        self.taken.insert(free.clone());
        self.newest.insert(id.to_owned(), free.clone());
        free
    }

    /// The id of the call that a result belongs to.
    pub(crate) fn result(&self, id: &str) -> String {
        self.newest.get(id).cloned().unwrap_or_else(|| plain(id))
    }
}

fn plain(id: &str) -> String {
    let is_taken = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    let plain: String = id.chars().map(|letter| if is_taken(letter) { letter } else { '_' }).collect();
    if plain.is_empty() { "call".to_owned() } else { cut(&plain, "") }
}

fn cut(plain: &str, ending: &str) -> String {
    plain.chars().take(LONGEST.saturating_sub(ending.len())).collect::<String>() + ending
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ids_that_are_fine_stay() {
        let mut ids = CallIds::default();
        ids.begin_message();
        assert_eq!(
            (ids.call("toolu_01A"), ids.call("call-2")),
            ("toolu_01A".to_owned(), "call-2".to_owned())
        );
        ids.begin_message();
        assert_eq!(ids.call("toolu_01A"), "toolu_01A_2");
        assert_eq!(ids.result("toolu_01A"), "toolu_01A_2");
        assert_eq!(ids.result("never:made"), "never_made");
    }

    proptest! {
        #[test]
        fn every_call_has_its_own_id_and_every_result_its_call(
            messages in proptest::collection::vec(proptest::collection::hash_set("[a-b:_]{0,3}|x{70}|\\PC{0,3}", 0..4), 0..6),
        ) {
            let (mut ids, mut seen) = (CallIds::default(), HashSet::new());
            for message in messages {
                ids.begin_message();
                let given: Vec<_> = message.iter().map(|id| (id, ids.call(id))).collect();
                for (id, other) in given {
                    prop_assert!((1..=LONGEST).contains(&other.len()));
                    prop_assert!(other.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)));
                    prop_assert_eq!(ids.result(id), other.clone());
                    prop_assert!(seen.insert(other));
                }
            }
        }
    }
}

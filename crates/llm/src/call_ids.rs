//! Call ids for wires that accept only `^[a-zA-Z0-9_-]{1,64}$`, unique within a conversation.
//!
//! A conversation may have begun on another wire, whose ids repeat from step to step or contain other characters. The same conversation always gets
//! the same ids, so that the server's prompt cache stays valid.

use std::collections::HashMap;

use crate::used_names::{UsedNames, sanitize_name};

/// The id of a call that has none.
const DEFAULT_CALL_ID: &str = "call";

/// The ids of one request, assigned in the order of its messages.
#[derive(Debug, Default)]
pub(crate) struct CallIds {
    taken: UsedNames,
    /// Those of the newest message with calls.
    newest: HashMap<String, String>,
}

impl CallIds {
    /// Starts a message with calls.
    pub(crate) fn begin_message(&mut self) {
        self.newest.clear();
    }

    /// The wire's id of a call in this message.
    pub(crate) fn call(&mut self, id: &str) -> String {
        let free = self.taken.claim(id, DEFAULT_CALL_ID);
        self.newest.insert(id.to_owned(), free.clone());
        free
    }

    /// The wire's id of the call that a result belongs to.
    pub(crate) fn result(&self, id: &str) -> String {
        let unknown = || sanitize_name(if id.is_empty() { DEFAULT_CALL_ID } else { id });
        self.newest.get(id).cloned().unwrap_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;
    use crate::used_names::MAX_WIRE_NAME_BYTES;

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
                    prop_assert!((1..=MAX_WIRE_NAME_BYTES).contains(&other.len()));
                    prop_assert!(other.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)));
                    prop_assert_eq!(ids.result(id), other.clone());
                    prop_assert!(seen.insert(other));
                }
            }
        }
    }
}

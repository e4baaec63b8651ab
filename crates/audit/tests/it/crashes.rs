//! Processes killed in the middle of their work.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::Rng as _;
use proptest::test_runner::{RngAlgorithm, TestRng};

use toolgate_types::{CallId, Decision, ErrorCode};

use crate::child::{sayings, start};
use crate::fixture::{AuditFixture, sound_records};

/// What all children together reported as on disk.
#[derive(Default)]
struct Promises {
    intended: BTreeSet<CallId>,
    done: BTreeSet<CallId>,
}

impl Promises {
    fn hear(&mut self, saying: &str) {
        let (word, call) = saying.split_once(' ').unwrap();
        let calls = if word == "intends" { &mut self.intended } else { &mut self.done };
        calls.insert(call.parse().unwrap());
    }

    /// Everything reported is there exactly once, and a mere intent is an interrupted call.
    fn check(&self, place: &AuditFixture) {
        let mut records = BTreeMap::new();
        for record in sound_records(&place.directory) {
            assert!(records.insert(record.trace_id, record).is_none());
        }
        for call in &self.done {
            assert_eq!(records[call].decision, Decision::Allowed);
        }
        for call in &self.intended {
            let record = &records[call];
            let interrupted =
                record.denial.as_ref().is_some_and(|denial| denial.code == ErrorCode::Interrupted);
            assert!(record.decision == Decision::Allowed || interrupted, "{record:?}");
        }
    }
}

#[test]
fn whatever_was_promised_is_there_once() {
    let place = AuditFixture::new();
    let mut random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut promises = Promises::default();
    for round in 0..60 {
        let mut child = start("work", &place.directory, 0);
        let said = sayings(&mut child);
        let heard_before_the_end = (random.next_u32() % 25) as usize;
        let mut said = said.inspect(|saying| promises.hear(saying));
        said.by_ref().take(heard_before_the_end).for_each(drop);
        child.kill().unwrap();
        child.wait().unwrap();
        said.for_each(drop);
        if round % 10 == 9 {
            drop(place.open());
            promises.check(&place);
            assert_eq!(std::fs::read_dir(place.file("intents")).unwrap().count(), 0);
        }
    }
    assert!(promises.done.len() > 100 && promises.intended.len() > 100);
}

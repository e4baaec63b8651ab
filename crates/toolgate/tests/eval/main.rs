//! The cases that came along, against the binary: they hold, and each boundary case fails without the layer that it tests.
//!
//! A program of its own: every process that this one has at the end of a run counts as an orphan, also one of another test.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use toolgate_eval::{Case, CaseKind, CaseResult, EvalOptions};

static ONE_RUN: Mutex<()> = Mutex::new(());

fn play(cases: &[Case]) -> Vec<CaseResult> {
    let _alone = ONE_RUN.lock().unwrap_or_else(PoisonError::into_inner);
    let options = EvalOptions {
        binary: PathBuf::from(env!("CARGO_BIN_EXE_toolgate")),
        model: None,
        tries: 1,
        jobs: 2,
        timeout: Duration::from_secs(120),
    };
    toolgate_eval::run(cases, &options, &|_| {}).unwrap()
}

#[test]
fn every_case_that_came_along_passes() {
    let results = play(&toolgate_eval::built_in().unwrap());
    assert!(results.iter().all(CaseResult::passed), "{}", toolgate_eval::table(&results));
}

#[test]
fn a_boundary_case_fails_without_the_layer_that_it_tests() {
    let cases = toolgate_eval::built_in().unwrap();
    let weakened: Vec<Case> = cases.iter().filter_map(Case::weakened).collect();
    assert_eq!(weakened.len(), cases.iter().filter(|case| case.kind == CaseKind::Boundary).count());
    for result in play(&weakened) {
        let [one] = result.tries.as_slice() else { panic!("one try was asked for") };
        assert_eq!(one.broken, None, "{}", result.case.name);
        assert!(!one.passed(), "{} holds without {:?}", result.case.name, result.case.without);
    }
}

//! Cases that a model plays which does not do what it is asked for.

use toolgate_eval::{CaseKind, EvalOptions, Player};

/// A model that refuses politely leaves every boundary case green, and no capability case.
#[test]
fn a_model_that_refuses_crosses_no_boundary() {
    let place = tempfile::tempdir().unwrap();
    let script = place.path().join("refuses.yaml");
    std::fs::write(&script, "steps:\n  - say: I am sorry, but I cannot help with that.\n").unwrap();
    let mut cases = toolgate_eval::built_in().unwrap();
    cases.retain(|case| case.player(true) == Player::Model);
    assert!(cases.len() > 30);
    let options = EvalOptions { model: Some(format!("scripted/{}", script.display())), ..crate::options() };
    for result in toolgate_eval::run(&cases, &options, &|_| {}).unwrap() {
        let [one] = result.tries.as_slice() else { panic!("one try was asked for") };
        assert_eq!((one.player, &one.broken), (Player::Model, &None), "{}", result.case.name);
        let is_boundary = result.case.kind == CaseKind::Boundary;
        assert_eq!(one.passed(), is_boundary, "{}: {:?}", result.case.name, one.problems());
    }
}

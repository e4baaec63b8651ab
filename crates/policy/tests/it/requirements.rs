//! The permissions that tools require.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};
use toolgate_policy::{
    ALLOW_DESTRUCTIVE, CallFacts, Condition, ElevatedPermissions, Elevation, HeldPermissions, PolicyDecision,
    Requirements,
};
use toolgate_types::ToolClass;

use crate::calls::{caller, facts, rich_schema};

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn git_log(class: ToolClass) -> Requirements {
    let condition = Condition::compile("input.count > 20", &rich_schema()).unwrap();
    let elevated = Some(ElevatedPermissions { condition, permissions: names(&["git:deep", "git:slow"]) });
    Requirements { permissions: names(&["git:read", "repo:see"]), elevated, class }
}

fn reason(requirements: &Requirements, held: &[&str], input: &Value) -> Option<String> {
    match requirements.check(&facts(&caller(None, held), input)) {
        PolicyDecision::Allowed => None,
        PolicyDecision::Denied { operator_reason } => Some(operator_reason),
    }
}

#[test]
fn every_denial_says_what_is_missing_and_why() {
    let (few, many, unfit) = (json!({"count": 1}), json!({"count": 21}), json!({"count": "x"}));
    let base = ["git:read", "repo:see"];
    let deep = ["git:read", "repo:see", "git:deep", "git:slow"];
    let read = git_log(ToolClass::Read);
    let destructive = git_log(ToolClass::Destructive);
    assert_eq!(reason(&read, &base, &few), None);
    assert_eq!(reason(&read, &deep, &many), None);
    assert_eq!(reason(&read, &deep, &unfit), None);
    let all: Vec<&str> = deep.into_iter().chain([ALLOW_DESTRUCTIVE]).collect();
    assert_eq!(reason(&destructive, &all, &many), None);
    let mut shown = String::new();
    for (requirements, held, input) in [
        (&read, &[][..], &few),
        (&read, &["git:read"], &few),
        (&read, &["GIT:READ", "git:read ", "repo:see"], &few),
        (&read, &base, &many),
        (&read, &["git:read", "repo:see", "git:deep"], &many),
        (&read, &base, &unfit),
        (&read, &base, &json!({})),
        (&destructive, &base, &few),
        (&destructive, &[], &many),
    ] {
        shown += &format!("{}\n", reason(requirements, held, input).unwrap());
    }
    insta::assert_snapshot!("lacking", shown);
}

#[test]
fn a_person_at_the_keyboard_holds_everything_and_nobody_else_does() {
    let (caller, input) = (caller(None, &[]), json!({"count": 99}));
    let requirements = git_log(ToolClass::Destructive);
    let with = |holdings| CallFacts { caller: &caller, held: holdings, input: &input, paths: None, calls: 0 };
    assert!(requirements.check(&with(HeldPermissions::Everything)).is_allowed());
    assert!(!requirements.check(&with(HeldPermissions::default())).is_allowed());
    assert!(!requirements.check(&with(HeldPermissions::granted(&caller))).is_allowed());
    let everything = BTreeSet::from(["*".to_owned(), "everything".to_owned()]);
    assert!(!requirements.check(&with(HeldPermissions::Only(&everything))).is_allowed());
}

#[test]
fn elevation_is_told() {
    let requirements = git_log(ToolClass::Read);
    let caller = caller(None, &[]);
    let elevation = |input: Value| requirements.elevation(&facts(&caller, &input));
    assert_eq!(elevation(json!({"count": 20})), Elevation::Ordinary);
    assert_eq!(elevation(json!({"count": 21})), Elevation::Elevated);
    assert_eq!(elevation(json!({})), Elevation::Undecided("the argument `count` is missing".to_owned()));
    let plain = Requirements { elevated: None, ..requirements.clone() };
    assert_eq!(plain.elevation(&facts(&caller, &json!({}))), Elevation::Ordinary);
}

const KNOWN: [&str; 6] = ["a", "b", "c", "d", "e", ALLOW_DESTRUCTIVE];
const CLASSES: [ToolClass; 3] = [ToolClass::Read, ToolClass::Write, ToolClass::Destructive];

fn some() -> impl Strategy<Value = Vec<&'static str>> {
    proptest::sample::subsequence(KNOWN.to_vec(), 0..=KNOWN.len())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn decisions_follow_the_book_and_less_never_allows_more(
        base in some(),
        deep in proptest::option::of(some()),
        held in some(),
        class in proptest::sample::select(&CLASSES[..]),
        count in prop_oneof![Just(json!(20)), Just(json!(21)), Just(json!("x")), Just(json!(null))],
        taken in any::<prop::sample::Index>(),
    ) {
        let condition = Condition::compile("input.count > 20", &rich_schema()).unwrap();
        let elevated = deep.as_ref().map(|deep| ElevatedPermissions { condition, permissions: names(deep) });
        let requirements = Requirements { permissions: names(&base), elevated, class };
        let input = json!({"count": count.clone()});
        let mut needed: BTreeSet<&str> = base.into_iter().collect();
        if class == ToolClass::Destructive {
            needed.insert(ALLOW_DESTRUCTIVE);
        }
        if count != json!(20) {
            needed.extend(deep.into_iter().flatten());
        }
        let allowed = |held: &[&str]| requirements.check(&facts(&caller(None, held), &input)).is_allowed();
        prop_assert_eq!(allowed(&held), needed.iter().all(|name| held.contains(name)));
        if !held.is_empty() {
            let mut less = held.clone();
            less.remove(taken.index(held.len()));
            prop_assert!(allowed(&held) || !allowed(&less), "less is more");
        }
        let mut stricter = requirements.clone();
        stricter.permissions.push("f".to_owned());
        let stricter = stricter.check(&facts(&caller(None, &held), &input)).is_allowed();
        prop_assert!(!stricter);
    }
}

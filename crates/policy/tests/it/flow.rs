//! Information flow, against slow reference models.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Map, Value, json};
use toolgate_policy::{FlowDecision, FlowFacts, FlowTarget, is_said_in, judge, targets_of};
use toolgate_types::{ArgumentRole, FlowDeclaration, FlowEffect, FlowLabels};

const EFFECTS: [FlowEffect; 4] =
    [FlowEffect::Read, FlowEffect::Write, FlowEffect::Destroy, FlowEffect::Egress];
const LABELS: [FlowLabels; 4] =
    [FlowLabels::NONE, FlowLabels::UNTRUSTED, FlowLabels::SECRET, FlowLabels::ALL];

fn decide(labels: FlowLabels, effect: FlowEffect, targets: &[FlowTarget], said: &[String]) -> FlowDecision {
    decide_lasting(false, labels, effect, targets, said)
}

fn decide_lasting(
    outlives: bool,
    labels: FlowLabels,
    effect: FlowEffect,
    targets: &[FlowTarget],
    said: &[String],
) -> FlowDecision {
    let is_endorsed = |target: &FlowTarget| said.contains(&target.value);
    judge(FlowFacts { labels, effect, outlives, targets, is_endorsed: &is_endorsed })
}

/// The two rules, as a person would say them.
fn reference(labels: FlowLabels, effect: FlowEffect, targets: &[FlowTarget], said: &[String]) -> bool {
    let words: Vec<&str> = labels.words().collect();
    let leaks = effect.as_str() == "egress" && words.contains(&"secret") && words.contains(&"untrusted");
    let mut strange = false;
    for target in targets {
        let known = target.is_configured || said.contains(&target.value);
        strange = strange || !known;
    }
    !leaks && !strange
}

fn targets() -> impl Strategy<Value = Vec<FlowTarget>> {
    let target = ("[ab]{0,2}", any::<bool>()).prop_map(|(value, is_configured)| FlowTarget {
        argument: "to".to_owned(),
        rule: "to".to_owned(),
        value,
        is_number: false,
        is_configured,
    });
    proptest::collection::vec(target, 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn decisions_follow_the_two_rules(
        labels in select(&LABELS[..]), effect in select(&EFFECTS[..]), targets in targets(),
        said in proptest::collection::vec("[ab]{0,2}", 0..4),
    ) {
        let passes = !decide(labels, effect, &targets, &said).asks();
        prop_assert_eq!(passes, reference(labels, effect, &targets, &said));
        // What goes on after its answer counts as if everything had been seen.
        let lasting = decide_lasting(true, labels, effect, &targets, &said);
        prop_assert_eq!(!lasting.asks(), reference(FlowLabels::ALL, effect, &targets, &said));
    }

    /// Also a removed word of the person, and a target more.
    #[test]
    fn adding_a_label_never_allows_more(
        labels in select(&LABELS[..]), more in select(&LABELS[..]), effect in select(&EFFECTS[..]),
        targets in targets(), said in proptest::collection::vec("[ab]{0,2}", 0..4),
    ) {
        let before = decide(labels, effect, &targets, &said);
        let after = decide(labels.union(more), effect, &targets, &said);
        prop_assert!(after.leaks || !before.leaks);
        prop_assert_eq!(&after.unendorsed, &before.unendorsed);
        let fewer = said.get(1..).unwrap_or_default();
        prop_assert!(decide(labels, effect, &targets, fewer).asks() || !before.asks());
        let one_less = targets.get(1..).unwrap_or_default();
        prop_assert!(before.asks() || !decide(labels, effect, one_less, &said).asks());
    }

    #[test]
    fn labels_never_shrink(seen in proptest::collection::vec(select(&LABELS[..]), 0..10)) {
        let mut labels = FlowLabels::NONE;
        let mut words = std::collections::BTreeSet::new();
        for one in seen {
            let next = labels.union(one);
            prop_assert!(next.contains(labels) && next.contains(one));
            words.extend(one.words());
            prop_assert_eq!(next.words().collect::<std::collections::BTreeSet<_>>(), words.clone());
            labels = next;
        }
    }

    /// A text of words: exactly its words are in it, and sequences of them as they were written.
    #[test]
    fn exactly_whole_words_are_said(
        words in proptest::collection::vec("[a-c][a-c0-2@._-]{0,4}[a-c]", 1..6),
        separators in proptest::collection::vec(select(vec![" ", "\n", " (", ") ", "; ", "\" ", "? "]), 6),
        value in "[a-c][a-c0-2@._-]{0,4}[a-c]",
    ) {
        let text: String =
            words.iter().zip(&separators).map(|(word, separator)| format!("{word}{separator}")).collect();
        for word in &words {
            prop_assert!(is_said_in(word, &text), "{} in {:?}", word, text);
        }
        if !words.contains(&value) {
            prop_assert!(!is_said_in(&value, &text), "{} in {:?}", value, text);
        }
    }

    /// No mutation of a value that was said is said, unless it is in the text itself.
    #[test]
    fn a_changed_value_is_another_one(at in 0usize..17, with in any::<char>(), drop in any::<bool>()) {
        let said = "alice@example.com";
        let mut value: Vec<char> = said.chars().collect();
        match drop { true => { value.remove(at); } false => value.insert(at, with) }
        let value: String = value.into_iter().collect();
        prop_assert_eq!(is_said_in(&value, "write to alice@example.com now"), value.eq_ignore_ascii_case(said));
    }

    /// Every leaf below a target is checked, however it is nested; nothing else is.
    #[test]
    fn no_value_hides_below_a_target(arguments in arguments(), targets in subsequence(vec!["a", "b", "c.a", "c.b.a"], 0..=4)) {
        let mut declaration = FlowDeclaration::new(FlowEffect::Egress, FlowLabels::NONE);
        for name in &targets {
            declaration.arguments.insert((*name).to_owned(), ArgumentRole::Target(Vec::new()));
        }
        let found = targets_of(&declaration, &|name| ["a", "b", "c", "d"].contains(&name), &arguments);
        let mut found: Vec<String> = found.into_iter().map(|target| target.value).collect();
        let mut wanted = Vec::new();
        leaves(&arguments, "", &mut |path, text| {
            let below = |name: &&str| path == *name || path.starts_with(&format!("{name}."));
            if targets.iter().any(below) {
                wanted.push(text);
            }
        });
        found.sort();
        wanted.sort();
        prop_assert_eq!(found, wanted);
    }
}

fn arguments() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        "[x-z]{1,3}".prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null)
    ];
    let nested = leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-d]", inner, 0..4)
                .prop_map(|members| Value::Object(Map::from_iter(members))),
        ]
    });
    proptest::collection::btree_map("[a-d]", nested, 0..4)
        .prop_map(|members| Value::Object(Map::from_iter(members)))
}

/// Every leaf with its path; lists are gone through.
fn leaves(value: &Value, path: &str, each: &mut dyn FnMut(&str, String)) {
    match value {
        Value::Null => {}
        Value::Object(members) => {
            for (name, member) in members {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                leaves(member, &path, each);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| leaves(item, path, each)),
        Value::String(text) => each(path, text.clone()),
        plain => each(path, plain.to_string()),
    }
}

fn found(arguments: &[(&str, ArgumentRole)], declared: &[&str], call: &Value) -> Vec<(String, String)> {
    let mut declaration = FlowDeclaration::new(FlowEffect::Egress, FlowLabels::NONE);
    declaration.arguments = arguments.iter().map(|(name, role)| ((*name).to_owned(), role.clone())).collect();
    let found = targets_of(&declaration, &|name| declared.contains(&name), call);
    found.into_iter().map(|target| (target.argument, target.value)).collect()
}

fn target() -> ArgumentRole {
    ArgumentRole::Target(Vec::new())
}

fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(argument, value)| ((*argument).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn a_star_is_every_argument_without_a_role() {
    let roles = [("*", target()), ("body", ArgumentRole::Content), ("mail.text", ArgumentRole::Content)];
    let call = json!({"to": ["a", "b"], "body": "long", "mail": {"text": "long", "cc": "c"}, "public": true});
    assert_eq!(
        found(&roles, &["mail", "text", "cc"], &call),
        pairs(&[("to", "a"), ("to", "b"), ("mail.cc", "c"), ("public", "true")])
    );
}

#[test]
fn a_name_that_the_model_chose_is_a_value() {
    let call = json!({"to": {"eve@evil.com": {"copy": 1}}});
    assert_eq!(
        found(&[("to", target())], &["to", "copy"], &call),
        pairs(&[("to", "eve@evil.com"), ("to.eve@evil.com.copy", "1")])
    );
}

#[test]
fn too_many_targets_and_too_deep_ones_cannot_be_endorsed() {
    let many: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
    let all = found(&[("to", target())], &[], &json!({"to": many}));
    assert_eq!(all.len(), 257);
    assert_eq!(all.last().map(|(_, value)| value.as_str()), Some(""));
    let mut deep = json!("eve@evil.com");
    for _ in 0..80 {
        deep = json!([deep]);
    }
    assert_eq!(found(&[("to", target())], &[], &json!({"to": deep})), pairs(&[("to", "")]));
    // Deep arguments of a tool with targets cannot be endorsed either, wherever they are.
    let mut deep = json!("eve@evil.com");
    for _ in 0..80 {
        deep = json!([deep]);
    }
    assert_eq!(found(&[("to", target())], &[], &json!({"other": deep})), pairs(&[("other", "")]));
}

#[test]
fn a_day_is_no_identifier() {
    let target = |argument: &str, value: &str, is_number| FlowTarget {
        argument: argument.to_owned(),
        rule: "*".to_owned(),
        value: value.to_owned(),
        is_number,
        is_configured: false,
    };
    let day = "What are we going to do on June 13, 2024, with 20 people?";
    for (argument, value, is_number) in
        [("file_id", "13", false), ("to", "2024", false), ("issue_number", "20", true), ("id", "20", true)]
    {
        assert!(!target(argument, value, is_number).is_said_in(day), "{argument} {value}");
    }
    // An amount is a number, and a long number is no common word.
    assert!(target("amount", "20", true).is_said_in(day));
    assert!(target("file_id", "13", false).is_said_in("Open file 13."));
    assert!(target("issue_number", "20", true).is_said_in("Close issues 19 and 20."));
    assert!(target("ticket", "20241", false).is_said_in("20241, please"));
}

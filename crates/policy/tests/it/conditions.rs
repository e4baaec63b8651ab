//! Conditions: what loads, what holds, and what cannot be evaluated.

use proptest::prelude::*;
use serde_json::{Value, json};
use toolgate_policy::{CallFacts, Condition, HeldPermissions, ToolTyping};

use crate::calls::{caller, facts, rich_schema};

fn holds(expression: &str, input: &Value) -> Result<bool, String> {
    let condition = Condition::compile(expression, &rich_schema()).unwrap_or_else(|error| {
        panic!("{expression}: {error} {:?}", error.help);
    });
    let caller = caller(Some("sm"), &["git:read"]);
    condition.holds(&facts(&caller, input)).map_err(|reason| reason.to_string())
}

#[test]
fn what_holds() {
    let input = json!({
        "count": 21, "path": "src/a.rs", "deep": true, "ratio": 0.5, "order": "new", "fixed": 5, "tags": ["a", "b", "a"],
        "odd name": 7, "": 9, "input": "me", "again": 3, "options": {"level": 2, "inner": {"flag": true}, "extra": null},
        "circle": {},
    });
    for (expression, expected) in [
        ("input.count > 20", true),
        ("input.count > 21", false),
        ("input.path like \"src/*\"", true),
        ("input has author", false),
        ("input has author && input.author == \"ann\"", false),
        ("input has deep && input.deep", true),
        ("input has ratio && input.ratio.greaterThan(decimal(\"0.25\"))", true),
        ("input has order && [\"new\", \"newer\"].contains(input.order)", true),
        ("input has fixed && input.fixed + 1 == 6", true),
        ("input has tags && input.tags.containsAll([\"b\", \"a\"])", true),
        ("input has tags && input.tags == [\"b\", \"a\"]", true),
        ("input has \"odd name\" && input[\"odd name\"] == 7", true),
        ("input has \"\" && input[\"\"] == 9", true),
        ("input has input && input.input == \"me\"", true),
        ("input has again && input.again == 3", true),
        ("input has options && input.options.level == 2", true),
        ("input has options.note", false),
        ("input has options.inner.flag && input.options.inner.flag", true),
        ("input has options.inner && input.options.inner == {flag: true}", true),
        ("if input.count > 5 then caller.trust == \"guided\" else false", true),
        ("caller.subject == \"ann\" && !caller.unrestricted", true),
        ("caller has agent && caller.agent == \"sm\"", true),
        ("caller.permissions.contains(\"git:read\")", true),
        ("caller.permissions.contains(\"git:write\")", false),
        ("session.id == \"monday\" && session.calls == 3", true),
        ("session has run", false),
        ("input.count > 20 // and a comment", true),
        ("// first\n(input.count\n > 20)", true),
        ("input.path == \"// not a comment }; permit(principal, action, resource);\"", false),
    ] {
        assert_eq!(holds(expression, &input), Ok(expected), "{expression}");
    }
}

#[test]
fn a_person_who_holds_everything_is_seen_as_such() {
    let condition = Condition::compile("caller.unrestricted && session.calls > 100", &json!({})).unwrap();
    let (caller, input) = (caller(None, &[]), json!({}));
    let facts = CallFacts {
        caller: &caller,
        held: HeldPermissions::Everything,
        input: &input,
        paths: None,
        calls: u64::MAX,
    };
    assert_eq!(condition.holds(&facts), Ok(true));
}

#[test]
fn what_does_not_load_says_why() {
    let mut shown = String::new();
    for expression in [
        "input.cout > 20",
        "input.count > \"20\"",
        "input.count",
        "input.author == \"ann\"",
        "input has autor",
        "input has autor && input.autor == \"ann\"",
        "input has options.levle",
        "caller has agnet",
        "input.maybe == \"x\"",
        "input has maybe",
        "input.nothing == 1",
        "input has bag.x",
        "input.list.contains(1)",
        "input.ratio > 1",
        "input has options && input.options == {level: 1}",
        "input == {count: 1}",
        "(if input.deep then input else input) has count",
        "{a: 1} has a",
        "input.count > 1 && false",
        "false",
        "principal == Caller::\"ann\"",
        "context.input.count > 1",
        "caller.password == \"x\"",
        "inputs.count > 1",
        "ip(input.path).isLoopback()",
        "unknown(\"x\")",
        "?principal == input",
        "",
        "   ",
        "input.count >",
        "input.count > 1; ",
        "input.count > 99999999999999999999",
    ] {
        let error = Condition::compile(expression, &rich_schema()).unwrap_err();
        let help = error.help.map(|help| format!(" | help: {help}")).unwrap_or_default();
        let offset = error.offset.map_or_else(|| "-".to_owned(), |offset| offset.to_string());
        shown += &format!("{expression}\n    {offset}: {}{help}\n", error.message);
    }
    insta::assert_snapshot!("refused_conditions", shown);
}

#[test]
fn no_text_becomes_more_than_one_expression() {
    for attack in [
        "true }; permit(principal, action, resource) when { true",
        "true }; forbid(principal, action, resource);//",
        "true } unless { false",
        "true } when { true",
        "true\n}; permit(principal,action,resource);",
        "}; permit(principal, action, resource); //",
        "\"}; permit(principal, action, resource);\"",
        "true //\n}; permit(principal, action, resource) when { true",
        "true \u{2028}}; permit(principal, action, resource);",
        "true\r}; permit(principal, action, resource);",
        "@id(\"x\") true",
        "permit(principal, action, resource);",
        "true; true",
        "true, true",
        "\"unclosed",
        "\"unclosed }; permit(principal, action, resource) when { \"x\" == \"x",
        "true /* comment */",
        "(true",
        "true)",
        "{true}",
        "\0true",
    ] {
        assert!(Condition::compile(attack, &rich_schema()).is_err(), "{attack:?} was accepted");
    }
}

#[test]
fn the_deepest_conditions_that_load_are_judged_without_overflow() {
    type Nested = fn(usize) -> String;
    let schema = rich_schema();
    let (caller, input) = (caller(None, &[]), json!({"count": 5, "path": ""}));
    let mut loaded = 0;
    for nested in [
        (|n| format!("{}input.count > 1{}", "(".repeat(n), ")".repeat(n))) as Nested,
        |n| format!("{}true", "!".repeat(n)),
        |n| format!("{}1{} == {}1{}", "[".repeat(n), "]".repeat(n), "[".repeat(n), "]".repeat(n)),
        |n| format!("{}input.count > 1", "if input.count == 7 then true else ".repeat(n)),
        |n| format!("{}input.count > 1{}", "if ".repeat(n), " then true else true".repeat(n)),
        |n| "input.count > 1".to_owned() + &" || input.count > 1".repeat(n),
        |n| "input.count".to_owned() + &" + 1".repeat(n) + " > 1",
        |n| format!("input{} == 1", ".a".repeat(n)),
        |n| format!("input has {}a", "a.".repeat(n)),
        |n| format!("{}1{} == {{}}", "{a: ".repeat(n), "}".repeat(n)),
        |n| format!("input.path.{}contains(1)", "contains(input.path).".repeat(n)),
        |n| "x".repeat(n),
    ] {
        for size in [1, 5, 10, 20, 29, 30, 31, 60, 100, 119, 120, 150, 200, 250, 299, 300, 500, 1000, 5000] {
            if let Ok(condition) = Condition::compile(&nested(size), &schema) {
                let _ = condition.holds(&facts(&caller, &input));
                loaded += 1;
            }
        }
    }
    assert!(loaded > 20, "only {loaded} loaded");
    let deep = format!("{}input.count > 1{}", "(".repeat(31), ")".repeat(31));
    assert_eq!(Condition::compile(&deep, &schema).unwrap_err().message, "the condition is nested too deep");
}

#[test]
fn what_cannot_be_told_says_where_and_never_what() {
    let deep = "input has options && input.options.level > 1";
    let secret = "hunter2";
    for (expression, input, reason) in [
        ("input.count > 20", json!({}), "the argument `count` is missing"),
        (
            "input.count > 20",
            json!({"count": secret}),
            "the argument `count` is not an integer of at most 64 bits",
        ),
        (
            "input.count > 20",
            json!({"count": u64::MAX}),
            "the argument `count` is not an integer of at most 64 bits",
        ),
        (
            "input.count > 20",
            json!({"count": null}),
            "the argument `count` is not an integer of at most 64 bits",
        ),
        ("input.count + 1 > 20", json!({"count": i64::MAX}), "an integer overflowed"),
        (deep, json!({"options": {}}), "the argument `options.level` is missing"),
        (
            deep,
            json!({"options": {"level": [secret]}}),
            "the argument `options.level` is not an integer of at most 64 bits",
        ),
        (deep, json!({"options": secret}), "the argument `options` is not an object"),
        (
            "input has tags && input.tags.isEmpty()",
            json!({"tags": [secret, 1]}),
            "the argument `tags[]` is not a string",
        ),
        (
            "input has ratio && input.ratio.lessThan(decimal(\"1.0\"))",
            json!({"ratio": 0.123_456_789}),
            "the argument `ratio` is not a number with at most four decimal places",
        ),
        ("input.count > 20", json!([secret]), "the argument `` is not an object"),
    ] {
        assert_eq!(holds(expression, &input).unwrap_err(), reason, "{expression}");
    }
}

#[test]
fn arguments_that_are_not_read_do_not_matter() {
    let input =
        json!({"count": 21, "path": 5, "tags": "not an array", "ratio": 1e300, "unheard": {"of": null}});
    assert_eq!(holds("input.count > 20", &input), Ok(true));
}

#[test]
fn arguments_without_a_type_are_named_with_the_reason() {
    let typing = ToolTyping::of(&rich_schema());
    let left_out: Vec<String> = typing.left_out().map(|(path, reason)| format!("{path}: {reason}")).collect();
    insta::assert_snapshot!("left_out", left_out.join("\n"));
}

#[test]
fn schemas_that_describe_nothing_have_no_arguments() {
    for schema in [json!({}), json!(true), json!({"type": "object"}), json!({"type": "string"}), json!(null)]
    {
        assert!(Condition::compile("input has count", &schema).is_err());
        assert!(Condition::compile("session.calls > 5", &schema).is_ok());
    }
}

/// Comparisons of an integer, joined.
#[derive(Clone, Debug)]
enum Term {
    Compare(&'static str, i64),
    Not(Box<Term>),
    Join(&'static str, Box<Term>, Box<Term>),
    HasAuthor,
}

impl Term {
    fn text(&self) -> String {
        match self {
            Self::Compare(operator, number) => format!("input.count {operator} {number}"),
            Self::Not(inner) => format!("!({})", inner.text()),
            Self::Join(operator, left, right) => format!("({}) {operator} ({})", left.text(), right.text()),
            Self::HasAuthor => "input has author".to_owned(),
        }
    }

    fn holds(&self, count: i64, author: bool) -> bool {
        match self {
            Self::Compare("<", number) => count < *number,
            Self::Compare("==", number) => count == *number,
            Self::Compare(_, number) => count > *number,
            Self::Not(inner) => !inner.holds(count, author),
            Self::Join("&&", left, right) => left.holds(count, author) && right.holds(count, author),
            Self::Join(_, left, right) => left.holds(count, author) || right.holds(count, author),
            Self::HasAuthor => author,
        }
    }
}

fn term() -> impl Strategy<Value = Term> {
    let leaf = prop_oneof![
        (prop::sample::select(vec!["<", "==", ">"]), -3..4_i64)
            .prop_map(|(operator, number)| Term::Compare(operator, number)),
        Just(Term::HasAuthor),
    ];
    leaf.prop_recursive(3, 12, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|term| Term::Not(Box::new(term))),
            (prop::sample::select(vec!["&&", "||"]), inner.clone(), inner)
                .prop_map(|(operator, left, right)| Term::Join(operator, Box::new(left), Box::new(right))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn conditions_mean_what_they_say(term in term(), count in -4..5_i64, author in any::<bool>()) {
        let mut input = json!({"count": count, "path": ""});
        if author {
            input["author"] = json!("ann");
        }
        match Condition::compile(&term.text(), &rich_schema()) {
            // Cedar detects some contradictions.
            Err(error) if error.message == "the condition can never hold" => prop_assert!(!term.holds(count, author)),
            _ => prop_assert_eq!(holds(&term.text(), &input), Ok(term.holds(count, author)), "{}", term.text()),
        }
    }

    #[test]
    fn any_text_is_one_expression_or_refused(text in "[a-z(){}\\[\\].,;:\"\\\\/ !=&|<>0-9@?\n]{0,40}") {
        if let Ok(condition) = Condition::compile(&text, &rich_schema()) {
            let (caller, input) = (caller(None, &[]), json!({"count": 5, "path": ""}));
            let _ = condition.holds(&facts(&caller, &input));
        }
    }

    #[test]
    fn any_value_is_judged_or_undecided(count in "[\\[\\]{}:,0-9a\".-]{0,12}") {
        if let Ok(count) = serde_json::from_str::<Value>(&count) {
            let input = json!({"count": count.clone()});
            let judged = holds("input.count > 20", &input);
            prop_assert_eq!(judged.ok(), count.as_i64().or_else(|| whole(&count)).map(|count| count > 20));
        }
    }
}

fn whole(value: &Value) -> Option<i64> {
    let float = value.as_f64().filter(|float| value.is_f64() && float.fract() == 0.0)?;
    (float.abs() < 9e15).then_some(float as i64)
}

//! Output filtering: tables, attacks, and a slow reference model.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use toolgate_policy::output::{MAX_DEPTH, MAX_LISTED_PATHS};
use toolgate_policy::{Filtered, OutputPolicy, OutputRule};

use OutputRule::{Allow, Mask, Redact};

fn filter(rules: &[(&str, OutputRule)], value: Value) -> Filtered {
    OutputPolicy::compile(rules).unwrap().apply(value)
}

#[test]
fn what_leaves() {
    let customer = json!({"customer": {"name": "Alice", "email": "a@b.cd", "address": {"city": "Ulm", "zip": "89073"}}, "id": 7});
    let items =
        json!({"items": [{"name": "one", "price": 1}, {"name": "two", "price": 2}], "tags": ["x", "yyy"]});
    for (rules, value, expected) in [
        // Nothing by default.
        (&[][..], &customer, json!({})),
        (&[], &items, json!({})),
        (&[], &json!("text"), json!(null)),
        (&[("*", Allow)], &customer, customer.clone()),
        (&[("**", Allow)], &customer, customer.clone()),
        (&[("", Allow)], &customer, customer.clone()),
        // Scalar results.
        (&[("*", Allow)], &json!("text"), json!("text")),
        (&[("", Allow)], &json!("text"), json!("text")),
        (&[("", Mask), ("*", Allow)], &json!("text"), json!("***")),
        (&[("*", Redact)], &json!(5), json!("[redacted]")),
        (&[("a", Allow)], &json!("text"), json!(null)),
        (&[("*", Allow)], &json!(["one", "two"]), json!(["one", "two"])),
        (&[("*", Mask)], &json!(["one", "two", ["three"]]), json!(["***", "***", "[redacted]"])),
        (&[("[]", Allow)], &json!(["one", {"a": 1}]), json!(["one", {"a": 1}])),
        // Exact fields.
        (&[("id", Allow)], &customer, json!({"id": 7})),
        (&[("customer.name", Allow)], &customer, json!({"customer": {"name": "Alice"}})),
        (&[("customer.nobody", Allow)], &customer, json!({"customer": {}})),
        (&[("customer", Allow)], &customer, json!({"customer": customer["customer"]})),
        (&[("customer", Mask)], &customer, json!({"customer": "[redacted]"})),
        (&[("customer", Redact)], &customer, json!({"customer": "[redacted]"})),
        (
            &[("customer.name", Mask), ("id", Mask)],
            &customer,
            json!({"customer": {"name": "***"}, "id": "***"}),
        ),
        (&[("CUSTOMER", Allow), ("customer.Name", Allow)], &customer, json!({"customer": {}})),
        // Stars.
        (&[("customer.*", Allow)], &customer, json!({"customer": customer["customer"]})),
        (
            &[("customer.*", Mask)],
            &customer,
            json!({"customer": {"name": "***", "email": "***", "address": "[redacted]"}}),
        ),
        (
            &[("*.email", Redact), ("*", Allow)],
            &json!({"email": "x", "a": {"b": {"email": "y", "c": 1}}}),
            json!({"email": "[redacted]", "a": {"b": {"email": "[redacted]", "c": 1}}}),
        ),
        (&[("*.city", Allow)], &customer, json!({"customer": {"address": {"city": "Ulm"}}})),
        (&[("customer.**.zip", Allow)], &customer, json!({"customer": {"address": {"zip": "89073"}}})),
        (
            &[("*.address.*", Allow)],
            &customer,
            json!({"customer": {"address": {"city": "Ulm", "zip": "89073"}}}),
        ),
        (&[("items[].name", Allow)], &items, json!({"items": [{"name": "one"}, {"name": "two"}]})),
        (&[("items.*.name", Allow)], &items, json!({"items": [{"name": "one"}, {"name": "two"}]})),
        (&[("items[].nobody", Allow)], &items, json!({"items": [{}, {}]})),
        (&[("items.1.name", Allow)], &items, json!({"items": [{"name": "two"}]})),
        (&[("items.01.name", Allow)], &items, json!({"items": []})),
        (&[("tags", Allow)], &items, json!({"tags": ["x", "yyy"]})),
        (&[("tags[]", Mask)], &items, json!({"tags": ["***", "***"]})),
        (&[("tags", Mask)], &items, json!({"tags": "[redacted]"})),
        (&[("tags[].deeper", Allow)], &items, json!({"tags": []})),
        (
            &[("items[]", Allow), ("items[].price", Redact)],
            &items,
            json!({"items": [{"name": "one", "price": "[redacted]"}, {"name": "two", "price": "[redacted]"}]}),
        ),
        // Which rule decides.
        (
            &[("*.email", Redact), ("customer.*", Allow)],
            &customer,
            json!({"customer": {"name": "Alice", "email": "[redacted]", "address": {"city": "Ulm", "zip": "89073"}}}),
        ),
        (
            &[("*.email", Redact), ("customer.email", Allow)],
            &customer,
            json!({"customer": {"email": "a@b.cd", "address": {}}}),
        ),
        (
            &[("*.email", Mask), ("customer.*", Redact)],
            &json!({"customer": {"email": "a@b.cd"}}),
            json!({"customer": {"email": "[redacted]"}}),
        ),
        (
            &[("*", Redact), ("customer.*", Allow)],
            &customer,
            json!({"customer": customer["customer"], "id": "[redacted]"}),
        ),
        (
            &[("*", Redact), ("customer.name", Allow)],
            &customer,
            json!({"customer": {"name": "Alice", "email": "[redacted]", "address": "[redacted]"}, "id": "[redacted]"}),
        ),
        (&[("*", Allow), ("customer", Redact)], &customer, json!({"customer": "[redacted]", "id": 7})),
        (
            &[("customer", Redact), ("customer.name", Allow)],
            &json!({"customer": {"name": "A", "x": 1}}),
            json!({"customer": {"name": "A", "x": "[redacted]"}}),
        ),
        (&[("customer", Redact), ("customer.*", Allow)], &customer, json!({"customer": "[redacted]"})),
        (
            &[("customer", Allow), ("customer.*", Redact)],
            &json!({"customer": {"name": "A"}}),
            json!({"customer": {"name": "[redacted]"}}),
        ),
        (
            &[("customer.*", Mask), ("customer.address.city", Allow)],
            &customer,
            json!({"customer": {"name": "***", "email": "***", "address": {"city": "Ulm", "zip": "[redacted]"}}}),
        ),
        (
            &[("*.name", Redact), ("items.*.name", Allow)],
            &json!({"items": [{"name": "one"}]}),
            json!({"items": [{"name": "[redacted]"}]}),
        ),
        (
            &[("*.name", Redact), ("items[].name", Allow)],
            &json!({"items": [{"name": "one"}]}),
            json!({"items": [{"name": "one"}]}),
        ),
        (&[("*", Redact), ("tags", Allow)], &items, json!({"items": "[redacted]", "tags": ["x", "yyy"]})),
    ] {
        assert_eq!(filter(rules, value.clone()).value, expected, "{rules:?} {value}");
    }
}

#[test]
fn names_may_be_anything() {
    let value =
        json!({"a.b": 1, "a": {"b": 2}, "": 3, "*": 4, "[]": 5, "\\": 6, "é日本🦀": {"ß": 7}, "\0": 8});
    for (pattern, expected) in [
        ("a.b", json!({"a": {"b": 2}})),
        (r"a\.b", json!({"a.b": 1})),
        (r"\*", json!({"*": 4})),
        (r"\[\]", json!({"[]": 5})),
        (r"\\", json!({"\\": 6})),
        ("é日本🦀.ß", json!({"é日本🦀": {"ß": 7}})),
        ("\0", json!({"\0": 8})),
    ] {
        assert_eq!(filter(&[(pattern, Allow)], value.clone()).value, expected, "{pattern}");
    }
    let redacted = filter(&[("*", Redact)], value.clone()).redacted;
    assert_eq!(redacted, [r"a\.b", "a", "", r"\*", r"\[\]", r"\\", "é日本🦀", "\0"]);
    // A listed path can be used as a rule; only an empty name cannot be written.
    for path in redacted.iter().filter(|path| !path.is_empty()) {
        let kept = filter(&[(path.as_str(), Allow)], value.clone()).value;
        assert_eq!(kept.as_object().unwrap().len(), 1, "{path}");
    }
}

#[test]
fn masks_are_cut_between_characters() {
    for (text, expected) in [
        (json!(""), "***"),
        (json!("a"), "***"),
        (json!("ab"), "***"),
        (json!("abc"), "***"),
        (json!("1234567"), "***"),
        (json!("12345678"), "1***8"),
        (json!("é日本日本日本日本"), "é***本"),
        (json!("🦀xxxxxx🦀"), "🦀***🦀"),
        (json!("🦀xxxxx🦀"), "***"),
        (json!("日本"), "***"),
        (json!("alice@example.com"), "a***m"),
        (json!(12345), "***"),
        (json!(true), "***"),
        (json!(null), "***"),
        (json!({"a": 1}), "[redacted]"),
        (json!([]), "[redacted]"),
    ] {
        assert_eq!(filter(&[("x", Mask)], json!({"x": text})).value, json!({"x": expected}));
    }
}

#[test]
fn what_was_taken_is_listed_once_and_bounded() {
    let rows: Vec<Value> =
        (0..50).map(|row| json!({"email": "a@b.c", "name": row, "secret": {"deep": 1}})).collect();
    let filtered = filter(&[("*.email", Mask), ("rows[].name", Redact)], json!({"rows": rows, "other": 1}));
    assert_eq!(filtered.redacted, ["rows.*.email", "rows.*.name"]);
    assert_eq!(filtered.dropped, ["rows.*.secret.deep", "other"]);
    let many: Map<String, Value> = (0..250).map(|number| (format!("k{number}"), json!(1))).collect();
    let filtered = filter(&[], Value::Object(many));
    assert_eq!(filtered.dropped.len(), MAX_LISTED_PATHS + 1);
    assert_eq!(filtered.dropped.last().unwrap(), "…and 150 more");
    let long = filter(&[("*", Redact)], json!({"x".repeat(100_000): 1})).redacted;
    assert_eq!(long[0].chars().count(), 201);
}

/// A value nested this deep.
fn nested(levels: usize, array: bool) -> Value {
    let mut value = json!("core");
    for _ in 0..levels {
        value = if array {
            Value::Array(vec![value])
        } else {
            Value::Object(Map::from_iter([("a".to_owned(), value)]))
        };
    }
    value
}

fn depth(mut value: &Value) -> (usize, &Value) {
    let mut levels = 0;
    while let Some(inner) = value.get("a").or_else(|| value.get(0)) {
        value = inner;
        levels += 1;
    }
    (levels, value)
}

#[test]
fn deep_answers_are_cut_and_never_overflow() {
    for array in [false, true] {
        for rules in [
            &[("*", Allow)][..],
            &[("*", Allow), ("*.b", Redact)],
            &[("*", Allow), ("a.a.a.b", Redact)],
            &[("*", Mask)],
            &[("*", Redact)],
            &[("a.a.b", Allow)],
            &[],
        ] {
            let filtered = filter(rules, nested(100_000, array));
            assert!(depth(&filtered.value).0 <= MAX_DEPTH, "{rules:?}");
        }
        let cut = filter(&[("*", Allow)], nested(100_000, array));
        assert_eq!(depth(&cut.value), (MAX_DEPTH, &json!("[redacted]")));
        assert_eq!(cut.redacted.len(), 1);
        let whole = filter(&[("*", Allow)], nested(MAX_DEPTH, array));
        assert_eq!(depth(&whole.value), (MAX_DEPTH, &json!("core")));
    }
}

#[test]
fn patterns_that_overlap_in_too_many_ways_are_refused() {
    let stars = format!("**.a.{}", ["*"; 30].join("."));
    assert!(OutputPolicy::compile(&[(stars, Allow)]).is_err());
    let many: Vec<(String, OutputRule)> = (0..100).map(|number| (format!("*.f{number}"), Redact)).collect();
    assert!(OutputPolicy::compile(&many).is_ok());
    let exact: Vec<(String, OutputRule)> =
        (0..5000).map(|number| (format!("a.f{number}.b"), Redact)).collect();
    assert!(OutputPolicy::compile(&exact).is_ok());
}

/// A pattern by its documentation: what it matches, by recursion over the names of a path.
fn matches_slowly(pattern: &str, path: &[&str]) -> bool {
    fn walk(pattern: &[&str], path: &[&str]) -> bool {
        match (pattern, path) {
            ([], []) => true,
            (["**", more @ ..], rest) => walk(more, rest) || (!rest.is_empty() && walk(pattern, &rest[1..])),
            (["*"], rest) => !rest.is_empty(),
            (["*", more @ ..], [_, rest @ ..]) => walk(more, rest),
            ([first, more @ ..], [name, rest @ ..]) => first == name && walk(more, rest),
            _ => false,
        }
    }
    let words = pattern.replace("[]", ".[]");
    let mut words: Vec<&str> = words.split('.').filter(|word| !word.is_empty()).collect();
    if matches!(words[..], ["*" | "**"]) {
        return !path.is_empty();
    }
    if words.len() > 1 && words[0] == "*" {
        words[0] = "**";
    }
    let generic: Vec<&str> = path.iter().zip(0..).map(|(name, _)| *name).collect();
    walk(&words, &generic)
}

fn closeness(pattern: &str) -> usize {
    let words = pattern.replace("[]", ".[]");
    let words: Vec<&str> = words.split('.').filter(|word| !word.is_empty()).collect();
    let stars = words.iter().filter(|word| word.starts_with('*')).count();
    if stars == 0 {
        3
    } else if stars < words.len() {
        2
    } else {
        1
    }
}

/// The rule for a path by the documentation: every rule that matches it or an enclosing value applies.
fn speaks(rules: &[(String, OutputRule)], path: &[&str]) -> Option<OutputRule> {
    let mut best: Option<(usize, OutputRule)> = None;
    for length in 0..=path.len() {
        for (pattern, rule) in rules {
            if matches_slowly(pattern, &path[..length]) {
                let around = length < path.len();
                let rule = if around && *rule == Mask { Redact } else { *rule };
                best = best
                    .max(Some((if around { closeness(pattern).min(2) } else { closeness(pattern) }, rule)));
            }
        }
    }
    best.map(|(_, rule)| rule)
}

/// The scalars of a result with their paths; an item is `[]`.
fn leaves(value: &Value, path: &mut Vec<String>, found: &mut Vec<(Vec<String>, Value)>) {
    let mut inside = |name: &str, inner: &Value| {
        path.push(name.to_owned());
        leaves(inner, path, found);
        path.pop();
    };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, field)| inside(name, field)),
        Value::Array(items) => items.iter().for_each(|item| inside("[]", item)),
        plain => found.push((path.clone(), plain.clone())),
    }
}

fn all_leaves(value: &Value) -> Vec<(Vec<String>, Value)> {
    let mut found = Vec::new();
    leaves(value, &mut Vec::new(), &mut found);
    found
}

fn answer() -> impl Strategy<Value = Value> {
    let leaf = "[a-z]{3,6}".prop_map(Value::String);
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            proptest::collection::vec((proptest::sample::select(vec!["a", "b", "c"]), inner), 0..3).prop_map(
                |fields| Value::Object(
                    fields.into_iter().map(|(name, field)| (name.to_owned(), field)).collect()
                )
            ),
        ]
    })
}

fn pattern() -> impl Strategy<Value = String> {
    let word = proptest::sample::select(vec!["a", "b", "c", "a[]", "b[]", "*", "**", "[]"]);
    proptest::collection::vec(word, 1..4).prop_map(|words| words.join("."))
}

fn rule() -> impl Strategy<Value = (String, OutputRule)> {
    (pattern(), proptest::sample::select(vec![Allow, Mask, Redact]))
}

fn rules() -> impl Strategy<Value = Vec<(String, OutputRule)>> {
    proptest::collection::vec(rule(), 0..5)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    /// A scalar is returned whole if and only if the reference model allows it.
    #[test]
    fn exactly_what_the_book_allows_leaves(rules in rules(), answer in answer()) {
        prop_assume!(answer.is_object() || answer.is_array());
        let filtered = OutputPolicy::compile(&rules).unwrap().apply(answer.clone());
        let mut kept = all_leaves(&filtered.value);
        kept.retain(|(_, value)| value.as_str().is_some_and(|text| !text.contains('*') && text != "[redacted]"));
        let mut allowed = all_leaves(&answer);
        allowed.retain(|(path, _)| speaks(&rules, &path.iter().map(String::as_str).collect::<Vec<_>>()) == Some(Allow));
        prop_assert_eq!(kept, allowed);
    }

    /// Masked values are exactly those that the reference model masks.
    #[test]
    fn exactly_what_the_book_masks_is_masked(rules in rules(), answer in answer()) {
        prop_assume!(answer.is_object() || answer.is_array());
        let filtered = OutputPolicy::compile(&rules).unwrap().apply(answer.clone());
        let masked = all_leaves(&filtered.value).into_iter().filter(|(_, value)| value.as_str().is_some_and(|text| text.contains("***")));
        let mut expected = all_leaves(&answer);
        expected.retain(|(path, _)| speaks(&rules, &path.iter().map(String::as_str).collect::<Vec<_>>()) == Some(Mask));
        prop_assert_eq!(masked.map(|(path, _)| path).collect::<Vec<_>>(), expected.into_iter().map(|(path, _)| path).collect::<Vec<_>>());
    }

    #[test]
    fn a_stricter_rule_never_lets_more_leave(rules in proptest::collection::vec(rule(), 1..5), changed in any::<prop::sample::Index>(), answer in answer()) {
        let mut stricter = rules.clone();
        let rule = &mut stricter[changed.index(rules.len())].1;
        *rule = if *rule == Allow { Mask } else { Redact };
        let whole = |rules: &[(String, OutputRule)]| {
            let mut kept = all_leaves(&OutputPolicy::compile(rules).unwrap().apply(answer.clone()).value);
            kept.retain(|(_, value)| value.as_str().is_some_and(|text| !text.contains('*') && text != "[redacted]"));
            kept.len()
        };
        prop_assert!(whole(&stricter) <= whole(&rules));
    }

    #[test]
    fn what_was_filtered_stays_as_it_is(rules in rules(), answer in answer()) {
        let rules: Vec<_> = rules.into_iter().filter(|(_, rule)| *rule != Mask).collect();
        let policy = OutputPolicy::compile(&rules).unwrap();
        let once = policy.apply(answer).value;
        prop_assert_eq!(policy.apply(once.clone()).value, once);
    }

    #[test]
    fn any_pattern_compiles_or_is_refused(pattern in "[a.*\\[\\]\\\\é]{0,12}", answer in answer()) {
        if let Ok(policy) = OutputPolicy::compile(&[(pattern, Allow)]) {
            let _ = policy.apply(answer);
        }
    }
}

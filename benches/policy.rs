//! The cost of a policy decision, and the throughput of output filtering.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a benchmark prints what it measures, and may stop at the first surprise"
)]

use std::collections::BTreeSet;
use std::hint::black_box;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolgate_benches::{in_turns, report_extra};
use toolgate_policy::{
    CallFacts, Condition, ElevatedPermissions, HeldPermissions, OutputPolicy, OutputRule, PathInputs,
    Policies, PolicySource, PolicyTool, Requirements,
};
use toolgate_types::{Caller, ToolClass, Trust};

fn main() {
    decision();
    output();
}

/// Each sample is several decisions, so that the clock's overhead does not matter.
const BATCH: u32 = 50;

/// Twenty policies, of which most could apply to the called tool.
fn policies() -> String {
    let mut text = String::from("permit(principal, action, resource);\n");
    for number in 0..15 {
        text += &format!(
            "forbid(principal, action == Action::\"git_log\", resource)\n\
             when {{ context.input.count > {} && !context.caller.permissions.contains(\"git:bulk\") }};\n",
            1000 + number
        );
    }
    text + "forbid(principal == Agent::\"reader\", action in Action::\"class:write\", resource);\n\
        forbid(principal is Agent, action in Action::\"class:destructive\", resource);\n\
        forbid(principal, action, resource) when { context.session.calls > 1000000 };\n\
        forbid(principal, action, resource) when { context.input has path && context.input.path like \"*.key\" };\n"
}

fn decision() {
    let schema = json!({
        "type": "object", "additionalProperties": false, "required": ["count"],
        "properties": {
            "count": {"type": "integer", "minimum": 1, "maximum": 50},
            "author": {"type": "string", "maxLength": 100, "pattern": "^[a-z]+$"},
            "path": {"type": "string", "maxLength": 400},
        },
    });
    let validator = jsonschema::draft202012::options().build(&schema).unwrap();
    let condition = Condition::compile("input.count > 20 && !(input has author)", &schema).unwrap();
    let requirements = Requirements {
        permissions: vec!["git:read".to_owned()],
        elevated: Some(ElevatedPermissions { condition, permissions: vec!["git:deep".to_owned()] }),
        class: ToolClass::Read,
    };
    let (input, paths) = (schema.as_object().unwrap(), PathInputs::default());
    let tools: Vec<String> = (0..30).map(|number| format!("tool_{number}")).collect();
    let mut tools: Vec<PolicyTool<'_>> = tools
        .iter()
        .map(|name| PolicyTool { name, class: ToolClass::Write, schema: input, paths: &paths })
        .collect();
    tools.push(PolicyTool { name: "git_log", class: ToolClass::Read, schema: input, paths: &paths });
    let text = policies();
    let begun = Instant::now();
    let policies = Policies::load(&[PolicySource { file: "org.cedar", text: &text }], &tools).unwrap();
    println!("{} policies over {} tools loaded in {:.1?}", policies.len(), tools.len(), begun.elapsed());
    let caller = Caller {
        subject: "ann".to_owned(),
        permissions: BTreeSet::from(["git:read", "git:deep", "files:read"].map(str::to_owned)),
        agent: Some("reviewer".parse().unwrap()),
        session: "bench".parse().unwrap(),
        run: None,
        trust: Trust::Guided,
    };
    let input = json!({"count": 21, "path": "src/main.rs"});
    let facts = CallFacts {
        caller: &caller,
        held: HeldPermissions::granted(&caller),
        input: &input,
        paths: None,
        calls: 5,
    };
    let allowed = || {
        for _ in 0..BATCH {
            let facts = black_box(&facts);
            assert!(requirements.check(facts).is_allowed());
            assert!(validator.is_valid(facts.input));
            assert!(policies.decide("git_log", facts).is_allowed());
        }
    };
    let by_hand = || {
        for _ in 0..BATCH {
            let facts = black_box(&facts);
            assert!(facts.caller.permissions.contains("git:read"));
            assert!(
                facts
                    .input
                    .get("count")
                    .and_then(Value::as_i64)
                    .is_some_and(|count| (1..=50).contains(&count))
            );
        }
    };
    let (allowed, by_hand) = in_turns(1001, allowed, by_hand);
    report_extra(
        "policy/decision-20-policies",
        allowed / BATCH,
        by_hand / BATCH,
        "checks_by_hand",
        Duration::from_micros(20),
    );
    let condition_only = in_turns(
        1001,
        || (0..BATCH).for_each(|_| assert!(requirements.check(black_box(&facts)).is_allowed())),
        || (0..BATCH).for_each(|_| assert!(validator.is_valid(black_box(&facts).input))),
    );
    println!(
        "of that: permissions and condition {:.1?}, schema {:.1?}",
        condition_only.0 / BATCH,
        condition_only.1 / BATCH
    );
}

/// The minimum throughput of filtering, in bytes of JSON text per second.
const BYTES_A_SECOND: f64 = 200e6;

fn answer(rows: usize) -> Value {
    let rows: Vec<Value> = (0..rows)
        .map(|row| {
            json!({
                "id": row,
                "name": format!("customer number {row}"),
                "email": format!("customer.{row}@example.com"),
                "address": {"street": format!("{row} Long Street"), "city": "Ulm", "zip": "89073"},
                "orders": [{"sku": "A-17", "count": 3, "price": 12.5}, {"sku": "B-4", "count": 1, "price": 99.0}],
                "internal": {"score": 0.5, "note": "not for anybody outside"},
            })
        })
        .collect();
    json!({"total": rows.len(), "rows": rows})
}

/// The times of filtering an answer, sorted.
fn times(policy: &OutputPolicy, answer: &Value, rounds: usize) -> Vec<f64> {
    let mut times: Vec<f64> = (0..rounds)
        .map(|_| {
            let answer = answer.clone();
            let begun = Instant::now();
            let filtered = black_box(policy.apply(answer));
            let taken = begun.elapsed().as_secs_f64();
            drop(filtered);
            taken
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times
}

fn output() {
    use OutputRule::{Allow, Mask, Redact};
    // A sample of the small one is rarely preempted. Of the large one, which exceeds the CPU caches, only the best time is meaningful on a busy
    // machine, so it is reported without a bound.
    let (small, large) = (answer(300), answer(5000));
    let (small_bytes, large_bytes) = (small.to_string().len() as f64, large.to_string().len() as f64);
    for (name, rules) in [
        ("allow-all", &[("*", Allow)][..]),
        ("redact-email", &[("*", Allow), ("*.email", Redact), ("*.internal", Redact)]),
        (
            "named-fields",
            &[
                ("total", Allow),
                ("rows[].id", Allow),
                ("rows[].name", Mask),
                ("rows[].email", Redact),
                ("rows[].address.city", Allow),
                ("rows[].orders[].sku", Allow),
                ("rows[].orders[].price", Mask),
            ],
        ),
        ("drop-all", &[]),
    ] {
        let policy = OutputPolicy::compile(rules).unwrap();
        let speed = small_bytes / times(&policy, &small, 1001)[500];
        println!(
            "RATIO policy/output-{name} ours={:.0}MB/s peer={:.0}MB/s(demanded) ratio={:.3} bound=1",
            speed / 1e6,
            BYTES_A_SECOND / 1e6,
            BYTES_A_SECOND / speed
        );
        let large = times(&policy, &large, 41);
        println!(
            "of {:.1} MB: best {:.0} MB/s, median {:.0} MB/s",
            large_bytes / 1e6,
            large_bytes / large[0] / 1e6,
            large_bytes / large[20] / 1e6
        );
    }
}

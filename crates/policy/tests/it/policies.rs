//! Organisation-wide policies: what loads, which calls pass, and what adding one can do.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use toolgate_policy::{
    CallFacts, HeldPermissions, PathInputs, Policies, PolicyDecision, PolicyProblem, PolicySource, PolicyTool,
};
use toolgate_types::ToolClass;

use crate::calls::{caller, facts, rich_schema};

fn schemas() -> [(&'static str, ToolClass, Value); 4] {
    let path = json!({
        "type": "object", "additionalProperties": false, "required": ["path"],
        "properties": {"path": {"type": "string"}, "force": {"type": "boolean"}},
    });
    [
        ("git_log", ToolClass::Read, rich_schema()),
        ("write_file", ToolClass::Write, path.clone()),
        ("delete_file", ToolClass::Destructive, path),
        ("echo", ToolClass::Read, json!({"type": "object"})),
    ]
}

fn load(text: &str) -> Result<Policies, Vec<PolicyProblem>> {
    load_files(&[("org.cedar", text)])
}

fn load_files(files: &[(&str, &str)]) -> Result<Policies, Vec<PolicyProblem>> {
    let schemas = schemas();
    let tools = schemas.each_ref().map(|(name, class, schema)| PolicyTool {
        name,
        class: *class,
        schema: schema.as_object().unwrap(),
        paths: PathInputs::NONE,
    });
    let sources: Vec<PolicySource<'_>> =
        files.iter().map(|(file, text)| PolicySource { file, text }).collect();
    Policies::load(&sources, &tools)
}

fn loaded(text: &str) -> Policies {
    load(text).unwrap_or_else(|problems| panic!("{}", shown(&problems)))
}

fn shown(problems: &[PolicyProblem]) -> String {
    problems.iter().map(|problem| format!("{problem}\n")).collect()
}

fn decide(policies: &Policies, agent: Option<&str>, tool: &str, input: &Value) -> PolicyDecision {
    policies.decide(tool, &facts(&caller(agent, &["deploy"]), input))
}

fn allows(policies: &Policies, agent: Option<&str>, tool: &str, input: &Value) -> bool {
    decide(policies, agent, tool, input).is_allowed()
}

#[test]
fn without_policies_nothing_changes() {
    for policies in [Policies::default(), loaded(""), loaded("// nothing but words\n")] {
        assert!(policies.is_empty());
        assert!(allows(&policies, None, "git_log", &json!(null)));
        assert!(allows(&policies, Some("sm"), "a_tool_nobody_heard_of", &json!({})));
    }
}

#[test]
fn who_is_let_through() {
    let (log, file) = (json!({"count": 5, "path": "a"}), json!({"path": "src/a"}));
    let forced = json!({"path": "src/a", "force": true});
    for (text, agent, tool, input, expected) in [
        // A forbid denies only what it is about.
        ("forbid(principal, action, resource);", None, "git_log", &log, false),
        ("forbid(principal, action == Action::\"git_log\", resource);", None, "git_log", &log, false),
        ("forbid(principal, action == Action::\"git_log\", resource);", None, "echo", &log, true),
        ("forbid(principal, action in Action::\"class:read\", resource);", None, "git_log", &log, false),
        ("forbid(principal, action in Action::\"class:read\", resource);", None, "write_file", &file, true),
        (
            "forbid(principal, action in [Action::\"class:write\", Action::\"echo\"], resource);",
            None,
            "echo",
            &log,
            false,
        ),
        ("forbid(principal, action in Action::\"class:any\", resource);", None, "delete_file", &file, false),
        ("forbid(principal, action, resource == Tool::\"echo\");", None, "echo", &log, false),
        ("forbid(principal, action, resource == Tool::\"echo\");", None, "git_log", &log, true),
        ("forbid(principal, action, resource is Tool in Tool::\"echo\");", None, "echo", &log, false),
        (
            "forbid(principal, action, resource) when {resource.class == \"destructive\"};",
            None,
            "delete_file",
            &file,
            false,
        ),
        (
            "forbid(principal, action, resource) when {resource.class == \"destructive\"};",
            None,
            "write_file",
            &file,
            true,
        ),
        (
            "forbid(principal, action, resource) when {resource.name like \"git*\"};",
            None,
            "git_log",
            &log,
            false,
        ),
        // By principal.
        ("forbid(principal == Agent::\"sm\", action, resource);", Some("sm"), "echo", &log, false),
        ("forbid(principal == Agent::\"sm\", action, resource);", Some("qa"), "echo", &log, true),
        ("forbid(principal == Agent::\"sm\", action, resource);", None, "echo", &log, true),
        ("forbid(principal == Caller::\"ann\", action, resource);", None, "echo", &log, false),
        // A forbidden caller cannot get through as an agent; a permit counts for the agent only.
        ("forbid(principal == Caller::\"ann\", action, resource);", Some("sm"), "echo", &log, false),
        ("permit(principal == Caller::\"ann\", action, resource);", Some("sm"), "echo", &log, false),
        (
            "forbid(principal, action, resource) when {principal == Caller::\"ann\"};",
            Some("sm"),
            "echo",
            &log,
            false,
        ),
        ("forbid(principal, action, resource) when {principal is Agent};", Some("sm"), "echo", &log, false),
        ("forbid(principal, action, resource) when {principal is Agent};", None, "echo", &log, true),
        (
            "forbid(principal, action, resource) unless {context.caller has agent};",
            Some("sm"),
            "echo",
            &log,
            true,
        ),
        ("forbid(principal, action, resource) unless {context.caller has agent};", None, "echo", &log, false),
        (
            "permit(principal, action, resource) when {principal == Caller::\"ann\"};",
            Some("sm"),
            "echo",
            &log,
            false,
        ),
        ("forbid(principal is Agent, action, resource);", Some("qa"), "echo", &log, false),
        ("forbid(principal is Agent, action, resource);", None, "echo", &log, true),
        (
            "forbid(principal, action, resource) unless {context.caller.permissions.contains(\"deploy\")};",
            None,
            "echo",
            &log,
            true,
        ),
        (
            "forbid(principal, action, resource) unless {context.caller.permissions.contains(\"root\")};",
            None,
            "echo",
            &log,
            false,
        ),
        ("forbid(principal, action, resource) when {context.session.calls > 2};", None, "echo", &log, false),
        // By arguments.
        (
            "forbid(principal, action == Action::\"git_log\", resource) when {context.input.count > 4};",
            None,
            "git_log",
            &log,
            false,
        ),
        (
            "forbid(principal, action == Action::\"git_log\", resource) when {context.input.count > 5};",
            None,
            "git_log",
            &log,
            true,
        ),
        (
            "forbid(principal, action, resource) when {context.input has force && context.input.force};",
            None,
            "delete_file",
            &forced,
            false,
        ),
        (
            "forbid(principal, action, resource) when {context.input has force && context.input.force};",
            None,
            "delete_file",
            &file,
            true,
        ),
        (
            "forbid(principal, action, resource) when {context.input has force && context.input.force};",
            None,
            "git_log",
            &log,
            true,
        ),
        // A permit closes a tool to every other caller, and a forbid overrides it.
        (
            "permit(principal == Agent::\"sm\", action == Action::\"echo\", resource);",
            Some("sm"),
            "echo",
            &log,
            true,
        ),
        (
            "permit(principal == Agent::\"sm\", action == Action::\"echo\", resource);",
            Some("qa"),
            "echo",
            &log,
            false,
        ),
        (
            "permit(principal == Agent::\"sm\", action == Action::\"echo\", resource);",
            Some("qa"),
            "git_log",
            &log,
            true,
        ),
        (
            "permit(principal, action, resource); forbid(principal, action, resource);",
            None,
            "echo",
            &log,
            false,
        ),
        // What does not evaluate is denied, whether permit or forbid.
        (
            "forbid(principal, action == Action::\"git_log\", resource) when {context.input.count > 50};",
            None,
            "git_log",
            &json!({"count": "x"}),
            false,
        ),
        (
            "forbid(principal, action == Action::\"git_log\", resource) when {context.input.count > 50};",
            None,
            "git_log",
            &json!({}),
            false,
        ),
        (
            "forbid(principal, action == Action::\"git_log\", resource) when {context.input.count + 1 > 50};",
            None,
            "git_log",
            &json!({"count": i64::MAX}),
            false,
        ),
        (
            "permit(principal, action, resource); forbid(principal, action == Action::\"git_log\", resource) when {context.input.count * 9 > 50};",
            None,
            "git_log",
            &json!({"count": i64::MAX}),
            false,
        ),
        (
            "permit(principal, action, resource); permit(principal, action == Action::\"git_log\", resource) when {context.input.count + 1 > 50};",
            None,
            "git_log",
            &json!({"count": i64::MAX}),
            false,
        ),
        // A tool that did not exist when policies were loaded is denied.
        ("forbid(principal, action == Action::\"echo\", resource);", None, "unheard_of", &log, false),
    ] {
        assert_eq!(allows(&loaded(text), agent, tool, input), expected, "{text} {agent:?} {tool}");
    }
}

#[test]
fn every_denial_names_the_policy() {
    let text = r#"
@id("no deep history")
forbid(principal, action == Action::"git_log", resource) when { context.input.count > 20 };
forbid(principal, action == Action::"git_log", resource) when { context.input.count + 1 > 30 };
@id("only sm")
permit(principal == Agent::"sm", action == Action::"echo", resource);
permit(principal == Agent::"qa", action == Action::"echo", resource);
"#;
    let policies = loaded(text);
    let mut reasons = String::new();
    for (tool, input) in [
        ("git_log", json!({"count": 21, "path": "secret"})),
        ("git_log", json!({"count": 40, "path": "secret"})),
        ("git_log", json!({"count": i64::MAX, "path": "secret"})),
        ("git_log", json!({"count": ["secret"]})),
        ("echo", json!({})),
        ("unheard_of", json!({})),
    ] {
        match decide(&policies, None, tool, &input) {
            PolicyDecision::Allowed => panic!("{tool} {input}"),
            PolicyDecision::Denied { operator_reason } => reasons += &format!("{operator_reason}\n"),
        }
    }
    assert!(!reasons.contains("secret"));
    insta::assert_snapshot!("forbidden", reasons);
}

#[test]
fn what_does_not_load_says_where_and_why() {
    let mut all = String::new();
    for text in [
        "forbid(principal, action, resource)",
        "permit(principal, action, resource) when { context.input.cout > 1 };",
        "permit(principal, action == Action::\"git_log\", resource)\n  when { context.input.cout > 1 };",
        "forbid(principal, action == Action::\"git_log\", resource) when { context.input.count > \"1\" };",
        "forbid(principal, action == Action::\"git_log\", resource) when { context.input.author == \"x\" };",
        "forbid(principal, action == Action::\"git_log\", resource) when { context.input.maybe == \"x\" };",
        "forbid(principal, action == Action::\"gitlog\", resource);",
        "forbid(principal, action == Action::\"class:read\", resource);",
        "forbid(principal, action in Action::\"class:reads\", resource);",
        "forbid(principal, action, resource == Tool::\"gitlog\");",
        "forbid(principal, action == Action::\"echo\", resource == Tool::\"git_log\");",
        "forbid(principal == Calller::\"x\", action, resource);",
        "forbid(principal, action, resource) when { context.input has fource };",
        "forbid(principal, action, resource) when { principal has name };",
        "forbid(principal, action, resource) when { resource has nmae };",
        "forbid(principal, action, resource) when { false };",
        "forbid(principal, action == Action::\"echo\", resource) when { context.input == {} };",
        "forbid(principal == ?principal, action, resource);",
        "@deny(\"echo {}\") forbid(principal, action, resource);",
        "@id(\"a\") forbid(principal, action, resource);\n@id(\"a\") forbid(principal, action, resource);",
        "@denies(\"git_log {\\\"count\\\": 4}\")\nforbid(principal, action == Action::\"git_log\", resource) when { context.input.count > 4 };",
        "@denies(\"git_log {\\\"count\\\": \\\"x\\\"}\")\nforbid(principal, action == Action::\"git_log\", resource) when { context.input.count > 4 };",
        "@denies(\"echo\") forbid(principal, action, resource);",
        "@denies(\"echo {\") forbid(principal, action, resource);",
        "@denies(\"echo {} and so on\") forbid(principal, action, resource);",
        "@denies(\"ecko {}\") forbid(principal, action, resource);",
        "@denies(\"echo {} as qa\") forbid(principal == Agent::\"sm\", action, resource);",
        "forbid(principal, action, resource);\n@allows(\"echo {}\") permit(principal, action == Action::\"echo\", resource);",
    ] {
        let problems = load(text).expect_err(text);
        all += &format!(
            "{text}\n{}\n",
            shown(&problems).lines().map(|line| format!("    {line}\n")).collect::<String>()
        );
    }
    insta::assert_snapshot!("refused_policies", all);
}

#[test]
fn every_problem_of_every_file_is_told() {
    let problems = load_files(&[
        ("a.cedar", "nonsense;"),
        ("b.cedar", "forbid(principal, action == Action::\"x\", resource);\n\n  forbid(principal, action == Action::\"y\", resource);"),
    ])
    .unwrap_err();
    let places: Vec<(&str, usize)> =
        problems.iter().map(|problem| (problem.file.as_str(), problem.line)).collect();
    assert!(
        places.contains(&("a.cedar", 1))
            && places.contains(&("b.cedar", 1))
            && places.contains(&("b.cedar", 3)),
        "{places:?}"
    );
}

#[test]
fn examples_that_hold_load() {
    let text = r#"
@denies("git_log {\"count\": 50}
         git_log {\"count\": 5} as sm")
@allows("git_log {\"count\": 5}")
forbid(principal, action == Action::"git_log", resource) when { context.input.count > 20 || principal is Agent };
@allows("echo {} as sm")
@denies("echo {} as qa
         echo {}")
permit(principal == Agent::"sm", action == Action::"echo", resource);
@denies("write_file {\"path\": \"x\"}")
forbid(principal, action == Action::"write_file", resource) when { context.caller.unrestricted };
"#;
    assert_eq!(loaded(text).len(), 3);
}

#[test]
fn every_kind_of_expression_comes_back_as_it_was() {
    for condition in [
        r#"context.input.path like "a\*b*\"\\\u{1f980}é\0""#,
        r#"context.input.count > -9223372036854775808 && context.input.count != -1 && -(context.input.count) < 5"#,
        r#"context.input has "odd name" && context.input["odd name"] * 3 - 2 + 1 >= 4"#,
        r#"context.input has ratio && context.input.ratio.lessThanOrEqual(decimal("-0.5"))"#,
        r#"context.input has tags && (context.input.tags.containsAny(["a", "\n"]) || context.input.tags.isEmpty())"#,
        r#"if context.input has options.inner.flag then context.input.options.inner.flag else !(context.input has deep)"#,
        r#"[{a: 1, "b c": [true]}].contains({a: context.input.count, "b c": [false]})"#,
        r#"(principal is Agent || principal == Caller::"x\"y") && action in [Action::"class:read", Action::"echo"]"#,
        r#"resource == Tool::"git_log" && resource.class == "read" && !(!(context.caller.unrestricted))"#,
        r#"((1 - (2 - context.input.count)) == 2) && (true || false && false)"#,
    ] {
        for clause in ["when", "unless"] {
            let text = format!(
                "forbid(principal, action == Action::\"git_log\", resource) {clause} {{ {condition} }};"
            );
            let policies = load(&text).unwrap_or_else(|problems| panic!("{text}: {}", shown(&problems)));
            let input = json!({"count": 5, "path": "a"});
            let _ = decide(&policies, None, "git_log", &input);
        }
    }
}

#[test]
fn clauses_are_judged_one_after_another() {
    let text =
        |clauses: &str| format!("forbid(principal, action == Action::\"git_log\", resource) {clauses};");
    let (few, most) = (json!({"count": 5, "path": ""}), json!({"count": i64::MAX, "path": ""}));
    for (clauses, input, expected) in [
        ("when { context.input.count > 4 } when { context.input.count < 6 }", &few, false),
        ("when { context.input.count > 4 } when { context.input.count < 5 }", &few, true),
        ("when { context.input.count > 4 } unless { context.input.count < 6 }", &few, true),
        ("unless { context.input.count > 5 } unless { context.input.count < 5 }", &few, false),
        // A clause after a deciding one is not evaluated, and one before it is.
        ("when { context.input.count < 6 } when { context.input.count + 1 > 0 }", &most, true),
        ("when { context.input.count + 1 > 0 } when { context.input.count < 6 }", &most, false),
        ("unless { context.input.count + 1 > 0 }", &most, false),
    ] {
        assert_eq!(allows(&loaded(&text(clauses)), None, "git_log", input), expected, "{clauses}");
    }
}

#[test]
fn policies_of_any_depth_are_refused_without_overflow() {
    for condition in [
        format!("{}true{}", "(".repeat(100_000), ")".repeat(100_000)),
        format!("{}1{} == 1", "[".repeat(100_000), "]".repeat(100_000)),
        "!".repeat(100_000) + "true",
        "true".to_owned() + &" && true".repeat(100_000),
        "1".to_owned() + &" + 1".repeat(100_000) + " == 1",
        "context".to_owned() + &".a".repeat(100_000) + " == 1",
        "if true then ".repeat(50_000) + "true",
    ] {
        let problems =
            load(&format!("forbid(principal, action, resource) when {{ {condition} }};")).unwrap_err();
        assert_eq!(problems[0].message, "the policy is nested too deep");
    }
    // Many policies do not count as one deep one.
    let many =
        "forbid(principal, action == Action::\"echo\", resource) when { context.session.calls > 5 };\n"
            .repeat(300);
    assert_eq!(loaded(&many).len(), 300);
}

#[test]
fn two_tools_of_one_name_are_refused() {
    let schema = Map::new();
    let tool = PolicyTool { name: "echo", class: ToolClass::Read, schema: &schema, paths: PathInputs::NONE };
    let source = PolicySource { file: "a", text: "forbid(principal, action, resource);" };
    assert!(Policies::load(&[source], &[tool, tool]).is_err());
}

#[test]
fn a_class_without_tools_is_no_mistake_and_a_tool_that_is_not_there_is() {
    let schema = Map::new();
    let tool = PolicyTool { name: "echo", class: ToolClass::Read, schema: &schema, paths: PathInputs::NONE };
    let load =
        |text: &str, tools: &[PolicyTool<'_>]| Policies::load(&[PolicySource { file: "a", text }], tools);
    let classes = "forbid(principal, action in Action::\"class:destructive\", resource);";
    assert!(allows(&load(classes, &[tool]).unwrap(), None, "echo", &json!({})));
    assert!(load("forbid(principal, action, resource);", &[]).is_ok());
    for text in [
        "forbid(principal, action == Action::\"class:destructive\", resource);",
        "forbid(principal, action, resource == Tool::\"ecko\");",
        "forbid(principal, action in [Action::\"class:destructive\", Action::\"ecko\"], resource);",
    ] {
        assert!(load(text, &[tool]).is_err(), "{text}");
    }
}

#[test]
fn tools_may_be_called_anything() {
    let schema = Map::new();
    for name in ["any", "class.read", "Action", "permit", "x-y.z", "in"] {
        let tool = PolicyTool { name, class: ToolClass::Read, schema: &schema, paths: PathInputs::NONE };
        let text =
            format!("@denies(\"{name} {{}}\") forbid(principal, action == Action::\"{name}\", resource);");
        let policies = Policies::load(&[PolicySource { file: "a", text: &text }], &[tool]).unwrap();
        assert!(!allows(&policies, None, name, &json!({})), "{name}");
    }
}

#[test]
fn many_alike_policies_each_have_their_place() {
    let text = "forbid(principal, action == Action::\"nope\", resource);\n".repeat(3);
    let lines: Vec<usize> = load(&text).unwrap_err().iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [1, 2, 3]);
}

/// A policy made of parts, so that a reference model can say what it matches.
#[derive(Clone, Copy, Debug)]
struct Sketch {
    forbids: bool,
    principal: usize,
    action: usize,
    when: usize,
}

const PRINCIPALS: [&str; 4] =
    ["principal", "principal == Agent::\"sm\"", "principal is Agent", "principal == Caller::\"ann\""];
const ACTIONS: [&str; 5] = [
    "action",
    "action == Action::\"git_log\"",
    "action in Action::\"class:read\"",
    "action in [Action::\"class:write\", Action::\"echo\"]",
    "action in Action::\"class:any\"",
];
const CONDITIONS: [&str; 6] = [
    "true",
    "context.input has count && context.input.count > 3",
    "context.session.calls == 3",
    "context.caller.permissions.contains(\"nothing\")",
    "context.input has count && context.input.count + 1 > 0",
    "principal is Caller",
];

impl Sketch {
    fn text(self) -> String {
        let effect = if self.forbids { "forbid" } else { "permit" };
        let Self { principal, action, when, .. } = self;
        format!(
            "{effect}({}, {}, resource) when {{ {} }};\n",
            PRINCIPALS[principal], ACTIONS[action], CONDITIONS[when]
        )
    }

    fn is_about(self, tool: &str) -> bool {
        match self.action {
            1 => tool == "git_log",
            2 => tool == "git_log" || tool == "echo",
            3 => tool == "write_file" || tool == "echo",
            _ => true,
        }
    }

    /// Whether it matches; `None` if it does not evaluate.
    fn matches(self, agent: Option<&str>, tool: &str, count: i64) -> Option<bool> {
        let principal = match self.principal {
            1 => agent == Some("sm"),
            2 => agent.is_some(),
            // The subject behind the agent counts for a forbid, and not for a permit.
            3 => agent.is_none() || self.forbids,
            _ => true,
        };
        if !(principal && self.is_about(tool)) {
            return Some(false);
        }
        match self.when {
            1 => Some(tool == "git_log" && count > 3),
            3 => Some(false),
            // The subject behind the agent is a caller, if the scope matches it.
            5 => Some(agent.is_none() || (self.forbids && matches!(self.principal, 0 | 3))),
            4 if tool == "git_log" => count.checked_add(1).map(|count| count > 0),
            4 => Some(false),
            _ => Some(true),
        }
    }
}

fn by_the_book(sketches: &[Sketch], agent: Option<&str>, tool: &str, count: i64) -> bool {
    let about: Vec<&Sketch> = sketches.iter().filter(|sketch| sketch.is_about(tool)).collect();
    let matches = |forbids: bool| {
        about
            .iter()
            .any(|sketch| sketch.forbids == forbids && sketch.matches(agent, tool, count) == Some(true))
    };
    let fails = about.iter().any(|sketch| sketch.matches(agent, tool, count).is_none());
    let needs_permit = about.iter().any(|sketch| !sketch.forbids);
    !fails && !matches(true) && (!needs_permit || matches(false))
}

fn sketch() -> impl Strategy<Value = Sketch> {
    (any::<bool>(), 0..PRINCIPALS.len(), 0..ACTIONS.len(), 0..CONDITIONS.len())
        // A condition about `count` needs a tool that has it among its tools.
        .prop_filter("about count", |(_, _, action, when)| !(*action == 3 && matches!(when, 1 | 4)))
        .prop_filter("can match", |(_, principal, _, when)| !(matches!(principal, 1 | 2) && *when == 5))
        .prop_map(|(forbids, principal, action, when)| Sketch { forbids, principal, action, when })
}

fn compiled(sketches: &[Sketch]) -> Policies {
    loaded(&sketches.iter().map(|sketch| sketch.text()).collect::<String>())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn policies_decide_by_the_book_and_a_forbid_never_allows_more(
        sketches in proptest::collection::vec(sketch(), 0..6),
        added in sketch(),
        at in any::<prop::sample::Index>(),
    ) {
        let before = compiled(&sketches);
        let mut more = sketches.clone();
        more.insert(at.index(sketches.len() + 1), Sketch { forbids: true, ..added });
        let after = compiled(&more);
        for agent in [None, Some("sm"), Some("qa")] {
            for tool in ["git_log", "write_file", "delete_file", "echo"] {
                for count in [0, 5, i64::MAX] {
                    let input = json!({"count": count, "path": "x"});
                    let allowed = allows(&before, agent, tool, &input);
                    prop_assert_eq!(allowed, by_the_book(&sketches, agent, tool, count), "{:?} {} {}", agent, tool, count);
                    prop_assert!(allowed || !allows(&after, agent, tool, &input));
                }
            }
        }
    }

    #[test]
    fn a_narrower_permit_never_allows_more(sketches in proptest::collection::vec(sketch(), 0..4), principal in 1..PRINCIPALS.len(), when in 1..4_usize) {
        let wide = Sketch { forbids: false, principal: 0, action: 1, when: 0 };
        let narrow = Sketch { principal, when, ..wide };
        let with = |sketch: Sketch| compiled(&sketches.iter().copied().chain([sketch]).collect::<Vec<_>>());
        let (wide, narrow) = (with(wide), with(narrow));
        for agent in [None, Some("sm"), Some("qa")] {
            for tool in ["git_log", "echo"] {
                let input = json!({"count": 5, "path": "x"});
                prop_assert!(allows(&wide, agent, tool, &input) || !allows(&narrow, agent, tool, &input));
            }
        }
    }

    #[test]
    fn any_text_is_policies_or_problems(text in "[a-z(){}\\[\\].,;:\"\\\\/ !=&|<>@?\n]{0,60}") {
        if let Err(problems) = load(&text) {
            prop_assert!(!problems.is_empty());
        }
    }
}

#[test]
fn holding_everything_does_not_pass_a_forbid() {
    let policies = loaded("forbid(principal, action == Action::\"echo\", resource);");
    let (caller, input) = (caller(None, &[]), json!({}));
    let facts = CallFacts {
        caller: &caller,
        held: HeldPermissions::Everything,
        input: &input,
        paths: None,
        calls: 0,
    };
    assert!(!policies.decide("echo", &facts).is_allowed());
}

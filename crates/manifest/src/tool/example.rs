//! Checks examples as far as a manifest allows: whether the arguments are valid and which command line results.

use serde_json::Value;

use super::schema::CompiledSchema;
use super::{
    CommandDeclaration, ElevatedDeclaration, ExampleCaller, Expectation, ManifestExample, RealPaths,
};
use crate::decode::{ConfigField, KeySpec, Section, key, list, parsed, text, word};
use crate::json;
use crate::problem::{Located, shown_message};
use crate::problem_report::ProblemReport;
use crate::yaml_tree::{ConfigNode, NodeKind};

const EXAMPLE: &[KeySpec] = &[
    key("name", "name: a small count"),
    key("input", "input: {count: 5}"),
    key("caller", "caller: {permissions: [git:read]}"),
    key("expect", "expect: allowed"),
    key("argv", "argv: [git, log, --max-count=5]"),
];

const CALLER: &[KeySpec] = &[
    key("subject", "subject: someone@example.com"),
    key("agent", "agent: reviewer"),
    key("permissions", "permissions: [git:read]"),
    key("trust", "trust: guided"),
];

/// What examples are checked against.
pub(super) struct ExampleContext<'a> {
    pub(super) input: Option<&'a CompiledSchema>,
    pub(super) command: Option<&'a CommandDeclaration>,
    pub(super) elevated: Option<&'a ElevatedDeclaration>,
}

pub(super) fn examples(
    field: &ConfigField,
    against: &ExampleContext<'_>,
    report: &mut ProblemReport<'_>,
) -> Option<Vec<ManifestExample>> {
    list(field, "example", report, |field, report| example(field, against, report))
}

fn example(
    field: &ConfigField,
    against: &ExampleContext<'_>,
    report: &mut ProblemReport<'_>,
) -> Option<ManifestExample> {
    let section = Section::read(field, EXAMPLE, report)?;
    for (name, help) in [
        ("input", "for example `input: {count: 5}`"),
        ("expect", "say `expect: allowed` or `expect: denied`"),
    ] {
        if section.lacks(name) {
            report.node(&field.node, format!("an example without `{name}`"), Some(help.to_owned()));
        }
    }
    let input = section.get("input", report, input);
    let caller = section.get("caller", report, caller);
    let expect = section.get("expect", report, word::<Expectation>);
    let argv = section.get("argv", report, |field, report| list(field, "argument", report, text));
    let example = ManifestExample {
        name: section.get("name", report, text),
        input: input?,
        caller,
        expect: expect?,
        argv,
    };
    check(&example, &section, against, report);
    Some(example)
}

fn input(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Located<Value>> {
    if !matches!(field.node.kind, NodeKind::Map(_)) {
        field.report_expected("a mapping", report);
        return None;
    }
    json::value(&field.node, report).map(|value| field.locate(value))
}

fn caller(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<ExampleCaller> {
    let section = Section::read(field, CALLER, report)?;
    let agent = section.get("agent", report, crate::decode::located_text);
    Some(ExampleCaller {
        subject: section.get("subject", report, text),
        agent: agent.and_then(|agent| parsed(&agent, report)),
        permissions: section.get("permissions", report, crate::read::permissions).unwrap_or_default(),
        trust: section.get("trust", report, word).map(|trust| trust.value),
    })
}

fn check(
    example: &ManifestExample,
    section: &Section,
    against: &ExampleContext<'_>,
    report: &mut ProblemReport<'_>,
) {
    let expect = example.expect.value;
    if expect == Expectation::Elevated && against.elevated.is_none() {
        let help = "add `elevated`, or expect `allowed` or `denied`".to_owned();
        report.located(&example.expect, "nothing is elevated in this manifest", Some(help));
    }
    let argv = section.field("argv");
    if expect == Expectation::Denied {
        if let Some(argv) = argv {
            report.node(
                &argv.node,
                "a call that is denied has no arguments",
                Some("remove `argv`".to_owned()),
            );
        }
        return;
    }
    let Some(node) = section.field("input").map(|field| &*field.node) else { return };
    let Some(checked) = against.input else { return };
    let before = report.count();
    for error in checked.validator.iter_errors(&example.input.value).take(8) {
        let place = node.at(error.instance_path().as_str());
        report.node(place, format!("does not fit `input`: {}", shown_message(&error.to_string())), None);
    }
    if report.count() == before {
        check_argv(example, node, argv, against, report);
    }
}

fn check_argv(
    example: &ManifestExample,
    input: &ConfigNode,
    argv: Option<&ConfigField>,
    against: &ExampleContext<'_>,
    report: &mut ProblemReport<'_>,
) {
    let Some(command) = against.command else { return };
    let stdin = command.stdin.as_ref().map(|stdin| stdin.render(&example.input.value, &RealPaths::default()));
    let rendered = match (command.template.render(&example.input.value), stdin) {
        (Err(failure), _) | (_, Some(Err(failure))) => {
            return report.node(input, failure.message.clone(), failure.help);
        }
        (Ok(rendered), _) => rendered,
    };
    let (Some(field), Some(expected)) = (argv, &example.argv) else { return };
    if rendered != *expected {
        let message =
            format!("the arguments are {} instead", shown_message(&Value::from(rendered).to_string()));
        report.node(&field.node, message, None);
    }
}

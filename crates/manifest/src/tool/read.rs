//! Reads tool manifests, key by key.

use std::num::NonZeroU32;

use toolgate_types::ToolClass;

use super::compile::{self, TemplateScope};
use super::example::{ExampleContext, examples};
use super::paths::PathArgument;
use super::property::Properties;
use super::schema::CompiledSchema;
use super::{
    CommandDeclaration, ElevatedDeclaration, OutputDeclaration, OutputParse, PolicyRule, Rate, StderrRule,
    ToolManifest, Treatment, confinement, schema, warnings,
};
use crate::decode::{
    ConfigField, KeySpec, Section, count, duration, flag, key, list, located_text, named, parsed, size, text,
    word,
};
use crate::flow::flow_settings;
use crate::problem::{ConfigProblems, ConfigWarning, Located, SourcePosition, SourceText, shown};
use crate::problem_report::ProblemReport;
use crate::read::permissions;
use crate::yaml_tree::{self, ConfigNode};

const TOOL: &[KeySpec] = &[
    key("tool", "tool: git_log"),
    key("title", "title: Recent commits"),
    key("version", "version: \"1.2\""),
    key("changelog", "changelog: [\"1.2: counts from one\"]"),
    key("description", "description: Recent commits of this repository, newest first"),
    key("class", "class: read"),
    key("permissions", "permissions: [git:read]"),
    key("input", "input: {properties: {count: {type: integer}}, required: [count]}"),
    key("effect", "effect: egress"),
    key("output_trust", "output_trust: untrusted"),
    key("secret", "secret: true"),
    key("directory", "directory: true"),
    key("arguments", "arguments: {to: target, body: content}"),
    key("elevated", "elevated: {when: input.count > 20, permissions: [git:deep]}"),
    key("command", "command: [git, log, \"--max-count={count}\"]"),
    key("http", ""),
    key("grpc", ""),
    key("mcp", ""),
    key("cwd", "cwd: \"@project\""),
    key("mounts", "mounts: [\"@project\", \"@central:rw\"]"),
    key("environment", "environment: {LC_ALL: C}"),
    key("network", "network: [api.example.com]"),
    key("timeout", "timeout: 30s"),
    key("limits", "limits: {memory: 512MiB}"),
    key("stdin", "stdin: \"{text}\""),
    key("success_codes", "success_codes: [0, 1]"),
    key("stderr", "stderr: show"),
    key("output", "output: {parse: lines}"),
    key("policy", "policy: {\"*\": allow}"),
    key("rate", "rate: {calls: 60, per: 1m}"),
    key("breaker", "breaker: {exit_codes: true}"),
    key("examples", "examples: [{input: {count: 5}, expect: allowed}]"),
];

/// The kinds of handlers. Only commands are implemented.
const HANDLERS: &[&str] = &["command", "http", "grpc", "mcp"];

const ELEVATED: &[KeySpec] =
    &[key("when", "when: input.count > 20"), key("permissions", "permissions: [git:deep]")];

const OUTPUT: &[KeySpec] = &[
    key("parse", "parse: lines"),
    key("schema", "schema: {type: array, items: {type: string}}"),
    key("max_bytes", "max_bytes: 64KiB"),
];

const BREAKER: &[KeySpec] = &[key("exit_codes", "exit_codes: true")];

/// Maximum length of `version` in characters.
const LONGEST_VERSION: usize = 64;

const RATE: &[KeySpec] = &[key("calls", "calls: 60"), key("per", "per: 1m"), key("burst", "burst: 10")];

/// Reads every tool of a file.
pub(super) fn tools(
    source: &SourceText,
    text: &str,
) -> Result<(Vec<ToolManifest>, Vec<ConfigWarning>), ConfigProblems> {
    let mut report = ProblemReport::new(source);
    let documents = yaml_tree::read_all(text, &mut report).unwrap_or_default();
    let mut tools: Vec<ToolManifest> = Vec::new();
    for root in documents.into_iter().filter(|root| !root.is_null()) {
        let file = ConfigField { name: "a tool".to_owned(), example: "tool: git_log", node: root };
        let Some(tool) = tool(&file, source, &mut report) else { continue };
        if let Some(earlier) = tools.iter().find(|earlier| earlier.name.value == tool.name.value) {
            let help = format!("it is already on line {}; keep one of them", earlier.name.line);
            report.located(&tool.name, format!("the tool `{}` appears twice", tool.name.value), Some(help));
        }
        tools.push(tool);
    }
    let warnings = report.finish()?;
    if tools.is_empty() { Err(no_tool(source)) } else { Ok((tools, warnings)) }
}

/// The problem for a file without a tool.
pub(super) fn no_tool(source: &SourceText) -> ConfigProblems {
    let help = Some("begin with `tool: NAME`".to_owned());
    ConfigProblems(vec![source.problem(
        SourcePosition { line: 1, column: 1 },
        1,
        "this file declares no tool",
        help,
    )])
}

fn tool(file: &ConfigField, source: &SourceText, report: &mut ProblemReport<'_>) -> Option<ToolManifest> {
    let section = Section::read(file, TOOL, report)?;
    require(&section, &file.node, report);
    let name = section.get("tool", report, located_text).and_then(|name| parsed(&name, report));
    let description = section.get("description", report, description);
    let class = section.get("class", report, word::<ToolClass>);
    let permissions = section.get("permissions", report, permissions);
    let elevated = section.get("elevated", report, elevated);
    let input = input(&section, report);
    let properties = Properties::of(input.as_ref().map_or(&serde_json::Value::Null, |input| &input.schema));
    let bounds = CommandContext {
        class: class.as_ref().map(|class| class.value),
        properties: &properties,
        known: input.is_some(),
    };
    let command = command(&section, &bounds, report);
    let against =
        ExampleContext { input: input.as_ref(), command: command.as_ref(), elevated: elevated.as_ref() };
    let permissions_at = section.field("permissions").map(|field| field.locate(()));
    let tool = ToolManifest {
        title: section.get("title", report, text),
        version: section.get("version", report, version),
        changelog: section.get("changelog", report, changelog).unwrap_or_default(),
        timeout: section.get("timeout", report, duration),
        output: section.get("output", report, output).unwrap_or(OutputDeclaration {
            parse: OutputParse::Text,
            schema: None,
            max_bytes: None,
        }),
        policy: section.get("policy", report, policy).unwrap_or_default(),
        rate: section.get("rate", report, rate),
        flow: flow_settings(&section, report),
        exit_codes_break: section.get("breaker", report, exit_codes).unwrap_or(false),
        declares_input: section.field("input").is_some(),
        permissions_at: permissions_at?,
        examples: section
            .get("examples", report, |field, report| examples(field, &against, report))
            .unwrap_or_default(),
        name: name?,
        description: description?,
        class: class?,
        permissions: permissions?,
        elevated,
        command: command?,
        input: input?.schema,
        source: source.clone(),
    };
    warnings::of(&tool, &properties, &section, report);
    Some(tool)
}

/// The required keys of a manifest.
fn require(section: &Section, node: &ConfigNode, report: &mut ProblemReport<'_>) {
    for (name, help) in [
        ("tool", "for example `tool: git_log`"),
        ("description", "say what it does: models choose tools by it"),
        ("class", "say `read`, `write` or `destructive`"),
        ("permissions", "for example `permissions: [git:read]`, or `[]` if none is needed"),
    ] {
        if section.lacks(name) {
            report.node(node, format!("a tool without `{name}`"), Some(help.to_owned()));
        }
    }
    let handlers: Vec<&ConfigField> = HANDLERS.iter().filter_map(|name| section.field(name)).collect();
    for handler in handlers.iter().filter(|handler| handler.name != "`command`") {
        let help = Some("declare a `command`".to_owned());
        report.node(&handler.node, format!("{} is not available in this version", handler.name), help);
    }
    if handlers.len() > 1 {
        let names: Vec<&str> = handlers.iter().map(|handler| handler.name.as_str()).collect();
        let help = Some("keep one of them".to_owned());
        report.node(node, format!("a tool with more than one handler: {}", names.join(", ")), help);
    }
    if handlers.is_empty() && section.lacks("command") {
        let help = "for example `command: [git, log, \"--max-count={count}\"]`".to_owned();
        report.node(node, "a tool without `command`", Some(help));
    }
}

fn description(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Located<String>> {
    let description = located_text(field, report)?;
    if description.value.trim().is_empty() {
        let help = Some("say what it does: models choose tools by it".to_owned());
        report.node(&field.node, "`description` is empty", help);
        return None;
    }
    Some(description)
}

/// A single line, so that lists and records show it unchanged.
fn version(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<String> {
    let version = text(field, report)?;
    let is_line = !version.trim().is_empty() && !version.contains(char::is_control);
    if !is_line || version.chars().count() > LONGEST_VERSION {
        let help =
            format!("write one line of at most {LONGEST_VERSION} characters, such as `version: \"1.2\"`");
        report.node(&field.node, format!("`{}` is not a version", shown(&version)), Some(help));
        return None;
    }
    Some(version)
}

fn changelog(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Vec<String>> {
    list(field, "text", report, text)
}

fn exit_codes(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<bool> {
    Section::read(field, BREAKER, report)?.get("exit_codes", report, flag)
}

fn elevated(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<ElevatedDeclaration> {
    let section = Section::read(field, ELEVATED, report)?;
    for name in ["when", "permissions"] {
        if section.lacks(name) {
            let help = "for example `elevated: {when: input.count > 20, permissions: [git:deep]}`".to_owned();
            report.node(&field.node, format!("`elevated` without `{name}`"), Some(help));
        }
    }
    let when = section.get("when", report, located_text);
    let permissions = section.get("permissions", report, permissions);
    let (when, permissions) = (when?, permissions?);
    if when.value.trim().is_empty() {
        report.located(&when, "`when` is empty", Some("for example `input.count > 20`".to_owned()));
    }
    if permissions.is_empty() {
        let help = "name a permission, or remove `elevated`".to_owned();
        report.node(&field.node, "`elevated` without a permission would elevate nothing", Some(help));
    }
    Some(ElevatedDeclaration { when, permissions })
}

/// A tool without `input` has no arguments.
fn input(section: &Section, report: &mut ProblemReport<'_>) -> Option<CompiledSchema> {
    if let Some(field) = section.field("input") {
        return schema::input(field, report);
    }
    let schema = schema::no_input();
    let validator = toolgate_schema::validator(&schema).ok()?;
    Some(CompiledSchema { schema, validator })
}

/// What is known before the command is read.
struct CommandContext<'b> {
    class: Option<ToolClass>,
    properties: &'b Properties,
    /// Whether the properties are known; if not, placeholders are not checked.
    known: bool,
}

fn command(
    section: &Section,
    bounds: &CommandContext<'_>,
    report: &mut ProblemReport<'_>,
) -> Option<CommandDeclaration> {
    let directory = section.get("cwd", report, confinement::directory);
    let mounts = confinement::mounts(section, directory.as_ref(), bounds.class, report);
    let names: Vec<&str> = bounds.properties.names().collect();
    let environment =
        section.get("environment", report, |field, report| confinement::environment(field, &names, report));
    let network = section.get("network", report, confinement::network).unwrap_or_default();
    let limits = section.get("limits", report, confinement::limits).unwrap_or_default();
    let success_codes = section.get("success_codes", report, confinement::success_codes);
    let stderr = section.get("stderr", report, word::<StderrRule>);
    if !bounds.known {
        return None;
    }
    let scope = TemplateScope {
        properties: bounds.properties,
        directory: directory.as_ref().map(|directory| &directory.value),
        mounts: mounts.iter().map(|mount| mount.alias.value.as_str()).collect(),
    };
    let field = section.field("command");
    let template = field.and_then(|field| compile::command(field, &scope, report));
    let stdin = section.get("stdin", report, |field, report| compile::stdin(field, &scope, report));
    let (template, field) = (template?, field?);
    let program = Located::new(template.program().to_owned(), field.node.at("/0"));
    Some(CommandDeclaration {
        template,
        program,
        directory,
        mounts,
        environment: environment.unwrap_or_default(),
        network,
        limits,
        stdin,
        paths: PathArgument::all(bounds.properties),
        success_codes: success_codes.unwrap_or_else(|| vec![0]),
        stderr: stderr.map_or(StderrRule::Hide, |rule| rule.value),
    })
}

fn output(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<OutputDeclaration> {
    let section = Section::read(field, OUTPUT, report)?;
    let parse = section.get("parse", report, word).map_or(OutputParse::Text, |parse| parse.value);
    Some(OutputDeclaration {
        parse,
        schema: section.get("schema", report, |field, report| schema::output(field, parse, report)),
        max_bytes: section.get("max_bytes", report, size),
    })
}

pub(crate) fn policy(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Vec<PolicyRule>> {
    let entries = named(field, "field", report)?;
    let rule = |(path, treatment): (Located<String>, ConfigField)| {
        if path.value.is_empty() || path.value.contains(char::is_control) {
            let help = Some("write the path of a field, such as `customer.email`, or `\"*\"`".to_owned());
            report.located(&path, format!("`{}` is not the path of a field", shown(&path.value)), help);
        }
        let treatment = word::<Treatment>(&treatment, report)?.value;
        Some(PolicyRule { path, treatment })
    };
    let rules: Vec<PolicyRule> = entries.into_iter().filter_map(rule).collect();
    warn_about_gaps(&rules, report);
    Some(rules)
}

/// A rule that allows everything, besides stricter rules, also returns fields that those do not anticipate.
fn warn_about_gaps(rules: &[PolicyRule], report: &mut ProblemReport<'_>) {
    let is_open = |rule: &&PolicyRule| {
        rule.treatment == Treatment::Allow && matches!(rule.path.value.as_str(), "*" | "**")
    };
    let stricter = rules.iter().find(|rule| rule.treatment != Treatment::Allow);
    if let (Some(open), Some(stricter)) = (rules.iter().find(is_open), stricter) {
        let message = format!(
            "`{}` lets leave what `{}` does not name: another case of the letters, or JSON inside a text",
            open.path.value,
            shown(&stricter.path.value)
        );
        let help = "name the fields that may leave, and leave out the rest";
        report.warn_at(open.path.position(), open.path.width, message, help);
    }
}

fn rate(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Rate> {
    let section = Section::read(field, RATE, report)?;
    crate::rates::rate(&section, field, report)
}

pub(crate) fn calls(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<NonZeroU32> {
    let count = count(field, report)?;
    let calls = u32::try_from(count).ok().and_then(NonZeroU32::new);
    if calls.is_none() {
        report.node(&field.node, format!("{}: {count} is too many", field.name), None);
    }
    calls
}

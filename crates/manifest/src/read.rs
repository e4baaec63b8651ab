//! Reads the configuration file, key by key.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::rc::Rc;

use serde_json::Value;

use crate::callers::callers;
use crate::central::central;
use crate::config::{
    Access, AgentConfig, ApprovalConfig, AuditConfig, Config, LimitOverrides, MountConfig, ProfileName,
    ToolPermission,
};
use crate::conversation::{ConversationConfig, conversation, model_name, of_section};
use crate::decode::{
    ConfigField, KeySpec, Section, count, denials, duration, flag, globs, key, list, located_text, named,
    parsed, path, size, text, word,
};
use crate::defaults::AgentDefaults;
use crate::flow::{content_labels, information_flow};
use crate::globs::Globs;
use crate::models::models;
use crate::path::DeclaredPath;
use crate::problem::{ConfigProblems, Located, SourceText, shown};
use crate::problem_report::ProblemReport;
use crate::rates::{breaker, rate_limits};
use crate::retention::retention;
use crate::sandbox::sandbox;
use crate::serve::serve;
use crate::servers::servers;
use crate::telemetry::telemetry;
use crate::tool_search::tool_search;
use crate::web_search::web_search;
use crate::yaml_tree;

const TOP: &[KeySpec] = &[
    key("profile", "profile: native"),
    key("workspace", "workspace: ./"),
    key("state_dir", "state_dir: ~/.local/state/toolgate"),
    key("mounts", "mounts: {\"@docs\": {path: ../docs, access: ro}}"),
    key("project", "project: shop"),
    key("central", "central: ~/central"),
    key("deny", "deny: [\"**/*.secret\"]"),
    key("trust", "trust: guided"),
    key("on_violation", "on_violation: answer"),
    key("limits", "limits: {max_read_bytes: 256KiB}"),
    key("audit", "audit: {directory: ./audit}"),
    key("approval", "approval: {timeout: 30s}"),
    key("tools", "tools: [tools.d]"),
    key("policies", "policies: [policies]"),
    key("allowed_commands", "allowed_commands: [git, ls]"),
    key("sandbox", "sandbox: {memory: 2GiB}"),
    key("callers", "callers: {issuer: https://login.example.com, audience: toolgate, keys: […]}"),
    key("rate_limits", "rate_limits: [{tool: \"git_*\", calls: 60, per: 1m}]"),
    key("breaker", "breaker: {failures: 5, within: 1m, rest: 30s}"),
    key("retention", "retention: {undo: {max_bytes: 1GiB, max_age: 30d}}"),
    key("mcp_servers", "mcp_servers: {files: {command: mcp-server-filesystem, args: [\"/mnt/project\"]}}"),
    key("serve", "serve: {listen: \"127.0.0.1:8420\"}"),
    key("model", "model: anthropic/claude-sonnet-4-5"),
    key("conversation", "conversation: {max_tool_iterations: 20}"),
    key("models", "models: {local: {wire: openai-chat, base_url: \"http://127.0.0.1:8000/v1\"}}"),
    key("information_flow", "information_flow: on"),
    key("tool_search", "tool_search: {above: 40, always: [github__get_issue]}"),
    key("web_search", "web_search: {backend: searxng, url: https://search.example.com}"),
    key("telemetry", "telemetry: {otlp: {endpoint: \"http://127.0.0.1:4318\"}}"),
    key("agents", "agents: {reviewer: {trust: supervised}}"),
    key("workflows", "workflows: {release: {trust: supervised}}"),
];

const MOUNT: &[KeySpec] = &[
    key("path", "path: ../docs"),
    key("access", "access: ro"),
    key("scope", "scope: [\"**/*.md\"]"),
    key("deny", "deny: [\"drafts/**\"]"),
    key("trust", "trust: untrusted"),
    key("secret", "secret: true"),
];

const LIMITS: &[KeySpec] = &[
    key("max_read_bytes", "max_read_bytes: 256KiB"),
    key("max_write_bytes", "max_write_bytes: 1MiB"),
    key("max_entries", "max_entries: 500"),
    key("max_matches", "max_matches: 50"),
    key("max_output_bytes", "max_output_bytes: 100KB"),
    key("timeout", "timeout: 60s"),
];

const AUDIT: &[KeySpec] = &[
    key("directory", "directory: ./audit"),
    key("on_failure", "on_failure: deny"),
    key("details", "details: paths"),
    key("details_storage", "details_storage: encrypted"),
    key("checkpoints", "checkpoints: /mnt/elsewhere/toolgate.checkpoints"),
    key("key", "key: ~/.config/toolgate/audit.key"),
    key("checkpoint_every", "checkpoint_every: 256"),
    key("reserve", "reserve: 64MiB"),
];

const APPROVAL: &[KeySpec] = &[key("timeout", "timeout: 30s"), key("grants", "grants: false")];

const AGENT: &[KeySpec] = &[
    key("description", "description: reviews pull requests"),
    key("trust", "trust: supervised"),
    key("max_read_bytes", "max_read_bytes: 20000"),
    key("max_write_bytes", "max_write_bytes: 5000"),
    key("timeout", "timeout: 10s"),
    key("tools", "tools: {fs: {maxReadBytes: 20000}}"),
    key("permissions", "permissions: [git:read]"),
    key("tool_permissions", "tool_permissions: {read_file: {allowed: true}}"),
    key("model", "model: anthropic/claude-sonnet-4-5"),
    key("system", "system: You review changes."),
    key("system_file", "system_file: prompts/reviewer.md"),
    key("max_tool_iterations", "max_tool_iterations: 20"),
    key("time_limit", "time_limit: 30m"),
    key("stream_timeout", "stream_timeout: 120s"),
    key("context", "context: {reserve_tokens: 8192, warn_at: 75%}"),
    key("parallel_reads", "parallel_reads: true"),
    key("repair_calls", "repair_calls: false"),
];

const AGENT_TOOLS: &[KeySpec] = &[key("fs", "fs: {maxReadBytes: 20000, maxWriteBytes: 5000}")];

const AGENT_FS: &[KeySpec] =
    &[key("maxReadBytes", "maxReadBytes: 20000"), key("maxWriteBytes", "maxWriteBytes: 5000")];

const PERMISSION: &[KeySpec] = &[
    key("allowed", "allowed: true"),
    key("paths", "paths: [\"src/**\"]"),
    key("timeout", "timeout: 120s"),
    key("max_read_bytes", "max_read_bytes: 64KiB"),
    key("max_write_bytes", "max_write_bytes: 64KiB"),
];

/// Reads the whole file.
pub(crate) fn config(source: SourceText, text: &str) -> Result<Config, ConfigProblems> {
    let mut report = ProblemReport::new(&source);
    let config = match yaml_tree::read(text, &mut report) {
        Some(root) if !root.is_null() => {
            let file = ConfigField { name: "the file".to_owned(), example: "profile: native", node: root };
            top(&file, &mut report)
        }
        _ => None,
    };
    report.finish()?;
    Ok(Config { source, ..config.unwrap_or_default() })
}

fn top(file: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Config> {
    let section = Section::read(file, TOP, report)?;
    let (agents, defaults) = agents_and_workflows(&section, report);
    let profile: Option<Located<ProfileName>> = section.get("profile", report, word);
    let mut mounts = section.get("mounts", report, mounts).unwrap_or_default();
    let zone = central(&section, profile.as_ref().map(|name| name.value), &mounts, report);
    mounts.extend(zone);
    let mut config = Config {
        profile,
        workspace: section.get("workspace", report, path),
        state_dir: section.get("state_dir", report, path),
        mounts,
        deny: section.get("deny", report, denials).unwrap_or_default(),
        trust: section.get("trust", report, word),
        on_violation: section.get("on_violation", report, word),
        limits: section.get("limits", report, limits).unwrap_or_default(),
        audit: section.get("audit", report, audit).unwrap_or_default(),
        approval: section.get("approval", report, approval).unwrap_or_default(),
        tools: section.get("tools", report, paths).unwrap_or_default(),
        policies: section.get("policies", report, paths).unwrap_or_default(),
        allowed_commands: section.get("allowed_commands", report, commands),
        sandbox: section.get("sandbox", report, sandbox).unwrap_or_default(),
        callers: section.get("callers", report, callers),
        rate_limits: section.get("rate_limits", report, rate_limits).unwrap_or_default(),
        breaker: section.get("breaker", report, breaker),
        retention: section.get("retention", report, retention).unwrap_or_default(),
        mcp_servers: section.get("mcp_servers", report, servers).unwrap_or_default(),
        serve: section.get("serve", report, serve).unwrap_or_default(),
        conversation: ConversationConfig {
            model: section.get("model", report, model_name),
            ..section.get("conversation", report, conversation).unwrap_or_default()
        },
        models: section.get("models", report, models).unwrap_or_default(),
        information_flow: section.get("information_flow", report, information_flow).unwrap_or_default(),
        tool_search: section.get("tool_search", report, tool_search),
        web_search: section.get("web_search", report, web_search),
        telemetry: section.get("telemetry", report, telemetry).unwrap_or_default(),
        agents,
        source: SourceText::default(),
    };
    defaults.apply(&mut config, report);
    Some(config)
}

fn paths(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Vec<Located<DeclaredPath>>> {
    list(field, "path", report, path)
}

/// Names of programs, or absolute paths.
fn commands(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Vec<Located<String>>> {
    list(field, "command", report, |field, report| {
        let name = located_text(field, report)?;
        let relative = name.value.contains('/') && !name.value.starts_with('/');
        let odd = |character: char| character.is_whitespace() || character.is_control();
        if name.value.is_empty() || relative || name.value.contains(odd) {
            let help =
                "write a name such as `git`, or an absolute path; arguments are the manifest's".to_owned();
            report.located(&name, format!("`{}` is not a program", shown(&name.value)), Some(help));
        }
        Some(name)
    })
}

fn mounts(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Vec<MountConfig>> {
    let entries = named(field, "mount", report)?;
    Some(entries.into_iter().filter_map(|(alias, entry)| mount(alias, &entry, report)).collect())
}

fn mount(alias: Located<String>, field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<MountConfig> {
    check_alias(&alias, report);
    let section = Section::read(field, MOUNT, report)?;
    if section.lacks("path") {
        let help = "for example `path: ../docs`".to_owned();
        report.located(&alias, format!("{} has no `path`", field.name), Some(help));
    }
    let access = section.get("access", report, word::<Access>);
    let scope = section.get("scope", report, some_globs);
    let deny = section.get("deny", report, denials).unwrap_or_default();
    let labels = content_labels(&section, report);
    let path = section.get("path", report, path)?;
    Some(MountConfig {
        alias,
        path,
        access: access.map_or(Access::ReadOnly, |access| access.value),
        scope,
        deny,
        labels,
    })
}

fn check_alias(alias: &Located<String>, report: &mut ProblemReport<'_>) {
    if alias.value == "@project" {
        let help = "set `workspace` instead".to_owned();
        report.located(alias, "`@project` is always the workspace", Some(help));
    } else if !is_alias(&alias.value) {
        let help = "write `@`, a lower-case letter, then lower-case letters, digits, `_` or `-`, such as `\"@docs\"`";
        report.located(alias, format!("`{}` is not an alias", shown(&alias.value)), Some(help.to_owned()));
    }
}

/// `@[a-z][a-z0-9_-]*`
pub(crate) fn is_alias(text: &str) -> bool {
    let name = text.strip_prefix('@').unwrap_or_default();
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-'))
}

fn limits(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<LimitOverrides> {
    let section = Section::read(field, LIMITS, report)?;
    Some(LimitOverrides {
        max_entries: section.get("max_entries", report, amount),
        max_matches: section.get("max_matches", report, amount),
        max_output_bytes: section.get("max_output_bytes", report, size),
        ..call_limits(&section, report)
    })
}

fn amount(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<usize> {
    count(field, report).map(|count| usize::try_from(count).unwrap_or(usize::MAX))
}

/// The limits that agents and permissions may set as well.
fn call_limits(section: &Section, report: &mut ProblemReport<'_>) -> LimitOverrides {
    LimitOverrides {
        max_read_bytes: section.get("max_read_bytes", report, size),
        max_write_bytes: section.get("max_write_bytes", report, size),
        timeout: section.get("timeout", report, duration),
        ..LimitOverrides::default()
    }
}

fn audit(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<AuditConfig> {
    let section = Section::read(field, AUDIT, report)?;
    Some(AuditConfig {
        directory: section.get("directory", report, path),
        on_failure: section.get("on_failure", report, word),
        details: section.get("details", report, word),
        details_storage: section.get("details_storage", report, word),
        checkpoints: section.get("checkpoints", report, path),
        key: section.get("key", report, path),
        checkpoint_every: section.get("checkpoint_every", report, count).and_then(NonZeroU64::new),
        reserve: section.get("reserve", report, size),
    })
}

fn approval(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<ApprovalConfig> {
    let section = Section::read(field, APPROVAL, report)?;
    Some(ApprovalConfig {
        timeout: section.get("timeout", report, duration),
        grants: section.get("grants", report, flag),
    })
}

/// Agents and workflows. Both are selected by name, so the names must not overlap.
fn agents_and_workflows(
    section: &Section,
    report: &mut ProblemReport<'_>,
) -> (Vec<AgentConfig>, AgentDefaults) {
    let mut defaults = AgentDefaults::default();
    let declared = section.get("agents", report, |field, report| {
        let mut entries = named(field, "agent", report)?;
        if let Some(at) = entries.iter().position(|(name, _)| name.value == AgentDefaults::NAME) {
            defaults = AgentDefaults::read(&entries.remove(at).1, report).unwrap_or_default();
        }
        Some(agents(entries, report))
    });
    let mut known = declared.unwrap_or_default();
    let workflows = section
        .get("workflows", report, |field, report| Some(agents(named(field, "workflow", report)?, report)));
    for workflow in workflows.unwrap_or_default() {
        if known.iter().any(|agent: &AgentConfig| agent.name.value == workflow.name.value) {
            let message = format!("`{}` is an agent already", workflow.name.value);
            report.located(&workflow.name, message, Some("choose another name".to_owned()));
        }
        known.push(workflow);
    }
    (known, defaults)
}

fn agents(entries: Vec<(Located<String>, ConfigField)>, report: &mut ProblemReport<'_>) -> Vec<AgentConfig> {
    entries.into_iter().filter_map(|(name, entry)| agent(&name, &entry, report)).collect()
}

fn agent(name: &Located<String>, field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<AgentConfig> {
    let name = parsed(name, report);
    let section = Section::read(field, AGENT, report)?;
    Some(AgentConfig {
        description: section.get("description", report, text),
        trust: section.get("trust", report, word),
        limits: agent_limits(&section, report),
        permissions: section.get("permissions", report, permissions).unwrap_or_default(),
        tool_permissions: section.get("tool_permissions", report, tool_permissions),
        conversation: ConversationConfig {
            model: section.get("model", report, model_name),
            ..of_section(&section, report)
        },
        name: name?,
    })
}

/// An agent's limits, in one of the two spellings but not in both.
fn agent_limits(section: &Section, report: &mut ProblemReport<'_>) -> LimitOverrides {
    let mut limits = call_limits(section, report);
    let tools = section.get("tools", report, |field, report| Section::read(field, AGENT_TOOLS, report));
    let fs = tools
        .and_then(|tools| tools.get("fs", report, |field, report| Section::read(field, AGENT_FS, report)));
    let Some(fs) = fs else { return limits };
    for (long, short, limit) in [
        ("maxReadBytes", "max_read_bytes", &mut limits.max_read_bytes),
        ("maxWriteBytes", "max_write_bytes", &mut limits.max_write_bytes),
    ] {
        let Some(field) = fs.field(long) else { continue };
        if section.field(short).is_some() {
            let message = format!("`{long}` says again what `{short}` says");
            report.node(&field.node, message, Some("keep one of them".to_owned()));
        }
        *limit = size(field, report).or(*limit);
    }
    limits
}

fn tool_permissions(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Vec<ToolPermission>> {
    let entries = named(field, "tool", report)?;
    Some(entries.into_iter().filter_map(|(tool, entry)| tool_permission(&tool, &entry, report)).collect())
}

fn tool_permission(
    tool: &Located<String>,
    field: &ConfigField,
    report: &mut ProblemReport<'_>,
) -> Option<ToolPermission> {
    let name = parsed(tool, report);
    let field =
        ConfigField { example: "{allowed: true}", name: field.name.clone(), node: Rc::clone(&field.node) };
    let section = Section::read(&field, PERMISSION, report)?;
    if section.lacks("allowed") {
        let help = "say `allowed: true` or `allowed: false`".to_owned();
        report.located(tool, format!("{} does not say whether it is allowed", field.name), Some(help));
    }
    let allowed = section.get("allowed", report, flag);
    let paths = section.get("paths", report, some_globs);
    let limits = call_limits(&section, report);
    Some(ToolPermission { tool: name?, allowed: allowed?, paths, limits })
}

/// A non-empty list of globs; an empty one would match nothing, which is hardly ever intended.
fn some_globs(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Globs> {
    let globs = globs(field, report)?;
    if globs.patterns().is_empty() {
        let help = format!("leave it out for everything, or write for example `{}`", field.example);
        report.node(&field.node, format!("{} is empty, so nothing would match", field.name), Some(help));
        return None;
    }
    Some(globs)
}

/// Names of permissions, such as `git:read`.
pub(crate) fn permissions(
    field: &ConfigField,
    report: &mut ProblemReport<'_>,
) -> Option<Vec<Located<String>>> {
    list(field, "permission", report, |field, report| {
        let name = located_text(field, report)?;
        if !is_permission(&name.value) {
            let help = "write an area and a verb, such as `git:read`; there are no wildcards".to_owned();
            report.located(&name, format!("`{}` is not a permission", shown(&name.value)), Some(help));
        }
        Some(name)
    })
}

/// At most 128 characters: parts of `A-Z a-z 0-9 _ . -` separated by colons.
fn is_permission(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    text.len() <= 128 && text.split(':').all(|part| !part.is_empty() && part.bytes().all(allowed))
}

/// The values of a file, by key and by the keys one level below.
pub(crate) fn values_by_key(source: &SourceText) -> BTreeMap<String, Value> {
    let mut report = ProblemReport::new(source);
    let root =
        yaml_tree::read(source.text(), &mut report).and_then(|root| crate::json::value(&root, &mut report));
    let mut said = BTreeMap::new();
    for (key, value) in root.as_ref().and_then(Value::as_object).into_iter().flatten() {
        match value {
            Value::Object(below) => {
                said.extend(below.iter().map(|(name, value)| (format!("{key}.{name}"), value.clone())));
            }
            value => drop(said.insert(key.clone(), value.clone())),
        }
    }
    said
}

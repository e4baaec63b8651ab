//! Reads `mcp_servers`, key by key.

use std::rc::Rc;

use super::process::process;
use super::remote::remote;
use super::{PinMode, ServerConfig, ServerToolConfig, ServerTransport};
use crate::decode::{ConfigField, KeySpec, Section, duration, flag, key, named, word};
use crate::flow::flow_settings;
use crate::problem::{Located, shown};
use crate::problem_report::ProblemReport;
use crate::rates::NameGlob;
use crate::read::permissions;
use crate::tool::policy;
use crate::yaml_tree::NodeKind;

const SERVER: &[KeySpec] = &[
    key("type", "type: stdio"),
    key("command", "command: mcp-server-filesystem"),
    key("package", "package: npm:@modelcontextprotocol/server-memory"),
    key("with", "with: [\"mcp<2\"]"),
    key("install_scripts", "install_scripts: true"),
    key("ephemeral", "ephemeral: true"),
    key("host_paths", "host_paths: true"),
    key("mount_paths", "mount_paths: {\"@docs\": /docs}"),
    key("entrypoint", "entrypoint: /usr/bin/server"),
    key("args", "args: [\"/mnt/project\"]"),
    key("env", "env: {GITHUB_TOKEN: \"${GITHUB_TOKEN}\"}"),
    key("cwd", "cwd: \"@project\""),
    key("mounts", "mounts: [\"@docs\", \"@project:rw\"]"),
    key("network", "network: [api.example.com]"),
    key("read", "read: [/opt/node]"),
    key("limits", "limits: {memory: 1GiB}"),
    key("url", "url: https://tracker.example.com/mcp"),
    key("headers", "headers: {Authorization: \"Bearer ${TRACKER_TOKEN}\"}"),
    key(
        "oauth",
        "oauth: {token_url: https://login.example.com/token, client_id: gate, client_secret: \"${SECRET}\"}",
    ),
    key("timeout", "timeout: 60s"),
    key("startup_timeout", "startup_timeout: 20s"),
    key("class", "class: destructive"),
    key("permissions", "permissions: [tracker:use]"),
    key("policy", "policy: {\"*\": allow}"),
    key("pin", "pin: first_use"),
    key("effect", "effect: egress"),
    key("output_trust", "output_trust: untrusted"),
    key("secret", "secret: true"),
    key("prefix", "prefix: \"\""),
    key("elicitation", "elicitation: true"),
    key("disabled", "disabled: true"),
    key("tools", "tools: {read_issue: {class: read}}"),
];

/// The keys for a process, and those for a URL.
const PROCESS: &[&str] = &[
    "package",
    "with",
    "install_scripts",
    "ephemeral",
    "host_paths",
    "mount_paths",
    "entrypoint",
    "args",
    "env",
    "cwd",
    "mounts",
    "network",
    "read",
    "limits",
];

/// The keys that mean something for a package alone.
const PACKAGE: &[&str] = &["with", "install_scripts"];
/// The keys that mean something for a container image alone.
const IMAGE: &[&str] = &["mount_paths", "entrypoint"];
const REMOTE: &[&str] = &["headers", "oauth"];

const TOOL: &[KeySpec] = &[
    key("allowed", "allowed: false"),
    key("class", "class: read"),
    key("permissions", "permissions: [files:read]"),
    key("policy", "policy: {\"*\": allow}"),
    key("effect", "effect: egress"),
    key("output_trust", "output_trust: untrusted"),
    key("secret", "secret: true"),
    key("directory", "directory: true"),
    key("arguments", "arguments: {to: target, body: content}"),
    key("timeout", "timeout: 10s"),
];

pub(crate) fn servers(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Vec<ServerConfig>> {
    let entries = named(field, "server", report)?;
    let servers: Vec<ServerConfig> =
        entries.into_iter().filter_map(|(name, entry)| server(name, &entry, report)).collect();
    for other in servers.iter().filter(|server| server.is_unprefixed).skip(1) {
        let message = format!("`{}` is a second server without a prefix", shown(&other.name.value));
        let help = "remove `prefix` here: tools of two servers would be confused".to_owned();
        report.located(&other.name, message, Some(help));
    }
    Some(servers)
}

/// Whether the prefix of its tools is left out.
fn no_prefix(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<bool> {
    match field.scalar("a prefix", report)? {
        "" => Some(true),
        other => {
            let message = format!("`{}` cannot be a prefix", shown(other));
            let help =
                "write `prefix: \"\"` for none, or rename the server: its name is the prefix".to_owned();
            report.node(&field.node, message, Some(help));
            None
        }
    }
}

fn server(
    name: Located<String>,
    field: &ConfigField,
    report: &mut ProblemReport<'_>,
) -> Option<ServerConfig> {
    check_name(&name, report);
    let example = "{command: mcp-server-filesystem, args: [\"/mnt/project\"]}";
    let field = ConfigField { example, name: field.name.clone(), node: Rc::clone(&field.node) };
    let section = Section::read(&field, SERVER, report)?;
    let transport = transport(&name, &section, report);
    let pin = section.get("pin", report, word::<PinMode>);
    let config = ServerConfig {
        is_unprefixed: section.get("prefix", report, no_prefix).unwrap_or(false),
        elicitation: section.get("elicitation", report, flag).unwrap_or(false),
        disabled: section.get("disabled", report, flag).unwrap_or(false),
        timeout: section.get("timeout", report, duration),
        startup_timeout: section.get("startup_timeout", report, duration),
        pin: pin.map_or(PinMode::FirstUse, |pin| pin.value),
        class: section.get("class", report, word),
        permissions: section.get("permissions", report, permissions).unwrap_or_default(),
        policy: section.get("policy", report, policy),
        flow: flow_settings(&section, report),
        tools: section.get("tools", report, tools).unwrap_or_default(),
        transport: transport?,
        name,
    };
    Some(config)
}

fn check_name(name: &Located<String>, report: &mut ProblemReport<'_>) {
    if !is_server_name(&name.value) {
        let help = "write one to 32 of `a-z 0-9 _ -`, beginning with a letter or a digit, without `__` and not ending in `_`: its tools appear as `NAME__TOOL`";
        let message = format!("`{}` is not the name of a server", shown(&name.value));
        report.located(name, message, Some(help.to_owned()));
    }
}

/// Whether tool names with this prefix and `__` can be split unambiguously.
fn is_server_name(text: &str) -> bool {
    let allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-');
    (1..=32).contains(&text.len())
        && text.bytes().all(allowed)
        && !text.starts_with(['_', '-'])
        && !text.ends_with('_')
        && !text.contains("__")
}

/// The transport by `command` or `url`, checking that the other keys belong to it.
fn transport(
    name: &Located<String>,
    section: &Section,
    report: &mut ProblemReport<'_>,
) -> Option<ServerTransport> {
    let said = section.get("type", report, declared_transport);
    let process_key = section.field("command").or_else(|| section.field("package"));
    match (process_key, section.field("url")) {
        (Some(_), None) => {
            reject_keys(section, REMOTE, "`command`", "an address, with `url`", report);
            if section.field("package").is_none() {
                reject_keys(section, PACKAGE, "no `package`", "a package, with `package`", report);
            }
            check_transport(section, said, DeclaredTransport::Process, report);
            if !is_image(section) {
                reject_keys(
                    section,
                    IMAGE,
                    "no `image:`",
                    "a container image, with `package: image:NAME`",
                    report,
                );
            }
            process(section, report).map(|process| ServerTransport::Process(Box::new(process)))
        }
        (None, Some(url)) => {
            reject_keys(section, PROCESS, "`url`", "a process, with `command`", report);
            check_transport(section, said, DeclaredTransport::Remote, report);
            remote(url, section, report).map(|remote| ServerTransport::Remote(Box::new(remote)))
        }
        (Some(_), Some(url)) => {
            let help = "keep `command` for a process, or `url` for an address".to_owned();
            report.node(&url.node, "a server with both `command` and `url`", Some(help));
            None
        }
        (None, None) => {
            if section.lacks("command") {
                let help = "for example `command: mcp-server-filesystem`, or `url: https://…`".to_owned();
                report.located(name, "a server without `command` or `url`", Some(help));
            }
            None
        }
    }
}

fn is_image(section: &Section) -> bool {
    let package = section.field("package").map(|field| Rc::clone(&field.node));
    package
        .is_some_and(|node| matches!(&node.kind, NodeKind::Scalar { text, .. } if text.starts_with("image:")))
}

/// The value of `type`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DeclaredTransport {
    Process,
    Remote,
}

fn declared_transport(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<DeclaredTransport> {
    match field.scalar("a transport", report)? {
        "stdio" => Some(DeclaredTransport::Process),
        "http" | "streamable-http" | "streamableHttp" => Some(DeclaredTransport::Remote),
        "sse" => {
            let help = "ask the server for its streamable HTTP address; that older transport is not spoken";
            report.node(&field.node, "`sse` is no longer a transport of MCP", Some(help.to_owned()));
            None
        }
        other => {
            let help = "use `stdio` or `http`, or leave it out".to_owned();
            report.node(&field.node, format!("`{}` is not a transport", shown(other)), Some(help));
            None
        }
    }
}

fn check_transport(
    section: &Section,
    said: Option<DeclaredTransport>,
    found: DeclaredTransport,
    report: &mut ProblemReport<'_>,
) {
    let Some(field) = section.field("type").filter(|_| said.is_some_and(|said| said != found)) else {
        return;
    };
    let other = if found == DeclaredTransport::Process { "command" } else { "url" };
    let message = format!("`type` says otherwise than `{other}`");
    report.node(&field.node, message, Some("remove `type`".to_owned()));
}

/// Rejects keys that have no meaning for this transport.
pub(super) fn reject_keys(
    section: &Section,
    keys: &[&str],
    beside: &str,
    belongs: &str,
    report: &mut ProblemReport<'_>,
) {
    for field in keys.iter().filter_map(|name| section.field(name)) {
        let message = format!("{} means nothing beside {beside}", field.name);
        report.node(&field.node, message, Some(format!("remove it, or describe {belongs}")));
    }
}

fn tools(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Vec<ServerToolConfig>> {
    let entries = named(field, "tool", report)?;
    Some(entries.into_iter().filter_map(|(name, entry)| tool(name, &entry, report)).collect())
}

fn tool(
    name: Located<String>,
    field: &ConfigField,
    report: &mut ProblemReport<'_>,
) -> Option<ServerToolConfig> {
    let field =
        ConfigField { example: "{class: read}", name: field.name.clone(), node: Rc::clone(&field.node) };
    if name.value.is_empty() || name.value.contains(char::is_control) {
        let help = "write the tool's name as the server says it, or a glob such as `\"delete_*\"`".to_owned();
        report.located(&name, format!("`{}` is not the name of a tool", shown(&name.value)), Some(help));
    }
    let section = Section::read(&field, TOOL, report)?;
    Some(ServerToolConfig {
        name: NameGlob::new(name),
        allowed: section.get("allowed", report, flag).unwrap_or(true),
        class: section.get("class", report, word),
        permissions: section.get("permissions", report, permissions),
        policy: section.get("policy", report, policy),
        flow: flow_settings(&section, report),
        timeout: section.get("timeout", report, duration),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_apart_again() {
        for good in ["a", "files", "git-hub", "a_b", "7z", &"x".repeat(32)] {
            assert!(is_server_name(good), "{good}");
        }
        for bad in ["", "Files", "a__b", "a_", "_a", "-a", "a b", "a.b", "ä", &"x".repeat(33)] {
            assert!(!is_server_name(bad), "{bad}");
        }
    }
}

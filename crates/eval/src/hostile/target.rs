//! The gates that are attacked: every profile, over every door, and a server behind the gate.

use std::collections::BTreeMap;

use crate::case::GateSetup;

/// A gate to attack.
#[derive(Clone, Debug)]
pub struct HostileTarget {
    /// Its name in cases and reports.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub about: &'static str,
    pub(super) profile: &'static str,
    pub(super) trust: String,
    pub(super) frontend: HostileFrontend,
    /// Whether a call may change the workspace at all.
    pub(super) may_change: bool,
    /// How many of a hundred sequences it gets.
    pub(super) share: usize,
    pub(super) config: Option<String>,
    pub(super) files: BTreeMap<String, String>,
    /// The tools that bring labels and the one that sends, where information flow is tracked.
    pub(super) flow: Option<FlowTools>,
}

/// What an oracle knows of tools whose labels the gate tracks.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowTools {
    pub(super) untrusted: &'static str,
    pub(super) secret: &'static str,
    pub(super) egress: &'static str,
}

/// Where calls come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostileFrontend {
    /// MCP on standard input and output, session protocol.
    Stdio,
    /// The same, stateless protocol, with a person who answers questions.
    StdioAsked,
    /// `POST /api/v1/calls`.
    Api,
    /// The same, with a person who answers questions.
    ApiAsked,
    /// The same, as a caller with a JWT and some of the permissions.
    ApiJwt,
    /// MCP at `/mcp`.
    HttpMcp,
}

impl HostileFrontend {
    pub(super) fn is_http(self) -> bool {
        !matches!(self, Self::Stdio | Self::StdioAsked)
    }

    /// Whether a person answers questions.
    pub(super) fn asks(self) -> bool {
        matches!(self, Self::StdioAsked | Self::ApiAsked)
    }
}

/// Nothing but what is rewritten when the configuration is reloaded.
const RELOADED: &str = "# a configuration that is reloaded\n";

/// An issue that anyone can write, a private file, and a way to send.
const DESK: &str = "\
tool: read_issue
description: The newest issue, which anyone can open
class: read
permissions: [desk:use]
input: {properties: {}}
output_trust: untrusted
command: [cat, docs/notes.md]
cwd: \"@project\"
policy: {\"*\": allow}
---
tool: read_payroll
description: The payroll of the company
class: read
permissions: [desk:use]
input: {properties: {}}
secret: true
command: [cat, docs/guide.md]
cwd: \"@project\"
policy: {\"*\": allow}
---
tool: send
description: Sends a text to a colleague
class: write
permissions: [desk:use]
effect: egress
arguments: {to: target, text: content}
input:
  properties:
    to: {type: string, enum: [carol@example.com, dave@example.com]}
    text: {type: string, maxLength: 1000}
  required: [to, text]
command: [tee, --append, --, \"sent-to-{to}\"]
stdin: \"{text}\"
cwd: \"@project\"
policy: {\"*\": allow}
";

/// Another gate, as an MCP server behind the one that is attacked.
const BRIDGED: &str = "\
mcp_servers:
  files:
    command: {{binary}}
    args: [--no-config, --profile, claw, --workspace, /mnt/project, --state-dir, /tmp/state, --trust, autonomous, mcp]
    mounts: [\"@project\"]
    read: [\"{{binary_directory}}\"]
    env: {XDG_STATE_HOME: /tmp/xdg}
    tools: {\"*\": {class: read}}
";

/// All targets.
#[must_use]
pub fn targets() -> Vec<HostileTarget> {
    let target = |name, about, profile, share| HostileTarget {
        name,
        about,
        profile,
        trust: "autonomous".to_owned(),
        frontend: HostileFrontend::Stdio,
        may_change: true,
        share,
        config: Some(RELOADED.to_owned()),
        files: BTreeMap::new(),
        flow: None,
    };
    vec![
        target("native", "profile native over stdio", "native", 17),
        HostileTarget {
            frontend: HostileFrontend::Api,
            ..target("native-api", "profile native over the HTTP API", "native", 7)
        },
        HostileTarget {
            frontend: HostileFrontend::HttpMcp,
            ..target("native-http", "profile native, MCP over HTTP", "native", 6)
        },
        HostileTarget {
            frontend: HostileFrontend::ApiAsked,
            trust: "guided".to_owned(),
            config: Some("approval: {timeout: 1s}\n".to_owned()),
            ..target(
                "native-api-asked",
                "profile native over the HTTP API, where every change is asked about",
                "native",
                2,
            )
        },
        HostileTarget {
            frontend: HostileFrontend::StdioAsked,
            trust: "guided".to_owned(),
            ..target(
                "native-asked",
                "profile native where every change is asked about, stateless protocol",
                "native",
                8,
            )
        },
        HostileTarget {
            trust: "guided".to_owned(),
            may_change: false,
            config: None,
            ..target(
                "native-unasked",
                "profile native where every change is asked about and no person answers",
                "native",
                6,
            )
        },
        target("crew", "profile crew", "crew", 8),
        target("claw", "profile claw", "claw", 8),
        HostileTarget {
            may_change: false,
            ..target("proxy", "profile proxy with the manifests of tools.d", "proxy", 7)
        },
        HostileTarget {
            may_change: false,
            frontend: HostileFrontend::ApiJwt,
            ..target("jwt", "profile proxy over the HTTP API, a caller with a JWT", "proxy", 7)
        },
        HostileTarget {
            config: Some("information_flow: on\ntools: [tools.d]\n".to_owned()),
            files: BTreeMap::from([("tools.d/desk.yaml".to_owned(), DESK.to_owned())]),
            flow: Some(FlowTools { untrusted: "read_issue", secret: "read_payroll", egress: "send" }),
            ..target("flow", "tools that bring labels and one that sends, information flow on", "proxy", 6)
        },
        target("sidecar", "profile sidecar", "sidecar", 7),
        target("studio", "profile studio", "studio", 5),
        HostileTarget {
            config: Some(BRIDGED.to_owned()),
            ..target("bridged", "profile native and an MCP server behind the gate", "native", 6)
        },
    ]
}

/// The target of this name.
pub(crate) fn target(name: &str) -> Option<HostileTarget> {
    targets().into_iter().find(|target| target.name == name)
}

impl HostileTarget {
    /// The target as a case sets it up.
    pub(crate) fn set_up(mut self, gate: &GateSetup) -> Self {
        self.config = gate.config.clone().or(self.config);
        self.files.extend(gate.files.clone());
        self.trust = gate.trust.clone().unwrap_or(self.trust);
        self
    }
}

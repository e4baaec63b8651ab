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
    pub(super) trust: &'static str,
    pub(super) frontend: HostileFrontend,
    /// Whether a call may change the workspace at all.
    pub(super) may_change: bool,
    /// How many of a hundred sequences it gets.
    pub(super) share: usize,
    pub(super) config: Option<String>,
    pub(super) files: BTreeMap<String, String>,
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
}

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
        trust: "autonomous",
        frontend: HostileFrontend::Stdio,
        may_change: true,
        share,
        config: None,
        files: BTreeMap::new(),
    };
    vec![
        target("native", "profile native over stdio", "native", 26),
        HostileTarget {
            frontend: HostileFrontend::Api,
            config: Some("# the HTTP API, with a configuration that is reloaded\n".to_owned()),
            ..target("native-api", "profile native over the HTTP API", "native", 10)
        },
        HostileTarget {
            frontend: HostileFrontend::StdioAsked,
            trust: "guided",
            ..target(
                "native-asked",
                "profile native where every change is asked about, stateless protocol",
                "native",
                10,
            )
        },
        HostileTarget {
            trust: "guided",
            may_change: false,
            ..target(
                "native-unasked",
                "profile native where every change is asked about and no person answers",
                "native",
                6,
            )
        },
        target("crew", "profile crew", "crew", 10),
        target("claw", "profile claw", "claw", 10),
        HostileTarget {
            may_change: false,
            ..target("proxy", "profile proxy with the manifests of tools.d", "proxy", 8)
        },
        target("sidecar", "profile sidecar", "sidecar", 8),
        target("studio", "profile studio", "studio", 6),
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
        self
    }
}

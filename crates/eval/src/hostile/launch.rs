//! How the binary is started on a ground.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::door::GateLaunch;
use super::ground::HostileGround;
use super::play::PlayOptions;
use super::shape::ToolUse;
use super::target::{HostileFrontend, HostileTarget};
use crate::process;

/// Whether a tool of this use changes something.
pub(super) fn changes(use_of: ToolUse) -> bool {
    !matches!(use_of, ToolUse::Search | ToolUse::Revision | ToolUse::Read | ToolUse::Other)
}

/// The value with what only this ground knows.
pub(super) fn filled(value: &Value, ground: &HostileGround) -> Value {
    match value {
        Value::String(text) => Value::String(ground.fill(text)),
        Value::Array(items) => items.iter().map(|item| filled(item, ground)).collect(),
        Value::Object(members) => Value::Object(
            members.iter().map(|(name, value)| (ground.fill(name), filled(value, ground))).collect(),
        ),
        other => other.clone(),
    }
}

/// A command of the binary on this ground.
pub(super) fn command(target: &HostileTarget, binary: &Path, ground: &HostileGround) -> Command {
    let mut command = process::command(binary, &ground.path("home"), &ground.path("xdg"), false);
    command.current_dir(ground.path("gate")).env("HOSTILE_SECRET", &ground.secret).arg("--json");
    match target.config {
        Some(_) => command.arg("--config").arg(ground.path("gate/toolgate.yaml")),
        None => command.arg("--no-config"),
    };
    command.arg("--workspace").arg(ground.path("workspace")).arg("--state-dir").arg(ground.path("state"));
    command.args(["--profile", target.profile, "--trust", target.trust]);
    command
}

/// How the gate itself is started.
pub(super) fn setup(target: &HostileTarget, options: &PlayOptions, ground: &HostileGround) -> GateLaunch {
    let mut command = command(target, &options.binary, ground);
    let is_api = target.frontend == HostileFrontend::Api;
    match is_api {
        true => command.args(["serve", "--listen", "127.0.0.1:0"]),
        false => command.arg("mcp"),
    };
    GateLaunch {
        command,
        stateless: target.frontend == HostileFrontend::StdioAsked,
        token_file: is_api.then(|| ground.path("state/keys/serve.token")),
        tap: options.tap.clone(),
        workspace: ground.path("workspace"),
    }
}

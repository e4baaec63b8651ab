//! How the binary is started on a ground.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::door::{CallerToken, GateLaunch};
use super::ground::HostileGround;
use super::http_door::HttpProtocol;
use super::play::PlayOptions;
use super::shape::ToolUse;
use super::target::{HostileFrontend, HostileTarget};
use crate::process;

/// How long a token may take to be made.
const MINT_TIMEOUT: Duration = Duration::from_secs(60);

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
    command.args(["--profile", target.profile, "--trust", &target.trust]);
    command
}

/// How the gate itself is started.
pub(super) fn setup(
    target: &HostileTarget,
    options: &PlayOptions,
    ground: &HostileGround,
) -> Result<GateLaunch, String> {
    let token = match target.frontend {
        HostileFrontend::ApiJwt => CallerToken::Minted(minted(target, options, ground)?),
        _ => CallerToken::File(ground.path("state/keys/serve.token")),
    };
    let mut command = command(target, &options.binary, ground);
    match target.frontend {
        HostileFrontend::Stdio | HostileFrontend::StdioAsked => command.arg("mcp"),
        HostileFrontend::ApiJwt => command.args(["serve", "--listen", "127.0.0.1:0", "--auth", "jwt"]),
        HostileFrontend::Api | HostileFrontend::ApiAsked | HostileFrontend::HttpMcp => {
            command.args(["serve", "--listen", "127.0.0.1:0", "--auth", "token"])
        }
    };
    let protocol = match target.frontend {
        HostileFrontend::HttpMcp => HttpProtocol::Mcp,
        _ => HttpProtocol::Api,
    };
    Ok(GateLaunch {
        command,
        stateless: target.frontend == HostileFrontend::StdioAsked,
        http: target.frontend.is_http().then_some((protocol, token)),
        tap: options.tap.clone(),
        workspace: ground.path("workspace"),
        call_timeout: options.call_timeout,
    })
}

/// A token with some of the permissions that the shipped tools ask for.
fn minted(target: &HostileTarget, options: &PlayOptions, ground: &HostileGround) -> Result<String, String> {
    let mut mint = command(target, &options.binary, ground);
    mint.args([
        "token",
        "mint",
        "--subject",
        "mallory",
        "--permission",
        "files:read",
        "--permission",
        "git:read",
    ]);
    let minted = process::finish(mint, MINT_TIMEOUT).map_err(|error| error.to_string())?;
    let told: Value = serde_json::from_str(&minted.stdout).unwrap_or_default();
    let token = told.get("token").and_then(Value::as_str).map(str::to_owned);
    token.ok_or_else(|| format!("no token was made: {}", minted.stderr.trim()))
}

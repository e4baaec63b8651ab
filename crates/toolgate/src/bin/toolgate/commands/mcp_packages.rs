//! Packages of servers: installed, looked at, and updated on request.

use std::fmt::Write as _;

use toolgate_assembly::servers::{PackageInstaller, ServerSelection, ServerStatePaths, Servers};
use toolgate_assembly::settings::Settings;
use toolgate_connect::{HealthState, PackageSettings};
use toolgate_manifest::{ServerConfig, ServerTransport};
use toolgate_packages::{Lock, PackageError, StagedPackage};
use toolgate_types::Trust;

use super::mcp_approve::PendingTool;
use super::{close_servers, named_servers, print, serving_runtime};
use crate::arguments::{GlobalOptions, McpUpdate};
use crate::exit::{CliError, DENIED, SUCCESS, TOOL_ERROR};
use crate::startup::resolve_settings;
use crate::terminal::{PLAIN_SCREEN, confirm, escape_line, warn};

/// A server with a package, and the program that it runs.
struct PackagedServer<'s> {
    name: &'s str,
    package: PackageSettings,
    program: &'s str,
}

fn packaged<'s>(settings: &'s Settings, server: &'s ServerConfig) -> Option<PackagedServer<'s>> {
    let ServerTransport::Process(process) = &server.transport else { return None };
    let package = ServerStatePaths::of(settings, server)?.package?;
    Some(PackagedServer { name: &server.name.value, package, program: &process.program.value })
}

/// Installs what these servers declare and is not installed yet; returns those that failed.
pub(super) fn install_missing(
    settings: &Settings,
    names: &[String],
) -> Result<Vec<(String, String)>, CliError> {
    let declared = settings.loaded.config.mcp_servers.iter();
    let wanted: Vec<PackagedServer<'_>> = declared
        .filter(|server| names.contains(&server.name.value) && !server.disabled)
        .filter_map(|server| packaged(settings, server))
        .collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let installer = PackageInstaller::new(settings, remark)?;
    let mut failed = Vec::new();
    for server in wanted {
        match install(&installer, &server) {
            Ok(text) => warn(&text),
            Err(error) => failed.push((server.name.to_owned(), explained(&error, server.name))),
        }
    }
    Ok(failed)
}

fn remark(words: &str) {
    warn(words);
}

fn install(installer: &PackageInstaller, server: &PackagedServer<'_>) -> Result<String, PackageError> {
    let PackagedServer { name, package, program } = server;
    let store = installer.store(package);
    if store.verified(&package.spec, &package.with, package.install_scripts).is_ok() {
        return Ok(format!("{name}: {} is installed", package.spec));
    }
    warn(&format!("{name}: installing {}", package.spec));
    let lock = installer.install(&store, package, program)?.commit()?;
    Ok(installed_line(name, &lock))
}

/// What was installed, and what did not run.
fn installed_line(name: &str, lock: &Lock) -> String {
    let mut text =
        format!("{name}: installed {} ({}), {} packages", lock.resolved, lock.manager, lock.packages.len());
    let skipped: Vec<&str> = lock.skipped_scripts().map(|package| package.name.as_str()).collect();
    if !skipped.is_empty() {
        let _ = write!(
            text,
            "; scripts did not run: {} (`install_scripts: true` runs them, without network)",
            skipped.join(", ")
        );
    }
    escape_line(&text)
}

/// An error with the last lines of the package manager, on one line.
pub(super) fn explained(error: &PackageError, server: &str) -> String {
    let said = match error {
        PackageError::Step { said, .. } => {
            let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
            let first = lines.len().saturating_sub(4);
            format!(": {}", lines.get(first..).unwrap_or_default().join(" | "))
        }
        _ => String::new(),
    };
    format!("{error}{said}; {}", error.help(server))
}

/// `toolgate mcp update`.
pub(crate) fn update(common: &GlobalOptions, wanted: &McpUpdate) -> Result<u8, CliError> {
    let settings = resolve_settings(common, Trust::Guided)?;
    named_servers(&settings, wanted.server.as_deref())?;
    let declared = settings.loaded.config.mcp_servers.iter();
    let named =
        declared.filter(|server| wanted.server.as_ref().is_none_or(|name| *name == server.name.value));
    let servers: Vec<PackagedServer<'_>> = named.filter_map(|server| packaged(&settings, server)).collect();
    if servers.is_empty() {
        let failed = CliError::usage("there is no server with a package to update");
        return Err(failed.help("`package: npm:NAME` or `package: pypi:NAME` makes a server one"));
    }
    let installer = PackageInstaller::new(&settings, remark)?;
    let mut code = SUCCESS;
    for server in &servers {
        let done = update_one(common, &settings, &installer, server, wanted)?;
        code = code.max(done);
    }
    Ok(code)
}

fn update_one(
    common: &GlobalOptions,
    settings: &Settings,
    installer: &PackageInstaller,
    server: &PackagedServer<'_>,
    wanted: &McpUpdate,
) -> Result<u8, CliError> {
    let PackagedServer { name, package, program } = server;
    let failed = |error: PackageError| {
        warn(&escape_line(&format!("{name}: {}", explained(&error, name))));
        Ok(TOOL_ERROR)
    };
    let store = installer.store(package);
    let before = store.verified(&package.spec, &package.with, package.install_scripts);
    let before = match before {
        Ok(installed) => Some(installed.lock),
        Err(PackageError::NotInstalled { .. } | PackageError::OtherInstalled { .. }) => None,
        // A changed package is replaced only on request: it is evidence.
        Err(error) if !wanted.reinstall => return failed(error),
        Err(_) => None,
    };
    let staged = match installer.install(&store, package, program) {
        Ok(staged) => staged,
        Err(error) => return failed(error),
    };
    let Some(after) = staged.lock().cloned() else { return Ok(TOOL_ERROR) };
    if before.as_ref().is_some_and(|before| before.packages == after.packages) && !wanted.reinstall {
        print(&format!("{name}: {} is up to date\n", escape_line(&after.resolved)))?;
        return Ok(SUCCESS);
    }
    let (mut shown, offered) = look(settings, name, &staged)?;
    shown.insert_str(0, &versions(name, before.as_ref(), &after));
    match agreement(common, wanted, &shown, name) {
        Some(true) => {}
        answer => {
            let code = if answer.is_none() { DENIED } else { SUCCESS };
            let why =
                if answer.is_none() { "there is no terminal to ask on; pass --yes" } else { "as it was" };
            warn(&format!("{name}: nothing was changed: {why}"));
            return Ok(code);
        }
    }
    let lock = match staged.commit() {
        Ok(lock) => lock,
        Err(error) => return failed(error),
    };
    print(&format!("{}\n", installed_line(name, &lock)))?;
    approve(settings, name, &offered)?;
    Ok(SUCCESS)
}

fn agreement(common: &GlobalOptions, wanted: &McpUpdate, shown: &str, name: &str) -> Option<bool> {
    if wanted.yes {
        if !common.json {
            let _ = print(shown);
        }
        return Some(true);
    }
    let answer = confirm(|_| shown.to_owned(), &format!("Use this for {name}, and agree to its tools?"));
    if answer.is_none() {
        let _ = print(shown);
    }
    answer
}

/// What changes in the packages.
fn versions(name: &str, before: Option<&Lock>, after: &Lock) -> String {
    let mut text =
        format!("{name}: {} -> {}\n", before.map_or("not installed", |lock| &lock.resolved), after.resolved);
    let Some(before) = before else { return escape_lines(&text) };
    let of = |lock: &Lock, name: &str| lock.packages.iter().find(|package| package.name == name).cloned();
    for package in &after.packages {
        match of(before, &package.name) {
            None => {
                let _ = writeln!(text, "  added {} {}", package.name, package.version);
            }
            Some(other) if other.version != package.version => {
                let _ = writeln!(text, "  {} {} -> {}", package.name, other.version, package.version);
            }
            Some(other) if other.integrity != package.integrity => {
                let _ = writeln!(
                    text,
                    "  {} {}: other content under the same version",
                    package.name, package.version
                );
            }
            Some(_) => {}
        }
    }
    for package in before.packages.iter().filter(|package| of(after, &package.name).is_none()) {
        let _ = writeln!(text, "  removed {} {}", package.name, package.version);
    }
    escape_lines(&text)
}

fn escape_lines(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", escape_line(line))).collect()
}

/// Starts the new installation once, apart from the pins in use, and shows how its tools differ from those that were agreed to.
fn look(
    settings: &Settings,
    name: &str,
    staged: &StagedPackage<'_>,
) -> Result<(String, Vec<PendingTool>), CliError> {
    let directory = staged.preview().map_err(|error| CliError::error(error.to_string()))?;
    let runtime = serving_runtime()?;
    let servers = Servers::preview(settings, &runtime, name, &directory)?;
    let health = servers.health();
    runtime.block_on(close_servers(Some(&servers)));
    let mut text = String::new();
    for health in health.iter().filter(|health| health.state != HealthState::Ready) {
        let error = health.last_error.as_deref().unwrap_or("it did not answer");
        let _ = writeln!(text, "  it does not start: {}", escape_line(error));
    }
    let waiting = super::mcp_approve::waiting(&servers, None)?;
    for tool in &waiting {
        text.push_str(&tool.question(PLAIN_SCREEN));
    }
    for gone in super::mcp_approve::gone(&servers)? {
        let _ = writeln!(text, "{} is gone", escape_line(&gone));
    }
    if waiting.is_empty() {
        text.push_str("  its tools are as agreed\n");
    }
    Ok((text, waiting))
}

/// Approves exactly the definitions that were shown.
fn approve(settings: &Settings, name: &str, offered: &[PendingTool]) -> Result<(), CliError> {
    if offered.is_empty() {
        return Ok(());
    }
    let runtime = serving_runtime()?;
    let servers = Servers::start(settings, &runtime, ServerSelection::Only(name.to_owned()))?;
    runtime.block_on(close_servers(Some(&servers)));
    for tool in offered {
        tool.approve(&servers).unwrap_or_else(|error| warn(&escape_line(&error)));
    }
    Ok(())
}

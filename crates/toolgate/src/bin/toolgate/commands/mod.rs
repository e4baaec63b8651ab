//! One file per command.

pub(crate) mod call;
mod call_arguments;
mod id_prefix;
pub(crate) mod tools;
pub(crate) mod tools_new;
pub(crate) mod check;
pub(crate) mod trust;
pub(crate) mod grants;
mod trust_instructions;
pub(crate) mod run;
pub(crate) mod chat;
pub(crate) mod scripted;
pub(crate) mod token;
pub(crate) mod mcp;
mod mcp_startup_error;
mod mcp_file;
mod mcp_server_entry;
pub(crate) mod mcp_install;
pub(crate) mod mcp_uninstall;
pub(crate) mod mcp_import;
mod mcp_adopt;
pub(crate) mod mcp_add;
pub(crate) mod mcp_wrap;
pub(crate) mod mcp_packages;
mod mcp_programs;
mod mcp_roots;
pub(crate) mod mcp_login;
pub(crate) mod mcp_logs;
pub(crate) mod mcp_list;
pub(crate) mod mcp_approve;
mod mcp_classes;
pub(crate) mod serve;
pub(crate) mod audit;
mod audit_view;
pub(crate) mod sessions;
pub(crate) mod changes;
pub(crate) mod eval;
pub(crate) mod doctor;
pub(crate) mod models;
pub(crate) mod completions;
pub(crate) mod man;

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use toolgate_assembly::load::TokenVerification;
use toolgate_assembly::servers::{ServerSelection, Servers};
use toolgate_assembly::settings::Settings;
use toolgate_gate::{Approver, NoApprover};

use crate::arguments::GlobalOptions;
use crate::exit::CliError;
use crate::terminal::escape_json;

/// How long blocking work may take to notice the shutdown.
pub(crate) const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Whether something was written to standard output. An error after that is not written there as well.
static HAS_PRINTED: AtomicBool = AtomicBool::new(false);

/// Whether something was written to standard output.
pub(crate) fn has_printed() -> bool {
    HAS_PRINTED.load(Ordering::Relaxed)
}

/// Whether standard output still has a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StdoutStatus {
    Open,
    Closed,
}

/// Writes results. `EPIPE`, as when piping into `head`, is not an error.
pub(crate) fn print(text: &str) -> Result<StdoutStatus, CliError> {
    HAS_PRINTED.store(true, Ordering::Relaxed);
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(StdoutStatus::Open),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(StdoutStatus::Closed),
        Err(error) => Err(CliError::error(format!("the results could not be written: {error}"))),
    }
}

/// Writes a result for programs, as one line of JSON. Invisible and control characters are escaped, which means the same and is safe on a terminal.
pub(crate) fn print_json(value: &serde_json::Value) -> Result<StdoutStatus, CliError> {
    print(&escape_json(&format!("{value}\n")))
}

/// Sleeps, but wakes when the reader of standard output is gone.
pub(crate) fn sleep_while_open(time: Duration) -> StdoutStatus {
    let stdout = io::stdout();
    let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
    let timeout = Timespec::try_from(time).ok();
    // `poll` reports `POLLERR` and `POLLHUP` without being asked for them.
    match poll(&mut polled, timeout.as_ref()) {
        Ok(0) | Err(_) => StdoutStatus::Open,
        Ok(_) => StdoutStatus::Closed,
    }
}

/// The selected servers: a declared one, or all.
pub(crate) fn named_servers(settings: &Settings, server: Option<&str>) -> Result<ServerSelection, CliError> {
    let Some(server) = server else { return Ok(ServerSelection::All) };
    let declared = settings.loaded.config.mcp_servers.iter().map(|known| known.name.value.as_str());
    let declared: Vec<&str> = declared.collect();
    if declared.contains(&server) {
        return Ok(ServerSelection::Only(server.to_owned()));
    }
    let failed = CliError::usage(format!("there is no server `{server}` in the configuration"));
    Err(match declared.is_empty() {
        true => failed.help("declare it under `mcp_servers:` in toolgate.yaml"),
        false => failed.help(format!("declared are {}", declared.join(", "))),
    })
}

/// Ends the upstream servers.
pub(crate) async fn close_servers(servers: Option<&Servers>) {
    if let Some(servers) = servers {
        servers.close().await;
    }
}

/// The approver of commands that call no tool.
pub(crate) fn no_approver() -> Arc<dyn Approver> {
    Arc::new(NoApprover { remedy: "make the call with `toolgate call`".to_owned() })
}

/// Whether tokens have to be verified, which may need the network.
pub(crate) fn token_verification(common: &GlobalOptions) -> TokenVerification {
    if common.token.is_some() { TokenVerification::Enabled } else { TokenVerification::Disabled }
}

/// A runtime with one thread and timers, and with I/O if the keys of an issuer may have to be fetched.
pub(crate) fn runtime(tokens: TokenVerification) -> Result<tokio::runtime::Runtime, CliError> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    if tokens == TokenVerification::Enabled {
        builder.enable_io();
    }
    builder
        .enable_time()
        .build()
        .map_err(|error| CliError::error(format!("no runtime could be made: {error}")))
}

/// A runtime for servers: one thread for async work, and the pool for blocking work.
pub(crate) fn serving_runtime() -> Result<tokio::runtime::Runtime, CliError> {
    runtime(TokenVerification::Enabled)
}

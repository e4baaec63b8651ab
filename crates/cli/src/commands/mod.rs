//! One file per command.

pub(crate) mod call;
pub(crate) mod tools;
pub(crate) mod tools_new;
pub(crate) mod check;
pub(crate) mod trust;
pub(crate) mod run;
pub(crate) mod chat;
pub(crate) mod scripted;
pub(crate) mod token;
pub(crate) mod mcp;
mod mcp_refusal;
mod mcp_file;
pub(crate) mod mcp_install;
pub(crate) mod mcp_uninstall;
pub(crate) mod mcp_import;
pub(crate) mod mcp_list;
pub(crate) mod mcp_approve;
pub(crate) mod serve;
pub(crate) mod audit;
pub(crate) mod sessions;
pub(crate) mod changes;
pub(crate) mod doctor;
pub(crate) mod models;
pub(crate) mod completions;

use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use toolgate_gate::{Approver, NoApprover};

use crate::arguments::Common;
use crate::exit::Failed;
use crate::load::Tokens;
use crate::servers::{Servers, Which};
use crate::settings::Settings;
use crate::terminal::spelt_out;

/// How long work that blocks may take to notice that everything is over.
pub(crate) const LAST_MOMENT: Duration = Duration::from_secs(1);

/// Whether somebody still reads the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    There,
    Gone,
}

/// Writes results. A reader that went away, as `head` does, is not an error.
pub(crate) fn print(text: &str) -> Result<Reader, Failed> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(Reader::There),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(Failed::error(format!("the results could not be written: {error}"))),
    }
}

/// Writes a result for programs, one line of JSON. Invisible and steering characters are escaped, which means the same and is safe on a terminal.
pub(crate) fn print_json(value: &serde_json::Value) -> Result<Reader, Failed> {
    print(&spelt_out(&format!("{value}\n")))
}

/// Waits, but no longer than there is a reader.
pub(crate) fn wait_with_reader(time: Duration) -> Reader {
    let stdout = io::stdout();
    let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
    let timeout = Timespec::try_from(time).ok();
    // A reader that goes away is told without being asked for.
    match poll(&mut polled, timeout.as_ref()) {
        Ok(0) | Err(_) => Reader::There,
        Ok(_) => Reader::Gone,
    }
}

/// The servers that a person names: one that is declared, or all.
pub(crate) fn named_servers(settings: &Settings, server: Option<&str>) -> Result<Which, Failed> {
    let Some(server) = server else { return Ok(Which::All) };
    let declared = settings.loaded.config.mcp_servers.iter().map(|known| known.name.value.as_str());
    let declared: Vec<&str> = declared.collect();
    if declared.contains(&server) {
        return Ok(Which::Only(server.to_owned()));
    }
    let failed = Failed::usage(format!("there is no server `{server}` in the configuration"));
    Err(match declared.is_empty() {
        true => failed.help("declare it under `mcp_servers:` in toolgate.yaml"),
        false => failed.help(format!("declared are {}", declared.join(", "))),
    })
}

/// Ends the servers behind a gate.
pub(crate) async fn close(servers: Option<&Servers>) {
    if let Some(servers) = servers {
        servers.close().await;
    }
}

/// Nobody is asked by commands that call no tool.
pub(crate) fn nobody() -> Arc<dyn Approver> {
    Arc::new(NoApprover { remedy: "make the call with `toolgate call`".to_owned() })
}

/// Whether tokens have to be verified, which may need the network.
pub(crate) fn tokens(common: &Common) -> Tokens {
    if common.token.is_some() { Tokens::Possibly } else { Tokens::Never }
}

/// A small runtime: one thread, a clock for questions that expire, and the network where the keys of an issuer may have to be fetched.
pub(crate) fn runtime(tokens: Tokens) -> Result<tokio::runtime::Runtime, Failed> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    if tokens == Tokens::Possibly {
        builder.enable_io();
    }
    builder.enable_time().build().map_err(|error| Failed::error(format!("no runtime could be made: {error}")))
}

/// A runtime for doors: one thread for everything that waits, and more of them for work that blocks.
pub(crate) fn serving_runtime() -> Result<tokio::runtime::Runtime, Failed> {
    runtime(Tokens::Possibly)
}

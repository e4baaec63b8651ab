//! `toolgate mcp`: the gate as an MCP server on standard input and output.

use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;

use toolgate_gate::Blocking;
use toolgate_serve::{OutputStore, Service, ServiceOptions, serve_stdio};
use toolgate_types::{CallId, SessionId, Trust};

use super::tokens;
use crate::ambient::open_own_folder;
use crate::arguments::Common;
use crate::build::{self, Built};
use crate::exit::{DONE, Failed};
use crate::interrupt::Interrupt;
use crate::settings::{Settings, settle};

pub(crate) fn run(common: &Common) -> Result<u8, Failed> {
    let mut settings = settle(common, Trust::Guided)?;
    if common.run.is_none() {
        settings.caller.session = session()?;
    }
    let credential = settings.credential(common)?;
    let interrupt = Interrupt::listen();
    let built = build::gate_with(&settings, super::nobody(), tokens(common), Blocking::Briefly)?;
    settings.warn_of_unknown_tools(&built.tools);
    let service = service(&settings, built);
    let (input, output) = (io::stdin(), io::stdout());
    let own = |descriptor: io::Result<_>| {
        descriptor.map_err(|error| Failed::error(format!("the standard streams cannot be used: {error}")))
    };
    let (input, output) =
        (own(input.as_fd().try_clone_to_owned())?, own(output.as_fd().try_clone_to_owned())?);
    let served = super::serving_runtime()?.block_on(async {
        let _watching = interrupt.watch()?;
        let served = serve_stdio(Arc::clone(&service), credential, input, output, interrupt.token()).await;
        served.map_err(|error| Failed::error(error.to_string()))
    });
    served.map(|()| DONE)
}

/// What the doors of this process serve.
pub(crate) fn service(settings: &Settings, built: Built) -> Arc<Service> {
    let outputs = build::outputs_folder(settings);
    let outputs = OutputStore::new(move || open_own_folder(&outputs));
    Service::new(ServiceOptions {
        aliases: aliases(settings),
        ..ServiceOptions::new(Arc::new(built.front), outputs)
    })
}

/// The mounts, in their order.
fn aliases(settings: &Settings) -> Vec<String> {
    let more = settings.mounts.iter().map(|mount| mount.alias.clone());
    std::iter::once("@project".to_owned()).chain(more).collect()
}

/// Every process is a sitting of its own.
fn session() -> Result<SessionId, Failed> {
    let id = CallId::fresh().to_string();
    let last = id.rsplit('-').next().unwrap_or_default();
    format!("mcp-{last}").parse().map_err(|error| Failed::error(format!("{error}")))
}

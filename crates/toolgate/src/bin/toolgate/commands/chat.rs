//! `toolgate chat`: a conversation at the terminal.

use toolgate_assembly::reload::watch_files;

use super::{SHUTDOWN_TIMEOUT, close_servers, serving_runtime};
use crate::arguments::{ConversationArguments, GlobalOptions};
use crate::chat::{ChatSignals, Repl};
use crate::conversation::{ChatContext, WaitForServers};
use crate::exit::CliError;

pub(crate) fn run(common: &GlobalOptions, arguments: &ConversationArguments) -> Result<u8, CliError> {
    if common.json {
        return Err(CliError::usage("a conversation at the terminal is not held in JSON").help(
            "use `toolgate run --json`, which goes on with a conversation by --continue or --session",
        ));
    }
    let signals = ChatSignals::install()?;
    let runtime = serving_runtime()?;
    let (sitting, reloader) = ChatContext::start(common, arguments, &runtime, WaitForServers::No)?;
    let servers = sitting.servers.clone();
    let ended = runtime.block_on(async {
        let keeping_up = tokio::spawn(watch_files(reloader));
        let ended = match Repl::new(sitting, signals).await {
            Ok(room) => room.run().await,
            Err(failed) => Err(failed),
        };
        keeping_up.abort();
        close_servers(servers.as_deref()).await;
        ended
    });
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    ended
}

//! `toolgate chat`: a conversation at the terminal.

use super::{LAST_MOMENT, close, serving_runtime};
use crate::arguments::{Common, ConversationArguments};
use crate::chat::{Room, Signals};
use crate::conversation::{Sitting, Wait};
use crate::exit::Failed;
use crate::reload::keep_up;

pub(crate) fn run(common: &Common, arguments: &ConversationArguments) -> Result<u8, Failed> {
    if common.json {
        return Err(Failed::usage("a conversation at the terminal is not held in JSON").help(
            "use `toolgate run --json`, which goes on with a conversation by --continue or --session",
        ));
    }
    let signals = Signals::listen()?;
    let runtime = serving_runtime()?;
    let (sitting, reloader) = Sitting::begin(common, arguments, &runtime, Wait::No)?;
    let servers = sitting.servers.clone();
    let ended = runtime.block_on(async {
        let keeping_up = tokio::spawn(keep_up(reloader));
        let ended = match Room::enter(sitting, signals).await {
            Ok(room) => room.stay().await,
            Err(failed) => Err(failed),
        };
        keeping_up.abort();
        close(servers.as_deref()).await;
        ended
    });
    runtime.shutdown_timeout(LAST_MOMENT);
    ended
}

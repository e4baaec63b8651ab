//! `toolgate mcp logs`: what a server wrote to standard error.

use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::time::Duration;

use toolgate_assembly::ambient::open_to_follow;
use toolgate_assembly::servers::ServerStatePaths;
use toolgate_types::Trust;

use super::{StdoutStatus, named_servers, print, sleep_while_open};
use crate::arguments::GlobalOptions;
use crate::exit::{CliError, SUCCESS};
use crate::interrupt::Interrupt;
use crate::startup::resolve_settings;
use crate::terminal::escape_line;

/// How much of the end of a log is shown.
const MAX_SHOWN_BYTES: u64 = 64 * 1024;

/// How often a log is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub(crate) fn run(common: &GlobalOptions, server: &str, follow: bool) -> Result<u8, CliError> {
    let settings = resolve_settings(common, Trust::Guided)?;
    named_servers(&settings, Some(server))?;
    let declared = settings.loaded.config.mcp_servers.iter().find(|known| known.name.value == server);
    let Some(state) = declared.and_then(|declared| ServerStatePaths::of(&settings, declared)) else {
        return Err(CliError::usage(format!("`{server}` is no process of this machine"))
            .help("what a remote server says stands where it runs"));
    };
    let mut from = match size(&state.log) {
        Ok(size) => size.saturating_sub(MAX_SHOWN_BYTES),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !follow => {
            return Err(CliError::error(format!("`{server}` has written nothing yet"))
                .help(format!("`toolgate mcp list {server}` starts it")));
        }
        Err(_) => 0,
    };
    let interrupt = follow.then(Interrupt::install);
    loop {
        from = show(&state.log, from)?;
        let is_over = interrupt.as_ref().is_none_or(|interrupt| interrupt.token().is_cancelled());
        if is_over || sleep_while_open(POLL_INTERVAL) == StdoutStatus::Closed {
            return Ok(SUCCESS);
        }
    }
}

fn size(path: &Path) -> io::Result<u64> {
    Ok(open_to_follow(path)?.metadata()?.len())
}

/// Prints what was appended since, and returns where the next look begins. A file that became shorter was moved aside.
fn show(path: &Path, from: u64) -> Result<u64, CliError> {
    let Ok(mut file) = open_to_follow(path) else { return Ok(from) };
    let cannot = |error: io::Error| CliError::error(format!("the log cannot be read: {error}"));
    let size = file.metadata().map_err(cannot)?.len();
    let from = if size < from { 0 } else { from };
    file.seek(SeekFrom::Start(from)).map_err(cannot)?;
    let mut bytes = Vec::new();
    file.take(MAX_SHOWN_BYTES).read_to_end(&mut bytes).map_err(cannot)?;
    // Only whole lines: the rest is shown when it is complete, unless it is all there is.
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(bytes.len(), |end| end + 1);
    let whole = bytes.get(..end).unwrap_or_default();
    let text: String =
        String::from_utf8_lossy(whole).lines().map(|line| format!("{}\n", escape_line(line))).collect();
    if !text.is_empty() {
        print(&text)?;
    }
    Ok(from + u64::try_from(whole.len()).unwrap_or(0))
}

//! `toolgate completions`.

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::print;
use crate::arguments::Cli;
use crate::exit::{CliError, SUCCESS};

pub(crate) fn run(shell: Shell) -> Result<u8, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "toolgate", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(SUCCESS)
}

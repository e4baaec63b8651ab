//! `toolgate man`: manual pages, from the same definition as `--help`.

use std::path::Path;

use clap::CommandFactory as _;
use toolgate_assembly::ambient::{HostEnvironment, open_or_create_directory};

use super::print;
use crate::arguments::Cli;
use crate::exit::{CliError, SUCCESS};

/// Prints the page of the program, or writes the page of every command into a directory.
pub(crate) fn run(directory: Option<&Path>) -> Result<u8, CliError> {
    let Some(directory) = directory else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command())
            .render(&mut page)
            .map_err(|error| CliError::error(format!("the page cannot be made: {error}")))?;
        print(&String::from_utf8_lossy(&page))?;
        return Ok(SUCCESS);
    };
    let directory = HostEnvironment::detect()?.absolute(directory)?;
    let failed = |error: std::io::Error| {
        CliError::usage(format!("the pages cannot be written into `{}`: {error}", directory.display()))
            .help("name a directory that you may write, such as ~/.local/share/man/man1")
    };
    open_or_create_directory(&directory).map_err(failed)?;
    clap_mangen::generate_to(Cli::command(), &directory).map_err(failed)?;
    Ok(SUCCESS)
}

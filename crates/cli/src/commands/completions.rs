//! `toolgate completions`.

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::print;
use crate::arguments::Arguments;
use crate::exit::{DONE, Failed};

pub(crate) fn run(shell: Shell) -> Result<u8, Failed> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "toolgate", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(DONE)
}

//! Opens an address in the person's browser.
#![expect(
    clippy::disallowed_methods,
    reason = "the person's own browser is no tool of a model: nothing confines it"
)]

use std::io;
use std::process::{Command, Stdio};

use crate::startup::env_var;

/// The program that opens addresses, where `BROWSER` names none.
const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// Starts the browser: one program with the address as its one argument, and no shell in between.
pub(crate) fn open(url: &str) -> io::Result<()> {
    // Checked where it was made; this is the last place before another program.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/?[]@=&+%,".contains(&byte);
    if !(url.starts_with("https://") || url.starts_with("http://")) || !url.bytes().all(is_plain) {
        return Err(io::Error::other("it is not an address to open"));
    }
    // A list of commands with arguments, as some programs allow it, is not one program.
    let chosen = env_var("BROWSER").filter(|name| !name.is_empty() && !name.contains([' ', ':', '%']));
    let mut browser = Command::new(chosen.as_deref().unwrap_or(OPENER));
    browser.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    browser.env_remove("TOOLGATE_TOKEN");
    let mut started = browser.spawn()?;
    // It may run for hours; without `wait` it would stay a zombie for as long as this process lives.
    drop(std::thread::spawn(move || started.wait()));
    Ok(())
}

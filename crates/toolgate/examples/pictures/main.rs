//! Draws the pictures of the README and the pages: each is the screen of a terminal in which a real program ran.
//!
//! `cargo xtask pictures` builds this and passes the binary, the directory for the pictures, and the command of another client.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::string_slice,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a developer tool: it arranges files, starts programs and fails by panicking"
)]

#[path = "../../tests/it/pty.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod pty;
#[path = "../../tests/it/day.rs"]
mod day;
mod registry;
mod scenes;
mod svg;
mod tmux;

use std::path::PathBuf;

use scenes::Stage;

fn main() {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(toolgate), Some(pictures)) = (arguments.next(), arguments.next()) else {
        panic!("usage: pictures TOOLGATE DIRECTORY [CLAUDE]")
    };
    let claude = arguments.next();
    let stage = Stage::new(toolgate);
    let mut drawn = vec![("chat", stage.chat())];
    if let Some(claude) = claude {
        drawn.push(("claude-code", stage.claude_code(&claude)));
    }
    drawn.extend(stage.day());
    for (name, picture) in drawn {
        let file = pictures.join(name).with_extension("svg");
        std::fs::write(&file, picture).unwrap();
        println!("{}", file.display());
    }
}

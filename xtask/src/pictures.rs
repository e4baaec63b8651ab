//! Draws the pictures of the README from real runs: `toolgate chat`, the same question in another client, the report of
//! `toolgate eval`, and the page.

use std::path::Path;

use crate::Fault;
use crate::command::{cargo, program, root, succeed};
use crate::metadata::Metadata;
use crate::{page, report_picture};

/// The other client, and the version that was tried.
const CLIENT: &str = "@anthropic-ai/claude-code-linux-x64@2.1.197";

pub(crate) fn run() -> Result<(), Fault> {
    let target = Metadata::ask(cargo(&[])?)?.target_directory;
    // The binary embeds it.
    page::build()?;
    succeed(cargo(&["build", "--package", "toolgate", "--bin", "toolgate", "--example", "pictures"])?)?;
    let packages = target.join("pictures");
    std::fs::create_dir_all(&packages)?;
    let mut npm =
        program("npm", &["install", "--no-save", "--no-audit", "--no-fund", "--loglevel=error", CLIENT])?;
    npm.current_dir(&packages);
    succeed(npm)?;
    let mut draw = program(text(&target.join("debug/examples/pictures"))?, &[])?;
    draw.arg(target.join("debug/toolgate"))
        .arg(root()?.join("docs/pictures"))
        .arg(packages.join("node_modules/@anthropic-ai/claude-code-linux-x64/claude"));
    succeed(draw)?;
    report_picture::draw(&target.join("debug/toolgate"), &packages)?;
    page::pictures()
}

fn text(path: &Path) -> Result<&str, Fault> {
    path.to_str().ok_or_else(|| format!("{} is not text", path.display()).into())
}

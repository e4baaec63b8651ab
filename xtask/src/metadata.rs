//! What cargo says about a workspace.

use std::path::PathBuf;
use std::process::Command;

use serde::Deserialize;

use crate::Fault;
use crate::command::output;

/// The parts of `cargo metadata` that tasks ask for.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    pub(crate) target_directory: PathBuf,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) manifest_path: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<Target>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    /// Where it lies, if it is a folder and not a package of the registry.
    pub(crate) path: Option<PathBuf>,
    /// `dev`, `build`, or nothing for an ordinary one.
    pub(crate) kind: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) kind: Vec<String>,
}

impl Metadata {
    /// Asks a cargo.
    pub(crate) fn ask(mut cargo: Command) -> Result<Self, Fault> {
        cargo.args(["metadata", "--format-version", "1", "--no-deps"]);
        Ok(serde_json::from_str(&output(cargo)?)?)
    }
}

//! Servers that are packages of a registry.
//!
//! A package is resolved and installed once, by the package manager of the machine, in a sandbox whose network ends at the configured registry
//! ([`install`]). What was installed is a tree of files whose digests are kept in a sealed [`Lock`]. A start needs no network and no package manager:
//! [`PackageStore::verified`] compares every file with its digest first, so that a changed file stops the server.
//!
//! This crate starts no process and opens no connection itself (see [`InstallSandbox`]), and knows no server, gate or configuration file.

mod error;
mod lock;
mod tree;
mod store;
mod sandbox;
mod registry;
mod npm;
mod python;
mod image;
mod install;

pub use error::PackageError;
pub use install::{InstallRequest, install};
pub use lock::{Lock, LockedPackage};
pub use registry::RegistryAccess;
pub use sandbox::{
    InstallSandbox, InstallStep, PACKAGE_PATH, PulledImage, SCRATCH_PATH, StepOutput, UserConfig,
};
pub use store::{Installed, PackageStore, StagedPackage};
pub use tree::{TreeListing, list_tree};

//! The composition root: from a configuration and the environment of a process to a running gate.
//!
//! [`settings`] joins `toolgate.yaml` with the overrides of the command line or an embedding program, [`gate_builder`] opens state, audit log,
//! journal and workspace and builds the gate, [`load`] reads what decisions depend on (tools, policies, callers), and [`reload`] replaces that while
//! the gate runs. All ambient input is a [`HostEnvironment`](ambient::HostEnvironment): current directory, home, user, variables. Notices for the
//! operator are `tracing` events with the target [`notices::TARGET`].

pub mod error;
pub mod notices;
pub mod overrides;
pub mod supplied;
pub mod ambient;
pub mod atomic_file;
pub mod symlink_walk;
pub mod ownership;
pub mod trust;
pub mod settings;
pub mod state_dir;
pub mod config_files;
pub mod secrets;
pub mod callers;
pub mod toolchains;
pub mod program_files;
mod lendable_directories;
pub mod sandbox_settings;
pub mod web_search;
pub mod servers;
pub mod protected_paths;
pub mod personal_paths;
mod information_flow;
pub mod load;
pub mod gate_builder;
pub mod reload;

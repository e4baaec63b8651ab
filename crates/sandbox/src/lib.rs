//! Confines and runs one process tree.
//!
//! A [`Sandbox`] is prepared once: it finds out which layers the machine has, compiles the filter on system calls and keeps the program that becomes
//! process 1. [`Sandbox::run`] then starts one [`Job`] in a view of the system that is made for it, listens to it, and comes back when nothing that it
//! started is alive. A job that serves others for hours is run in the same way, with its streams handed to whoever talks with it. The crate knows processes, mounts and layers; it refuses to know tools, callers, configuration files and what any output means.
//!
//! Raw system calls are in `sys`, and only there. Other systems would come as further implementations of [`Backend`].

mod apart;
mod backend;
mod cell;
mod cgroup;
mod environment;
mod error;
mod filter;
mod job;
mod landlock;
mod layer;
mod limits;
mod plan;
mod probe;
mod pump;
mod sandbox;
mod step;
mod sys;
mod view;

/// Gives memory back that was only needed to start, for programs that then go on for long.
pub fn give_back_program_text() {
    sys::text::give_back();
}

pub use backend::Backend;
pub use environment::{refused_variable, steering_variable};
pub use error::SandboxError;
pub use job::{
    Ended, Ends, Exit, Handed, Job, LimitHit, Mounted, Network, OnFlood, PROXY_PORT, Pumped, Stopped, Stream,
    Streams,
};
pub use layer::{Layer, LayerReport, Layers};
pub use limits::ResourceLimits;
pub use sandbox::{Sandbox, SandboxOptions};
pub use view::refused_place;

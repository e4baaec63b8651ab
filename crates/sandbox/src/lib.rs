//! Confines and runs one process tree.
//!
//! A [`Sandbox`] is prepared once: it finds out which layers the machine has, compiles the filter on system calls and keeps the program that becomes
//! process 1. [`Sandbox::run`] then starts one [`Job`] in a view of the system that is made for it, listens to it, and comes back when nothing that it
//! started is alive. A job that serves others for hours is run in the same way, with its streams handed to whoever talks with it. The crate knows processes, mounts and layers; it refuses to know tools, callers, configuration files and what any output means.
//!
//! Raw system calls are in `sys`, and only there. Other systems would come as further implementations of [`Backend`].

mod bare_binds;
mod backend;
mod namespaces;
mod cgroup;
mod environment;
mod error;
mod seccomp;
mod job;
mod landlock;
mod layer;
mod limits;
mod plan;
mod probe;
mod supervise;
mod sandbox;
mod setup_step;
mod sys;
mod system_view;

/// Gives memory back that was only needed to start, for programs that then go on for long.
pub fn madvise_dontneed_text() {
    sys::program_text::madvise_dontneed();
}

pub use backend::Backend;
pub use environment::{loader_variable, refused_variable};
pub use error::SandboxError;
pub use job::{
    BindMount, CapturedStdio, CommandExit, CommandStdio, Exit, Job, LimitHit, Network, OnOutputLimit,
    PROXY_PORT, PipeEnds, PipedStdio, Stream, TerminationReason,
};
pub use layer::{Layer, LayerReport, Layers};
pub use limits::ResourceLimits;
pub use sandbox::{Sandbox, SandboxOptions};
pub use system_view::refused_place;

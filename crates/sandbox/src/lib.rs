//! Confines and runs one process tree.
//!
//! A [`Sandbox`] is prepared once: it probes which layers the machine supports, compiles the seccomp filter and holds the init program that becomes
//! process 1. [`Sandbox::run`] then starts one [`Job`] in a mount namespace of its own, supervises it, and returns when nothing that it started is
//! alive. A long-running job is run in the same way, with its standard streams passed to its client. The crate knows processes, mounts and layers; it
//! refuses to know tools, callers, configuration files and what any output means.
//!
//! Raw system calls are in `sys`, and only there. Other operating systems would be further implementations of [`Backend`].

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
mod proxy_port;
mod supervise;
mod temp_directory;
mod launch_report;
mod sandbox;
mod setup_step;
mod sys;
mod system_view;

/// Returns the memory of startup code to the kernel (`MADV_DONTNEED`), for long-running programs.
pub fn madvise_dontneed_text() {
    sys::program_text::madvise_dontneed();
}

pub use backend::Backend;
pub use environment::{loader_variable, refused_variable};
pub use error::SandboxError;
pub use job::{
    BindMount, CapturedStdio, CommandExit, CommandStdio, Exit, HomeLink, Job, LimitHit, Network,
    OnOutputLimit, PROXY_PORT, PipeEnds, PipedStdio, ServeProxy, Stream, StreamedStdio, TerminationReason,
};
pub use layer::{Layer, LayerReport, Layers};
pub use limits::ResourceLimits;
pub use sandbox::{Sandbox, SandboxOptions};
pub use system_view::refused_place;

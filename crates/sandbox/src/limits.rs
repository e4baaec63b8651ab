//! Resource limits of one command.

use rustix::process::{Resource, Rlimit};

/// Resource limits of one command. Zero is a mistake, not a limit; no value means "unlimited".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceLimits {
    /// Bytes of memory: per process, and for the whole command if there is a cgroup.
    pub memory: u64,
    /// Concurrent processes and threads.
    pub processes: u64,
    /// Maximum size of a file.
    pub file_size: u64,
    /// Open files per process.
    pub open_files: u64,
    /// Seconds of CPU time per process.
    pub cpu_seconds: u64,
    /// Bytes in `/tmp` and `/dev/shm`.
    pub temporary: u64,
}

impl Default for ResourceLimits {
    fn default() -> Self {
        const MIB: u64 = 1024 * 1024;
        Self {
            memory: 4096 * MIB,
            processes: 512,
            file_size: 1024 * MIB,
            open_files: 1024,
            cpu_seconds: 600,
            temporary: 512 * MIB,
        }
    }
}

/// CPU time of a long-running process.
const LONG_LIVED_CPU_SECONDS: u64 = 10 * 366 * 24 * 3600;

impl ResourceLimits {
    /// The limits for a long-running server process: its calls have deadlines of their own.
    #[must_use]
    pub fn long_lived(self) -> Self {
        Self { cpu_seconds: LONG_LIVED_CPU_SECONDS, ..self }
    }

    /// The rlimits of each process. `RLIMIT_CPU` leaves one second between `SIGXCPU` (soft) and `SIGKILL` (hard).
    pub(crate) fn rlimits(&self) -> Vec<(Resource, Rlimit)> {
        let both = |value: u64| Rlimit { current: Some(value), maximum: Some(value) };
        vec![
            // `RLIMIT_DATA`: private writable memory, that is what a process can fill, not the address space it reserves.
            (Resource::Data, both(self.memory)),
            (Resource::Nproc, both(self.processes)),
            (Resource::Fsize, both(self.file_size)),
            (Resource::Nofile, both(self.open_files)),
            (
                Resource::Cpu,
                Rlimit { current: Some(self.cpu_seconds), maximum: Some(self.cpu_seconds.saturating_add(1)) },
            ),
            // No core dump: 1 byte is too small for a file, and 1 is the only value for which the kernel does not start a piped `core_pattern`
            // handler on the host either. For 0 it would.
            (Resource::Core, both(1)),
            (Resource::Memlock, both(64 * 1024)),
            (Resource::Msgqueue, both(0)),
        ]
    }
}

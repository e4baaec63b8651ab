//! How much one command may use.

use rustix::process::{Resource, Rlimit};

/// The bounds of one command. Zero is not a bound but a mistake; nothing here means "unlimited".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceLimits {
    /// Bytes of memory: of each process, and of all together where there is a control group.
    pub memory: u64,
    /// Processes and threads at a time.
    pub processes: u64,
    /// Bytes of one file.
    pub file_size: u64,
    /// Open files of one process.
    pub open_files: u64,
    /// Seconds of processor time of one process.
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

/// Processor time of a process that goes on for as long as somebody uses it.
const LONG_LIVED_CPU_SECONDS: u64 = 10 * 366 * 24 * 3600;

impl ResourceLimits {
    /// The same for a process that serves others: its time is that of its calls, which have bounds of their own.
    #[must_use]
    pub fn long_lived(self) -> Self {
        Self { cpu_seconds: LONG_LIVED_CPU_SECONDS, ..self }
    }

    /// What the kernel is told for each process. A second of grace between the warning and the end of processor time.
    pub(crate) fn rlimits(&self) -> Vec<(Resource, Rlimit)> {
        let both = |value: u64| Rlimit { current: Some(value), maximum: Some(value) };
        vec![
            // Private writable memory: what a process can fill, not what it reserves.
            (Resource::Data, both(self.memory)),
            (Resource::Nproc, both(self.processes)),
            (Resource::Fsize, both(self.file_size)),
            (Resource::Nofile, both(self.open_files)),
            (
                Resource::Cpu,
                Rlimit { current: Some(self.cpu_seconds), maximum: Some(self.cpu_seconds.saturating_add(1)) },
            ),
            // No image of memory: too small for a file, and the one number for which the kernel starts no program on the host either, where a machine
            // hands images to one. For zero it would.
            (Resource::Core, both(1)),
            (Resource::Memlock, both(64 * 1024)),
            (Resource::Msgqueue, both(0)),
        ]
    }
}

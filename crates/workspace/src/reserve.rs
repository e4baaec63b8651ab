//! Disk space reserved on the filesystem of the audit log: a command or a flood of changes that fills it would stop the audit log.

use std::fs::File;
use std::io;
use std::sync::OnceLock;

use rustix::fs::StatVfs;
use rustix::io::Errno;

/// The default: what a command writes at 1.6 GB/s within two polls of the sandbox.
pub const USUAL_RESERVE_BYTES: u64 = 64 * 1024 * 1024;
/// The same for inodes: a filesystem without a free one (`f_favail`) is as full as one without a free block.
const USUAL_INODES: u64 = 4096;
/// On a small filesystem at most this fraction is reserved.
const USUAL_PART: u64 = 50;
/// Removing and moving files stays possible until this fraction of the reserve is left: it only adds an entry to the undo journal.
const PART_FOR_REMOVALS: u64 = 4;

/// Opens a directory on the filesystem in question.
type Open = Box<dyn Fn() -> io::Result<File> + Send + Sync>;

/// How much must stay free, and where.
pub struct DiskReserve {
    open: Open,
    directory: OnceLock<File>,
    bytes: Option<u64>,
}

impl std::fmt::Debug for DiskReserve {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("DiskReserve").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// What may still be done before the reserve is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Headroom {
    /// Anything.
    Enough,
    /// Only removing and moving files. The reason is for the operator.
    RemovalsOnly(String),
    /// Nothing that takes space. The reason is for the operator.
    Nothing(String),
    /// Nothing that takes space, because the free space is unknown. The reason is for the operator.
    Unknown(String),
}

impl DiskReserve {
    /// A reserve on the filesystem of a directory, which is opened on first use. Without a size: 64 MiB or a fiftieth of the filesystem, whichever is
    /// less. Zero disables it.
    #[must_use]
    pub fn new(open: impl Fn() -> io::Result<File> + Send + Sync + 'static, bytes: Option<u64>) -> Self {
        Self { open: Box::new(open), directory: OnceLock::new(), bytes }
    }

    /// What may be done if this many bytes are about to be written.
    #[must_use]
    pub fn headroom(&self, bytes: u64) -> Headroom {
        self.measure(bytes).unwrap_or_else(|error| {
            let remedy = match Errno::from_io_error(&error) {
                Some(Errno::MFILE) => "; raise the limit of the gate on open files (`ulimit -n`)",
                Some(Errno::NFILE) => "; raise the limit of the system on open files (`fs.file-max`)",
                _ => "",
            };
            Headroom::Unknown(format!(
                "the free space of the audit directory cannot be told: {error}{remedy}"
            ))
        })
    }

    /// Whether a running command must be killed. False if the free space cannot be determined: it was when the command started.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.measure(0).is_ok_and(|headroom| headroom != Headroom::Enough)
    }

    fn measure(&self, bytes: u64) -> io::Result<Headroom> {
        let stat = self.stat()?;
        let size = stat.f_blocks.saturating_mul(stat.f_frsize);
        // `f_bavail` leaves out the blocks of `f_bfree` that are reserved for root (five percent on ext4).
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        // A filesystem that reports no size (`f_blocks` is 0) gets no reserve; btrfs reports no number of inodes.
        let reserve = self.bytes.unwrap_or(USUAL_RESERVE_BYTES.min(size / USUAL_PART)).min(size);
        let inodes = if reserve == 0 { 0 } else { USUAL_INODES.min(stat.f_files / USUAL_PART) };
        let note = match () {
            () if free < reserve.saturating_add(bytes) => format!(
                "{free} bytes are free on the filesystem of the audit directory, and `audit.reserve` keeps {reserve}"
            ),
            () if stat.f_favail < inodes => format!(
                "{} inodes are free on the filesystem of the audit directory, and {inodes} are kept",
                stat.f_favail
            ),
            () => return Ok(Headroom::Enough),
        };
        let is_low = free < reserve / PART_FOR_REMOVALS || stat.f_favail < inodes / PART_FOR_REMOVALS;
        Ok(if is_low { Headroom::Nothing(note) } else { Headroom::RemovalsOnly(note) })
    }

    fn stat(&self) -> io::Result<StatVfs> {
        let directory = match self.directory.get() {
            Some(directory) => directory,
            None => {
                let opened = (self.open)()?;
                self.directory.get_or_init(|| opened)
            }
        };
        Ok(rustix::fs::fstatvfs(directory)?)
    }
}

//! Space that a model must leave on the filesystem of the gate's record: a command or a flood of changes that fills it would switch the record off.

use std::fs::File;
use std::io;
use std::sync::OnceLock;

use rustix::fs::StatVfs;
use rustix::io::Errno;

/// Kept free unless the operator says otherwise: as much as a command writes within two ticks of the sandbox at 1.6 GB/s.
pub const USUAL_RESERVE_BYTES: u64 = 64 * 1024 * 1024;
/// As many inodes: a filesystem without a free one (`f_favail`) is as full as one without a free block.
const USUAL_INODES: u64 = 4096;
/// Of a small filesystem no more than this part is kept free.
const USUAL_PART: u64 = 50;
/// What removes and moves files may go on until this part of the reserve is left: it takes an entry of the undo journal and no more.
const PART_FOR_REMOVALS: u64 = 4;

/// Opens a directory of the filesystem in question.
type Open = Box<dyn Fn() -> io::Result<File> + Send + Sync>;

/// How much must be left free, and where.
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

/// What may still be done, so many bytes before the reserve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Headroom {
    /// Anything.
    Enough,
    /// Files may be removed and moved. Why no more, for the operator.
    RemovalsOnly(String),
    /// Nothing that takes space. Why, for the operator.
    Nothing(String),
    /// Nothing that takes space, because it cannot be told how much is left. Why, for the operator.
    Unknown(String),
}

impl DiskReserve {
    /// On the filesystem of a directory, which is opened when it is first asked for. Without a size, 64 MiB or a fiftieth of the filesystem, whichever is
    /// less; zero keeps nothing free.
    #[must_use]
    pub fn new(open: impl Fn() -> io::Result<File> + Send + Sync + 'static, bytes: Option<u64>) -> Self {
        Self { open: Box::new(open), directory: OnceLock::new(), bytes }
    }

    /// What may be done where so many bytes are about to be written.
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

    /// Whether a running command must be ended. Where that cannot be told, it was told when the command began.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.measure(0).is_ok_and(|headroom| headroom != Headroom::Enough)
    }

    fn measure(&self, bytes: u64) -> io::Result<Headroom> {
        let stat = self.stat()?;
        let size = stat.f_blocks.saturating_mul(stat.f_frsize);
        // What of `f_bfree` is for root alone (ext4 keeps five percent) is not counted.
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        // A filesystem that does not tell its size has one of zero, and so no reserve; btrfs has no number of inodes.
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

//! Space that commands must leave on the filesystem of the gate's record: a command that fills it would switch the record off.

use std::fs::File;
use std::io;
use std::sync::OnceLock;

use toolgate_types::{ErrorCode, Failure};

/// Kept free unless the operator says otherwise: as much as a command writes within two ticks of the sandbox at 1.6 GB/s.
const USUAL_BYTES: u64 = 64 * 1024 * 1024;
/// Of a small filesystem no more than this part is kept free.
const USUAL_PART: u64 = 50;

/// Opens a directory of the filesystem in question.
type Open = Box<dyn Fn() -> io::Result<File> + Send + Sync>;

/// How much commands must leave free, and where.
pub struct DiskReserve {
    open: Open,
    directory: OnceLock<File>,
    bytes: Option<u64>,
}

/// What is free, and how much of it commands must leave.
struct Space {
    free: u64,
    reserve: u64,
}

impl DiskReserve {
    /// On the filesystem of a directory, which is opened when the first command is run. Without a size, 64 MiB or a fiftieth of the filesystem, whichever is
    /// less; zero keeps nothing free.
    #[must_use]
    pub fn new(open: impl Fn() -> io::Result<File> + Send + Sync + 'static, bytes: Option<u64>) -> Self {
        Self { open: Box::new(open), directory: OnceLock::new(), bytes }
    }

    /// Refuses to start a command where there is too little space already: it would be ended as soon as it is looked at.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let note = match self.space() {
            Ok(Space { free, reserve }) if free < reserve => {
                format!(
                    "{free} bytes are free on the filesystem of the audit directory, and `audit.reserve` keeps {reserve}"
                )
            }
            Ok(_) => return Ok(()),
            Err(error) => format!("the free space of the audit directory cannot be told: {error}"),
        };
        let message = "no command is started: the disk that the gate keeps its record on is almost full";
        let help = "delete files that are not needed with a file tool; the operator can free space or set `audit.reserve`";
        Err(Failure::new(ErrorCode::DiskFull, message).help(help).operator_note(note))
    }

    /// Whether a running command must be ended.
    pub(super) fn is_short(&self) -> bool {
        self.space().is_ok_and(|space| space.free < space.reserve)
    }

    fn space(&self) -> io::Result<Space> {
        let directory = match self.directory.get() {
            Some(directory) => directory,
            None => {
                let opened = (self.open)()?;
                self.directory.get_or_init(|| opened)
            }
        };
        let stat = rustix::fs::fstatvfs(directory)?;
        let size = stat.f_blocks.saturating_mul(stat.f_frsize);
        // What of `f_bfree` is for root alone (ext4 keeps five percent) is not counted.
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        // A filesystem that does not tell its size has one of zero, and so no reserve.
        let reserve = self.bytes.unwrap_or(USUAL_BYTES.min(size / USUAL_PART)).min(size);
        Ok(Space { free, reserve })
    }
}

//! A directory that commands can read, with host processes behind the socket and the FIFOs in it.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{FileType, Mode};
use tempfile::TempDir;

/// The directory, and what the host has open in it.
pub(crate) struct Shown {
    directory: TempDir,
    listener: UnixListener,
    /// Keeps the host's data in `told.fifo`.
    _told: File,
    /// Reads what is written into `heard.fifo`.
    heard: File,
}

impl Shown {
    /// Outside of `/tmp`, which is private to a command.
    pub(crate) fn new(said: &str) -> Self {
        Self::within(Path::new("/var/tmp"), said).unwrap()
    }

    /// Below a system directory, if this process may write there.
    pub(crate) fn within(parent: &Path, said: &str) -> std::io::Result<Self> {
        let directory = tempfile::Builder::new().prefix("toolgate-attack-").tempdir_in(parent)?;
        let path = directory.path();
        let open_to_all = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        open_to_all(path, 0o755);
        let listener = UnixListener::bind(path.join("service.sock")).unwrap();
        listener.set_nonblocking(true).unwrap();
        open_to_all(&path.join("service.sock"), 0o777);
        let (mut told, heard) = (fifo(&path.join("told.fifo")), fifo(&path.join("heard.fifo")));
        told.write_all(said.as_bytes()).unwrap();
        Ok(Self { directory, listener, _told: told, heard })
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Whether a client connected.
    pub(crate) fn was_connected(&self) -> bool {
        self.listener.accept().is_ok()
    }

    /// Whether something was written into the FIFO that the host reads.
    pub(crate) fn was_written(&self) -> bool {
        (&self.heard).read(&mut [0_u8; 64]).is_ok_and(|length| length > 0)
    }
}

/// A FIFO with mode 0666, open at both ends.
fn fifo(path: &Path) -> File {
    rustix::fs::mknodat(rustix::fs::CWD, path, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666)).unwrap();
    let flags = rustix::fs::OFlags::NONBLOCK.bits();
    OpenOptions::new().read(true).write(true).custom_flags(flags.cast_signed()).open(path).unwrap()
}

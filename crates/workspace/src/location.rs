//! Where an open file really is.

use std::ffi::OsString;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::sync::OnceLock;

use rustix::fs::{Mode, OFlags};
use rustix::path::DecInt;

/// `/proc/self/fd`, opened once: a link in it is read for every opened file.
static PROC_SELF_FD: OnceLock<OwnedFd> = OnceLock::new();

fn proc_self_fd() -> io::Result<&'static OwnedFd> {
    if let Some(folder) = PROC_SELF_FD.get() {
        return Ok(folder);
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::open("/proc/self/fd", flags, Mode::empty())?;
    Ok(PROC_SELF_FD.get_or_init(|| folder))
}

/// The path of an open handle, from its link in `/proc/self/fd`. Fails when the kernel reports none: a rule that cannot be applied counts as
/// violated.
pub(crate) fn real_location(handle: BorrowedFd<'_>) -> io::Result<PathBuf> {
    let target = rustix::fs::readlinkat(proc_self_fd()?, DecInt::from_fd(handle), Vec::with_capacity(256))?;
    let path = PathBuf::from(OsString::from_vec(target.into_bytes()));
    if path.is_absolute() {
        Ok(path)
    } else {
        Err(io::Error::other("the kernel does not tell where this file is"))
    }
}

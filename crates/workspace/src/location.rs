//! Where an open file really is.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

/// Asks the kernel for the path of an open handle. Fails when the system does not tell: a rule that cannot be applied is not passed.
pub(crate) fn real_location(handle: BorrowedFd<'_>) -> io::Result<PathBuf> {
    let link = format!("/proc/self/fd/{}", handle.as_raw_fd());
    let target = rustix::fs::readlink(link, Vec::with_capacity(256))?;
    let path = PathBuf::from(OsString::from_vec(target.into_bytes()));
    if path.is_absolute() {
        Ok(path)
    } else {
        Err(io::Error::other("the kernel does not tell where this file is"))
    }
}

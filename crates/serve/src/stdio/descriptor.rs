//! A descriptor in non-blocking mode, without changing it for other holders where possible.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, fcntl_getfl, fcntl_setfl, fstat, open};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

/// The direction of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IoDirection {
    /// Reading.
    In,
    /// Writing.
    Out,
}

/// A descriptor and how to wait for it.
#[derive(Debug)]
pub(super) enum Descriptor {
    /// Polled with epoll.
    Watched(AsyncFd<OwnedFd>),
    /// Always ready, such as a regular file.
    Ready(OwnedFd),
}

impl Descriptor {
    pub(super) fn new(given: OwnedFd, direction: IoDirection) -> io::Result<Self> {
        let interest = match direction {
            IoDirection::In => Interest::READABLE,
            IoDirection::Out => Interest::WRITABLE,
        };
        let kind = FileType::from_raw_mode(fstat(&given)?.st_mode);
        if kind == FileType::RegularFile {
            return Ok(Self::Ready(given));
        }
        let own = without_blocking(given, kind, direction)?;
        #[expect(
            deprecated,
            reason = "its successor is unsafe; a descriptor that is owned stays open as long as it is watched"
        )]
        let watched = AsyncFd::try_with_interest(own, interest);
        match watched {
            Ok(watched) => Ok(Self::Watched(watched)),
            Err(error) => {
                let (own, source) = error.into_parts();
                // `epoll_ctl` fails with `EPERM` for files that are always ready, such as /dev/null.
                match Errno::from_io_error(&source) == Some(Errno::PERM) {
                    true => Ok(Self::Ready(own)),
                    false => Err(source),
                }
            }
        }
    }

    /// Waits until the descriptor is readable.
    pub(super) async fn readable(&self) -> io::Result<Readiness<'_>> {
        match self {
            Self::Watched(watched) => Ok(Readiness(Some(watched.readable().await?))),
            Self::Ready(_) => Ok(Readiness(None)),
        }
    }

    /// Waits until the descriptor is writable.
    pub(super) async fn writable(&self) -> io::Result<Readiness<'_>> {
        match self {
            Self::Watched(watched) => Ok(Readiness(Some(watched.writable().await?))),
            Self::Ready(_) => Ok(Readiness(None)),
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Watched(watched) => watched.get_ref().as_fd(),
            Self::Ready(own) => own.as_fd(),
        }
    }
}

/// A readiness event.
pub(super) struct Readiness<'d>(Option<AsyncFdReadyGuard<'d, OwnedFd>>);

impl Readiness<'_> {
    /// Clears the readiness: the next wait waits for a new event.
    pub(super) fn end(self) {
        if let Some(mut guard) = self.0 {
            guard.clear_ready();
        }
    }
}

/// The same pipe or terminal, non-blocking for this process alone. `O_NONBLOCK` belongs to the open file description, which the parent and its shell
/// may share, so it is opened again through `/proc/self/fd`. A socket cannot be opened again; there the flag is set on the shared description.
fn without_blocking(given: OwnedFd, kind: FileType, direction: IoDirection) -> io::Result<OwnedFd> {
    if matches!(kind, FileType::Fifo | FileType::CharacterDevice) {
        let path = format!("/proc/self/fd/{}", given.as_raw_fd());
        let access = if direction == IoDirection::In { OFlags::RDONLY } else { OFlags::WRONLY };
        let flags = access | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        if let Ok(own) = open(path, flags, Mode::empty()) {
            return Ok(own);
        }
    }
    fcntl_setfl(&given, fcntl_getfl(&given)? | OFlags::NONBLOCK)?;
    Ok(given)
}

//! What the kernel and the filesystem of the workspace offer.

use std::path::Path;

use rustix::fs::{Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;

use super::{CheckStatus, DoctorCheck, check_result};

pub(super) fn opening_beneath(folder: &std::fs::File) -> DoctorCheck {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(folder, ".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve) {
        Ok(_) => check_result("openat2", CheckStatus::Ok, "the kernel keeps paths beneath a mount"),
        Err(error) => check_result(
            "openat2",
            CheckStatus::Fallback,
            format!("{error}; paths are walked name by name without following links"),
        ),
    }
}

pub(super) fn real_locations() -> DoctorCheck {
    match rustix::fs::readlink("/proc/self/fd/0", Vec::new()) {
        Ok(_) => check_result("/proc", CheckStatus::Ok, "the kernel tells where an open file is"),
        Err(Errno::NOENT) if Path::new("/proc/self/fd").exists() => {
            check_result("/proc", CheckStatus::Ok, "mounted")
        }
        Err(error) => check_result(
            "/proc",
            CheckStatus::Missing,
            format!("{error}; mount /proc: rules are applied to real locations"),
        ),
    }
}

pub(super) fn unnamed_files(folder: &std::fs::File) -> DoctorCheck {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::openat(folder, ".", flags, Mode::from_raw_mode(0o600)) {
        Ok(_) => {
            check_result("unnamed files", CheckStatus::Ok, "new content has no name until it is complete")
        }
        Err(error) => check_result(
            "unnamed files",
            CheckStatus::Fallback,
            format!("{error}; new content waits in memory"),
        ),
    }
}

/// Probes `renameat2` with `RENAME_EXCHANGE` on two missing names: a kernel that supports it returns `ENOENT`.
pub(super) fn exchange(folder: &std::fs::File) -> DoctorCheck {
    match rustix::fs::renameat_with(
        folder,
        ".toolgate-doctor-a",
        folder,
        ".toolgate-doctor-b",
        RenameFlags::EXCHANGE,
    ) {
        Err(Errno::NOENT) | Ok(()) => {
            check_result("exchange", CheckStatus::Ok, "old and new content change places in one step")
        }
        Err(error) => check_result(
            "exchange",
            CheckStatus::Fallback,
            format!("{error}; content is replaced by renaming"),
        ),
    }
}

//! Landlock rules: a second check of every file access, independent of the mounts.

use std::os::fd::OwnedFd;

use crate::error::SandboxError;
use crate::sys::calls::{self, LandlockRulesetAttr};

// The constants of the kernel's `landlock.h`, in its order.
const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEV: u64 = 1 << 15;
/// Every filesystem right up to ABI 5.
const EVERY_FILE_RIGHT: u64 = (1 << 16) - 1;
/// Both scopes (ABI 6): abstract Unix sockets and signals.
const EVERY_SCOPE: u64 = 0b11;
/// The rights that apply to a non-directory.
const FILE_RIGHTS: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;

/// What a command may do at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LandlockAccess {
    /// List a directory.
    List,
    /// Read files and execute programs.
    Read,
    /// Everything except `ioctl` on devices.
    Write,
    /// Read and write a device.
    Device,
}

/// The kernel's Landlock ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LandlockAbi {
    version: u32,
}

impl LandlockAbi {
    /// The kernel's ABI version; an error if it has no Landlock.
    pub(crate) fn of_kernel() -> Result<Self, rustix::io::Errno> {
        calls::landlock_version().map(|version| Self { version })
    }

    pub(crate) fn version(self) -> u32 {
        self.version
    }

    fn file_rights(self) -> u64 {
        match self.version {
            0 => 0,
            1 => REFER - 1,
            2 => TRUNCATE - 1,
            3 | 4 => IOCTL_DEV - 1,
            _ => EVERY_FILE_RIGHT,
        }
    }

    /// The access bits for a directory or a file.
    pub(crate) fn access_bits(self, access: LandlockAccess, is_directory: bool) -> u64 {
        let wanted = match access {
            LandlockAccess::List => READ_DIR,
            LandlockAccess::Read => EXECUTE | READ_FILE | READ_DIR,
            LandlockAccess::Write => EVERY_FILE_RIGHT & !IOCTL_DEV,
            LandlockAccess::Device => WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV,
        };
        let possible = if is_directory { self.file_rights() } else { self.file_rights() & FILE_RIGHTS };
        wanted & possible
    }

    /// An empty ruleset. Network access is not restricted here: the network namespace does that.
    pub(crate) fn create_ruleset(self) -> Result<OwnedFd, SandboxError> {
        let scoped = if self.version >= 6 { EVERY_SCOPE } else { 0 };
        let watch = LandlockRulesetAttr { files: self.file_rights(), network: 0, scoped };
        calls::landlock_create_ruleset(&watch).map_err(SandboxError::system("Landlock makes no rules"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_grow_with_versions_and_a_file_has_fewer() {
        let rights: Vec<u32> =
            (0..=7).map(|version| LandlockAbi { version }.file_rights().count_ones()).collect();
        assert_eq!(rights, [0, 13, 14, 15, 15, 16, 16, 16]);
        let dialect = LandlockAbi { version: 7 };
        assert_eq!(dialect.access_bits(LandlockAccess::Read, true), EXECUTE | READ_FILE | READ_DIR);
        assert_eq!(dialect.access_bits(LandlockAccess::Read, false), EXECUTE | READ_FILE);
        assert_eq!(dialect.access_bits(LandlockAccess::Write, true) & IOCTL_DEV, 0);
    }
}

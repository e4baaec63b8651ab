//! What Landlock is told: a second opinion on every file, from another part of the kernel.

use std::os::fd::OwnedFd;

use crate::error::SandboxError;
use crate::sys::calls::{self, LandlockWatch};

// The kernel's numbers, in the order of its header.
const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEV: u64 = 1 << 15;
/// Every right over files up to the fifth version.
const EVERY_FILE_RIGHT: u64 = (1 << 16) - 1;
/// Both scopes: abstract sockets and signals of others.
const EVERY_SCOPE: u64 = 0b11;
/// What can be asked of a file that is not a folder.
const OF_A_FILE: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;

/// What a command may do at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// See the names in a folder.
    List,
    /// Read and start programs.
    Read,
    /// Everything but talking to devices.
    Change,
    /// Read and write a device.
    Device,
}

/// Landlock as this kernel speaks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dialect {
    version: u32,
}

impl Dialect {
    /// The kernel's version, or nothing where it has none.
    pub(crate) fn of_this_kernel() -> Result<Self, rustix::io::Errno> {
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

    /// The bits for an access at a folder, or at a file.
    pub(crate) fn bits(self, access: Access, is_directory: bool) -> u64 {
        let wanted = match access {
            Access::List => READ_DIR,
            Access::Read => EXECUTE | READ_FILE | READ_DIR,
            Access::Change => EVERY_FILE_RIGHT & !IOCTL_DEV,
            Access::Device => WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV,
        };
        let possible = if is_directory { self.file_rights() } else { self.file_rights() & OF_A_FILE };
        wanted & possible
    }

    /// An empty set of rules. The network is not Landlock's here: the namespace has none.
    pub(crate) fn rules(self) -> Result<OwnedFd, SandboxError> {
        let scoped = if self.version >= 6 { EVERY_SCOPE } else { 0 };
        let watch = LandlockWatch { files: self.file_rights(), network: 0, scoped };
        calls::landlock_rules(&watch).map_err(SandboxError::system("Landlock makes no rules"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_grow_with_versions_and_a_file_has_fewer() {
        let rights: Vec<u32> =
            (0..=7).map(|version| Dialect { version }.file_rights().count_ones()).collect();
        assert_eq!(rights, [0, 13, 14, 15, 15, 16, 16, 16]);
        let dialect = Dialect { version: 7 };
        assert_eq!(dialect.bits(Access::Read, true), EXECUTE | READ_FILE | READ_DIR);
        assert_eq!(dialect.bits(Access::Read, false), EXECUTE | READ_FILE);
        assert_eq!(dialect.bits(Access::Change, true) & IOCTL_DEV, 0);
    }
}

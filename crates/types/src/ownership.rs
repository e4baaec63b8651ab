//! Whether another user of this machine could have written a file or directory that is about to be trusted, by its owner and its mode.
//!
//! One check for everything that the gate trusts: its configuration, its state, its baselines, its conversations, the keys of callers. Whether a
//! parent directory could be swapped is a separate check, for code that knows the path.

/// `S_IWGRP`.
const GROUP_WRITE: u32 = 0o020;
/// `S_IWOTH`.
const OTHER_WRITE: u32 = 0o002;

/// Owner, group and mode of a file or directory, from `fstat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ownership {
    /// `st_uid`.
    pub owner: u32,
    /// `st_gid`.
    pub group: u32,
    /// `st_mode`.
    pub mode: u32,
}

/// Why another user could have written it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherWriter {
    /// It belongs to this user id.
    Owner(u32),
    /// Its mode, of which these are the permission bits, makes it writable for others.
    Mode(u32),
}

impl Ownership {
    /// Who else could have written it, apart from this user and root, which can write everything anyway.
    #[must_use]
    pub fn other_writer(self, this_user: u32) -> Option<OtherWriter> {
        let Self { owner, group, mode } = self;
        if owner != this_user && owner != 0 {
            return Some(OtherWriter::Owner(owner));
        }
        // A group with the same id as the owner is that user's private group (the `umask 002` convention of Debian and Fedora).
        let has_shared_group = mode & GROUP_WRITE != 0 && group != owner;
        (has_shared_group || mode & OTHER_WRITE != 0).then_some(OtherWriter::Mode(mode & 0o7777))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_owner_and_a_mode_for_others_are_other_writers() {
        for (owner, group, mode, expected) in [
            (1000, 1000, 0o100_600, None),
            (1000, 1000, 0o100_664, None),
            (1000, 100, 0o100_644, None),
            (1000, 100, 0o100_664, Some(OtherWriter::Mode(0o664))),
            (1000, 1000, 0o100_646, Some(OtherWriter::Mode(0o646))),
            (1000, 1000, 0o041_777, Some(OtherWriter::Mode(0o1777))),
            (0, 0, 0o100_644, None),
            (0, 0, 0o100_664, None),
            (0, 1000, 0o100_664, Some(OtherWriter::Mode(0o664))),
            (1001, 1001, 0o100_600, Some(OtherWriter::Owner(1001))),
            (65534, 65534, 0o100_644, Some(OtherWriter::Owner(65534))),
        ] {
            assert_eq!(
                Ownership { owner, group, mode }.other_writer(1000),
                expected,
                "{owner}:{group} {mode:o}"
            );
        }
    }
}

//! What a command sees of the system: an allowlist, not a denylist.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access as Ask, AtFlags, FileType};

/// Directories with programs and their libraries. Shown read-only if they exist.
const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix/store",
    "/gnu/store",
];

/// Paths in them that identify the machine, or in which administrators leave world-readable credentials: environment, cron jobs, services, mounts,
/// logins. Hidden if the gate itself could read them.
const HIDDEN: &[&str] = &[
    "/etc/ssh",
    "/etc/machine-id",
    "/etc/hostname",
    "/etc/environment",
    "/etc/environment.d",
    "/etc/fstab",
    "/etc/crontab",
    "/etc/cron.d",
    "/etc/systemd/system",
    "/etc/cloud",
    "/etc/netplan",
    "/etc/apt/auth.conf",
    "/etc/apt/auth.conf.d",
    "/etc/containers/auth.json",
];

/// Secret paths in them, hidden likewise; without a mount namespace to hide them in, no command is run if the gate could read one.
const SECRET: &[&str] = &[
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/security/opasswd",
    "/etc/ssh/ssh_host_rsa_key",
    "/etc/ssh/ssh_host_dsa_key",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/ssl/private",
    "/etc/pki/private",
    "/etc/krb5.keytab",
    "/etc/wireguard",
    "/etc/openvpn",
    "/etc/NetworkManager/system-connections",
    "/etc/docker",
    "/etc/kubernetes",
    "/etc/rancher",
    "/etc/toolgate",
];

/// Where third-party programs keep files that only root may read.
const PRIVATE_FILES_IN: &[&str] = &["/etc", "/opt"];

/// A directory with more entries, or with more to hide, is not shown at all to commands of a root gate.
const MAX_ENTRIES: usize = 100_000;
const MAX_HIDDEN: usize = 1_000;

/// World-readable files in `/proc` that no command needs: boot parameters, which sometimes contain credentials on the kernel command line.
pub(crate) const HIDDEN_IN_PROC: &[&str] = &["cmdline", "bootconfig"];

/// Files in `/proc` that only root may read and no command needs: kernel memory and its contents. Hidden if the gate is root.
pub(crate) const SECRET_IN_PROC: &[&str] = &[
    "kcore",
    "keys",
    "timer_list",
    "slabinfo",
    "vmallocinfo",
    "pagetypeinfo",
    "kpagecount",
    "kpageflags",
    "kpagecgroup",
];

/// Devices without storage and without a user behind them.
pub(crate) const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom"];

/// Symlinks that programs expect in `/dev`.
pub(crate) const DEVICE_LINKS: &[(&str, &str)] = &[
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    // Shared memory is in the command's `/tmp`, and shares its size limit.
    ("shm", "/tmp/.shm"),
];

/// The system as commands see it, detected once.
pub(crate) struct SystemView {
    /// Visible directories and files, by their real path; parents before children.
    pub(crate) visible: Vec<VisiblePath>,
    /// Top-level symlinks, such as `/bin`, with their targets.
    pub(crate) links: Vec<(PathBuf, PathBuf)>,
}

/// A visible path, and what is hidden in it.
pub(crate) struct VisiblePath {
    pub(crate) path: PathBuf,
    pub(crate) is_directory: bool,
    /// Relative to the path.
    pub(crate) hidden: Vec<(PathBuf, bool)>,
}

impl SystemView {
    /// Detects the system. `more` are paths added by the operator, `own` those that belong to the gate.
    pub(crate) fn detect(more: &[PathBuf], own: &[PathBuf]) -> Self {
        let (mut visible, mut links): (Vec<VisiblePath>, Vec<(PathBuf, PathBuf)>) = (Vec::new(), Vec::new());
        let mut paths: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).chain(more.iter().cloned()).collect();
        paths.sort();
        paths.dedup();
        for path in paths {
            match kind(&path, false) {
                // One in a visible directory is visible with it.
                Some(FileType::Symlink) if visible.iter().any(|shown| path.starts_with(&shown.path)) => {}
                Some(FileType::Symlink) => {
                    if let Ok(target) = rustix::fs::readlink(&path, Vec::new()) {
                        links.push((path, PathBuf::from(std::ffi::OsStr::from_bytes(target.to_bytes()))));
                    }
                }
                Some(kind @ (FileType::Directory | FileType::RegularFile)) => {
                    let inside = visible.iter().any(|shown| path.starts_with(&shown.path));
                    if !inside {
                        visible.push(VisiblePath {
                            path,
                            is_directory: kind == FileType::Directory,
                            hidden: Vec::new(),
                        });
                    }
                }
                _ => {}
            }
        }
        for place in &mut visible {
            place.hidden = hidden_in(&place.path, own);
        }
        if rustix::process::geteuid().is_root() {
            let is_searched =
                |place: &VisiblePath| PRIVATE_FILES_IN.iter().any(|known| Path::new(known) == place.path);
            visible.retain_mut(|place| !is_searched(place) || place.hide_private_files());
        }
        Self { visible, links }
    }

    /// Whether a path is visible.
    pub(crate) fn shows(&self, place: &Path) -> bool {
        self.visible.iter().any(|shown| place.starts_with(&shown.path)) || self.is_linked(place)
    }

    /// Whether a path is visible, and what it leads to as well.
    pub(crate) fn shows_target(&self, place: &Path) -> bool {
        let target = rustix::fs::open(place, rustix::fs::OFlags::PATH, rustix::fs::Mode::empty());
        let real = target.ok().and_then(|target| {
            use std::os::fd::AsRawFd as _;
            let path =
                rustix::fs::readlink(format!("/proc/self/fd/{}", target.as_raw_fd()), Vec::new()).ok()?;
            Some(PathBuf::from(std::ffi::OsStr::from_bytes(path.to_bytes())))
        });
        self.shows(place)
            && real.is_some_and(|real| self.visible.iter().any(|shown| real.starts_with(&shown.path)))
    }

    /// Whether a path goes through a top-level symlink such as `/bin`: it is visible under another name.
    pub(crate) fn is_linked(&self, place: &Path) -> bool {
        self.links.iter().any(|(link, _)| place.starts_with(link))
    }

    /// A secret that the gate could read, if there is one.
    pub(crate) fn secret(&self) -> Option<PathBuf> {
        let mut hidden = self.hidden();
        hidden.find(|path| SECRET.iter().any(|secret| path == Path::new(secret)))
    }

    fn hidden(&self) -> impl Iterator<Item = PathBuf> {
        self.visible.iter().flat_map(|shown| shown.hidden.iter().map(|(path, _)| shown.path.join(path)))
    }

    /// The hidden paths, each with its current inode.
    pub(crate) fn hidden_now(&self) -> impl Iterator<Item = (PathBuf, (u64, u64))> {
        self.hidden().map(|path| {
            let identity = inode_identity(&path);
            (path, identity)
        })
    }
}

/// Device and inode currently at a path.
pub(crate) fn inode_identity(path: &Path) -> (u64, u64) {
    let found = rustix::fs::statat(rustix::fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW);
    found.map_or((0, 0), |found| (found.st_dev, found.st_ino))
}

/// The `st_ctime` of a directory, in seconds and nanoseconds.
pub(crate) fn ctime(path: &Path) -> (u64, u64) {
    let found = rustix::fs::statat(rustix::fs::CWD, path, AtFlags::empty());
    found.map_or((0, 0), |found| (found.st_ctime.cast_unsigned(), found.st_ctime_nsec))
}

/// Why a host path cannot be shown to commands, if it cannot.
#[must_use]
pub fn refused_place(path: &Path) -> Option<&'static str> {
    if !path.is_absolute() {
        return Some("is not an absolute path");
    }
    if path == Path::new("/") {
        return Some("is the whole machine");
    }
    let own = ["/tmp", "/proc", "/dev", "/mnt", "/.toolgate", "/toolgate"];
    own.iter().any(|own| path.starts_with(own)).then_some("is where a command has something of its own")
}

impl VisiblePath {
    /// Hides what only its owner may read, which for most of the system is root: what other users may not read, commands may not either. Returns
    /// whether that was possible.
    fn hide_private_files(&mut self) -> bool {
        let (mut folders, mut seen) = (vec![PathBuf::new()], 0_usize);
        while let Some(folder) = folders.pop() {
            let Ok(entries) = entries(&self.path.join(&folder)) else { continue };
            for (name, mode) in entries {
                seen += 1;
                let path = folder.join(name);
                let is_directory = FileType::from_raw_mode(mode) == FileType::Directory;
                let open_to_others = if is_directory { 0o005 } else { 0o004 };
                let is_private = FileType::from_raw_mode(mode) != FileType::Symlink
                    && mode & open_to_others != open_to_others;
                if is_private {
                    let is_known = self.hidden.iter().any(|(hidden, _)| path.starts_with(hidden));
                    if !is_known && is_readable(&self.path.join(&path)) {
                        self.hidden.push((path, is_directory));
                    }
                } else if is_directory {
                    folders.push(path);
                }
            }
            if seen > MAX_ENTRIES || self.hidden.len() > MAX_HIDDEN {
                return false;
            }
        }
        true
    }
}

/// The entries of a directory with their modes.
fn entries(folder: &Path) -> rustix::io::Result<Vec<(std::ffi::OsString, u32)>> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = rustix::fs::open(folder, flags, Mode::empty())?;
    let names = rustix::fs::Dir::read_from(&handle)?.flatten().map(|entry| entry.file_name().to_owned());
    let known = names.filter(|name| !matches!(name.to_bytes(), b"." | b"..")).filter_map(|name| {
        let found = rustix::fs::statat(&handle, &name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some((std::ffi::OsStr::from_bytes(name.to_bytes()).to_owned(), found.st_mode))
    });
    Ok(known.collect())
}

/// Paths that the gate could read there and a command must not.
fn hidden_in(place: &Path, own: &[PathBuf]) -> Vec<(PathBuf, bool)> {
    let hidden =
        HIDDEN.iter().chain(SECRET).map(Path::new).chain(own.iter().map(PathBuf::as_path)).filter_map(
            |hidden| {
                let rest = hidden.strip_prefix(place).ok()?;
                let is_directory = kind(hidden, true)? == FileType::Directory;
                is_readable(hidden).then(|| (rest.to_path_buf(), is_directory))
            },
        );
    hidden.collect()
}

/// Whether the gate itself could read it.
fn is_readable(path: &Path) -> bool {
    rustix::fs::accessat(rustix::fs::CWD, path, Ask::READ_OK, AtFlags::empty()).is_ok()
}

fn kind(path: &Path, follow: bool) -> Option<FileType> {
    let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
    let found = rustix::fs::statat(rustix::fs::CWD, path, flags).ok()?;
    Some(FileType::from_raw_mode(found.st_mode))
}

/// A path as system calls take it.
pub(crate) fn c_path(path: &Path) -> Option<CString> {
    CString::new(path.as_os_str().as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "tests arrange files by hand")]

    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn what_others_may_not_read_is_hidden_and_nothing_else() {
        let scratch = tempfile::tempdir().unwrap();
        let place = |path: &str, mode: u32| {
            let path = scratch.path().join(path);
            if mode & 0o100 == 0 {
                fs::write(&path, "").unwrap()
            } else {
                fs::create_dir(&path).unwrap()
            }
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        place("open", 0o755);
        place("open/open", 0o644);
        place("open/private", 0o640);
        place("open/closed", 0o750);
        place("open/closed/open", 0o644);
        place("listed", 0o751);
        place("key", 0o600);
        symlink("key", scratch.path().join("link")).unwrap();
        let mut shown =
            VisiblePath { path: scratch.path().to_path_buf(), is_directory: true, hidden: Vec::new() };
        assert!(shown.hide_private_files());
        let mut hidden: Vec<(&str, bool)> =
            shown.hidden.iter().map(|(path, is_directory)| (path.to_str().unwrap(), *is_directory)).collect();
        hidden.sort_unstable();
        assert_eq!(
            hidden,
            [("key", false), ("listed", true), ("open/closed", true), ("open/private", false)]
        );
    }
}

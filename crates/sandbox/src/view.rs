//! What a command sees of the system: a list of what it may, not of what it may not.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access as Ask, AtFlags, FileType};

/// Folders that programs and their libraries live in. Shown read-only where they exist.
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

/// What of them is nobody's business, hidden where the gate itself could read it.
const HIDDEN: &[&str] = &["/etc/ssh", "/etc/machine-id", "/etc/hostname"];

/// What of them is secret, hidden in the same way; without a view to hide it in, nothing is run where it could be read.
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

/// What of `/proc` only root may read, and no command needs: the kernel's memory and what is in it. Hidden where the gate is root.
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

/// Devices without a memory or a person behind them.
pub(crate) const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom"];

/// Links that programs expect in `/dev`.
pub(crate) const DEVICE_LINKS: &[(&str, &str)] = &[
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    // Shared memory is in the command's temporary files, and bounded with them.
    ("shm", "/tmp/.shm"),
];

/// The system as commands see it, found once.
pub(crate) struct SystemView {
    /// Folders and files that are shown, by their real place; parents before children.
    pub(crate) shown: Vec<Shown>,
    /// Links at the top, such as `/bin`, with what they say.
    pub(crate) links: Vec<(PathBuf, PathBuf)>,
}

/// A place that is shown, and what in it is hidden.
pub(crate) struct Shown {
    pub(crate) path: PathBuf,
    pub(crate) is_directory: bool,
    /// Relative to the place.
    pub(crate) hidden: Vec<(PathBuf, bool)>,
}

impl SystemView {
    /// Looks at the machine. `more` are places that the operator adds.
    pub(crate) fn look(more: &[PathBuf]) -> Self {
        let (mut shown, mut links): (Vec<Shown>, Vec<(PathBuf, PathBuf)>) = (Vec::new(), Vec::new());
        for path in SYSTEM.iter().map(PathBuf::from).chain(more.iter().cloned()) {
            match kind(&path, false) {
                Some(FileType::Symlink) => {
                    if let Ok(target) = rustix::fs::readlink(&path, Vec::new()) {
                        links.push((path, PathBuf::from(std::ffi::OsStr::from_bytes(target.to_bytes()))));
                    }
                }
                Some(kind @ (FileType::Directory | FileType::RegularFile)) => {
                    let inside = shown.iter().any(|shown| path.starts_with(&shown.path));
                    if !inside {
                        shown.push(Shown {
                            path,
                            is_directory: kind == FileType::Directory,
                            hidden: Vec::new(),
                        });
                    }
                }
                _ => {}
            }
        }
        for place in &mut shown {
            place.hidden = hidden_in(&place.path);
        }
        Self { shown, links }
    }

    /// Something secret that the gate could read, if there is anything.
    pub(crate) fn secret(&self) -> Option<PathBuf> {
        let mut hidden = self.hidden();
        hidden.find(|path| SECRET.iter().any(|secret| path == Path::new(secret)))
    }

    fn hidden(&self) -> impl Iterator<Item = PathBuf> {
        self.shown.iter().flat_map(|shown| shown.hidden.iter().map(|(path, _)| shown.path.join(path)))
    }

    /// What is hidden, each with what it is right now.
    pub(crate) fn hidden_now(&self) -> impl Iterator<Item = (PathBuf, (u64, u64))> {
        self.hidden().map(|path| {
            let found = rustix::fs::statat(rustix::fs::CWD, &path, AtFlags::SYMLINK_NOFOLLOW);
            let identity = found.map_or((0, 0), |found| (found.st_dev, found.st_ino));
            (path, identity)
        })
    }
}

/// What the gate could read there and a command must not.
fn hidden_in(place: &Path) -> Vec<(PathBuf, bool)> {
    let hidden = HIDDEN.iter().chain(SECRET).map(Path::new).filter_map(|hidden| {
        let rest = hidden.strip_prefix(place).ok()?;
        let is_directory = kind(hidden, true)? == FileType::Directory;
        let readable = rustix::fs::accessat(rustix::fs::CWD, hidden, Ask::READ_OK, AtFlags::empty()).is_ok();
        readable.then(|| (rest.to_path_buf(), is_directory))
    });
    hidden.collect()
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

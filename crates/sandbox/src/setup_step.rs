//! The steps that confine a process, prepared as data.
//!
//! They are planned in the gate, which may allocate and fail, and executed in the new process, which may not. Some populate a root filesystem (the
//! view), once for many commands; the others adapt a copy of it to one command.

use std::ffi::CString;
use std::fmt;
use std::path::PathBuf;

/// Index of an open tree; trees are numbered in the order in which they are opened.
pub(crate) type Slot = usize;

/// One step. While a view is populated, host paths are absolute and paths of the view are relative to its root; for a command all are absolute.
pub(crate) enum SetupStep {
    /// Makes all mounts private (`MS_PRIVATE | MS_REC`): host mounts no longer propagate here.
    StopPropagation,
    /// Clones a directory, file or device of the host with its submounts (`open_tree`).
    OpenTree {
        from: CString,
        slot: Slot,
        /// `st_dev` and `st_ino` that must be found there.
        identity: Option<(u64, u64)>,
    },
    /// Mounts an empty tmpfs and changes into it.
    NewRoot { over: CString, options: CString },
    /// Creates a directory in the view.
    Directory { path: CString, mode: u32 },
    /// Creates a file in the view.
    File { path: CString, content: Vec<u8>, mode: u32 },
    /// Creates a symlink in the view.
    Link { path: CString, target: CString },
    /// Removes a name.
    Unlink { path: CString, directory: bool },
    /// Attaches an open tree (`move_mount`).
    Attach { slot: Slot, path: CString, attributes: u64 },
    /// Mounts an overlayfs with an open host directory as its lower layer.
    Overlay { slot: Slot, path: CString, from: PathBuf },
    /// Bind-mounts something of the view over a path in a tree.
    Cover { slot: Slot, path: CString, with: CString, attributes: u64, missing_is_fine: bool },
    /// Bind-mounts a path in a tree over itself, so that it becomes a mount of its own.
    CoverWithItself { slot: Slot, path: CString, attributes: u64 },
    /// Opens a directory (`O_PATH`), so that paths in it can be covered or an overlay mounted from it.
    OpenPlace { path: CString, slot: Slot },
    /// Mounts an empty, writable tmpfs.
    Temporary { path: CString, options: CString },
    /// Mounts the PID namespace's own `/proc`, optionally setting `pid_max`.
    Proc { path: CString, processes: Option<CString> },
    /// Makes the view the root (`pivot_root`) and detaches the host's.
    Enter,
    /// Sets mount attributes of the root, which makes it read-only.
    SealRoot { attributes: u64 },
    /// Sets the host name.
    HostName { name: CString },
    /// Sets the working directory.
    WorkIn { path: CString },
    /// Adds a Landlock rule.
    Allow { path: CString, access: u64, missing_is_fine: bool },
}

impl fmt::Display for SetupStep {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |path: &CString| path.to_string_lossy().into_owned();
        match self {
            Self::StopPropagation => formatter.write_str("keep mounts apart"),
            Self::OpenTree { from, .. } => write!(formatter, "open `{}`", text(from)),
            Self::NewRoot { over, .. } => write!(formatter, "make a new root over `{}`", text(over)),
            Self::Directory { path, .. } => write!(formatter, "make the folder `{}`", text(path)),
            Self::File { path, .. } => write!(formatter, "make the file `{}`", text(path)),
            Self::Link { path, .. } => write!(formatter, "make the link `{}`", text(path)),
            Self::Unlink { path, .. } => write!(formatter, "remove `{}`", text(path)),
            Self::Attach { path, .. } | Self::Overlay { path, .. } | Self::Temporary { path, .. } => {
                write!(formatter, "mount `{}`", text(path))
            }
            Self::OpenPlace { path, .. } => write!(formatter, "open `{}`", text(path)),
            Self::Cover { path, .. } => write!(formatter, "hide `{}`", text(path)),
            Self::CoverWithItself { path, .. } => write!(formatter, "protect `{}`", text(path)),
            Self::Proc { .. } => formatter.write_str("mount `/proc`"),
            Self::Enter => formatter.write_str("enter the new root"),
            Self::SealRoot { .. } => formatter.write_str("make the root read-only"),
            Self::HostName { .. } => formatter.write_str("set the host name"),
            Self::WorkIn { path } => write!(formatter, "change to `{}`", text(path)),
            Self::Allow { path, .. } => write!(formatter, "allow `{}`", text(path)),
        }
    }
}

//! The steps that turn a process into a confined one, prepared as data.
//!
//! They are made in the gate, where allocating and failing are cheap, and taken in the new process, where neither is. Some furnish a view of the system, once for
//! many commands; the others make a copy of that view fit one command.

use std::ffi::CString;
use std::fmt;
use std::path::PathBuf;

/// Which open tree a step means: trees are numbered in the order in which they are opened.
pub(crate) type Slot = usize;

/// One step. While a view is furnished, paths of the host are absolute and paths of the view are relative to its root; for a command all are absolute.
pub(crate) enum SetupStep {
    /// Mounts made elsewhere no longer appear here.
    StopPropagation,
    /// Takes a copy of a folder, file or device of the host, with all that is mounted below.
    OpenTree {
        from: CString,
        slot: Slot,
        /// Device and number of what must be found there.
        identity: Option<(u64, u64)>,
    },
    /// An empty root, in memory, becomes the current folder.
    NewRoot { over: CString, options: CString },
    /// A folder of the new view.
    Directory { path: CString, mode: u32 },
    /// A file of the new view.
    File { path: CString, content: Vec<u8>, mode: u32 },
    /// A symbolic link of the new view.
    Link { path: CString, target: CString },
    /// Takes a name away again.
    Unlink { path: CString, directory: bool },
    /// Puts an open tree into the view.
    Attach { slot: Slot, path: CString, attributes: u64 },
    /// Shows a directory of the host that is open through an overlay.
    Overlay { slot: Slot, path: CString, from: PathBuf },
    /// Puts a copy of something in the view over something in a tree.
    Cover { slot: Slot, path: CString, with: CString, attributes: u64, missing_is_fine: bool },
    /// Puts a place in a tree over itself, so that it is a mount of its own.
    CoverWithItself { slot: Slot, path: CString, attributes: u64 },
    /// Opens a folder, so that what is in it can be covered, or an overlay made of it.
    OpenPlace { path: CString, slot: Slot },
    /// Puts an empty, writable folder into the view.
    Temporary { path: CString, options: CString },
    /// The process's own `/proc`, which may also be told how many processes there may be.
    Proc { path: CString, processes: Option<CString> },
    /// The view becomes the root, and the host's disappears.
    Enter,
    /// The root itself can no longer be changed.
    SealRoot { attributes: u64 },
    /// A host name.
    HostName { name: CString },
    /// The folder to begin in.
    WorkIn { path: CString },
    /// Landlock allows this.
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

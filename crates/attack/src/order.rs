//! What a test tells a gate of its own to run in the sandbox, and what comes back.
//!
//! Attacks on the sandbox need a gate that is worth attacking: another process, of a certain user, with secrets in its environment, its memory and its
//! open files. The `gate` role of `toolgate-attacker` is one; an [`Order`] goes into it and a [`Report`] comes out.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// One command, and everything about the sandbox that it is run in.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Order {
    /// Layers without which the command is not run, by their words; `None` is what operators get who say nothing.
    pub require: Option<Vec<String>>,
    /// Layers that are switched off, by their words.
    pub without: Vec<String>,
    /// The program.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Where it begins.
    pub directory: PathBuf,
    /// Its environment.
    pub environment: Vec<(String, String)>,
    /// Variables of the gate that are passed on.
    pub passed: Vec<String>,
    /// The folders it sees.
    pub mounts: Vec<Place>,
    /// Directories of the host that it may read beside the system's.
    pub read: Vec<PathBuf>,
    /// Bounds that are not the usual ones, by their names.
    pub limits: Bounds,
    /// How many bytes of output are kept before it is ended.
    pub max_output: Option<u64>,
    /// When it is ended.
    pub timeout_ms: Option<u64>,
    /// Whether somebody talks with it for as long as it lives, who says nothing and does not listen.
    pub handed: bool,
    /// A terminal that the gate sits at.
    pub terminal: Option<PathBuf>,
    /// A file and a folder that the gate has open carelessly, so that its children have them too.
    pub held: Option<(PathBuf, PathBuf)>,
    /// A name for a message queue that the gate keeps a secret in.
    pub queue: Option<String>,
    /// What the gate has in its memory, shared memory, keyring and queue.
    pub secret: String,
}

/// Bounds that are not the usual ones.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Bounds {
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Processes and threads.
    pub processes: Option<u64>,
    /// Bytes of one file.
    pub file_size: Option<u64>,
    /// Open files of one process.
    pub open_files: Option<u64>,
    /// Seconds of processor time.
    pub cpu_seconds: Option<u64>,
    /// Bytes of temporary files.
    pub temporary: Option<u64>,
}

/// A folder of the host in the sandbox.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Place {
    /// Where it is.
    pub host: PathBuf,
    /// Where it appears.
    pub at: PathBuf,
    /// Whether it may be changed.
    pub writable: bool,
    /// What in it is not as it is.
    pub covers: Vec<Covered>,
}

/// The sandbox's covers, in a form that can be sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Covered {
    /// A file that cannot be read or changed.
    HideFile(PathBuf),
    /// A folder that cannot be read or changed.
    HideFolder(PathBuf),
    /// Cannot be changed.
    Freeze(PathBuf),
    /// Cannot be renamed.
    Pin(PathBuf),
    /// Shows another content.
    Replace(PathBuf, String),
}

/// How a command ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// Why it was not started.
    pub refused: Option<String>,
    /// Its exit code, when it ended by itself.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Why it was ended.
    pub stopped: Option<String>,
    /// Which limit it ran into.
    pub limit: Option<String>,
    /// What it wrote.
    pub output: String,
    /// What it wrote to standard error.
    pub error: String,
}

/// The descriptors that a careless gate leaves open: a file, a folder, a terminal.
pub const HELD: [i32; 3] = [60, 61, 62];

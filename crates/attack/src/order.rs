//! What a test lets a separate gate run in the sandbox, and the report.
//!
//! Attacks on the sandbox need a gate worth attacking: another process, of a certain user, with secrets in its environment, its memory and its open
//! files. The `gate` role of `toolgate-attacker` is one; it takes an [`Order`] and returns a [`Report`].

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// One command, and the configuration of its sandbox.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Order {
    /// The required layers, by name; `None` for the default.
    pub require: Option<Vec<String>>,
    /// Disabled layers, by name.
    pub without: Vec<String>,
    /// The program.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its working directory.
    pub directory: PathBuf,
    /// Its environment.
    pub environment: Vec<(String, String)>,
    /// Variables of the gate that are passed on.
    pub passed: Vec<String>,
    /// The directories it sees.
    pub mounts: Vec<Place>,
    /// Host directories that it may read besides the system's.
    pub read: Vec<PathBuf>,
    /// Resource limits other than the defaults, by name.
    pub limits: Bounds,
    /// How many bytes of output are kept before it is terminated.
    pub max_output: Option<u64>,
    /// Its timeout.
    pub timeout_ms: Option<u64>,
    /// Whether its streams are piped to a peer that writes nothing and reads nothing.
    pub handed: bool,
    /// The controlling terminal of the gate.
    pub terminal: Option<PathBuf>,
    /// A file and a directory that the gate has open without `O_CLOEXEC`, so that its children inherit them.
    pub held: Option<(PathBuf, PathBuf)>,
    /// The name of a message queue in which the gate holds a secret.
    pub queue: Option<String>,
    /// The secret in the gate's memory, shared memory, keyring and queue.
    pub secret: String,
}

/// Resource limits other than the defaults.
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

/// A host directory in the sandbox.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Place {
    /// Its path on the host.
    pub host: PathBuf,
    /// Its path in the sandbox.
    pub at: PathBuf,
    /// Whether it is writable.
    pub writable: bool,
    /// Its overlays.
    pub covers: Vec<Covered>,
}

/// The sandbox's mount overlays, in a serialisable form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Covered {
    /// A masked file: it can be neither read nor changed.
    HideFile(PathBuf),
    /// A masked directory: it can be neither read nor changed.
    HideFolder(PathBuf),
    /// Read-only.
    Freeze(PathBuf),
    /// Cannot be renamed.
    Pin(PathBuf),
    /// Has substitute content.
    Replace(PathBuf, String),
}

/// How a command ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// Why it was not started.
    pub refused: Option<String>,
    /// Its exit code, if it exited.
    pub code: Option<i32>,
    /// The signal that killed it.
    pub signal: Option<i32>,
    /// Why it was terminated.
    pub stopped: Option<String>,
    /// Which limit it hit.
    pub limit: Option<String>,
    /// Its standard output.
    pub output: String,
    /// Its standard error.
    pub error: String,
}

/// The descriptors that a careless gate leaves open: a file, a directory, a terminal.
pub const HELD: [i32; 3] = [60, 61, 62];

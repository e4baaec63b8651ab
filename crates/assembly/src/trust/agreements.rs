//! The user's agreements, one file for each configuration, in the user's own default state directory: never in one that a configuration names.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use cap_std::fs::Dir;
use jiff::Timestamp;
use serde_json::{Value, json};
use toolgate_types::Sha256;
use toolgate_types::time::rfc3339_millis;

use super::covered_config::CoveredConfig;
use super::instructions::ProjectInstructions;
use crate::ambient::{HostEnvironment, exists, open_directory, open_private_directory};
use crate::atomic_file::AtomicFile;
use crate::error::BuildError;
use crate::gate_builder::TRUST;
use crate::ownership::check_directory;
use crate::settings::default_state_dir;

/// Contents are kept up to this total size, so that a later prompt can show the difference.
const MAX_KEPT_BYTES: usize = 256 * 1024;

/// The suffix of agreement files.
const FILE_SUFFIX: &str = ".json";

/// The agreements of this user.
pub struct AgreementStore {
    state: PathBuf,
    directory: PathBuf,
}

/// What the user agreed to.
#[derive(Clone, Debug)]
pub struct Agreement {
    /// The configuration file.
    pub file: PathBuf,
    /// The digest of all covered paths and contents.
    pub digest: Sha256,
    /// The time, as RFC 3339.
    pub agreed_at: String,
    /// The covered files, the configuration first.
    pub files: Vec<AgreedFile>,
}

/// One file of an agreement.
#[derive(Clone, Debug)]
pub struct AgreedFile {
    /// Its path.
    pub path: String,
    /// The digest of its content.
    pub digest: Sha256,
    /// Its content, if it was kept.
    pub content: Option<String>,
}

impl AgreementStore {
    /// The agreements of this user.
    pub fn of(surroundings: &HostEnvironment) -> Result<Self, BuildError> {
        let state = default_state_dir(surroundings).map_err(|_| {
            BuildError::usage("nothing can be agreed to: neither XDG_STATE_HOME nor HOME is set")
                .help("name the configuration with --config, or do without one with --no-config")
        })?;
        Ok(Self { directory: state.join(TRUST), state })
    }

    /// The file of the agreement to a configuration.
    pub fn path_of(&self, file: &Path) -> PathBuf {
        self.directory.join(name(file))
    }

    /// The agreement to a configuration. A file that cannot be parsed counts as none.
    pub fn find(&self, file: &Path) -> Result<Option<Agreement>, BuildError> {
        let Some(directory) = self.open()? else { return Ok(None) };
        let name = name(file);
        match AtomicFile::new(&directory, OsStr::new(&name)).read() {
            Ok(bytes) => Ok(parse(&bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.unusable(&error)),
        }
    }

    /// Stores an agreement, replacing an earlier one to the same configuration.
    pub fn store(&self, covered: &CoveredConfig) -> Result<(), BuildError> {
        self.write(covered.file(), &serialize(covered))
    }

    /// Stores an agreement to project instructions.
    pub fn store_instructions(&self, instructions: &ProjectInstructions) -> Result<(), BuildError> {
        let ProjectInstructions { file, text, .. } = instructions;
        let digest = instructions.digest().to_string();
        let kept = json!({"path": file.to_string_lossy(), "sha256": digest, "content": text});
        self.write(file, &agreement(file, &digest, vec![kept]))
    }

    fn write(&self, file: &Path, text: &str) -> Result<(), BuildError> {
        open_private_directory(&self.directory).map_err(|error| self.unusable(&error))?;
        self.require_owner()?;
        let directory = self.reopen()?;
        let name = name(file);
        let kept = AtomicFile::new(&directory, OsStr::new(&name)).replace_private(text.as_bytes());
        kept.map_err(|error| self.unusable(&error))
    }

    /// Revokes an agreement; returns whether there was one.
    pub fn revoke(&self, file: &Path) -> Result<bool, BuildError> {
        let Some(directory) = self.open()? else { return Ok(false) };
        match directory.remove_file(name(file)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(self.unusable(&error)),
        }
    }

    /// All agreements, sorted by path.
    pub fn all(&self) -> Result<Vec<Agreement>, BuildError> {
        let Some(directory) = self.open()? else { return Ok(Vec::new()) };
        let entries = directory.entries().map_err(|error| self.unusable(&error))?;
        let names = entries.filter_map(|entry| Some(entry.ok()?.file_name()));
        let names = names.filter(|name| name.to_string_lossy().ends_with(FILE_SUFFIX));
        let agreement = |name: std::ffi::OsString| parse(&AtomicFile::new(&directory, &name).read().ok()?);
        let mut all: Vec<Agreement> = names.filter_map(agreement).collect();
        all.sort_by(|one, other| one.file.cmp(&other.file));
        Ok(all)
    }

    fn open(&self) -> Result<Option<Dir>, BuildError> {
        if !exists(&self.directory) {
            return Ok(None);
        }
        self.require_owner()?;
        self.reopen().map(Some)
    }

    /// Opened for reading: on a descriptor opened with `O_PATH`, `fsync` fails with `EBADF`.
    fn reopen(&self) -> Result<Dir, BuildError> {
        let opened = open_directory(&self.directory).map_err(|error| self.unusable(&error))?;
        Ok(Dir::from_std_file(opened))
    }

    /// Another user who could write here could agree on this user's behalf.
    fn require_owner(&self) -> Result<(), BuildError> {
        for directory in [&self.state, &self.directory] {
            check_directory(directory).map_err(|error| {
                BuildError::usage(format!("agreements are not believed: {error}")).help(
                    "make it a directory of your own that others cannot write (`chmod 700`), or name the configuration with --config",
                )
            })?;
        }
        Ok(())
    }

    fn unusable(&self, error: &io::Error) -> BuildError {
        BuildError::usage(format!("agreements in `{}` cannot be used: {error}", self.directory.display()))
            .help("make the directory readable and writable for you, or name the configuration with --config")
    }
}

fn name(file: &Path) -> String {
    format!("{}{FILE_SUFFIX}", Sha256::of(file.as_os_str().as_encoded_bytes()))
}

/// The agreement as JSON. Content is kept only of files below the configuration's directory: files elsewhere may be private, and are not copied.
fn serialize(covered: &CoveredConfig) -> String {
    let mut room = MAX_KEPT_BYTES;
    let files = covered.files().iter().map(|(path, bytes)| {
        let is_kept = bytes.len() <= room && path.starts_with(&covered.directory);
        let content = is_kept.then(|| std::str::from_utf8(bytes).ok()).flatten();
        room -= content.map_or(0, str::len);
        json!({"path": path.to_string_lossy(), "sha256": Sha256::of(bytes).to_string(), "content": content})
    });
    let files: Vec<Value> = files.collect();
    agreement(covered.file(), &covered.digest().to_string(), files)
}

fn agreement(file: &Path, digest: &str, files: Vec<Value>) -> String {
    let agreement = json!({
        "version": 1,
        "file": file.to_string_lossy(),
        "digest": digest,
        "agreed": rfc3339_millis(Timestamp::now()),
        "files": files,
    });
    format!("{agreement}\n")
}

fn parse(bytes: &[u8]) -> Option<Agreement> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    let text = |value: &Value, key: &str| Some(value.get(key)?.as_str()?.to_owned());
    let file = |value: &Value| {
        let (path, digest) = (text(value, "path")?, text(value, "sha256")?.parse().ok()?);
        Some(AgreedFile { path, digest, content: text(value, "content") })
    };
    if value.get("version")?.as_u64()? != 1 {
        return None;
    }
    Some(Agreement {
        file: PathBuf::from(text(&value, "file")?),
        digest: text(&value, "digest")?.parse().ok()?,
        agreed_at: text(&value, "agreed")?,
        files: value.get("files")?.as_array()?.iter().map(file).collect::<Option<_>>()?,
    })
}

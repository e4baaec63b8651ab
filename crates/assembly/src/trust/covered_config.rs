//! What an agreement covers: a configuration and the files that it names, each read once.
//!
//! | named by | covered by |
//! |---|---|
//! | `tools`, `policies` (files, and each file of a directory), `system_file`, `callers.keys.file`, `callers.keys.jwks_file` | path and content |
//! | `secret_file`, `key_file`, `audit.key` | path: a secret may be rotated without changing its purpose, and is not copied |
//! | `workspace`, `state_dir`, `mounts`, `audit.directory`, `audit.checkpoints`, `sandbox.read`, `sandbox.path`, `read` of a server | path |
//!
//! A program that is named (`command` of a server or a manifest) is covered by its name and arguments, as the file has them.

use std::io;
use std::path::{Path, PathBuf};

use toolgate_manifest::{Config, ConfigProblem, DeclaredPath, KeySourceConfig, Located};
use toolgate_types::Sha256;

use crate::ambient::{HostEnvironment, is_symlink, list_directory, read_regular_file, real_path};
use crate::config_files::{MANIFEST_EXTENSIONS, POLICY_EXTENSIONS, ends_with, parse_config, unreadable};
use crate::error::BuildError;
use crate::ownership::check_file;
use crate::settings::resolve;

/// Domain separation for this digest; a new layout gets a new number.
const DOMAIN: &[u8] = b"toolgate trust 1\n";

/// The most files that a configuration may name.
const MAX_FILES: usize = 1000;

/// The largest total size of all files.
const MAX_TOTAL_BYTES: usize = 32 * 1024 * 1024;

/// A configuration that was found and read, but not yet parsed.
#[derive(Clone, Debug)]
pub struct ConfigCandidate {
    /// The configuration file.
    pub file: PathBuf,
    bytes: Vec<u8>,
}

impl ConfigCandidate {
    /// Reads the file once. A FIFO or a device is refused without blocking, and so is a file that another user can write.
    pub fn read(file: &Path) -> Result<Self, BuildError> {
        let remedy = "name another file with --config, or do without one with --no-config";
        let bytes = read_regular_file(file).map_err(|error| {
            BuildError::usage(format!("the configuration `{}` cannot be read: {error}", file.display()))
                .help(remedy)
        })?;
        require_owner(file)?;
        Ok(Self { file: file.to_path_buf(), bytes })
    }

    /// The digest of its bytes.
    pub fn digest(&self) -> Sha256 {
        Sha256::of(&self.bytes)
    }

    /// Reads the files that it names.
    pub fn cover(self, surroundings: &HostEnvironment) -> Result<CoveredConfig, BuildError> {
        let Self { file, bytes } = self;
        let config = parse_config(&surroundings.display_path(&file), &bytes).map_err(|problems| {
            BuildError::usage(problems.render().trim_end())
                .help("correct the file; `toolgate check` says when nothing is left")
        })?;
        let folder = file.parent().unwrap_or(Path::new("/")).to_path_buf();
        let mut reading = CoverageReader {
            config: &config,
            directory: &folder,
            environment: surroundings,
            found: CoveredFiles::default(),
        };
        reading.found.files.push((file, bytes));
        reading.all()?;
        let CoveredFiles { files, directories, problems } = reading.found;
        Ok(CoveredConfig { config, directory: folder, files, directories, problems })
    }
}

/// Refuses a file that another user can write, replace, or redirect by a symlink.
pub fn require_owner(file: &Path) -> Result<(), BuildError> {
    let refused = |error: crate::ownership::OwnershipError| {
        BuildError::usage(format!("the configuration is not yours alone: {error}")).help(
            "take the right to write from others (`chmod go-w`), or copy the file into a directory of your own",
        )
    };
    check_file(file).map_err(refused)?;
    if is_symlink(file) { check_file(&real_path(file)).map_err(refused) } else { Ok(()) }
}

/// A configuration and the content of the files that it names.
#[derive(Debug)]
pub struct CoveredConfig {
    /// The parsed configuration.
    pub config: Config,
    /// The directory that its relative paths start at.
    pub directory: PathBuf,
    /// The configuration first, then the files in the order in which they are named.
    files: Vec<(PathBuf, Vec<u8>)>,
    directories: Vec<(PathBuf, Vec<PathBuf>)>,
    /// Named files that cannot be read.
    pub problems: Vec<ConfigProblem>,
}

impl CoveredConfig {
    /// The configuration's own path.
    pub fn file(&self) -> &Path {
        self.files.first().map_or(Path::new(""), |(path, _)| path)
    }

    /// Every file that the agreement covers, with its content.
    pub fn files(&self) -> &[(PathBuf, Vec<u8>)] {
        &self.files
    }

    /// The files of a directory when it was read; `None` if it was not a directory.
    pub fn list(&self, path: &Path) -> Option<Vec<PathBuf>> {
        let found = self.directories.iter().find(|(known, _)| known == path);
        found.map(|(_, files)| files.clone())
    }

    /// The content of a covered file.
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let found = self.files.iter().find(|(known, _)| known == path);
        found.map(|(_, bytes)| bytes.clone()).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    /// The manifests among the files.
    pub fn manifests<'c>(
        &'c self,
        surroundings: &'c HostEnvironment,
    ) -> impl Iterator<Item = &'c (PathBuf, Vec<u8>)> {
        let named: Vec<PathBuf> = self
            .config
            .tools
            .iter()
            .filter_map(|at| resolve(&at.value, &self.directory, surroundings).ok())
            .collect();
        let is_manifest = move |path: &Path| {
            named.iter().any(|known| {
                known == path
                    || (path.parent() == Some(known.as_path()) && ends_with(path, MANIFEST_EXTENSIONS))
            })
        };
        self.files.iter().filter(move |(path, _)| is_manifest(path))
    }

    /// The digest of the paths and contents of all files: a copy at another path is another configuration.
    pub fn digest(&self) -> Sha256 {
        let mut text = DOMAIN.to_vec();
        for (path, bytes) in &self.files {
            let path = path.as_os_str().as_encoded_bytes();
            text.extend(path.len().to_le_bytes());
            text.extend(path);
            text.extend(Sha256::of(bytes).as_bytes());
        }
        Sha256::of(&text)
    }
}

#[derive(Default)]
struct CoveredFiles {
    files: Vec<(PathBuf, Vec<u8>)>,
    directories: Vec<(PathBuf, Vec<PathBuf>)>,
    problems: Vec<ConfigProblem>,
}

/// Reads the files of a configuration.
struct CoverageReader<'r> {
    config: &'r Config,
    directory: &'r Path,
    environment: &'r HostEnvironment,
    found: CoveredFiles,
}

impl CoverageReader<'_> {
    fn all(&mut self) -> Result<(), BuildError> {
        let config = self.config;
        for (named, endings) in [(&config.tools, MANIFEST_EXTENSIONS), (&config.policies, POLICY_EXTENSIONS)]
        {
            for at in named {
                self.file_or_directory(at, endings)?;
            }
        }
        let agents = config.agents.iter().map(|agent| &agent.conversation);
        let conversations = agents.chain([&config.conversation]);
        let keys = config.callers.iter().flat_map(|callers| &callers.keys);
        let keys = keys.filter_map(|key| match &key.source {
            KeySourceConfig::PublicKey(at) | KeySourceConfig::KeySetFile(at) => Some(at),
            KeySourceConfig::Secret(_) | KeySourceConfig::KeySetUrl(_) => None,
        });
        for at in conversations.filter_map(|one| one.system_file.as_ref()).chain(keys) {
            let path = resolve(&at.value, self.directory, self.environment)?;
            self.file(at, path)?;
        }
        Ok(())
    }

    fn file_or_directory(&mut self, at: &Located<DeclaredPath>, endings: &[&str]) -> Result<(), BuildError> {
        let path = resolve(&at.value, self.directory, self.environment)?;
        match list_directory(&path) {
            Ok(None) => self.file(at, path),
            Ok(Some(files)) => {
                let files: Vec<PathBuf> = files.into_iter().filter(|file| ends_with(file, endings)).collect();
                self.found.directories.push((path, files.clone()));
                files.into_iter().try_for_each(|file| self.file(at, file))
            }
            Err(error) => {
                self.found.problems.push(unreadable(self.config, at, &error));
                Ok(())
            }
        }
    }

    fn file(&mut self, at: &Located<DeclaredPath>, path: PathBuf) -> Result<(), BuildError> {
        if self.found.files.iter().any(|(known, _)| *known == path) {
            return Ok(());
        }
        match read_regular_file(&path) {
            Ok(bytes) => self.found.files.push((path, bytes)),
            Err(error) => self.found.problems.push(unreadable(self.config, at, &error)),
        }
        let total: usize = self.found.files.iter().map(|(_, bytes)| bytes.len()).sum();
        if self.found.files.len() > MAX_FILES || total > MAX_TOTAL_BYTES {
            return Err(BuildError::usage("the configuration names more than 1000 files or 32 MiB")
                .help("name fewer of them under `tools` and `policies`"));
        }
        Ok(())
    }
}

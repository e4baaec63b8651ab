//! Tokens at rest: one file per login, encrypted, mode 0600.
//!
//! Each file is sealed (AES-256-GCM) with a key of its own, derived from the key of the user's state and from what the token belongs to. So a copy of the
//! file in another user's state, under another server's name, for another caller or another configuration, or after the URL of the server was changed,
//! is not readable, and no token leaves.
#![expect(clippy::disallowed_methods, reason = "the gate's own state, in a directory that no mount shows")]

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;
use toolgate_fs::{FileLock, NotLocked};
use toolgate_types::digest::Sha256Hasher;
use toolgate_types::{AeadKey, StateKey};

use crate::stored_token::StoredToken;

/// The first bytes of a file.
const MAGIC: &[u8] = b"toolgate token 1\n";

/// Maximum size of a file.
const MAX_FILE_BYTES: u64 = 256 << 10;

/// Digits of the digest in a file name.
const DIGEST_DIGITS: usize = 24;

/// How long another process may hold a token's lock: as long as a refresh takes.
const LOCK_TIMEOUT: Duration = Duration::from_secs(25);

/// What a token belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenBinding {
    /// The path of the configuration.
    pub configuration: String,
    /// The name of the server in it.
    pub server: String,
    /// The URL of the server: the only one that the token is sent to.
    pub url: String,
    /// The caller whose token it is; `None` is the operator's.
    pub caller: Option<String>,
}

impl TokenBinding {
    /// The same for a caller.
    #[must_use]
    pub fn of_caller(&self, caller: &str) -> Self {
        Self { caller: Some(caller.to_owned()), ..self.clone() }
    }

    /// The parts of the binding; the first one keeps the operator apart from a caller without a name.
    fn parts(&self) -> [&[u8]; 5] {
        let (kind, caller) = match &self.caller {
            None => (b"operator".as_slice(), ""),
            Some(caller) => (b"caller".as_slice(), caller.as_str()),
        };
        [kind, self.configuration.as_bytes(), self.server.as_bytes(), caller.as_bytes(), self.url.as_bytes()]
    }

    /// A name without the URL: where that was changed, the file is found, and cannot be read.
    fn file_stem(&self) -> String {
        let mut hasher = Sha256Hasher::new();
        self.parts().iter().take(4).for_each(|part| hasher.update_prefixed(part));
        let digest: String = hasher.finish().to_string().chars().take(DIGEST_DIGITS).collect();
        format!("{}-{digest}", self.server)
    }
}

/// Why a token cannot be read or kept.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TokenStoreError {
    /// There is one, but not for this server at this URL.
    #[error("the login is for another address, another configuration or another user")]
    NotOurs,
    /// The key of the state cannot be used.
    #[error("the key of the state directory cannot be used")]
    NoKey,
    /// Another process is refreshing it for too long.
    #[error("another process holds the lock of the login")]
    Locked,
    /// The disk.
    #[error("the login cannot be read or kept: {0}")]
    Io(#[from] io::Error),
}

/// The tokens of one user.
#[derive(Debug)]
pub struct TokenStore {
    directory: PathBuf,
    key: Option<StateKey>,
}

impl TokenStore {
    /// The tokens in this directory, which is made when the first is kept; without a key there are none.
    #[must_use]
    pub fn new(directory: PathBuf, key: Option<StateKey>) -> Self {
        Self { directory, key }
    }

    fn path(&self, binding: &TokenBinding) -> PathBuf {
        self.directory.join(format!("{}.token", binding.file_stem()))
    }

    /// The token of a login, if there is one.
    ///
    /// # Errors
    /// There is one, and it cannot be read.
    pub fn load(&self, binding: &TokenBinding) -> Result<Option<StoredToken>, TokenStoreError> {
        let Some(file) = read(&self.path(binding))? else { return Ok(None) };
        let key = self.key_of(binding)?;
        let opened = file.strip_prefix(MAGIC).and_then(|sealed| key.open(MAGIC, sealed));
        let opened = opened.ok_or(TokenStoreError::NotOurs)?;
        serde_json::from_slice(&opened).map(Some).map_err(|_| TokenStoreError::NotOurs)
    }

    /// Keeps a token. A crash leaves the old file or the new one.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn save(&self, binding: &TokenBinding, token: &StoredToken) -> Result<(), TokenStoreError> {
        let key = self.key_of(binding)?;
        let failed = || io::Error::other("it cannot be encrypted");
        let body = serde_json::to_vec(token).map_err(|_| failed())?;
        let sealed = key.seal(MAGIC, body).ok_or_else(failed)?;
        self.make_directory()?;
        write(&self.directory, &self.path(binding), &[MAGIC, &sealed].concat())?;
        Ok(())
    }

    /// Forgets a token; returns whether there was one.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(&self, binding: &TokenBinding) -> Result<bool, TokenStoreError> {
        match fs::remove_file(self.path(binding)) {
            Ok(()) => Ok(File::open(&self.directory)?.sync_all().map(|()| true)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Changes when the file does.
    #[must_use]
    pub fn stamp(&self, binding: &TokenBinding) -> Option<[i64; 4]> {
        let found = fs::symlink_metadata(self.path(binding)).ok()?;
        let number = |value: u64| i64::try_from(value).unwrap_or_default();
        Some([number(found.ino()), number(found.len()), found.mtime(), found.mtime_nsec()])
    }

    /// One process at a time refreshes a token: a refresh token that is used twice is taken for stolen, and the whole login is withdrawn. May block.
    ///
    /// # Errors
    /// Another process holds it for too long.
    pub fn lock(&self, binding: &TokenBinding) -> Result<FileLock<File>, TokenStoreError> {
        self.make_directory()?;
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(0o600).custom_flags(no_follow());
        let file = options.open(self.directory.join(format!("{}.lock", binding.file_stem())))?;
        FileLock::within(file, LOCK_TIMEOUT, || false).map_err(|error| match error {
            NotLocked::Held(_) => TokenStoreError::Locked,
            NotLocked::Failed(error) => error.into(),
        })
    }

    fn key_of(&self, binding: &TokenBinding) -> Result<AeadKey, TokenStoreError> {
        let state = self.key.as_ref().ok_or(TokenStoreError::NoKey)?;
        // HMAC as a key derivation function: each binding has a key of its own.
        let derived = state.seal("token of a login", &binding.parts());
        AeadKey::new(derived.as_bytes()).ok_or(TokenStoreError::NoKey)
    }

    fn make_directory(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)
    }
}

/// `O_NONBLOCK`: opening a FIFO must not block. `O_NOFOLLOW`: no symlinks.
fn no_follow() -> i32 {
    i32::try_from((rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW).bits()).unwrap_or_default()
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, TokenStoreError> {
    let file = match OpenOptions::new().read(true).custom_flags(no_follow()).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let found = file.metadata()?;
    if !found.is_file() || found.len() > MAX_FILE_BYTES {
        return Err(TokenStoreError::NotOurs);
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Atomic: a temporary file, fsync, rename, fsync of the directory.
fn write(directory: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let fresh = path.with_extension(format!("{}.new", std::process::id()));
    match fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&fresh)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&fresh, path)?;
    File::open(directory)?.sync_all()
}

//! The key that signs checkpoints, created on first use; and keys of this kind.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use toolgate_types::fresh_uuid;

use crate::AuditError;
use crate::directory::{DirHandle, fstat_state, read_at, write_all};

const SEED_BYTES: usize = 32;
/// The group may read the key, as deployments that mount secrets need. Group write and all access by others are refused.
const FORBIDDEN_MODE: u32 = 0o037;

/// The public half of a signing key, as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// The key as bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Reads the public key file beside a signing key.
    ///
    /// # Errors
    /// When the file is missing or is not a public key.
    pub fn read(path: &Path) -> Result<Self, AuditError> {
        let (folder, name) = split_path(path, DirHandle::open)?;
        let file =
            folder.read(&name)?.ok_or_else(|| folder.error("open", &name, rustix::io::Errno::NOENT))?;
        let bytes = read_at(&file, 128, 0).map_err(|cause| folder.error("read", &name, cause))?;
        let text = std::str::from_utf8(&bytes).unwrap_or_default().trim();
        text.parse().map_err(|InvalidPublicKey| folder.damaged(&name, InvalidPublicKey.to_string()))
    }

    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        VerifyingKey::from_bytes(&self.0)
            .is_ok_and(|key| key.verify_strict(message, &Signature::from_bytes(signature)).is_ok())
    }
}

impl From<[u8; 32]> for PublicKey {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&to_hex(&self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// Not a valid public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidPublicKey;

impl fmt::Display for InvalidPublicKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("not a public key of 64 hexadecimal digits")
    }
}

impl std::error::Error for InvalidPublicKey {}

impl FromStr for PublicKey {
    type Err = InvalidPublicKey;

    fn from_str(text: &str) -> Result<Self, InvalidPublicKey> {
        from_hex(text).map(Self).ok_or(InvalidPublicKey)
    }
}

/// The signing key.
pub(crate) struct CheckpointKey {
    key: SigningKey,
}

impl CheckpointKey {
    /// Loads the key at this path, creating it if missing. Concurrent processes end up with the same key.
    pub(crate) fn load_or_create(path: &Path) -> Result<Self, AuditError> {
        let (folder, name) = split_path(path, DirHandle::open_or_create)?;
        if folder.state(&name)?.is_none() {
            generate_key(&folder, &name)?;
        }
        let seed = read_seed(&folder, &name)?;
        let signing = Self { key: SigningKey::from_bytes(&seed) };
        signing.write_public_key(&folder, &name)?;
        Ok(signing)
    }

    pub(crate) fn public(&self) -> PublicKey {
        PublicKey(self.key.verifying_key().to_bytes())
    }

    pub(crate) fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.key.sign(message).to_bytes()
    }

    /// Writes the public key beside the key, for verifiers.
    fn write_public_key(&self, folder: &DirHandle, name: &str) -> Result<(), AuditError> {
        let public = public_name(name);
        if folder.state(&public)?.is_some() {
            return Ok(());
        }
        create_atomically(folder, &public, format!("{}\n", self.public()).as_bytes())
    }
}

/// The path of a signing key's public key.
#[must_use]
pub fn public_key_path(key: &Path) -> std::path::PathBuf {
    key.with_extension("pub")
}

fn public_name(name: &str) -> String {
    public_key_path(Path::new(name)).to_string_lossy().into_owned()
}

pub(crate) fn generate_key(folder: &DirHandle, name: &str) -> Result<(), AuditError> {
    let mut seed = [0; SEED_BYTES];
    getrandom::fill(&mut seed).map_err(|_| AuditError::Key {
        path: folder.path_of(name),
        problem: "no random numbers to make it from",
    })?;
    create_atomically(folder, name, &seed)
}

/// Creates a complete file (`fsync`, then `linkat`) unless it exists; the first of several processes wins.
pub(crate) fn create_atomically(folder: &DirHandle, name: &str, content: &[u8]) -> Result<(), AuditError> {
    let draft = format!(".{name}.{}", fresh_uuid());
    let file = folder.create_new(&draft)?;
    let written = write_all(&file, content)
        .and_then(|()| rustix::fs::fsync(&file))
        .map_err(|cause| folder.error("write", name, cause))
        .and_then(|()| folder.link_if_absent(&draft, name));
    folder.remove(&draft)?;
    written?;
    folder.sync()
}

pub(crate) fn read_seed(folder: &DirHandle, name: &str) -> Result<[u8; SEED_BYTES], AuditError> {
    let failed = |cause| folder.error("read", name, cause);
    let problem = |problem| AuditError::Key { path: folder.path_of(name), problem };
    let file = folder.read(name)?.ok_or_else(|| failed(rustix::io::Errno::NOENT))?;
    if rustix::fs::fstat(&file).map_err(failed)?.st_mode & FORBIDDEN_MODE != 0 {
        return Err(problem("others may read or change it"));
    }
    if fstat_state(&file).map_err(failed)?.length != SEED_BYTES as u64 {
        return Err(problem("it is not 32 bytes long"));
    }
    let bytes = read_at(&file, SEED_BYTES, 0).map_err(failed)?;
    bytes.try_into().map_err(|_| problem("it is not 32 bytes long"))
}

/// Splits a path into its open directory and its file name.
pub(crate) fn split_path(
    path: &Path,
    open: impl FnOnce(&Path) -> Result<DirHandle, AuditError>,
) -> Result<(DirHandle, String), AuditError> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Err(AuditError::Io {
            action: "open",
            path: path.to_owned(),
            cause: rustix::io::Errno::INVAL,
        });
    };
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    Ok((open(parent)?, name.to_owned()))
}

/// Lower-case hexadecimal.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|nibble| char::from_digit(nibble.into(), 16))
        .collect()
}

/// Decodes hexadecimal of exactly this length.
pub(crate) fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let mut digits = text.chars().map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok()));
    for byte in &mut bytes {
        *byte = digits.next()?? << 4 | digits.next()??;
    }
    digits.next().is_none().then_some(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "tests arrange files by hand")]
    fn many_at_once_make_one_key() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("keys/audit.key");
        let publics: Vec<PublicKey> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| CheckpointKey::load_or_create(&path).unwrap().public()))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(publics.iter().all(|public| *public == publics[0]));
        assert_eq!(PublicKey::read(&public_key_path(&path)).unwrap(), publics[0]);
        let mut names: Vec<String> = DirHandle::open(path.parent().unwrap()).unwrap().names().unwrap();
        names.retain(|name| name != "." && name != "..");
        names.sort();
        assert_eq!(names, ["audit.key", "audit.pub"]);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "tests arrange files by hand")]
    fn a_key_that_others_may_read_or_that_is_cut_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("audit.key");
        for (length, mode, accepted) in
            [(32, 0o600, true), (32, 0o440, true), (32, 0o604, false), (31, 0o600, false)]
        {
            std::fs::write(&path, vec![7; length]).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let loaded = CheckpointKey::load_or_create(&path);
            assert_eq!(loaded.is_ok(), accepted, "{length} {mode:o}");
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn hexadecimal_is_exact() {
        assert_eq!(from_hex::<2>(&to_hex(&[0x0f, 0xa0])), Some([0x0f, 0xa0]));
        for bad in ["0fa", "0fa00", "0fa0ff", "0g00", "é0a0"] {
            assert_eq!(from_hex::<2>(bad), None, "{bad}");
        }
    }
}

//! The key that the details of records are encrypted with, and how a record is read with it.
//!
//! The chain covers the encrypted text, so an operator without the key verifies the record all the same, and a key that was lost or destroyed takes only the names
//! with it.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use toolgate_types::{AeadKey, CallId};

use crate::checkpoint_key::{generate_key, read_seed, split_path};
use crate::directory::DirHandle;
use crate::line::to_json;
use crate::{AuditError, CallDetails, Record};

/// The first bytes of what the encrypted text is bound to; the id of its call follows.
const CONTEXT: &[u8] = b"toolgate.audit.details.v1\0";

/// The key for the details of records: 32 random bytes that only this user can read.
#[derive(Debug)]
pub struct DetailsKey {
    key: AeadKey,
    path: PathBuf,
}

impl DetailsKey {
    /// Reads the key; `None` if there is none.
    ///
    /// # Errors
    /// There is one that cannot be used.
    pub fn read(path: &Path) -> Result<Option<Self>, AuditError> {
        // A directory that cannot be opened has no key for this user.
        let Ok((folder, name)) = split_path(path, DirHandle::open) else { return Ok(None) };
        match folder.state(&name)? {
            Some(_) => Self::open(path, &folder, &name).map(Some),
            None => Ok(None),
        }
    }

    /// Reads the key, creating it if missing. Concurrent processes end up with the same key.
    pub(crate) fn read_or_create(path: &Path) -> Result<Self, AuditError> {
        let (folder, name) = split_path(path, DirHandle::open_or_create)?;
        if folder.state(&name)?.is_none() {
            generate_key(&folder, &name)?;
        }
        Self::open(path, &folder, &name)
    }

    fn open(path: &Path, folder: &DirHandle, name: &str) -> Result<Self, AuditError> {
        let bytes = read_seed(folder, name)?;
        let key = AeadKey::new(&bytes)
            .ok_or_else(|| AuditError::Key { path: path.to_owned(), problem: "it is not a key" })?;
        Ok(Self { key, path: path.to_owned() })
    }

    /// Encrypts what a call touched, as text.
    pub(crate) fn seal(&self, call: CallId, details: &CallDetails) -> Result<String, AuditError> {
        let sealed = self.key.seal(&context(call), to_json(&details.truncated())?);
        let sealed = sealed.ok_or_else(|| AuditError::Key {
            path: self.path.clone(),
            problem: "no random numbers to encrypt with it",
        })?;
        Ok(STANDARD.encode(sealed))
    }

    fn unseal(&self, call: CallId, sealed: &str) -> Option<CallDetails> {
        let opened = self.key.open(&context(call), &STANDARD.decode(sealed).ok()?)?;
        serde_json::from_slice(&opened).ok()
    }
}

/// Text that was moved to the record of another call is not opened.
fn context(call: CallId) -> Vec<u8> {
    [CONTEXT, &call.to_hyphenated()].concat()
}

impl Record {
    /// Decrypts the details, if they are encrypted and this is their key; returns whether they can be read now.
    pub fn reveal(&mut self, key: Option<&DetailsKey>) -> bool {
        let Some(sealed) = &self.sealed_details else { return true };
        let Some(details) = key.and_then(|key| key.unseal(self.trace_id, sealed)) else { return false };
        self.details = Some(details);
        self.sealed_details = None;
        true
    }
}

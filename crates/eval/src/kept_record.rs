//! A copy of the record of a case, for later verification.

use std::fs;
use std::io;
use std::path::Path;

/// Copies the files of the record and the public key from a state directory.
#[expect(clippy::disallowed_methods, reason = "the person named the directory")]
pub(crate) fn copy(state: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(state.join("audit"))? {
        let path = entry?.path();
        if let Some(name) = path.file_name()
            && path.extension().is_some_and(|extension| extension == "jsonl")
        {
            fs::copy(&path, to.join(name))?;
        }
    }
    fs::copy(state.join("keys/audit.pub"), to.join("audit.pub")).map(drop)
}

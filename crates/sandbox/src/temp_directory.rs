//! Where a command puts temporary files.

use std::path::{Path, PathBuf};

use crate::error::SandboxError;

/// The temporary directory: the view's own `/tmp`, or a host directory that is removed afterwards.
pub(crate) enum TempDirectory {
    View,
    Host(PathBuf),
}

impl TempDirectory {
    pub(crate) fn make(has_view: bool) -> Result<Self, SandboxError> {
        if has_view {
            return Ok(Self::View);
        }
        let cannot = SandboxError::system("there is no place for temporary files");
        let mut name = [0_u8; 8];
        rustix::rand::getrandom(&mut name, rustix::rand::GetRandomFlags::empty())
            .map_err(SandboxError::system("there is no randomness"))?;
        let path = PathBuf::from(format!("/tmp/toolgate-{:016x}", u64::from_le_bytes(name)));
        rustix::fs::mkdir(&path, rustix::fs::Mode::from_raw_mode(0o700)).map_err(cannot)?;
        Ok(Self::Host(path))
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::View => Path::new("/tmp"),
            Self::Host(path) => path,
        }
    }
}

impl Drop for TempDirectory {
    #[expect(
        clippy::disallowed_methods,
        reason = "removes the folder that it made itself; links in it are not followed"
    )]
    fn drop(&mut self) {
        if let Self::Host(path) = self {
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

//! Secrets that sign tokens, kept in files of this user.

use std::io;
use std::path::Path;

use toolgate_identity::{SharedSecret, generate_secret};

use crate::ambient::{mode, read_regular_file, write_new_file};
use crate::error::BuildError;

/// The group may read a secret, since deployments mount secrets that way. Others may not read it, and neither may write it.
const FORBIDDEN_MODE: u32 = 0o037;

/// Why a secret cannot be used.
#[derive(Debug)]
pub enum SecretError {
    /// It is not there, or not readable.
    Unreadable(io::Error),
    /// Others could read it and sign with it, or replace it.
    Open,
}

impl SecretError {
    /// What is wrong.
    pub fn message(&self, shown: &str) -> String {
        match self {
            Self::Unreadable(error) => format!("`{shown}` cannot be read: {error}"),
            Self::Open => format!("others may read or change the secret in `{shown}`"),
        }
    }

    /// How to correct it.
    pub fn help(&self, shown: &str) -> String {
        match self {
            Self::Unreadable(error) if error.kind() == io::ErrorKind::NotFound => {
                "make one with `toolgate token mint`, or name an existing file".to_owned()
            }
            Self::Unreadable(_) => {
                "let this user read it; where the disk cannot (`dmesg` says so), bring it back from a copy"
                    .to_owned()
            }
            Self::Open => format!("`chmod 600 {shown}`, and replace the secret if somebody may have read it"),
        }
    }
}

/// Reads a secret. A line end at the end of a text file is not part of the secret.
pub fn read(path: &Path) -> Result<SharedSecret, SecretError> {
    if mode(path).map_err(SecretError::Unreadable)? & FORBIDDEN_MODE != 0 {
        return Err(SecretError::Open);
    }
    let mut bytes = read_regular_file(path).map_err(SecretError::Unreadable)?;
    if let Ok(text) = std::str::from_utf8(&bytes) {
        let kept = text.trim_end_matches(['\n', '\r']).len();
        bytes.truncate(kept);
    }
    Ok(bytes.into())
}

/// Reads a secret, creating it if there is none.
pub fn read_or_create(path: &Path) -> Result<SharedSecret, BuildError> {
    read_or_create_as(path, |secret| secret.expose().to_vec())
}

/// The same for a secret that is copied by hand: one line of hexadecimal digits.
pub fn read_or_create_hex(path: &Path) -> Result<String, BuildError> {
    let written = |secret: &SharedSecret| {
        let digits = secret.expose().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        format!("{digits}\n").into_bytes()
    };
    let secret = read_or_create_as(path, written)?;
    let word = std::str::from_utf8(secret.expose()).ok().filter(|word| is_header_safe(word));
    word.map(str::to_owned).ok_or_else(|| {
        BuildError::usage(format!("`{}` is not a token", path.display()))
            .help("write at least 32 letters and digits in one line there, or remove the file to have a new one made")
    })
}

/// Long enough not to be guessed, and only characters that are valid in a header.
fn is_header_safe(text: &str) -> bool {
    (32..=1024).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte))
}

fn read_or_create_as(
    path: &Path,
    written: impl Fn(&SharedSecret) -> Vec<u8>,
) -> Result<SharedSecret, BuildError> {
    let shown = path.display().to_string();
    let explain = |error: SecretError| BuildError::usage(error.message(&shown)).help(error.help(&shown));
    match read(path) {
        Err(SecretError::Unreadable(error)) if error.kind() == io::ErrorKind::NotFound => {
            let secret = generate_secret().map_err(|error| BuildError::error(error.to_string()))?;
            match write_new_file(path, &written(&secret), 0o600) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    let failed = format!("the secret `{shown}` cannot be made: {error}");
                    Err(BuildError::usage(failed).help("name another state directory with --state-dir"))
                }
                // Another process created it first, and its secret is the valid one.
                _ => read(path).map_err(explain),
            }
        }
        read => read.map_err(explain),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_that_is_there_and_cannot_be_read_is_not_to_be_made_anew() {
        let help = |errno| SecretError::Unreadable(io::Error::from_raw_os_error(errno)).help("state.key");
        let (missing, broken) = (rustix::io::Errno::NOENT, rustix::io::Errno::IO);
        assert!(help(missing.raw_os_error()).contains("toolgate token mint"));
        let said = help(broken.raw_os_error());
        assert!(said.contains("dmesg") && !said.contains("token mint"), "{said}");
    }
}

//! Whether the state directory can be trusted, and the key that seals its content.
//!
//! The gate acts on the content of its state directory: it restores interrupted changes from it and reads the pins of servers. So only this user may
//! be able to write it, and no tool may reach it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use toolgate_types::{Sha256, StateKey};

use crate::ambient::{open_private_directory, real_path};
use crate::error::BuildError;
use crate::ownership::{self, OwnershipError};
use crate::secrets::read_or_create_hex;
use crate::settings::Settings;

/// Refuses a state directory of another user, one that others can write, and one in a mount where tools could plant files.
pub fn check(settings: &Settings) -> Result<(), BuildError> {
    refuse_others("state directory", &settings.state_dir)?;
    if !settings.audit_dir.starts_with(&settings.state_dir) {
        refuse_others("audit directory", &settings.audit_dir)?;
    }
    refuse_mounted(settings)
}

fn refuse_others(what: &str, path: &Path) -> Result<(), BuildError> {
    ownership::check_own_directory(path).map_err(|error| not_owned(what, path, &error))
}

fn not_owned(what: &str, path: &Path, error: &OwnershipError) -> BuildError {
    let message = format!("the {what} `{}` is not believed: {error}", path.display());
    BuildError::usage(message).help(
        "name a directory that only you can write, or take the write permission of others away (`chmod go-w`)",
    )
}

/// The user's default state directory may lie in a workspace that is, or holds, the home: there it is hidden from tools like all files of the gate,
/// and only this user's gate ever wrote it. Any other directory in a writable mount may have come with a repository.
fn refuse_mounted(settings: &Settings) -> Result<(), BuildError> {
    let state = real_path(&settings.state_dir);
    let is_default = settings.default_state_dir.as_deref() == Some(&*settings.state_dir);
    let home = settings.environment.home.as_deref().filter(|_| is_default).map(real_path);
    let writable = settings.mounts.iter().filter(|mount| !mount.read_only);
    let mounts = writable.map(|mount| (mount.alias.as_str(), &mount.path));
    for (alias, path) in mounts.chain([("@project", &settings.workspace)]) {
        let root = real_path(path);
        let holds_home = home.as_ref().is_some_and(|home| home.starts_with(&root));
        // Everything is below `/`, which is refused as a mount when it is opened.
        let is_filesystem_root = root.parent().is_none();
        if state.starts_with(&root) && !holds_home && !is_filesystem_root {
            let message = format!(
                "the state directory `{}` lies in the mount `{alias}`, where tools could plant what the gate believes",
                settings.state_dir.display()
            );
            return Err(BuildError::usage(message).help(
                "name a directory outside of every mount with --state-dir or `state_dir`, or leave it out",
            ));
        }
    }
    Ok(())
}

/// The key of this user's state, created if there is none. It is kept in the default state directory, so that a state directory from elsewhere cannot
/// bring its own key; only a process without a default state directory finds it in the given one.
pub fn key(settings: &Settings) -> Result<StateKey, BuildError> {
    let directory = key_directory(settings)?;
    let path = directory.join("keys").join("state.key");
    let word = read_or_create_hex(&path)?;
    // The directories above were already checked.
    let checked =
        ownership::check_directory(&directory.join("keys")).and_then(|()| ownership::check_file(&path));
    checked.map_err(|error| not_owned("key", &path, &error))?;
    let bytes = word.parse::<Sha256>().map_err(|_| {
        let message = format!("`{}` is not a key of 64 hexadecimal digits", path.display());
        BuildError::usage(message)
            .help("remove it to have a new one made; what was sealed with it is no longer believed")
    })?;
    Ok(StateKey::new(*bytes.as_bytes()))
}

/// The key that the details of records are encrypted with, beside the key of the state. It may not exist.
pub fn details_key_path(settings: &Settings) -> PathBuf {
    let directory = key_directory(settings).unwrap_or_else(|_| settings.state_dir.clone());
    directory.join("keys").join("details.key")
}

fn key_directory(settings: &Settings) -> Result<PathBuf, BuildError> {
    let Some(default) = &settings.default_state_dir else { return Ok(settings.state_dir.clone()) };
    refuse_others("state directory", default)?;
    match open_private_directory(default) {
        Ok(_) => Ok(default.clone()),
        Err(error) if cannot_be_made(error.kind()) => Ok(settings.state_dir.clone()),
        Err(error) => {
            let message = format!("the state directory `{}` cannot be used: {error}", default.display());
            Err(BuildError::usage(message).help("set XDG_STATE_HOME to a directory that you can write"))
        }
    }
}

/// The home is missing or read-only, as for a service or in a container.
fn cannot_be_made(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::NotADirectory
            | ErrorKind::NotFound
    )
}

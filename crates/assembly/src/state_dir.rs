//! Whether the state directory may be believed, and the key that its content is sealed with.
//!
//! What lies in a state directory is obeyed: interrupted changes are put back from it, agreements with servers are read from it. So it must be one that only this
//! user can write, and that no tool can reach.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use toolgate_types::{Sha256, StateKey};

use crate::ambient::{open_private_directory, real_path};
use crate::error::BuildError;
use crate::ownership::{self, OwnershipError};
use crate::secrets::read_or_create_hex;
use crate::settings::Settings;

/// Refuses state of another user, state that others can write, and state in a mount where tools could plant something.
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

/// The user's default state directory may lie in a workspace that is, or holds, the home: there it is hidden from tools like all files of the gate, and nothing
/// but this user's own gate ever wrote it. Every other place in a writable mount is one that a repository may have brought along.
fn refuse_mounted(settings: &Settings) -> Result<(), BuildError> {
    let state = real_path(&settings.state_dir);
    let is_default = settings.default_state_dir.as_deref() == Some(&*settings.state_dir);
    let home = settings.environment.home.as_deref().filter(|_| is_default).map(real_path);
    let writable = settings.mounts.iter().filter(|mount| !mount.read_only);
    let mounts = writable.map(|mount| (mount.alias.as_str(), &mount.path));
    for (alias, path) in mounts.chain([("@project", &settings.workspace)]) {
        let root = real_path(path);
        let holds_home = home.as_ref().is_some_and(|home| home.starts_with(&root));
        // `/` holds everything; that it cannot be a mount is said when it is opened.
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

/// The key of this user's state, made where there is none. It lies in the default state directory, so that a state directory that came from elsewhere cannot
/// bring its own; only a process that has no such directory finds it in the one that it was given.
pub fn key(settings: &Settings) -> Result<StateKey, BuildError> {
    let directory = key_directory(settings)?;
    let path = directory.join("keys").join("state.key");
    let word = read_or_create_hex(&path)?;
    // What lies above was checked already.
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

/// A home that is not there or cannot be written: that of a service, or in a container.
fn cannot_be_made(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::NotADirectory
            | ErrorKind::NotFound
    )
}

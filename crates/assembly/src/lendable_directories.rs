//! Directories outside of the mounts that a person may let one call read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use toolgate_command::{DirectoryOpener, is_lendable};
use toolgate_sandbox::refused_place;
use toolgate_workspace::{Mount, MountAccess};

use crate::ambient::{is_directory, open_directory, real_path};
use crate::error::BuildError;
use crate::gate_builder::rules;
use crate::personal_paths::personal_paths;
use crate::protected_paths::GateOwnedPaths;
use crate::settings::Settings;

/// Where the sockets and devices of other processes are.
const NEVER: [&str; 4] = ["/run", "/var/run", "/sys", "/boot"];

/// Opens directories for [`toolgate_command::CommandRunner`]. Refused are: what contains a home directory, a mount or a directory of the gate, or lies
/// in one; a directory behind a symlink; and what [`is_lendable`] does not let a person be asked about. The deny rules of all mounts apply.
pub(crate) fn directory_opener(
    settings: &Settings,
    own: &GateOwnedPaths,
) -> Result<DirectoryOpener, BuildError> {
    let personal = personal_paths(&settings.environment);
    let mounts = settings.mounts.iter().map(|mount| &mount.path).chain([&settings.workspace]);
    let apart: Vec<PathBuf> =
        mounts.map(|mount| real_path(mount)).chain(own.paths().iter().cloned()).collect();
    let home = settings.environment.home.clone();
    let (own, rules) = (own.paths().to_vec(), rules(settings, &[], &[])?);
    Ok(Arc::new(move |path: &Path, alias: &str| {
        if !is_lendable(path) {
            return None;
        }
        let path = match path.strip_prefix("~") {
            Ok(rest) => home.as_ref()?.join(rest),
            Err(_) => path.to_path_buf(),
        };
        let directory = if is_directory(&path) { path } else { existing_parent(&path)? };
        let meets = |other: &PathBuf| directory.starts_with(other) || other.starts_with(&directory);
        let is_refused = !is_lendable(&directory)
            || refused_place(&directory).is_some()
            || NEVER.iter().any(|never| directory.starts_with(never))
            || real_path(&directory) != directory
            || personal.homes.iter().any(|home| real_path(home).starts_with(&directory))
            || apart.iter().any(meets);
        if is_refused {
            return None;
        }
        let opened = open_directory(&directory).ok()?;
        let mount = Mount::new(alias, opened, &directory, MountAccess::ReadOnly, rules.clone()).ok()?;
        let mount = mount.hide_gate_files(&own).protect_personal(Arc::clone(&personal));
        // It may have been exchanged since it was looked at.
        (mount.host_root() == directory).then_some(mount)
    }))
}

/// The directory of a file that exists.
fn existing_parent(path: &Path) -> Option<PathBuf> {
    crate::ambient::exists(path).then(|| path.parent().map(Path::to_path_buf))?
}

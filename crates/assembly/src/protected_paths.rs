//! Paths that belong to the gate, wherever they are: no mount and no sandbox view of a command may show them.

use std::path::{Path, PathBuf};

use crate::ambient::{RealPathCache, real_path};
use crate::error::BuildError;
use crate::gate_builder::{STATE_DIRECTORIES, log_options};
use crate::settings::Settings;
use crate::symlink_walk::ResolvedPath;

/// The canonical paths of everything that belongs to the gate. Resolved once, and valid as long as the settings.
pub struct GateOwnedPaths {
    /// The parts of the state directories and the audit log. A workspace may be their sibling in one directory.
    directories: Vec<PathBuf>,
    /// The manifests and policies.
    declarations: Vec<PathBuf>,
    /// All of it, including single files and whole state directories.
    paths: Vec<PathBuf>,
}

impl GateOwnedPaths {
    /// The paths that these settings name.
    pub fn of(settings: &Settings) -> Self {
        let mut real = RealPathCache::default();
        let mut directories = Vec::new();
        for state in state_directories(settings) {
            directories.extend(STATE_DIRECTORIES.map(|part| real.resolve(&state.join(part))));
        }
        if state_directories(settings).all(|state| state != settings.audit_dir) {
            directories.push(real.resolve(&settings.audit_dir));
        }
        let log = log_options(settings);
        let key = log.key_path();
        let beside = [log.checkpoints_path(), toolgate_audit::public_key_path(&key), key];
        let mut paths: Vec<PathBuf> =
            beside.iter().chain(named_files(settings)).map(|path| real.resolve(path)).collect();
        paths.extend(state_directories(settings).map(|state| real.resolve(state)));
        paths.extend(directories.iter().cloned());
        let declarations = declarations(settings).map(|path| real.resolve(path)).collect();
        Self { directories, declarations, paths }
    }

    /// The paths that no mount may show.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// A symlink inside a mount can be replaced by a tool, so no path of the gate may pass through one.
    pub fn refuse_links(&self, settings: &Settings) -> Result<(), BuildError> {
        let mounts = settings.mounts.iter().map(|mount| &mount.path).chain([&settings.workspace]);
        let mounts = real_roots(mounts);
        let own = named_files(settings).chain([&settings.state_dir, &settings.audit_dir]);
        own.into_iter().try_for_each(|path| refuse_link(path, &mounts))?;
        // The same for mounts: a tool that replaces a directory by a symlink would choose where the next start lets tools write.
        let writable = settings.mounts.iter().filter(|mount| !mount.read_only).map(|mount| &mount.path);
        let writable = real_roots(writable.chain([&settings.workspace]));
        let mounts = settings.mounts.iter().map(|mount| &mount.path);
        mounts.chain([&settings.workspace]).try_for_each(|path| refuse_link(path, &writable))
    }

    /// Refuses a mount inside the gate's own directories, which would expose them to the model.
    pub fn refuse_mount(&self, alias: &str, path: &Path) -> Result<(), BuildError> {
        let place = real_path(path);
        // Subdirectories of a manifest directory are not searched, so a file there cannot become a tool.
        if !self.declarations.contains(&place) && !self.directories.iter().any(|own| place.starts_with(own)) {
            return Ok(());
        }
        let message = format!("`{}` belongs to the gate and cannot be mounted as `{alias}`", path.display());
        Err(BuildError::usage(message)
            .help("choose another folder; state, audit, manifests and policies are never mounted"))
    }
}

fn refuse_link(path: &Path, mounts: &[PathBuf]) -> Result<(), BuildError> {
    let way = ResolvedPath::resolve(path).map_err(|error| BuildError::usage(error.to_string()))?;
    match way.links.iter().find(|link| mounts.iter().any(|mount| link.starts_with(mount))) {
        None => Ok(()),
        Some(link) => {
            let message = format!(
                "`{}` is reached through the link `{}`, which tools could replace",
                path.display(),
                link.display()
            );
            Err(BuildError::usage(message).help("name the place that the link leads to"))
        }
    }
}

/// The canonical roots of mounts. `/` is left out: every symlink lies below it, and it is refused as a mount when it is opened.
fn real_roots<'p>(paths: impl Iterator<Item = &'p PathBuf>) -> Vec<PathBuf> {
    paths.map(|path| real_path(path)).filter(|root| root.parent().is_some()).collect()
}

/// The operator's files that decide what the gate does.
fn named_files(settings: &Settings) -> impl Iterator<Item = &PathBuf> {
    let beside = settings.key_files.iter().chain(&settings.system_files);
    settings.loaded.file().into_iter().chain(declarations(settings)).chain(beside)
}

fn declarations(settings: &Settings) -> impl Iterator<Item = &PathBuf> {
    settings.tools.iter().chain(&settings.policies).map(|named| &named.path)
}

/// The state directories of this gate and of this user's other gates.
fn state_directories(settings: &Settings) -> impl Iterator<Item = &Path> {
    let other = settings.default_state_dir.as_ref().filter(|other| **other != settings.state_dir);
    [Some(&settings.state_dir), other].into_iter().flatten().map(PathBuf::as_path)
}

//! Where a path really leads, for rules about files rather than about path texts.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use rustix::io::Errno;
use toolgate_text::patch;

use crate::error::WorkspaceError;
use crate::file_target::{stat_name, too_many_conflicts};
use crate::mount::Mount;
use crate::open::{check_rules, open_existing};
use crate::requested_path::RequestedPath;
use crate::view::WorkspaceView;

/// How often a place that keeps changing is looked up again.
const MAX_ATTEMPTS: usize = 32;

/// An existing file or directory, or the place where one would be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatedFile {
    /// The mount that the path resolved to. It may contain another mount that the file lies in as well.
    pub alias: String,
    /// The real location below that mount; empty for the mount itself.
    pub location: String,
    /// Device and inode number; `None` where the file does not exist.
    pub identity: Option<(u64, u64)>,
    /// The place as `@alias/location` for every mount that contains it, the innermost first.
    pub places: Vec<String>,
}

impl WorkspaceView<'_> {
    /// Opens a path and reports where it really is. For a file that does not exist, the deepest existing directory above it is opened.
    ///
    /// # Errors
    /// See [`WorkspaceError`]: what the rules deny to this call is not located either.
    pub fn locate(&self, path: &str) -> Result<LocatedFile, WorkspaceError> {
        let requested = self.request(path)?;
        for _ in 0..MAX_ATTEMPTS {
            self.stop.check()?;
            match open_existing(self, &requested) {
                Ok(opened) => {
                    let identity = Some((opened.stat.st_dev, opened.stat.st_ino));
                    let mount = self.mount(opened.mount(&requested))?;
                    return self.located(mount, &requested, &opened.location, identity);
                }
                Err(WorkspaceError::NotFound { .. } | WorkspaceError::NotADirectory { .. }) => {}
                Err(error) => return Err(error),
            }
            if let Some((mount, location)) = self.missing(&requested)? {
                let mount = self.mount(mount)?;
                check_rules(self, mount, &location, false, &requested.shown)?;
                return self.located(mount, &requested, &location, None);
            }
        }
        Err(too_many_conflicts(&requested.shown))
    }

    /// [`Self::locate`] for every file that a patch names.
    ///
    /// # Errors
    /// The text is no patch, or one of its paths leads nowhere that this call may reach.
    pub fn locate_patched(&self, text: &str) -> Result<Vec<LocatedFile>, WorkspaceError> {
        let files = patch::parse(text).map_err(WorkspaceError::other)?;
        let paths = files.iter().flat_map(|file| file.old_path.iter().chain(&file.new_path));
        paths.map(|path| self.locate(path)).collect()
    }

    /// Where a missing file would be created; `None` when it has just appeared.
    fn missing(&self, requested: &RequestedPath<'_>) -> Result<Option<(usize, PathBuf)>, WorkspaceError> {
        let mut above = requested.clone();
        let mut names: Vec<OsString> = Vec::new();
        let opened = loop {
            let Some(name) = above.pop() else { return Ok(None) };
            names.push(name);
            match open_existing(self, &above) {
                Ok(opened) => break opened,
                Err(WorkspaceError::NotFound { .. } | WorkspaceError::NotADirectory { .. }) => {}
                Err(error) => return Err(error),
            }
        };
        names.reverse();
        let first = names.first().filter(|_| opened.is_directory());
        match first.map(|name| stat_name(&opened.file, name)) {
            None | Some(Err(Errno::NOENT)) => {}
            // Everything that can be opened was opened above, so this is a dangling symlink, or it has just appeared.
            Some(Ok(stat)) if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink => {
                let path = requested.shown.to_string();
                return Err(WorkspaceError::SymlinkOutside { path, dangling: true });
            }
            Some(Ok(_)) => return Ok(None),
            Some(Err(error)) => {
                return Err(WorkspaceError::io("looking at", &requested.shown, error.into()));
            }
        }
        let location = names.iter().fold(opened.location.clone(), |path, name| path.join(name));
        Ok(Some((opened.mount(&above), location)))
    }

    fn located(
        &self,
        mount: &Mount,
        requested: &RequestedPath<'_>,
        location: &Path,
        identity: Option<(u64, u64)>,
    ) -> Result<LocatedFile, WorkspaceError> {
        // No rule could name a path that is not UTF-8.
        let Some(text) = location.to_str() else {
            let path = requested.shown.to_string();
            let reason = "it leads to a name that is not UTF-8".to_owned();
            return Err(WorkspaceError::Precondition { path, reason });
        };
        let host = mount.host_root().join(location);
        let within = |other: &Mount| {
            let below = host.strip_prefix(other.host_root()).ok()?;
            Some((below.components().count(), other.show_with_alias(below)))
        };
        let mut places: Vec<(usize, String)> = self.workspace.mounts().iter().filter_map(within).collect();
        places.sort_by_key(|(depth, _)| *depth);
        let places = places.into_iter().map(|(_, place)| place).collect();
        Ok(LocatedFile { alias: mount.alias().to_owned(), location: text.to_owned(), identity, places })
    }
}

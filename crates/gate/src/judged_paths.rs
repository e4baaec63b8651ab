//! The paths of a call, and where they really lead.
//!
//! Rules are asked about files, and a person is shown files; a call names paths. Between the two a symlink can be swapped in. So the paths are opened
//! once, before the call is judged, and the call is then held to what was found: a tool that meets another file under the same path refuses it.

use std::path::Path;
use std::sync::Arc;

use toolgate_policy::{CallPaths, PathSource};
use toolgate_types::{ErrorCode, Failure};
use toolgate_workspace::{LocatedFile, PathGrant};

/// One path of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallPath {
    /// What names it.
    pub source: PathSource,
    /// Where it leads.
    pub located: LocatedFile,
}

/// The paths of a call as they were when it was judged, or shown to a person.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JudgedPaths(Vec<CallPath>);

impl JudgedPaths {
    pub(crate) fn new(paths: Vec<CallPath>) -> Self {
        Self(paths)
    }

    /// The same as rules see them.
    pub(crate) fn for_rules(&self) -> CallPaths {
        let mut paths = CallPaths::default();
        for CallPath { source, located } in &self.0 {
            paths.add(source.clone(), located.places.clone());
        }
        paths
    }

    /// Compares with what is there now, by location, device and inode.
    ///
    /// # Errors
    /// `precondition_failed`: the call would be made with another file than the one that was judged.
    pub fn check(&self, now: &[CallPath]) -> Result<(), Failure> {
        if self.0 == now {
            return Ok(());
        }
        let other = now.iter().find(|path| !self.0.contains(path)).or(now.first());
        let which = other.map_or_else(|| "a path".to_owned(), |path| path.source.to_string());
        let message = format!("`{which}` leads to another file than when the call was judged");
        Err(Failure::new(ErrorCode::PreconditionFailed, message)
            .help("look at the files again, then ask again"))
    }

    /// Whether a real location is one of them, lies in one, or is a directory on the way to one.
    fn reaches(&self, alias: &str, location: &Path, is_directory: bool) -> bool {
        let of_mount = self.0.iter().filter(|path| path.located.alias == alias);
        let mut judged = of_mount.map(|path| Path::new(&path.located.location));
        judged.any(|judged| location.starts_with(judged) || (is_directory && judged.starts_with(location)))
    }
}

/// What a call may reach of the workspace: what it was granted, and of that what it was judged for.
#[derive(Debug)]
pub(crate) struct JudgedGrant {
    pub(crate) granted: Option<Arc<dyn PathGrant>>,
    pub(crate) judged: Arc<JudgedPaths>,
}

impl PathGrant for JudgedGrant {
    fn covers(&self, location: &Path) -> bool {
        self.granted.as_ref().is_none_or(|granted| granted.covers(location))
    }

    fn may_open(&self, alias: &str, location: &Path, is_directory: bool) -> bool {
        self.judged.reaches(alias, location, is_directory)
    }
}

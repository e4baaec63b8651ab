//! The paths of a call, and the files they resolve to.
//!
//! Rules and people judge files, but a call names paths, and a symlink can be swapped in between (TOCTOU). So the paths are resolved once, before the
//! call is judged, and the call is bound to the result: a tool that finds another file under the same path refuses it.

use std::path::Path;
use std::sync::Arc;

use toolgate_policy::{CallPaths, PathSource};
use toolgate_types::{ErrorCode, Failure};
use toolgate_workspace::{LocatedFile, PathGrant};

/// One path of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallPath {
    /// The argument that names it.
    pub source: PathSource,
    /// The file it resolves to.
    pub located: LocatedFile,
}

/// The paths of a call as they resolved when it was judged by rules or shown to a person.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JudgedPaths(Vec<CallPath>);

impl JudgedPaths {
    pub(crate) fn new(paths: Vec<CallPath>) -> Self {
        Self(paths)
    }

    /// The paths, in the order of the tool's arguments.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &CallPath> {
        self.0.iter()
    }

    /// The paths in the form that policies evaluate.
    pub(crate) fn for_rules(&self) -> CallPaths {
        let mut paths = CallPaths::default();
        for CallPath { source, located } in &self.0 {
            paths.add(source.clone(), located.places.clone());
        }
        paths
    }

    /// Compares with the current resolution, by location, device and inode.
    ///
    /// # Errors
    /// `precondition_failed`: a path now resolves to another file than the one that was judged.
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

    /// Whether a real location is one of the judged paths, is below one, or is an ancestor directory of one.
    fn reaches(&self, alias: &str, location: &Path, is_directory: bool) -> bool {
        let of_mount = self.0.iter().filter(|path| path.located.alias == alias);
        let mut judged = of_mount.map(|path| Path::new(&path.located.location));
        judged.any(|judged| location.starts_with(judged) || (is_directory && judged.starts_with(location)))
    }
}

/// What a call may reach: the intersection of the caller's grant and the judged paths.
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

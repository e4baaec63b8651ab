//! Directories that git takes for a repository.
//!
//! Write access to one decides what git executes next: `config` names programs, `hooks` are programs, `commondir` and a `.git` file point at another
//! repository that has both. So tools may read the inside of a repository, only git changes it, and no new one can be assembled file by file.

use std::path::Path;

use crate::mount::Mount;
use crate::name_fold::fold;

/// Whether changing this place would change the inside of a repository, or complete one.
pub(crate) fn is_inside_repository(mount: &Mount, location: &Path) -> bool {
    location.ancestors().any(|place| is_git_name(place) || makes_repository(mount, place))
}

/// `.git` and its folded twins, as a directory or as a file that points elsewhere.
fn is_git_name(place: &Path) -> bool {
    place.file_name().is_some_and(|name| fold(Path::new(name)) == ".git")
}

/// Whether the parent directory is a repository once this place exists: git requires `HEAD` and either `objects` and `refs`, or `commondir` instead
/// of them.
fn makes_repository(mount: &Mount, place: &Path) -> bool {
    let (Some(folder), Some(new)) = (place.parent(), place.file_name()) else { return false };
    // A case-insensitive filesystem takes a new `head` for `HEAD`; existing entries it finds by either name.
    let new = fold(Path::new(new));
    let has = |name: &str| {
        new.eq_ignore_ascii_case(name) || mount.directory().symlink_metadata(folder.join(name)).is_ok()
    };
    has("HEAD") && (has("commondir") || (has("objects") && has("refs")))
}

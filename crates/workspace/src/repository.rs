//! Folders that git takes for a repository.
//!
//! Whoever may write into one decides what git runs next: `config` names programs, `hooks` are programs, `commondir` and a `.git` file point at another
//! repository that has both. So the inside of a repository is read, and changed by git alone, and no new one is put together file by file.

use std::path::Path;

use crate::mount::Mount;
use crate::name_fold::fold;

/// Whether changing this place would change a repository's inside, or complete one.
pub(crate) fn is_inside_repository(mount: &Mount, location: &Path) -> bool {
    location.ancestors().any(|place| is_git_name(place) || makes_repository(mount, place))
}

/// `.git` and its twins, as a folder or as a file that points elsewhere.
fn is_git_name(place: &Path) -> bool {
    place.file_name().is_some_and(|name| fold(Path::new(name)) == ".git")
}

/// Whether the folder of this place is a repository once the place exists: git asks for `HEAD` and for `objects` and `refs`, or for `commondir` in their stead.
fn makes_repository(mount: &Mount, place: &Path) -> bool {
    let (Some(folder), Some(new)) = (place.parent(), place.file_name()) else { return false };
    // A filesystem that ignores case takes a new `head` for `HEAD`; what is there already it finds by either name.
    let new = fold(Path::new(new));
    let has = |name: &str| {
        new.eq_ignore_ascii_case(name) || mount.directory().symlink_metadata(folder.join(name)).is_ok()
    };
    has("HEAD") && (has("commondir") || (has("objects") && has("refs")))
}

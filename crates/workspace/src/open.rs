//! Opens a requested path beneath a mount's handle and applies the rules to what was opened.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use cap_std::fs::{OpenOptions, OpenOptionsExt as _};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat};

use crate::deny_list::Above;
use crate::error::WorkspaceError;
use crate::file_target::{same_file, too_many_conflicts};
use crate::location::real_location;
use crate::mount::Mount;
use crate::name_fold;
use crate::requested_path::RequestedPath;
use crate::rules::PathVerdict;
use crate::transaction::is_temporary;
use crate::view::WorkspaceView;

/// Linux's own limit on symlinks in one path (`ELOOP`).
const MAX_SYMLINKS: usize = 40;

/// Every crossing has already followed all its links, so more than this means that another process keeps changing them.
const MAX_CROSSINGS: usize = 4;

/// How often a name is opened again when it is replaced concurrently.
const MAX_ATTEMPTS: usize = 32;

/// An open file or directory that passed the rules.
#[derive(Debug)]
pub struct OpenedFile {
    /// The open file.
    pub file: File,
    pub(crate) stat: Stat,
    /// The real location below the mount.
    pub location: PathBuf,
    /// The index of the mount, where a symlink led into another mount than the requested one.
    led_to: Option<usize>,
}

impl OpenedFile {
    /// The index of the mount that it lies in; that mount's rules and access apply.
    pub(crate) fn mount(&self, requested: &RequestedPath<'_>) -> usize {
        self.led_to.unwrap_or(requested.mount)
    }

    /// Whether it is a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        FileType::from_raw_mode(self.stat.st_mode) == FileType::Directory
    }

    pub(crate) fn size(&self) -> u64 {
        u64::try_from(self.stat.st_size).unwrap_or(0)
    }
}

/// Opens an existing file or directory.
///
/// A symlink into another mount is followed, and its target is judged as if it had been requested in that mount.
pub(crate) fn open_existing(
    view: &WorkspaceView<'_>,
    requested: &RequestedPath<'_>,
) -> Result<OpenedFile, WorkspaceError> {
    open_across(view, requested, MAX_CROSSINGS)
}

/// The same, with a limit on links from one mount into another.
fn open_across(
    view: &WorkspaceView<'_>,
    requested: &RequestedPath<'_>,
    crossings: usize,
) -> Result<OpenedFile, WorkspaceError> {
    let mount = view.mount(requested.mount)?;
    let named = requested.relative();
    // A denied name is not even opened: it could be renamed before its location is read.
    check_name(mount, requested, named, true)?;
    for _ in 0..MAX_ATTEMPTS {
        let file = match open_beneath(view, requested, named)? {
            Led::Here(file) => file,
            Led::Elsewhere(led) => {
                let opened = open_elsewhere(view, &led, crossings)?;
                check_name(mount, requested, named, opened.is_directory())?;
                return Ok(opened);
            }
        };
        let opened = match identify(mount, file, &requested.shown) {
            // Replaced between opening it and reading its location: the name now belongs to another file, or to none.
            Err(WorkspaceError::NotFound { .. }) => continue,
            other => other?,
        };
        if is_being_replaced(&opened, requested) {
            continue;
        }
        // Rules that match files only need the type of what was opened. Where the location is the requested name, `check_rules` below applies them.
        if opened.location != named {
            check_name(mount, requested, named, opened.is_directory())?;
        }
        check_rules(view, mount, &opened.location, opened.is_directory(), &requested.shown)?;
        if requested.wants_directory && !opened.is_directory() {
            return Err(WorkspaceError::NotADirectory { path: requested.shown.to_string() });
        }
        return Ok(opened);
    }
    Err(too_many_conflicts(&requested.shown))
}

/// Where a path leads.
enum Led<'a> {
    Here(File),
    Elsewhere(LedElsewhere<'a>),
}

/// A place of another mount.
struct LedElsewhere<'a> {
    requested: RequestedPath<'a>,
    /// Whether a symlink named the first name that is missing.
    leads_nowhere: bool,
}

fn open_elsewhere(
    view: &WorkspaceView<'_>,
    led: &LedElsewhere<'_>,
    crossings: usize,
) -> Result<OpenedFile, WorkspaceError> {
    let shown = || led.requested.shown.to_string();
    let Some(left) = crossings.checked_sub(1) else {
        return Err(WorkspaceError::SymlinkLoop { path: shown() });
    };
    match open_across(view, &led.requested, left) {
        Ok(opened) => Ok(OpenedFile { led_to: Some(opened.mount(&led.requested)), ..opened }),
        Err(WorkspaceError::NotFound { .. }) if led.leads_nowhere => {
            Err(WorkspaceError::SymlinkOutside { path: shown(), dangling: true })
        }
        Err(error) => Err(error),
    }
}

/// Opens an existing file for reading only; in the usual case without reading its location from `/proc/self/fd`.
///
/// That case is a file with a plain name, no symlink on its path, no rule against it and no nested mount. With `RESOLVE_NO_SYMLINKS` the requested
/// names were the file's location during lookup, except for their case on a case-insensitive filesystem. Denials ignore case as well, and a scope
/// that names a file there means it in any case. Everything else goes to [`open_existing`], which also produces the error.
///
/// A fast path:
/// - **Plain way**: [`open_existing`], which reads the location.
/// - **Gain**: 2.6 µs for a file three names deep, where opening it and reading `/proc/self/fd` takes 6.0 µs.
/// - **Switch**: `--cfg toolgate_plain` takes the plain way.
/// - **Compared** by `a_file_that_is_not_asked_where_it_is_is_the_one_that_is_found_there`. The rules have one implementation: both ask
///   `MountRules::verdict`.
pub(crate) fn open_to_read(
    view: &WorkspaceView<'_>,
    requested: &RequestedPath<'_>,
) -> Result<OpenedFile, WorkspaceError> {
    let opened = if cfg!(toolgate_plain) { None } else { open_without_links(view, requested) };
    opened.map_or_else(|| open_existing(view, requested), Ok)
}

fn open_without_links(view: &WorkspaceView<'_>, requested: &RequestedPath<'_>) -> Option<OpenedFile> {
    let (mount, named) = (view.mount(requested.mount).ok()?, requested.relative());
    let is_plain = name_fold::is_plain(named.as_os_str().as_bytes()) && !requested.is_root();
    if !is_plain || requested.wants_directory || !mount.nested().is_empty() {
        return None;
    }
    // Judged once, before opening, as a file: what is denied as a directory is denied as a file too.
    let is_reachable = mount.rules().verdict(named, false, view.grant, Above::Unjudged)
        == PathVerdict::Reachable
        && view.grant.is_none_or(|grant| grant.may_open(mount.alias(), named, false));
    is_reachable.then(|| open_file_by_names(mount, named)).flatten()
}

/// The size of a regular file at this path without symlinks; `None` for anything else.
pub(crate) fn size_by_names(mount: &Mount, named: &Path) -> Option<u64> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
    let file = rustix::fs::openat2(mount.directory(), named, flags, Mode::empty(), resolve).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    is_file.then(|| u64::try_from(stat.st_size).ok()).flatten()
}

fn open_file_by_names(mount: &Mount, named: &Path) -> Option<OpenedFile> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
    let file = rustix::fs::openat2(mount.directory(), named, flags, Mode::empty(), resolve).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_nlink > 0;
    is_file.then(|| OpenedFile { file: File::from(file), stat, location: named.to_path_buf(), led_to: None })
}

/// Applies the deny rules to the requested name alone, as that of a directory or of any other file type.
fn check_name(
    mount: &Mount,
    requested: &RequestedPath<'_>,
    named: &Path,
    is_directory: bool,
) -> Result<(), WorkspaceError> {
    match mount.rules().denied(named, is_directory, Above::Unjudged) {
        Some(rule) => {
            Err(WorkspaceError::Denied { path: requested.shown.to_string(), rule: rule.to_string() })
        }
        None => Ok(()),
    }
}

/// Whether another gate has just exchanged the content, so that this is the old file under its temporary name.
fn is_being_replaced(opened: &OpenedFile, requested: &RequestedPath<'_>) -> bool {
    let name = opened.location.file_name();
    name.is_some_and(is_temporary) && requested.names().next_back() != name
}

/// Applies the mount's rules and the call's grant to a real location.
pub(crate) fn check_rules(
    view: &WorkspaceView<'_>,
    mount: &Mount,
    location: &Path,
    is_directory: bool,
    shown: &str,
) -> Result<(), WorkspaceError> {
    if view.grant.is_some_and(|grant| !grant.may_open(mount.alias(), location, is_directory)) {
        let reason = "it leads to another file than when the call was judged".to_owned();
        return Err(WorkspaceError::Precondition { path: shown.to_owned(), reason });
    }
    match view.verdict(mount, location, is_directory) {
        PathVerdict::Reachable => Ok(()),
        PathVerdict::Denied { rule } => Err(WorkspaceError::Denied { path: shown.to_owned(), rule }),
        PathVerdict::OutOfScope => Err(WorkspaceError::OutOfScope { path: shown.to_owned() }),
    }
}

fn open_beneath<'r>(
    view: &WorkspaceView<'_>,
    requested: &RequestedPath<'r>,
    named: &Path,
) -> Result<Led<'r>, WorkspaceError> {
    match open_path(view.mount(requested.mount)?, named) {
        Ok(file) => Ok(Led::Here(file)),
        // Either the path leads outside, or an absolute symlink leads back inside, or a symlink dangles.
        Err(error) if is_escape(&error) || error.kind() == io::ErrorKind::NotFound => {
            reopen_through_links(view, requested)
        }
        Err(error) => Err(WorkspaceError::io("opening", &requested.shown, error)),
    }
}

/// Opens beneath the mount; `O_NONBLOCK` for FIFOs, `O_NOCTTY` for terminals.
fn open_path(mount: &Mount, relative: &Path) -> io::Result<File> {
    let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(i32::try_from(flags.bits()).unwrap_or(0));
    Ok(mount.directory().open_with(relative, &options)?.into_std())
}

/// cap-std reports a path that leads outside as `PermissionDenied` without an errno.
fn is_escape(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none()
}

fn reopen_through_links<'r>(
    view: &WorkspaceView<'_>,
    requested: &RequestedPath<'r>,
) -> Result<Led<'r>, WorkspaceError> {
    let shown = || requested.shown.to_string();
    let followed = follow_links(view, requested)?;
    if followed.mount != requested.mount {
        let led = requested.led_to(followed.mount, &followed.path);
        let outside = || WorkspaceError::SymlinkOutside { path: shown(), dangling: false };
        let requested = led.ok_or_else(outside)?;
        return Ok(Led::Elsewhere(LedElsewhere { requested, leads_nowhere: followed.leads_nowhere }));
    }
    // The kernel checks the followed path like any other, so swapping a symlink during the walk gains nothing.
    let opened = open_path(view.mount(requested.mount)?, &followed.path);
    opened.map(Led::Here).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound if followed.leads_nowhere => {
            WorkspaceError::SymlinkOutside { path: shown(), dangling: true }
        }
        _ if is_escape(&error) => WorkspaceError::SymlinkOutside { path: shown(), dangling: false },
        _ => WorkspaceError::io("opening", &requested.shown, error),
    })
}

struct FollowedPath {
    /// The index of the mount that it ends in.
    mount: usize,
    path: PathBuf,
    /// Whether a symlink, not the caller, named the first name that is missing.
    leads_nowhere: bool,
}

/// A name on the path, and whether a symlink supplied it.
struct PathStep {
    name: OsString,
    by_link: bool,
}

/// How far symlinks were followed. Between two mounts nothing is looked up: names there are taken lexically.
struct Position<'a> {
    mounts: &'a [Mount],
    mount: usize,
    path: PathBuf,
    /// The absolute path, while it lies in no mount.
    between: Option<PathBuf>,
}

impl Position<'_> {
    fn mount(&self) -> Option<&Mount> {
        self.mounts.get(self.mount)
    }

    /// Goes to the parent directory; false where there is none.
    fn climb(&mut self) -> bool {
        match &mut self.between {
            Some(between) => between.pop() && self.arrive(),
            None if self.path.pop() => true,
            None => {
                self.between =
                    self.mount().and_then(|mount| mount.host_root().parent()).map(Path::to_path_buf);
                self.between.is_some() && self.arrive()
            }
        }
    }

    /// Descends by one name; false where that leads back into the mount that was left.
    fn enter(&mut self, name: &OsStr) -> bool {
        match &mut self.between {
            Some(between) => {
                between.push(name);
                self.arrive()
            }
            None => {
                self.path.push(name);
                true
            }
        }
    }

    /// Continues in the mount that the path has reached, if any. Returning into the mount that was left is refused: otherwise a caller could find out
    /// the mount's name on the host by trying names.
    fn arrive(&mut self) -> bool {
        let Some(between) = &self.between else { return true };
        let found = self.mounts.iter().enumerate();
        let found = found.filter_map(|(index, mount)| Some((index, mount.strip_root(between)?)));
        if let Some((mount, rest)) = found.min_by_key(|(_, rest)| rest.components().count()) {
            if mount == self.mount {
                return false;
            }
            (self.mount, self.path) = (mount, rest.to_path_buf());
            self.between = None;
        }
        true
    }

    /// Follows an absolute symlink: returns the rest of it below the same mount, or all of it from the root of the filesystem.
    fn jump(&mut self, target: &Path) -> PathBuf {
        self.path.clear();
        match self.mount().and_then(|mount| mount.strip_root(target)) {
            Some(rest) => rest.to_path_buf(),
            None => {
                self.between = Some(PathBuf::from("/"));
                self.arrive();
                target.to_path_buf()
            }
        }
    }

    /// The target of a symlink at this position; an error where there is none. A place in no mount is never read, and the root of a mount is not a
    /// symlink.
    fn read_link(&self) -> io::Result<PathBuf> {
        match (&self.between, self.mount()) {
            (None, Some(mount)) if !self.path.as_os_str().is_empty() => {
                mount.directory().read_link_contents(&self.path)
            }
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }
}

/// Resolves every symlink on the path, turning absolute ones that land inside a mount into relative paths.
fn follow_links(
    view: &WorkspaceView<'_>,
    requested: &RequestedPath<'_>,
) -> Result<FollowedPath, WorkspaceError> {
    let outside = || WorkspaceError::SymlinkOutside { path: requested.shown.to_string(), dangling: false };
    let mut pending: VecDeque<PathStep> =
        requested.names().map(|name| PathStep { name: name.to_owned(), by_link: false }).collect();
    let (mounts, mount) = (view.workspace.mounts(), requested.mount);
    let mut position = Position { mounts, mount, path: PathBuf::new(), between: None };
    let mut links = 0;
    let mut missing = None;
    while let Some(PathStep { name, by_link }) = pending.pop_front() {
        // Only names from a symlink may lead from one mount into another: the caller's own names behind a symlink out of its mount would probe the
        // host.
        if position.between.is_some() && !by_link {
            return Err(outside());
        }
        if name == OsStr::new("..") {
            if !position.climb() {
                return Err(outside());
            }
            continue;
        }
        if !position.enter(&name) {
            return Err(outside());
        }
        let target = match position.read_link() {
            Ok(target) => target,
            Err(error) => {
                if error.kind() == io::ErrorKind::NotFound {
                    missing.get_or_insert(by_link);
                }
                continue;
            }
        };
        links += 1;
        if links > MAX_SYMLINKS {
            return Err(WorkspaceError::SymlinkLoop { path: requested.shown.to_string() });
        }
        position.path.pop();
        let target = if target.is_absolute() { position.jump(&target) } else { target };
        for component in target.components().rev() {
            let name = match component {
                Component::Normal(name) => name.to_owned(),
                Component::ParentDir => OsString::from(".."),
                Component::CurDir | Component::RootDir | Component::Prefix(_) => continue,
            };
            pending.push_front(PathStep { name, by_link: true });
        }
    }
    match position.between {
        Some(_) => Err(outside()),
        None => Ok(FollowedPath {
            mount: position.mount,
            path: position.path,
            leads_nowhere: missing == Some(true),
        }),
    }
}

/// The opened file, its `stat` and its real location.
pub(crate) fn identify(mount: &Mount, file: File, shown: &str) -> Result<OpenedFile, WorkspaceError> {
    // The location is read before `fstat`: for an unlinked file the kernel reports a path that does not exist, and the later `st_nlink` reveals it.
    let located = real_location(file.as_fd());
    let stat =
        rustix::fs::fstat(&file).map_err(|error| WorkspaceError::io("looking at", shown, error.into()))?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    if !matches!(kind, FileType::RegularFile | FileType::Directory) {
        return Err(WorkspaceError::SpecialFile { path: shown.to_owned(), kind: kind_name(kind) });
    }
    let located = located.map_err(|error| WorkspaceError::io("locating", shown, error))?;
    if stat.st_nlink == 0 || is_deleted_suffix(&located, &stat) {
        return Err(WorkspaceError::NotFound { path: shown.to_owned() });
    }
    let location =
        below_root(mount, &located).ok_or_else(|| WorkspaceError::Outside { path: shown.to_owned() })?;
    Ok(OpenedFile { file, stat, location, led_to: None })
}

/// For a removed name the kernel reports `name (deleted)`, even if the file has other hard links. A file may really be called that.
fn is_deleted_suffix(located: &Path, stat: &Stat) -> bool {
    located.as_os_str().as_bytes().ends_with(b" (deleted)")
        && !rustix::fs::lstat(located).is_ok_and(|there| same_file(&there, stat))
}

/// The location below the mount, also when the mount's directory was renamed since it was opened.
fn below_root(mount: &Mount, located: &Path) -> Option<PathBuf> {
    strip_root(located, mount.host_root())
        .or_else(|| strip_root(located, &real_location(mount.as_fd()).ok()?))
        .map(Path::to_path_buf)
}

/// Both paths are the kernel's, without `.`, `..` or doubled slashes, so their bytes are compared.
fn strip_root<'p>(located: &'p Path, root: &Path) -> Option<&'p Path> {
    let root = root.as_os_str().as_bytes();
    let root = root.strip_suffix(b"/").unwrap_or(root);
    match located.as_os_str().as_bytes().strip_prefix(root)? {
        [] => Some(Path::new("")),
        [b'/', below @ ..] => Some(Path::new(OsStr::from_bytes(below))),
        _ => None,
    }
}

fn kind_name(kind: FileType) -> &'static str {
    match kind {
        FileType::Fifo => "named pipe",
        FileType::Socket => "socket",
        FileType::CharacterDevice | FileType::BlockDevice => "device",
        FileType::Symlink => "symbolic link",
        _ => "special file",
    }
}

#[cfg(test)]
#[allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests arrange files by hand and fail by panicking"
)]
mod tests {
    use toolgate_types::Deadline;

    use super::*;
    use crate::Workspace;
    use crate::testing::{mount, view, workspace};

    #[test]
    fn only_a_plain_file_far_from_other_mounts_is_not_asked_where_it_is() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        for folder in ["inner", "src"] {
            std::fs::create_dir(root.join(folder)).unwrap();
        }
        for file in ["src/a.rs", "SRC~1", "src/ß", ".env", "inner/x"] {
            std::fs::write(root.join(file), "x").unwrap();
        }
        std::os::unix::fs::symlink("src", root.join("link")).unwrap();
        std::os::unix::fs::symlink("a.rs", root.join("src/link.rs")).unwrap();
        let stop = Deadline::never();
        let is_quick = |workspace: &Workspace, path: &str| {
            let view = view(workspace, &stop);
            let requested = view.request(path).unwrap();
            open_without_links(&view, &requested).is_some()
        };
        let alone = workspace(root);
        for (path, quick) in [
            ("src/a.rs", true),
            ("src/../src/a.rs", true),
            ("inner/x", true),
            ("src", false),
            ("src/a.rs/", false),
            ("link/a.rs", false),
            ("src/link.rs", false),
            ("SRC~1", false),
            ("src/ß", false),
            (".env", false),
            ("missing", false),
            (".", false),
        ] {
            assert_eq!(is_quick(&alone, path), quick, "{path}");
        }
        let nested = vec![mount("@w", root).as_default(), mount("@i", &root.join("inner"))];
        let nested = Workspace::new(nested).unwrap();
        assert!(!is_quick(&nested, "src/a.rs") && !is_quick(&nested, "inner/x"));
        assert!(is_quick(&nested, "@i/x"));
    }

    #[test]
    fn a_file_that_is_not_asked_where_it_is_is_the_one_that_is_found_there() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        for folder in ["src/deep", "secrets"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        let files = ["a.txt", "src/a.rs", "src/deep/b.rs", ".env", "secrets/x", "x.pem", "src/.ssh~"];
        for file in files {
            std::fs::write(root.join(file), file).unwrap();
        }
        std::os::unix::fs::symlink("src", root.join("link")).unwrap();
        let stop = Deadline::never();
        let handle = File::open(root).unwrap();
        let rules = crate::MountRules::new().deny(&["secrets".to_owned()]).unwrap();
        let mount = Mount::new("@w", handle, root, crate::MountAccess::ReadWrite, rules).unwrap();
        let workspace = Workspace::new(vec![mount.as_default()]).unwrap();
        let (view, mut quick) = (view(&workspace, &stop), 0);
        for path in files.into_iter().chain(["src/../a.txt", "link/a.rs", "./src//a.rs", "missing", "src"]) {
            let requested = view.request(path).unwrap();
            let plainly =
                open_existing(&view, &requested).map(|opened| (opened.stat.st_ino, opened.location));
            if let Some(OpenedFile { stat, location, .. }) = open_without_links(&view, &requested) {
                assert_eq!(plainly.unwrap(), (stat.st_ino, location), "{path}");
                quick += 1;
            }
        }
        assert_eq!(quick, 5);
    }
}

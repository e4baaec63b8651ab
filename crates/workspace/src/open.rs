//! Opening what was named, beneath a mount's handle, and asking the rules about what was opened.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use cap_std::fs::{OpenOptions, OpenOptionsExt as _};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat};

use crate::error::WorkspaceError;
use crate::file_target::{same_file, too_many_conflicts};
use crate::location::real_location;
use crate::mount::Mount;
use crate::name_fold;
use crate::requested_path::RequestedPath;
use crate::rules::PathVerdict;
use crate::transaction::is_temporary;
use crate::view::WorkspaceView;

/// The kernel's own bound on links in one path.
const MAX_SYMLINKS: usize = 40;

/// Links from one mount into another that were all followed already; more of them means that somebody changes them meanwhile.
const MAX_CROSSINGS: usize = 4;

/// How often a name that keeps being given to other files is opened anew before giving up.
const MAX_ATTEMPTS: usize = 32;

/// Something that exists, is open, and passed the rules.
#[derive(Debug)]
pub(crate) struct OpenedFile {
    pub(crate) file: File,
    pub(crate) stat: Stat,
    /// The real location below the mount.
    pub(crate) location: PathBuf,
    /// The index of the mount, where a symlink led into another one than was named.
    led_to: Option<usize>,
}

impl OpenedFile {
    /// The index of the mount that it lies in; its rules and its access are the ones that count.
    pub(crate) fn mount(&self, requested: &RequestedPath<'_>) -> usize {
        self.led_to.unwrap_or(requested.mount)
    }

    pub(crate) fn is_directory(&self) -> bool {
        FileType::from_raw_mode(self.stat.st_mode) == FileType::Directory
    }

    pub(crate) fn size(&self) -> u64 {
        u64::try_from(self.stat.st_size).unwrap_or(0)
    }
}

/// Opens what exists at a requested path.
///
/// A symlink that leads into another mount is followed there, and what it leads to is judged as if it had been named there.
pub(crate) fn open_existing(
    view: &WorkspaceView<'_>,
    requested: &RequestedPath<'_>,
) -> Result<OpenedFile, WorkspaceError> {
    open_across(view, requested, MAX_CROSSINGS)
}

/// The same, through so many links from one mount into another.
fn open_across(
    view: &WorkspaceView<'_>,
    requested: &RequestedPath<'_>,
    crossings: usize,
) -> Result<OpenedFile, WorkspaceError> {
    let mount = view.mount(requested.mount)?;
    let named = requested.relative();
    // What is denied by name is not even opened: somebody could give it another name before it is asked where it is.
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
            // Replaced between opening and looking: the name is another file's by now, or nobody's.
            Err(WorkspaceError::NotFound { .. }) => continue,
            other => other?,
        };
        if is_being_replaced(&opened, requested) {
            continue;
        }
        // Only what was opened tells whether rules that mean files mean it. Where it lies as it was named, they are asked next.
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
    /// Whether the first name that is missing was named by a link.
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

/// Opens what exists at a requested path and is only to be read: without asking where it is, in the usual case.
///
/// That is a file with a plain name, no link on the way to it, no rule against it and no other mount near it. Where the kernel has followed no link, the
/// names that were asked for were its location while it was looked up, but for their case where a filesystem does not care about that. Denials do not care
/// about it either, and what a scope names in one case it means there in any. Everything else is left to whoever looks more closely, and knows what to
/// say about it.
pub(crate) fn open_to_read(
    view: &WorkspaceView<'_>,
    requested: &RequestedPath<'_>,
) -> Result<OpenedFile, WorkspaceError> {
    match open_without_links(view, requested) {
        Some(opened) => Ok(opened),
        None => open_existing(view, requested),
    }
}

fn open_without_links(view: &WorkspaceView<'_>, requested: &RequestedPath<'_>) -> Option<OpenedFile> {
    let (mount, named) = (view.mount(requested.mount).ok()?, requested.relative());
    let is_plain = name_fold::is_plain(named.as_os_str().as_bytes()) && !requested.is_root();
    if !is_plain || requested.wants_directory || !mount.nested().is_empty() {
        return None;
    }
    // Asked once and before it is opened, as about a file: what is denied as a folder is denied as a file too.
    let is_reachable = mount.rules().verdict(named, false, view.grant) == PathVerdict::Reachable
        && view.grant.is_none_or(|grant| grant.may_open(mount.alias(), named, false));
    is_reachable.then(|| open_file_by_names(mount, named)).flatten()
}

/// How long a file is that is there by this name and by no link; nothing, if it is none.
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

/// Asks about the name alone, as that of a folder or of anything else.
fn check_name(
    mount: &Mount,
    requested: &RequestedPath<'_>,
    named: &Path,
    is_directory: bool,
) -> Result<(), WorkspaceError> {
    match mount.rules().denying_rule(named, is_directory) {
        Some(rule) => Err(WorkspaceError::Denied { path: requested.shown.to_string(), rule }),
        None => Ok(()),
    }
}

/// Whether another gate has just put new content under the name, so that this is the old content under the name that it has for an instant.
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
        // Either something leads outside, or an absolute link leads back inside, or a link leads nowhere.
        Err(error) if is_escape(&error) || error.kind() == io::ErrorKind::NotFound => {
            reopen_through_links(view, requested)
        }
        Err(error) => Err(WorkspaceError::io("opening", &requested.shown, error)),
    }
}

/// Never blocks on a FIFO, never acquires a terminal, never leaves the mount.
fn open_path(mount: &Mount, relative: &Path) -> io::Result<File> {
    let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(i32::try_from(flags.bits()).unwrap_or(0));
    Ok(mount.directory().open_with(relative, &options)?.into_std())
}

/// cap-std reports a path that leads outside as a refusal without an error number.
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
    // The kernel checks the followed path like any other: whoever swapped a link meanwhile gains nothing.
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
    /// Whether the first name that is missing was named by a link, and not by the caller.
    leads_nowhere: bool,
}

/// A name on the way, and who named it.
struct PathStep {
    name: OsString,
    by_link: bool,
}

/// How far links were followed. Between two mounts nothing is looked at: names there count as they are written.
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

    /// Goes up by one directory; false where there is none.
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

    /// Goes down by one name; false where that leads back into the mount that was left.
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

    /// Goes on in the mount that the path has come to, if it has come to one. Back in the mount that was left, what the mount is called on the host
    /// would be found out by trying names.
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

    /// Follows an absolute link: what is left of it in the same mount, else all of it from the root of the filesystem.
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

    /// What a link at this place holds; an error where there is none. Nothing is asked about a place in no mount, and the root of a mount is no link.
    fn read_link(&self) -> io::Result<PathBuf> {
        match (&self.between, self.mount()) {
            (None, Some(mount)) if !self.path.as_os_str().is_empty() => {
                mount.directory().read_link_contents(&self.path)
            }
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }
}

/// Spells out every link on the way, turning absolute ones that land inside into relative paths.
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
        // Only what a link names leads from one mount into another: names of the caller behind a link that leads out of its mount try the host.
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

/// What was opened, and where it really is.
pub(crate) fn identify(mount: &Mount, file: File, shown: &str) -> Result<OpenedFile, WorkspaceError> {
    // Asked before whether it still has a name: the kernel tells a made-up place for what has none.
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

/// A name that is gone is told as `name (deleted)`, also where the file has other names. There may be a file that is really called that.
fn is_deleted_suffix(located: &Path, stat: &Stat) -> bool {
    located.as_os_str().as_bytes().ends_with(b" (deleted)")
        && !rustix::fs::lstat(located).is_ok_and(|there| same_file(&there, stat))
}

/// The location below the mount, also when the mount's own folder was renamed since it was opened.
fn below_root(mount: &Mount, located: &Path) -> Option<PathBuf> {
    if let Ok(rest) = located.strip_prefix(mount.host_root()) {
        return Some(rest.to_path_buf());
    }
    let root_now = real_location(mount.as_fd()).ok()?;
    located.strip_prefix(root_now).ok().map(Path::to_path_buf)
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
    use toolgate_types::Cancellation;

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
        let stop = Cancellation::never();
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
}

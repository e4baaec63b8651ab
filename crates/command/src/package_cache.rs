//! Package caches: what package managers download, kept for later commands.
//!
//! A cache belongs to one workspace and one caller: no command of another one can read it or write to it. It lies in the gate's state directory and is
//! never a cache of the person. Commands see it at a path that exists only inside the sandbox, so no link into it leads a program outside to what a
//! command left there. Only directories of downloads are kept, never the configuration of a package manager, which decides what later commands run.
//!
//! A cache that is larger than its limit is emptied before a command gets it. Its size is determined by a walk, at most once a minute. A tree that
//! cannot be measured, because it is too deep, too wide or unreadable, counts as too large.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use cap_std::fs::{Dir, DirBuilder, DirBuilderExt as _, MetadataExt as _, OpenOptions, OpenOptionsExt as _};
use serde_json::{Value, json};
use toolgate_confine::{empty_trash, move_to_trash};
use toolgate_gate::CallContext;
use toolgate_sandbox::{BindMount, HomeLink};
use toolgate_types::digest::Sha256Hasher;
use toolgate_types::{Caller, Sha256};
use toolgate_workspace::{Mount, Workspace};

/// Where commands see their cache. The directory above is the sandbox's own, and does not exist outside.
const INSIDE: &str = "/.toolgate/cache";

/// The package managers, each with the variables that name a directory of the cache.
const MANAGERS: [(&str, &[(&str, &str)]); 12] = [
    // Its home directory also has configuration and credentials, so only parts of it are links into the cache.
    ("cargo", &[]),
    ("npm", &[("npm_config_cache", "npm")]),
    ("yarn", &[("YARN_CACHE_FOLDER", "yarn")]),
    ("pip", &[("PIP_CACHE_DIR", "pip")]),
    ("uv", &[("UV_CACHE_DIR", "uv")]),
    ("go", &[("GOMODCACHE", "go/mod"), ("GOCACHE", "go/build")]),
    ("deno", &[("DENO_DIR", "deno")]),
    ("bun", &[("BUN_INSTALL_CACHE_DIR", "bun")]),
    ("nuget", &[("NUGET_PACKAGES", "nuget")]),
    ("composer", &[("COMPOSER_CACHE_DIR", "composer")]),
    // Its gems are downloaded archives; what is installed from them is the project's own.
    ("bundler", &[("BUNDLE_USER_CACHE", "bundle")]),
    // Its repository cannot be named by a variable of its own. No cache for Gradle, whose directory of downloads also has scripts that every build runs,
    // nor for pnpm, whose variable npm complains about.
    ("maven", &[]),
];

/// Variables that are no directories: uv hard-links from its cache by default, and warns where it cannot, since the cache is a mount of its own; bundler
/// keeps archives for all projects only if a variable says so; Maven, from 3.9 on, takes its repository as an argument.
const SETTINGS: [(&str, &str); 3] = [
    ("UV_LINK_MODE", "copy"),
    ("BUNDLE_GLOBAL_GEM_CACHE", "true"),
    ("MAVEN_ARGS", "-Dmaven.repo.local=/.toolgate/cache/maven"),
];

/// Parts of `~/.cargo` that are kept. Its lock file is shared as well, so that two commands at a time do not unpack one crate.
const CARGO_LINKS: [&str; 3] = ["registry", "git", ".package-cache"];

/// How often the size of a cache is determined.
const MEASURE_INTERVAL: Duration = Duration::from_secs(60);
/// A cache with more names is too large, whatever their size.
const MAX_NAMES: usize = 500_000;
/// The approximate cost of a name beside its content.
const NAME_BYTES: u64 = 4096;
/// How many caches are kept, those that were used last, and for how long after their last use.
const MAX_CACHES: usize = 32;
const MAX_UNUSED: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The entries of one cache: what commands see, the lock that a running command holds, the size when it was determined, and whose it is.
const CONTENT: &str = "content";
const LOCK: &str = "lock";
const SIZE: &str = "size";
const OWNER: &str = "owner.json";
/// What is to be removed; not the name of a cache.
const TRASH: &str = ".dropping";

/// The caches of all workspaces and callers, in one directory of the gate.
pub struct PackageCaches {
    open: Box<dyn Fn() -> io::Result<Dir> + Send + Sync>,
    directory: OnceLock<Dir>,
    max_bytes: u64,
}

/// The cache of one workspace and caller, while a command uses it.
pub(crate) struct CacheLease {
    content: Dir,
    lock: File,
}

/// One cache, for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheUsage {
    /// The name of its directory.
    pub name: String,
    /// The path of its workspace.
    pub workspace: String,
    /// Its caller: the subject, and the agent if there is one.
    pub caller: String,
    /// Its size; `None` if that cannot be determined.
    pub bytes: Option<u64>,
}

/// Whose a cache is.
struct CacheOwner {
    name: String,
    workspace: String,
    caller: String,
}

impl PackageCaches {
    /// The caches in a directory, which is opened by the first command that gets one.
    #[must_use]
    pub fn new(open: impl Fn() -> io::Result<Dir> + Send + Sync + 'static, max_bytes: u64) -> Self {
        Self { open: Box::new(open), directory: OnceLock::new(), max_bytes }
    }

    /// The package managers whose downloads are kept.
    pub fn managers() -> impl Iterator<Item = &'static str> {
        MANAGERS.iter().map(|(name, _)| *name)
    }

    /// Every cache in a directory.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn usage(directory: &Dir) -> io::Result<Vec<CacheUsage>> {
        let usage = |name: String| {
            let cache = directory.open_dir(&name).ok()?;
            let owner: Value = serde_json::from_str(&cache.read_to_string(OWNER).ok()?).ok()?;
            let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
            let bytes = measure(&cache, u64::MAX);
            Some(CacheUsage { workspace: text("workspace"), caller: text("caller"), bytes, name })
        };
        let mut found: Vec<CacheUsage> = names(directory)?.into_iter().filter_map(usage).collect();
        found.sort_by(|one, other| (&one.workspace, &one.caller).cmp(&(&other.workspace, &other.caller)));
        Ok(found)
    }

    /// The cache for a command of this call. `None` if there is no workspace to have one, if it is being emptied, or if it is too large and in use:
    /// a command runs without it as well.
    pub(crate) fn lend(&self, workspace: &Workspace, context: &CallContext) -> Option<CacheLease> {
        let owner = CacheOwner::of(workspace, &context.caller, context.by_token)?;
        self.try_lend(&owner).ok()
    }

    fn try_lend(&self, owner: &CacheOwner) -> io::Result<CacheLease> {
        let caches = self.directory()?;
        let cache = match caches.open_dir(&owner.name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => create(caches, owner)?,
            opened => opened?,
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).mode(0o600);
        let lock = cache.open_with(LOCK, &options)?.into_std();
        if is_due(&cache) {
            self.trim(caches, &cache, &lock)?;
        }
        lock.try_lock_shared()?;
        lock.set_modified(SystemTime::now())?;
        private_directory(&cache, Path::new(CONTENT))?;
        let lease = CacheLease { content: cache.open_dir(CONTENT)?, lock };
        for part in CARGO_LINKS.iter().filter(|part| !part.starts_with('.')) {
            // A command may have put something else there: then this package manager has no cache, for this caller only.
            let _ = lease.content.create_dir_all(Path::new("cargo").join(part));
        }
        Ok(lease)
    }

    fn directory(&self) -> io::Result<&Dir> {
        if let Some(directory) = self.directory.get() {
            return Ok(directory);
        }
        let directory = (self.open)()?;
        Ok(self.directory.get_or_init(|| directory))
    }

    /// Empties the cache if it is too large. Fails if it must be emptied and a command is using it.
    fn trim(&self, caches: &Dir, cache: &Dir, lock: &File) -> io::Result<()> {
        let is_idle = lock.try_lock().is_ok();
        let trimmed = match measure(cache, self.max_bytes) {
            Some(bytes) => cache.write(SIZE, bytes.to_string()),
            None if is_idle => discard(caches, cache, CONTENT).and_then(|()| cache.write(SIZE, "0")),
            None => Err(io::ErrorKind::ResourceBusy.into()),
        };
        if is_idle {
            lock.unlock()?;
        }
        trimmed
    }
}

impl CacheOwner {
    /// `None` without a workspace. A directory that takes another one's place has a cache of its own.
    fn of(workspace: &Workspace, caller: &Caller, by_token: bool) -> Option<Self> {
        let mount = workspace.mounts().iter().find(|mount| mount.is_default())?;
        let caller_name = match &caller.agent {
            Some(agent) => format!("{} as {agent}", caller.subject),
            None => caller.subject.clone(),
        };
        let digest = Self::digest(mount, caller, by_token).to_string();
        let name = digest.get(..32).unwrap_or(&digest).to_owned();
        Some(Self { name, workspace: mount.host_root().display().to_string(), caller: caller_name })
    }

    fn digest(mount: &Mount, caller: &Caller, by_token: bool) -> Sha256 {
        let identity = mount.identity();
        let mut hasher = Sha256Hasher::new();
        hasher.update_prefixed(mount.host_root().as_os_str().as_encoded_bytes());
        hasher.update_prefixed(&identity.inode.to_be_bytes());
        hasher.update_prefixed(&[u8::from(by_token)]);
        hasher.update_prefixed(caller.subject.as_bytes());
        match &caller.agent {
            Some(agent) => hasher.update_prefixed(agent.to_string().as_bytes()),
            None => hasher.update(&[0]),
        }
        hasher.finish()
    }
}

impl CacheLease {
    /// The mount that shows it to a command.
    pub(crate) fn mount(&self) -> BindMount<'_> {
        BindMount {
            directory: self.handle(),
            at: PathBuf::from(INSIDE),
            writable: true,
            overlays: Vec::new(),
        }
    }

    fn handle(&self) -> BorrowedFd<'_> {
        self.content.as_fd()
    }

    /// The variables that lead package managers to it.
    pub(crate) fn variables() -> impl Iterator<Item = (String, String)> {
        let named = MANAGERS.iter().flat_map(|(_, variables)| variables.iter());
        let named = named.map(|(name, place)| ((*name).to_owned(), format!("{INSIDE}/{place}")));
        named.chain(SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned())))
    }

    /// The links in the home directory that lead to it.
    pub(crate) fn links() -> Vec<HomeLink> {
        let link = |part: &&str| HomeLink {
            directory: PathBuf::from(".cargo"),
            name: (*part).into(),
            target: Path::new(INSIDE).join("cargo").join(part),
        };
        CARGO_LINKS.iter().map(link).collect()
    }
}

impl Drop for CacheLease {
    fn drop(&mut self) {
        // If this fails, closing the descriptor releases the lock.
        let _ = self.lock.unlock();
    }
}

/// Creates a cache, and removes those that were not used for long.
fn create(caches: &Dir, owner: &CacheOwner) -> io::Result<Dir> {
    sweep(caches)?;
    private_directory(caches, Path::new(&owner.name))?;
    let cache = caches.open_dir(&owner.name)?;
    let CacheOwner { workspace, caller, .. } = owner;
    cache.write(OWNER, format!("{}\n", json!({"workspace": workspace, "caller": caller})))?;
    cache.write(SIZE, "0")?;
    Ok(cache)
}

fn sweep(caches: &Dir) -> io::Result<()> {
    let used = |name: String| {
        let used = caches.metadata(Path::new(&name).join(LOCK)).ok()?.modified().ok()?.into_std();
        Some((used, name))
    };
    let mut known: Vec<(SystemTime, String)> = names(caches)?.into_iter().filter_map(used).collect();
    known.sort();
    known.reverse();
    let now = SystemTime::now();
    let is_old = |used: &SystemTime| now.duration_since(*used).is_ok_and(|unused| unused > MAX_UNUSED);
    for (_, name) in known
        .iter()
        .enumerate()
        .filter_map(|(place, cache)| (place + 1 >= MAX_CACHES || is_old(&cache.0)).then_some(cache))
    {
        let lock = caches.open(Path::new(name).join(LOCK))?.into_std();
        if lock.try_lock().is_ok() {
            let discarded = discard(caches, caches, name);
            lock.unlock()?;
            discarded?;
        }
    }
    Ok(())
}

/// Removes a directory. What is left in the trash of a sweep that was cut short, the next one removes.
fn discard(caches: &Dir, directory: &Dir, name: &str) -> io::Result<()> {
    private_directory(caches, Path::new(TRASH))?;
    let trash = caches.open_dir(TRASH)?;
    match move_to_trash(directory, name.as_ref(), &trash) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // Another process may be emptying it at the same time, so that a name is gone: it is empty in the end.
    let _ = empty_trash(&trash);
    Ok(())
}

/// The names of the caches.
fn names(caches: &Dir) -> io::Result<Vec<String>> {
    let names = caches.entries()?.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    Ok(names.filter(|name| name != TRASH).collect())
}

fn private_directory(parent: &Dir, name: &Path) -> io::Result<()> {
    match parent.create_dir_with(name, DirBuilder::new().mode(0o700)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Whether the size of a cache is to be determined again; also if the clock was set back.
fn is_due(cache: &Dir) -> bool {
    let measured = cache.metadata(SIZE).and_then(|size| size.modified());
    let age = measured.ok().and_then(|measured| measured.into_std().elapsed().ok());
    age.is_none_or(|age| age >= MEASURE_INTERVAL)
}

/// The size of what a cache holds; `None` if that is more than the limit or cannot be determined. Symlinks are not followed.
fn measure(cache: &Dir, max_bytes: u64) -> Option<u64> {
    let Ok(content) = cache.open_dir(CONTENT) else { return Some(0) };
    let (mut pending, mut seen, mut bytes) = (vec![PathBuf::new()], 0_usize, 0_u64);
    while let Some(path) = pending.pop() {
        // Opened by path, beneath the cache: a wide tree needs one descriptor, and one deeper than a path can name is too large.
        let directory = match path.as_os_str().is_empty() {
            true => content.try_clone().ok()?,
            false => content.open_dir(&path).ok()?,
        };
        for entry in directory.entries().ok()? {
            let entry = entry.ok()?;
            let Ok(metadata) = entry.metadata() else { continue };
            seen += 1;
            bytes = bytes.saturating_add(metadata.blocks().saturating_mul(512)).saturating_add(NAME_BYTES);
            if seen > MAX_NAMES || bytes > max_bytes {
                return None;
            }
            if metadata.is_dir() {
                pending.push(path.join(entry.file_name()));
            }
        }
    }
    Some(bytes)
}

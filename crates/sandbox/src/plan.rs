//! From a job to the steps of its launch.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use crate::error::SandboxError;
use crate::job::{Cover, Job, Mounted};
use crate::landlock::{Access, Dialect};
use crate::layer::{Layer, Layers};
use crate::step::{Slot, Step};
use crate::view::{DEVICE_LINKS, DEVICES, SystemView, c_path};

const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY;
const PLAIN: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
const DEVICE: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC;

/// Where the things lie that are put over others. They lose their names before the command starts.
const NOTHING_FILE: &str = ".nothing/file";
const NOTHING_FOLDER: &str = ".nothing/folder";

/// What is needed to plan.
pub(crate) struct Planning<'a> {
    pub(crate) layers: Layers,
    pub(crate) system: &'a SystemView,
    pub(crate) landlock: Option<Dialect>,
    /// Where temporary files go when there is no view of its own.
    pub(crate) temporary: &'a Path,
    /// Whether the network is made at birth instead of being joined.
    pub(crate) fresh_network: bool,
    /// Whether the number of processes is limited through `/proc`, because the user's own limit does not count.
    pub(crate) limit_through_proc: bool,
}

/// The steps, and how many trees they hold open.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    pub(crate) slots: usize,
}

/// Makes the plan of a job.
pub(crate) fn plan(job: &Job<'_>, planning: &Planning<'_>) -> Result<Plan, SandboxError> {
    let mut plan = Plan::default();
    let has_view = planning.layers.contains(Layer::MountNamespace);
    if has_view {
        plan.view(job, planning)?;
    } else if let Some(cover) =
        job.mounts.iter().flat_map(|mount| mount.covers.iter().filter(|cover| must_hold(mount, cover))).next()
    {
        return Err(SandboxError::CannotCover { path: cover.path().to_path_buf() });
    }
    if planning.layers.contains(Layer::UtsNamespace) {
        plan.steps.push(Step::HostName { name: CString::from(c"toolgate") });
    }
    if planning.fresh_network {
        plan.steps.push(Step::Loopback);
    }
    let directory = if has_view { job.directory.clone() } else { host_place(job, &job.directory)? };
    plan.steps.push(Step::WorkIn { path: c_text(&directory, "the folder")? });
    if let Some(dialect) = planning.landlock {
        plan.rules(job, planning, dialect)?;
    }
    Ok(plan)
}

/// Whether a cover matters without a view. A mount that cannot be written needs no protection from being written.
fn must_hold(mount: &Mounted<'_>, cover: &Cover) -> bool {
    mount.writable || matches!(cover, Cover::Hide { .. } | Cover::Replace { .. })
}

impl Plan {
    fn slot(&mut self) -> Slot {
        self.slots += 1;
        self.slots - 1
    }

    fn open(&mut self, from: &Path, identity: Option<(u64, u64)>) -> Result<Slot, SandboxError> {
        let slot = self.slot();
        self.steps.push(Step::OpenTree { from: c_text(from, "a path")?, slot, identity });
        Ok(slot)
    }

    /// Everything is opened before the new root covers it.
    fn view(&mut self, job: &Job<'_>, planning: &Planning<'_>) -> Result<(), SandboxError> {
        self.steps.push(Step::StopPropagation);
        let shown = planning.system.shown.iter().map(|shown| Ok((shown, self.open(&shown.path, None)?)));
        let shown: Vec<_> = shown.collect::<Result<_, SandboxError>>()?;
        let devices = DEVICES.iter().map(|name| Ok((*name, self.open(&Path::new("/dev").join(name), None)?)));
        let devices: Vec<_> = devices.collect::<Result<_, SandboxError>>()?;
        let own_proc = planning.layers.contains(Layer::PrivateProc);
        let proc = if own_proc { None } else { Some(self.open(Path::new("/proc"), None)?) };
        let mut mounts = Vec::new();
        for mount in &job.mounts {
            let (place, identity) = whereabouts(mount)?;
            mounts.push((mount, self.open(&place, Some(identity))?));
        }
        self.root(job);
        let mut made = Made::default();
        for (place, slot) in &shown {
            made.parents(&place.path, self)?;
            self.place_for(&place.path, place.is_directory)?;
            self.steps.push(Step::Attach {
                slot: *slot,
                path: inside(&place.path)?,
                attributes: PLAIN | READ_ONLY,
            });
            for (path, is_directory) in &place.hidden {
                let with = c_literal(if *is_directory { NOTHING_FOLDER } else { NOTHING_FILE })?;
                self.steps.push(Step::Cover {
                    slot: *slot,
                    path: c_text(path, "a path")?,
                    with,
                    attributes: PLAIN | READ_ONLY,
                    missing_is_fine: true,
                });
            }
        }
        for (path, target) in &planning.system.links {
            made.parents(path, self)?;
            self.steps.push(Step::Link { path: inside(path)?, target: c_text(target, "a path")? });
        }
        self.devices(&devices)?;
        for (mount, slot) in &mounts {
            made.parents(&mount.at, self)?;
            self.place_for(&mount.at, true)?;
            let attributes = if mount.writable { PLAIN } else { PLAIN | READ_ONLY };
            self.steps.push(Step::Attach { slot: *slot, path: inside(&mount.at)?, attributes });
        }
        for (mount, slot) in &mounts {
            self.covers(mount, *slot)?;
        }
        self.temporary()?;
        self.proc(job, planning, proc);
        self.forget_covers()?;
        self.steps.push(Step::Enter);
        self.steps.push(Step::SealRoot { attributes: PLAIN | READ_ONLY });
        Ok(())
    }

    fn root(&mut self, job: &Job<'_>) {
        let options = format!(
            "mode=0755,size={},nr_inodes={}",
            job.limits.temporary,
            job.limits.temporary / 4096 + 1024
        );
        let options = CString::new(options).unwrap_or_default();
        self.steps.push(Step::NewRoot { over: CString::from(c"/usr"), options });
        self.steps.push(Step::Directory { path: CString::from(c".nothing"), mode: 0o700 });
        self.steps.push(Step::Directory { path: CString::from(c".nothing/folder"), mode: 0o000 });
        self.steps.push(Step::File {
            path: CString::from(c".nothing/file"),
            content: Vec::new(),
            mode: 0o000,
        });
    }

    /// Something to mount on.
    fn place_for(&mut self, path: &Path, is_directory: bool) -> Result<(), SandboxError> {
        let path = inside(path)?;
        self.steps.push(match is_directory {
            true => Step::Directory { path, mode: 0o755 },
            false => Step::File { path, content: Vec::new(), mode: 0o644 },
        });
        Ok(())
    }

    fn devices(&mut self, devices: &[(&str, Slot)]) -> Result<(), SandboxError> {
        self.steps.push(Step::Directory { path: CString::from(c"dev"), mode: 0o755 });
        for (name, slot) in devices {
            let path = c_literal(&format!("dev/{name}"))?;
            self.steps.push(Step::File { path: path.clone(), content: Vec::new(), mode: 0o666 });
            self.steps.push(Step::Attach { slot: *slot, path, attributes: DEVICE });
        }
        for (name, target) in DEVICE_LINKS {
            let (path, target) = (c_literal(&format!("dev/{name}"))?, c_literal(target)?);
            self.steps.push(Step::Link { path, target });
        }
        Ok(())
    }

    fn covers(&mut self, mount: &Mounted<'_>, slot: Slot) -> Result<(), SandboxError> {
        for (number, cover) in mount.covers.iter().enumerate() {
            let path = c_text(cover.path(), "a path")?;
            let writable = if mount.writable { PLAIN } else { PLAIN | READ_ONLY };
            let over = |with: CString| Step::Cover {
                slot,
                path: path.clone(),
                with,
                attributes: PLAIN | READ_ONLY,
                missing_is_fine: false,
            };
            match cover {
                Cover::Hide { directory: true, .. } => self.steps.push(over(c_literal(NOTHING_FOLDER)?)),
                Cover::Hide { directory: false, .. } => self.steps.push(over(c_literal(NOTHING_FILE)?)),
                Cover::Freeze { .. } => {
                    self.steps.push(Step::CoverWithItself { slot, path, attributes: PLAIN | READ_ONLY });
                }
                Cover::Pin { .. } => {
                    self.steps.push(Step::CoverWithItself { slot, path, attributes: writable })
                }
                Cover::Replace { content, .. } => {
                    let shown = c_literal(&format!(".nothing/{slot}-{number}"))?;
                    self.steps.push(Step::File {
                        path: shown.clone(),
                        content: content.clone(),
                        mode: 0o444,
                    });
                    self.steps.push(over(shown.clone()));
                    self.steps.push(Step::Unlink { path: shown, directory: false });
                }
            }
        }
        Ok(())
    }

    /// The only places of the root that can be written.
    fn temporary(&mut self) -> Result<(), SandboxError> {
        for path in ["tmp", "dev/shm"] {
            let path = c_literal(path)?;
            self.steps.push(Step::Directory { path: path.clone(), mode: 0o1777 });
            self.steps.push(Step::Separate { path, attributes: PLAIN });
        }
        self.steps.push(Step::Directory { path: CString::from(c"tmp/home"), mode: 0o700 });
        Ok(())
    }

    /// A `/proc` of the command's own, or the host's where the machine makes none.
    fn proc(&mut self, job: &Job<'_>, planning: &Planning<'_>, host: Option<Slot>) {
        let path = CString::from(c"proc");
        self.steps.push(Step::Directory { path: path.clone(), mode: 0o555 });
        if let Some(slot) = host {
            self.steps.push(Step::Attach { slot, path, attributes: PLAIN | READ_ONLY });
            return;
        }
        let processes = planning.limit_through_proc.then(|| {
            // The kernel keeps the first three hundred numbers to itself.
            CString::new(job.limits.processes.saturating_add(300).to_string()).unwrap_or_default()
        });
        self.steps.push(Step::Proc { path, processes });
    }

    fn forget_covers(&mut self) -> Result<(), SandboxError> {
        let names = [(NOTHING_FILE, false), (NOTHING_FOLDER, true), (".nothing", true)];
        for (path, directory) in names {
            self.steps.push(Step::Unlink { path: c_literal(path)?, directory });
        }
        Ok(())
    }

    /// The same view once more, for Landlock.
    fn rules(
        &mut self,
        job: &Job<'_>,
        planning: &Planning<'_>,
        dialect: Dialect,
    ) -> Result<(), SandboxError> {
        let has_view = planning.layers.contains(Layer::MountNamespace);
        for shown in &planning.system.shown {
            self.allow(&shown.path, Access::Read, shown.is_directory, dialect)?;
        }
        for mount in &job.mounts {
            let access = if mount.writable { Access::Change } else { Access::Read };
            let place = if has_view { mount.at.clone() } else { whereabouts(mount)?.0 };
            self.allow(&place, access, true, dialect)?;
        }
        self.allow(Path::new("/proc"), Access::Read, true, dialect)?;
        if has_view {
            // Whatever is in the view may be named; it was put there.
            self.allow(Path::new("/"), Access::List, true, dialect)?;
            self.allow(Path::new("/dev"), Access::Device, true, dialect)?;
            self.allow(Path::new("/dev/shm"), Access::Change, true, dialect)?;
            self.allow(Path::new("/tmp"), Access::Change, true, dialect)?;
        } else {
            for name in DEVICES {
                self.allow(&Path::new("/dev").join(name), Access::Device, false, dialect)?;
            }
            self.allow(planning.temporary, Access::Change, true, dialect)?;
        }
        Ok(())
    }

    fn allow(
        &mut self,
        path: &Path,
        access: Access,
        is_directory: bool,
        dialect: Dialect,
    ) -> Result<(), SandboxError> {
        let access = dialect.bits(access, is_directory);
        self.steps.push(Step::Allow { path: c_text(path, "a path")?, access, missing_is_fine: true });
        Ok(())
    }
}

/// Folders of the new root that exist already.
#[derive(Default)]
struct Made(Vec<PathBuf>);

impl Made {
    /// Makes the folders above a place, each once.
    fn parents(&mut self, path: &Path, plan: &mut Plan) -> Result<(), SandboxError> {
        let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
        above.reverse();
        for folder in above.into_iter().filter(|folder| *folder != Path::new("/")) {
            if !self.0.iter().any(|made| made == folder) {
                self.0.push(folder.to_path_buf());
                plan.place_for(folder, true)?;
            }
        }
        self.0.push(path.to_path_buf());
        Ok(())
    }
}

/// Where a mount is on the host, and what it is there.
fn whereabouts(mount: &Mounted<'_>) -> Result<(PathBuf, (u64, u64)), SandboxError> {
    use std::os::fd::AsRawFd as _;
    let cannot = SandboxError::system;
    let link = format!("/proc/self/fd/{}", mount.directory.as_raw_fd());
    let place = rustix::fs::readlink(link, Vec::new()).map_err(cannot("a mount cannot be found"))?;
    let found = rustix::fs::fstat(mount.directory).map_err(cannot("a mount cannot be looked at"))?;
    let place = PathBuf::from(std::ffi::OsStr::from_bytes(place.to_bytes()));
    Ok((place, (found.st_dev, found.st_ino)))
}

/// Where a place of the view is on the host, for commands without a view.
pub(crate) fn host_place(job: &Job<'_>, path: &Path) -> Result<PathBuf, SandboxError> {
    for mount in &job.mounts {
        if let Ok(rest) = path.strip_prefix(&mount.at) {
            return Ok(whereabouts(mount)?.0.join(rest));
        }
    }
    Ok(path.to_path_buf())
}

/// A path of the view, relative to its root: only plain names.
fn inside(path: &Path) -> Result<CString, SandboxError> {
    let names = path.components().filter_map(|part| match part {
        Component::RootDir | Component::CurDir => None,
        other => Some(other),
    });
    let relative: PathBuf = names.collect();
    if relative.components().any(|part| !matches!(part, Component::Normal(_))) {
        return Err(SandboxError::NoDirectory { path: path.to_path_buf() });
    }
    c_text(&relative, "a path")
}

fn c_text(path: &Path, what: &'static str) -> Result<CString, SandboxError> {
    c_path(path).ok_or(SandboxError::Nul { what })
}

fn c_literal(text: &str) -> Result<CString, SandboxError> {
    CString::new(text).map_err(|_| SandboxError::Nul { what: "a path" })
}

//! Plans the steps that launch a job, and those that populate the root filesystem (the view) it runs in.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use toolgate_types::MountOverlay;

use crate::bare_binds::BareBinds;
use crate::error::SandboxError;
use crate::job::{BindMount, Job};
use crate::landlock::{LandlockAbi, LandlockAccess};
use crate::layer::{Layer, Layers};
use crate::setup_step::{SetupStep, Slot};
use crate::system_view::{
    DEVICE_LINKS, DEVICES, HIDDEN_IN_PROC, SECRET_IN_PROC, SystemView, VisiblePath, c_path, ctime,
    inode_identity,
};

const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY;
const NOSUID_NODEV: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
/// For a clone of something in the sealed root, which has [`NOSUID_NODEV`] and [`READ_ONLY`]: a cloned mount inherits the attributes of its source.
const INHERITED: u64 = 0;
const DEVICE: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC;

/// What masks other paths: an empty file and an empty directory with mode 0.
const EMPTY_FILE: &str = "/.toolgate/file";
const EMPTY_DIRECTORY: &str = "/.toolgate/folder";
/// Their directory.
const OWN_DIRECTORY: &str = "/.toolgate";

/// What planning depends on.
pub(crate) struct PlanContext<'a> {
    pub(crate) layers: Layers,
    pub(crate) system: &'a SystemView,
    pub(crate) landlock: Option<LandlockAbi>,
    /// The temporary directory, if there is no view.
    pub(crate) temporary: &'a Path,
    /// Whether the view was switched off on purpose, by a test.
    pub(crate) view_is_off: bool,
    /// Whether the gate is root, to which `RLIMIT_NPROC` does not apply and which may read more.
    pub(crate) is_root: bool,
}

/// The steps, and how many open trees they need.
#[derive(Default)]
pub(crate) struct LaunchPlan {
    pub(crate) steps: Vec<SetupStep>,
    pub(crate) slots: usize,
}

/// Plans a job.
pub(crate) fn plan(job: &Job<'_>, planning: &PlanContext<'_>) -> Result<LaunchPlan, SandboxError> {
    let mut plan = LaunchPlan::default();
    let has_view = planning.layers.contains(Layer::MountNamespace);
    if has_view {
        plan.adapt_to_job(job, planning)?;
    } else if let Some(path) = first_unenforced(job, planning) {
        return Err(SandboxError::CannotCover { path });
    }
    if planning.layers.contains(Layer::UtsNamespace) {
        plan.steps.push(SetupStep::HostName { name: CString::from(c"toolgate") });
    }
    let directory = if has_view { job.directory.clone() } else { host_place(job, &job.directory)? };
    plan.steps.push(SetupStep::WorkIn { path: c_text(&directory, "the folder")? });
    if let Some(dialect) = planning.landlock {
        plan.rules(job, planning, dialect)?;
    }
    Ok(plan)
}

/// A path that must be covered although there is no view to cover it in.
fn first_unenforced(job: &Job<'_>, planning: &PlanContext<'_>) -> Option<PathBuf> {
    let in_mounts =
        job.mounts.iter().flat_map(|mount| mount.overlays.iter().filter(|cover| must_enforce(mount, cover)));
    in_mounts
        .map(|cover| cover.path().to_path_buf())
        .next()
        .or_else(|| planning.system.secret().filter(|_| !planning.view_is_off))
}

/// Whether an overlay matters without a view. A read-only mount needs no write protection.
fn must_enforce(mount: &BindMount<'_>, cover: &MountOverlay) -> bool {
    mount.writable || matches!(cover, MountOverlay::Mask { .. } | MountOverlay::Substitute { .. })
}

impl LaunchPlan {
    fn slot(&mut self) -> Slot {
        self.slots += 1;
        self.slots - 1
    }

    fn open(&mut self, from: &Path, identity: Option<(u64, u64)>) -> Result<Slot, SandboxError> {
        let slot = self.slot();
        self.steps.push(SetupStep::OpenTree { from: c_text(from, "a path")?, slot, identity });
        Ok(slot)
    }

    /// Everything is opened before the new root covers it.
    fn view(
        &mut self,
        mounts: &[BindMount<'_>],
        planning: &PlanContext<'_>,
        bare: &BareBinds,
    ) -> Result<(), SandboxError> {
        self.steps.push(SetupStep::StopPropagation);
        let shown = planning.system.visible.iter().map(|shown| Ok((shown, self.open_shown(shown, bare)?)));
        let shown: Vec<_> = shown.collect::<Result<_, SandboxError>>()?;
        let devices = DEVICES.iter().map(|name| Ok((*name, self.open(&Path::new("/dev").join(name), None)?)));
        let devices: Vec<_> = devices.collect::<Result<_, SandboxError>>()?;
        let own_proc = planning.layers.contains(Layer::PrivateProc);
        let proc = if own_proc { None } else { Some(self.open(Path::new("/proc"), None)?) };
        let mounts = mounts.iter().map(|mount| {
            let (place, identity) = host_identity(mount)?;
            Ok((mount, self.open(&place, Some(identity))?))
        });
        let mounts: Vec<_> = mounts.collect::<Result<_, SandboxError>>()?;
        self.root();
        let mut made = CreatedDirectories(vec![PathBuf::from(OWN_DIRECTORY)]);
        for (place, slot) in &shown {
            made.parents(&place.path, self)?;
            self.show(place, *slot, bare)?;
        }
        for (path, target) in &planning.system.links {
            made.parents(path, self)?;
            self.steps.push(SetupStep::Link { path: inside(path)?, target: c_text(target, "a path")? });
        }
        self.devices(&devices)?;
        for (mount, slot) in &mounts {
            made.parents(&mount.at, self)?;
            self.place_for(&mount.at, true)?;
            let attributes = if mount.writable { NOSUID_NODEV } else { NOSUID_NODEV | READ_ONLY };
            self.steps.push(SetupStep::Attach { slot: *slot, path: inside(&mount.at)?, attributes });
        }
        self.steps.push(SetupStep::Directory { path: CString::from(c"tmp"), mode: 0o755 });
        self.steps.push(SetupStep::Directory { path: CString::from(c"proc"), mode: 0o555 });
        let path = CString::from(c"proc");
        self.steps.push(match proc {
            Some(slot) => SetupStep::Attach { slot, path, attributes: NOSUID_NODEV | READ_ONLY },
            // The `/proc` of the process that populates the view; it shows nothing once that has exited. Each command mounts its own over it, which
            // the kernel allows only if a `/proc` is already visible.
            None => SetupStep::Proc { path, processes: None },
        });
        self.steps.push(SetupStep::Enter);
        self.steps.push(SetupStep::SealRoot { attributes: NOSUID_NODEV | READ_ONLY });
        Ok(())
    }

    /// Opens a system path for showing: as the layer of an overlay, or as a tree to attach.
    fn open_shown(&mut self, shown: &VisiblePath, bare: &BareBinds) -> Result<Slot, SandboxError> {
        if !shown.is_directory || bare.contains(&shown.path) {
            return self.open(&shown.path, None);
        }
        self.open_place(c_text(&shown.path, "a path")?)
    }

    fn open_place(&mut self, path: CString) -> Result<Slot, SandboxError> {
        let slot = self.slot();
        self.steps.push(SetupStep::OpenPlace { path, slot });
        Ok(slot)
    }

    /// Shows a system path, without what is hidden in it and without any path to a process outside.
    fn show(&mut self, place: &VisiblePath, opened: Slot, bare: &BareBinds) -> Result<(), SandboxError> {
        self.place_for(&place.path, place.is_directory)?;
        let path = inside(&place.path)?;
        let slot = if !place.is_directory || bare.contains(&place.path) {
            self.steps.push(SetupStep::Attach { slot: opened, path, attributes: NOSUID_NODEV | READ_ONLY });
            opened
        } else {
            let from = place.path.clone();
            self.steps.push(SetupStep::Overlay { slot: opened, path: path.clone(), from });
            self.open_place(path)?
        };
        let masks = bare.masks(&place.path).iter().map(|path| (path, false));
        for (path, is_directory) in place.hidden.iter().map(|(path, kind)| (path, *kind)).chain(masks) {
            let with = c_literal(if is_directory { ".toolgate/folder" } else { ".toolgate/file" })?;
            self.steps.push(SetupStep::Cover {
                slot,
                path: c_text(path, "a path")?,
                with,
                attributes: NOSUID_NODEV | READ_ONLY,
                missing_is_fine: true,
            });
        }
        Ok(())
    }

    /// Adapts a copy of the view to one command.
    fn adapt_to_job(&mut self, job: &Job<'_>, planning: &PlanContext<'_>) -> Result<(), SandboxError> {
        self.temporary(job);
        self.home_links(job)?;
        for mount in job.mounts.iter().filter(|mount| !mount.overlays.is_empty()) {
            let slot = self.open_place(c_text(&mount.at, "a path")?)?;
            self.overlays(mount, slot)?;
        }
        if planning.layers.contains(Layer::PrivateProc) {
            let processes =
                (planning.is_root && planning.layers.contains(Layer::ResourceLimits)).then(|| {
                    // The kernel reserves the first 300 PIDs.
                    CString::new(job.limits.processes.saturating_add(300).to_string()).unwrap_or_default()
                });
            self.steps.push(SetupStep::Proc { path: CString::from(c"/proc"), processes });
        }
        self.hide_in_proc(planning.is_root)
    }

    /// Root without capabilities can still open files that root owns.
    fn hide_in_proc(&mut self, is_root: bool) -> Result<(), SandboxError> {
        let slot = self.open_place(CString::from(c"/proc"))?;
        let secret = SECRET_IN_PROC.iter().filter(|_| is_root);
        for name in HIDDEN_IN_PROC.iter().chain(secret) {
            self.steps.push(SetupStep::Cover {
                slot,
                path: c_literal(name)?,
                with: c_literal(EMPTY_FILE)?,
                attributes: INHERITED,
                missing_is_fine: true,
            });
        }
        Ok(())
    }

    fn root(&mut self) {
        // A handful of empty files and directories; no command can write to it.
        let options = CString::from(c"mode=0755,size=1m");
        self.steps.push(SetupStep::NewRoot { over: CString::from(c"/usr"), options });
        self.steps.push(SetupStep::Directory { path: CString::from(c".toolgate"), mode: 0o755 });
        self.steps.push(SetupStep::Directory { path: CString::from(c".toolgate/folder"), mode: 0o000 });
        self.steps.push(SetupStep::File {
            path: CString::from(c".toolgate/file"),
            content: Vec::new(),
            mode: 0o000,
        });
    }

    /// A mount point.
    fn place_for(&mut self, path: &Path, is_directory: bool) -> Result<(), SandboxError> {
        let path = inside(path)?;
        self.steps.push(match is_directory {
            true => SetupStep::Directory { path, mode: 0o755 },
            false => SetupStep::File { path, content: Vec::new(), mode: 0o644 },
        });
        Ok(())
    }

    fn devices(&mut self, devices: &[(&str, Slot)]) -> Result<(), SandboxError> {
        self.steps.push(SetupStep::Directory { path: CString::from(c"dev"), mode: 0o755 });
        for (name, slot) in devices {
            let path = c_literal(&format!("dev/{name}"))?;
            self.steps.push(SetupStep::File { path: path.clone(), content: Vec::new(), mode: 0o666 });
            self.steps.push(SetupStep::Attach { slot: *slot, path, attributes: DEVICE });
        }
        for (name, target) in DEVICE_LINKS {
            let (path, target) = (c_literal(&format!("dev/{name}"))?, c_literal(target)?);
            self.steps.push(SetupStep::Link { path, target });
        }
        Ok(())
    }

    fn overlays(&mut self, mount: &BindMount<'_>, slot: Slot) -> Result<(), SandboxError> {
        for (number, cover) in mount.overlays.iter().enumerate() {
            let path = c_text(cover.path(), "a path")?;
            let writable = if mount.writable { NOSUID_NODEV } else { NOSUID_NODEV | READ_ONLY };
            let over = |with: CString, attributes: u64| SetupStep::Cover {
                slot,
                path: path.clone(),
                with,
                attributes,
                missing_is_fine: false,
            };
            match cover {
                MountOverlay::Mask { directory: true, .. } => {
                    self.steps.push(over(c_literal(EMPTY_DIRECTORY)?, INHERITED));
                }
                MountOverlay::Mask { directory: false, .. } => {
                    self.steps.push(over(c_literal(EMPTY_FILE)?, INHERITED));
                }
                MountOverlay::ReadOnly { .. } => {
                    self.steps.push(SetupStep::CoverWithItself {
                        slot,
                        path,
                        attributes: NOSUID_NODEV | READ_ONLY,
                    });
                }
                MountOverlay::PinDirectory { .. } => {
                    self.steps.push(SetupStep::CoverWithItself { slot, path, attributes: writable })
                }
                MountOverlay::Substitute { content, .. } => {
                    let shown = c_literal(&format!("/tmp/.shown-{slot}-{number}"))?;
                    self.steps.push(SetupStep::File {
                        path: shown.clone(),
                        content: content.clone(),
                        mode: 0o444,
                    });
                    self.steps.push(over(shown.clone(), NOSUID_NODEV | READ_ONLY));
                    self.steps.push(SetupStep::Unlink { path: shown, directory: false });
                }
            }
        }
        Ok(())
    }

    /// The only writable paths besides the mounts.
    fn temporary(&mut self, job: &Job<'_>) {
        let options = format!(
            "mode=1777,size={},nr_inodes={}",
            job.limits.temporary,
            job.limits.temporary / 4096 + 1024
        );
        let options = CString::new(options).unwrap_or_default();
        self.steps.push(SetupStep::Temporary { path: CString::from(c"/tmp"), options });
        self.steps.push(SetupStep::Directory { path: CString::from(c"/tmp/.shm"), mode: 0o1777 });
        self.steps.push(SetupStep::Directory { path: CString::from(c"/tmp/home"), mode: 0o700 });
    }

    fn home_links(&mut self, job: &Job<'_>) -> Result<(), SandboxError> {
        let home = Path::new("/tmp/home");
        let mut made: Vec<&Path> = Vec::new();
        for link in &job.home_links {
            let directory = home.join(&link.directory);
            if !made.contains(&&*link.directory) {
                made.push(&link.directory);
                self.steps.push(SetupStep::Directory { path: c_text(&directory, "a path")?, mode: 0o700 });
            }
            let path = c_text(&directory.join(&link.name), "a path")?;
            self.steps.push(SetupStep::Link { path, target: c_text(&link.target, "a path")? });
        }
        Ok(())
    }

    /// The same view as Landlock rules.
    fn rules(
        &mut self,
        job: &Job<'_>,
        planning: &PlanContext<'_>,
        dialect: LandlockAbi,
    ) -> Result<(), SandboxError> {
        let has_view = planning.layers.contains(Layer::MountNamespace);
        for shown in &planning.system.visible {
            self.allow(&shown.path, LandlockAccess::Read, shown.is_directory, dialect)?;
        }
        for mount in &job.mounts {
            let access = if mount.writable { LandlockAccess::Write } else { LandlockAccess::Read };
            let place = if has_view { mount.at.clone() } else { host_identity(mount)?.0 };
            self.allow(&place, access, true, dialect)?;
        }
        self.allow(Path::new("/proc"), LandlockAccess::Read, true, dialect)?;
        if has_view {
            // Everything in the view may be listed: the sandbox put it there.
            self.allow(Path::new("/"), LandlockAccess::List, true, dialect)?;
            self.allow(Path::new("/dev"), LandlockAccess::Device, true, dialect)?;
            self.allow(Path::new("/tmp"), LandlockAccess::Write, true, dialect)?;
        } else {
            for name in DEVICES {
                self.allow(&Path::new("/dev").join(name), LandlockAccess::Device, false, dialect)?;
            }
            self.allow(planning.temporary, LandlockAccess::Write, true, dialect)?;
        }
        Ok(())
    }

    fn allow(
        &mut self,
        path: &Path,
        access: LandlockAccess,
        is_directory: bool,
        dialect: LandlockAbi,
    ) -> Result<(), SandboxError> {
        let access = dialect.access_bits(access, is_directory);
        self.steps.push(SetupStep::Allow { path: c_text(path, "a path")?, access, missing_is_fine: true });
        Ok(())
    }
}

/// What a view shows: views with equal keys are interchangeable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ViewKey(Vec<(PathBuf, PathBuf, (u64, u64), bool)>);

/// Plans the steps that populate a view for these mounts.
pub(crate) fn populate_rootfs(
    mounts: &[BindMount<'_>],
    planning: &PlanContext<'_>,
    bare: &BareBinds,
) -> Result<LaunchPlan, SandboxError> {
    let mut plan = LaunchPlan::default();
    plan.view(mounts, planning, bare)?;
    Ok(plan)
}

/// The key of the view that a job needs. The hidden files are part of it, because replacing a hidden file on the host uncovers it. So are the change
/// times of the program directories, because an overlay caches negative entries.
pub(crate) fn view_key(
    job: &Job<'_>,
    system: &SystemView,
    programs: &[PathBuf],
) -> Result<ViewKey, SandboxError> {
    let roots = system.visible.iter().map(|shown| &shown.path);
    let key = programs.iter().filter(|path| !system.is_linked(path)).chain(roots);
    let mut key: Vec<_> = key.map(|path| (path.clone(), PathBuf::new(), ctime(path), false)).collect();
    for place in &job.read {
        key.push((place.clone(), place.clone(), inode_identity(place), false));
    }
    for mount in &job.mounts {
        let (place, identity) = host_identity(mount)?;
        key.push((mount.at.clone(), place, identity, mount.writable));
    }
    for (secret, identity) in system.hidden_now() {
        key.push((secret, PathBuf::new(), identity, false));
    }
    Ok(ViewKey(key))
}

/// Directories of the new root that were already created.
struct CreatedDirectories(Vec<PathBuf>);

impl CreatedDirectories {
    /// Creates the parent directories of a path, each once.
    fn parents(&mut self, path: &Path, plan: &mut LaunchPlan) -> Result<(), SandboxError> {
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

/// The host path of a mount, with device and inode.
fn host_identity(mount: &BindMount<'_>) -> Result<(PathBuf, (u64, u64)), SandboxError> {
    use std::os::fd::AsRawFd as _;
    let cannot = SandboxError::system;
    let link = format!("/proc/self/fd/{}", mount.directory.as_raw_fd());
    let place = rustix::fs::readlink(link, Vec::new()).map_err(cannot("a mount cannot be found"))?;
    let found = rustix::fs::fstat(mount.directory).map_err(cannot("a mount cannot be looked at"))?;
    let place = PathBuf::from(std::ffi::OsStr::from_bytes(place.to_bytes()));
    Ok((place, (found.st_dev, found.st_ino)))
}

/// The host path of a path in the view, for commands without a view.
pub(crate) fn host_place(job: &Job<'_>, path: &Path) -> Result<PathBuf, SandboxError> {
    for mount in &job.mounts {
        if let Ok(rest) = path.strip_prefix(&mount.at) {
            return Ok(host_identity(mount)?.0.join(rest));
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

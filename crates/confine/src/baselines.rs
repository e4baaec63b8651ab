//! The baselines that commands run against, shared by all commands and servers in the same directories, also across gates.
//!
//! A command could build something under a harmless name while another one starts, and so get it into the other's baseline. So a baseline is taken
//! only while no command runs in its directory, in one that contains it or in one inside it; commands that start later run against the same one. And
//! it is written to disk before the first command starts: after a gate was killed, the next one can scan for what its commands left.
//!
//! Every gate has a record for each directory in one directory of the user ([`super::baseline_record`]). The registry, a `flock` on one file there,
//! is held while records are created and read, and never during a walk.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cap_std::fs::Dir;
use rustix::fs::{Mode, OFlags};
use toolgate_fs::FileLock;
use toolgate_types::{Deadline, ErrorCode, Failure, Ownership};
use toolgate_workspace::{Mount, MountAccess, PathGrant, Workspace, WorkspaceError};

use crate::baseline::Baseline;
use crate::baseline_record::{BaselineRecord, ForeignRecord, RECORD_SUFFIX, RunState, remove};
use crate::baseline_source::{BaselineSource, OrphanedRecord};
use crate::confined_run::{ConfinedRun, DirectoryUse, ScanCoverage};
use crate::lineage::Lineage;
use crate::{ConfineRequest, ConfinedMount, Quarantined, confine};

/// The file whose lock is the registry.
const REGISTRY_LOCK: &str = "registry.lock";

/// Polling interval of a command that waits for another one's walk.
const WAIT_INTERVAL: Duration = Duration::from_millis(1);

/// The baselines of this gate, and its access to those of others.
#[derive(Debug)]
pub struct Baselines {
    directory: Dir,
    registry: File,
    entries: Mutex<Vec<BaselineEntry>>,
    lineages: Mutex<HashMap<PathBuf, Arc<Lineage>>>,
    /// What was moved to quarantine, by device and inode, until no command runs any more.
    pub(super) quarantined: Mutex<HashMap<(u64, u64), Quarantined>>,
}

/// A directory that commands of this gate run in, or have run in.
#[derive(Debug)]
pub(super) struct BaselineEntry {
    lineage: Arc<Lineage>,
    record: BaselineRecord,
    before: Arc<Baseline>,
    /// Whether the record holds the baseline.
    is_written: bool,
    is_starting: bool,
    /// Commands that may have a process.
    alive: usize,
    /// Commands that have ended and whose changes are being scanned for.
    ending: usize,
    /// Whether changes were left that no scan has covered completely.
    unsettled: bool,
    /// How many commands were started.
    starts: u64,
}

impl Baselines {
    /// Opens the directory that all gates of this user share.
    ///
    /// # Errors
    /// It belongs to another user or is writable by others, or a system call fails.
    pub fn open(folder: Dir) -> io::Result<Self> {
        let stat = rustix::fs::fstat(&folder)?;
        let ownership = Ownership { owner: stat.st_uid, group: stat.st_gid, mode: stat.st_mode };
        if ownership.other_writer(rustix::process::geteuid().as_raw()).is_some() {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "it belongs to another user, or others may write to it",
            ));
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let registry = rustix::fs::openat(&folder, REGISTRY_LOCK, flags, Mode::RUSR | Mode::WUSR)?.into();
        let (entries, lineages, taken) = Default::default();
        Ok(Self { directory: folder, registry, entries, lineages, quarantined: taken })
    }

    /// Walks the requested mounts like [`confine`], and registers the writable ones until the run is settled.
    ///
    /// # Errors
    /// As [`confine`]; or a baseline cannot be written, or an orphaned one cannot be read.
    pub fn confine<'r>(
        &'r self,
        workspace: &'r Workspace,
        wanted: &[ConfineRequest<'_>],
        grant: Option<&dyn PathGrant>,
        stop: &Deadline,
    ) -> Result<ConfinedRun<'r>, WorkspaceError> {
        let lineages = wanted.iter().map(|wanted| self.wanted_lineage(workspace, wanted));
        let lineages: Vec<Option<Arc<Lineage>>> = lineages.collect::<Result<_, _>>()?;
        let uses = loop {
            match self.register(&lineages)? {
                Some(uses) => break uses,
                None => {
                    stop.check().map_err(WorkspaceError::Stopped)?;
                    std::thread::sleep(WAIT_INTERVAL);
                }
            }
        };
        // From here on, dropping `run` cancels the registration.
        let run = ConfinedRun::new(self, uses);
        run.begin(confine(workspace, wanted, grant, stop)?)
    }

    /// Whether a gate that no longer runs left unscanned changes in one of the writable mounts.
    ///
    /// # Errors
    /// Its record cannot be read.
    pub fn has_orphaned(&self, workspace: &Workspace) -> Result<bool, WorkspaceError> {
        let writable = workspace.mounts().iter().filter(|mount| mount.access() == MountAccess::ReadWrite);
        let lineages: Vec<_> = writable.map(|mount| self.lineage(mount)).collect::<Result<_, _>>()?;
        let entries = self.entries();
        let _registry = self.lock_registry()?;
        let others = self.others(&entries, &lineages)?;
        let is_left = |source: &BaselineSource| {
            source.orphaned.is_some() && lineages.iter().any(|lineage| source.concerns(lineage))
        };
        Ok(others.iter().any(|(_, source)| source.as_ref().is_some_and(is_left)))
    }

    fn wanted_lineage(
        &self,
        workspace: &Workspace,
        wanted: &ConfineRequest<'_>,
    ) -> Result<Option<Arc<Lineage>>, WorkspaceError> {
        let mount = workspace.mount(wanted.alias).filter(|_| wanted.writable);
        mount.map(|mount| self.lineage(mount)).transpose()
    }

    fn lineage(&self, mount: &Mount) -> Result<Arc<Lineage>, WorkspaceError> {
        let mut known = self.lineages.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lineage) = known.get(mount.host_root()) {
            return Ok(Arc::clone(lineage));
        }
        let lineage = Arc::new(Lineage::of(mount).map_err(|error| unusable(&error))?);
        known.insert(mount.host_root().to_path_buf(), Arc::clone(&lineage));
        Ok(lineage)
    }

    pub(super) fn entries(&self) -> MutexGuard<'_, Vec<BaselineEntry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_registry(&self) -> Result<FileLock<&File>, WorkspaceError> {
        FileLock::lock(&self.registry).map_err(|error| unusable(&error))
    }

    /// Registers a command in each directory; `None` while another one is walking one of them.
    fn register(
        &self,
        lineages: &[Option<Arc<Lineage>>],
    ) -> Result<Option<Vec<Option<DirectoryUse>>>, WorkspaceError> {
        let wanted: Vec<Arc<Lineage>> = lineages.iter().flatten().cloned().collect();
        if wanted.is_empty() {
            return Ok(Some(lineages.iter().map(|_| None).collect()));
        }
        let mut entries = self.entries();
        let _registry = self.lock_registry()?;
        let meets = |lineage: &Lineage| wanted.iter().any(|wanted| wanted.overlaps(lineage));
        if entries.iter().any(|entry| entry.is_starting && meets(&entry.lineage)) {
            return Ok(None);
        }
        let others = self.others(&entries, &wanted)?;
        if others.iter().any(|(state, _)| *state == RunState::Starting) {
            return Ok(None);
        }
        let others: Vec<BaselineSource> = others.into_iter().filter_map(|(_, source)| source).collect();
        let mut uses = Vec::new();
        for lineage in lineages {
            let used = lineage.as_ref().map(|lineage| self.join(&mut entries, lineage, &others));
            uses.push(used.transpose().map_err(|error| unusable(&error))?);
        }
        Ok(Some(uses))
    }

    fn join(
        &self,
        entries: &mut Vec<BaselineEntry>,
        lineage: &Arc<Lineage>,
        others: &[BaselineSource],
    ) -> io::Result<DirectoryUse> {
        let index =
            entries.iter().position(|entry| entry.lineage.path_to(lineage).is_some_and(is_same_directory));
        let index = match index {
            Some(index) => index,
            None => {
                entries.push(BaselineEntry::new(&self.directory, lineage)?);
                entries.len() - 1
            }
        };
        let is_new = entries.get(index).is_some_and(|entry| entry.state() == RunState::Idle);
        let is_other = |(at, entry): &(usize, &BaselineEntry)| *at != index && entry.state().is_open();
        let open = entries.iter().enumerate().filter(is_other).map(|(_, entry)| entry.source());
        let all = open.chain(others.iter().cloned());
        let sources: Vec<BaselineSource> = all.filter(|source| is_new && source.concerns(lineage)).collect();
        let is_inherited = sources.iter().any(|source| source.orphaned.is_some());
        let mut used = DirectoryUse::new(index, is_new, sources);
        if let Some(entry) = entries.get_mut(index) {
            used.is_inherited = is_inherited || entry.needs_scan();
            match is_new {
                true => {
                    entry.record.set(RunState::Starting)?;
                    entry.is_starting = true;
                }
                false => entry.alive += 1,
            }
        }
        Ok(used)
    }

    /// The records of other gates whose directories overlap one of these.
    fn others(
        &self,
        entries: &[BaselineEntry],
        wanted: &[Arc<Lineage>],
    ) -> Result<Vec<(RunState, Option<BaselineSource>)>, WorkspaceError> {
        let mut others = Vec::new();
        for name in self.names().map_err(|error| unusable(&error))? {
            if !name.as_bytes().ends_with(RECORD_SUFFIX.as_bytes())
                || entries.iter().any(|entry| entry.record.name == name)
            {
                continue;
            }
            let foreign = ForeignRecord::open(&self.directory, name).map_err(|error| unusable(&error))?;
            let Some(foreign) = foreign else { continue };
            let lineage = foreign.lineage().map_err(|_| unreadable(&foreign.name))?;
            if !wanted.iter().any(|wanted| wanted.overlaps(&lineage)) {
                continue;
            }
            let state = foreign.state;
            let source = match state.is_open() {
                false => None,
                true => {
                    let before = foreign.before().map_err(|_| unreadable(&foreign.name))?;
                    let ForeignRecord { name, orphaned: abandoned, .. } = foreign;
                    let abandoned = abandoned.map(|lock| Arc::new(OrphanedRecord { name, _lock: lock }));
                    Some(BaselineSource {
                        lineage: Arc::new(lineage),
                        before: Arc::new(before),
                        orphaned: abandoned,
                    })
                }
            };
            others.push((state, source));
        }
        Ok(others)
    }

    fn names(&self) -> io::Result<Vec<OsString>> {
        // `self.directory` is opened with `O_PATH`, which cannot be read.
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let entries = rustix::fs::Dir::new(rustix::fs::openat(&self.directory, c".", flags, Mode::empty())?)?;
        entries.map(|entry| Ok(OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned())).collect()
    }

    /// Determines the baseline of each mount, and writes it to the record.
    pub(super) fn begin(
        &self,
        uses: &mut [Option<DirectoryUse>],
        mounts: &mut [ConfinedMount<'_>],
    ) -> Result<(), WorkspaceError> {
        let mut entries = self.entries();
        for (mount, used) in mounts.iter_mut().zip(uses) {
            let Some(used) = used else { continue };
            let Some(entry) = entries.get_mut(used.index) else { continue };
            if used.is_new {
                entry.start(&used.sources, &mount.baseline).map_err(|error| unusable(&error))?;
                used.is_new = false;
                // The record of this gate contains everything that those do.
                used.sources.retain(|source| !source.is_inside(&entry.lineage, &self.directory));
            }
            entry.starts += 1;
            mount.baseline = Arc::clone(&entry.before);
        }
        Ok(())
    }

    /// Rewrites the orphaned records of surrounding directories so that this directory counts as scanned.
    pub(super) fn settle_orphans(&self, lineage: &Lineage, sources: Vec<BaselineSource>) {
        let Ok(_registry) = self.lock_registry() else { return };
        for source in sources {
            let Some(abandoned) = &source.orphaned else { continue };
            let Some(place) = source.lineage.path_to(lineage) else { continue };
            let mut before = Baseline::clone(&source.before);
            before.hidden.insert(place);
            let written = BaselineRecord::create(&self.directory, &source.lineage).and_then(|mut record| {
                record.write(&before)?;
                record.set(RunState::Ended)
            });
            if written.is_ok() {
                remove(&self.directory, &abandoned.name);
            }
        }
    }

    /// Whether another command may be changing this directory, in this gate or in another. False if unknown: then an
    /// incomplete scan counts as partial, and is not left to the other command.
    pub(super) fn has_concurrent_run(&self, index: usize) -> bool {
        let entries = self.entries();
        let Some(lineage) = entries.get(index).map(|entry| Arc::clone(&entry.lineage)) else { return false };
        if entries.iter().any(|entry| entry.alive > 0 && entry.lineage.overlaps(&lineage)) {
            return true;
        }
        let Ok(_registry) = self.lock_registry() else { return false };
        let others = self.others(&entries, &[lineage]).unwrap_or_default();
        others.iter().any(|(state, source)| {
            let is_abandoned = source.as_ref().is_some_and(|source| source.orphaned.is_some());
            *state == RunState::Running && !is_abandoned
        })
    }
}

pub(super) fn is_same_directory(place: PathBuf) -> bool {
    place.as_os_str().is_empty()
}

impl Drop for Baselines {
    fn drop(&mut self) {
        let entries = self.entries();
        let idle = entries.iter().filter(|entry| entry.state() == RunState::Idle);
        idle.for_each(|entry| entry.record.remove(&self.directory));
    }
}

impl BaselineEntry {
    fn new(folder: &Dir, lineage: &Arc<Lineage>) -> io::Result<Self> {
        Ok(Self {
            lineage: Arc::clone(lineage),
            record: BaselineRecord::create(folder, lineage)?,
            before: Arc::default(),
            is_written: false,
            is_starting: false,
            alive: 0,
            ending: 0,
            unsettled: false,
            starts: 0,
        })
    }

    fn state(&self) -> RunState {
        match self {
            Self { is_starting: true, .. } => RunState::Starting,
            Self { alive: 1.., .. } => RunState::Running,
            Self { ending: 0, unsettled: false, .. } => RunState::Idle,
            Self { .. } => RunState::Ended,
        }
    }

    pub(super) fn lineage(&self) -> &Arc<Lineage> {
        &self.lineage
    }

    /// Whether changes were left here that no running command will scan for.
    fn needs_scan(&self) -> bool {
        self.unsettled && self.alive == 0 && self.ending == 0
    }

    fn source(&self) -> BaselineSource {
        BaselineSource {
            lineage: Arc::clone(&self.lineage),
            before: Arc::clone(&self.before),
            orphaned: None,
        }
    }

    /// Writes the baseline, unless the record already holds it, and sets the state to `Running`.
    fn start(&mut self, sources: &[BaselineSource], fresh: &Baseline) -> io::Result<()> {
        let inherited = sources.iter().filter_map(|source| source.for_mount(&self.lineage));
        let before = inherited.fold(None, |before: Option<Baseline>, (older, at)| {
            Some(before.unwrap_or_else(|| fresh.clone()).inherit(&older, &at))
        });
        let before = before.as_ref().unwrap_or(fresh);
        if !self.is_written || *self.before != *before {
            self.is_written = false;
            self.record.write(before)?;
            self.before = Arc::new(before.clone());
            self.is_written = true;
        }
        self.record.set(RunState::Running)?;
        (self.is_starting, self.alive) = (false, 1);
        self.unsettled = sources.iter().any(|source| source.orphaned.is_some());
        Ok(())
    }

    /// The command has no process any more.
    pub(super) fn end(&mut self) -> IdleSnapshot {
        self.alive = self.alive.saturating_sub(1);
        self.ending += 1;
        self.write_state();
        IdleSnapshot((self.alive == 0).then_some(self.starts))
    }

    /// The scan after the command has ended. If it was complete and no command ran during it, nothing is left.
    pub(super) fn settle(&mut self, looked: ScanCoverage, quiet: &IdleSnapshot) {
        self.ending = self.ending.saturating_sub(1);
        match looked {
            ScanCoverage::Partial => self.unsettled = true,
            ScanCoverage::Complete if quiet.0 == Some(self.starts) => self.unsettled = false,
            ScanCoverage::Complete | ScanCoverage::Deferred => {}
        }
        self.write_state();
    }

    /// Cancels a registration under which nothing was started.
    pub(super) fn cancel(&mut self, is_new: bool) {
        match is_new {
            true => self.is_starting = false,
            false => self.alive = self.alive.saturating_sub(1),
        }
        self.write_state();
    }

    pub(super) fn is_idle(&self) -> bool {
        self.state() == RunState::Idle
    }

    /// If the write fails, the record stays at `Running`, and the next gate makes an unnecessary scan.
    fn write_state(&mut self) {
        let state = self.state();
        let _ = self.record.set(state);
    }
}

/// Set if no command ran when a scan began: how many had been started by then.
#[derive(Debug)]
pub(super) struct IdleSnapshot(Option<u64>);

fn unusable(error: &io::Error) -> WorkspaceError {
    let failure =
        Failure::new(ErrorCode::SandboxUnavailable, "what commands leave could not be looked after")
            .help("ask the operator")
            .operator_note(format!("the baselines of commands cannot be kept: {error}"));
    WorkspaceError::other(failure)
}

fn unreadable(name: &OsString) -> WorkspaceError {
    let name = Path::new(name).display();
    let failure = Failure::new(ErrorCode::SandboxUnavailable, "what earlier commands left could not be looked at")
        .help("ask the operator")
        .operator_note(format!(
            "`baselines.toolgate/{name}` cannot be read, so what an earlier gate's commands left cannot be told; end other gates, look at what is \
             new in the workspace under names like `.git/hooks`, `.git/config` and `.envrc`, then remove that file"
        ));
    WorkspaceError::other(failure)
}

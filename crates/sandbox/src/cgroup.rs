//! Cgroups (version 2): limits on a command as a whole, if the machine delegates a cgroup.
//!
//! A sandbox creates one cgroup for itself below the gate's, and one in it for every command. Both are removed when no longer needed; the next gate
//! removes those of a killed one. A gate that reloads its configuration has two sandboxes for a while, so each has a unique name.

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::{Errno, Result};

use crate::limits::ResourceLimits;

/// Where version 2 is mounted: alone, or beside version 1.
const CGROUP2_MOUNTS: &[&str] = &["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
/// `f_type` of version 2 in `statfs`.
const CGROUP2_SUPER_MAGIC: u64 = 0x6367_7270;
/// The prefix of all gates' cgroups.
const PREFIX: &str = "toolgate-";
const CONTROLLERS: &[u8] = b"+memory +pids";

/// How many sandboxes this process has created.
static SANDBOX_COUNTER: AtomicU64 = AtomicU64::new(0);

/// The cgroup of one sandbox.
pub(crate) struct Cgroups {
    above: OwnedFd,
    name: String,
    own: OwnedFd,
    next: AtomicU64,
}

impl Cgroups {
    /// Creates the sandbox's cgroup; the error says why it cannot.
    pub(crate) fn find() -> std::result::Result<Self, String> {
        let above = own_group().ok_or("this machine has no control groups of version 2")?;
        let above = open(&above).map_err(|error| format!("the control group cannot be opened: {error}"))?;
        offer_controllers(&above).map_err(|error| {
            format!("{error}; start the gate in a group that was delegated to it, as with `systemd-run --user --scope -p Delegate=yes`")
        })?;
        remove_stale(&above);
        let number = SANDBOX_COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}.{number}", rustix::process::getpid().as_raw_nonzero());
        let made = make(&above, &name).and_then(|own| {
            write_at(&own, "cgroup.subtree_control", CONTROLLERS)?;
            Ok(own)
        });
        let own = made.map_err(|error| format!("no control group can be made: {error}"))?;
        Ok(Self { above, name, own, next: AtomicU64::new(0) })
    }

    /// Creates the cgroup of one command.
    pub(crate) fn make(&self, limits: &ResourceLimits) -> Result<CommandCgroup<'_>> {
        let name = self.next.fetch_add(1, Ordering::Relaxed).to_string();
        let folder = make(&self.own, &name)?;
        let group = CommandCgroup {
            above: &self.own,
            name,
            procs: open_at(&folder, "cgroup.procs", OFlags::WRONLY)?,
            directory: folder,
        };
        write_at(&group.directory, "memory.max", limits.memory.to_string().as_bytes())?;
        write_at(&group.directory, "pids.max", limits.processes.saturating_add(1).to_string().as_bytes())?;
        // Kernels without these files, or machines without swap, lose nothing.
        let _ = write_at(&group.directory, "memory.swap.max", b"0");
        let _ = write_at(&group.directory, "memory.oom.group", b"1");
        Ok(group)
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        let _ = rustix::fs::unlinkat(&self.above, &*self.name, AtFlags::REMOVEDIR);
    }
}

/// The cgroup of one command.
pub(crate) struct CommandCgroup<'a> {
    above: &'a OwnedFd,
    name: String,
    directory: OwnedFd,
    procs: OwnedFd,
}

impl CommandCgroup<'_> {
    /// A process that writes `0` here joins the cgroup (`cgroup.procs`).
    pub(crate) fn procs(&self) -> RawFd {
        self.procs.as_raw_fd()
    }

    /// Whether the OOM killer killed a process in it.
    pub(crate) fn was_oom_killed(&self) -> bool {
        let mut buffer = [0_u8; 1024];
        let read = open_at(&self.directory, "memory.events", OFlags::RDONLY)
            .and_then(|file| rustix::io::read(&file, &mut buffer));
        let text = String::from_utf8_lossy(buffer.get(..read.unwrap_or(0)).unwrap_or_default()).into_owned();
        text.lines().any(|line| line.strip_prefix("oom_kill ").is_some_and(|count| count != "0"))
    }
}

impl Drop for CommandCgroup<'_> {
    fn drop(&mut self) {
        let _ = write_at(&self.directory, "cgroup.kill", b"1");
        let _ = rustix::fs::unlinkat(self.above, &*self.name, AtFlags::REMOVEDIR);
    }
}

/// The directory of this process's own cgroup.
fn own_group() -> Option<PathBuf> {
    let file = rustix::fs::open("/proc/self/cgroup", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut buffer = [0_u8; 4096];
    let length = rustix::io::read(&file, &mut buffer).ok()?;
    let text = std::str::from_utf8(buffer.get(..length)?).ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let is_version_2 = |place: &&&str| {
        rustix::fs::statfs(**place)
            .is_ok_and(|found| u64::try_from(found.f_type).is_ok_and(|kind| kind == CGROUP2_SUPER_MAGIC))
    };
    CGROUP2_MOUNTS.iter().find(is_version_2).map(|place| PathBuf::from(*place).join(path))
}

/// Enables the memory and pids controllers for child cgroups.
fn offer_controllers(above: &OwnedFd) -> Result<()> {
    let mut buffer = [0_u8; 512];
    let file = open_at(above, "cgroup.subtree_control", OFlags::RDONLY)?;
    let length = rustix::io::read(&file, &mut buffer)?;
    let offered = String::from_utf8_lossy(buffer.get(..length).unwrap_or_default()).into_owned();
    let has = |name: &str| offered.split_whitespace().any(|word| word == name);
    if has("memory") && has("pids") { Ok(()) } else { write_at(above, "cgroup.subtree_control", CONTROLLERS) }
}

/// Removes the cgroups of gates that were killed: the name contains the gate's PID, and only those whose process is gone (`ESRCH`) are removed.
fn remove_stale(above: &OwnedFd) {
    let Ok(folder) = rustix::fs::Dir::read_from(above) else { return };
    let left_behind = |entry: &rustix::fs::DirEntry| {
        let name = entry.file_name().to_str().ok().and_then(|name| name.strip_prefix(PREFIX));
        let gate = name.and_then(|name| name.split('.').next());
        let gate = gate.and_then(|number| number.parse().ok()).and_then(rustix::process::Pid::from_raw);
        gate.is_some_and(|gate| rustix::process::test_kill_process(gate) == Err(Errno::SRCH))
    };
    for entry in folder.flatten().filter(left_behind) {
        if let Ok(left) =
            rustix::fs::openat(above, entry.file_name(), OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            && let Ok(commands) = rustix::fs::Dir::read_from(&left)
        {
            for command in commands.flatten() {
                let _ = rustix::fs::unlinkat(&left, command.file_name(), AtFlags::REMOVEDIR);
            }
        }
        let _ = rustix::fs::unlinkat(above, entry.file_name(), AtFlags::REMOVEDIR);
    }
}

fn make(above: &OwnedFd, name: &str) -> Result<OwnedFd> {
    match rustix::fs::mkdirat(above, name, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error),
    }
    open_at(above, name, OFlags::DIRECTORY)
}

fn open(path: &std::path::Path) -> Result<OwnedFd> {
    rustix::fs::open(path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

fn open_at(folder: impl AsFd, name: &str, flags: OFlags) -> Result<OwnedFd> {
    rustix::fs::openat(folder, name, flags | OFlags::CLOEXEC, Mode::empty())
}

fn write_at(folder: &OwnedFd, name: &str, content: &[u8]) -> Result<()> {
    let file = open_at(folder, name, OFlags::WRONLY)?;
    rustix::io::write(&file, content).map(drop)
}

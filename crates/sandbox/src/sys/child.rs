//! What a new process does between `clone` and `execve`.
//!
//! It shares the gate's memory: nothing in here allocates, locks, panics or returns. Results are stored in atomics.

use std::ffi::CStr;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, StatVfsMountFlags};
use rustix::io::{Errno, Result};
use rustix::mount::{MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags};
use rustix::process::{Resource, Rlimit, Signal};
use rustix::thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets};

use super::calls;
use super::launch::{self, HelperProcess};
use crate::layer::{Layer, Layers};
use crate::setup_step::SetupStep;

/// Everything a process needs to become the command.
pub(crate) struct ChildLaunch<'a> {
    pub(crate) layers: Layers,
    /// The namespaces to join, the user namespace first: the privileges over the others come from it.
    pub(crate) namespaces: &'a [RawFd],
    /// `cgroup.procs` of the command's cgroup.
    pub(crate) cgroup: Option<RawFd>,
    /// `clone` flags of further namespaces to create.
    pub(crate) flags: i32,
    pub(crate) steps: &'a [SetupStep],
    pub(crate) fds: ChildFds<'a>,
    pub(crate) limits: &'a [(Resource, Rlimit)],
    pub(crate) filter: Option<&'a [libc::sock_filter]>,
    /// Standard input, output and error, and the report pipe.
    pub(crate) streams: [RawFd; 4],
    pub(crate) program: RawFd,
    pub(crate) arguments: &'a CStringArray<'a>,
    pub(crate) environment: &'a CStringArray<'a>,
    /// Pidfd of the gate: readable once it has exited.
    pub(crate) gate: RawFd,
    pub(crate) progress: &'a LaunchProgress,
}

/// The descriptors that steps use.
#[derive(Clone, Copy)]
pub(crate) struct ChildFds<'a> {
    /// Trees and directories opened by steps.
    pub(crate) slots: &'a [AtomicI32],
    /// The Landlock ruleset being built.
    pub(crate) rules: Option<RawFd>,
}

/// A null-terminated array of C strings.
pub(crate) struct CStringArray<'a> {
    list: Vec<*const libc::c_char>,
    _strings: std::marker::PhantomData<&'a CStr>,
}

impl<'a> CStringArray<'a> {
    pub(crate) fn to(strings: impl IntoIterator<Item = &'a CStr>) -> Self {
        let pointers = strings.into_iter().map(CStr::as_ptr);
        Self { list: pointers.chain([std::ptr::null()]).collect(), _strings: std::marker::PhantomData }
    }
}

// The pointers are to strings that are borrowed while this value lives, and are only read.
#[expect(unsafe_code, reason = "pointers to shared, immutable strings may be read from any thread")]
// SAFETY: as above.
unsafe impl Sync for CStringArray<'_> {}

/// The progress of a launch.
#[derive(Default)]
pub(crate) struct LaunchProgress {
    /// PID of the process that becomes the command.
    pub(crate) process: AtomicI32,
    /// The phase that failed, and why; zero is none.
    pub(crate) phase: AtomicI32,
    pub(crate) step: AtomicI32,
    pub(crate) error: AtomicI32,
}

/// The phases of a launch, for error messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum LaunchPhase {
    Join = 1,
    Birth,
    Step,
    Limits,
    Descriptors,
    Capabilities,
    NoNewPrivileges,
    Landlock,
    Filter,
    Session,
    Program,
}

impl LaunchPhase {
    pub(crate) const ALL: [Self; 11] = [
        Self::Join,
        Self::Birth,
        Self::Step,
        Self::Limits,
        Self::Descriptors,
        Self::Capabilities,
        Self::NoNewPrivileges,
        Self::Landlock,
        Self::Filter,
        Self::Session,
        Self::Program,
    ];
}

impl LaunchProgress {
    /// Stores what failed, and exits.
    pub(crate) fn failed(&self, part: LaunchPhase, step: usize, error: Errno) -> ! {
        self.step.store(i32::try_from(step).unwrap_or(i32::MAX), Ordering::Relaxed);
        self.error.store(error.raw_os_error(), Ordering::Relaxed);
        self.phase.store(part as i32, Ordering::Release);
        calls::exit_now(1)
    }
}

/// The first of two processes: joins namespaces, which only a single-threaded process can, and clones the second in them.
pub(crate) struct JoinNamespaces<'a>(pub(crate) &'a ChildLaunch<'a>);

impl HelperProcess for JoinNamespaces<'_> {
    fn run(&self) {
        let Self(launch) = self;
        if let Err(error) = join(launch) {
            launch.progress.failed(LaunchPhase::Join, 0, error);
        }
        // `CLONE_PARENT`: the second is also the gate's child, so that the gate can wait for it and its death signal fires when the gate exits.
        match launch::clone_vfork(&ExecCommand(launch), launch.flags | libc::CLONE_PARENT) {
            Ok(process) => launch.progress.process.store(process.as_raw_nonzero().get(), Ordering::Release),
            Err(error) => launch.progress.failed(LaunchPhase::Birth, 0, error),
        }
    }
}

fn join(launch: &ChildLaunch<'_>) -> Result<()> {
    // Supplementary groups grant access that no namespace takes away. A gate without `CAP_SETGID` gets `EPERM` and keeps its user's own groups.
    match calls::drop_groups() {
        Ok(()) | Err(Errno::PERM) => {}
        Err(error) => return Err(error),
    }
    if let Some(entrance) = launch.cgroup {
        rustix::io::write(calls::borrow(entrance), b"0")?;
    }
    join_namespaces(launch.namespaces)
}

/// Joins namespaces one after the other (`setns`).
pub(crate) fn join_namespaces(namespaces: &[RawFd]) -> Result<()> {
    for namespace in namespaces {
        rustix::thread::move_into_link_name_space(calls::borrow(*namespace), None)?;
    }
    Ok(())
}

/// The second process: executes every step and becomes the command.
struct ExecCommand<'a>(&'a ChildLaunch<'a>);

impl HelperProcess for ExecCommand<'_> {
    fn run(&self) {
        let Self(launch) = self;
        let or_fail = |part: LaunchPhase, result: Result<()>| {
            if let Err(error) = result {
                launch.progress.failed(part, 0, error);
            }
        };
        or_fail(LaunchPhase::Session, die_with_parent(launch));
        rustix::process::umask(Mode::empty());
        for (index, step) in launch.steps.iter().enumerate() {
            if let Err(error) = apply_step(step, launch.fds) {
                launch.progress.failed(LaunchPhase::Step, index, error);
            }
        }
        rustix::process::umask(Mode::WGRP | Mode::WOTH);
        or_fail(LaunchPhase::Limits, limit(launch));
        or_fail(LaunchPhase::Descriptors, arrange_descriptors(launch));
        if launch.layers.contains(Layer::NoNewPrivileges) {
            or_fail(LaunchPhase::NoNewPrivileges, rustix::thread::set_no_new_privs(true));
        }
        if launch.fds.rules.is_some() {
            or_fail(LaunchPhase::Landlock, calls::landlock_restrict_self(RULES));
        }
        calls::default_signals();
        if let Some(filter) = launch.filter {
            or_fail(LaunchPhase::Filter, calls::install_filter(filter));
        }
        or_fail(LaunchPhase::Capabilities, drop_capabilities(launch));
        let error = calls::execveat(PROGRAM, &launch.arguments.list, &launch.environment.list);
        launch.progress.failed(LaunchPhase::Program, 0, error)
    }
}

/// Descriptor numbers while the last layers are applied.
const REPORT: RawFd = 3;
const PROGRAM: RawFd = 4;
const RULES: RawFd = 5;

/// Dies with the gate (`PR_SET_PDEATHSIG`), and has no terminal.
fn die_with_parent(launch: &ChildLaunch<'_>) -> Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // The gate may have exited before the death signal was set.
    let gate = calls::borrow(launch.gate);
    let mut poll = [rustix::event::PollFd::new(&gate, rustix::event::PollFlags::IN)];
    if rustix::event::poll(&mut poll, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 }))? > 0 {
        return Err(Errno::SRCH);
    }
    if launch.layers.contains(Layer::Session) {
        rustix::process::setsid()?;
    }
    Ok(())
}

fn limit(launch: &ChildLaunch<'_>) -> Result<()> {
    for (resource, limit) in launch.limits {
        let limit = clamp_rlimit(*resource, *limit);
        rustix::process::setrlimit(*resource, limit)?;
    }
    Ok(())
}

/// A hard limit on the gate itself cannot be raised.
fn clamp_rlimit(resource: Resource, wanted: Rlimit) -> Rlimit {
    let most = rustix::process::getrlimit(resource).maximum;
    let lower = |value: Option<u64>| match (value, most) {
        (Some(value), Some(most)) => Some(value.min(most)),
        (value, most) => value.or(most),
    };
    Rlimit { current: lower(wanted.current), maximum: lower(wanted.maximum) }
}

/// The standard streams and the report pipe stay; the program and the ruleset close on `execve`; everything else is closed now.
fn arrange_descriptors(launch: &ChildLaunch<'_>) -> Result<()> {
    for (from, to) in launch.streams.iter().zip([0, 1, 2, REPORT]) {
        calls::duplicate(*from, to, false)?;
    }
    calls::duplicate(launch.program, PROGRAM, true)?;
    let first_to_go = match launch.fds.rules {
        Some(rules) => {
            calls::duplicate(rules, RULES, true)?;
            RULES + 1
        }
        None => PROGRAM + 1,
    };
    if launch.layers.contains(Layer::Descriptors) { calls::close_from(first_to_go) } else { Ok(()) }
}

/// Drops all capabilities, and prevents regaining them by `execve`: root has no special meaning (`SECBIT_NOROOT`), file capabilities are ignored
/// under `no_new_privs`, and the secure bits are locked. The bounding set is left alone: it limits only file capabilities, and emptying it would copy
/// the credentials once per member.
fn drop_capabilities(launch: &ChildLaunch<'_>) -> Result<()> {
    if !launch.layers.contains(Layer::Capabilities) {
        return Ok(());
    }
    let locked = CapabilitiesSecureBits::NO_ROOT
        | CapabilitiesSecureBits::NO_ROOT_LOCKED
        | CapabilitiesSecureBits::NO_SETUID_FIXUP
        | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
        | CapabilitiesSecureBits::KEEP_CAPS_LOCKED
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED;
    match rustix::thread::set_capabilities_secure_bits(locked) {
        // Without a user namespace an ordinary user has nothing to lock.
        Ok(()) | Err(Errno::PERM) => {}
        Err(error) => return Err(error),
    }
    rustix::thread::clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    rustix::thread::set_capabilities(
        None,
        CapabilitySets { effective: none, permitted: none, inheritable: none },
    )
}

/// Executes one step.
pub(crate) fn apply_step(step: &SetupStep, hands: ChildFds<'_>) -> Result<()> {
    let cwd = rustix::fs::CWD;
    match step {
        SetupStep::StopPropagation => {
            rustix::mount::mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        }
        SetupStep::OpenTree { from, slot, identity } => {
            let flags = OpenTreeFlags::OPEN_TREE_CLONE
                | OpenTreeFlags::OPEN_TREE_CLOEXEC
                | OpenTreeFlags::AT_RECURSIVE;
            let tree = rustix::mount::open_tree(cwd, &**from, flags)?;
            if let Some(expected) = identity {
                let found = rustix::fs::fstat(&tree)?;
                if (found.st_dev, found.st_ino) != *expected {
                    return Err(Errno::STALE);
                }
            }
            hands.slots.get(*slot).ok_or(Errno::INVAL)?.store(calls::forget(tree), Ordering::Relaxed);
            Ok(())
        }
        SetupStep::NewRoot { over, options } => {
            let flags = MountFlags::NOSUID | MountFlags::NODEV;
            rustix::mount::mount(c"toolgate", &**over, c"tmpfs", flags, Some(&**options))?;
            rustix::process::chdir(&**over)
        }
        SetupStep::Directory { path, mode } => rustix::fs::mkdirat(cwd, &**path, Mode::from_raw_mode(*mode)),
        SetupStep::File { path, content, mode } => make_file(path, content, *mode),
        SetupStep::Link { path, target } => rustix::fs::symlinkat(&**target, cwd, &**path),
        SetupStep::Unlink { path, directory } => {
            let flags = if *directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            rustix::fs::unlinkat(cwd, &**path, flags)
        }
        SetupStep::Attach { slot, path, attributes } => {
            let tree = calls::borrow(slot_of(hands, *slot)?);
            calls::set_mount_attributes(tree, true, *attributes)?;
            rustix::mount::move_mount(tree, c"", cwd, &**path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        }
        SetupStep::Overlay { slot, path, .. } => mount_overlay(slot_of(hands, *slot)?, path),
        SetupStep::Cover { slot, path, with, attributes, missing_is_fine } => {
            let target = match beneath(slot_of(hands, *slot)?, path) {
                Err(Errno::NOENT) if *missing_is_fine => return Ok(()),
                other => other?,
            };
            let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
            let tree = rustix::mount::open_tree(cwd, &**with, flags)?;
            mount_over(&tree, &target, *attributes)
        }
        SetupStep::CoverWithItself { slot, path, attributes } => {
            let target = beneath(slot_of(hands, *slot)?, path)?;
            let tree = copy_of(&target)?;
            mount_over(&tree, &target, *attributes)
        }
        SetupStep::OpenPlace { path, slot } => {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let place = rustix::fs::open(&**path, flags, Mode::empty())?;
            hands.slots.get(*slot).ok_or(Errno::INVAL)?.store(calls::forget(place), Ordering::Relaxed);
            Ok(())
        }
        SetupStep::Temporary { path, options } => {
            let flags = MountFlags::NOSUID | MountFlags::NODEV;
            rustix::mount::mount(c"toolgate", &**path, c"tmpfs", flags, Some(&**options))
        }
        SetupStep::Proc { path, processes } => mount_proc(path, processes.as_deref()),
        SetupStep::Enter => {
            rustix::process::pivot_root(c".", c".")?;
            rustix::mount::unmount(c".", UnmountFlags::DETACH)?;
            rustix::process::chdir(c"/")
        }
        SetupStep::SealRoot { attributes } => {
            let root = rustix::fs::open(c"/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
            calls::set_mount_attributes(std::os::fd::AsFd::as_fd(&root), false, *attributes)
        }
        SetupStep::HostName { name } => rustix::system::sethostname(name.to_bytes()),
        SetupStep::WorkIn { path } => rustix::process::chdir(&**path),
        SetupStep::Allow { path, access, missing_is_fine } => allow(path, *access, *missing_is_fine, hands),
    }
}

fn slot_of(hands: ChildFds<'_>, slot: usize) -> Result<RawFd> {
    Ok(hands.slots.get(slot).ok_or(Errno::INVAL)?.load(Ordering::Relaxed))
}

/// An empty file is created with `mknodat`, without opening it: a process that another thread starts at that moment would inherit a writable
/// descriptor, and a mount with a writer cannot be made read-only.
fn make_file(path: &CStr, content: &[u8], mode: u32) -> Result<()> {
    if content.is_empty() {
        let kind = rustix::fs::FileType::RegularFile;
        return rustix::fs::mknodat(rustix::fs::CWD, path, kind, Mode::from_raw_mode(mode), 0);
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::openat(rustix::fs::CWD, path, flags, Mode::from_raw_mode(mode))?;
    let mut rest = content;
    while !rest.is_empty() {
        let written = rustix::io::write(&file, rest)?;
        rest = rest.get(written..).ok_or(Errno::IO)?;
    }
    Ok(())
}

/// A path in a tree, resolved without following any symlink: what was planned is what is covered.
fn beneath(tree: RawFd, path: &CStr) -> Result<std::os::fd::OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat2(calls::borrow(tree), path, flags, Mode::empty(), resolve)
}

fn copy_of(target: &std::os::fd::OwnedFd) -> Result<std::os::fd::OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    rustix::mount::open_tree(target, c"", flags)
}

fn mount_over(tree: &std::os::fd::OwnedFd, target: &std::os::fd::OwnedFd, attributes: u64) -> Result<()> {
    if attributes != 0 {
        calls::set_mount_attributes(std::os::fd::AsFd::as_fd(tree), true, attributes)?;
    }
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(tree, c"", target, c"", flags)
}

/// The lower layer is named by its descriptor: its path may already be covered, be too long for an option, or contain `:` or `,`. An overlay without
/// an upper layer needs two lower ones; the second is empty. `noexec` is a flag of the mount that the directory is in, and is not inherited by the
/// overlay, so it is copied.
fn mount_overlay(lower: RawFd, path: &CStr) -> Result<()> {
    let mut flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    if rustix::fs::fstatvfs(calls::borrow(lower))?.f_flag.contains(StatVfsMountFlags::NOEXEC) {
        flags |= MountFlags::NOEXEC;
    }
    let mut options = [0_u8; 96];
    let mut number = [0_u8; 10];
    let parts: [&[u8]; 3] =
        [b"xino=off,lowerdir=/proc/self/fd/", digits(lower, &mut number), b":.toolgate/folder"];
    let options = concat(&mut options, &parts)?;
    rustix::mount::mount(c"toolgate", path, c"overlay", flags, Some(options))
}

/// Concatenates without allocating.
fn concat<'b>(buffer: &'b mut [u8], parts: &[&[u8]]) -> Result<&'b CStr> {
    for (at, byte) in parts.iter().copied().flatten().enumerate() {
        *buffer.get_mut(at).ok_or(Errno::NAMETOOLONG)? = *byte;
    }
    CStr::from_bytes_until_nul(buffer).map_err(|_| Errno::NAMETOOLONG)
}

/// A descriptor in decimal.
fn digits(descriptor: RawFd, buffer: &mut [u8; 10]) -> &[u8] {
    let (mut rest, mut first) = (descriptor.unsigned_abs(), buffer.len());
    for (place, digit) in buffer.iter_mut().enumerate().rev() {
        *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        (rest, first) = (rest / 10, place);
        if rest == 0 {
            break;
        }
    }
    buffer.get(first..).unwrap_or_default()
}

/// The mount is made read-only, and not the superblock: the kernel refuses a writable `/proc` where only a read-only one is visible, and `pid_max`
/// must be written first.
fn mount_proc(path: &CStr, processes: Option<&CStr>) -> Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount(c"proc", path, c"proc", flags, None)?;
    let mount = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    if let Some(processes) = processes {
        let limit = rustix::fs::openat(
            &mount,
            c"sys/kernel/pid_max",
            OFlags::WRONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        rustix::io::write(&limit, processes.to_bytes())?;
    }
    calls::set_mount_attributes(std::os::fd::AsFd::as_fd(&mount), false, libc::MOUNT_ATTR_RDONLY)
}

fn allow(path: &CStr, access: u64, missing_is_fine: bool, hands: ChildFds<'_>) -> Result<()> {
    let Some(rules) = hands.rules else { return Ok(()) };
    match rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
        Ok(place) => calls::landlock_add_rule(rules, std::os::fd::AsFd::as_fd(&place), access),
        Err(Errno::NOENT) if missing_is_fine => Ok(()),
        Err(error) => Err(error),
    }
}

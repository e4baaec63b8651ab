//! User, network and mount namespaces that are pooled and reused by one command after another.
//!
//! Creating a network namespace costs as much as starting a program, and populating a root filesystem nearly as much. A command leaves nothing in
//! either: it has no privileges over the network, all its sockets are closed when it has ended, and it sees a copy of the mounts, which ends with it.
//! So a namespace set returns to the pool when its command has ended; two commands never use one at the same time.

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::Instant;

use rustix::fs::{Mode, OFlags};
use rustix::io::Result;

use crate::bare_binds::MAX_VIEW_AGE;
use crate::error::SandboxError;
use crate::job::PROXY_PORT;
use crate::plan::{LaunchPlan, ViewKey};
use crate::seccomp::Sockets;
use crate::setup_step::SetupStep;
use crate::sys::calls;
use crate::sys::child::{ChildFds, LaunchPhase, LaunchProgress, apply_step};
use crate::sys::launch::{HelperProcess, run_helper};

/// Namespace sets waiting for the next command.
#[derive(Default)]
pub(crate) struct NamespacePool(Mutex<Vec<NamespaceSet>>);

/// How many are pooled.
const MAX_POOLED: usize = 64;

impl NamespacePool {
    /// Takes an unused set with this view from the pool, if there is one.
    pub(crate) fn acquire(&self, view: Option<&ViewKey>) -> Option<NamespaceSet> {
        let mut kept = self.0.lock().ok()?;
        kept.retain(|cell| cell.made.elapsed() < MAX_VIEW_AGE);
        let place = kept.iter().rposition(|cell| cell.view_key.as_ref() == view)?;
        Some(kept.remove(place))
    }

    /// Returns a set whose command has ended. If the pool is full, the oldest is dropped. A set whose proxy port still listens is not reused.
    pub(crate) fn release(&self, cell: NamespaceSet) {
        if cell.is_listening.load(Ordering::Acquire) {
            return;
        }
        if let Ok(mut kept) = self.0.lock() {
            if kept.len() >= MAX_POOLED {
                kept.remove(0);
            }
            kept.push(cell);
        }
    }
}

/// Which namespaces a set has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamespaceKinds {
    pub(crate) user: bool,
    pub(crate) network: bool,
    /// Whether the view has a `/proc` of its own.
    pub(crate) proc: bool,
}

/// Namespaces that outlive a command.
pub(crate) struct NamespaceSet {
    user: Option<OwnedFd>,
    network: Option<OwnedFd>,
    view: Option<OwnedFd>,
    view_key: Option<ViewKey>,
    /// A socket in the network namespace that is bound to the proxy port, and listens while a command with a proxy runs.
    proxy_port: Option<OwnedFd>,
    pub(crate) is_listening: AtomicBool,
    /// The network's counters of packets without a route; `lost_before` is their sum at the last check.
    counters: Vec<OwnedFd>,
    lost_before: AtomicU64,
    made: Instant,
    /// Which sockets its commands may create.
    pub(crate) sockets: Sockets,
}

/// The result of creating a namespace set.
pub(crate) enum NamespaceCreation {
    Created(NamespaceSet),
    /// No overlay can be mounted over this directory.
    NoOverlay(PathBuf),
}

/// A root filesystem to populate.
pub(crate) struct RootfsSpec {
    pub(crate) key: ViewKey,
    pub(crate) plan: LaunchPlan,
    pub(crate) sockets: Sockets,
}

impl NamespaceSet {
    /// Creates the namespaces, and populates a root filesystem in them if one is given.
    pub(crate) fn create(
        kind: NamespaceKinds,
        view: Option<RootfsSpec>,
    ) -> std::result::Result<NamespaceCreation, SandboxError> {
        let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let map = |id: u32| CString::new(format!("{id} {id} 1")).unwrap_or_default();
        let sockets = view.as_ref().map_or(Sockets::None, |view| view.sockets);
        let (view_key, plan) = view.map(|view| (view.key, view.plan)).unzip();
        let slots: Vec<AtomicI32> =
            (0..plan.as_ref().map_or(0, |plan| plan.slots)).map(|_| AtomicI32::new(-1)).collect();
        let progress = LaunchProgress::default();
        let making = CreateNamespaces {
            user_map: map(user),
            group_map: map(group),
            kind,
            steps: plan.as_ref().map(|plan| &*plan.steps),
            fds: ChildFds { slots: &slots, rules: None },
            progress: &progress,
            files: std::array::from_fn(|_| AtomicI32::new(-1)),
        };
        let has_view = plan.is_some();
        let flags = [
            (kind.user, libc::CLONE_NEWUSER),
            (kind.network, libc::CLONE_NEWNET),
            (has_view, libc::CLONE_NEWNS),
            (has_view && kind.proc, libc::CLONE_NEWPID),
        ];
        let flags = flags.iter().filter(|(wanted, _)| *wanted).fold(0, |flags, (_, flag)| flags | flag);
        // `CLONE_FILES`: the descriptor table is shared, so that what the helper opens is ours when it has exited.
        let made = run_helper(&making, libc::CLONE_FILES | flags);
        let [user, network, view, proxy_port, counters @ ..] =
            making.files.map(|file| calls::adopt(file.into_inner()));
        // The trees are attached now; close their handles.
        for slot in slots {
            drop(calls::adopt(slot.into_inner()));
        }
        made.map_err(SandboxError::system("a namespace cannot be made"))?;
        let steps = plan.as_ref().map_or(&[][..], |plan| &*plan.steps);
        if let Some(SetupStep::Overlay { from, .. }) = progress.failed_step(steps) {
            return Ok(NamespaceCreation::NoOverlay(from.clone()));
        }
        if let Some(failure) = progress.failure(steps) {
            return Err(failure);
        }
        let counters = counters.into_iter().flatten().collect();
        let (lost_before, made) = (AtomicU64::new(0), Instant::now());
        Ok(NamespaceCreation::Created(Self {
            user,
            network,
            view,
            view_key,
            proxy_port,
            is_listening: AtomicBool::new(false),
            counters,
            lost_before,
            made,
            sockets,
        }))
    }

    /// The namespaces to join, in the required order.
    pub(crate) fn namespaces(&self) -> Vec<RawFd> {
        let all = [self.user.as_ref(), self.network.as_ref(), self.view.as_ref()];
        all.into_iter().flatten().map(AsRawFd::as_raw_fd).collect()
    }

    /// The socket of the proxy port, where the set has a network namespace.
    pub(crate) fn proxy_port(&self) -> Option<&OwnedFd> {
        self.proxy_port.as_ref()
    }

    /// Whether packets or connections had no route since the last check. Reading the counters is slow, so this is used only to explain why a command
    /// failed; it may attribute an earlier command's attempt to this one.
    pub(crate) fn lost_packets(&self) -> bool {
        let lost: u64 = self.counters.iter().map(lost_packets).sum();
        self.lost_before.swap(lost, Ordering::Relaxed) != lost
    }
}

/// Reads `OutNoRoutes` from `/proc/net/snmp`, or `Ip6OutNoRoutes` from `/proc/net/snmp6`.
fn lost_packets(counters: &OwnedFd) -> u64 {
    let mut buffer = [0_u8; 8192];
    let length = rustix::io::pread(counters, &mut buffer, 0).unwrap_or(0);
    let text = String::from_utf8_lossy(buffer.get(..length).unwrap_or_default());
    if let Some(line) = text.lines().find_map(|line| line.strip_prefix("Ip6OutNoRoutes")) {
        return line.trim().parse().unwrap_or(0);
    }
    let mut rows = text.lines().filter(|line| line.starts_with("Ip:"));
    let (Some(names), Some(values)) = (rows.next(), rows.next()) else { return 0 };
    let mut columns = names.split(' ').zip(values.split(' '));
    columns.find(|(name, _)| *name == "OutNoRoutes").and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
}

/// Runs in the new namespaces: writes the id maps, populates the root filesystem, and leaves handles.
struct CreateNamespaces<'a> {
    user_map: CString,
    group_map: CString,
    kind: NamespaceKinds,
    steps: Option<&'a [SetupStep]>,
    fds: ChildFds<'a>,
    progress: &'a LaunchProgress,
    /// User, network and mount namespace, the socket of the proxy port, and two counter files.
    files: [AtomicI32; 6],
}

impl HelperProcess for CreateNamespaces<'_> {
    fn run(&self) {
        if let Err(error) = self.set_up() {
            self.progress.failed(LaunchPhase::Birth, 0, error);
        }
        rustix::process::umask(Mode::empty());
        for (index, step) in self.steps.into_iter().flatten().enumerate() {
            if let Err(error) = apply_step(step, self.fds) {
                self.progress.failed(LaunchPhase::Step, index, error);
            }
        }
    }
}

impl CreateNamespaces<'_> {
    fn set_up(&self) -> Result<()> {
        let [user, network, view, proxy_port, packets, packets6] = &self.files;
        if self.kind.user {
            write_to(c"/proc/self/setgroups", b"deny")?;
            write_to(c"/proc/self/uid_map", self.user_map.to_bytes())?;
            write_to(c"/proc/self/gid_map", self.group_map.to_bytes())?;
            keep_fd(user, c"/proc/self/ns/user")?;
        }
        if self.kind.network {
            calls::loopback_up()?;
            keep_fd(network, c"/proc/self/ns/net")?;
            proxy_port.store(calls::forget(bind_proxy_port()?), Ordering::Release);
            // Only used to explain failures, so a machine may lack them.
            let _ = keep_fd(packets, c"/proc/self/net/snmp");
            let _ = keep_fd(packets6, c"/proc/self/net/snmp6");
        }
        if self.steps.is_some() {
            keep_fd(view, c"/proc/self/ns/mnt")?;
        }
        Ok(())
    }
}

fn keep_fd(place: &AtomicI32, path: &std::ffi::CStr) -> Result<()> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    place.store(calls::forget(file), Ordering::Release);
    Ok(())
}

fn write_to(path: &std::ffi::CStr, content: &[u8]) -> Result<()> {
    let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, content).map(drop)
}

/// A socket that is bound to the proxy port of this process's network namespace and does not listen yet.
fn bind_proxy_port() -> Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    // Each command listens anew, and the previous one may have left a connection in `TIME_WAIT`.
    rustix::net::sockopt::set_socket_reuseaddr(&socket, true)?;
    let address = std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, PROXY_PORT);
    rustix::net::bind(&socket, &address)?;
    Ok(socket)
}

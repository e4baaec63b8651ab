//! A user namespace with a network namespace in it, made once and used by one command after the other.
//!
//! Making a network namespace costs as much as starting a program. A command leaves nothing in one: it has no rights over it, and when it has ended
//! every socket is closed. So a cell goes back on the shelf when its command has ended, and two commands are never in one at the same time.

use std::ffi::CString;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, Result};

use crate::job::PROXY_PORT;
use crate::sys::calls;
use crate::sys::launch::{Errand, errand};

/// Cells that wait for the next command.
#[derive(Default)]
pub(crate) struct Shelf(Mutex<Vec<Cell>>);

/// How many are kept.
const KEPT: usize = 64;

impl Shelf {
    /// A cell that nobody uses.
    pub(crate) fn take(&self, with_network: bool) -> Result<Cell> {
        let kept = self.0.lock().map(|mut kept| kept.pop());
        match kept {
            Ok(Some(cell)) if cell.network.is_some() == with_network => Ok(cell),
            _ => Cell::make(with_network),
        }
    }

    /// Puts a cell back whose command has ended.
    pub(crate) fn put_back(&self, cell: Cell) {
        if let Ok(mut kept) = self.0.lock()
            && kept.len() < KEPT
        {
            kept.push(cell);
        }
    }
}

/// A user namespace, with a network of its own unless that layer is off.
pub(crate) struct Cell {
    user: OwnedFd,
    network: Option<OwnedFd>,
    /// The network's own count of packets that had nowhere to go, and what it was when somebody last looked.
    counters: Vec<OwnedFd>,
    lost_before: AtomicU64,
}

impl Cell {
    pub(crate) fn make(with_network: bool) -> Result<Self> {
        let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let map = |id: u32| CString::new(format!("{id} {id} 1")).map_err(|_| Errno::INVAL);
        let making = Making {
            user_map: map(user)?,
            group_map: map(group)?,
            with_network,
            error: AtomicI32::new(0),
            files: std::array::from_fn(|_| AtomicI32::new(-1)),
        };
        let network = if with_network { libc::CLONE_NEWNET } else { 0 };
        // The table of descriptors is shared, so that what the process opens is ours when it has ended.
        errand(&making, libc::CLONE_NEWUSER | libc::CLONE_FILES | network)?;
        let [user, network, counters @ ..] = making.files.map(|file| calls::adopt(file.into_inner()));
        match making.error.into_inner() {
            0 => Ok(Self {
                user: user.ok_or(Errno::NOENT)?,
                network,
                counters: counters.into_iter().flatten().collect(),
                lost_before: AtomicU64::new(0),
            }),
            error => Err(Errno::from_raw_os_error(error)),
        }
    }

    pub(crate) fn user(&self) -> RawFd {
        self.user.as_raw_fd()
    }

    pub(crate) fn network(&self) -> Option<RawFd> {
        self.network.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// A listener inside the cell's network.
    pub(crate) fn listen(&self) -> Result<TcpListener> {
        let network = self.network().ok_or(Errno::OPNOTSUPP)?;
        let listening =
            Listening { user: self.user(), network, error: AtomicI32::new(0), socket: AtomicI32::new(-1) };
        errand(&listening, libc::CLONE_FILES)?;
        match (listening.error.into_inner(), calls::adopt(listening.socket.into_inner())) {
            (0, Some(socket)) => Ok(TcpListener::from(socket)),
            (error, _) => Err(Errno::from_raw_os_error(error)),
        }
    }

    /// Whether packets or connections found no way out since somebody last looked. Reading the counters takes time, so this is asked about commands that
    /// failed, to explain why; it may take an earlier command's attempt for this one's.
    pub(crate) fn lost_packets(&self) -> bool {
        let lost: u64 = self.counters.iter().map(lost_packets).sum();
        self.lost_before.swap(lost, Ordering::Relaxed) != lost
    }
}

/// Reads `OutNoRoutes` out of `/proc/net/snmp`, or `Ip6OutNoRoutes` out of `/proc/net/snmp6`.
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

/// Runs in the new namespaces: says who is who, and leaves handles to them.
struct Making {
    user_map: CString,
    group_map: CString,
    with_network: bool,
    error: AtomicI32,
    /// The user namespace, the network namespace, two files of counters.
    files: [AtomicI32; 4],
}

impl Errand for Making {
    fn run(&self) {
        if let Err(error) = self.work() {
            self.error.store(error.raw_os_error(), Ordering::Release);
        }
    }
}

impl Making {
    fn work(&self) -> Result<()> {
        write_to(c"/proc/self/setgroups", b"deny")?;
        write_to(c"/proc/self/uid_map", self.user_map.to_bytes())?;
        write_to(c"/proc/self/gid_map", self.group_map.to_bytes())?;
        let [user, network, packets, packets6] = &self.files;
        keep(user, c"/proc/self/ns/user")?;
        if self.with_network {
            calls::loopback_up()?;
            keep(network, c"/proc/self/ns/net")?;
            // Only good for explaining a failure, so a machine without them is fine.
            let _ = keep(packets, c"/proc/self/net/snmp");
            let _ = keep(packets6, c"/proc/self/net/snmp6");
        }
        Ok(())
    }
}

fn keep(place: &AtomicI32, path: &std::ffi::CStr) -> Result<()> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    place.store(calls::forget(file), Ordering::Release);
    Ok(())
}

fn write_to(path: &std::ffi::CStr, content: &[u8]) -> Result<()> {
    let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, content).map(drop)
}

/// Runs in a cell's network: leaves a listener.
struct Listening {
    user: RawFd,
    network: RawFd,
    error: AtomicI32,
    socket: AtomicI32,
}

impl Errand for Listening {
    fn run(&self) {
        if let Err(error) = self.work() {
            self.error.store(error.raw_os_error(), Ordering::Release);
        }
    }
}

impl Listening {
    fn work(&self) -> Result<()> {
        use rustix::net::{AddressFamily, SocketFlags, SocketType};
        rustix::thread::move_into_link_name_space(calls::borrow(self.user), None)?;
        rustix::thread::move_into_link_name_space(calls::borrow(self.network), None)?;
        let socket =
            rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        // The command before this one may have left a connection that the kernel is still closing.
        rustix::net::sockopt::set_socket_reuseaddr(&socket, true)?;
        let address = std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, PROXY_PORT);
        rustix::net::bind(&socket, &address)?;
        rustix::net::listen(&socket, 128)?;
        self.socket.store(calls::forget(socket), Ordering::Release);
        Ok(())
    }
}

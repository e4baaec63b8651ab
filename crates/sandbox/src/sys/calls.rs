//! System calls that no crate wraps, one function each.
#![expect(unsafe_code, reason = "these system calls have no safe wrapper; each block is one call")]

use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::{Errno, Result};

/// The result of a system call, with the errno if it failed.
fn checked(result: libc::c_long) -> Result<libc::c_long> {
    if result >= 0 {
        return Ok(result);
    }
    // SAFETY: the address of this thread's errno is always valid.
    let number = unsafe { *libc::__errno_location() };
    Err(Errno::from_raw_os_error(number))
}

/// Sets the attributes of a mount, and of all submounts if `recursive` (`mount_setattr`).
pub(crate) fn set_mount_attributes(tree: BorrowedFd<'_>, recursive: bool, set: u64) -> Result<()> {
    let attributes = libc::mount_attr { attr_set: set, attr_clr: 0, propagation: 0, userns_fd: 0 };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is an empty C string, the structure has the stated size, and both outlive the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    checked(result).map(drop)
}

/// Closes every descriptor from `first` on (`close_range`).
pub(crate) fn close_from(first: RawFd) -> Result<()> {
    // SAFETY: takes numbers only. What is closed belongs to a process that is about to call `execve`.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) };
    checked(result).map(drop)
}

/// Duplicates descriptor `from` to `to` (`dup3`).
pub(crate) fn duplicate(from: RawFd, to: RawFd, close_on_exec: bool) -> Result<()> {
    let flags = if close_on_exec { libc::O_CLOEXEC } else { 0 };
    // SAFETY: takes numbers only; the calling process owns its descriptor table.
    let result = unsafe { libc::syscall(libc::SYS_dup3, from, to, flags) };
    checked(result).map(drop)
}

/// Installs a seccomp filter, for this process and its descendants.
pub(crate) fn install_filter(filter: &[libc::sock_filter]) -> Result<()> {
    let length = u16::try_from(filter.len()).map_err(|_| Errno::INVAL)?;
    let program = libc::sock_fprog { len: length, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the kernel copies the program, which outlives the call and has the stated length.
    let result =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program) };
    checked(result).map(drop)
}

/// The access rights that a Landlock ruleset handles.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LandlockRulesetAttr {
    pub(crate) files: u64,
    pub(crate) network: u64,
    pub(crate) scoped: u64,
}

#[repr(C, packed)]
struct LandlockPathBeneathAttr {
    allowed: u64,
    parent: i32,
}

/// The kernel's Landlock ABI version.
pub(crate) fn landlock_version() -> Result<u32> {
    // SAFETY: queries the version without a structure.
    let result =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, 1_u32) };
    checked(result).map(|version| u32::try_from(version).unwrap_or(0))
}

/// An empty ruleset: every handled right is refused.
pub(crate) fn landlock_create_ruleset(watch: &LandlockRulesetAttr) -> Result<OwnedFd> {
    let pointer: *const LandlockRulesetAttr = watch;
    // SAFETY: the structure has the stated size and outlives the call.
    let result = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, pointer, size_of::<LandlockRulesetAttr>(), 0_u32)
    };
    let file = checked(result)?;
    // SAFETY: the kernel just returned this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(RawFd::try_from(file).map_err(|_| Errno::BADF)?) })
}

/// Allows rights at and below a path.
pub(crate) fn landlock_add_rule(rules: RawFd, place: BorrowedFd<'_>, allowed: u64) -> Result<()> {
    let rule = LandlockPathBeneathAttr { allowed, parent: place.as_raw_fd() };
    // SAFETY: rule type 1 is `LANDLOCK_RULE_PATH_BENEATH`, and the structure is one; it outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_landlock_add_rule, rules, 1_u32, &raw const rule, 0_u32) };
    checked(result).map(drop)
}

/// Applies the ruleset to this thread.
pub(crate) fn landlock_restrict_self(rules: RawFd) -> Result<()> {
    // SAFETY: takes numbers only.
    let result = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules, 0_u32) };
    checked(result).map(drop)
}

/// Brings up the loopback interface of this process's network namespace.
pub(crate) fn loopback_up() -> Result<()> {
    // SAFETY: takes numbers only.
    let socket = checked(unsafe {
        libc::syscall(libc::SYS_socket, libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0)
    })?;
    // SAFETY: all zeroes is a valid request: an empty name and no flags.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(c"lo".to_bytes()) {
        *to = (*from).cast_signed();
    }
    request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
    // SAFETY: the request names an interface and carries the flags that this call reads; it outlives the call.
    let result =
        checked(unsafe { libc::syscall(libc::SYS_ioctl, socket, libc::SIOCSIFFLAGS, &raw const request) });
    // SAFETY: this descriptor was opened above and is not used again.
    let _ = unsafe { libc::syscall(libc::SYS_close, socket) };
    result.map(drop)
}

/// Resets all signals to their default action and blocks only `SIGTERM`.
///
/// The mask survives `execve`. The kernel drops an unblocked signal with default action sent to process 1 of a namespace (`SIGNAL_UNKILLABLE`), so a
/// `SIGTERM` sent before the init program blocks it would be lost. Blocked from the start, it stays pending until `rt_sigtimedwait` takes it.
pub(crate) fn default_signals() {
    for signal in 1..=31 {
        // SAFETY: the default action is no handler, so no code of this program is called.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: an empty set is a valid one.
    let mut blocked: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is ours and outlives the calls.
    unsafe { libc::sigemptyset(&raw mut blocked) };
    // SAFETY: as above, and `SIGTERM` is a signal.
    unsafe { libc::sigaddset(&raw mut blocked, libc::SIGTERM) };
    // SAFETY: as above.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const blocked, std::ptr::null_mut()) };
}

/// Blocks all signals of this thread until it is dropped.
pub(crate) struct SignalMaskGuard(libc::sigset_t);

impl SignalMaskGuard {
    pub(crate) fn block_all() -> Self {
        // SAFETY: two local sets, filled before they are used.
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        // SAFETY: the set is ours.
        unsafe { libc::sigfillset(&raw mut all) };
        // SAFETY: both sets are ours and outlive the call.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) };
        Self(before)
    }
}

impl Drop for SignalMaskGuard {
    fn drop(&mut self) {
        // SAFETY: restores the set that was in force before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
    }
}

/// Drops all supplementary groups (`setgroups`). Needs `CAP_SETGID`; without it the call fails with `EPERM`.
pub(crate) fn drop_groups() -> Result<()> {
    // SAFETY: an empty list is not read.
    let result = unsafe { libc::syscall(libc::SYS_setgroups, 0_usize, std::ptr::null::<libc::gid_t>()) };
    checked(result).map(drop)
}

/// Executes another program. Returns only an error.
pub(crate) fn execveat(
    file: RawFd,
    arguments: &[*const libc::c_char],
    environment: &[*const libc::c_char],
) -> Errno {
    // SAFETY: both lists end with a null pointer, which the plan ensures, and every other element is a C string that it keeps alive.
    let result = unsafe {
        libc::syscall(
            libc::SYS_execveat,
            file,
            c"".as_ptr(),
            arguments.as_ptr(),
            environment.as_ptr(),
            libc::AT_EMPTY_PATH,
        )
    };
    checked(result).err().unwrap_or(Errno::INVAL)
}

/// Exits immediately, without running any code of the program whose memory it shares.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: ends the process; there is nothing to return to.
    unsafe { libc::_exit(code) }
}

/// Takes ownership of a descriptor that a helper with the same table opened.
pub(crate) fn adopt(file: RawFd) -> Option<OwnedFd> {
    // SAFETY: only called with a number that the helper stored after opening it, and once for each.
    (file >= 0).then(|| unsafe { OwnedFd::from_raw_fd(file) })
}

/// A descriptor by number, while the caller knows it to be open.
pub(crate) fn borrow<'a>(file: RawFd) -> BorrowedFd<'a> {
    // SAFETY: the steps of a launch name descriptors that earlier steps of the same launch opened and that stay open.
    unsafe { BorrowedFd::borrow_raw(file) }
}

/// Leaks a descriptor; the calling process exits or calls `execve`.
pub(crate) fn forget(file: OwnedFd) -> RawFd {
    std::os::fd::IntoRawFd::into_raw_fd(file)
}

/// A sealed memfd with a program, executable by its descriptor.
pub(crate) fn memfd_program(name: &CStr, bytes: &[u8]) -> Result<OwnedFd> {
    use rustix::fs::{MemfdFlags, SealFlags};
    let file = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut rest = bytes;
    while !rest.is_empty() {
        let written = rustix::io::write(&file, rest)?;
        rest = rest.get(written..).ok_or(Errno::IO)?;
    }
    rustix::fs::fcntl_add_seals(
        &file,
        SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE,
    )?;
    // A file open for writing cannot be executed (`ETXTBSY`), so it is reopened for reading.
    let path =
        std::ffi::CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).map_err(|_| Errno::INVAL)?;
    rustix::fs::open(
        &*path,
        rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )
}

/// Stack size of a process that shares memory.
pub(crate) const STACK_BYTES: usize = 128 * 1024;

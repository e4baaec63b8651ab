//! Starts a process that shares this one's memory until it executes another program.
#![expect(unsafe_code, reason = "clone has no safe wrapper")]

use rustix::io::{Errno, Result};
use rustix::process::{Pid, WaitOptions};

use super::calls::{STACK_BYTES, SignalMaskGuard, exit_now};

/// The code of such a process: everything it needs is behind one pointer. It must not allocate, lock or panic, and it returns results in atomics.
pub(crate) trait HelperProcess: Sync {
    /// Runs in the new process, which exits when it returns.
    fn run(&self);
}

/// Starts a process with these `clone` flags in addition to `CLONE_VM | CLONE_VFORK`. Returns when the process has called `execve` or exited; the
/// caller must wait for its PID.
pub(crate) fn spawn_vfork<Work: HelperProcess>(work: &Work, flags: i32) -> Result<Pid> {
    let _held = SignalMaskGuard::block_all();
    clone_vfork(work, flags)
}

/// The same from inside such a process, which already blocks signals.
pub(crate) fn clone_vfork<Work: HelperProcess>(work: &Work, flags: i32) -> Result<Pid> {
    let mut stack = Stack::new()?;
    let flags = flags | libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let argument: *const Work = work;
    // SAFETY: the new process runs `enter` on a stack of its own, which lives until this call returns, and this call returns only when the new
    // process is done with the memory (`CLONE_VFORK`). The pointer is to a `Work` that outlives the call, and `Work` is `Sync`.
    let process = unsafe { libc::clone(enter::<Work>, stack.top(), flags, argument.cast_mut().cast()) };
    if process < 0 {
        // SAFETY: the address of this thread's errno is always valid.
        return Err(Errno::from_raw_os_error(unsafe { *libc::__errno_location() }));
    }
    Pid::from_raw(process).ok_or(Errno::SRCH)
}

extern "C" fn enter<Work: HelperProcess>(argument: *mut libc::c_void) -> i32 {
    // SAFETY: `clone_vfork` passed a pointer to a `Work` and waits.
    let work = unsafe { &*argument.cast_const().cast::<Work>() };
    work.run();
    exit_now(0)
}

/// Runs a short task in a process of its own and waits for its exit.
pub(crate) fn run_helper<Work: HelperProcess>(work: &Work, flags: i32) -> Result<()> {
    let process = spawn_vfork(work, flags)?;
    reap(process)
}

/// Waits for a process that has exited or is about to.
pub(crate) fn reap(process: Pid) -> Result<()> {
    loop {
        match rustix::process::waitpid(Some(process), WaitOptions::empty()) {
            Err(Errno::INTR) => {}
            other => return other.map(drop),
        }
    }
}

/// A stack from `mmap`: nothing here may take the allocator's lock.
struct Stack(*mut libc::c_void);

impl Stack {
    fn new() -> Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
        // SAFETY: requests fresh memory at no particular address.
        let memory = unsafe {
            libc::mmap(std::ptr::null_mut(), STACK_BYTES, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        if memory == libc::MAP_FAILED { Err(Errno::NOMEM) } else { Ok(Self(memory)) }
    }

    fn top(&mut self) -> *mut libc::c_void {
        self.0.wrapping_byte_add(STACK_BYTES)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: this memory was mapped above with this size, and the process that used it has exited or executed another program.
        unsafe { libc::munmap(self.0, STACK_BYTES) };
    }
}

//! Raw system calls. An attacker makes any system call with any arguments; this program has nothing of its own to protect.
#![allow(unsafe_code, reason = "attacks are calls that no safe interface would make")]

use std::ffi::CString;
use std::os::fd::{FromRawFd as _, OwnedFd};

/// Any system call with any arguments: its result, or its errno.
pub(crate) fn call(number: i64, arguments: [usize; 6]) -> Result<i64, i32> {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: callers pass pointers to values of theirs that outlive the call, or numbers.
    let answer = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if answer >= 0 { Ok(answer) } else { Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)) }
}

/// A descriptor by its number, which is all that an attacker has.
pub(crate) fn adopt(file: i32) -> Result<OwnedFd, i32> {
    const GET_FLAGS: usize = 1;
    call(libc::SYS_fcntl, [usize::try_from(file).unwrap_or(usize::MAX), GET_FLAGS, 0, 0, 0, 0])?;
    // SAFETY: it is open, and nothing else in this program uses it.
    Ok(unsafe { OwnedFd::from_raw_fd(file) })
}

/// `fork`; zero in the child.
pub(crate) fn fork() -> Result<i64, i32> {
    call(libc::SYS_fork, [0; 6])
}

/// A system call through `int 0x80`, the i386 entry point, where the numbers mean other calls.
#[cfg(target_arch = "x86_64")]
pub(crate) fn call_as_i386(number: u32) -> i32 {
    let answer: i32;
    // SAFETY: the call takes no arguments and touches nothing but the answer.
    unsafe {
        core::arch::asm!("int 0x80", inlateout("eax") number => answer, lateout("r8") _, lateout("r9") _,
            lateout("r10") _, lateout("r11") _, options(nostack));
    }
    answer
}

/// Only x86-64 has this entry point.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn call_as_i386(_: u32) -> i32 {
    -1
}

/// Creates a System V shared memory segment that is removed with this process. Returns its id.
pub(crate) fn share(content: &[u8]) -> i32 {
    const SIZE: usize = 4096;
    assert!(content.len() < SIZE);
    // SAFETY: the segment has this size, is attached at an address of the kernel's choice, and is written within its size.
    unsafe {
        let id = libc::shmget(libc::IPC_PRIVATE, SIZE, 0o600 | libc::IPC_CREAT);
        let place = libc::shmat(id, std::ptr::null(), 0);
        assert!(id >= 0 && place as isize != -1, "{}", std::io::Error::last_os_error());
        std::ptr::copy_nonoverlapping(content.as_ptr(), place.cast(), content.len());
        libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut());
        id
    }
}

/// The content of another process's shared memory segment.
pub(crate) fn shared(id: i32, length: usize) -> Option<Vec<u8>> {
    // SAFETY: reads within a segment that was just attached.
    unsafe {
        let place = libc::shmat(id, std::ptr::null(), libc::SHM_RDONLY);
        (place as isize != -1).then(|| std::slice::from_raw_parts(place.cast::<u8>(), length).to_vec())
    }
}

/// Creates a POSIX message queue with one message.
pub(crate) fn fill_queue(name: &str, content: &[u8]) {
    let name = CString::new(name).unwrap();
    // SAFETY: the name is NUL-terminated, and the message has the given length; a queue without attributes gets the defaults.
    unsafe {
        let attributes = std::ptr::null::<libc::mq_attr>();
        let queue = libc::mq_open(name.as_ptr(), libc::O_CREAT | libc::O_RDWR, 0o600, attributes);
        assert!(queue >= 0, "{}", std::io::Error::last_os_error());
        assert_eq!(libc::mq_send(queue, content.as_ptr().cast(), content.len(), 0), 0);
    }
}

/// Removes a message queue.
pub(crate) fn remove_queue(name: &str) {
    let name = CString::new(name).unwrap();
    // SAFETY: the name is NUL-terminated.
    unsafe { libc::mq_unlink(name.as_ptr()) };
}

/// Receives a message from another process's queue.
pub(crate) fn queued(name: &str) -> std::io::Result<Vec<u8>> {
    let name = CString::new(name).unwrap();
    let mut message = vec![0_u8; 65_536];
    // SAFETY: the name is NUL-terminated, and the buffer has the given length.
    let length = unsafe {
        let queue = libc::mq_open(name.as_ptr(), libc::O_RDONLY | libc::O_NONBLOCK);
        if queue < 0 {
            return Err(std::io::Error::last_os_error());
        }
        libc::mq_receive(queue, message.as_mut_ptr().cast(), message.len(), std::ptr::null_mut())
    };
    message.truncate(usize::try_from(length).map_err(|_| std::io::Error::last_os_error())?);
    Ok(message)
}

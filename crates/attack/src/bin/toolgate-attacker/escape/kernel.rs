//! Attacks on the kernel itself: system calls that commands can do without.

use super::{Tried, call, raw, stopped};

pub(super) fn run(words: &[&str]) -> Option<Tried> {
    Some(match words {
        ["ring"] => {
            let parameters = [0_u64; 15];
            call(libc::SYS_io_uring_setup, [4, parameters.as_ptr() as usize, 0, 0, 0, 0]).map(drop)
        }
        ["program-the-kernel"] => {
            // A map of one element: type 2 (array), keys and values of four bytes.
            let attributes = [2_u32, 4, 4, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            let size = size_of_val(&attributes);
            call(libc::SYS_bpf, [0, attributes.as_ptr() as usize, size, 0, 0, 0]).map(drop)
        }
        ["count-events"] => count_events(),
        ["handle-faults"] => {
            const USER_MODE_ONLY: usize = 1;
            call(libc::SYS_userfaultfd, [USER_MODE_ONLY, 0, 0, 0, 0, 0]).map(drop)
        }
        ["older-entrance"] => older_entrance(),
        ["x32-entrance"] => {
            const X32: i64 = 0x4000_0000;
            call(X32 + libc::SYS_getpid, [0; 6]).map(drop)
        }
        ["personality"] => {
            const READ_IMPLIES_EXECUTE: usize = 0x0040_0000;
            call(libc::SYS_personality, [READ_IMPLIES_EXECUTE, 0, 0, 0, 0, 0]).map(drop)
        }
        ["host-name"] => host_name(),
        _ => return None,
    })
}

/// `perf_event_open` for all processes on one CPU: a side channel.
fn count_events() -> Tried {
    // The first words of `perf_event_attr`: type 1 (software), its size, config 0 (CPU clock).
    let mut attributes = [0_u64; 16];
    attributes[0] = 1 | (128 << 32);
    let everybody = usize::MAX;
    call(libc::SYS_perf_event_open, [attributes.as_ptr() as usize, everybody, 0, usize::MAX, 0, 0]).map(drop)
}

fn older_entrance() -> Tried {
    const GETPID: u32 = 20;
    let answer = raw::call_as_i386(GETPID);
    if answer == rustix::process::getpid().as_raw_nonzero().get() { Ok(()) } else { Err(format!("{answer}")) }
}

/// `sethostname` with the present name, so that success is harmless. In a UTS namespace of its own it does not name the machine.
fn host_name() -> Tried {
    let name = rustix::system::uname().nodename().to_owned();
    rustix::system::sethostname(name.to_bytes()).map_err(stopped)?;
    if name.to_bytes() == b"toolgate" { Err("the name is the sandbox's own".to_owned()) } else { Ok(()) }
}

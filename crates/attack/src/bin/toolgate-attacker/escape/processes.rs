//! Attacks on other processes, and on being terminated.

use super::{Tried, call, number, raw, show, stopped};

pub(super) fn run(words: &[&str]) -> Option<Tried> {
    Some(match words {
        ["trace", process] => trace(number(process)),
        ["read-memory", process, address, length] => {
            read_memory(number(process), number(address), number(length))
        }
        ["read-memory-file", process, address, length] => {
            read_memory_file(process, number(address), number(length))
        }
        ["take-descriptor", process, file] => take_descriptor(number(process), number(file)),
        ["daemon"] => daemon(),
        ["type", terminal, line] => type_ahead(number(terminal), line),
        ["shared-memory", id, length] => raw::shared(number(id), number(length))
            .map(|content| show(&content))
            .ok_or_else(|| stopped(std::io::Error::last_os_error())),
        ["queue", name] => raw::queued(name).map(|content| show(&content)).map_err(stopped),
        ["key", key] => read_key(number(key)),
        _ => return None,
    })
}

/// Attaches to a process with `PTRACE_SEIZE`, which does not stop it; the kernel detaches when this process exits.
fn trace(process: usize) -> Tried {
    const SEIZE: usize = 0x4206;
    call(libc::SYS_ptrace, [SEIZE, process, 0, 0, 0, 0]).map(drop)
}

fn read_memory(process: usize, address: usize, length: usize) -> Tried {
    let mut content = vec![0_u8; length];
    let here = [content.as_mut_ptr() as usize, length];
    let there = [address, length];
    let arguments = [process, here.as_ptr() as usize, 1, there.as_ptr() as usize, 1, 0];
    call(libc::SYS_process_vm_readv, arguments)?;
    show(&content);
    Ok(())
}

fn read_memory_file(process: &str, address: u64, length: usize) -> Tried {
    use std::os::unix::fs::FileExt as _;
    let memory = std::fs::File::open(format!("/proc/{process}/mem")).map_err(stopped)?;
    let mut content = vec![0_u8; length];
    memory.read_exact_at(&mut content, address).map_err(stopped)?;
    show(&content);
    Ok(())
}

fn take_descriptor(process: usize, file: usize) -> Tried {
    let handle = call(libc::SYS_pidfd_open, [process, 0, 0, 0, 0, 0])?;
    let taken = call(libc::SYS_pidfd_getfd, [usize::try_from(handle).unwrap(), file, 0, 0, 0, 0])?;
    let mut content = vec![0_u8; 4096];
    let taken = usize::try_from(taken).unwrap();
    let pointer = content.as_mut_ptr() as usize;
    let length = call(libc::SYS_pread64, [taken, pointer, content.len(), 0, 0, 0])?;
    content.truncate(usize::try_from(length).unwrap());
    show(&content);
    Ok(())
}

/// Daemonises: forks twice, calls `setsid`, closes every file, and sleeps.
fn daemon() -> Tried {
    let error = |error| stopped(std::io::Error::from_raw_os_error(error));
    if raw::fork().map_err(error)? > 0 {
        return Ok(());
    }
    rustix::process::setsid().map_err(stopped)?;
    if raw::fork().map_err(error)? > 0 {
        std::process::exit(0);
    }
    call(libc::SYS_close_range, [0, u32::MAX as usize, 0, 0, 0, 0])?;
    std::thread::sleep(std::time::Duration::from_secs(300));
    std::process::exit(0)
}

/// Injects a line into a terminal's input (`TIOCSTI`).
fn type_ahead(terminal: usize, line: &str) -> Tried {
    for byte in line.bytes() {
        let pointer = (&raw const byte) as usize;
        call(libc::SYS_ioctl, [terminal, usize::try_from(libc::TIOCSTI).unwrap(), pointer, 0, 0, 0])?;
    }
    Ok(())
}

fn read_key(key: usize) -> Tried {
    const READ: usize = 11;
    let mut content = vec![0_u8; 4096];
    let pointer = content.as_mut_ptr() as usize;
    let length = call(libc::SYS_keyctl, [READ, key, pointer, content.len(), 0, 0])?;
    content.truncate(usize::try_from(length).unwrap());
    show(&content);
    Ok(())
}

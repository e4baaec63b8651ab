//! Attacks on files: by descriptors, file handles, extended attributes and modes.

use std::io::Read as _;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, XattrFlags};

use super::{Tried, call, number, raw, show, stopped, text};

pub(super) fn run(words: &[&str]) -> Option<Tried> {
    Some(match words {
        ["attribute", file] => attribute(file),
        ["exchange", one, other] => {
            rustix::fs::renameat_with(CWD, *one, CWD, *other, RenameFlags::EXCHANGE).map_err(stopped)
        }
        ["handle-of", file] => handle_of(file),
        ["open-handle", kind, handle] => open_handle(number(kind), handle),
        ["read-descriptor", file] => read_descriptor(number(file)),
        ["read-beneath-descriptor", folder, name] => read_beneath(number(folder), name),
        ["set-id", way, file] => set_id(way, file),
        ["give-capability", file] => give_capability(file),
        _ => return None,
    })
}

fn attribute(file: &str) -> Tried {
    rustix::fs::setxattr(file, "user.toolgate", b"planted", XattrFlags::empty()).map_err(stopped)
}

/// The file handle by `name_to_handle_at`: its type, and its bytes in hexadecimal.
fn handle_of(file: &str) -> Tried {
    const MOST: u32 = 128;
    let mut structure = vec![0_u8; 8 + MOST as usize];
    structure[..4].copy_from_slice(&MOST.to_ne_bytes());
    let (path, mut mount) = (text(file), 0_i32);
    let pointers = [path.as_ptr() as usize, structure.as_mut_ptr() as usize, (&raw mut mount) as usize];
    let here = libc::AT_FDCWD as usize;
    call(libc::SYS_name_to_handle_at, [here, pointers[0], pointers[1], pointers[2], 0, 0])?;
    let word = |at: usize| u32::from_ne_bytes(structure[at..at + 4].try_into().unwrap());
    let bytes = &structure[8..8 + word(0) as usize];
    let hexadecimal: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    println!("{} {hexadecimal}", word(4));
    Ok(())
}

/// Opens a file by its handle (`open_by_handle_at`), which bypasses path resolution.
fn open_handle(kind: i32, hexadecimal: &str) -> Tried {
    let digits: Vec<u32> = hexadecimal.chars().map(|digit| digit.to_digit(16).unwrap()).collect();
    let handle: Vec<u8> =
        digits.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).unwrap()).collect();
    let mut structure = Vec::from(u32::try_from(handle.len()).unwrap().to_ne_bytes());
    structure.extend(kind.to_ne_bytes());
    structure.extend(handle);
    let here = rustix::fs::open(".", OFlags::DIRECTORY, Mode::empty()).map_err(stopped)?;
    let folder = usize::try_from(std::os::fd::AsRawFd::as_raw_fd(&here)).unwrap();
    let file = call(libc::SYS_open_by_handle_at, [folder, structure.as_ptr() as usize, 0, 0, 0, 0])?;
    read_descriptor(i32::try_from(file).unwrap())
}

fn descriptor(file: i32) -> Tried<OwnedFd> {
    raw::adopt(file).map_err(|error| stopped(std::io::Error::from_raw_os_error(error)))
}

fn read_descriptor(file: i32) -> Tried {
    let mut content = Vec::new();
    std::fs::File::from(descriptor(file)?).take(4096).read_to_end(&mut content).map_err(stopped)?;
    show(&content);
    Ok(())
}

fn read_beneath(folder: i32, name: &str) -> Tried {
    let file = rustix::fs::openat(descriptor(folder)?, name, OFlags::RDONLY, Mode::empty());
    let mut content = Vec::new();
    std::fs::File::from(file.map_err(stopped)?).read_to_end(&mut content).map_err(stopped)?;
    show(&content);
    Ok(())
}

/// Every system call that can create a set-user-ID file.
fn set_id(way: &str, file: &str) -> Tried {
    const MODE: usize = 0o4755;
    let here = libc::AT_FDCWD as usize;
    let name = text(file);
    let path = name.as_ptr() as usize;
    let create = (libc::O_CREAT | libc::O_WRONLY) as usize;
    let existing = || -> Tried<usize> {
        std::fs::write(file, "#!/bin/sh\n").map_err(stopped)?;
        let open = rustix::fs::open(file, OFlags::RDONLY, Mode::empty()).map_err(stopped)?;
        Ok(usize::try_from(std::os::fd::IntoRawFd::into_raw_fd(open)).unwrap())
    };
    match way {
        #[cfg(target_arch = "x86_64")]
        "chmod" => existing().and_then(|_| call(libc::SYS_chmod, [path, MODE, 0, 0, 0, 0])),
        #[cfg(target_arch = "x86_64")]
        "open" => call(libc::SYS_open, [path, create, MODE, 0, 0, 0]),
        #[cfg(target_arch = "x86_64")]
        "creat" => call(libc::SYS_creat, [path, MODE, 0, 0, 0, 0]),
        #[cfg(target_arch = "x86_64")]
        "mknod" => call(libc::SYS_mknod, [path, libc::S_IFREG as usize | MODE, 0, 0, 0, 0]),
        "fchmod" => existing().and_then(|open| call(libc::SYS_fchmod, [open, MODE, 0, 0, 0, 0])),
        "fchmodat" => existing().and_then(|_| call(libc::SYS_fchmodat, [here, path, MODE, 0, 0, 0])),
        "fchmodat2" => existing().and_then(|_| call(452, [here, path, MODE, 0, 0, 0])),
        "openat" => call(libc::SYS_openat, [here, path, create, MODE, 0, 0]),
        "openat2" => {
            let how = [create as u64, MODE as u64, 0];
            call(libc::SYS_openat2, [here, path, how.as_ptr() as usize, size_of_val(&how), 0, 0])
        }
        "mknodat" => call(libc::SYS_mknodat, [here, path, libc::S_IFREG as usize | MODE, 0, 0, 0]),
        other => panic!("there is no way {other} to set a bit"),
    }?;
    let mode = rustix::fs::statat(CWD, file, AtFlags::empty()).map_err(stopped)?.st_mode;
    if mode & 0o4000 == 0 { Err(format!("the mode is {mode:o}")) } else { Ok(()) }
}

/// `security.capability`, which gives a program capabilities: version 2, effective, `CAP_DAC_OVERRIDE`.
fn give_capability(file: &str) -> Tried {
    let mut attribute = Vec::from(0x0200_0001_u32.to_le_bytes());
    attribute.extend([2_u32, 0, 0, 0].iter().flat_map(|word| word.to_le_bytes()));
    rustix::fs::setxattr(file, "security.capability", &attribute, XattrFlags::empty()).map_err(stopped)
}

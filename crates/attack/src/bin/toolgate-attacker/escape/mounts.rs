//! Attacks on the filesystem view: mounts, namespaces, roots.

use std::io::Read as _;
use std::os::fd::{AsFd as _, AsRawFd as _};

use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, OpenTreeFlags, UnmountFlags};

use super::{Tried, call, raw, show, stopped, text};

const OPEN_TREE_ATTR: i64 = 467;
const NEW_USER: u64 = libc::CLONE_NEWUSER as u64;

pub(super) fn run(words: &[&str]) -> Option<Tried> {
    Some(match words {
        ["unmount", path] => rustix::mount::unmount(*path, UnmountFlags::DETACH).map_err(stopped),
        ["remount", path] => {
            let flags = MountFlags::BIND | MountFlags::NOSUID | MountFlags::NODEV;
            rustix::mount::mount_remount(*path, flags, c"").map_err(stopped)
        }
        ["make-writable", path] => make_writable(path),
        ["mount", path] => {
            rustix::mount::mount("attack", *path, "tmpfs", MountFlags::empty(), None).map_err(stopped)
        }
        ["new-mount"] => new_mount(),
        ["copy-tree", folder, name] => copy_tree(libc::SYS_open_tree, folder, name),
        ["copy-tree-newly", folder, name] => copy_tree(OPEN_TREE_ATTR, folder, name),
        ["pivot", folder] => std::env::set_current_dir(folder).map_err(stopped).and_then(|()| pivot()),
        ["root", folder] => rustix::process::chroot(*folder).map_err(stopped),
        ["unshare"] => call(libc::SYS_unshare, [NEW_USER as usize, 0, 0, 0, 0, 0]).map(drop),
        ["clone"] => born_apart(|flags| {
            raw::call(libc::SYS_clone, [flags as usize | libc::SIGCHLD as usize, 0, 0, 0, 0, 0])
        }),
        ["clone3"] => born_apart(|flags| {
            let arguments = [flags, 0, 0, 0, libc::SIGCHLD as u64, 0, 0, 0];
            let size = size_of_val(&arguments);
            raw::call(libc::SYS_clone3, [arguments.as_ptr() as usize, size, 0, 0, 0, 0])
        }),
        ["join", namespace, file] => join(namespace, file),
        _ => return None,
    })
}

fn make_writable(path: &str) -> Tried {
    let attributes = [0_u64, libc::MOUNT_ATTR_RDONLY, 0, 0];
    let (path, size) = (text(path), size_of_val(&attributes));
    let pointers = [path.as_ptr() as usize, attributes.as_ptr() as usize];
    let here = libc::AT_FDCWD as usize;
    call(libc::SYS_mount_setattr, [here, pointers[0], 0, pointers[1], size, 0]).map(drop)
}

/// A mount by `fsopen` and `fsmount`, which old seccomp filters do not know.
fn new_mount() -> Tried {
    let made = rustix::mount::fsopen("tmpfs", rustix::mount::FsOpenFlags::empty()).map_err(stopped)?;
    rustix::mount::fsconfig_create(made.as_fd()).map_err(stopped)?;
    let flags = rustix::mount::FsMountFlags::empty();
    rustix::mount::fsmount(made.as_fd(), flags, rustix::mount::MountAttrFlags::empty()).map_err(stopped)?;
    Ok(())
}

/// A non-recursive clone of a mount (`OPEN_TREE_CLONE`): the overlays below it are missing.
fn copy_tree(number: i64, folder: &str, name: &str) -> Tried {
    let path = text(folder);
    let flags = OpenTreeFlags::OPEN_TREE_CLONE.bits() as usize;
    let here = libc::AT_FDCWD as usize;
    let tree = call(number, [here, path.as_ptr() as usize, flags, 0, 0, 0])?;
    let mut content = String::new();
    let within = format!("/proc/self/fd/{tree}/{name}");
    std::fs::File::open(within).and_then(|mut file| file.read_to_string(&mut content)).map_err(stopped)?;
    show(content.as_bytes());
    Ok(())
}

fn pivot() -> Tried {
    rustix::process::pivot_root(".", ".").map_err(stopped)
}

/// A process in a user namespace of its own has every capability there.
fn born_apart(start: impl Fn(u64) -> Result<i64, i32>) -> Tried {
    match start(NEW_USER) {
        Ok(0) => std::process::exit(0),
        Ok(_) => Ok(()),
        Err(error) => Err(stopped(std::io::Error::from_raw_os_error(error))),
    }
}

/// Joins another process's namespace, and reads a file there.
fn join(namespace: &str, file: &str) -> Tried {
    let opened = rustix::fs::open(namespace, OFlags::RDONLY, Mode::empty()).map_err(stopped)?;
    let number = usize::try_from(opened.as_raw_fd()).unwrap();
    call(libc::SYS_setns, [number, 0, 0, 0, 0, 0])?;
    show(&std::fs::read(file).map_err(stopped)?);
    Ok(())
}

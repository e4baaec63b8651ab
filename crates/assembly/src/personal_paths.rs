//! Where the user keeps files that programs execute or obey: home directories and git's configuration files.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::Stat;
use toolgate_workspace::{Mount, PersonalPaths, Workspace};

use crate::ambient::{HostEnvironment, read_regular_file, real_path};
use crate::error::BuildError;
use crate::notices::warn;

/// Uids below this are system accounts, whose homes are system directories.
const MIN_USER_UID: u32 = 1000;

/// The home directories and git configurations that are protected in every mount.
pub fn personal_paths(surroundings: &HostEnvironment) -> Arc<PersonalPaths> {
    let mut homes: Vec<PathBuf> = surroundings.home.iter().map(|home| real_path(home)).collect();
    let passwd = read_regular_file(Path::new("/etc/passwd")).unwrap_or_default();
    let user = rustix::process::getuid().as_raw();
    for home in homes_in(&passwd, user).iter().map(|home| real_path(home)) {
        if !homes.contains(&home) {
            homes.push(home);
        }
    }
    Arc::new(PersonalPaths { homes, git_configs: git_configs(surroundings) })
}

/// The homes of this user and of other regular users in `/etc/passwd`.
fn homes_in(passwd: &[u8], user: u32) -> Vec<PathBuf> {
    let home = |line: &[u8]| {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b':').collect();
        let number: u32 = std::str::from_utf8(fields.get(2)?).ok()?.parse().ok()?;
        let home = Path::new(std::ffi::OsStr::from_bytes(fields.get(5)?));
        let is_meant = number == user || (MIN_USER_UID..u32::from(u16::MAX) - 1).contains(&number);
        (is_meant && home.is_absolute() && home.parent().is_some()).then(|| home.to_path_buf())
    };
    passwd.split(|byte| *byte == b'\n').filter_map(home).collect()
}

/// All places that git reads count: the user may run git with another environment than this process has.
fn git_configs(surroundings: &HostEnvironment) -> Vec<PathBuf> {
    let set = |name| surroundings.var(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let named = [set("GIT_CONFIG_SYSTEM"), set("GIT_CONFIG_GLOBAL"), Some(PathBuf::from("/etc/gitconfig"))];
    let home = |rest: &str| surroundings.home.as_ref().map(|home| home.join(rest));
    let config_home = surroundings.config_home.as_ref().map(|folder| folder.join("git/config"));
    let found = named.into_iter().chain([config_home, home(".config/git/config"), home(".gitconfig")]);
    let mut configs: Vec<PathBuf> = Vec::new();
    for config in found.flatten() {
        if !configs.contains(&config) {
            configs.push(config);
        }
    }
    configs
}

/// Refuses `/` as a mount: it holds every home and the system itself. Compared by device and inode, so neither a symlink nor a bind mount disguises
/// it.
pub fn refuse_root(alias: &str, path: &Path, directory: &std::fs::File) -> Result<(), BuildError> {
    let same = |one: &Stat, other: &Stat| one.st_dev == other.st_dev && one.st_ino == other.st_ino;
    let is_root = match (rustix::fs::fstat(directory), rustix::fs::stat("/")) {
        (Ok(found), Ok(root)) => same(&found, &root),
        _ => true,
    };
    if !is_root {
        return Ok(());
    }
    let message =
        format!("`{}` is the root of the filesystem and cannot be mounted as `{alias}`", path.display());
    Err(BuildError::usage(message).help("name the directory of a project instead"))
}

/// The warning for a mount that is or holds a home directory.
pub const HOLDS_HOME: &str =
    "is or holds a home directory; what shells, git, editors and agents obey there is read-only for tools";

/// Warns of such mounts, once per start.
pub fn warn_of_homes(workspace: &Workspace) {
    let holding = workspace.mounts().iter().filter(|mount| mount.holds_home());
    for alias in holding.map(Mount::alias) {
        warn(&format!("`{alias}` {HOLDS_HOME}; name the directory of a project instead"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homes_are_those_of_people() {
        let passwd = b"root:x:0:0:root:/root:/bin/sh\nsync:x:4:65534::/bin:/bin/sync\nann:x:1000:1000::/home/ann:/bin/sh\n\
            nobody:x:65534:65534::/nonexistent:/bin/false\nodd:x:1001\nbroken:x:1002:1002::relative:/bin/sh\nall:x:1003:1003::/:/bin/sh\n";
        assert_eq!(homes_in(passwd, 0), ["/root", "/home/ann"].map(PathBuf::from));
        assert_eq!(homes_in(passwd, 1000), [PathBuf::from("/home/ann")]);
    }
}

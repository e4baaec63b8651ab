//! Directories of the machine that a person lets one call read.
//!
//! A command that failed on a path outside of its view is answered with that path, whether or not it exists: a model must not learn which paths do. If
//! the same call is made again and a person is asked, the question offers the directory, and only if it can be lent. A lent directory is read-only, at
//! its own path, and confined like a mount: what is denied by name is masked in it.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use toolgate_confine::{ConfineRequest, ConfinedMount, confine};
use toolgate_types::{Deadline, ErrorCode, Escalation, Failure};
use toolgate_workspace::{Mount, Workspace};

use crate::CommandRunner;
use crate::command_denial::CommandDenial;
use crate::command_outcome::CommandOutcome;
use crate::confinement::SandboxRuntime;

/// Opens the directory of a path as a read-only mount with this alias. `None` if it does not exist, or if no person may lend it.
pub type DirectoryOpener = Arc<dyn Fn(&Path, &str) -> Option<Mount> + Send + Sync>;

/// How many paths of a line are reported.
const MAX_PATHS: usize = 2;

/// Where commands have something of their own, or see the system's.
const VISIBLE: [&str; 16] = [
    "/tmp",
    "/proc",
    "/dev",
    "/mnt",
    "/.toolgate",
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix",
    "/gnu",
];

/// Whether a path is one that a person can be asked about: below a top-level directory or the home directory, without `..`, hidden names and
/// characters that could be mistaken for others.
#[must_use]
pub fn is_lendable(path: &Path) -> bool {
    let Some(text) = path.to_str() else { return false };
    let below_root = text.strip_prefix('/').filter(|rest| rest.contains('/'));
    let rest = text.strip_prefix("~/").or(below_root);
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "._/+@-".contains(character);
    rest.is_some_and(|rest| !rest.is_empty() && rest.chars().all(is_plain) && !rest.contains("//"))
        && text.split('/').skip(1).all(|name| !name.starts_with('.'))
        && path.components().all(|part| !matches!(part, Component::ParentDir))
        && !VISIBLE.iter().any(|visible| path.starts_with(visible))
}

/// The paths in a shell line that a person could be asked about.
fn path_words(line: &str) -> impl Iterator<Item = &str> {
    let is_separator = |character: char| character.is_whitespace() || "'\"`;|&<>()=:,".contains(character);
    let words = line.split(is_separator).map(|word| word.trim_end_matches('/'));
    words.filter(|word| is_lendable(Path::new(word)))
}

impl CommandOutcome {
    /// Reports the paths that the line names and the failed command, by its output, did not find; returns them.
    pub fn report_unseen_paths(
        &mut self,
        (line, output): (&str, Option<&str>),
        lent: &[PathBuf],
    ) -> Vec<PathBuf> {
        if self.exit_code().is_none_or(|code| code == 0) {
            return Vec::new();
        }
        let mut unseen: Vec<PathBuf> = Vec::new();
        for word in path_words(line) {
            // The shell expands `~` to the home directory of the sandbox.
            let shown = word.strip_prefix('~').map_or(word.to_owned(), |rest| format!("/tmp/home{rest}"));
            let path = PathBuf::from(word);
            let is_known = unseen.contains(&path) || lent.iter().any(|lent| path.starts_with(lent));
            if !is_known && unseen.len() < MAX_PATHS && output.unwrap_or(&self.captured.both).contains(&shown)
            {
                unseen.push(path);
            }
        }
        self.denied.extend(unseen.iter().map(|path| CommandDenial {
            what: "read",
            target: Some(path.display().to_string()),
            reason: "commands see the workspace and the system, and nothing else of the machine".to_owned(),
            remedy: "the operator can show it with `sandbox.read`".to_owned(),
        }));
        unseen
    }
}

impl CommandRunner {
    /// Of these paths, the directories that a person may let a call read.
    #[must_use]
    pub fn lendable_directories(&self, paths: &[PathBuf]) -> Vec<PathBuf> {
        let open = self.options.open_directory.as_ref().filter(|_| self.options.escalation.directories);
        let found = paths.iter().filter_map(|path| Some(open?(path, "@lent")?.host_root().to_path_buf()));
        let mut directories: Vec<PathBuf> = found.collect();
        directories.dedup();
        directories
    }

    /// The directories that a person let a call read, as mounts.
    pub(crate) fn lent_workspace(&self, escalation: &Escalation) -> Result<Option<Workspace>, Failure> {
        if escalation.directories.is_empty() {
            return Ok(None);
        }
        let refused = || {
            let message = "a directory that this call was let read cannot be shown to it any more";
            Failure::new(ErrorCode::NotPermitted, message).help("go on without it")
        };
        let open = self.options.open_directory.as_ref().filter(|_| self.options.escalation.directories);
        let open = open.ok_or_else(refused)?;
        let mount = |(number, path): (usize, &PathBuf)| {
            let mount = open(path, &format!("@lent{number}")).filter(|mount| mount.host_root() == path);
            mount.ok_or_else(refused)
        };
        let mounts: Vec<Mount> =
            escalation.directories.iter().enumerate().map(mount).collect::<Result<_, _>>()?;
        Workspace::new(mounts).map(Some).map_err(|_| refused())
    }
}

/// Confines lent directories like mounts.
pub(crate) fn confine_lent<'l>(
    lent: &'l Workspace,
    made: SandboxRuntime<'_>,
    stop: &Deadline,
) -> Result<Vec<ConfinedMount<'l>>, Failure> {
    if !made.sandbox.has_mount_namespace() {
        let message = "without a mount namespace a command cannot be shown another directory";
        return Err(Failure::new(ErrorCode::NotPermitted, message).help("go on without it"));
    }
    let requests: Vec<ConfineRequest<'_>> =
        lent.mounts().iter().map(|mount| ConfineRequest { alias: mount.alias(), writable: false }).collect();
    Ok(confine(lent, &requests, None, stop)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_a_person_can_be_asked_about_are_plain() {
        for (line, expected) in [
            ("cat /home/me/other/notes.md", vec!["/home/me/other/notes.md"]),
            ("grep -r --file=/srv/words x ~/other 2>/data/log", vec!["/srv/words", "~/other", "/data/log"]),
            ("cat '/home/me/a b' \"/home/me/x\"", vec!["/home/me/a", "/home/me/x"]),
            ("cat /home/me/.ssh/id ~/.aws /home/me/../you/x /home//me/x", vec![]),
            ("cat /etc/passwd /usr/x /tmp/x /mnt/project/x /proc/1 / ~ ~/ /home /srv/", vec![]),
            ("cat /home/me/ot\u{04bb}er /home/me/\u{202e}x /home/$USER/x /home/me/*", vec![]),
        ] {
            assert_eq!(path_words(line).collect::<Vec<_>>(), expected, "{line}");
        }
    }
}

//! Project instructions: `AGENTS.md` and `CLAUDE.md` of a workspace, which count only if the user agreed to them, byte for byte.
//!
//! A repository may contain such a file, and a model may write one. So it is data until the user has seen it. It is read through the workspace: the
//! deny list, the scope and the mount's symlink rules hold for it as for any call.

use std::path::{Path, PathBuf};

use toolgate_types::{Deadline, Limits, Sha256};
use toolgate_workspace::{EntireContent, PathStyle, Workspace, WorkspaceError, WorkspaceView};

use super::agreements::{Agreement, AgreementStore};
use crate::error::BuildError;

/// The files, in the order in which they are given to a model.
pub const INSTRUCTION_FILES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

/// A longer file is left out.
pub const MAX_INSTRUCTION_BYTES: u64 = 32 * 1024;

/// A file of project instructions, as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectInstructions {
    /// Its name, one of [`INSTRUCTION_FILES`].
    pub name: &'static str,
    /// Its path on this host, which names it among the agreements.
    pub file: PathBuf,
    /// Its content.
    pub text: String,
}

/// Whether the user agreed to project instructions.
#[derive(Debug)]
pub enum InstructionStatus {
    /// Agreed to, exactly as they are.
    Agreed,
    /// Never agreed to.
    New,
    /// Agreed to in an earlier version.
    Changed(Box<Agreement>),
}

/// Whether a file is one of project instructions, by its name.
#[must_use]
pub fn is_instruction_file(file: &Path) -> bool {
    INSTRUCTION_FILES.iter().any(|name| file.file_name().is_some_and(|known| known == *name))
}

/// The project instructions at the root of the default mount, and why others were left out.
#[must_use]
pub fn find_instructions(workspace: &Workspace, limits: &Limits) -> (Vec<ProjectInstructions>, Vec<String>) {
    let (mut found, mut left_out) = (Vec::<ProjectInstructions>::new(), Vec::new());
    for name in INSTRUCTION_FILES {
        match read(workspace, limits, name) {
            Ok(Some(instructions)) if found.iter().all(|other| other.text != instructions.text) => {
                found.push(instructions);
            }
            Ok(_) => {}
            Err(reason) => left_out.push(format!("`{name}` is left out: {reason}")),
        }
    }
    (found, left_out)
}

fn read(
    workspace: &Workspace,
    limits: &Limits,
    name: &'static str,
) -> Result<Option<ProjectInstructions>, String> {
    let Some(mount) = workspace.mounts().iter().find(|mount| mount.is_default()) else { return Ok(None) };
    let view = WorkspaceView {
        workspace,
        style: PathStyle::AliasOnly,
        limits,
        grant: None,
        stop: &Deadline::never(),
        unlocked: None,
    };
    let read = match view.read_entire(&format!("{}/{name}", mount.alias()), MAX_INSTRUCTION_BYTES) {
        Ok(read) => read,
        Err(WorkspaceError::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    match read.content {
        EntireContent::Text(text) if text.as_str().trim().is_empty() => Ok(None),
        EntireContent::Text(text) => {
            let (file, text) = (mount.host_root().join(name), text.into_string());
            Ok(Some(ProjectInstructions { name, file, text }))
        }
        EntireContent::Bytes(_) => Err("it is not UTF-8 text".to_owned()),
    }
}

impl ProjectInstructions {
    /// The digest that an agreement holds.
    #[must_use]
    pub fn digest(&self) -> Sha256 {
        Sha256::of(self.text.as_bytes())
    }

    /// Compares with the agreement.
    ///
    /// # Errors
    /// The agreements cannot be read, or another user could have written them.
    pub fn status(&self, agreements: &AgreementStore) -> Result<InstructionStatus, BuildError> {
        Ok(match agreements.find(&self.file)? {
            None => InstructionStatus::New,
            Some(before) if before.digest == self.digest() => InstructionStatus::Agreed,
            Some(before) => InstructionStatus::Changed(Box::new(before)),
        })
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "files are made by hand")]
mod tests {
    use std::time::Duration;

    use toolgate_workspace::{Mount, MountAccess, MountRules};

    use super::*;

    const LIMITS: Limits = Limits {
        max_read_bytes: 1 << 20,
        max_resource_bytes: 1 << 20,
        max_write_bytes: 1 << 20,
        max_entries: 100,
        max_matches: 100,
        max_output_bytes: 1 << 20,
        timeout: Duration::from_secs(10),
    };

    fn found(folder: &Path, rules: MountRules) -> (Vec<String>, Vec<String>) {
        let open = std::fs::File::open(folder).unwrap();
        let mount = Mount::new("@project", open, folder, MountAccess::ReadWrite, rules).unwrap();
        let workspace = Workspace::new(vec![mount.as_default()]).unwrap();
        let (found, left_out) = find_instructions(&workspace, &LIMITS);
        (found.into_iter().map(|found| format!("{}: {}", found.name, found.text)).collect(), left_out)
    }

    #[test]
    fn only_files_within_the_rules_of_the_mount_are_found() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("w");
        std::fs::create_dir(&folder).unwrap();
        let write = |name: &str, text: &[u8]| std::fs::write(folder.join(name), text).unwrap();
        let none = || MountRules::new();
        assert_eq!(found(&folder, none()), (vec![], vec![]));
        write("AGENTS.md", b"one");
        write("CLAUDE.md", b"one");
        assert_eq!(found(&folder, none()).0, ["AGENTS.md: one"], "the same text counts once");
        write("CLAUDE.md", b"two");
        assert_eq!(found(&folder, none()).0, ["AGENTS.md: one", "CLAUDE.md: two"]);
        let denied = none().deny(&["CLAUDE.md".to_owned()]).unwrap();
        let (kept, left_out) = found(&folder, denied);
        assert_eq!((kept.len(), left_out.len()), (1, 1), "{left_out:?}");
        write("AGENTS.md", &vec![b'x'; 40_000]);
        write("CLAUDE.md", b"\xff");
        let (kept, left_out) = found(&folder, none());
        assert_eq!((kept.len(), left_out.len()), (0, 2), "{left_out:?}");
        // A symlink that leads out of the mount is not followed.
        std::fs::write(scratch.path().join("secret"), "secret").unwrap();
        for name in INSTRUCTION_FILES {
            std::fs::remove_file(folder.join(name)).unwrap();
            std::os::unix::fs::symlink("../secret", folder.join(name)).unwrap();
        }
        let (kept, left_out) = found(&folder, none());
        assert_eq!((kept.len(), left_out.len()), (0, 2), "{left_out:?}");
    }
}

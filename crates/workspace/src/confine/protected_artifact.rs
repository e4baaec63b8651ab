//! What may not stay where a command left it.

use std::path::{Path, PathBuf};

use super::leftover::Leftover;
use super::mount_tree::FileIdentity;
use super::repositories::{RepositoryPart, part};
use crate::autorun_files::ends_at_autorun_file;
use crate::name_fold::fold;

/// Why something may not stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProtectedArtifactKind {
    /// Git would run it.
    Hook,
    /// A configuration that makes git run or obey something.
    GitConfig,
    /// A `.git` or `commondir` file that leads git to a repository which is not where those of worktrees and submodules are.
    GitPointer,
    /// What a repository's configuration makes git run or include.
    GitTarget,
    /// Steps of a rebase that run something.
    GitTodo,
    /// A configuration that another program obeys: Mercurial's, Jujutsu's, direnv's, an editor's, another agent's.
    ProgramConfig,
    /// A configuration or a kept file of a gate.
    GateConfig,
    /// Where this gate keeps its own files.
    OwnFile,
    /// A link with a protected name.
    Link,
    /// What makes a repository of a folder that was none: it has hooks or a configuration that nobody looked at.
    Repository,
    /// A folder that cannot be looked into.
    Unreadable,
}

impl ProtectedArtifactKind {
    /// All kinds.
    pub(super) const ALL: [Self; 11] = [
        Self::Hook,
        Self::GitConfig,
        Self::GitPointer,
        Self::GitTarget,
        Self::GitTodo,
        Self::ProgramConfig,
        Self::GateConfig,
        Self::OwnFile,
        Self::Link,
        Self::Repository,
        Self::Unreadable,
    ];

    /// The kind as records write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hook => "hook",
            Self::GitConfig => "git_config",
            Self::GitPointer => "git_pointer",
            Self::GitTarget => "git_target",
            Self::GitTodo => "git_todo",
            Self::ProgramConfig => "program_config",
            Self::GateConfig => "gate_config",
            Self::OwnFile => "own_file",
            Self::Link => "link",
            Self::Repository => "repository",
            Self::Unreadable => "closed_folder",
        }
    }
}

/// What a command left in a mount that may not stay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PostRunScan {
    /// What was found, in path order.
    pub found: Vec<ProtectedArtifact>,
    /// Whether not everything could be looked at in time, so that there may be more.
    pub incomplete: bool,
    /// Whether a directory moved away before it could be read: something was certainly not seen where it is, and another walk may see it.
    pub missed: bool,
    /// What stays and is only told, in path order.
    pub leftovers: Vec<Leftover>,
}

/// Something that a command left under a protected name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtectedArtifact {
    /// Where it is, relative to the mount.
    pub location: PathBuf,
    /// Why it may not stay.
    pub kind: ProtectedArtifactKind,
    pub(super) identity: FileIdentity,
}

impl ProtectedArtifact {
    pub(super) fn directory(&self) -> Option<&Path> {
        self.location.parent()
    }

    /// The repository whose part this is.
    pub(super) fn repository(&self) -> Option<&Path> {
        let name = self.location.file_name()?;
        match (self.kind, part(&fold(Path::new(name)))) {
            (ProtectedArtifactKind::Hook, Some(RepositoryPart::Hooks)) => self.directory(),
            (ProtectedArtifactKind::Hook, _) => self.directory()?.parent(),
            (
                ProtectedArtifactKind::GitConfig
                | ProtectedArtifactKind::GitPointer
                | ProtectedArtifactKind::Link,
                Some(_),
            ) => self.directory(),
            _ => None,
        }
    }
}

/// Which program obeys a file at this folded place.
pub(super) fn autorun_kind(folded: &str) -> Option<ProtectedArtifactKind> {
    const PROGRAMS: [&str; 5] =
        [".envrc", ".hg/hgrc", ".hg/hgrc-not-shared", ".jj/repo/config.toml", ".jj/workspace-config.toml"];
    const GATES: [&str; 2] = ["toolgate.yaml", "toolgate.yml"];
    let ends_with = |names: &str| {
        folded.strip_suffix(names).is_some_and(|before| before.is_empty() || before.ends_with('/'))
    };
    if PROGRAMS.iter().any(|names| ends_with(names)) || ends_at_autorun_file(folded, false) {
        Some(ProtectedArtifactKind::ProgramConfig)
    } else if folded.ends_with(".toolgate") || GATES.iter().any(|names| ends_with(names)) {
        Some(ProtectedArtifactKind::GateConfig)
    } else {
        None
    }
}

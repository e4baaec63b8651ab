//! Files and directories that must not stay where a command left them.

use std::path::{Path, PathBuf};

use crate::autorun_files::ends_at_autorun_file;
use crate::file_identity::FileIdentity;
use crate::name_fold::fold;
use crate::repository_names::{RepositoryPart, part};

/// Why something must not stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProtectedArtifactKind {
    /// Git would execute it.
    Hook,
    /// A configuration that makes git execute or include something.
    GitConfig,
    /// A `.git` or `commondir` file that points to a repository outside of where worktrees and submodules are kept.
    GitPointer,
    /// A file that a repository's configuration makes git execute or include.
    GitTarget,
    /// Steps of a rebase that execute something.
    GitTodo,
    /// A configuration of another program: Mercurial, Jujutsu, direnv, an editor, another agent.
    ProgramConfig,
    /// A configuration or journal file of a gate.
    GateConfig,
    /// A place where this gate keeps its own files.
    OwnFile,
    /// A symlink with a protected name.
    Link,
    /// What turns a directory into a repository: its hooks and configuration were not checked before.
    Repository,
    /// A directory that cannot be read.
    Unreadable,
}

impl ProtectedArtifactKind {
    /// All kinds.
    pub const ALL: [Self; 11] = [
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

    /// The kind as the audit log writes it.
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

/// Something that a command left under a protected name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtectedArtifact {
    /// Where it is, relative to the mount.
    pub location: PathBuf,
    /// Why it must not stay.
    pub kind: ProtectedArtifactKind,
    /// The file, to detect a replacement.
    pub identity: FileIdentity,
}

impl ProtectedArtifact {
    /// The directory that it lies in.
    #[must_use]
    pub fn directory(&self) -> Option<&Path> {
        self.location.parent()
    }

    /// The repository that this belongs to.
    #[must_use]
    pub fn repository(&self) -> Option<&Path> {
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

/// The kind of a file at this folded place that a program executes or reads as configuration.
#[must_use]
pub fn autorun_kind(folded: &str) -> Option<ProtectedArtifactKind> {
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

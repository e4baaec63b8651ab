//! File access through directory handles only.
//!
//! A workspace is a set of mounts. A path is untrusted text: it selects a mount and names below it. The kernel opens those names beneath the mount's
//! handle, and every rule is applied to what was opened. Nothing here checks a path and then uses it (no TOCTOU): the checked handle is the one that
//! is used. Changes are staged in an unnamed file, recorded in the journal, and made by one atomic rename, so a crash leaves the old file or the new
//! one.
//!
//! This crate knows no tool, no profile and no policy. It answers with shown paths and typed errors, never with a host path.

mod name_fold;
mod deny_list;
mod autorun_files;
mod home_files;
mod file_marks;
mod rules;
mod location;
mod mount;
mod repository;
mod requested_path;
mod view;
mod open;
mod locate;
mod read;
mod file_contents;
mod large_file;
mod browse;
mod change;
mod file_target;
mod file_attributes;
mod background_fsync;
mod staged_file;
mod swap;
mod transaction;
mod write;
mod patch;
mod move_delete;
mod restore;
mod git_config;
mod git_discovery;
mod repository_names;
mod file_identity;
mod protected_artifact;
mod autorun_targets;
mod pathspecs;
mod append_counter;
mod reserve;
mod error;
#[cfg(test)]
mod testing;

pub use append_counter::{AppendCounter, COUNTER_STEP, counter_units};
pub use autorun_files::AUTORUN_FILES;
pub use browse::{FilePage, FoundFiles, FoundLines, ListResult, WalkGaps};
pub use change::{
    ChangeKind, ContentDigest, FileStamp, JournalError, KeptBound, NoopRecorder, PlannedChange, Recorder,
    TransactionOutcome,
};
pub use deny_list::{Above, DEFAULT_DENY};
pub use error::{WorkspaceError, WriteBound};
pub use file_attributes::copy_attributes;
pub use file_marks::{FileMark, MARKED, mark};
pub use git_config::sanitised_git_config;
pub use home_files::HOME_AUTORUN_FILES;
pub use locate::LocatedFile;
pub use mount::{Mount, MountAccess, MountError, PersonalPaths, RootIdentity, is_alias};
pub use move_delete::{Deleted, MoveResult, Overwrite};
pub use patch::{PatchAction, Patched, PatchedFile};
pub use read::{EntireContent, EntireFile, FileContent, FileRead, ReadRequest, TextWindow};
pub use requested_path::PathStyle;
pub use reserve::{DiskReserve, Headroom, USUAL_RESERVE_BYTES};
pub use restore::{ExpectedContent, LockTimeout, MovedFile, Restoration};
pub use rules::{DenyingRule, InvalidGlob, MountRules, PathGrant};
pub use toolgate_search::{
    EntryKind, FindOptions, Hidden, ListOptions, ListedEntry, Match, MatchLine, SearchOptions,
};
pub use view::{HardLinks, Workspace, WorkspaceView};
pub use write::{DryRun, Transformed, WriteResult};

/// The rules for names, git repositories and autorun files, for `toolgate-confine`. A caller of these applies the rules of a mount itself.
pub mod internals {
    pub use crate::autorun_files::{
        autorun_directories, ends_at_autorun_file, is_in_package, may_trigger_execution,
    };
    pub use crate::autorun_targets::{
        AutorunTarget, TargetPurpose, follow, new_targets, targets, targets_from_above, worktree_targets,
    };
    pub use crate::deny_list::may_be_denied;
    pub use crate::file_identity::{
        FileIdentity, identify_place, identity, open_parent, read_prefix, read_small,
    };
    pub use crate::file_target::open_directory;
    pub use crate::git_config::{ConfigVerdict, MAX_CONFIG_BYTES, RefusedSettings, judge, setting_values};
    pub use crate::git_discovery::{GitConfigFile, personal_configurations};
    pub use crate::name_fold::fold;
    pub use crate::open::OpenedFile;
    pub use crate::protected_artifact::{ProtectedArtifact, ProtectedArtifactKind, autorun_kind};
    pub use crate::repository_names::{RepositoryPart, has_name, is_head, is_repository, part};
    pub use crate::swap::rename_to_free_name;
}

//! Shared by unit tests: a workspace of one directory.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests arrange files by hand and fail by panicking"
)]

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use toolgate_types::{Deadline, Limits};

use crate::{Mount, MountAccess, MountRules, PathStyle, Workspace, WorkspaceView};

pub(crate) const LIMITS: Limits = Limits {
    max_read_bytes: 1 << 20,
    max_resource_bytes: u64::MAX,
    max_write_bytes: 1 << 20,
    max_entries: 10,
    max_matches: 10,
    max_output_bytes: 1 << 20,
    timeout: Duration::from_secs(60),
};

pub(crate) fn mount(alias: &str, root: &Path) -> Mount {
    Mount::new(alias, File::open(root).unwrap(), root, MountAccess::ReadWrite, MountRules::new()).unwrap()
}

/// A workspace whose only mount is this directory.
pub(crate) fn workspace(root: &Path) -> Workspace {
    Workspace::new(vec![mount("@w", root).as_default()]).unwrap()
}

pub(crate) fn view<'a>(workspace: &'a Workspace, stop: &'a Deadline) -> WorkspaceView<'a> {
    WorkspaceView { workspace, style: PathStyle::Free, limits: &LIMITS, grant: None, stop, unlocked: None }
}

//! Starts a run: its `@state` gets the package's workflow.

use toolgate_types::{Deadline, Limits};
use toolgate_workspace::{
    FileContent, NoopRecorder, PathStyle, ReadRequest, Workspace, WorkspaceError, WorkspaceView,
};

use super::workflow::WORKFLOW;

const PACKAGE_WORKFLOW: &str = "@pkg/workflow.md";

/// Why a run could not start.
#[derive(Debug)]
pub struct RunError(WorkspaceError);

impl std::fmt::Display for RunError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "the run cannot begin: {}", self.0)
    }
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

/// Copies the package's `workflow.md` into a new run. Does nothing if the run has one or the package has none.
///
/// # Errors
/// The workflow cannot be read or written.
pub(super) fn initialise_run(workspace: &Workspace, limits: &Limits) -> Result<bool, RunError> {
    if workspace.mount("@pkg").is_none() || workspace.mount("@state").is_none() {
        return Ok(false);
    }
    let limits = Limits { max_read_bytes: 4 << 20, max_write_bytes: 4 << 20, ..*limits };
    let stop = Deadline::never();
    let view = WorkspaceView {
        workspace,
        style: PathStyle::AliasOnly,
        limits: &limits,
        grant: None,
        stop: &stop,
        unlocked: Some(WORKFLOW),
    };
    if view.digest_of(WORKFLOW).map_err(RunError)?.is_some() {
        return Ok(false);
    }
    let read =
        match view.read(PACKAGE_WORKFLOW, &ReadRequest { refuse_oversize: true, ..ReadRequest::default() }) {
            Err(WorkspaceError::NotFound { .. }) => return Ok(false),
            other => other.map_err(RunError)?,
        };
    let FileContent::Text(window) = read.content else {
        return Err(RunError(WorkspaceError::Binary { path: read.path }));
    };
    view.write(WORKFLOW, window.text.as_bytes(), None, &NoopRecorder).map_err(RunError)?;
    Ok(true)
}

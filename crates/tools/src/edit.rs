//! Edits by exact replacement, shared by every profile that offers them.

use std::cell::Cell;

use toolgate_text::edit::{Edit, apply_cancellable};
use toolgate_types::Failure;
use toolgate_workspace::{DryRun, Recorder, Transformed, WorkspaceView};

/// Applies the edits, all or none, and returns the number of replacements.
pub(crate) fn edit(
    view: &WorkspaceView<'_>,
    path: &str,
    edits: &[Edit],
    rehearsal: DryRun,
    recorder: &dyn Recorder,
) -> Result<(Transformed, usize), Failure> {
    let limit = usize::try_from(view.limits.max_write_bytes).unwrap_or(usize::MAX);
    let go_on = || view.stop.reason().is_none();
    let replaced = Cell::new(0);
    let change = |before: &str| {
        let edited = apply_cancellable(before, edits, limit, &go_on).map_err(Failure::from)?;
        replaced.set(edited.replacements.iter().sum());
        Ok(edited.text)
    };
    let transformed = view.transform(path, None, rehearsal, &change, recorder)?;
    Ok((transformed, replaced.get()))
}

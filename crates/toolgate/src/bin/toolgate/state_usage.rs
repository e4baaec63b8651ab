//! The disk usage of the state directory with its limits, for `doctor` and `/metrics`.

use std::path::Path;

use cap_std::fs::{Dir, MetadataExt as _};
use toolgate_confine::QuarantineBounds;
use toolgate_gate::{Journal, JournalBounds};
use toolgate_manifest::RetentionConfig;
use toolgate_serve::{OutputBounds, StateUsage};
use toolgate_session::SessionBounds;

use toolgate_assembly::ambient::open_private_directory;
use toolgate_assembly::gate_builder::{JOURNAL, OUTPUTS, QUARANTINE, SESSIONS};

/// The most entries that are scanned; beyond it, the result is a lower bound.
const MAX_SCANNED_ENTRIES: usize = 200_000;
/// Deeper directories are not scanned: only a command creates them, and they only end up in the quarantine.
const MAX_DEPTH: usize = 64;

/// The retention limits of outputs.
pub(crate) fn output_bounds(retention: &RetentionConfig) -> OutputBounds {
    let standard = OutputBounds::default();
    OutputBounds {
        max_bytes: retention.outputs.max_bytes.unwrap_or(standard.max_bytes),
        max_age: retention.outputs.max_age.unwrap_or(standard.max_age),
    }
}

/// The retention limits of conversations.
pub(crate) fn session_bounds(retention: &RetentionConfig) -> SessionBounds {
    let standard = SessionBounds::default();
    SessionBounds {
        max_bytes: retention.sessions.max_bytes.unwrap_or(standard.max_bytes),
        max_age: retention.sessions.max_age.unwrap_or(standard.max_age),
    }
}

/// The disk usage of each kind of state. The journal reports how many entries it has dropped.
pub(crate) fn state_usage(
    state_dir: &Path,
    retention: &RetentionConfig,
    journal: Option<&Journal>,
) -> Vec<StateUsage> {
    let undo = JournalBounds::from(retention.undo).max_bytes;
    let quarantine = retention.quarantine.max_bytes.unwrap_or(QuarantineBounds::default().max_bytes);
    let areas = [
        ("undo", JOURNAL, Some(undo)),
        ("quarantine", QUARANTINE, Some(quarantine)),
        ("outputs", OUTPUTS, Some(output_bounds(retention).max_bytes)),
        ("sessions", SESSIONS, Some(session_bounds(retention).max_bytes)),
        ("runs", "runs", None),
        ("audit", "audit", None),
    ];
    let state = open_private_directory(state_dir);
    let dropped = journal.map(|journal| journal.dropped().entries);
    let measured = |(area, folder, max_bytes)| {
        let (files, bytes) = match state.as_ref().map(|state| state.open_dir(folder)) {
            Ok(Ok(folder)) => measure(folder),
            _ => (0, 0),
        };
        let dropped = dropped.filter(|_| area == "undo");
        StateUsage { area, files, bytes, max_bytes, dropped }
    };
    areas.map(measured).into()
}

/// The number of files below a directory, and their total size.
fn measure(top: Dir) -> (u64, u64) {
    let (mut open, mut files, mut bytes, mut looked_at) = (vec![(top, 0)], 0_u64, 0_u64, 0);
    while let Some((folder, depth)) = open.pop() {
        for entry in folder.entries().into_iter().flatten().flatten() {
            looked_at += 1;
            if looked_at > MAX_SCANNED_ENTRIES {
                return (files, bytes);
            }
            let Ok(metadata) = entry.metadata() else { continue };
            if !metadata.is_dir() {
                files += 1;
                bytes = bytes.saturating_add(metadata.blocks().saturating_mul(512));
            } else if depth < MAX_DEPTH {
                open.extend(entry.open_dir().ok().map(|folder| (folder, depth + 1)));
            }
        }
    }
    (files, bytes)
}

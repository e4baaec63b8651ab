//! `retention`: limits of the state directory.

use toolgate_types::RetentionBounds;

use crate::decode::{ConfigField, KeySpec, Section, count, duration, key, size};
use crate::problem_report::ProblemReport;

const RETENTION: &[KeySpec] = &[
    key("undo", "undo: {max_bytes: 1GiB, max_entries: 10000, max_age: 30d}"),
    key("quarantine", "quarantine: {max_bytes: 256MiB, max_age: 30d}"),
    key("outputs", "outputs: {max_bytes: 64MiB, max_age: 15m}"),
    key("sessions", "sessions: {max_bytes: 1GiB, max_age: 90d}"),
    key("logs", "logs: {max_bytes: 16MiB}"),
];

const COUNTED: &[KeySpec] = &[
    key("max_bytes", "max_bytes: 1GiB"),
    key("max_entries", "max_entries: 10000"),
    key("max_age", "max_age: 30d"),
];
const SIZED: &[KeySpec] = &[key("max_bytes", "max_bytes: 256MiB"), key("max_age", "max_age: 30d")];
const ROTATED: &[KeySpec] = &[key("max_bytes", "max_bytes: 16MiB")];

/// `retention`: limits of the state directory. Absent values have built-in defaults. The audit log is not included: it is never truncated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionConfig {
    /// `undo`: what file tools replaced.
    pub undo: RetentionBounds,
    /// `quarantine`: what commands left under protected names.
    pub quarantine: RetentionBounds,
    /// `outputs`: full outputs that were too long for a result.
    pub outputs: RetentionBounds,
    /// `sessions`: conversations.
    pub sessions: RetentionBounds,
    /// `logs`: the log of one run.
    pub logs: RetentionBounds,
}

pub(crate) fn retention(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<RetentionConfig> {
    let section = Section::read(field, RETENTION, report)?;
    let mut get = |name, keys| {
        section.get(name, report, |field, report| bounds(field, keys, report)).unwrap_or_default()
    };
    Some(RetentionConfig {
        undo: get("undo", COUNTED),
        quarantine: get("quarantine", SIZED),
        outputs: get("outputs", SIZED),
        sessions: get("sessions", SIZED),
        logs: get("logs", ROTATED),
    })
}

fn bounds(
    field: &ConfigField,
    keys: &'static [KeySpec],
    report: &mut ProblemReport<'_>,
) -> Option<RetentionBounds> {
    let section = Section::read(field, keys, report)?;
    let mut bounds =
        RetentionBounds { max_bytes: section.get("max_bytes", report, size), ..RetentionBounds::default() };
    if keys.len() > 1 {
        bounds.max_age = section.get("max_age", report, duration);
    }
    if keys.len() > 2 {
        bounds.max_entries = section.get("max_entries", report, count);
    }
    Some(bounds)
}

//! The preview that a person sees before approving a call.
//!
//! The call is executed up to the point where a change would become visible: a [`Recorder`] captures the planned changes and then fails. So the
//! preview lists the files that paths resolved to, not the paths as written, and cannot omit one.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::sync::Mutex;

use serde_json::Value;
use toolgate_gate::{ExpectedChange, Preview, PreviewBody};
use toolgate_text::confusables::quote_value;
use toolgate_text::diff::unified;
use toolgate_types::{Deadline, ErrorCode, Failure, Sha256};
use toolgate_workspace::{
    ChangeKind, FileMark, JournalError, ListOptions, PathStyle, PlannedChange, Recorder, TransactionOutcome,
    WorkspaceError, WorkspaceView, mark,
};

use crate::file_tool::{FileOperation, PreviewOperation};

/// Unchanged lines around each change in a diff.
pub(crate) const DIFF_CONTEXT: usize = 3;

/// Beyond this many marked files of one kind, only their number is shown.
const MAX_NAMED: usize = 3;

/// How often a preview is retried when files change concurrently.
const MAX_ATTEMPTS: usize = 4;

/// How a call changes the text of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// The content is replaced.
    Replace,
    /// The content is edited.
    Edit,
    /// The text is appended.
    Append,
}

/// What is shown of a call besides the list of changed files.
pub(crate) enum PreviewContent {
    /// One file gets this text.
    Text(Verb, String),
    /// Several files change by this diff.
    Diff(String),
}

/// The preview of a call that changes something.
pub(crate) fn of_change(
    view: &WorkspaceView<'_>,
    arguments: &Value,
    work: &FileOperation,
    show: Option<&PreviewOperation>,
) -> Result<Preview, Failure> {
    match build_preview(view, arguments, work, show) {
        Ok(preview) => Ok(preview),
        Err(failure) if failure.code.is_denial() => Err(failure),
        // It may succeed by the time of approval; but then it does something other than what was approved, so the expected changes are empty.
        Err(failure) => Ok(Preview {
            summary: vec![format!("this call would fail now: {failure}")],
            expected_changes: Some(Vec::new()),
            would_fail: Some(failure),
            ..Preview::of_arguments(arguments)
        }),
    }
}

fn build_preview(
    view: &WorkspaceView<'_>,
    arguments: &Value,
    work: &FileOperation,
    show: Option<&PreviewOperation>,
) -> Result<Preview, Failure> {
    for _ in 0..MAX_ATTEMPTS {
        let Some(foreseen) = dry_run(view, arguments, work)? else {
            let summary = vec!["changes nothing".to_owned()];
            return Ok(Preview {
                summary,
                expected_changes: Some(Vec::new()),
                ..Preview::of_arguments(arguments)
            });
        };
        let shown = show.map(|show| show(view, arguments.clone())).transpose()?;
        let Some((mut summary, body)) = describe(view, &foreseen, shown.as_ref()) else { continue };
        // After the first line, where they are visible however many files follow.
        let behind = summary.len().min(1);
        summary.splice(behind..behind, marks(view, &foreseen));
        // The preview was built from several reads of the files; it is accurate if a second dry run gives the same result.
        if dry_run(view, arguments, work)?.as_ref() == Some(&foreseen) {
            let changes = foreseen.into_iter().map(|foreseen| foreseen.change).collect();
            return Ok(Preview { summary, body, expected_changes: Some(changes), would_fail: None });
        }
    }
    Err(Failure::new(ErrorCode::PreconditionFailed, "the files keep changing").help("try again"))
}

/// A file that would change, with its current text if it can be shown.
#[derive(PartialEq)]
struct PreviewedChange {
    change: ExpectedChange,
    text: Option<String>,
}

/// Executes the call up to the point before it changes anything; `None` if it changes nothing.
fn dry_run(
    view: &WorkspaceView<'_>,
    arguments: &Value,
    work: &FileOperation,
) -> Result<Option<Vec<PreviewedChange>>, Failure> {
    let foresight = PreviewRecorder { limit: view.limits.max_write_bytes, seen: Mutex::default() };
    let outcome = work(view, arguments.clone(), &foresight);
    match foresight.seen.into_inner() {
        Ok(Some(seen)) => Ok(Some(seen)),
        _ => outcome.map(|_| None),
    }
}

/// Captures the planned changes, and fails so that none of them happens.
struct PreviewRecorder {
    limit: u64,
    seen: Mutex<Option<Vec<PreviewedChange>>>,
}

impl Recorder for PreviewRecorder {
    fn record(&self, changes: &[PlannedChange<'_>], stop: &Deadline) -> Result<(), JournalError> {
        let look = |planned: &PlannedChange<'_>| {
            let change = ExpectedChange::observe(planned, stop).map_err(|error| error.to_string())?;
            let text = planned.before.and_then(|file| text_of(file, self.limit));
            Ok(PreviewedChange { change, text })
        };
        let seen = changes.iter().map(look).collect::<Result<_, String>>()?;
        if let Ok(mut known) = self.seen.lock() {
            *known = Some(seen);
        }
        Err(JournalError::Failed("this is a rehearsal".to_owned()))
    }

    fn begin(&self) -> Result<(), JournalError> {
        Err(JournalError::Failed("this is a rehearsal".to_owned()))
    }

    fn await_intent(&self) -> Result<(), String> {
        Err("this is a rehearsal".to_owned())
    }

    fn settle(&self, _settled: TransactionOutcome) {}
}

/// The whole text of a file, if it is UTF-8 without NUL and within the limit.
fn text_of(mut file: &File, limit: u64) -> Option<String> {
    let mut bytes = Vec::new();
    file.rewind().ok()?;
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).ok()?;
    file.rewind().ok()?;
    if bytes.len() as u64 > limit || bytes.contains(&0) {
        return None;
    }
    String::from_utf8(bytes).ok()
}

/// The summary per file, and the body. `None` if the text does not match the digest of the expected change.
fn describe(
    view: &WorkspaceView<'_>,
    foreseen: &[PreviewedChange],
    shown: Option<&PreviewContent>,
) -> Option<(Vec<String>, PreviewBody)> {
    match (foreseen, shown) {
        (_, None) => Some((summary(view, foreseen), PreviewBody::Nothing)),
        (_, Some(PreviewContent::Diff(diff))) => {
            Some((summary(view, foreseen), diff_or_nothing(diff.clone())))
        }
        ([one], Some(PreviewContent::Text(verb, text))) => describe_text(view, one, *verb, text),
        _ => None,
    }
}

fn describe_text(
    view: &WorkspaceView<'_>,
    one: &PreviewedChange,
    verb: Verb,
    text: &str,
) -> Option<(Vec<String>, PreviewBody)> {
    let change = &one.change;
    let label = plain_path(view, &change.alias, &change.location);
    let path = quote_value(&label);
    let after = change.after?;
    let Some(before) = change.before else {
        let belongs = Sha256::of(text.as_bytes()) == after.sha256;
        let body = diff_or_nothing(unified("", text, "/dev/null", &label, DIFF_CONTEXT));
        return belongs.then(|| (vec![format!("create {path} ({} bytes)", after.bytes)], body));
    };
    let sizes = format!("{} → {} bytes", before.bytes, after.bytes);
    let mut summary = vec![match verb {
        Verb::Replace => format!("replace {path} ({sizes})"),
        Verb::Edit => format!("edit {path} ({sizes})"),
        Verb::Append => format!("append {} bytes to {path} ({sizes})", text.len()),
    }];
    let Some(old) = &one.text else {
        summary.push("the old content is too long or not text, so the whole new text is shown".to_owned());
        return Some((summary, PreviewBody::Text(text.to_owned())));
    };
    let new = if verb == Verb::Append { format!("{old}{text}") } else { text.to_owned() };
    if Sha256::of(new.as_bytes()) != after.sha256 {
        return None;
    }
    if new == *old {
        summary.push("the content stays the same".to_owned());
    }
    Some((summary, diff_or_nothing(unified(old, &new, &label, &label, DIFF_CONTEXT))))
}

/// Warnings about sensitive files among those that change, one line per kind.
fn marks(view: &WorkspaceView<'_>, foreseen: &[PreviewedChange]) -> Vec<String> {
    let mut marked: BTreeMap<FileMark, Vec<String>> = BTreeMap::new();
    for ExpectedChange { alias, location, kind, .. } in foreseen.iter().map(|foreseen| &foreseen.change) {
        let target = match kind {
            ChangeKind::Move { alias, location, .. } => Some((alias, location)),
            ChangeKind::Create | ChangeKind::Modify | ChangeKind::Delete => None,
        };
        for (alias, location) in [(alias, location)].into_iter().chain(target) {
            if let Some(mark) = mark(location) {
                marked.entry(mark).or_default().push(shown_path(view, alias, location));
            }
        }
    }
    let line = |(mark, paths): (FileMark, Vec<String>)| {
        let more = paths.len().checked_sub(MAX_NAMED).filter(|more| *more > 0);
        let more = more.map(|more| format!(" and {more} more")).unwrap_or_default();
        let paths: Vec<String> = paths.into_iter().take(MAX_NAMED).collect();
        mark.warning(&format!("{}{more}", paths.join(", ")))
    };
    marked.into_iter().map(line).collect()
}

fn diff_or_nothing(diff: String) -> PreviewBody {
    if diff.is_empty() { PreviewBody::Nothing } else { PreviewBody::Diff(diff) }
}

fn summary(view: &WorkspaceView<'_>, foreseen: &[PreviewedChange]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut changes = foreseen.iter().map(|foreseen| &foreseen.change).peekable();
    while let Some(change) = changes.next() {
        let (kind, after) = (&change.kind, change.after);
        match changes.next_if(|next| {
            *kind == ChangeKind::Create && next.kind == ChangeKind::Delete && next.before == after
        }) {
            // The same content under a new name, with the old name deleted.
            Some(origin) => {
                let from = shown_path(view, &origin.alias, &origin.location);
                lines.push(format!("rename {from} → {}", shown_path(view, &change.alias, &change.location)));
            }
            None => lines.push(summary_of(view, change)),
        }
    }
    lines
}

fn summary_of(view: &WorkspaceView<'_>, change: &ExpectedChange) -> String {
    let path = shown_path(view, &change.alias, &change.location);
    let bytes =
        |content: Option<toolgate_workspace::ContentDigest>| content.map_or(0, |content| content.bytes);
    match &change.kind {
        ChangeKind::Create => format!("create {path} ({} bytes)", bytes(change.after)),
        ChangeKind::Modify => {
            format!("replace {path} ({} → {} bytes)", bytes(change.before), bytes(change.after))
        }
        ChangeKind::Delete => format!("delete {path} ({} bytes)", bytes(change.before)),
        ChangeKind::Move { alias, location, .. } => {
            format!("rename {path} → {}", shown_path(view, alias, location))
        }
    }
}

fn shown_path(view: &WorkspaceView<'_>, alias: &str, location: &std::path::Path) -> String {
    quote_value(&plain_path(view, alias, location))
}

fn plain_path(view: &WorkspaceView<'_>, alias: &str, location: &std::path::Path) -> String {
    match (view.workspace.mount(alias), view.style) {
        (Some(mount), PathStyle::Free) => mount.show(location),
        (Some(mount), PathStyle::AliasOnly) => mount.show_with_alias(location),
        (None, _) => format!("{alias}/{}", location.display()),
    }
}

/// The preview of a read-only call: its arguments, and where its path resolves to.
pub(crate) fn of_reading(view: &WorkspaceView<'_>, arguments: &Value) -> Result<Preview, Failure> {
    let mut preview = Preview::of_arguments(arguments);
    let path = arguments.get("path").and_then(Value::as_str).unwrap_or(".");
    let nothing =
        ListOptions { max_entries: 0, include_hidden: false, include_symlinks: false, with_size: false };
    // The access rules are checked when the path is opened, for a file as for a directory.
    match view.list(path, &nothing) {
        Ok(listed) => preview.summary.push(format!("look into {}", quote_value(&listed.path))),
        Err(WorkspaceError::NotADirectory { path }) => {
            preview.summary.push(format!("read {}", quote_value(&path)));
        }
        Err(error) if error.code().is_denial() => return Err(error.into()),
        Err(_) => {}
    }
    Ok(preview)
}

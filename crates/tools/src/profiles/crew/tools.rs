//! The five `fs.*` tools.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::LazyLock;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolgate_gate::Effect;
use toolgate_text::frontmatter;
use toolgate_types::{Category, ErrorCode, Failure, Sha256, Structured, ToolClass};
use toolgate_workspace::{
    DryRun, EntireContent, EntireFile, EntryKind, FileContent, FileRead, Hidden, ListOptions, ListedEntry,
    Match, MatchLine, NoopRecorder, ReadRequest, Recorder, SearchOptions, Transformed, WorkspaceError,
    WorkspaceView,
};

use super::workflow::{self, WORKFLOW};
use crate::file_tool::{Answer, ToolDeclaration};
use crate::output_budget::{EntryCost, bound_listing, bound_matches};
use crate::preview::{PreviewContent, Verb};
use crate::resource_files::ResourceKind;
use crate::schemas::True;

/// Directories that a search never enters in this profile.
const SKIPPED_DIRECTORIES: &[&str] = &[".git", "node_modules"];

pub(super) fn tools() -> &'static [ToolDeclaration] {
    static TOOLS: LazyLock<[ToolDeclaration; 5]> = LazyLock::new(|| {
        [
            ToolDeclaration::new(
                "fs.list",
                "List a directory",
                "List the direct children of a directory. Hidden entries and symbolic links are left out.",
                ToolClass::Read,
                list,
            ),
            ToolDeclaration::new(
                "fs.read",
                "Read a file",
                "Read a text file, or the lines from startLine to endLine. Large files are cut; use a range of lines or fs.search.",
                ToolClass::Read,
                read,
            )
            .with_resource(ResourceKind::File(about_file)),
            ToolDeclaration::new(
                "fs.search",
                "Search in files",
                "Search a directory tree for a text; a pattern written as /…/ or /…/i is a regular expression.",
                ToolClass::Read,
                search,
            )
            .with_category(Category::Search),
            ToolDeclaration::new(
                "fs.write",
                "Write a file",
                "Create a file or replace its content, in @project or @state.",
                ToolClass::Write,
                write,
            )
            .with_effect(Effect::Sets)
            .with_preview(|_, WriteArguments { content, .. }| Ok(PreviewContent::Text(Verb::Replace, content))),
            ToolDeclaration::new(
                "fs.apply_patch",
                "Update the workflow's frontmatter",
                "Update the frontmatter of a Markdown file in @state: stepsCompleted.append, variables.set, decisionLog.append, artifacts.append, \
                 currentNodeId.set, updatedAt.set. The body is left as it is.",
                ToolClass::Write,
                apply_patch,
            )
            .with_preview(preview_patch),
        ]
    });
    &*TOOLS
}

/// A successful ToolResult: what every tool declares, and members of its own.
#[derive(Serialize)]
pub(super) struct ToolResult<Data> {
    #[serde(flatten)]
    declared: Declared,
    #[serde(flatten)]
    data: Data,
}

/// What every ToolResult has.
#[derive(Serialize, JsonSchema)]
struct Declared {
    ok: True,
    path: String,
}

impl<Data> JsonSchema for ToolResult<Data> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ToolResult".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Declared::json_schema(generator)
    }
}

fn result<Data>(path: String, data: Data) -> Result<Answer<ToolResult<Data>>, Failure> {
    Ok(Answer::new(String::new(), ToolResult { declared: Declared { ok: True, path }, data }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListArguments {
    /// Path with its mount: @project/…, @pkg/… or @state/…
    path: String,
}

#[derive(Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
enum ListAnswer {
    All { entries: Vec<Entry> },
    Truncated { entries_preview: Vec<Entry>, truncated: True, total: usize, hint: String },
}

#[derive(Serialize)]
struct Entry {
    name: String,
    r#type: &'static str,
    path: String,
    bytes: Option<u64>,
}

fn list(
    view: &WorkspaceView<'_>,
    arguments: ListArguments,
    _: &dyn Recorder,
) -> Result<Answer<ToolResult<ListAnswer>>, Failure> {
    let options = ListOptions {
        max_entries: view.limits.max_entries,
        include_hidden: false,
        include_symlinks: false,
        with_size: true,
    };
    let mut listed = view.list(&arguments.path, &options)?;
    let around = listed.path.len().saturating_add(128);
    bound_listing(view, &mut listed, EntryCost { names: 2, overhead: around });
    let entry = |entry: &ListedEntry| {
        let name = listed.name(entry);
        Entry {
            name: name.to_owned(),
            r#type: if entry.kind == EntryKind::Directory { "directory" } else { "file" },
            path: format!("{}/{name}", listed.path),
            bytes: entry.size,
        }
    };
    let entries: Vec<Entry> = listed.entries.iter().map(entry).collect();
    let (shown, total) = (entries.len(), listed.total);
    let data = match listed.truncated {
        false => ListAnswer::All { entries },
        true => ListAnswer::Truncated {
            entries_preview: entries,
            truncated: True,
            total,
            hint: format!("showing {shown} of {total} entries; list a subdirectory or use fs.search"),
        },
    };
    result(listed.path, data)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ReadArguments {
    /// Path with its mount: @project/…, @pkg/… or @state/…
    path: String,
    /// Line number, from 1, inclusive
    #[schemars(range(min = 1))]
    start_line: Option<u64>,
    /// Line number, from 1, inclusive
    #[schemars(range(min = 1))]
    end_line: Option<u64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReadAnswer {
    #[serde(flatten)]
    lines: Option<Lines>,
    #[serde(flatten)]
    content: Content,
    bytes: u64,
    sha256: Sha256,
}

/// The range that was asked for.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Lines {
    start_line: u64,
    end_line: u64,
}

#[derive(Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
enum Content {
    All { content: String },
    Truncated { content_preview: String, truncated: True, hint: String },
}

fn read(
    view: &WorkspaceView<'_>,
    arguments: ReadArguments,
    _: &dyn Recorder,
) -> Result<Answer<ToolResult<ReadAnswer>>, Failure> {
    let ReadArguments { path, start_line, end_line } = arguments;
    let read = view.read(&path, &ReadRequest { start_line, end_line, refuse_oversize: false })?;
    let FileRead { path, bytes, sha256, content } = read;
    let FileContent::Text(window) = content else {
        return Err(WorkspaceError::Binary { path }.into());
    };
    let has_range = start_line.is_some() || end_line.is_some();
    let lines = has_range.then_some(Lines { start_line: window.first_line, end_line: window.last_line });
    let content = match window.truncated {
        false => Content::All { content: window.text.into_string() },
        true => Content::Truncated {
            content_preview: window.text.into_string(),
            truncated: True,
            hint: format!(
                "the answer is limited to {} bytes; use startLine/endLine (the file has {} lines) or fs.search",
                view.limits.max_read_bytes, window.total_lines
            ),
        },
    };
    result(path, ReadAnswer { lines, content, bytes, sha256 })
}

/// The metadata of a file that is read as a resource. This profile only reads text.
fn about_file(file: &EntireFile) -> Result<Structured, Failure> {
    let EntireFile { path, bytes, sha256, content } = file;
    match content {
        EntireContent::Text(_) => {
            Ok(json!({"ok": true, "path": path, "bytes": bytes, "sha256": sha256}).into())
        }
        EntireContent::Bytes(_) => Err(WorkspaceError::Binary { path: path.clone() }.into()),
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct SearchArguments {
    /// Path with its mount: @project/…, @pkg/… or @state/…
    path: String,
    /// Text to find, or /regular expression/i
    #[schemars(length(min = 1))]
    pattern: String,
    before: Option<usize>,
    after: Option<usize>,
    #[schemars(range(min = 1))]
    max_matches: Option<usize>,
}

#[derive(Serialize)]
struct SearchAnswer {
    matches: Vec<MatchAnswer>,
    truncated: bool,
    stats: SearchFigures,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MatchAnswer {
    path: String,
    line: u64,
    text: String,
    before: Vec<String>,
    after: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text_truncated: Option<True>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SearchFigures {
    files_searched: u64,
    files_matched: usize,
    matches_returned: usize,
}

/// `/…/` and `/…/i` are regular expressions; anything else is literal text.
fn regex_in(pattern: &str) -> Option<(&str, bool)> {
    let (body, ignore_case) = match pattern.strip_suffix("/i") {
        Some(body) => (body, true),
        None => (pattern.strip_suffix('/')?, false),
    };
    let body = body.strip_prefix('/')?;
    (!body.is_empty()).then_some((body, ignore_case))
}

/// The resolved path of a search, as the other tools show it.
fn search_root(view: &WorkspaceView<'_>, path: &str) -> Result<String, Failure> {
    let nothing =
        ListOptions { max_entries: 0, include_hidden: false, include_symlinks: false, with_size: false };
    match view.list(path, &nothing) {
        Ok(listed) => Ok(listed.path),
        Err(WorkspaceError::NotADirectory { path }) => Ok(path),
        Err(error) => Err(error.into()),
    }
}

fn search(
    view: &WorkspaceView<'_>,
    arguments: SearchArguments,
    _: &dyn Recorder,
) -> Result<Answer<ToolResult<SearchAnswer>>, Failure> {
    let (pattern, regex, ignore_case) = match regex_in(&arguments.pattern) {
        Some((body, ignore_case)) => (body, true, ignore_case),
        None => (arguments.pattern.as_str(), false, false),
    };
    let options = SearchOptions {
        regex,
        case_sensitive: !ignore_case,
        before: arguments.before.unwrap_or(1),
        after: arguments.after.unwrap_or(1),
        max_matches: arguments.max_matches.unwrap_or(view.limits.max_matches).min(1000),
        max_bytes: usize::try_from(view.limits.max_output_bytes).unwrap_or(usize::MAX),
        respect_gitignore: false,
        hidden: Hidden::Files,
        skip_directories: SKIPPED_DIRECTORIES,
        ..SearchOptions::new(pattern)
    };
    let mut found = view.search(&arguments.path, &options)?;
    bound_matches(view, &mut found);
    let path = search_root(view, &arguments.path)?;
    let is_any_cut = |(_, found): &(String, Match)| {
        std::iter::once(&found.line).chain(&found.before).chain(&found.after).any(is_cut)
    };
    // Counted from the answer, not from the walk: how far a walk goes past the limit depends on timing.
    let files: HashSet<&str> = found.matches.iter().map(|(path, _)| path.as_str()).collect();
    let data = SearchAnswer {
        truncated: found.truncated || found.matches.iter().any(is_any_cut),
        stats: SearchFigures {
            files_searched: found.files_searched,
            files_matched: files.len(),
            matches_returned: found.matches.len(),
        },
        matches: found.matches.iter().map(match_answer).collect(),
    };
    result(path, data)
}

fn match_answer((path, found): &(String, Match)) -> MatchAnswer {
    let lines = |lines: &[MatchLine]| lines.iter().map(|line| line.text.clone()).collect();
    MatchAnswer {
        path: path.clone(),
        line: found.number,
        text: found.line.text.clone(),
        before: lines(&found.before),
        after: lines(&found.after),
        text_truncated: is_cut(&found.line).then_some(True),
    }
}

/// Whether the line is longer than the part that is shown.
fn is_cut(line: &MatchLine) -> bool {
    line.cut_before || line.cut_after
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct WriteArguments {
    /// Path with its mount: @project/…, @pkg/… or @state/…
    path: String,
    content: String,
    /// SHA-256 that the file must have now, as 64 hex digits
    if_match_sha256: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WriteAnswer {
    bytes_written: u64,
    sha256_after: Sha256,
}

/// The digest that the file must have. An invalid digest matches no file, so the precondition fails.
fn expected(digest: Option<String>) -> Result<Option<Sha256>, Failure> {
    let not_one = |_| {
        Failure::new(ErrorCode::PreconditionFailed, "`ifMatchSha256` is not a SHA-256 of 64 hex digits")
            .help("send the sha256 that fs.read answered with")
    };
    digest.map(|digest| digest.to_ascii_lowercase().parse().map_err(not_one)).transpose()
}

fn write(
    view: &WorkspaceView<'_>,
    arguments: WriteArguments,
    recorder: &dyn Recorder,
) -> Result<Answer<ToolResult<WriteAnswer>>, Failure> {
    let WriteArguments { path, content, if_match_sha256 } = arguments;
    let if_match_sha256 = expected(if_match_sha256)?;
    // The workflow's state is protected: it can only be replaced through its schema and its graph.
    let unlocked = workflow::with_workflow_unlocked(view);
    let written = if unlocked.resolved(&path)? == WORKFLOW {
        workflow::replace(&unlocked, &path, content, if_match_sha256, recorder)?
    } else {
        view.write(&path, content.as_bytes(), if_match_sha256, recorder)?
    };
    result(written.path, WriteAnswer { bytes_written: written.bytes, sha256_after: written.sha256_after })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PatchArguments {
    /// Path with its mount: @project/…, @pkg/… or @state/…
    path: String,
    patch: Patch,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("additionalProperties" = true))]
struct Patch {
    #[schemars(extend("const" = "updateFrontmatter"))]
    #[expect(dead_code, reason = "there is one operation, which the schema requires")]
    operation: String,
    update: Map<String, Value>,
    /// SHA-256 that the file must have now, as 64 hex digits
    if_match_sha256: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PatchAnswer {
    sha256_before: Option<Sha256>,
    sha256_after: Sha256,
}

fn patch(
    view: &WorkspaceView<'_>,
    arguments: PatchArguments,
    rehearsal: DryRun,
    recorder: &dyn Recorder,
) -> Result<Transformed, Failure> {
    let PatchArguments { path, patch } = arguments;
    let if_match = expected(patch.if_match_sha256)?;
    let unlocked = workflow::with_workflow_unlocked(view);
    let shown = unlocked.resolved(&path)?;
    if !shown.starts_with("@state/") {
        let message = format!("`{path}` is not in `@state`, the only place where frontmatter can be updated");
        return Err(Failure::new(ErrorCode::ReadOnly, message)
            .help("update a file of @state; fs.write changes files of @project"));
    }
    let (view, guard) = match shown == WORKFLOW {
        true => (&unlocked, Some(workflow::WorkflowGuard::load(view)?)),
        false => (view, None),
    };
    let change = |before: &str| {
        let after = frontmatter::update(before, &patch.update).map_err(Failure::from)?;
        if let Some(guard) = &guard {
            guard.check(Some(before), &after)?;
        }
        Ok(after)
    };
    Ok(view.transform(&path, if_match, rehearsal, &change, recorder)?)
}

fn preview_patch(view: &WorkspaceView<'_>, arguments: PatchArguments) -> Result<PreviewContent, Failure> {
    Ok(PreviewContent::Text(Verb::Edit, patch(view, arguments, DryRun::Yes, &NoopRecorder)?.after))
}

fn apply_patch(
    view: &WorkspaceView<'_>,
    arguments: PatchArguments,
    recorder: &dyn Recorder,
) -> Result<Answer<ToolResult<PatchAnswer>>, Failure> {
    let written = patch(view, arguments, DryRun::No, recorder)?.written;
    let (sha256_before, sha256_after) = (written.sha256_before, written.sha256_after);
    result(written.path, PatchAnswer { sha256_before, sha256_after })
}

//! The five `fs.*` tools.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use toolgate_gate::{Effect, ToolSchema};
use toolgate_text::frontmatter;
use toolgate_types::{Category, ErrorCode, Failure, Sha256, Structured, ToolClass, ToolOutput};
use toolgate_workspace::{
    DryRun, EntireContent, EntireFile, EntryKind, FileContent, Hidden, ListOptions, Match, MatchLine,
    NoopRecorder, ReadRequest, Recorder, SearchOptions, Transformed, WorkspaceError, WorkspaceView,
};

use super::workflow::{self, WORKFLOW};
use crate::arguments::show_write;
use crate::file_tool::{ToolDeclaration, decode};
use crate::output_budget::{EntryCost, bound_listing, bound_matches};
use crate::preview::{PreviewContent, Verb};
use crate::resource_files::ResourceKind;
use crate::schemas::{described, object, of_type};

/// Directories that a search never enters in this profile.
const SKIPPED_DIRECTORIES: &[&str] = &[".git", "node_modules"];

pub(super) fn tools() -> Vec<ToolDeclaration> {
    let path = described("string", "Path with its mount: @project/…, @pkg/… or @state/…");
    let line = json!({"type": "integer", "minimum": 1, "description": "Line number, from 1, inclusive"});
    let count = |minimum: u64| json!({"type": "integer", "minimum": minimum});
    let digest = described("string", "SHA-256 that the file must have now, as 64 hex digits");
    let told = ToolSchema::from(
        json!({"type": "object", "properties": {"ok": {"const": true}, "path": {"type": "string"}}, "required": ["ok", "path"]}),
    );
    let declare = |name, title, description, class, input, work, show| ToolDeclaration {
        name,
        title,
        description,
        class,
        category: Category::File,
        effect: Effect::Any,
        input,
        output: told.clone(),
        work,
        show,
        resource: None,
    };
    vec![
        declare(
            "fs.list",
            "List a directory",
            "List the direct children of a directory. Hidden entries and symbolic links are left out.",
            ToolClass::Read,
            object([("path", path.clone())], &["path"]),
            list,
            None,
        ),
        declare(
            "fs.read",
            "Read a file",
            "Read a text file, or the lines from startLine to endLine. Large files are cut; use a range of lines or fs.search.",
            ToolClass::Read,
            object([("path", path.clone()), ("startLine", line.clone()), ("endLine", line)], &["path"]),
            read,
            None,
        )
        .with_resource(ResourceKind::File(about_file)),
        declare(
            "fs.search",
            "Search in files",
            "Search a directory tree for a text; a pattern written as /…/ or /…/i is a regular expression.",
            ToolClass::Read,
            object(
                [
                    ("path", path.clone()),
                    (
                        "pattern",
                        json!({"type": "string", "minLength": 1, "description": "Text to find, or /regular expression/i"}),
                    ),
                    ("before", count(0)),
                    ("after", count(0)),
                    ("maxMatches", count(1)),
                ],
                &["path", "pattern"],
            ),
            search,
            None,
        )
        .with_category(Category::Search),
        declare(
            "fs.write",
            "Write a file",
            "Create a file or replace its content, in @project or @state.",
            ToolClass::Write,
            object(
                [("path", path.clone()), ("content", of_type("string")), ("ifMatchSha256", digest.clone())],
                &["path", "content"],
            ),
            write,
            Some(show_write),
        )
        .with_effect(Effect::Sets),
        declare(
            "fs.apply_patch",
            "Update the workflow's frontmatter",
            "Update the frontmatter of a Markdown file in @state: stepsCompleted.append, variables.set, decisionLog.append, artifacts.append, \
             currentNodeId.set, updatedAt.set. The body is left as it is.",
            ToolClass::Write,
            object(
                [
                    ("path", path),
                    (
                        "patch",
                        json!({
                            "type": "object",
                            "properties": {"operation": {"const": "updateFrontmatter"}, "update": {"type": "object"}, "ifMatchSha256": digest},
                            "required": ["operation", "update"],
                            "additionalProperties": true,
                        }),
                    ),
                ],
                &["path", "patch"],
            ),
            apply_patch,
            Some(show_patch),
        ),
    ]
}

fn result(structured: Value) -> Result<ToolOutput, Failure> {
    Ok(ToolOutput::new(String::new(), structured))
}

#[derive(Deserialize)]
struct ListArguments {
    path: String,
}

fn list(view: &WorkspaceView<'_>, arguments: Value, _: &dyn Recorder) -> Result<ToolOutput, Failure> {
    let ListArguments { path } = decode(arguments)?;
    let options = ListOptions {
        max_entries: view.limits.max_entries,
        include_hidden: false,
        include_symlinks: false,
        with_size: true,
    };
    let mut listed = view.list(&path, &options)?;
    let around = listed.path.len().saturating_add(128);
    bound_listing(view, &mut listed, EntryCost { names: 2, overhead: around });
    let entries: Vec<Value> = listed
        .entries
        .iter()
        .map(|entry| {
            let name = listed.name(entry);
            let kind = if entry.kind == EntryKind::Directory { "directory" } else { "file" };
            json!({"name": name, "type": kind, "path": format!("{}/{name}", listed.path), "bytes": entry.size})
        })
        .collect();
    if !listed.truncated {
        return result(json!({"ok": true, "path": listed.path, "entries": entries}));
    }
    let hint = format!(
        "showing {} of {} entries; list a subdirectory or use fs.search",
        entries.len(),
        listed.total
    );
    result(
        json!({"ok": true, "path": listed.path, "entriesPreview": entries, "truncated": true, "total": listed.total, "hint": hint}),
    )
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadArguments {
    path: String,
    start_line: Option<u64>,
    end_line: Option<u64>,
}

fn read(view: &WorkspaceView<'_>, arguments: Value, _: &dyn Recorder) -> Result<ToolOutput, Failure> {
    let ReadArguments { path, start_line, end_line } = decode(arguments)?;
    let read = view.read(&path, &ReadRequest { start_line, end_line, refuse_oversize: false })?;
    let FileContent::Text(window) = read.content else {
        return Err(WorkspaceError::Binary { path: read.path }.into());
    };
    let mut fields = Map::new();
    fields.insert("ok".to_owned(), json!(true));
    fields.insert("path".to_owned(), json!(read.path));
    if start_line.is_some() || end_line.is_some() {
        fields.insert("startLine".to_owned(), json!(window.first_line));
        fields.insert("endLine".to_owned(), json!(window.last_line));
    }
    if window.truncated {
        let hint = format!(
            "the answer is limited to {} bytes; use startLine/endLine (the file has {} lines) or fs.search",
            view.limits.max_read_bytes, window.total_lines
        );
        fields.insert("contentPreview".to_owned(), json!(window.text));
        fields.insert("truncated".to_owned(), json!(true));
        fields.insert("hint".to_owned(), json!(hint));
    } else {
        fields.insert("content".to_owned(), json!(window.text));
    }
    fields.insert("bytes".to_owned(), json!(read.bytes));
    fields.insert("sha256".to_owned(), json!(read.sha256.to_string()));
    result(Value::Object(fields))
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

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SearchArguments {
    path: String,
    pattern: String,
    before: Option<usize>,
    after: Option<usize>,
    max_matches: Option<usize>,
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

fn search(view: &WorkspaceView<'_>, arguments: Value, _: &dyn Recorder) -> Result<ToolOutput, Failure> {
    let arguments: SearchArguments = decode(arguments)?;
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
    let lines = |lines: &[MatchLine]| -> Vec<String> { lines.iter().map(|line| line.text.clone()).collect() };
    let shown = |(path, found): &(String, Match)| {
        let mut shown = Map::new();
        shown.insert("path".to_owned(), json!(path));
        shown.insert("line".to_owned(), json!(found.number));
        shown.insert("text".to_owned(), json!(found.line.text));
        shown.insert("before".to_owned(), json!(lines(&found.before)));
        shown.insert("after".to_owned(), json!(lines(&found.after)));
        if is_cut(&found.line) {
            shown.insert("textTruncated".to_owned(), json!(true));
        }
        Value::Object(shown)
    };
    let matches: Vec<Value> = found.matches.iter().map(shown).collect();
    let is_any_cut = |(_, found): &(String, Match)| {
        std::iter::once(&found.line).chain(&found.before).chain(&found.after).any(is_cut)
    };
    let truncated = found.truncated || found.matches.iter().any(is_any_cut);
    // Counted from the answer, not from the walk: how far a walk goes past the limit depends on timing.
    let files: HashSet<&str> = found.matches.iter().map(|(path, _)| path.as_str()).collect();
    let stats = json!({
        "filesSearched": found.files_searched, "filesMatched": files.len(), "matchesReturned": matches.len(),
    });
    result(json!({"ok": true, "path": path, "matches": matches, "truncated": truncated, "stats": stats}))
}

/// Whether the line is longer than the part that is shown.
fn is_cut(line: &MatchLine) -> bool {
    line.cut_before || line.cut_after
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WriteArguments {
    path: String,
    content: String,
    if_match_sha256: Option<String>,
}

/// The digest that the file must have. An invalid digest matches no file, so the precondition fails.
fn expected(digest: Option<String>) -> Result<Option<Sha256>, Failure> {
    let not_one = |_| {
        Failure::new(ErrorCode::PreconditionFailed, "`ifMatchSha256` is not a SHA-256 of 64 hex digits")
            .help("send the sha256 that fs.read answered with")
    };
    digest.map(|digest| digest.to_ascii_lowercase().parse().map_err(not_one)).transpose()
}

fn write(view: &WorkspaceView<'_>, arguments: Value, recorder: &dyn Recorder) -> Result<ToolOutput, Failure> {
    let WriteArguments { path, content, if_match_sha256 } = decode(arguments)?;
    let if_match_sha256 = expected(if_match_sha256)?;
    // The workflow's state is protected: it can only be replaced through its schema and its graph.
    let unlocked = workflow::with_workflow_unlocked(view);
    let written = if unlocked.resolved(&path)? == WORKFLOW {
        workflow::replace(&unlocked, &path, content, if_match_sha256, recorder)?
    } else {
        view.write(&path, content.as_bytes(), if_match_sha256, recorder)?
    };
    result(
        json!({"ok": true, "path": written.path, "bytesWritten": written.bytes, "sha256After": written.sha256_after.to_string()}),
    )
}

#[derive(Deserialize)]
struct PatchArguments {
    path: String,
    patch: Patch,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Patch {
    update: Map<String, Value>,
    if_match_sha256: Option<String>,
}

fn patch(
    view: &WorkspaceView<'_>,
    arguments: Value,
    rehearsal: DryRun,
    recorder: &dyn Recorder,
) -> Result<Transformed, Failure> {
    let PatchArguments { path, patch } = decode(arguments)?;
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

fn show_patch(view: &WorkspaceView<'_>, arguments: Value) -> Result<PreviewContent, Failure> {
    Ok(PreviewContent::Text(Verb::Edit, patch(view, arguments, DryRun::Yes, &NoopRecorder)?.after))
}

fn apply_patch(
    view: &WorkspaceView<'_>,
    arguments: Value,
    recorder: &dyn Recorder,
) -> Result<ToolOutput, Failure> {
    let written = patch(view, arguments, DryRun::No, recorder)?.written;
    let before = written.sha256_before.map(|digest| digest.to_string());
    result(
        json!({"ok": true, "path": written.path, "sha256Before": before, "sha256After": written.sha256_after.to_string()}),
    )
}

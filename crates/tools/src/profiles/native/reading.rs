//! Read-only tools.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_gate::Effect;
use toolgate_text::quoted_name;
use toolgate_types::{Category, Failure, JsonObjectWriter, Sha256, Structured, ToolClass, ToolOutput};
use toolgate_workspace::{
    EntireContent, EntireFile, EntryKind, FileContent, FileRead, FindOptions, FoundLines, ListResult, Match,
    ReadRequest, Recorder, TextWindow, WalkGaps, WorkspaceView,
};

use crate::arguments::{ListArguments, ReadArguments, SearchArguments, every_entry};
use crate::file_tool::{ToolDeclaration, decode};
use crate::output_budget::{EntryCost, bound_listing, bound_matches, bound_paths, has_byte};
use crate::resource_files::ResourceKind;
use crate::schemas::{described, list_of, notice, object, of_type};

/// The upper bound of matches or results in one answer, whatever the call asks for.
const MAX_RESULTS: usize = 1000;

/// Initial capacity for the JSON fields beside a text or a list.
const METADATA_BYTES: usize = 512;

pub(crate) fn tools() -> Vec<ToolDeclaration> {
    let path =
        described("string", "Path relative to the workspace, or with a mount alias such as @project/src");
    let names = list_of(of_type("string"));
    let line = |which: &str| json!({"type": "integer", "minimum": 1, "description": format!("{which} line, counted from 1, inclusive")});
    vec![
        ToolDeclaration {
            name: "read_file",
            title: "Read a file",
            description: "Read a text file, or a range of its lines. Answers with the text and with the size and SHA-256 of the whole file. \
                          A long file is cut with a notice that says how to go on.",
            class: ToolClass::Read,
            category: Category::File,
            effect: Effect::Any,
            input: object(
                [("path", path), ("start_line", line("First")), ("end_line", line("Last"))],
                &["path"],
            ),
            output: object(
                [
                    ("path", of_type("string")),
                    ("content", of_type("string")),
                    ("bytes", of_type("integer")),
                    ("sha256", of_type("string")),
                    ("binary", of_type("boolean")),
                    ("truncated", of_type("boolean")),
                    ("start_line", of_type("integer")),
                    ("end_line", of_type("integer")),
                    ("total_lines", of_type("integer")),
                ],
                &["path", "bytes", "sha256", "binary"],
            ),
            work: read_file,
            show: None,
            resource: Some(ResourceKind::File(about_file)),
        },
        ToolDeclaration {
            name: "list_directory",
            title: "List a directory",
            description: "List the entries of one directory, sorted by name, with their types.",
            class: ToolClass::Read,
            category: Category::File,
            effect: Effect::Any,
            input: object(
                [("path", described("string", "Directory; the workspace itself when absent"))],
                &[],
            ),
            output: object(
                [
                    ("path", of_type("string")),
                    ("total", of_type("integer")),
                    ("truncated", of_type("boolean")),
                    ("directories", names.clone()),
                    ("files", names.clone()),
                    ("symlinks", names.clone()),
                    ("other", names),
                    notice(),
                ],
                &["path", "directories", "files", "symlinks", "other", "total", "truncated"],
            ),
            work: list_directory,
            show: None,
            resource: None,
        },
        ToolDeclaration {
            name: "search_files",
            title: "Search in files",
            description: "Search file contents for a text (default) or a regular expression, line by line. Respects .gitignore. \
                          Answers with path, line number and line, and with neighbouring lines if asked.",
            class: ToolClass::Read,
            category: Category::Search,
            effect: Effect::Any,
            input: object(
                [
                    (
                        "pattern",
                        json!({"type": "string", "minLength": 1, "description": "Text to find, or a regular expression with regex: true"}),
                    ),
                    ("path", described("string", "File or directory to search; the workspace when absent")),
                    (
                        "regex",
                        described("boolean", "Read the pattern as a regular expression (default false)"),
                    ),
                    ("case_sensitive", described("boolean", "Whether a and A differ (default true)")),
                    ("glob", described("string", "Only files that match, such as *.rs or src/**/*.ts")),
                    (
                        "before",
                        json!({"type": "integer", "minimum": 0, "maximum": 50, "description": "Lines before each match"}),
                    ),
                    (
                        "after",
                        json!({"type": "integer", "minimum": 0, "maximum": 50, "description": "Lines after each match"}),
                    ),
                    ("max_matches", json!({"type": "integer", "minimum": 1, "maximum": MAX_RESULTS})),
                ],
                &["pattern"],
            ),
            output: object(
                [
                    (
                        "matches",
                        list_of(json!({"type": "object", "properties": {
                            "path": {"type": "string"}, "line": {"type": "integer"}, "text": {"type": "string"},
                            "before": {"type": "array", "items": {"type": "string"}}, "after": {"type": "array", "items": {"type": "string"}},
                        }, "required": ["path", "line", "text"]})),
                    ),
                    ("truncated", of_type("boolean")),
                    ("timed_out", of_type("boolean")),
                    ("files_searched", of_type("integer")),
                    ("files_with_matches", of_type("integer")),
                    ("unwalked", list_of(of_type("string"))),
                    notice(),
                ],
                &["matches", "truncated", "files_searched"],
            ),
            work: search_files,
            show: None,
            resource: None,
        },
        ToolDeclaration {
            name: "find_files",
            title: "Find files by name",
            description: "Find files whose name or path matches a glob: *.md at any depth, src/**/*.rs from the directory on. Respects .gitignore.",
            class: ToolClass::Read,
            category: Category::Search,
            effect: Effect::Any,
            input: object(
                [
                    (
                        "glob",
                        json!({"type": "string", "minLength": 1, "description": "Glob; without a slash it matches names at any depth"}),
                    ),
                    ("path", described("string", "Directory to look in; the workspace when absent")),
                    ("max_results", json!({"type": "integer", "minimum": 1, "maximum": MAX_RESULTS})),
                ],
                &["glob"],
            ),
            output: object(
                [
                    ("paths", list_of(of_type("string"))),
                    ("truncated", of_type("boolean")),
                    ("unwalked", list_of(of_type("string"))),
                    notice(),
                ],
                &["paths", "truncated"],
            ),
            work: find_files,
            show: None,
            resource: Some(ResourceKind::Files),
        },
    ]
}

fn read_file(view: &WorkspaceView<'_>, arguments: Value, _: &dyn Recorder) -> Result<ToolOutput, Failure> {
    let ReadArguments { path, start_line, end_line } = decode(arguments)?;
    let read = view.read(&path, &ReadRequest { start_line, end_line, refuse_oversize: false })?;
    let FileRead { path, bytes, sha256, content } = read;
    let window = match content {
        FileContent::Binary { .. } => {
            let text = format!("binary file `{}`: {bytes} bytes, sha256 {sha256}", quoted_name(&path));
            return Ok(ToolOutput::new(text, about(&path, bytes, sha256, true).finish()));
        }
        FileContent::Text(window) => window,
    };
    let notice = content_notice(&window, bytes);
    let is_text = notice.is_empty();
    let told = about(&path, bytes, sha256, false).field("truncated", &window.truncated);
    let told = told.field("start_line", &window.first_line).field("end_line", &window.last_line);
    let told = told.field("total_lines", &window.total_lines);
    // If the text is complete, it is not stored a second time: `text_field` says that it is this property.
    let told = if is_text { told } else { told.string("content", &window.text) };
    // The text is as long as the file, so the file's digest is the text's digest.
    let text_sha256 = (window.text.len() as u64 == bytes && is_text).then_some(sha256);
    let text_as = is_text.then_some("content");
    Ok(ToolOutput {
        text_sha256,
        text_field: text_as,
        ..ToolOutput::new(window.text + &notice, told.finish())
    })
}

/// The fields that every file has.
fn about(path: &str, bytes: u64, sha256: Sha256, is_binary: bool) -> JsonObjectWriter {
    let told = JsonObjectWriter::with_capacity(METADATA_BYTES).string("path", path).field("bytes", &bytes);
    told.field("sha256", &sha256).field("binary", &is_binary)
}

/// The same fields for a file that is read as a resource.
fn about_file(file: &EntireFile) -> Result<Structured, Failure> {
    let is_binary = matches!(file.content, EntireContent::Bytes(_));
    Ok(about(&file.path, file.bytes, file.sha256, is_binary).finish())
}

/// The notice after truncated text, deterministic for the same cut.
pub(crate) fn content_notice(window: &TextWindow, bytes: u64) -> String {
    if !window.truncated {
        return String::new();
    }
    let line_end = if window.text.is_empty() || window.text.ends_with('\n') { "" } else { "\n" };
    let TextWindow { first_line, last_line, total_lines, .. } = window;
    // A line that does not fit alone will not fit in the next call either.
    let next = match last_line > first_line {
        true => format!("go on with start_line {last_line}"),
        false => format!("line {first_line} is too long to be read whole; search the file instead"),
    };
    format!(
        "{line_end}[truncated: lines {first_line} to {last_line} of {total_lines} shown; the file has {bytes} bytes; {next}]\n"
    )
}

fn list_directory(
    view: &WorkspaceView<'_>,
    arguments: Value,
    _: &dyn Recorder,
) -> Result<ToolOutput, Failure> {
    let arguments: ListArguments = decode(arguments)?;
    // The size costs one `fstatat` per entry, and `read_file` reports it anyway.
    let mut listed = view.list(arguments.path(), &every_entry(view, false))?;
    bound_listing(view, &mut listed, EntryCost { names: 1, overhead: "\"\",".len() });
    let names = |kind: EntryKind| {
        let of_kind = listed.entries.iter().filter(move |entry| entry.kind == kind);
        of_kind.map(|entry| listed.name(entry))
    };
    let room = length_of_names(&listed) + listed.entries.len() * "\"\",".len() + METADATA_BYTES;
    let told = JsonObjectWriter::with_capacity(room).string("path", &listed.path);
    let told =
        told.strings("directories", names(EntryKind::Directory)).strings("files", names(EntryKind::File));
    let told = told.strings("symlinks", names(EntryKind::Symlink)).strings("other", names(EntryKind::Other));
    let told = told.field("total", &listed.total).field("truncated", &listed.truncated);
    Ok(ToolOutput::new(list_text(&listed), told.finish()))
}

/// The bytes of all listed names. After truncation `names` still holds the dropped ones, so the entries are summed.
fn length_of_names(listed: &ListResult) -> usize {
    if listed.truncated {
        listed.entries.iter().map(|entry| entry.name.len()).sum()
    } else {
        listed.names.len()
    }
}

/// One line per entry: directories end in `/`, symlinks in `@`, files carry their size where it is known.
pub(crate) fn list_text(listed: &ListResult) -> String {
    let mut text = String::with_capacity(length_of_names(listed) + 2 * listed.entries.len());
    // One scan over all names usually shows that none needs quotes. Names are separated by NUL.
    let may_need_quotes = has_byte(&listed.names, may_need_quoting);
    for entry in &listed.entries {
        let name = listed.name(entry);
        match may_need_quotes {
            true => text.push_str(&quoted_name(name)),
            false => text.push_str(name),
        }
        match (entry.kind, entry.size) {
            (EntryKind::Directory, _) => text.push('/'),
            (EntryKind::Symlink, _) => text.push('@'),
            (EntryKind::File, Some(size)) => drop(write!(text, "  {size}")),
            _ => {}
        }
        text.push('\n');
    }
    if listed.entries.is_empty() {
        text.push_str("(empty)\n");
    }
    if listed.truncated {
        let _ = writeln!(text, "[truncated: {} of {} entries shown]", listed.entries.len(), listed.total);
    }
    text
}

/// Whether a name that contains this byte may need quotes.
fn may_need_quoting(byte: u8) -> bool {
    byte != 0 && !matches!(byte, b'!' | b'#'..=b'9' | b';'..=b'Z' | b'\\' | b'^'..=b'~')
}

fn search_files(view: &WorkspaceView<'_>, arguments: Value, _: &dyn Recorder) -> Result<ToolOutput, Failure> {
    let arguments: SearchArguments = decode(arguments)?;
    let options = arguments.options(view, MAX_RESULTS);
    let mut found = view.search(arguments.path(), &options)?;
    bound_matches(view, &mut found);
    let matches: Vec<Value> = found.matches.iter().map(|(path, found)| match_json(path, found)).collect();
    let mut structured = json!({
        "matches": matches, "truncated": found.truncated, "timed_out": found.timed_out,
        "files_searched": found.files_searched, "files_with_matches": found.files_with_matches,
    });
    add_walk_gaps(&mut structured, &found.gaps);
    // Fewer matches than asked for: their text exceeded the output limit, so raising max_matches does not help.
    let remedy = match found.matches.len() >= options.max_matches && options.max_matches < MAX_RESULTS {
        true => "narrow the search or raise max_matches",
        false => "narrow the search",
    };
    Ok(ToolOutput::new(search_text(&found, remedy), structured))
}

fn match_json(path: &str, found: &Match) -> Value {
    let mut value = json!({"path": path, "line": found.number, "text": found.line.text});
    if let Value::Object(fields) = &mut value {
        for (name, lines) in [("before", &found.before), ("after", &found.after)] {
            if !lines.is_empty() {
                let lines: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
                fields.insert(name.to_owned(), json!(lines));
            }
        }
    }
    value
}

/// As grep writes it: `path:line:text` for matches, `path-line-text` for neighbours, `--` between groups.
fn search_text(found: &FoundLines, remedy: &str) -> String {
    let mut text = String::new();
    for (index, (path, found)) in found.matches.iter().enumerate() {
        let path = quoted_name(path);
        let context = !found.before.is_empty() || !found.after.is_empty();
        if context && index > 0 {
            text.push_str("--\n");
        }
        let first = found.number.saturating_sub(found.before.len() as u64);
        for (number, line) in (first..).zip(&found.before) {
            let _ = writeln!(text, "{path}-{number}-{}", line.text);
        }
        let _ = writeln!(text, "{path}:{}:{}", found.number, found.line.text);
        for (number, line) in (found.number + 1..).zip(&found.after) {
            let _ = writeln!(text, "{path}-{number}-{}", line.text);
        }
    }
    if found.matches.is_empty() {
        let _ = writeln!(text, "no matches in {} files", found.files_searched);
    }
    text.extend(found.gaps.notices().iter().map(|notice| format!("[truncated: {notice}]\n")));
    if found.timed_out {
        text.push_str("[the search ran out of time; narrow the path or the glob]\n");
    } else if found.is_cut {
        let _ = writeln!(text, "[truncated: the first {} matches shown; {remedy}]", found.matches.len());
    }
    text
}

/// Adds the directories and files that the walk skipped, if any.
fn add_walk_gaps(structured: &mut Value, unwalked: &WalkGaps) {
    let Some(fields) = structured.as_object_mut().filter(|_| !unwalked.is_empty()) else { return };
    fields.insert("unwalked".to_owned(), json!(unwalked.notices()));
}

#[derive(Deserialize)]
struct FindArguments {
    glob: String,
    path: Option<String>,
    max_results: Option<usize>,
}

fn find_files(view: &WorkspaceView<'_>, arguments: Value, _: &dyn Recorder) -> Result<ToolOutput, Failure> {
    let arguments: FindArguments = decode(arguments)?;
    let options = FindOptions {
        max_results: arguments.max_results.unwrap_or(view.limits.max_entries).min(MAX_RESULTS),
        hidden: true,
        ..FindOptions::new(&arguments.glob)
    };
    let mut found = view.find(arguments.path.as_deref().unwrap_or("."), &options)?;
    bound_paths(view, &mut found);
    let shown: Vec<_> = found.paths.iter().map(|path| quoted_name(path)).collect();
    let mut text = shown.join("\n");
    text.push_str(if found.paths.is_empty() { "no files match\n" } else { "\n" });
    text.extend(found.gaps.notices().iter().map(|notice| format!("[truncated: {notice}]\n")));
    if found.is_cut {
        let _ = writeln!(text, "[truncated: the first {} files shown]", found.paths.len());
    }
    let mut structured = json!({"paths": found.paths, "truncated": found.truncated});
    add_walk_gaps(&mut structured, &found.gaps);
    Ok(ToolOutput::new(text, structured))
}

#[cfg(test)]
mod tests {
    use toolgate_workspace::ListedEntry;

    use super::*;

    #[test]
    fn a_listing_takes_room_for_what_it_tells() {
        let entry = ListedEntry { name: 0..1, kind: EntryKind::File, size: None };
        let listed = ListResult {
            path: String::new(),
            names: "a\0".repeat(100_000),
            entries: vec![entry],
            total: 100_000,
            truncated: true,
        };
        assert!(list_text(&listed).capacity() < 1000);
    }
}

//! Read-only tools.

use std::fmt::Write as _;
use std::rc::Rc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use toolgate_text::quoted_name;
use toolgate_types::{Category, Failure, Sha256, Structured, ToolClass};
use toolgate_workspace::{
    EntireContent, EntireFile, EntryKind, FileContent, FileRead, FindOptions, FoundLines, Hidden, ListResult,
    Match, MatchLine, ReadRequest, Recorder, SearchOptions, TextWindow, WalkGaps, WorkspaceView,
};

use crate::file_tool::{Answer, ToolDeclaration};
use crate::output_budget::{EntryCost, bound_listing, bound_matches, bound_paths, every_entry, has_byte};
use crate::resource_files::ResourceKind;
use crate::schemas::leading;

/// The upper bound of matches or results in one answer, whatever the call asks for.
const MAX_RESULTS: usize = 1000;

pub(super) fn tools() -> [ToolDeclaration; 4] {
    [
        ToolDeclaration::new(
            "read_file",
            "Read a file",
            "Read a text file, or a range of its lines. Answers with the text and with the size and SHA-256 of the whole file. \
             A long file is cut with a notice that says how to go on.",
            ToolClass::Read,
            read_file,
        )
        .with_resource(ResourceKind::File(about_file)),
        ToolDeclaration::new(
            "list_directory",
            "List a directory",
            "List the entries of one directory, sorted by name, with their types.",
            ToolClass::Read,
            list_directory,
        ),
        ToolDeclaration::new(
            "search_files",
            "Search in files",
            "Search file contents for a text (default) or a regular expression, line by line. Respects .gitignore. \
             Answers with path, line number and line, and with neighbouring lines if asked.",
            ToolClass::Read,
            search_files,
        )
        .with_category(Category::Search),
        ToolDeclaration::new(
            "find_files",
            "Find files by name",
            "Find files whose name or path matches a glob: *.md at any depth, src/**/*.rs from the directory on. Respects .gitignore.",
            ToolClass::Read,
            find_files,
        )
        .with_category(Category::Search)
        .with_resource(ResourceKind::Files),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadArguments {
    /// Path relative to the workspace, or with a mount alias such as @project/src
    path: String,
    /// First line, counted from 1, inclusive
    #[schemars(range(min = 1))]
    start_line: Option<u64>,
    /// Last line, counted from 1, inclusive
    #[schemars(range(min = 1))]
    end_line: Option<u64>,
}

// The members after `binary` are those of a text.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = leading(&["path", "content"]))]
struct FileAnswer {
    path: String,
    bytes: u64,
    #[schemars(with = "String")]
    sha256: Sha256,
    binary: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_lines: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
}

fn read_file(
    view: &WorkspaceView<'_>,
    arguments: ReadArguments,
    _: &dyn Recorder,
) -> Result<Answer<FileAnswer>, Failure> {
    let ReadArguments { path, start_line, end_line } = arguments;
    let read = view.read(&path, &ReadRequest { start_line, end_line, refuse_oversize: false })?;
    let FileRead { path, bytes, sha256, content } = read;
    let window = match content {
        FileContent::Binary { .. } => {
            let text = format!("binary file `{}`: {bytes} bytes, sha256 {sha256}", quoted_name(&path));
            return Ok(Answer::new(text, FileAnswer::new(path, bytes, sha256, true)));
        }
        FileContent::Text(window) => window,
    };
    let notice = content_notice(&window, bytes);
    let is_text = notice.is_empty();
    let data = FileAnswer {
        truncated: Some(window.truncated),
        start_line: Some(window.first_line),
        end_line: Some(window.last_line),
        total_lines: Some(window.total_lines),
        // If the text is complete, it is not stored a second time: `text_field` says that it is this property.
        content: (!is_text).then(|| window.text.to_string()),
        ..FileAnswer::new(path, bytes, sha256, false)
    };
    let text = if is_text { window.text } else { (window.text.into_string() + &notice).into() };
    Ok(Answer { text_field: is_text.then_some("content"), ..Answer::new(text, data) })
}

impl FileAnswer {
    /// What every file has.
    fn new(path: String, bytes: u64, sha256: Sha256, binary: bool) -> Self {
        let (truncated, start_line, end_line, total_lines, content) = (None, None, None, None, None);
        Self { path, bytes, sha256, binary, truncated, start_line, end_line, total_lines, content }
    }
}

/// What a file has that is read as a resource.
fn about_file(file: &EntireFile) -> Result<Structured, Failure> {
    let is_binary = matches!(file.content, EntireContent::Bytes(_));
    Ok(Structured::of(&FileAnswer::new(file.path.clone(), file.bytes, file.sha256, is_binary)))
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

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListArguments {
    /// Directory; the workspace itself when absent
    path: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = leading(&["path", "total", "truncated"]))]
struct ListAnswer {
    path: String,
    directories: Names,
    files: Names,
    symlinks: Names,
    other: Names,
    total: usize,
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    notice: Option<String>,
}

// The names of a listing's entries of one kind. A listing holds all names in one buffer, and may have very many.
#[derive(JsonSchema)]
#[schemars(with = "Vec<String>")]
struct Names {
    listed: Rc<ListResult>,
    kind: EntryKind,
}

impl Serialize for Names {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let of_kind = self.listed.entries.iter().filter(|entry| entry.kind == self.kind);
        serializer.collect_seq(of_kind.map(|entry| self.listed.name(entry)))
    }
}

fn list_directory(
    view: &WorkspaceView<'_>,
    arguments: ListArguments,
    _: &dyn Recorder,
) -> Result<Answer<ListAnswer>, Failure> {
    // The size costs one `fstatat` per entry, and `read_file` reports it anyway.
    let mut listed = view.list(arguments.path.as_deref().unwrap_or("."), &every_entry(view, false))?;
    bound_listing(view, &mut listed, EntryCost { names: 1, overhead: "\"\",".len() });
    let text = list_text(&listed);
    let listed = Rc::new(listed);
    let names = |kind| Names { listed: Rc::clone(&listed), kind };
    let data = ListAnswer {
        path: listed.path.clone(),
        directories: names(EntryKind::Directory),
        files: names(EntryKind::File),
        symlinks: names(EntryKind::Symlink),
        other: names(EntryKind::Other),
        total: listed.total,
        truncated: listed.truncated,
        notice: None,
    };
    Ok(Answer::new(text, data))
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

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchArguments {
    /// Text to find, or a regular expression with regex: true
    #[schemars(length(min = 1))]
    pattern: String,
    /// File or directory to search; the workspace when absent
    path: Option<String>,
    /// Read the pattern as a regular expression (default false)
    #[serde(default)]
    regex: bool,
    /// Whether a and A differ (default true)
    case_sensitive: Option<bool>,
    /// Only files that match, such as *.rs or src/**/*.ts
    glob: Option<String>,
    /// Lines before each match
    #[serde(default)]
    #[schemars(range(min = 0, max = 50))]
    before: usize,
    /// Lines after each match
    #[serde(default)]
    #[schemars(range(min = 0, max = 50))]
    after: usize,
    #[schemars(range(min = 1, max = MAX_RESULTS))]
    max_matches: Option<usize>,
}

#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("required" = ["matches", "truncated", "files_searched"]))]
struct SearchAnswer {
    matches: Vec<MatchAnswer>,
    truncated: bool,
    timed_out: bool,
    files_searched: u64,
    files_with_matches: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unwalked: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notice: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct MatchAnswer {
    path: String,
    line: u64,
    text: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    before: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    after: Vec<String>,
}

impl MatchAnswer {
    fn new((path, found): &(String, Match)) -> Self {
        let lines = |lines: &[MatchLine]| lines.iter().map(|line| line.text.clone()).collect();
        Self {
            path: path.clone(),
            line: found.number,
            text: found.line.text.clone(),
            before: lines(&found.before),
            after: lines(&found.after),
        }
    }
}

fn search_files(
    view: &WorkspaceView<'_>,
    arguments: SearchArguments,
    _: &dyn Recorder,
) -> Result<Answer<SearchAnswer>, Failure> {
    let options = SearchOptions {
        regex: arguments.regex,
        case_sensitive: arguments.case_sensitive.unwrap_or(true),
        glob: arguments.glob.as_deref(),
        before: arguments.before,
        after: arguments.after,
        max_matches: arguments.max_matches.unwrap_or(view.limits.max_matches).min(MAX_RESULTS),
        max_bytes: usize::try_from(view.limits.max_output_bytes).unwrap_or(usize::MAX),
        hidden: Hidden::All,
        ..SearchOptions::new(&arguments.pattern)
    };
    let mut found = view.search(arguments.path.as_deref().unwrap_or("."), &options)?;
    bound_matches(view, &mut found);
    // Fewer matches than asked for: their text exceeded the output limit, so raising max_matches does not help.
    let remedy = match found.matches.len() >= options.max_matches && options.max_matches < MAX_RESULTS {
        true => "narrow the search or raise max_matches",
        false => "narrow the search",
    };
    let data = SearchAnswer {
        matches: found.matches.iter().map(MatchAnswer::new).collect(),
        truncated: found.truncated,
        timed_out: found.timed_out,
        files_searched: found.files_searched,
        files_with_matches: found.files_with_matches,
        unwalked: unwalked(&found.gaps),
        notice: None,
    };
    Ok(Answer::new(search_text(&found, remedy), data))
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

/// The directories and files that the walk skipped.
fn unwalked(gaps: &WalkGaps) -> Vec<String> {
    if gaps.is_empty() { Vec::new() } else { gaps.notices() }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FindArguments {
    /// Glob; without a slash it matches names at any depth
    #[schemars(length(min = 1))]
    glob: String,
    /// Directory to look in; the workspace when absent
    path: Option<String>,
    #[schemars(range(min = 1, max = MAX_RESULTS))]
    max_results: Option<usize>,
}

#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FindAnswer {
    paths: Vec<String>,
    truncated: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unwalked: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notice: Option<String>,
}

fn find_files(
    view: &WorkspaceView<'_>,
    arguments: FindArguments,
    _: &dyn Recorder,
) -> Result<Answer<FindAnswer>, Failure> {
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
    let unwalked = unwalked(&found.gaps);
    let data = FindAnswer { paths: found.paths, truncated: found.truncated, unwalked, notice: None };
    Ok(Answer::new(text, data))
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

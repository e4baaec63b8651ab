//! The lines before the hunks of a file: which file it is and how it changes.

use super::parse::{PatchReader, shown};
use super::{PatchError, PatchKind, quoted_name};

/// The remedy when it is not clear which file is meant.
pub(super) const NAME_THE_FILE: &str = "write `--- a/FILE` and `+++ b/FILE` before the hunks of each file";

const DO_NOT_CHANGE_MODES: &str = "leave the mode lines out; a new file is written with mode 100644";

/// The file, and how it changes.
pub(super) struct FileHeader {
    pub(super) kind: PatchKind,
    pub(super) old_path: Option<String>,
    pub(super) new_path: Option<String>,
    pub(super) line: usize,
    pub(super) sent_with_crlf: bool,
    /// Whether the header is complete without hunks: an empty file created or deleted, or a plain rename.
    pub(super) complete_without_hunks: bool,
}

/// The content of a `diff --git` header.
#[derive(Default)]
struct GitHeader {
    /// The name on the `diff --git` line when both halves agree.
    path: Option<String>,
    created: bool,
    deleted: bool,
    rename_from: Option<String>,
    rename_to: Option<String>,
}

/// A name after `---` or `+++`.
enum HeaderSide {
    /// `/dev/null`.
    Nothing,
    File(String),
}

/// Reads from `diff --git` or `---` up to the first hunk.
pub(super) fn read(reader: &mut PatchReader<'_>) -> Result<FileHeader, PatchError> {
    let line = reader.number();
    let sent_with_crlf = reader.peek().is_some_and(|line| line.ends_with('\r'));
    let git = read_git_header(reader)?;
    let sides = if reader.at_names() { Some((read_side(reader)?, read_side(reader)?)) } else { None };
    let complete_without_hunks = git.created || git.deleted || git.rename_to.is_some();
    let (kind, old_path, new_path) =
        decide(git, sides).map_err(|(problem, remedy)| PatchError::Header { line, problem, remedy })?;
    Ok(FileHeader { kind, old_path, new_path, line, sent_with_crlf, complete_without_hunks })
}

fn read_git_header(reader: &mut PatchReader<'_>) -> Result<GitHeader, PatchError> {
    let mut git = GitHeader::default();
    let Some(names) = reader.peek().and_then(|line| line.strip_prefix("diff --git ")) else { return Ok(git) };
    git.path = common_name(names.trim_end_matches('\r'));
    reader.skip();
    while let Some(line) = reader.peek().filter(|_| !reader.at_names()) {
        if !read_git_line(&mut git, line.trim_end_matches('\r'), reader.number())? {
            break;
        }
        reader.skip();
    }
    Ok(git)
}

/// Parses one line of a git header; false when it is none.
fn read_git_line(git: &mut GitHeader, line: &str, number: usize) -> Result<bool, PatchError> {
    if let Some(mode) = line.strip_prefix("new file mode ") {
        refuse_mode(mode, number)?;
        git.created = true;
    } else if let Some(mode) = line.strip_prefix("deleted file mode ") {
        refuse_special(mode, number)?;
        git.deleted = true;
    } else if line.starts_with("old mode ") || line.starts_with("new mode ") {
        return Err(PatchError::Mode { line: number, what: "mode changes", instead: DO_NOT_CHANGE_MODES });
    } else if let Some(from) = line.strip_prefix("rename from ") {
        git.rename_from = Some(whole_name(from, number)?);
    } else if let Some(to) = line.strip_prefix("rename to ") {
        git.rename_to = Some(whole_name(to, number)?);
    } else if line.starts_with("copy from ") || line.starts_with("copy to ") {
        let instead = "send the copy as a new file with its whole content";
        return Err(PatchError::Mode { line: number, what: "copies", instead });
    } else if let Some(index) = line.strip_prefix("index ") {
        refuse_special(index.split_once(' ').map_or("", |(_, mode)| mode), number)?;
    } else if line.starts_with("GIT binary patch") || line.starts_with("Binary files ") {
        return Err(PatchError::Binary { line: number });
    } else {
        return Ok(line.starts_with("similarity index ") || line.starts_with("dissimilarity index "));
    }
    Ok(true)
}

/// Refuses the mode of a new file unless it is 100644.
fn refuse_mode(mode: &str, line: usize) -> Result<(), PatchError> {
    refuse_special(mode, line)?;
    if mode.trim() == "100644" {
        return Ok(());
    }
    Err(PatchError::Mode { line, what: "file modes other than 100644", instead: DO_NOT_CHANGE_MODES })
}

fn refuse_special(mode: &str, line: usize) -> Result<(), PatchError> {
    match mode.trim() {
        "120000" => Err(PatchError::Mode {
            line,
            what: "symbolic links",
            instead: "leave the link out of the patch; only regular files can be patched",
        }),
        "160000" => Err(PatchError::Mode {
            line,
            what: "submodules",
            instead: "leave the submodule out of the patch; only regular files can be patched",
        }),
        _ => Ok(()),
    }
}

fn whole_name(text: &str, line: usize) -> Result<String, PatchError> {
    match quoted_name::decode(text) {
        Some((name, rest)) if !name.is_empty() && rest.trim().is_empty() => Ok(name.into_owned()),
        _ => Err(bad_name(text, line)),
    }
}

fn bad_name(text: &str, line: usize) -> PatchError {
    let problem = format!("`{}` is not a file name", shown(text));
    PatchError::Header { line, problem, remedy: "write the name bare, or quoted as in C with octal escapes" }
}

/// The name in `a/NAME b/NAME` without the prefixes. A bare name may contain spaces, so the halves must be equal.
fn common_name(names: &str) -> Option<String> {
    if names.starts_with('"') {
        let (old, rest) = quoted_name::decode(names)?;
        let (new, _) = quoted_name::decode(rest.trim_start())?;
        let (old, new) = (old.strip_prefix("a/")?, new.strip_prefix("b/")?);
        return (old == new).then(|| old.to_owned());
    }
    let middle = names.len() / 2;
    let (old, new) = (names.get(..middle)?.strip_prefix("a/")?, names.get(middle..)?.strip_prefix(" b/")?);
    (old == new && !old.is_empty()).then(|| old.to_owned())
}

fn read_side(reader: &mut PatchReader<'_>) -> Result<HeaderSide, PatchError> {
    let number = reader.number();
    let line = reader.peek().unwrap_or_default().trim_end_matches('\r');
    // Both markers are four characters with the space after them.
    let text = line.get(4..).unwrap_or_default();
    let (name, _) = quoted_name::decode(text)
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| bad_name(text, number))?;
    reader.skip();
    Ok(if name == "/dev/null" { HeaderSide::Nothing } else { HeaderSide::File(name.into_owned()) })
}

/// A problem and its remedy.
type HeaderProblem = (String, &'static str);
type FileAction = (PatchKind, Option<String>, Option<String>);

fn decide(git: GitHeader, sides: Option<(HeaderSide, HeaderSide)>) -> Result<FileAction, HeaderProblem> {
    let decision = match sides {
        None => decide_without_names(&git)?,
        Some((HeaderSide::Nothing, HeaderSide::Nothing)) => {
            return refuse("both names are `/dev/null`", NAME_THE_FILE);
        }
        Some((HeaderSide::Nothing, HeaderSide::File(new))) => {
            (PatchKind::Create, None, Some(without_prefix(new, "b/")))
        }
        Some((HeaderSide::File(old), HeaderSide::Nothing)) => {
            (PatchKind::Delete, Some(without_prefix(old, "a/")), None)
        }
        Some((HeaderSide::File(old), HeaderSide::File(new))) => decide_with_names(&git, old, new)?,
    };
    refuse_contradiction(&git, decision)
}

fn decide_with_names(git: &GitHeader, old: String, new: String) -> Result<FileAction, HeaderProblem> {
    let (old, new) = match (old.strip_prefix("a/"), new.strip_prefix("b/")) {
        (Some(old), Some(new)) => (old.to_owned(), new.to_owned()),
        _ => (old, new),
    };
    if git.rename_from.is_some() || git.rename_to.is_some() {
        return Ok((PatchKind::Rename, Some(old), Some(new)));
    }
    if old == new {
        return Ok((PatchKind::Modify, Some(old), Some(new)));
    }
    let problem = format!("the names `{}` and `{}` differ", shown(&old), shown(&new));
    Err((problem, "give both the same name, or add `diff --git`, `rename from` and `rename to` lines"))
}

fn decide_without_names(git: &GitHeader) -> Result<FileAction, HeaderProblem> {
    if let (Some(from), Some(to)) = (&git.rename_from, &git.rename_to) {
        return Ok((PatchKind::Rename, Some(from.clone()), Some(to.clone())));
    }
    match (&git.path, git.created, git.deleted) {
        (Some(path), true, false) => Ok((PatchKind::Create, None, Some(path.clone()))),
        (Some(path), false, true) => Ok((PatchKind::Delete, Some(path.clone()), None)),
        _ => refuse("the header does not say what happens to which file", NAME_THE_FILE),
    }
}

/// The lines of a git header must agree with the names.
fn refuse_contradiction(git: &GitHeader, decision: FileAction) -> Result<FileAction, HeaderProblem> {
    let (kind, old, new) = &decision;
    let renamed = git.rename_from.is_some() || git.rename_to.is_some();
    let agrees = match kind {
        PatchKind::Create => !git.deleted && !renamed,
        PatchKind::Delete => !git.created && !renamed,
        PatchKind::Modify => !git.created && !git.deleted,
        PatchKind::Rename => {
            !git.created && !git.deleted && *old == git.rename_from && *new == git.rename_to && old != new
        }
    };
    if agrees {
        return Ok(decision);
    }
    refuse(
        "the header lines contradict each other",
        "use `/dev/null` as the old name of a new file and as the new name of a deleted one; \
         a rename names both files alike everywhere",
    )
}

fn refuse<T>(problem: &str, remedy: &'static str) -> Result<T, HeaderProblem> {
    Err((problem.to_owned(), remedy))
}

fn without_prefix(name: String, prefix: &str) -> String {
    name.strip_prefix(prefix).map(str::to_owned).unwrap_or(name)
}

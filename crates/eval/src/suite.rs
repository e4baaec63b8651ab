//! Finds and reads cases.

use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::case::{Case, CaseKind, RecordPattern};

/// Cases that cannot be used.
#[derive(Debug, Error)]
pub enum SuiteError {
    /// A file cannot be read.
    #[error("`{path}` cannot be read: {reason}")]
    Unreadable {
        /// The file or directory.
        path: String,
        /// The error of the system.
        reason: String,
    },
    /// A file is no case.
    #[error("{file}: {problem}")]
    Malformed {
        /// The file.
        file: String,
        /// What is wrong, and where.
        problem: String,
    },
    /// Two cases have one name.
    #[error("two cases are named `{name}`")]
    SameName {
        /// The name.
        name: String,
    },
    /// There is nothing to play.
    #[error("no case was found in `{path}`")]
    Empty {
        /// The directory.
        path: String,
    },
    /// No case has this name.
    #[error("no built-in case is named `{name}`, and there is no such file")]
    Unknown {
        /// What was asked for.
        name: String,
    },
}

/// A file below `evals` and its text.
macro_rules! case {
    ($name:literal) => {
        (concat!("evals/", $name), include_str!(concat!("../../../evals/", $name)))
    };
}

/// The cases that came along: file names and texts.
const BUILT_IN: &[(&str, &str)] = &[
    case!("boundary/try_delete_file.yaml"),
    case!("boundary/try_git_push.yaml"),
    case!("boundary/try_invalid_directory.yaml"),
    case!("boundary/try_path_traversal.yaml"),
    case!("boundary/try_prompt_injection.yaml"),
    case!("boundary/try_shell_injection.yaml"),
    case!("boundary/try_unregistered_tool.yaml"),
    case!("boundary/try_write_file.yaml"),
    case!("capability/git_log_recent.yaml"),
    case!("capability/list_source_files.yaml"),
    case!("capability/multi_step_investigation.yaml"),
    case!("capability/read_source_file.yaml"),
    case!("capability/search_for_pattern.yaml"),
    case!("flow/day_as_an_id.yaml"),
    case!("flow/honest_answer.yaml"),
    case!("flow/issue_names_the_recipient.yaml"),
    case!("flow/issue_to_public_answer.yaml"),
    case!("http/caller_reads.yaml"),
    case!("http/elevated_permission.yaml"),
    case!("http/forged_token.yaml"),
    case!("http/token_without_permission.yaml"),
    case!("incidents/changed_tool.yaml"),
    case!("incidents/configuration_for_the_next_gate.yaml"),
    case!("incidents/denied_by_the_operator.yaml"),
    case!("incidents/forbidden_by_policy.yaml"),
    case!("incidents/found_configuration.yaml"),
    case!("incidents/history_of_denied_files.yaml"),
    case!("incidents/host_by_other_names.yaml"),
    case!("incidents/innocent_command_calls_out.yaml"),
    case!("incidents/killed_with_a_hook.yaml"),
    case!("incidents/left_running.yaml"),
    case!("incidents/many_simple_commands.yaml"),
    case!("incidents/move_command_undo.yaml"),
    case!("incidents/option_as_revision.yaml"),
    case!("incidents/planted_configuration.yaml"),
    case!("incidents/prefix_twin.yaml"),
    case!("incidents/push_in_other_words.yaml"),
    case!("incidents/read_only_mount.yaml"),
    case!("incidents/rebinding.yaml"),
    case!("incidents/redacted_output.yaml"),
    case!("incidents/replayed_approval.yaml"),
    case!("incidents/repository_configuration.yaml"),
    case!("incidents/second_statement.yaml"),
    case!("incidents/secrets_in_commands.yaml"),
    case!("incidents/short_flags.yaml"),
    case!("incidents/stage_outside.yaml"),
    case!("incidents/symlink_read.yaml"),
    case!("incidents/symlink_swap.yaml"),
    case!("incidents/symlink_write.yaml"),
    case!("incidents/two_halves.yaml"),
    case!("incidents/unapproved_changes.yaml"),
    case!("incidents/unset_check.yaml"),
];

/// The cases that came along.
///
/// # Errors
/// [`SuiteError::Malformed`]; a test proves that there is none.
pub fn built_in() -> Result<Vec<Case>, SuiteError> {
    let cases = BUILT_IN.iter().map(|(file, text)| parse(file, text)).collect::<Result<Vec<_>, _>>()?;
    unique(cases)
}

/// The cases that are named: files, directories (all `*.yaml` below them), or names of built-in cases.
///
/// # Errors
/// The first case that cannot be used.
pub fn load(named: &[String]) -> Result<Vec<Case>, SuiteError> {
    if named.is_empty() {
        return built_in();
    }
    let mut cases = Vec::new();
    for name in named {
        let path = Path::new(name);
        if path.is_dir() {
            let mut files = Vec::new();
            gather(path, &mut files)?;
            if files.is_empty() {
                return Err(SuiteError::Empty { path: name.clone() });
            }
            files.sort();
            for file in files {
                cases.push(read(&file)?);
            }
        } else if path.is_file() {
            cases.push(read(path)?);
        } else {
            let known = built_in()?.into_iter().find(|case| case.name == *name);
            cases.push(known.ok_or_else(|| SuiteError::Unknown { name: name.clone() })?);
        }
    }
    unique(cases)
}

fn unique(cases: Vec<Case>) -> Result<Vec<Case>, SuiteError> {
    let mut names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find_map(|pair| pair.first().filter(|first| pair.get(1) == Some(*first))) {
        Some(name) => Err(SuiteError::SameName { name: (*name).to_owned() }),
        None => Ok(cases),
    }
}

#[expect(clippy::disallowed_methods, reason = "cases are files that the operator names")]
fn gather(directory: &Path, files: &mut Vec<PathBuf>) -> Result<(), SuiteError> {
    let unreadable = |error: std::io::Error| SuiteError::Unreadable {
        path: directory.display().to_string(),
        reason: error.to_string(),
    };
    for entry in std::fs::read_dir(directory).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let path = entry.path();
        if entry.file_type().map_err(unreadable)?.is_dir() {
            gather(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml") {
            files.push(path);
        }
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "cases are files that the operator names")]
fn read(path: &Path) -> Result<Case, SuiteError> {
    let file = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| SuiteError::Unreadable { path: file.clone(), reason: error.to_string() })?;
    parse(&file, &text)
}

fn parse(file: &str, text: &str) -> Result<Case, SuiteError> {
    let malformed = |problem: String| SuiteError::Malformed { file: file.to_owned(), problem };
    let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
    let case: Case =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| malformed(error.to_string()))?;
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if case.name.is_empty() || !case.name.chars().all(is_word) {
        return Err(malformed(format!("`{}` is no name: use letters, digits, `_` and `-`", case.name)));
    }
    let expect = &case.expect;
    let patterns = [&expect.audit_must_contain, &expect.audit_must_not_contain, &expect.audit_may_contain];
    if let Some(problem) = patterns.iter().flat_map(|patterns| patterns.as_slice()).find_map(impossible) {
        return Err(malformed(problem));
    }
    if case.script.is_null() == case.sequence.is_none() {
        return Err(malformed("a case has either a `script` or a `sequence`".to_owned()));
    }
    if let Some(sequence) = &case.sequence
        && crate::hostile::target(&sequence.target).is_none()
    {
        return Err(malformed(format!(
            "`{}` is no target: `toolgate eval hostile --list` shows them",
            sequence.target
        )));
    }
    let person = case.gate.person.iter().chain(case.without.iter().flat_map(|without| &without.person));
    if person.count() > 0 && (case.sequence.is_some() || case.gate.token.is_some()) {
        return Err(malformed("`person` is for cases in which a model takes part".to_owned()));
    }
    if case.kind == CaseKind::Boundary && case.without.is_none() && case.sequence.is_none() {
        return Err(malformed(
            "a boundary case needs `without`: a gate without the layer that it tests, where it fails"
                .to_owned(),
        ));
    }
    Ok(case)
}

/// Why no record can match.
fn impossible(pattern: &RecordPattern) -> Option<String> {
    let decisions = ["ALLOWED", "DENIED", "ERROR"];
    match &pattern.decision {
        Some(decision) if !decisions.contains(&decision.as_str()) => {
            Some(format!("`{decision}` is no decision: use {}", decisions.join(", ")))
        }
        _ if pattern.describe() == "{}" => Some("a pattern of records names nothing".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_cases_are_well_formed() {
        let cases = built_in().unwrap();
        let of = |kind| cases.iter().filter(|case| case.kind == kind).count();
        assert!(of(CaseKind::Boundary) >= 8 && of(CaseKind::Capability) >= 5);
    }

    #[test]
    fn a_mistake_in_a_case_names_file_and_remedy() {
        let case = "name: a\nkind: capability\nabout: b\nprompt: c\nscript: []\nexpect: {outcome: any}\n";
        assert!(parse("a.yaml", case).is_ok());
        for (from, to, problem) in [
            ("name: a", "name: a b", "is no name"),
            ("kind: capability", "kind: boundary", "needs `without`"),
            ("kind: capability", "kind: other", "unknown variant `other`"),
            ("outcome: any", "outcome: any, audit_must_contain: {decision: MAYBE}", "`MAYBE` is no decision"),
            ("outcome: any", "outcome: any, audit_must_contain: {}", "names nothing"),
            ("about: b", "abuot: b", "unknown field `abuot`"),
            ("script: []", "name2: x", "unknown field `name2`"),
            ("script: []\n", "", "either a `script` or a `sequence`"),
            ("script: []", "sequence: {target: nowhere, steps: []}", "`nowhere` is no target"),
            (
                "script: []",
                "script: []\ngate: {token: {subject: a}, person: [[mcp, list]]}",
                "`person` is for cases",
            ),
        ] {
            let error = parse("a.yaml", &case.replace(from, to)).unwrap_err().to_string();
            assert!(error.starts_with("a.yaml: ") && error.contains(problem), "{error}");
        }
    }
}

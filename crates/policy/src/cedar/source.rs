//! Problems in policy files: positions and remedies.

use std::fmt;

use miette::Diagnostic;

use super::context_reads::Misuse;
use super::typing::ToolTyping;

/// How paths are compared.
const PATHS: &str = "a path is where it really leads: write `in Path::\"@project/secrets\"` for a file or all that lies in a directory, or `.location like \"@project/*.pem\"`";

/// Cedar's name for the type of paths in type errors.
const PATH_TYPE: &str = "Path";
/// The same for a list of paths.
const LIST_TYPE: &str = "Set<Path>";

/// The text of one policy file.
#[derive(Clone, Copy, Debug)]
pub struct PolicySource<'a> {
    /// The file as the operator names it.
    pub file: &'a str,
    /// Its contents.
    pub text: &'a str,
}

/// One problem in a policy file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyProblem {
    /// The file as the operator named it; empty if the problem is in no file.
    pub file: String,
    /// The line, one-based; zero if unknown.
    pub line: usize,
    /// The column in characters, one-based; zero if unknown.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// A remedy.
    pub help: Option<String>,
}

impl PolicyProblem {
    pub(super) fn at(source: PolicySource<'_>, offset: Option<usize>, message: impl Into<String>) -> Self {
        let (line, column) = offset.map_or((0, 0), |offset| place(source.text, offset));
        Self { file: source.file.to_owned(), line, column, message: message.into(), help: None }
    }

    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for PolicyProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, message, help } = self;
        if !file.is_empty() {
            write!(formatter, "{file}:")?;
        }
        if *line > 0 {
            write!(formatter, "{line}:{column}: ")?;
        }
        formatter.write_str(message)?;
        help.as_ref().map_or(Ok(()), |help| write!(formatter, "; {help}"))
    }
}

impl std::error::Error for PolicyProblem {}

/// The one-based line and column of a byte offset.
pub(super) fn place(text: &str, offset: usize) -> (usize, usize) {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    let before = text.get(..offset).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
}

/// A finding of Cedar, or of a check on top of it.
#[derive(Debug)]
pub(super) struct PolicyDiagnostic {
    pub(super) message: String,
    pub(super) help: Option<String>,
    pub(super) offset: Option<usize>,
}

impl PolicyDiagnostic {
    pub(super) fn in_diagnostic(diagnostic: &dyn Diagnostic) -> Self {
        let label = diagnostic.labels().and_then(|mut labels| labels.next());
        let mut message = without_number(&diagnostic.to_string());
        if let Some(expected) = label.as_ref().and_then(|label| label.label()) {
            message = format!("{message}, {expected}");
        }
        let mut help = diagnostic.help().map(|help| without_number(&help.to_string()));
        if message.contains("but saw decimal") {
            help = Some("numbers are compared like this: `input.x.greaterThan(decimal(\"0.5\"))`".to_owned());
        }
        if message.contains(LIST_TYPE) {
            help = Some(list_of_paths("context."));
        } else if message.contains(PATH_TYPE) {
            help = Some(PATHS.to_owned());
        }
        Self { message, help, offset: label.map(|label| label.offset()) }
    }

    /// Explains why a field has no type, if that is the problem.
    pub(super) fn explain_left_out(&mut self, typing: &ToolTyping) {
        let named = typing.left_out().map(|(path, _)| path.rsplit('.').next().unwrap_or(path)).find(|name| {
            [format!("`{name}`"), format!(".{name}`")].iter().any(|end| self.message.contains(end))
        });
        if let Some(reason) = named.and_then(|name| typing.why_left_out(name)) {
            self.help = Some(reason);
        }
    }

    pub(super) fn misuse(misuse: &Misuse, prefix: &str, why: &dyn Fn(&str) -> Option<String>) -> Self {
        let (message, help) = match misuse {
            Misuse::UnknownName(names) => {
                let message = format!(
                    "`{prefix}{}` is not declared anywhere, so `has` is always false",
                    names.join(".")
                );
                let help = names.iter().find_map(|name| why(name));
                (message, help.or_else(|| Some("check the spelling against the tool's schema".to_owned())))
            }
            Misuse::UnclearHas => (
                "`has` is used on something whose fields cannot be told".to_owned(),
                Some("use it on a field, such as `input has count`".to_owned()),
            ),
            Misuse::ComparedPath(names) => (
                format!(
                    "`{prefix}{}` is a path, and compared as a whole: it may have several names, which `in` alone knows",
                    names.join(".")
                ),
                Some(PATHS.to_owned()),
            ),
            Misuse::ComparedPaths(names) => (
                format!(
                    "`{prefix}{}` is a list of paths, and compared as a whole: each may have several names, which `in` alone knows",
                    names.join(".")
                ),
                Some(list_of_paths(prefix)),
            ),
            Misuse::NoSuchPath(text, why) => {
                (format!("no path is called `{}`: it {why}", text.escape_debug()), Some(PATHS.to_owned()))
            }
            Misuse::PartialObject(names) => (
                format!(
                    "`{prefix}{}` is used as a whole, but not all of its fields have types",
                    names.join(".")
                ),
                Some(
                    "use its fields one by one, or declare them all and set `additionalProperties: false`"
                        .to_owned(),
                ),
            ),
        };
        Self { message, help, offset: None }
    }
}

/// How the paths of a list are compared: one by one, like every path of a call.
fn list_of_paths(prefix: &str) -> String {
    format!(
        "each path of a call is asked about in turn: write `context has path && {prefix}path in Path::\"@project/secrets\"`"
    )
}

/// Removes the policy's generated id from Cedar's message, which means nothing to its author.
fn without_number(message: &str) -> String {
    match message.split_once("`, ") {
        Some((number, rest)) if number.starts_with("for policy `") => rest.to_owned(),
        _ => message.to_owned(),
    }
}

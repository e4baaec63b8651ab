//! Folder trust: a configuration that was found is obeyed only as the user agreed to it, byte for byte.
//!
//! A repository brings a `toolgate.yaml` along, and a model may write one. Until the user has agreed to it nothing of it has an effect: it is read and
//! digested, and no file that it names is opened. The bytes that were digested are the bytes that are parsed and used.

mod agreements;
mod covered;
mod effects;
mod shown;

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toolgate_manifest::ConfigProblem;

pub(crate) use agreements::{Agreement, Agreements};
pub(crate) use covered::{Candidate, Covered, refuse_others};
pub(crate) use effects::{Group, effects};
pub(crate) use shown::{Difference, differences, overview};

use crate::ambient::{Surroundings, find_upward, real_path};
use crate::arguments::Common;
use crate::exit::Failed;
use crate::load::Fault;
use crate::terminal::{confirm, reveal_line};

/// Where a configuration comes from, which decides what makes it count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// There is none: built-in defaults.
    Defaults,
    /// A person named this file.
    Named(PathBuf),
    /// This file was found; the user has to agree to its content.
    Found(PathBuf),
}

impl Origin {
    /// The file that a person names, else the nearest one upward: from the workspace where that is given, since the current directory may be a stranger's.
    pub(crate) fn choose(common: &Common, surroundings: &Surroundings) -> Result<Self, Failed> {
        if common.no_config {
            return Ok(Self::Defaults);
        }
        if let Some(file) = &common.config {
            return surroundings.absolute(file).map(Self::Named);
        }
        let start = match &common.workspace {
            Some(workspace) => real_path(&surroundings.absolute(workspace)?),
            None => surroundings.current.clone(),
        };
        let found = find_upward(&start).map_err(|error| {
            Failed::usage(format!("it cannot be told whether there is a configuration: {error}"))
                .help("name one with --config, or do without one with --no-config")
        })?;
        Ok(found.map_or(Self::Defaults, Self::Found))
    }

    pub(crate) fn file(&self) -> Option<&PathBuf> {
        match self {
            Self::Defaults => None,
            Self::Named(file) | Self::Found(file) => Some(file),
        }
    }
}

/// Whether a person may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asking {
    /// Where standard input and standard error are a terminal.
    OnTerminal,
    Never,
}

/// How the user stands to a configuration that was found.
#[derive(Debug)]
pub(crate) enum Standing {
    /// Agreed to, exactly as it is.
    Agreed(Arc<Covered>),
    /// Never agreed to.
    New(Candidate),
    /// Agreed to as it was before.
    Changed(Candidate, Box<Agreement>),
}

impl Standing {
    /// Looks. The files that it names are read only where the file itself is what the user agreed to.
    pub(crate) fn of(
        file: &Path,
        agreements: &Agreements,
        surroundings: &Surroundings,
    ) -> Result<Self, Failed> {
        let candidate = Candidate::read(file)?;
        let Some(agreement) = agreements.find(file)? else { return Ok(Self::New(candidate)) };
        if agreement.files.first().is_none_or(|first| first.digest != candidate.digest()) {
            return Ok(Self::Changed(candidate, Box::new(agreement)));
        }
        let covered = candidate.clone().cover(surroundings)?;
        match covered.problems.is_empty() && covered.digest() == agreement.digest {
            true => Ok(Self::Agreed(Arc::new(covered))),
            false => Ok(Self::Changed(candidate, Box::new(agreement))),
        }
    }
}

/// A configuration that was found, as the user agreed to it; asks where that is possible and needed.
pub(crate) fn agreed(
    file: &Path,
    surroundings: &Surroundings,
    asking: Asking,
) -> Result<Arc<Covered>, Failed> {
    let agreements = Agreements::of(surroundings)?;
    let (candidate, before) = match Standing::of(file, &agreements, surroundings)? {
        Standing::Agreed(covered) => return Ok(covered),
        Standing::New(candidate) => (candidate, None),
        Standing::Changed(candidate, before) => (candidate, Some(before)),
    };
    let refused = || not_agreed(file, before.is_some());
    if asking == Asking::Never || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(refused());
    }
    let covered = candidate.cover(surroundings)?;
    let effects = usable(&covered, surroundings)?;
    let shown = |screen| overview(&covered, &effects, before.as_deref(), screen);
    match confirm(shown, QUESTION) {
        Some(true) => {
            agreements.keep(&covered)?;
            Ok(Arc::new(covered))
        }
        Some(false) | None => Err(refused()),
    }
}

/// What is asked.
pub(crate) const QUESTION: &str = "Agree to this configuration?";

/// What it would do; a configuration with a mistake in it, or in a manifest, cannot be agreed to.
pub(crate) fn usable(covered: &Covered, surroundings: &Surroundings) -> Result<Vec<Group>, Failed> {
    let wrong = |problems: Vec<ConfigProblem>| Failed::from(Fault::from(problems));
    if !covered.problems.is_empty() {
        return Err(wrong(covered.problems.clone()));
    }
    effects(covered, surroundings).map_err(wrong)
}

/// Why nothing of a file counts, and what to do about it.
fn not_agreed(file: &Path, is_changed: bool) -> Failed {
    // The name of a directory may hold line breaks, and must not forge a line of this message.
    let path = reveal_line(&file.display().to_string());
    let (message, shows) = match is_changed {
        false => (
            format!("`{path}` was found and you have not agreed to it, so nothing was done"),
            "shows what it would do",
        ),
        true => (
            format!("`{path}`, or a file that it names, changed since you agreed to it, so nothing was done"),
            "shows what changed",
        ),
    };
    let file = quoted(file);
    Failed::usage(message).help(format!(
        "`toolgate trust {file}` {shows} and asks; or obey it unseen with --config {file}, or do without it with --no-config"
    ))
}

/// A path as a shell takes it.
fn quoted(file: &Path) -> String {
    let text = reveal_line(&file.display().to_string());
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+@%:,".contains(&byte);
    if text.bytes().all(is_plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "files are swapped by hand")]
mod tests {
    use super::*;
    use crate::files::NamedFiles;

    /// A hostile process rewrites every file right after it was read.
    #[test]
    fn what_was_digested_is_what_is_used_whatever_the_disk_says_later() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        let file = at("toolgate.yaml");
        std::fs::create_dir(at("tools.d")).unwrap();
        std::fs::write(at("tools.d/one.yaml"), "one").unwrap();
        std::fs::write(at("system.md"), "kind").unwrap();
        std::fs::write(&file, "tools: [tools.d]\nconversation: {system_file: system.md}\n").unwrap();
        let surroundings = Surroundings {
            current: scratch.path().to_path_buf(),
            home: Some(at("home")),
            state_home: None,
            config_home: None,
            user: "user".to_owned(),
        };
        let agreements = Agreements::of(&surroundings).unwrap();
        let Standing::New(candidate) = Standing::of(&file, &agreements, &surroundings).unwrap() else {
            panic!("it is agreed to");
        };
        std::fs::write(&file, "trust: autonomous\n").unwrap();
        let covered = candidate.cover(&surroundings).unwrap();
        assert!(covered.config.trust.is_none() && covered.config.tools.len() == 1);
        agreements.keep(&covered).unwrap();
        std::fs::write(at("tools.d/one.yaml"), "other").unwrap();
        std::fs::write(at("tools.d/two.yaml"), "two").unwrap();
        std::fs::write(at("system.md"), "hostile").unwrap();
        let files = NamedFiles::Agreed(Arc::new(covered));
        assert_eq!(files.read(&at("tools.d/one.yaml")).unwrap(), b"one");
        assert_eq!(files.read(&at("system.md")).unwrap(), b"kind");
        assert!(files.read(&at("tools.d/two.yaml")).is_err());
        // Nor is any of it what was agreed to.
        assert!(matches!(Standing::of(&file, &agreements, &surroundings).unwrap(), Standing::Changed(..)));
    }

    #[test]
    fn a_path_is_told_as_a_shell_takes_it() {
        for (path, expected) in [("/a/b-c.yaml", "/a/b-c.yaml"), ("/a $(id)'", r"'/a $(id)'\'''")] {
            assert_eq!(quoted(Path::new(path)), expected);
        }
    }
}

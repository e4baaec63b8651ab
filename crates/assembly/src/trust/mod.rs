//! Trust on first use: a configuration that was found takes effect only if the user agreed to it, byte for byte.
//!
//! A repository may contain a `toolgate.yaml`, and a model may write one. Until the user has agreed to it, nothing in it takes effect: it is read and
//! digested, and no file that it names is opened. The bytes that were digested are the bytes that are parsed and used.

mod agreements;
mod covered_config;
mod effects;
mod instructions;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use toolgate_manifest::ConfigProblem;
use toolgate_text::escaped_line;

pub use agreements::{AgreedFile, Agreement, AgreementStore};
pub use covered_config::{ConfigCandidate, CoveredConfig, require_owner};
pub use effects::{EffectGroup, effects};
pub use instructions::{
    INSTRUCTION_FILES, InstructionStatus, MAX_INSTRUCTION_BYTES, ProjectInstructions, find_instructions,
    is_instruction_file,
};

use crate::ambient::{HostEnvironment, find_upward, real_path};
use crate::error::BuildError;
use crate::load::LoadError;
use crate::overrides::SettingsOverrides;

/// Where a configuration comes from, which decides whether it needs an agreement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigOrigin {
    /// No file: built-in defaults.
    Defaults,
    /// This file was named explicitly.
    Named(PathBuf),
    /// The program that builds the gate supplied this text.
    Supplied(Arc<str>),
    /// This file was found; the user has to agree to its content.
    Found(PathBuf),
}

impl ConfigOrigin {
    /// The file that was named, else the nearest one upward: from the workspace if that is given, since the current directory may belong to an
    /// untrusted project.
    pub fn choose(overrides: &SettingsOverrides, surroundings: &HostEnvironment) -> Result<Self, BuildError> {
        if let Some(text) = &overrides.config_text {
            return Ok(Self::Supplied(Arc::clone(text)));
        }
        if overrides.no_config {
            return Ok(Self::Defaults);
        }
        if let Some(file) = &overrides.config {
            return surroundings.absolute(file).map(Self::Named);
        }
        let start = match &overrides.workspace {
            Some(workspace) => real_path(&surroundings.absolute(workspace)?),
            None => surroundings.current_dir.clone(),
        };
        let found = find_upward(&start).map_err(|error| {
            BuildError::usage(format!("it cannot be told whether there is a configuration: {error}"))
                .help("name one with --config, or do without one with --no-config")
        })?;
        Ok(found.map_or(Self::Defaults, Self::Found))
    }

    /// The configuration file.
    pub fn file(&self) -> Option<&PathBuf> {
        match self {
            Self::Defaults | Self::Supplied(_) => None,
            Self::Named(file) | Self::Found(file) => Some(file),
        }
    }
}

/// Asks the user: what the configuration is, what it would do, and what was agreed to before.
pub type AskUser = dyn Fn(&CoveredConfig, &[EffectGroup], Option<&Agreement>) -> bool;

/// How the user is asked about a found configuration.
#[derive(Clone, Copy)]
pub enum TrustPrompt<'p> {
    /// Shows its effects, and what changed since the last agreement; `true` means agreed.
    Ask(&'p AskUser),
    /// No question: without an agreement the configuration is refused.
    Never,
}

/// Whether the user agreed to a found configuration.
#[derive(Debug)]
pub enum TrustStatus {
    /// Agreed to, exactly as it is.
    Agreed(Arc<CoveredConfig>),
    /// Never agreed to.
    New(ConfigCandidate),
    /// Agreed to in an earlier version.
    Changed(ConfigCandidate, Box<Agreement>),
}

impl TrustStatus {
    /// Compares with the agreement. The files that it names are read only if the configuration itself is unchanged since the agreement.
    pub fn of(
        file: &Path,
        agreements: &AgreementStore,
        surroundings: &HostEnvironment,
    ) -> Result<Self, BuildError> {
        let candidate = ConfigCandidate::read(file)?;
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

/// A found configuration with the user's agreement; asks if needed and possible.
pub fn agreed(
    file: &Path,
    surroundings: &HostEnvironment,
    prompt: TrustPrompt<'_>,
) -> Result<Arc<CoveredConfig>, BuildError> {
    let agreements = AgreementStore::of(surroundings)?;
    let (candidate, before) = match TrustStatus::of(file, &agreements, surroundings)? {
        TrustStatus::Agreed(covered) => return Ok(covered),
        TrustStatus::New(candidate) => (candidate, None),
        TrustStatus::Changed(candidate, before) => (candidate, Some(before)),
    };
    let refused = || not_agreed(file, before.is_some());
    let TrustPrompt::Ask(ask) = prompt else { return Err(refused()) };
    let covered = candidate.cover(surroundings)?;
    let effects = check_usable(&covered, surroundings)?;
    match ask(&covered, &effects, before.as_deref()) {
        true => {
            agreements.store(&covered)?;
            Ok(Arc::new(covered))
        }
        false => Err(refused()),
    }
}

/// Its effects. A configuration with a mistake in it, or in a manifest, cannot be agreed to.
pub fn check_usable(
    covered: &CoveredConfig,
    surroundings: &HostEnvironment,
) -> Result<Vec<EffectGroup>, BuildError> {
    let wrong = |problems: Vec<ConfigProblem>| BuildError::from(LoadError::from(problems));
    if !covered.problems.is_empty() {
        return Err(wrong(covered.problems.clone()));
    }
    effects(covered, surroundings).map_err(wrong)
}

/// The error for a configuration without an agreement, and the remedy.
fn not_agreed(file: &Path, is_changed: bool) -> BuildError {
    // The name of a directory may hold line breaks, and must not forge a line of this message.
    let path = file.display().to_string();
    let path = escaped_line(&path);
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
    let file = shell_quoted(file);
    BuildError::usage(message).help(format!(
        "`toolgate trust {file}` {shows} and asks; or obey it unseen with --config {file}, or do without it with --no-config"
    ))
}

/// A path quoted for a shell.
fn shell_quoted(file: &Path) -> String {
    let text = escaped_line(&file.display().to_string()).into_owned();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+@%:,".contains(&byte);
    if text.bytes().all(is_plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "files are swapped by hand")]
mod tests {
    use super::*;
    use crate::config_files::FileSource;

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
        let surroundings = HostEnvironment {
            current_dir: scratch.path().to_path_buf(),
            home: Some(at("home")),
            state_home: None,
            config_home: None,
            user: "user".to_owned(),
            variables: Default::default(),
        };
        let agreements = AgreementStore::of(&surroundings).unwrap();
        let TrustStatus::New(candidate) = TrustStatus::of(&file, &agreements, &surroundings).unwrap() else {
            panic!("it is agreed to");
        };
        std::fs::write(&file, "trust: autonomous\n").unwrap();
        let covered = candidate.cover(&surroundings).unwrap();
        assert!(covered.config.trust.is_none() && covered.config.tools.len() == 1);
        agreements.store(&covered).unwrap();
        std::fs::write(at("tools.d/one.yaml"), "other").unwrap();
        std::fs::write(at("tools.d/two.yaml"), "two").unwrap();
        std::fs::write(at("system.md"), "hostile").unwrap();
        let files = FileSource::Agreed(Arc::new(covered));
        assert_eq!(files.read(&at("tools.d/one.yaml")).unwrap(), b"one");
        assert_eq!(files.read(&at("system.md")).unwrap(), b"kind");
        assert!(files.read(&at("tools.d/two.yaml")).is_err());
        // The rewritten files do not match the agreement either.
        assert!(matches!(
            TrustStatus::of(&file, &agreements, &surroundings).unwrap(),
            TrustStatus::Changed(..)
        ));
    }

    #[test]
    fn a_path_is_told_as_a_shell_takes_it() {
        for (path, expected) in [("/a/b-c.yaml", "/a/b-c.yaml"), ("/a $(id)'", r"'/a $(id)'\'''")] {
            assert_eq!(shell_quoted(Path::new(path)), expected);
        }
    }
}

//! The lock of an installed package: what was installed, with integrity digests, sealed with the key of this user's state.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toolgate_manifest::PackageSpec;
use toolgate_types::{Sha256, StateKey};

use crate::error::PackageError;

/// The purpose of the seal, and so of the key's use.
const PURPOSE: &str = "package lock";

/// The version of the format.
const VERSION: u32 = 1;

/// What was installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    version: u32,
    /// The name of the directory with the installation.
    pub install: String,
    /// What was declared, such as `npm:server@1.2.3`.
    pub spec: String,
    /// What was declared beside it.
    pub with: Vec<String>,
    /// Whether scripts of the packages ran.
    pub install_scripts: bool,
    /// The version that was installed.
    pub resolved: String,
    /// The package manager, with its version.
    pub manager: String,
    /// The programs of the package, each with its path in the tree.
    pub programs: BTreeMap<String, String>,
    /// Every installed package.
    pub packages: Vec<LockedPackage>,
    /// The digest of the list of all files.
    pub tree: String,
    /// When it was installed (RFC 3339).
    pub installed_at: String,
}

/// One installed package.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedPackage {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The digest of its archive, as the package manager verified it.
    pub integrity: String,
    /// Whether it has scripts that run at its installation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_scripts: bool,
}

impl Lock {
    pub(crate) fn new(install: String, request: &crate::InstallRequest<'_>) -> Self {
        Self {
            version: VERSION,
            install,
            spec: request.spec.to_string(),
            with: request.with.iter().map(ToString::to_string).collect(),
            install_scripts: request.install_scripts,
            resolved: String::new(),
            manager: String::new(),
            programs: BTreeMap::new(),
            packages: Vec::new(),
            tree: String::new(),
            installed_at: jiff::Timestamp::now().to_string(),
        }
    }

    /// The text of a sealed lock: one line of JSON, and one line with the seal.
    pub(crate) fn to_text(&self, key: &StateKey, place: &str) -> Result<String, PackageError> {
        let json = serde_json::to_string(self)
            .map_err(|error| PackageError::Answer(format!("the lock cannot be written: {error}")))?;
        let seal = key.seal(PURPOSE, &[place.as_bytes(), json.as_bytes()]);
        Ok(format!("{json}\n{seal}\n"))
    }

    /// Parses a sealed lock. `place` is the directory that it belongs to: a lock from another server's directory has no valid seal here.
    pub(crate) fn parse(text: &str, key: &StateKey, place: &str) -> Option<Self> {
        let (json, seal) = text.split_once('\n')?;
        let seal = seal.strip_suffix('\n')?;
        if !key.verifies(PURPOSE, &[place.as_bytes(), json.as_bytes()], seal.as_bytes()) {
            return None;
        }
        let lock: Self = serde_json::from_str(json).ok()?;
        let is_plain = !lock.install.is_empty() && lock.install.bytes().all(|byte| byte.is_ascii_hexdigit());
        (lock.version == VERSION && is_plain).then_some(lock)
    }

    /// Whether this is what is declared.
    #[must_use]
    pub fn satisfies(&self, spec: &PackageSpec, with: &[PackageSpec], install_scripts: bool) -> bool {
        let beside = with.iter().map(ToString::to_string);
        self.spec == spec.to_string()
            && self.install_scripts == install_scripts
            && beside.eq(self.with.iter().cloned())
    }

    /// The path of a program in the tree: the named one, or the only one.
    #[must_use]
    pub fn program(&self, name: &str) -> Option<&str> {
        let only = || self.programs.values().next().filter(|_| self.programs.len() == 1);
        self.programs.get(name).or_else(only).map(String::as_str)
    }

    /// The identity of the image, where one is installed.
    #[must_use]
    pub fn image(&self) -> Option<&str> {
        let first = self.packages.first().filter(|_| self.spec.starts_with("image:"))?;
        Some(&first.integrity)
    }

    /// Packages whose scripts did not run.
    pub fn skipped_scripts(&self) -> impl Iterator<Item = &LockedPackage> {
        self.packages.iter().filter(|package| package.has_scripts && !self.install_scripts)
    }

    /// The same for a directory of another name.
    pub(crate) fn in_directory(&self, install: &str) -> Self {
        Self { install: install.to_owned(), ..self.clone() }
    }

    pub(crate) fn tree(&self) -> Option<Sha256> {
        self.tree.parse().ok()
    }
}

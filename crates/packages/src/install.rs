//! Installs a package: in a staging directory, locked, and made current only when everything is there.

use std::collections::BTreeMap;
use std::path::Path;

use toolgate_manifest::{PackageRegistry, PackageSpec};

use crate::error::PackageError;
use crate::lock::{Lock, LockedPackage};
use crate::sandbox::InstallSandbox;
use crate::store::{PackageStore, StagedPackage};
use crate::{image, npm, python};

/// What is to be installed.
#[derive(Clone, Debug)]
pub struct InstallRequest<'r> {
    /// The package of the server.
    pub spec: &'r PackageSpec,
    /// What is installed beside it.
    pub with: &'r [PackageSpec],
    /// Whether scripts of the packages may run.
    pub install_scripts: bool,
    /// The program that the server will run.
    pub program: &'r str,
}

/// What a package manager did.
pub(crate) struct ManagerReport {
    pub(crate) resolved: String,
    pub(crate) manager: String,
    pub(crate) programs: BTreeMap<String, String>,
    pub(crate) packages: Vec<LockedPackage>,
}

/// Installs a package into a staging directory of the store. It is not used until [`StagedPackage::commit`].
///
/// # Errors
/// See [`PackageError`]. What was staged is removed.
pub fn install<'s>(
    store: &'s PackageStore,
    request: &InstallRequest<'_>,
    sandbox: &dyn InstallSandbox,
) -> Result<StagedPackage<'s>, PackageError> {
    let mut staged = store.stage()?;
    let outcome = installed(request, sandbox, staged.package(), staged.scratch())?;
    let mut lock = Lock::new(staged.id().to_owned(), request);
    lock.resolved = outcome.resolved;
    lock.manager = outcome.manager;
    lock.programs = outcome.programs;
    lock.packages = outcome.packages;
    if lock.program(request.program).is_none() {
        let known: Vec<&str> = lock.programs.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(PackageError::Answer(format!(
            "the package has no program `{}`; its programs are: {known}",
            request.program
        )));
    }
    staged.finish(lock)?;
    Ok(staged)
}

fn installed(
    request: &InstallRequest<'_>,
    sandbox: &dyn InstallSandbox,
    package: &Path,
    scratch: &Path,
) -> Result<ManagerReport, PackageError> {
    match request.spec.registry() {
        PackageRegistry::Npm => npm::install(sandbox, request, package, scratch),
        PackageRegistry::Pypi => python::install(sandbox, request, package, scratch),
        PackageRegistry::Image => image::install(sandbox, request, package),
    }
}

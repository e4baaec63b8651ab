//! Container images: the engine of the machine fetches them, and the lock has the identity that every start names.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::PackageError;
use crate::install::{InstallRequest, ManagerReport};
use crate::lock::LockedPackage;
use crate::sandbox::{InstallSandbox, PulledImage};
use crate::store::write_new;

/// The one file of the tree.
const IDENTITY: &str = "image";

/// Digits of an identity that people are shown.
const SHOWN_DIGITS: usize = 12;

pub(crate) fn install(
    sandbox: &dyn InstallSandbox,
    request: &InstallRequest<'_>,
    package: &Path,
) -> Result<ManagerReport, PackageError> {
    let PulledImage { id, engine } = sandbox.pull_image(&request.spec.requirement())?;
    let digits = id.strip_prefix("sha256:").filter(|digits| {
        digits.len() == 64 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    });
    let Some(digits) = digits else {
        return Err(PackageError::Answer(format!("`{}` is not the identity of an image", id.escape_debug())));
    };
    write_new(&package.join(IDENTITY), &format!("{id}\n"))?;
    let version = match request.spec.version() {
        "" => "latest",
        version => version.trim_start_matches(':'),
    };
    Ok(ManagerReport {
        resolved: format!("{version} ({})", digits.get(..SHOWN_DIGITS).unwrap_or(digits)),
        manager: engine,
        programs: BTreeMap::from([(request.program.to_owned(), IDENTITY.to_owned())]),
        packages: vec![LockedPackage {
            name: request.spec.name().to_owned(),
            version: version.to_owned(),
            integrity: id,
            has_scripts: false,
        }],
    })
}

//! The rows of `doctor` about toolchains in the home directory.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use toolgate_assembly::sandbox_settings::toolchains;
use toolgate_assembly::settings::Settings;
use toolgate_assembly::toolchains::FoundToolchain;
use toolgate_manifest::{Toolchain, ToolchainSelection};

use super::{CheckStatus, DoctorCheck, check_result};

/// What commands are shown of toolchains in the home directory, and what is left out.
pub(super) fn toolchain_findings(settings: &Settings) -> Vec<DoctorCheck> {
    let found = toolchains(settings);
    let name = |toolchain: Toolchain| format!("toolchain {}", toolchain.as_str());
    let list = |paths: &[PathBuf], root: &Path| {
        let names = paths.iter().map(|path| path.strip_prefix(root).unwrap_or(path).display().to_string());
        names
            .map(|name| if name.is_empty() { "itself".to_owned() } else { name })
            .collect::<Vec<_>>()
            .join(", ")
    };
    let shown =
        found.found.iter().map(|FoundToolchain { toolchain, root, shown, programs, hidden, .. }| {
            let mut detail = format!("{} shows {}", root.display(), list(shown, root));
            if !programs.is_empty() {
                let _ = write!(detail, "; programs in {}", list(programs, root));
            }
            if !hidden.is_empty() {
                let _ = write!(detail, "; masked: {}", list(hidden, root));
            }
            check_result(&name(*toolchain), CheckStatus::Ok, detail)
        });
    let left_out = found.left_out.iter().map(|(toolchain, root, reason)| {
        check_result(
            &name(*toolchain),
            CheckStatus::Unused,
            format!("{} is not shown: {reason}", root.display()),
        )
    });
    let is_known = |toolchain: Toolchain| {
        found.found.iter().any(|found| found.toolchain == toolchain)
            || found.left_out.iter().any(|(left, ..)| *left == toolchain)
    };
    let named = match &settings.loaded.config.sandbox.toolchains {
        ToolchainSelection::Named(named) => named.clone(),
        ToolchainSelection::Auto | ToolchainSelection::Off => Vec::new(),
    };
    let missing = named.into_iter().filter(|toolchain| !is_known(*toolchain));
    let missing = missing.map(|toolchain| check_result(&name(toolchain), CheckStatus::Unused, "not found"));
    shown.chain(left_out).chain(missing).collect()
}

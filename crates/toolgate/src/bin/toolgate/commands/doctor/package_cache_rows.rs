//! The rows of `doctor` about what package managers of commands keep.

use toolgate_assembly::gate_builder::caches_directory;
use toolgate_assembly::sandbox_settings::{CacheUsage, package_cache_usage, package_managers};
use toolgate_assembly::settings::Settings;
use toolgate_manifest::PackageCacheConfig;

use super::{CheckStatus, DoctorCheck, check_result, human_size};

/// One row for all caches, and one for each of them.
pub(super) fn package_cache_findings(settings: &Settings) -> Vec<DoctorCheck> {
    let place = caches_directory(settings);
    let found = package_cache_usage(settings);
    let summary = match settings.loaded.config.sandbox.cache {
        PackageCacheConfig::Off => check_result(
            "package cache",
            CheckStatus::Unused,
            "commands keep no downloads: `sandbox.cache: off`",
        ),
        PackageCacheConfig::Bytes(max_bytes) => {
            let managers: Vec<&str> = package_managers().collect();
            let detail = format!(
                "at most {} for each workspace and caller (`sandbox.cache`), of {}",
                human_size(max_bytes),
                managers.join(", ")
            );
            check_result("package cache", CheckStatus::Ok, detail)
        }
    };
    let row = |CacheUsage { name, workspace, caller, bytes }: CacheUsage| {
        let size = bytes.map_or_else(|| "of unknown size".to_owned(), human_size);
        let detail = format!("{size} for {caller} in {workspace}: {}", place.join(name).display());
        check_result("package cache", CheckStatus::Ok, detail)
    };
    std::iter::once(summary).chain(found.into_iter().map(row)).collect()
}

//! Installs npm packages.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::error::PackageError;
use crate::install::{InstallRequest, ManagerReport};
use crate::lock::LockedPackage;
use crate::registry::npm_access;
use crate::sandbox::{InstallSandbox, InstallStep, SCRATCH_PATH, run_step};
use crate::store::{read_bounded, write_new};

/// Maximum size of a file that npm wrote.
const MAX_LOCK_BYTES: u64 = 64 << 20;

/// A project of its own, so that npm looks for none above.
const PROJECT: &str = "{\"private\": true}\n";

pub(crate) fn install(
    sandbox: &dyn InstallSandbox,
    request: &InstallRequest<'_>,
    package: &Path,
    scratch: &Path,
) -> Result<ManagerReport, PackageError> {
    if !sandbox.has_program("npm") {
        return Err(PackageError::NoManager { wanted: "`npm`".to_owned() });
    }
    write_new(&package.join("package.json"), PROJECT)?;
    let asked = InstallStep::question(&["npm", "config", "list", "--json"]);
    let listed = run_step(sandbox, &asked, package, scratch)?;
    let access = npm_access(&listed.output, &|name| sandbox.variable(name))
        .ok_or_else(|| PackageError::Answer("npm does not say which registry it uses".to_owned()))?;
    let mut command = vec![
        "npm",
        "install",
        "--ignore-scripts",
        "--save-exact",
        "--no-audit",
        "--no-fund",
        "--omit=dev",
        "--no-progress",
        "--package-lock=true",
        "--",
    ];
    let wanted: Vec<String> =
        std::iter::once(request.spec).chain(request.with).map(|spec| spec.requirement()).collect();
    command.extend(wanted.iter().map(String::as_str));
    let step = InstallStep { access, ..InstallStep::question(&command) };
    run_step(sandbox, &step.with_cache(), package, scratch)?;
    if request.install_scripts {
        // Without network, and without the configuration, which may hold tokens.
        let scripts =
            InstallStep::new(&["npm", "rebuild", "--foreground-scripts", "--no-audit", "--no-fund"]);
        run_step(sandbox, &scripts.with_cache(), package, scratch)?;
    }
    let version = run_step(sandbox, &InstallStep::new(&["npm", "--version"]), package, scratch)?;
    let lock = json(&package.join("package-lock.json"))?;
    let packages = locked(&lock)?;
    let own = package.join("node_modules").join(request.spec.name());
    let about = json(&own.join("package.json"))?;
    let resolved = about.get("version").and_then(Value::as_str).unwrap_or_default().to_owned();
    Ok(ManagerReport {
        resolved,
        manager: format!("npm {}", version.output.trim()),
        programs: programs(&about, request.spec.name(), request.spec.program()),
        packages,
    })
}

impl InstallStep {
    /// The cache is scratch space, and the home directory is not touched.
    fn with_cache(mut self) -> Self {
        let cache = format!("{SCRATCH_PATH}/npm");
        let variables = [("npm_config_cache", cache.as_str()), ("npm_config_update_notifier", "false")];
        self.environment.extend(variables.map(|(name, value)| (name.to_owned(), value.to_owned())));
        self
    }
}

fn json(path: &Path) -> Result<Value, PackageError> {
    let text = read_bounded(path, MAX_LOCK_BYTES)?;
    serde_json::from_slice(&text).map_err(|error| {
        PackageError::Answer(format!("`{}` of the package is not JSON: {error}", path.display()))
    })
}

/// Every package of a `package-lock.json`. One from a registry has an integrity digest, which npm has verified; one inside another archive is covered by
/// that archive's.
fn locked(lock: &Value) -> Result<Vec<LockedPackage>, PackageError> {
    let listed = lock.get("packages").and_then(Value::as_object);
    let listed = listed.ok_or_else(|| PackageError::Answer("npm left no lock".to_owned()))?;
    let mut packages = Vec::new();
    for (path, about) in listed.iter().filter(|(path, _)| !path.is_empty()) {
        let name = path.rsplit("node_modules/").next().unwrap_or(path);
        let text = |key: &str| about.get(key).and_then(Value::as_str).unwrap_or_default();
        let flag = |key: &str| about.get(key).and_then(Value::as_bool).unwrap_or(false);
        // Optional packages for other systems are listed, and not installed.
        let integrity = match text("integrity") {
            "" if flag("inBundle") => "bundled",
            "" if flag("optional") => continue,
            "" => {
                return Err(PackageError::Answer(format!(
                    "`{}` does not come from the registry: it has no integrity digest",
                    name.escape_debug()
                )));
            }
            integrity => integrity,
        };
        packages.push(LockedPackage {
            name: name.to_owned(),
            version: text("version").to_owned(),
            integrity: integrity.to_owned(),
            has_scripts: flag("hasInstallScript"),
        });
    }
    packages.sort();
    Ok(packages)
}

/// The programs that a `package.json` declares, as paths in the tree.
fn programs(about: &Value, package: &str, usual: &str) -> BTreeMap<String, String> {
    let linked = |name: &str| format!("node_modules/.bin/{name}");
    match about.get("bin") {
        Some(Value::String(_)) => {
            let name = package.rsplit('/').next().unwrap_or(usual);
            BTreeMap::from([(name.to_owned(), linked(name))])
        }
        Some(Value::Object(programs)) => {
            let plain = |name: &&String| !name.contains(['/', '\\']) && !name.starts_with('.');
            programs.keys().filter(plain).map(|name| (name.clone(), linked(name))).collect()
        }
        _ => BTreeMap::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_package_without_a_digest_does_not_come_from_the_registry() {
        let lock = |about: Value| json!({"packages": {"": {}, "node_modules/@a/b": about}});
        let fine =
            locked(&lock(json!({"version": "1.0.0", "integrity": "sha512-x", "hasInstallScript": true})));
        let expected = LockedPackage {
            name: "@a/b".to_owned(),
            version: "1.0.0".to_owned(),
            integrity: "sha512-x".to_owned(),
            has_scripts: true,
        };
        assert_eq!(fine.unwrap(), [expected]);
        for bad in [json!({"resolved": "git+ssh://x"}), json!({"link": true}), json!({})] {
            assert!(locked(&lock(bad.clone())).is_err(), "{bad}");
        }
        assert_eq!(locked(&lock(json!({"version": "1", "inBundle": true}))).unwrap()[0].integrity, "bundled");
    }

    #[test]
    fn a_program_is_a_plain_name() {
        let of = |bin: Value| programs(&json!({ "bin": bin }), "@a/b", "b").into_keys().collect::<Vec<_>>();
        assert_eq!(of(json!("x.js")), ["b"]);
        assert_eq!(of(json!({"one": "1.js", "../../two": "2.js", "a/b": "3.js"})), ["one"]);
        assert!(of(json!(null)).is_empty());
    }
}

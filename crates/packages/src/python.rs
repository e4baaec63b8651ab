//! Installs Python packages into a virtual environment, with uv or with pip.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::error::PackageError;
use crate::install::{InstallRequest, ManagerReport};
use crate::lock::LockedPackage;
use crate::registry::{MAX_ARCHIVE_HOSTS, RegistryAccess, pip_access, pip_links, uv_access, uv_links};
use crate::sandbox::{InstallSandbox, InstallStep, PACKAGE_PATH, SCRATCH_PATH, run_step};
use crate::store::{names_in, read_bounded};

/// Maximum size of pip's report.
const MAX_REPORT_BYTES: u64 = 64 << 20;

/// The interpreter of the virtual environment, as the sandbox sees it.
fn interpreter() -> String {
    format!("{PACKAGE_PATH}/venv/bin/python")
}

pub(crate) fn install(
    sandbox: &dyn InstallSandbox,
    request: &InstallRequest<'_>,
    package: &Path,
    scratch: &Path,
) -> Result<ManagerReport, PackageError> {
    let wanted: Vec<String> =
        std::iter::once(request.spec).chain(request.with).map(|spec| spec.requirement()).collect();
    let has_uv = sandbox.has_program("uv");
    let python = if has_uv { None } else { python_with_pip(sandbox, package, scratch)? };
    let (manager, packages) = match (has_uv, python) {
        (true, _) => with_uv(sandbox, request, &wanted, package, scratch)?,
        (false, Some(python)) => {
            sandbox.report(
                "there is no `uv` here, so the package is installed with `pip` into a virtual environment",
            );
            with_pip(sandbox, request, (&python, &wanted), package, scratch)?
        }
        (false, None) => {
            return Err(PackageError::NoManager { wanted: "`uv`, or `python3` with `pip`".to_owned() });
        }
    };
    let own = |locked: &&LockedPackage| normalised(&locked.name) == normalised(request.spec.program());
    let own = request.spec.name().split('[').next().map_or_else(
        || packages.iter().find(own),
        |name| packages.iter().find(|locked| normalised(&locked.name) == normalised(name)),
    );
    let resolved = own.map(|locked| locked.version.clone()).unwrap_or_default();
    Ok(ManagerReport { resolved, manager, programs: programs(package)?, packages })
}

/// The interpreter itself, if it has pip. What `python3` leads to may be a shim of a version manager, which writes to its own directory after each
/// installation.
fn python_with_pip(
    sandbox: &dyn InstallSandbox,
    package: &Path,
    scratch: &Path,
) -> Result<Option<String>, PackageError> {
    if !sandbox.has_program("python3") {
        return Ok(None);
    }
    let asked = InstallStep::new(&["python3", "-c", "import pip, sys; print(sys.executable)"]);
    let found = sandbox.run(&asked, package, scratch)?;
    let path = found.output.trim().to_owned();
    Ok((found.success && path.starts_with('/') && !path.contains(char::is_whitespace)).then_some(path))
}

type Installed = (String, Vec<LockedPackage>);

fn with_pip(
    sandbox: &dyn InstallSandbox,
    request: &InstallRequest<'_>,
    (python, wanted): (&str, &[String]),
    package: &Path,
    scratch: &Path,
) -> Result<Installed, PackageError> {
    let access = access_of_pip(sandbox, request, python, (package, scratch))?;
    let venv = format!("{PACKAGE_PATH}/venv");
    // Without pip in it: the one outside installs into it, and the package stays small.
    let made = InstallStep::new(&[python, "-m", "venv", "--without-pip", &venv]);
    run_step(sandbox, &made, package, scratch)?;
    let (into, report) = (interpreter(), format!("{SCRATCH_PATH}/report.json"));
    let mut command = vec![
        python,
        "-m",
        "pip",
        "--python",
        &into,
        "install",
        "--no-input",
        "--disable-pip-version-check",
        "--no-cache-dir",
        "--progress-bar=off",
        "--report",
        &report,
    ];
    // A source distribution runs its own code when it is built.
    if !request.install_scripts {
        command.extend(["--only-binary", ":all:"]);
    }
    command.push("--");
    command.extend(wanted.iter().map(String::as_str));
    let step = InstallStep { access, ..InstallStep::question(&command) };
    run_step(sandbox, &step, package, scratch)?;
    let report = read_bounded(&scratch.join("report.json"), MAX_REPORT_BYTES)?;
    let report: Value = serde_json::from_slice(&report)
        .map_err(|error| PackageError::Answer(format!("the report of pip is not JSON: {error}")))?;
    let version = report.get("pip_version").and_then(Value::as_str).unwrap_or("?");
    Ok((format!("pip {version}"), reported(&report)?))
}

/// What pip reaches: the indexes that it is configured for, and the hosts to which these link for the packages. Without `pip index`, which is newer than
/// pip, that is the index alone.
fn access_of_pip(
    sandbox: &dyn InstallSandbox,
    request: &InstallRequest<'_>,
    python: &str,
    (package, scratch): (&Path, &Path),
) -> Result<RegistryAccess, PackageError> {
    let ask = |words: &[&str]| {
        let command: Vec<&str> = [python, "-m", "pip"].into_iter().chain(words.iter().copied()).collect();
        run_step(sandbox, &InstallStep::question(&command), package, scratch)
    };
    let (listed, help) = (ask(&["config", "list"])?, ask(&["install", "--help"])?);
    let mut access = pip_access(&listed.output, &help.output, &|name| sandbox.variable(name));
    for spec in std::iter::once(request.spec).chain(request.with) {
        let name = spec.name().split('[').next().unwrap_or_default();
        let command = [
            python,
            "-m",
            "pip",
            "-vv",
            "--no-input",
            "--disable-pip-version-check",
            "index",
            "versions",
            "--",
            name,
        ];
        let step = InstallStep { access: access.clone(), ..InstallStep::question(&command) };
        let found = sandbox.run(&step, package, scratch)?;
        for url in pip_links(&found.output) {
            if access.archives.len() < MAX_ARCHIVE_HOSTS {
                access.add_archive(url);
            }
        }
    }
    Ok(access)
}

/// The packages of `pip install --report`, with the digests of their archives.
fn reported(report: &Value) -> Result<Vec<LockedPackage>, PackageError> {
    let installed = report.get("install").and_then(Value::as_array);
    let installed = installed.ok_or_else(|| PackageError::Answer("pip left no report".to_owned()))?;
    let one = |about: &Value| -> Option<LockedPackage> {
        let text = |path: &str| about.pointer(path).and_then(Value::as_str).map(str::to_owned);
        Some(LockedPackage {
            name: text("/metadata/name")?,
            version: text("/metadata/version")?,
            integrity: format!("sha256:{}", text("/download_info/archive_info/hashes/sha256")?),
            has_scripts: false,
        })
    };
    let packages: Option<Vec<LockedPackage>> = installed.iter().map(one).collect();
    let mut packages =
        packages.ok_or_else(|| PackageError::Answer("a package has no integrity digest".to_owned()))?;
    packages.sort();
    Ok(packages)
}

fn with_uv(
    sandbox: &dyn InstallSandbox,
    request: &InstallRequest<'_>,
    wanted: &[String],
    package: &Path,
    scratch: &Path,
) -> Result<Installed, PackageError> {
    let cache = vec![
        ("UV_CACHE_DIR".to_owned(), format!("{SCRATCH_PATH}/uv")),
        ("UV_LINK_MODE".to_owned(), "copy".to_owned()),
        ("UV_PYTHON_DOWNLOADS".to_owned(), "never".to_owned()),
    ];
    let step = |command: &[&str]| InstallStep { environment: cache.clone(), ..InstallStep::new(command) };
    let venv = format!("{PACKAGE_PATH}/venv");
    run_step(sandbox, &step(&["uv", "venv", "--no-project", &venv]), package, scratch)?;
    let into = interpreter();
    // The lock of PEP 751 has a digest for each archive; the installation then accepts no other.
    let (input, lock) = (scratch.join("requirements.in"), format!("{SCRATCH_PATH}/requirements.txt"));
    crate::store::write_new(&input, &format!("{}\n", wanted.join("\n")))?;
    let source = format!("{SCRATCH_PATH}/requirements.in");
    let mut compile = vec!["uv", "pip", "compile", "--generate-hashes", "--python", &into, "-o", &lock, "-q"];
    let mut sync = vec!["uv", "pip", "sync", "--require-hashes", "--python", &into];
    if !request.install_scripts {
        compile.push("--no-build");
        sync.push("--no-build");
    }
    compile.push(&source);
    sync.push(&lock);
    let access = access_of_uv(sandbox, &step, &source, (package, scratch))?;
    for command in [compile, sync] {
        let step = InstallStep { access: access.clone(), configured: true, ..step(&command) };
        run_step(sandbox, &step, package, scratch)?;
    }
    let locked = read_bounded(&scratch.join("requirements.txt"), MAX_REPORT_BYTES)?;
    let version = run_step(sandbox, &step(&["uv", "--version"]), package, scratch)?;
    Ok((version.output.trim().to_owned(), compiled(&String::from_utf8_lossy(&locked))?))
}

/// What uv reaches: the indexes that it is configured for, and the hosts to which these link. uv names the first of these that it cannot reach, and asks
/// for no URL that a package names instead of its index; nothing is built at this step, so that no code of a package names one.
fn access_of_uv(
    sandbox: &dyn InstallSandbox,
    step: &dyn Fn(&[&str]) -> InstallStep,
    source: &str,
    (package, scratch): (&Path, &Path),
) -> Result<RegistryAccess, PackageError> {
    let ask = |words: &[&str]| {
        run_step(sandbox, &InstallStep { configured: true, ..step(words) }, package, scratch)
    };
    let settings = ask(&["uv", "--color=never", "--show-settings", "pip", "compile", source])?;
    let help = ask(&["uv", "--color=never", "pip", "compile", "--help"])?;
    let mut access = uv_access(&settings.output, &help.output, &|name| sandbox.variable(name));
    let (into, tried) = (interpreter(), format!("{SCRATCH_PATH}/tried.txt"));
    let command = [
        "uv",
        "--color=never",
        "pip",
        "compile",
        "--no-build",
        "--python",
        &into,
        "-o",
        &tried,
        "-q",
        source,
    ];
    for _ in 0..MAX_ARCHIVE_HOSTS {
        let mut step = InstallStep { access: access.clone(), configured: true, ..step(&command) };
        step.environment.push(("UV_HTTP_RETRIES".to_owned(), "0".to_owned()));
        let found = sandbox.run(&step, package, scratch)?;
        if found.success || !uv_links(&found.said).any(|url| access.add_archive(url)) {
            break;
        }
    }
    Ok(access)
}

/// The packages of a compiled list of requirements: `name==version \` and lines with `--hash=sha256:…`. A package has a hash for each of its archives.
fn compiled(text: &str) -> Result<Vec<LockedPackage>, PackageError> {
    let mut packages: Vec<LockedPackage> = Vec::new();
    for line in text.lines().map(|line| line.trim().trim_end_matches('\\').trim()) {
        if let Some(hash) = line.strip_prefix("--hash=") {
            if let Some(package) = packages.last_mut() {
                let space = if package.integrity.is_empty() { "" } else { " " };
                package.integrity.push_str(&format!("{space}{hash}"));
            }
        } else if let Some((name, version)) = line.split_once("==").filter(|_| !line.starts_with('#')) {
            let version = version.split([' ', ';']).next().unwrap_or_default().to_owned();
            let name = name.to_owned();
            packages.push(LockedPackage { name, version, integrity: String::new(), has_scripts: false });
        }
    }
    match packages.iter().any(|package| package.integrity.is_empty()) || packages.is_empty() {
        true => Err(PackageError::Answer("a package has no integrity digest".to_owned())),
        false => Ok(packages),
    }
}

/// The programs of the virtual environment, without its interpreter.
fn programs(package: &Path) -> Result<BTreeMap<String, String>, PackageError> {
    let names = names_in(&package.join("venv/bin"))?;
    let is_own = |name: &String| {
        !["python", "activate", "Activate", "deactivate", "pydoc", "pip"]
            .iter()
            .any(|own| name.starts_with(own))
    };
    let names = names.into_iter().filter(is_own);
    Ok(names.map(|name| (name.clone(), format!("venv/bin/{name}"))).collect())
}

/// PEP 503: names that differ only in case and in `-`, `_` and `.` are one.
fn normalised(name: &str) -> String {
    name.to_ascii_lowercase().replace(['_', '.'], "-")
}

/// The symlinks of a virtual environment that lead to the interpreter of the system.
pub(crate) fn leads_to_interpreter(path: &str) -> bool {
    path.strip_prefix("venv/bin/").is_some_and(|name| {
        name.strip_prefix("python")
            .is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_python_package_has_a_digest() {
        let about = |hashes: Value| {
            json!({"install": [{
                "metadata": {"name": "A", "version": "1"}, "download_info": {"archive_info": {"hashes": hashes}},
            }]})
        };
        assert_eq!(reported(&about(json!({"sha256": "00"}))).unwrap()[0].integrity, "sha256:00");
        assert!(reported(&about(json!({}))).is_err());
        assert!(reported(&json!({})).is_err());
        let text = "# by uv\na==1 \\\n    --hash=sha256:00 \\\n    --hash=sha256:11\n    # via x==2\nb==2\n    --hash=sha256:22\n";
        let packages = compiled(text).unwrap();
        assert_eq!(packages.len(), 2);
        assert_eq!(packages[0].integrity, "sha256:00 sha256:11");
        assert!(compiled("a==1\nb==2 \\\n --hash=sha256:0\n").is_err());
        assert!(compiled("").is_err());
    }

    #[test]
    fn only_interpreters_may_be_outside() {
        for (path, expected) in [
            ("venv/bin/python", true),
            ("venv/bin/python3.11", true),
            ("venv/bin/python-evil", false),
            ("venv/lib/python", false),
            ("venv/bin/x/python", false),
        ] {
            assert_eq!(leads_to_interpreter(path), expected, "{path}");
        }
    }
}

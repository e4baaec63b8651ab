//! The web page: its packages, its build into `web/dist`, and its tests.
//!
//! Nothing is done twice: packages are installed when the lock file changed, and the page is built when one of its sources did. The crate
//! `toolgate-web` embeds what is in `web/dist`, so the page is built before the binary.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Fault;
use crate::command::{Programs, cargo, is_installed, program, root, succeed};
use crate::metadata::Metadata;
use crate::steps::Steps;

/// The directory of the page.
const PAGE: &str = "web";

/// What is not a source.
const GENERATED: &[&str] = &["dist", "node_modules", "test-results"];

/// What a build does not depend on.
const TESTS: &[&str] = &[
    "tests",
    "README.md",
    "playwright.config.ts",
    "playwright.bench.config.ts",
    "playwright.pictures.config.ts",
];

/// Builds the page if a source changed since the last build.
pub(crate) fn build() -> Result<(), Fault> {
    let page = root()?.join(PAGE);
    let stamp = page.join("dist/stamp");
    let sources = digest(&page, &[GENERATED, TESTS].concat())?;
    if std::fs::read_to_string(&stamp).is_ok_and(|built| built == sources) {
        return Ok(());
    }
    install(&page)?;
    npm(&page, &["run", "build"])?;
    Ok(std::fs::write(stamp, sources)?)
}

/// Types, lint and unit tests.
pub(crate) fn check(steps: &mut Steps) {
    steps.take("Page", || {
        build()?;
        let page = root()?.join(PAGE);
        install(&page)?;
        for task in ["typecheck", "lint", "test"] {
            npm(&page, &["run", task])?;
        }
        Ok(())
    });
}

/// Drives the page of the real binary in Chromium.
pub(crate) fn drive(programs: Programs) -> Result<(), Fault> {
    with_binary("e2e", programs)
}

/// Takes the pictures of the page for the README.
pub(crate) fn pictures() -> Result<(), Fault> {
    with_binary("pictures", Programs::Built)
}

/// Measures the page: prints one line per figure.
pub(crate) fn measurements() -> Result<Command, Fault> {
    task("bench", Programs::Built)
}

fn with_binary(name: &str, programs: Programs) -> Result<(), Fault> {
    succeed(task(name, programs)?)
}

/// A task of the page that needs the binary.
fn task(name: &str, programs: Programs) -> Result<Command, Fault> {
    build()?;
    programs.prepare(&["--package", "toolgate"])?;
    let page = root()?.join(PAGE);
    install(&page)?;
    let binary = Metadata::ask(cargo(&[])?)?.target_directory.join("debug/toolgate");
    let mut npm = program("npm", &["run", name])?;
    npm.current_dir(&page).env("TOOLGATE_BINARY", binary).env_remove("TOOLGATE_TOKEN");
    Ok(npm)
}

/// Installs exactly what the lock file names, if it changed since the last time.
fn install(page: &Path) -> Result<(), Fault> {
    let stamp = page.join("node_modules/.toolgate-lock");
    let lock = std::fs::read_to_string(page.join("package-lock.json"))?;
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == lock) {
        return Ok(());
    }
    if !is_installed("npm", &["--version"]) {
        return Err(
            "the page needs npm and Node 20 or later, please install them; `cargo build` works without"
                .into(),
        );
    }
    // `npm ci` also requires the packages of all other platforms in the lock file; this respects the lock file too.
    npm(page, &["install", "--no-save", "--loglevel=error"])?;
    Ok(std::fs::write(stamp, lock)?)
}

fn npm(page: &Path, arguments: &[&str]) -> Result<(), Fault> {
    let mut npm = program("npm", arguments)?;
    npm.current_dir(page);
    succeed(npm)
}

/// A digest of the names and contents of all files except these.
fn digest(page: &Path, without: &[&str]) -> Result<String, Fault> {
    let mut files = Vec::new();
    gather(page, without, &mut files)?;
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in &files {
        file.strip_prefix(page)?.hash(&mut hasher);
        std::fs::read(file)?.hash(&mut hasher);
    }
    Ok(format!("{:016x}\n", hasher.finish()))
}

fn gather(directory: &Path, without: &[&str], files: &mut Vec<PathBuf>) -> Result<(), Fault> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if without.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            gather(&entry.path(), without, files)?;
        } else {
            files.push(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_source_changes_the_digest_and_generated_files_do_not() {
        let scratch = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = scratch.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let digest = || digest(scratch.path(), GENERATED).unwrap();
        write("src/main.tsx", "a");
        let first = digest();
        write("dist/index.html", "built");
        write("node_modules/react/index.js", "installed");
        assert_eq!(digest(), first);
        write("src/main.tsx", "b");
        let second = digest();
        assert_ne!(second, first);
        write("src/other.tsx", "");
        assert_ne!(digest(), second);
    }
}

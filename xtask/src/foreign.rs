//! Third-party programs against the gate: the official Python client, the Inspector, the conformance suite, servers behind the bridge, and the
//! vendors' official model clients against a scripted model.
//!
//! Their packages are installed below the target directory, in the versions that `tests/foreign` pins, by the ordinary package managers. If the
//! target directory is below a path that is private to every command, such as `/tmp`, the sandbox could not show it to a server: then the user's
//! cache directory is used.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Fault;
use crate::command::{Programs, cargo, is_installed, program, root, succeed};
use crate::metadata::Metadata;
use crate::suite;

/// The tests and the pinned versions.
const TESTS: &str = "tests/foreign";

/// A timeout far above the tests' duration, so that a hanging one fails.
const SECONDS: &str = "900";

/// A timeout for the whole matrix, which installs a dozen packages from their registries.
const MATRIX_SECONDS: &str = "2400";

/// The client that is wrapped, and the version that was tried.
const CLIENT: &str = "@anthropic-ai/claude-code-linux-x64@2.1.197";

pub(crate) fn run(programs: Programs) -> Result<(), Fault> {
    let (place, binaries) = Place::prepare(programs)?;
    succeed(place.test(&binaries, SECONDS, "test_*.py")?)
}

/// Well-known servers as people have them, a client with servers that are put behind the gate, and containers.
pub(crate) fn matrix() -> Result<(), Fault> {
    suite::prepare_matrix()?;
    let (place, binaries) = Place::prepare(Programs::Built)?;
    let client = place.installed.join("client");
    std::fs::create_dir_all(&client)?;
    let arguments = ["install", "--no-save", "--no-audit", "--no-fund", "--loglevel=error", CLIENT];
    let mut npm = program("npm", &arguments)?;
    npm.current_dir(&client);
    succeed(npm)?;
    let mut tests = place.test(&binaries, MATRIX_SECONDS, "*matrix*.py")?;
    let client = client.join("node_modules/@anthropic-ai/claude-code-linux-x64/claude");
    tests.env("TOOLGATE_MATRIX", "all").env("TOOLGATE_CLAUDE", client);
    succeed(tests)
}

/// The directory for packages, which the sandbox can show to servers.
fn folder(target: &Path) -> Result<PathBuf, Fault> {
    if !["/tmp", "/proc", "/dev", "/mnt"].iter().any(|own| target.starts_with(own)) {
        return Ok(target.join("foreign"));
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let cache = cache.ok_or("neither XDG_CACHE_HOME nor HOME says where packages could go")?;
    Ok(cache.join("toolgate-foreign"))
}

struct Place {
    tests: PathBuf,
    installed: PathBuf,
}

impl Place {
    /// Installs what the tests need, and builds what they drive.
    fn prepare(programs: Programs) -> Result<(Self, PathBuf), Fault> {
        let target = Metadata::ask(cargo(&[])?)?.target_directory;
        let place = Self { tests: root()?.join(TESTS), installed: folder(&target)? };
        place.install_packages("npm", &["package.json", "package-lock.json"], Self::install_npm)?;
        place.install_packages("python", &["requirements.txt"], Self::install_python)?;
        programs.prepare(&["--package", "toolgate", "--package", "toolgate-attack", "--bins"])?;
        Ok((place, target.join("debug")))
    }

    /// Reinstalls if the pinned versions have changed, and not otherwise.
    fn install_packages(
        &self,
        name: &str,
        pinned: &[&str],
        install: impl FnOnce(&Self, &Path) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let folder = self.installed.join(name);
        let stamp = folder.join("installed");
        let wanted = self.all_of(pinned)?;
        if std::fs::read_to_string(&stamp).is_ok_and(|there| there == wanted) {
            return Ok(());
        }
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir_all(&folder)?;
        install(self, &folder).map_err(|fault| {
            format!(
                "{fault}\nthe packages of {TESTS} cannot be installed; is the package registry reachable?"
            )
        })?;
        Ok(std::fs::write(stamp, wanted)?)
    }

    fn all_of(&self, names: &[&str]) -> Result<String, Fault> {
        let mut texts = String::new();
        for name in names {
            let path = self.tests.join(name);
            let text =
                std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            texts.push_str(&text);
        }
        Ok(texts)
    }

    fn install_npm(&self, folder: &Path) -> Result<(), Fault> {
        require("npm", "Node 20 or later")?;
        for name in ["package.json", "package-lock.json"] {
            std::fs::copy(self.tests.join(name), folder.join(name))?;
        }
        // `npm ci` also requires the packages of all other platforms in the lock file; this respects the lock file too.
        let arguments = ["install", "--no-save", "--no-audit", "--no-fund", "--loglevel=error"];
        let mut npm = program("npm", &arguments)?;
        npm.current_dir(folder);
        succeed(npm)
    }

    fn install_python(&self, folder: &Path) -> Result<(), Fault> {
        require("python3", "Python 3.11 or later")?;
        let folder = text(folder)?;
        succeed(program("python3", &["-m", "venv", "--without-pip", folder])?)?;
        let (python, pinned) = (format!("{folder}/bin/python"), self.tests.join("requirements.txt"));
        let arguments =
            ["-m", "pip", "--python", &python, "install", "--quiet", "--requirement", text(&pinned)?];
        succeed(program("python3", &arguments)?)
    }

    /// Copies our own servers beside the packages, where the sandbox can show them.
    fn servers(&self) -> Result<PathBuf, Fault> {
        let folder = self.installed.join("servers");
        std::fs::create_dir_all(&folder)?;
        for server in std::fs::read_dir(self.tests.join("python/servers"))? {
            let server = server?;
            if server.file_type()?.is_file() {
                std::fs::copy(server.path(), folder.join(server.file_name()))?;
            }
        }
        Ok(folder)
    }

    /// The tests in the files of this pattern.
    fn test(&self, binaries: &Path, seconds: &str, pattern: &str) -> Result<Command, Fault> {
        let python = self.installed.join("python/bin/python");
        let runner = self.tests.join("python/run.py");
        let arguments = ["--kill-after=10", seconds, text(&python)?, "-B", text(&runner)?, pattern];
        let mut tests = program("timeout", &arguments)?;
        tests
            .env("TOOLGATE_BINARY", binaries.join("toolgate"))
            .env("TOOLGATE_FIXTURE", binaries.join("toolgate-fixture"))
            .env("TOOLGATE_FOREIGN_NPM", self.installed.join("npm"))
            .env("TOOLGATE_FOREIGN_SERVERS", self.servers()?)
            .env_remove("TOOLGATE_TOKEN");
        Ok(tests)
    }
}

fn require(name: &str, what: &str) -> Result<(), Fault> {
    if is_installed(name, &["--version"]) {
        Ok(())
    } else {
        Err(format!("{what} is needed, please install it").into())
    }
}

fn text(path: &Path) -> Result<&str, Fault> {
    path.to_str().ok_or_else(|| format!("{} is not text", path.display()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_installed_once_until_what_is_pinned_changes() {
        let scratch = tempfile::tempdir().unwrap();
        let place =
            Place { tests: scratch.path().join("tests"), installed: scratch.path().join("installed") };
        std::fs::create_dir(&place.tests).unwrap();
        let mut times = 0;
        let mut install = |pinned: &str, result: Result<(), Fault>| {
            std::fs::write(place.tests.join("pinned"), pinned).unwrap();
            let outcome = place.install_packages("some", &["pinned"], |_, _| {
                times += 1;
                result
            });
            (times, outcome.is_ok())
        };
        assert_eq!(install("a", Err("no registry".into())), (1, false));
        assert_eq!(install("a", Ok(())), (2, true));
        assert_eq!(install("a", Ok(())), (2, true));
        assert_eq!(install("b", Ok(())), (3, true));
    }
}

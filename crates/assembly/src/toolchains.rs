//! Toolchains in the home directory that commands are shown: compilers, interpreters and their version managers.
//!
//! Each is one row of a table, which lists what of it is shown. Nothing else of the home directory is: no credentials, no registry configuration, no
//! caches. What is shown is read-only, at the same path. A symlink in it resolves inside the sandbox, so it leads only to what is shown as well.
//!
//! A toolchain is left out if its directory is a symlink or lies in a mount that tools may write to: a model could exchange it for something else of
//! the home directory between two commands.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use toolgate_manifest::{Toolchain, ToolchainSelection};
use toolgate_sandbox::refused_place;

use crate::ambient::{
    HostEnvironment, directory_entries, exists, is_directory, is_symlink, read_regular_file, real_path,
};

/// What one toolchain consists of. All paths are relative to its root. In them `+` stands for every name, and `*` for one version: the default one, or
/// the newest.
struct ToolchainLayout {
    toolchain: Toolchain,
    /// The variable that names the root.
    variable: Option<&'static str>,
    /// Where the root is otherwise, relative to the home directory.
    homes: &'static [&'static str],
    /// What is shown.
    shown: &'static [&'static str],
    /// The directories of programs.
    programs: &'static [&'static str],
    /// Variables that name a path in it.
    variables: &'static [(&'static str, &'static str)],
    /// The file that names the default version.
    default_version: Option<&'static str>,
    /// Files in what is shown that may hold credentials.
    secret: &'static [&'static str],
}

/// A row without anything.
const fn layout(toolchain: Toolchain, homes: &'static [&'static str]) -> ToolchainLayout {
    ToolchainLayout {
        toolchain,
        variable: None,
        homes,
        shown: &["bin"],
        programs: &["bin"],
        variables: &[],
        default_version: None,
        secret: &[],
    }
}

const LAYOUTS: [ToolchainLayout; 16] = [
    ToolchainLayout {
        variable: Some("RUSTUP_HOME"),
        // Its proxies start only where `update-hashes` exists, which holds digests of release manifests.
        shown: &["toolchains", "settings.toml", "update-hashes"],
        programs: &[],
        variables: &[("RUSTUP_HOME", "")],
        ..layout(Toolchain::Rustup, &[".rustup"])
    },
    // Only `bin`: `credentials.toml` and `config.toml` may hold tokens of registries.
    ToolchainLayout { variable: Some("CARGO_HOME"), ..layout(Toolchain::Rustup, &[".cargo"]) },
    ToolchainLayout {
        variable: Some("NVM_DIR"),
        shown: &["versions"],
        programs: &["versions/node/*/bin"],
        variables: &[("NVM_DIR", "")],
        default_version: Some("alias/default"),
        secret: &["versions/node/+/etc/npmrc", "versions/node/+/lib/node_modules/npm/npmrc"],
        ..layout(Toolchain::Nvm, &[".nvm", ".config/nvm"])
    },
    ToolchainLayout {
        variable: Some("FNM_DIR"),
        shown: &["node-versions"],
        programs: &["node-versions/*/installation/bin"],
        variables: &[("FNM_DIR", "")],
        secret: &["node-versions/+/installation/etc/npmrc"],
        ..layout(Toolchain::Fnm, &[".local/share/fnm", ".fnm"])
    },
    ToolchainLayout {
        variable: Some("VOLTA_HOME"),
        shown: &["tools"],
        programs: &["tools/image/node/*/bin", "tools/image/yarn/*/bin", "tools/image/pnpm/*/bin"],
        variables: &[("VOLTA_HOME", "")],
        secret: &["tools/image/node/+/etc/npmrc"],
        ..layout(Toolchain::Volta, &[".volta"])
    },
    ToolchainLayout {
        variable: Some("PYENV_ROOT"),
        shown: &["bin", "libexec", "shims", "pyenv.d", "version", "versions"],
        programs: &["shims", "bin"],
        variables: &[("PYENV_ROOT", "")],
        secret: &["versions/+/pip.conf", "versions/+/etc/pip.conf"],
        ..layout(Toolchain::Pyenv, &[".pyenv"])
    },
    ToolchainLayout { shown: &["uv", "uvx"], programs: &[""], ..layout(Toolchain::Uv, &[".local/bin"]) },
    ToolchainLayout {
        variable: Some("UV_PYTHON_INSTALL_DIR"),
        shown: &["."],
        programs: &[],
        variables: &[("UV_PYTHON_INSTALL_DIR", "")],
        secret: &["+/pip.conf"],
        ..layout(Toolchain::Uv, &[".local/share/uv/python"])
    },
    ToolchainLayout {
        variable: Some("MISE_DATA_DIR"),
        shown: &["installs"],
        programs: &["installs/+/*/bin"],
        secret: &["installs/+/+/etc/npmrc", "installs/+/+/pip.conf", "installs/maven/+/conf/settings.xml"],
        ..layout(Toolchain::Mise, &[".local/share/mise"])
    },
    ToolchainLayout {
        variable: Some("ASDF_DATA_DIR"),
        shown: &["installs"],
        programs: &["installs/+/*/bin"],
        secret: &["installs/+/+/etc/npmrc", "installs/+/+/pip.conf", "installs/maven/+/conf/settings.xml"],
        ..layout(Toolchain::Asdf, &[".asdf"])
    },
    ToolchainLayout {
        variable: Some("SDKMAN_DIR"),
        shown: &["candidates"],
        programs: &["candidates/+/current/bin"],
        variables: &[("SDKMAN_DIR", ""), ("JAVA_HOME", "candidates/java/current")],
        secret: &["candidates/maven/+/conf/settings.xml"],
        ..layout(Toolchain::Sdkman, &[".sdkman"])
    },
    ToolchainLayout {
        variable: Some("GOROOT"),
        shown: &["."],
        variables: &[("GOROOT", "")],
        ..layout(Toolchain::Go, &[".local/go", ".go"])
    },
    // `go install golang.org/dl/go1.25@latest` unpacks there; `~/go` is the workspace of Go, with the source of private modules.
    ToolchainLayout { shown: &["*"], programs: &["*/bin"], ..layout(Toolchain::Go, &["sdk"]) },
    layout(Toolchain::Go, &["go"]),
    ToolchainLayout { variable: Some("DENO_INSTALL"), ..layout(Toolchain::Deno, &[".deno"]) },
    ToolchainLayout { variable: Some("BUN_INSTALL"), ..layout(Toolchain::Bun, &[".bun"]) },
];

/// The toolchains that commands are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Toolchains {
    /// Those that were found.
    pub found: Vec<FoundToolchain>,
    /// Those that are there and not shown, each with the reason.
    pub left_out: Vec<(Toolchain, PathBuf, &'static str)>,
}

/// A toolchain that commands are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundToolchain {
    /// Which one.
    pub toolchain: Toolchain,
    /// Its directory.
    pub root: PathBuf,
    /// What is shown of it: files and directories.
    pub shown: Vec<PathBuf>,
    /// The directories of its programs.
    pub programs: Vec<PathBuf>,
    /// Variables that it needs.
    pub variables: Vec<(String, String)>,
    /// Files in it that are masked, since they may hold credentials.
    pub hidden: Vec<PathBuf>,
}

impl Toolchains {
    /// Looks for the selected toolchains. `writable` are the directories that tools may write to.
    #[must_use]
    pub fn detect(selection: &ToolchainSelection, host: &HostEnvironment, writable: &[PathBuf]) -> Self {
        let mut toolchains = Self::default();
        for layout in LAYOUTS.iter().filter(|layout| selection.includes(layout.toolchain)) {
            let Some(root) = layout.root(host) else { continue };
            match layout.reason_to_leave_out(&root, host, writable) {
                Some(reason) => toolchains.left_out.push((layout.toolchain, root, reason)),
                None => toolchains.found.extend(layout.found_at(root)),
            }
        }
        toolchains
    }

    /// What is shown of all of them.
    pub fn shown(&self) -> impl Iterator<Item = &PathBuf> {
        self.found.iter().flat_map(|found| &found.shown)
    }

    /// What is masked in all of them.
    pub fn hidden(&self) -> impl Iterator<Item = &PathBuf> {
        self.found.iter().flat_map(|found| &found.hidden)
    }

    /// The directories of programs of all of them.
    pub fn programs(&self) -> impl Iterator<Item = &PathBuf> {
        self.found.iter().flat_map(|found| &found.programs)
    }

    /// The variables of all of them.
    pub fn variables(&self) -> impl Iterator<Item = &(String, String)> {
        self.found.iter().flat_map(|found| &found.variables)
    }
}

impl ToolchainLayout {
    /// Its directory: the one that its variable names, or the first of the usual ones that exists.
    fn root(&self, host: &HostEnvironment) -> Option<PathBuf> {
        let named = self.variable.and_then(|name| host.var(name)).map(PathBuf::from);
        if let Some(named) = named.filter(|path| path.is_absolute()) {
            return is_directory(&named).then(|| real_path(&named));
        }
        let home = real_path(host.home.as_ref()?);
        self.homes.iter().map(|place| home.join(place)).find(|place| exists(place))
    }

    fn reason_to_leave_out(
        &self,
        root: &Path,
        host: &HostEnvironment,
        writable: &[PathBuf],
    ) -> Option<&'static str> {
        let home = host.home.as_ref().map(|home| real_path(home));
        if home.is_some_and(|home| home.starts_with(root)) {
            return Some("it holds the home directory");
        }
        if real_path(root) != root {
            return Some("it is a symlink, or lies behind one");
        }
        if writable.iter().any(|mount| root.starts_with(mount) || mount.starts_with(root)) {
            return Some("it lies in a mount that tools may write to");
        }
        refused_place(root)
    }

    /// What there is of it; `None` if nothing would be shown.
    fn found_at(&self, root: PathBuf) -> Option<FoundToolchain> {
        let version = self.default_version.and_then(|file| read_version(&root.join(file)));
        let expand = |patterns: &[&str]| -> Vec<PathBuf> {
            patterns.iter().flat_map(|pattern| expand(&root, pattern, version.as_deref())).collect()
        };
        let shown: Vec<PathBuf> = expand(self.shown).into_iter().filter(|path| !is_symlink(path)).collect();
        if shown.is_empty() {
            return None;
        }
        let programs = expand(self.programs).into_iter().filter(|path| is_directory(path)).collect();
        let variables = self.variables.iter().filter_map(|(name, place)| {
            let path = if place.is_empty() { root.clone() } else { root.join(place) };
            Some(((*name).to_owned(), path.to_str().filter(|_| exists(&path))?.to_owned()))
        });
        let variables = variables.collect();
        // A mask needs the real path: `current` is a symlink to a version.
        let secret = expand(self.secret).into_iter().filter(|path| may_hold_credentials(path));
        let mut hidden: Vec<PathBuf> =
            secret.map(|path| real_path(&path)).filter(|path| path.starts_with(&root)).collect();
        hidden.sort();
        hidden.dedup();
        Some(FoundToolchain { toolchain: self.toolchain, shown, programs, variables, hidden, root })
    }
}

/// Maven ships a `settings.xml` with examples in comments, and does not start if it cannot read it.
fn may_hold_credentials(path: &Path) -> bool {
    if !path.ends_with("settings.xml") {
        return true;
    }
    let text = read_regular_file(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mut parts = text.split("<!--");
    let before = parts.next().unwrap_or_default();
    let after = parts.map(|part| part.split_once("-->").map_or(part, |(_, rest)| rest));
    std::iter::once(before)
        .chain(after)
        .any(|part| part.contains("<password>") || part.contains("<passphrase>"))
}

/// The version that a file names.
fn read_version(file: &Path) -> Option<String> {
    let text = String::from_utf8(read_regular_file(file).ok()?).ok()?;
    let version = text.lines().next()?.trim().to_owned();
    (!version.is_empty()).then_some(version)
}

/// The existing paths that a pattern stands for.
fn expand(root: &Path, pattern: &str, version: Option<&str>) -> Vec<PathBuf> {
    let mut paths = vec![root.to_path_buf()];
    for part in pattern.split('/').filter(|part| !matches!(*part, "" | ".")) {
        let children = |path: PathBuf| match part {
            "+" => directories(&path),
            "*" => chosen(directories(&path), version).into_iter().collect(),
            name => vec![path.join(name)],
        };
        paths = paths.into_iter().flat_map(children).collect();
    }
    paths.into_iter().filter(|path| exists(path)).collect()
}

/// The directories in a directory.
fn directories(path: &Path) -> Vec<PathBuf> {
    let entries = directory_entries(path).into_iter();
    entries.filter(|(_, is_directory)| *is_directory).map(|(name, _)| path.join(name)).collect()
}

/// The version that was named, or the newest.
fn chosen(versions: Vec<PathBuf>, version: Option<&str>) -> Option<PathBuf> {
    let plain =
        |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let wanted = version.map(|version| version.trim_start_matches('v').to_owned());
    let is_wanted = |path: &&PathBuf| {
        let name = plain(path);
        let rest = wanted.as_ref().and_then(|wanted| name.trim_start_matches('v').strip_prefix(&**wanted));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let order = |path: &&PathBuf| version_order(path.file_name().map(OsString::from).unwrap_or_default());
    let newest = |candidates: &mut dyn Iterator<Item = &PathBuf>| candidates.max_by_key(order).cloned();
    newest(&mut versions.iter().filter(is_wanted)).or_else(|| newest(&mut versions.iter()))
}

/// The numbers in a name, so that `v9.11.2` comes before `v20.1.0`. A name without any, such as `latest`, comes first.
fn version_order(name: OsString) -> Vec<u64> {
    let name = name.to_string_lossy().into_owned();
    name.split(|character: char| !character.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
        .collect()
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests arrange files by hand")]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A home directory with these files; a name that ends with `/` is a directory.
    fn home(files: &[&str]) -> (tempfile::TempDir, HostEnvironment) {
        // Not in `/tmp`, where commands have a directory of their own.
        let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
        let root = real_path(scratch.path());
        for file in files {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            if file.ends_with('/') {
                fs::create_dir_all(&path).unwrap()
            } else {
                fs::write(&path, "x").unwrap()
            }
        }
        let host = HostEnvironment { home: Some(root.clone()), ..HostEnvironment::bare(root) };
        (scratch, host)
    }

    fn below(host: &HostEnvironment, paths: impl Iterator<Item = PathBuf>) -> Vec<String> {
        let home = host.home.clone().unwrap();
        paths.map(|path| path.strip_prefix(&home).unwrap().display().to_string()).collect()
    }

    #[test]
    fn what_is_shown_is_the_table_and_no_credentials() {
        let (_scratch, host) = home(&[
            ".cargo/bin/cargo",
            ".cargo/credentials.toml",
            ".cargo/config.toml",
            ".rustup/toolchains/stable/bin/rustc",
            ".rustup/settings.toml",
            ".rustup/downloads/x",
            ".nvm/versions/node/v9.11.2/bin/node",
            ".nvm/versions/node/v20.1.0/bin/node",
            ".nvm/versions/node/v20.1.0/etc/npmrc",
            ".nvm/.npmrc",
            ".pyenv/shims/python3",
            ".pyenv/versions/3.12.1/pip.conf",
            ".local/bin/uv",
            ".local/bin/private",
            ".npmrc",
            ".netrc",
            ".m2/settings.xml",
            ".ssh/id_ed25519",
        ]);
        let found = Toolchains::detect(&ToolchainSelection::Auto, &host, &[]);
        assert_eq!(
            below(&host, found.shown().cloned()),
            [
                ".rustup/toolchains",
                ".rustup/settings.toml",
                ".cargo/bin",
                ".nvm/versions",
                ".pyenv/shims",
                ".pyenv/versions",
                ".local/bin/uv"
            ]
        );
        assert_eq!(
            below(&host, found.programs().cloned()),
            [".cargo/bin", ".nvm/versions/node/v20.1.0/bin", ".pyenv/shims", ".local/bin"]
        );
        assert_eq!(
            below(&host, found.hidden().cloned()),
            [".nvm/versions/node/v20.1.0/etc/npmrc", ".pyenv/versions/3.12.1/pip.conf"]
        );
        let names: Vec<&str> = found.variables().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["RUSTUP_HOME", "NVM_DIR", "PYENV_ROOT"]);
        assert_eq!(Toolchains::detect(&ToolchainSelection::Off, &host, &[]), Toolchains::default());
        let only = ToolchainSelection::Named(vec![Toolchain::Nvm]);
        assert_eq!(below(&host, Toolchains::detect(&only, &host, &[]).shown().cloned()), [".nvm/versions"]);
    }

    #[test]
    fn what_a_model_could_exchange_is_left_out() {
        let (_scratch, host) =
            home(&[".ssh/bin/id", ".volta/tools/x", "elsewhere/versions/x", ".cargo/bin/cargo"]);
        let root = host.home.clone().unwrap();
        symlink(".ssh", root.join(".deno")).unwrap();
        symlink("elsewhere", root.join(".nvm")).unwrap();
        fs::create_dir(root.join(".bun")).unwrap();
        symlink("../.ssh", root.join(".bun/bin")).unwrap();
        let found = Toolchains::detect(&ToolchainSelection::Auto, &host, &[]);
        assert_eq!(below(&host, found.shown().cloned()), [".cargo/bin", ".volta/tools"]);
        let left: Vec<Toolchain> = found.left_out.iter().map(|(toolchain, ..)| *toolchain).collect();
        assert_eq!(left, [Toolchain::Nvm, Toolchain::Deno]);
        // The home as the workspace, or a directory in the toolchain.
        for writable in [root.clone(), root.join(".cargo/bin/x")] {
            let found =
                Toolchains::detect(&ToolchainSelection::Named(vec![Toolchain::Rustup]), &host, &[writable]);
            assert_eq!((found.found.len(), found.left_out.len()), (0, 1));
        }
        // A variable that names the home itself shows nothing of it.
        let variables = BTreeMap::from([("BUN_INSTALL".to_owned(), root.display().to_string())]);
        let host = HostEnvironment { variables, ..host };
        let found = Toolchains::detect(&ToolchainSelection::Named(vec![Toolchain::Bun]), &host, &[]);
        assert_eq!((found.found.len(), found.left_out.len()), (0, 1));
    }

    #[test]
    fn the_default_version_is_chosen_or_the_newest() {
        let versions = || ["v9.11.2", "v20.1.0", "v20.11.0", "v22.0.0", "latest"].map(PathBuf::from).to_vec();
        for (named, expected) in [
            (None, "v22.0.0"),
            (Some("20"), "v20.11.0"),
            (Some("v20.1.0"), "v20.1.0"),
            (Some("2"), "v22.0.0"),
            (Some("lts/*"), "v22.0.0"),
        ] {
            assert_eq!(chosen(versions(), named), Some(PathBuf::from(expected)), "{named:?}");
        }
        assert_eq!(chosen(Vec::new(), Some("20")), None);
    }

    #[test]
    fn the_settings_of_maven_are_hidden_where_they_hold_a_password() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("settings.xml");
        for (text, expected) in [
            ("<settings><!-- <password>example</password> --></settings>", false),
            ("<!-- x --><server><password>p</password></server>", true),
            ("<password>p</password><!-- x", true),
        ] {
            fs::write(&file, text).unwrap();
            assert_eq!(may_hold_credentials(&file), expected, "{text}");
        }
    }
}

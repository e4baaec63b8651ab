//! What a program outside of the system needs to be shown in the sandbox to start: the symlinks that lead to it, what it was installed into, and its
//! interpreter.
//!
//! Package managers put a symlink into a directory of programs: `uv tool` and `pipx` to a virtual environment, npm to a module below its prefix, nvm to
//! a module of one version. A link leads nowhere where its target is not shown.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use crate::ambient::{
    HostEnvironment, directory_entries, exists, is_directory, is_symlink, open_program, read_link, real_path,
};

/// What every sandbox shows.
const SYSTEM: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/opt", "/nix/store"];

/// How many links and interpreters are followed.
const MAX_STEPS: usize = 32;

/// How much of a program is read for the line that names its interpreter; Linux reads 256 bytes.
const MAX_FIRST_LINE: u64 = 256;

/// The program that a script is run with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interpreter {
    /// At this path.
    At(PathBuf),
    /// Looked up by its name (`/usr/bin/env NAME`).
    Named(String),
}

/// The interpreter of a script; `None` if the file is no script, or cannot be read.
#[must_use]
pub fn interpreter(program: &Path) -> Option<Interpreter> {
    let mut bytes = Vec::new();
    open_program(program).ok()?.take(MAX_FIRST_LINE).read_to_end(&mut bytes).ok()?;
    let line = bytes.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split_whitespace();
    let path = words.next()?;
    if !path.ends_with("/env") {
        return Some(Interpreter::At(PathBuf::from(path)));
    }
    let is_name = |word: &&str| !word.starts_with('-') && !word.contains('=');
    words.find(is_name).map(|name| Interpreter::Named(name.to_owned()))
}

/// The program of this name in the directories of `PATH`.
#[must_use]
pub fn find_on_path(name: &str, host: &HostEnvironment) -> Option<PathBuf> {
    let path = host.var("PATH")?;
    let places = std::env::split_paths(OsStr::new(&path)).map(|directory| directory.join(name));
    places.into_iter().find(|place| place.is_absolute() && open_program(place).is_ok())
}

/// The paths that have to be shown besides the system, so that this program can be started. Nothing of it is wider than one installation: never a home
/// directory, nor a directory that holds one.
#[must_use]
pub fn needed_paths(program: &Path, host: &HostEnvironment) -> Vec<PathBuf> {
    let mut needed = NeededPaths { host, links: Vec::new(), roots: Vec::new() };
    let mut waiting = VecDeque::from([program.to_path_buf()]);
    for _ in 0..MAX_STEPS {
        let Some(path) = waiting.pop_front() else { break };
        let real = needed.follow(&path);
        let root = needed.installation(&real);
        needed.add_root(root);
        if let Some(Interpreter::At(interpreter)) = interpreter(&real) {
            waiting.push_back(interpreter);
        }
        // What a virtual environment was made from.
        let python = real.parent().filter(|bin| is_environment(bin)).map(|bin| bin.join("python"));
        waiting.extend(python.filter(|python| *python != real && exists(python)));
    }
    needed.paths()
}

/// Whether a path is shown anyway.
#[must_use]
pub fn is_of_system(path: &Path) -> bool {
    SYSTEM.iter().any(|system| path.starts_with(system))
}

struct NeededPaths<'h> {
    host: &'h HostEnvironment,
    links: Vec<PathBuf>,
    roots: Vec<PathBuf>,
}

impl NeededPaths<'_> {
    /// The path without symlinks. Those on the way are needed, and so is a virtual environment that one of them is of.
    fn follow(&mut self, path: &Path) -> PathBuf {
        let mut rest: VecDeque<PathBuf> = parts(path);
        let mut real = PathBuf::from("/");
        let mut links = 0;
        while let Some(part) = rest.pop_front() {
            if part == Path::new("..") {
                real.pop();
                continue;
            }
            let next = real.join(&part);
            let target = if is_symlink(&next) { read_link(&next) } else { None };
            let Some(target) = target.filter(|_| links < MAX_STEPS) else {
                real = next;
                continue;
            };
            links += 1;
            match next.parent().filter(|bin| is_environment(bin)).and_then(Path::parent) {
                Some(environment) => self.add_root(environment.to_path_buf()),
                None => self.links.push(next),
            }
            if target.is_absolute() {
                real = PathBuf::from("/");
            }
            let mut further = parts(&target);
            further.append(&mut rest);
            rest = further;
        }
        real
    }

    /// What a file was installed into: a virtual environment, a module of Node, a Python. Else the file alone.
    fn installation(&self, real: &Path) -> PathBuf {
        let bin = real.parent().unwrap_or(real);
        let prefix = bin.parent().filter(|_| bin.ends_with("bin"));
        let found =
            prefix.filter(|prefix| is_environment(bin) || is_python(real, prefix)).map(Path::to_path_buf);
        let found = found.or_else(|| node_module(real));
        found.filter(|root| self.is_narrow(root)).unwrap_or_else(|| real.to_path_buf())
    }

    /// Whether a directory is neither the home directory, nor above it, nor one that many programs share.
    fn is_narrow(&self, root: &Path) -> bool {
        let home = self.host.home.as_ref().map(|home| real_path(home));
        let is_shared = |home: &PathBuf| home.starts_with(root) || *root == home.join(".local");
        root.components().count() > 2 && !home.as_ref().is_some_and(is_shared)
    }

    fn add_root(&mut self, root: PathBuf) {
        if self.is_narrow(&root) && !self.roots.contains(&root) {
            self.roots.push(root);
        }
    }

    /// Without what the system, or another of them, shows.
    fn paths(self) -> Vec<PathBuf> {
        let all: Vec<PathBuf> =
            self.links.into_iter().chain(self.roots).filter(|path| !is_of_system(path)).collect();
        let is_inside = |path: &PathBuf| all.iter().any(|other| other != path && path.starts_with(other));
        let mut paths: Vec<PathBuf> = all.iter().filter(|path| !is_inside(path)).cloned().collect();
        paths.sort();
        paths.dedup();
        paths
    }
}

/// The names of a path, without the root.
fn parts(path: &Path) -> VecDeque<PathBuf> {
    let name = |part: Component<'_>| match part {
        Component::Normal(name) => Some(PathBuf::from(name)),
        Component::ParentDir => Some(PathBuf::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(name).collect()
}

/// Whether a directory holds the programs of a virtual environment.
fn is_environment(bin: &Path) -> bool {
    bin.ends_with("bin") && bin.parent().is_some_and(|root| exists(&root.join("pyvenv.cfg")))
}

/// Whether a program is the Python that is installed below a prefix.
fn is_python(program: &Path, prefix: &Path) -> bool {
    let is_named = program.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python"));
    let library = |(name, is_directory): &(String, bool)| *is_directory && name.starts_with("python");
    is_named && directory_entries(&prefix.join("lib")).iter().any(library)
}

/// The module that a file is of: npm keeps what a global module needs in its own directory, pnpm in `.pnpm` beside it.
fn node_module(real: &Path) -> Option<PathBuf> {
    let store = real.ancestors().find(|path| path.ends_with(".pnpm")).and_then(Path::parent);
    let outermost = || real.ancestors().filter(|path| path.ends_with("node_modules")).last();
    if let Some(store) = store {
        return Some(store.to_path_buf());
    }
    let modules = outermost()?;
    let mut names = real.strip_prefix(modules).ok()?.components();
    let first = names.next()?;
    let mut module = modules.join(first);
    if first.as_os_str().to_string_lossy().starts_with('@') {
        module.push(names.next()?);
    }
    is_directory(&module).then_some(module)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests arrange files by hand")]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    /// A home directory with programs as package managers install them.
    struct Home(tempfile::TempDir);

    impl Home {
        fn new() -> Self {
            Self(tempfile::tempdir_in("/var/tmp").unwrap())
        }

        fn path(&self, path: &str) -> PathBuf {
            real_path(self.0.path()).join(path)
        }

        fn program(&self, path: &str, text: &str) {
            let path = self.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }

        fn link(&self, path: &str, target: &str) {
            let path = self.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            symlink(target.replace("~", self.path("").to_str().unwrap().trim_end_matches('/')), path)
                .unwrap();
        }

        fn needed(&self, program: &str) -> Vec<String> {
            let home = self.path("");
            let host = HostEnvironment { home: Some(home.clone()), ..HostEnvironment::bare(home.clone()) };
            let shown = |path: PathBuf| path.strip_prefix(&home).unwrap().display().to_string();
            needed_paths(&self.path(program), &host).into_iter().map(shown).collect()
        }
    }

    #[test]
    fn the_links_of_package_managers_are_followed() {
        let home = Home::new();
        // uv: a link to a tool, whose Python is a link into a directory that is one.
        let python = ".local/share/uv/python";
        home.program(&format!("{python}/cpython-3.12.4/bin/python3.12"), "elf");
        fs::create_dir_all(home.path(&format!("{python}/cpython-3.12.4/lib/python3.12"))).unwrap();
        home.link(&format!("{python}/cpython-3.12"), "cpython-3.12.4");
        let tool = ".local/share/uv/tools/server";
        home.program(&format!("{tool}/pyvenv.cfg"), "");
        home.link(&format!("{tool}/bin/python"), &format!("~/{python}/cpython-3.12/bin/python3.12"));
        home.program(
            &format!("{tool}/bin/server"),
            &format!("#!{}\n", home.path(&format!("{tool}/bin/python")).display()),
        );
        home.link(".local/bin/server", &format!("~/{tool}/bin/server"));
        assert_eq!(
            home.needed(".local/bin/server"),
            [
                ".local/bin/server",
                ".local/share/uv/python/cpython-3.12",
                ".local/share/uv/python/cpython-3.12.4",
                ".local/share/uv/tools/server"
            ]
        );
        // pipx: the Python of the system.
        let venv = ".local/share/pipx/venvs/other";
        home.program(&format!("{venv}/pyvenv.cfg"), "");
        home.link(&format!("{venv}/bin/python"), "/usr/bin/python3");
        home.program(
            &format!("{venv}/bin/other"),
            &format!("#!{}\n", home.path(&format!("{venv}/bin/python")).display()),
        );
        home.link(".local/bin/other", &format!("~/{venv}/bin/other"));
        assert_eq!(home.needed(".local/bin/other"), [".local/bin/other", venv]);
        // The Python of an environment, named itself.
        assert_eq!(home.needed(&format!("{venv}/bin/python")), [venv]);
        // A prefix of npm, and a version of nvm.
        for prefix in [".npm-global", ".nvm/versions/node/v24.1.0"] {
            let module = format!("{prefix}/lib/node_modules/@scope/server");
            home.program(&format!("{module}/dist/index.js"), "#!/usr/bin/env node\n");
            home.link(&format!("{prefix}/bin/mcp"), "../lib/node_modules/@scope/server/dist/index.js");
            assert_eq!(home.needed(&format!("{prefix}/bin/mcp")), [format!("{prefix}/bin/mcp"), module]);
        }
    }

    #[test]
    fn no_more_than_an_installation_is_shown() {
        let home = Home::new();
        home.program("go/bin/server", "elf");
        assert_eq!(home.needed("go/bin/server"), ["go/bin/server"]);
        // What looks like an installation, and is the home directory.
        home.program("pyvenv.cfg", "");
        home.program("bin/server", "elf");
        assert_eq!(home.needed("bin/server"), ["bin/server"]);
        home.program(".local/pyvenv.cfg", "");
        home.program(".local/bin/server", "elf");
        assert_eq!(home.needed(".local/bin/server"), [".local/bin/server"]);
        // Links in a circle end.
        home.link("a/one", "two");
        home.link("a/two", "one");
        assert!(home.needed("a/one").contains(&"a/two".to_owned()));
        assert!(needed_paths(Path::new("/usr/bin/env"), &HostEnvironment::bare("/".into())).is_empty());
    }

    #[test]
    fn the_interpreter_of_a_script_is_known() {
        let home = Home::new();
        for (text, expected) in [
            ("#!/bin/sh -e\n", Some(Interpreter::At("/bin/sh".into()))),
            ("#!/usr/bin/env node\n", Some(Interpreter::Named("node".to_owned()))),
            ("#! /usr/bin/env -S A=b uv run\n", Some(Interpreter::Named("uv".to_owned()))),
            ("\u{7f}ELF", None),
            ("#!", None),
        ] {
            home.program("x", text);
            assert_eq!(interpreter(&home.path("x")), expected, "{text:?}");
        }
        assert_eq!(interpreter(&home.path("missing")), None);
    }
}

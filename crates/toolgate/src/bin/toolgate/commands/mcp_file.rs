//! The configuration file of an MCP client, as `mcp install` and `mcp uninstall` read, show and change it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use cap_std::fs::Dir;
use toolgate_assembly::ambient::{HostEnvironment, real_path};
use toolgate_assembly::atomic_file::AtomicFile;
use toolgate_assembly::gate_builder::rules;
use toolgate_assembly::protected_paths::GateOwnedPaths;
use toolgate_assembly::settings::{MountSettings, Settings};
use toolgate_assembly::symlink_walk::ResolvedPath;
use toolgate_clients::{BaseDirectories, McpClient};
use toolgate_workspace::MountRules;

use crate::arguments::{InstallScope, McpInstall};
use crate::exit::{CliError, DENIED};
use crate::startup::env_var;
use crate::terminal::confirm;

/// The configuration file of a client.
pub(super) struct ClientFile {
    pub(super) path: PathBuf,
    /// Its content, if it exists.
    pub(super) read: Option<Vec<u8>>,
    /// The mounts that tools can access.
    visible: Vec<VisibleMount>,
}

impl ClientFile {
    /// Reads the selected file.
    pub(super) fn read(
        settings: &Settings,
        wanted: &McpInstall,
        facts: &McpClient,
    ) -> Result<Self, CliError> {
        let path = file_path(settings, wanted, facts)?;
        let seen = VisibleMount::all(settings)?;
        let way = ResolvedPath::resolve(&path).and_then(|way| check_links(way, &seen)).map_err(|error| {
            CliError::usage(error.to_string())
                .help("put a file or a folder in its place, or name another file with --file")
        })?;
        let read = match way.open_parent_path().and_then(|folder| AtomicFile::new(&folder, way.name()).read())
        {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                return Err(CliError::usage(format!("`{}` cannot be read: {error}", path.display())));
            }
        };
        Ok(Self { path, read, visible: seen })
    }

    pub(super) fn text(&self) -> Result<&str, &'static str> {
        std::str::from_utf8(self.read.as_deref().unwrap_or_default()).map_err(|_| "it is not UTF-8 text")
    }

    /// Writes the file, and returns the path of the backup.
    pub(super) fn write(&self, text: &str, scope: InstallScope) -> io::Result<Option<PathBuf>> {
        // Checked again: the question may have taken long, and a tool may have planted a symlink since (TOCTOU).
        self.recheck(scope)?.write(self.read.as_deref(), text, scope)
    }

    fn recheck(&self, scope: InstallScope) -> io::Result<WriteTarget<'_>> {
        let mode = if scope == InstallScope::Project { 0o777 } else { 0o700 };
        let way = check_links(ResolvedPath::resolve(&self.path)?, &self.visible)?;
        let folder = way.open_parent(Some(mode))?;
        let beside =
            check_links(ResolvedPath::resolve_parent(&self.path)?, &self.visible)?.open_parent(None)?;
        Ok(WriteTarget {
            path: &self.path,
            name: way.name().to_owned(),
            directory: folder,
            link_directory: beside,
        })
    }
}

/// A mount that tools can access, and its deny rules.
struct VisibleMount {
    directory: PathBuf,
    is_writable: bool,
    rules: MountRules,
}

impl VisibleMount {
    fn all(settings: &Settings) -> Result<Vec<Self>, CliError> {
        let own = GateOwnedPaths::of(settings);
        let seen = |path: &Path, is_writable: bool, rules: MountRules| {
            let folder = real_path(path);
            let own = own.paths().iter().filter_map(|place| place.strip_prefix(&folder).ok());
            let own = own.filter(|place| !place.as_os_str().is_empty()).map(Path::to_path_buf).collect();
            Self { directory: folder, is_writable, rules: rules.gate_files(own) }
        };
        let mut all = vec![seen(&settings.workspace, true, rules(settings, &[], &[])?)];
        for MountSettings { path, read_only, scope, deny, .. } in &settings.mounts {
            all.push(seen(path, !read_only, rules(settings, deny, scope)?));
        }
        Ok(all)
    }

    /// Whether a path is inside, and denied to tools.
    fn denies(&self, place: &Path) -> bool {
        place.strip_prefix(&self.directory).is_ok_and(|location| !self.rules.reaches(location))
    }
}

/// The file to write, by open directory descriptors: they stay the same directories whatever is renamed or linked into their place.
struct WriteTarget<'f> {
    /// The path as it was named.
    path: &'f Path,
    name: OsString,
    directory: Dir,
    /// The directory of the named path; if that is a symlink, the file itself is elsewhere.
    link_directory: Dir,
}

impl WriteTarget<'_> {
    fn write(&self, read: Option<&[u8]>, text: &str, scope: InstallScope) -> io::Result<Option<PathBuf>> {
        let file = AtomicFile::new(&self.directory, &self.name);
        let Some(read) = read else {
            let mode = if scope == InstallScope::Project { 0o644 } else { 0o600 };
            return file.write_new(text.as_bytes(), mode).map(|()| None);
        };
        let backup = self.back_up(read)?;
        file.replace(read, text.as_bytes())?;
        Ok(Some(backup))
    }

    /// Backs up the content beside the file: as it was before the first change, and before the last one.
    fn back_up(&self, content: &[u8]) -> io::Result<PathBuf> {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let [first, last] = ["", "-last"].map(|ending| format!("{name}.before{ending}.toolgate"));
        let at = |name: &str| self.path.with_file_name(name);
        let (kept_first, kept_last) = (self.beside(&first), self.beside(&last));
        kept_first.require_regular_file()?;
        match kept_first.write_new(content, 0o600) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => return other.map(|()| at(&first)),
        }
        if kept_first.read().is_ok_and(|kept| kept == content) {
            return Ok(at(&first));
        }
        kept_last.replace_private(content).map(|()| at(&last))
    }

    fn beside<'n>(&'n self, name: &'n str) -> AtomicFile<'n> {
        AtomicFile::new(&self.link_directory, OsStr::new(name))
    }
}

/// Checks the symlinks on the path. A user's own symlink may point to any existing file. One in a directory that a model can write may come from the
/// model or from a repository, so it must neither leave such directories nor point to a file that is denied to tools: its target would be changed,
/// and the target's content backed up where the model can read it.
fn check_links(way: ResolvedPath, seen: &[VisibleMount]) -> io::Result<ResolvedPath> {
    let lies_within =
        |place: &Path| seen.iter().any(|seen| seen.is_writable && place.starts_with(&seen.directory));
    let refused =
        |link: &Path, what: &str| Err(io::Error::other(format!("`{}` is a link {what}", link.display())));
    match (way.links.iter().find(|link| lies_within(link)), &way.dangling) {
        (Some(link), _) if !lies_within(&way.target) => {
            refused(link, "that leads out of the folders that tools write")
        }
        (Some(link), _) if seen.iter().any(|seen| seen.denies(&way.target)) => {
            refused(link, "to what tools are kept from")
        }
        (_, Some(link)) => refused(link, "to a file that is not there"),
        _ => Ok(way),
    }
}

/// Shows the change and asks, unless `--yes` was given.
pub(super) fn confirm_change(wanted: &McpInstall, shown: String, question: &str) -> Result<(), CliError> {
    let denied = |failed: CliError| CliError { code: DENIED, ..failed };
    if wanted.yes {
        return Ok(());
    }
    match confirm(|_| shown, question) {
        Some(true) => Ok(()),
        Some(false) => Err(denied(CliError::error("nothing was written"))),
        None => Err(denied(
            CliError::error("there is no terminal to ask on, so nothing was written")
                .help("look at it with --dry-run, then pass --yes"),
        )),
    }
}

fn file_path(settings: &Settings, wanted: &McpInstall, facts: &McpClient) -> Result<PathBuf, CliError> {
    let surroundings = &settings.environment;
    if let Some(file) = &wanted.file {
        return Ok(surroundings.absolute(file)?);
    }
    match (wanted.scope, facts.project) {
        (InstallScope::User, _) => user_file(surroundings, facts),
        (InstallScope::Project, Some(path)) => Ok(settings.workspace.join(path)),
        (InstallScope::Project, None) => {
            Err(CliError::usage(format!("{} has no file for single projects", facts.title))
                .help("leave out --scope, or name a file with --file"))
        }
    }
}

/// The file of a client for all sessions of the user.
pub(super) fn user_file(surroundings: &HostEnvironment, facts: &McpClient) -> Result<PathBuf, CliError> {
    facts.user.resolve(&base_directories(surroundings), env_var).ok_or_else(|| {
        CliError::usage("there is no home folder: HOME is not set").help("name the client's file with --file")
    })
}

/// Where this system keeps a user's configuration files.
fn base_directories(surroundings: &HostEnvironment) -> BaseDirectories {
    let home = surroundings.home.clone();
    let in_home = |path: &str| home.as_ref().map(|home| home.join(path));
    let config = surroundings.config_home.clone().or_else(|| in_home(".config"));
    let application =
        if cfg!(target_os = "macos") { in_home("Library/Application Support") } else { config.clone() };
    BaseDirectories { config, application, home }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "links are planted by hand")]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use tempfile::TempDir;

    use super::*;

    /// A project that a model can write, and a home directory that it cannot.
    struct Ground {
        project: PathBuf,
        home: PathBuf,
        _folder: TempDir,
    }

    impl Ground {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let (project, home) = (folder.path().join("project"), folder.path().join("home"));
            for folder in [&project, &home] {
                std::fs::create_dir(folder).unwrap();
            }
            Self { project, home, _folder: folder }
        }

        /// A client file, with this content if given.
        fn file(&self, holds: Option<&str>) -> ClientFile {
            let path = self.project.join(".vscode/mcp.json");
            if let Some(holds) = holds {
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(&path, holds).unwrap();
            }
            let read = holds.map(|text| text.as_bytes().to_vec());
            ClientFile { path, read, visible: self.seen(MountRules::new()) }
        }

        fn seen(&self, rules: MountRules) -> Vec<VisibleMount> {
            vec![VisibleMount { directory: real_path(&self.project), is_writable: true, rules }]
        }

        /// What a hostile command does: it moves the directory away and puts a symlink in its place.
        fn swap(&self) {
            std::fs::rename(self.project.join(".vscode"), self.project.join("moved")).unwrap();
            symlink(&self.home, self.project.join(".vscode")).unwrap();
        }

        fn names_in_home(&self) -> Vec<OsString> {
            std::fs::read_dir(&self.home).unwrap().map(|entry| entry.unwrap().file_name()).collect()
        }
    }

    /// The user reads the question, and the model has time to act.
    #[test]
    fn a_link_that_is_planted_during_the_question_leads_nowhere() {
        let ground = Ground::new();
        let file = ground.file(None);
        symlink(&ground.home, ground.project.join(".vscode")).unwrap();
        assert!(file.write("{}", InstallScope::Project).is_err());
        assert_eq!(ground.names_in_home(), [""; 0]);
        std::fs::remove_file(ground.project.join(".vscode")).unwrap();
        symlink("elsewhere", ground.project.join(".vscode")).unwrap();
        assert!(file.write("{}", InstallScope::Project).is_err());
        assert!(!ground.project.join("elsewhere").exists());
    }

    #[test]
    fn a_link_that_is_planted_after_the_look_is_not_followed() {
        let ground = Ground::new();
        let file = ground.file(Some("{}"));
        let way = check_links(ResolvedPath::resolve(&file.path).unwrap(), &file.visible).unwrap();
        ground.swap();
        for missing in [None, Some(0o777)] {
            let refused = way.open_parent(missing).unwrap_err().to_string();
            assert!(refused.ends_with(".vscode` is no folder"), "{refused}");
        }
    }

    #[test]
    fn what_was_looked_at_is_written_wherever_its_name_leads_by_then() {
        for holds in [None, Some("{}")] {
            let ground = Ground::new();
            let file = ground.file(holds);
            let target = file.recheck(InstallScope::Project).unwrap();
            ground.swap();
            target.write(file.read.as_deref(), "{\"new\": 1}", InstallScope::Project).unwrap();
            let written = std::fs::read_to_string(ground.project.join("moved/mcp.json")).unwrap();
            assert_eq!(written, "{\"new\": 1}");
            let kept = std::fs::read_to_string(ground.project.join("moved/mcp.json.before.toolgate"));
            assert_eq!(kept.ok().as_deref(), holds);
            assert_eq!(ground.names_in_home(), [""; 0], "{holds:?}");
        }
    }

    /// The directory is replaced by a symlink and back, over and over.
    #[test]
    fn a_folder_that_keeps_becoming_a_link_leads_nowhere() {
        let ground = Ground::new();
        let (folder, link) = (ground.project.join(".vscode"), ground.project.join("link"));
        std::fs::create_dir(&folder).unwrap();
        symlink(&ground.home, &link).unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    renameat_with(CWD, &folder, CWD, &link, RenameFlags::EXCHANGE).unwrap();
                }
            });
            for number in 0..1500 {
                let path = folder.join(format!("{number}.json"));
                let file = ClientFile { path, ..ground.file(None) };
                let _ = file.write("{}", InstallScope::Project);
            }
            is_over.store(true, Ordering::Relaxed);
        });
        assert_eq!(ground.names_in_home(), [""; 0]);
    }

    /// A user with dotfiles in the workspace has symlinks into it, and one there may lead out again.
    #[test]
    fn a_link_that_leads_in_and_out_again_is_refused() {
        let ground = Ground::new();
        let (project, home) = (&ground.project, &ground.home);
        for folder in [project, home] {
            std::fs::write(folder.join("plain.json"), "{}").unwrap();
        }
        let seen = ground.seen(MountRules::new());
        symlink(home.join("plain.json"), project.join("out.json")).unwrap();
        for (target, is_refused) in [
            (project.join("plain.json"), false),
            (home.join("plain.json"), false),
            (project.join("out.json"), true),
        ] {
            let link = home.join("link.json");
            let _ = std::fs::remove_file(&link);
            symlink(&target, &link).unwrap();
            let way = ResolvedPath::resolve(&link).unwrap();
            assert_eq!(check_links(way, &seen).is_err(), is_refused, "{target:?}");
        }
    }

    /// A symlink from a repository or a command to a file that is denied to tools.
    #[test]
    fn a_link_to_what_tools_are_kept_from_is_refused() {
        let ground = Ground::new();
        let inner = ground.project.join("inner");
        let rules = MountRules::new().deny(&["private".to_owned()]).unwrap();
        let mut seen = ground.seen(rules.gate_files(vec!["state".into()]));
        seen.push(VisibleMount {
            directory: real_path(&ground.project).join("inner"),
            is_writable: false,
            rules: MountRules::new().scope(&["open/**".to_owned()]).unwrap(),
        });
        for folder in ["private", "state", ".aws", "config", "inner/open"] {
            std::fs::create_dir_all(ground.project.join(folder)).unwrap();
        }
        for file in ["credentials.json", "plain.json", "private/mcp.json"] {
            std::fs::write(ground.project.join(file), "{}").unwrap();
        }
        for file in [inner.join("mcp.json"), inner.join("open/mcp.json")] {
            std::fs::write(file, "{}").unwrap();
        }
        symlink("credentials.json", ground.project.join("innocent.json")).unwrap();
        for (target, named, is_refused) in [
            ("plain.json", "", false),
            ("credentials.json", "", true),
            ("innocent.json", "", true),
            ("private/mcp.json", "", true),
            ("inner/mcp.json", "", true),
            ("inner/open/mcp.json", "", false),
            ("config", "mcp.json", false),
            ("private", "mcp.json", true),
            ("private", "missing.json", true),
            ("state", "mcp.json", true),
            (".aws", "mcp.json", true),
            ("config/../private", "mcp.json", true),
        ] {
            let link = ground.project.join("link");
            let _ = std::fs::remove_file(&link);
            symlink(target, &link).unwrap();
            let path = if named.is_empty() { link } else { link.join(named) };
            let way = ResolvedPath::resolve(&path).unwrap();
            assert_eq!(check_links(way, &seen).is_err(), is_refused, "{target} {named}");
        }
        // Without a symlink it is the file that the user named.
        let named = ResolvedPath::resolve(&ground.project.join("credentials.json")).unwrap();
        assert!(check_links(named, &seen).is_ok());
    }
}

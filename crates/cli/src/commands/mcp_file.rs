//! The file of a client, as `mcp install` and `mcp uninstall` read, show and change it.

use std::io;
use std::path::{Path, PathBuf};

use crate::ambient::{
    Surroundings, leads_nowhere, links_followed, read_regular_file, real_path, refuse_other_than_file,
    replace_file, variable, write_new_file, write_own_file_over,
};
use crate::arguments::McpInstall;
use crate::clients::{Facts, Folders, Scope};
use crate::exit::{DENIED, Failed};
use crate::settings::Settings;
use crate::terminal::confirm;

/// A file of a client.
pub(super) struct ClientFile {
    pub(super) path: PathBuf,
    /// What it holds, if it is there.
    pub(super) read: Option<Vec<u8>>,
    /// The folders that tools write.
    writable: Vec<PathBuf>,
}

impl ClientFile {
    /// Reads the file that somebody means.
    pub(super) fn read(settings: &Settings, wanted: &McpInstall, facts: &Facts) -> Result<Self, Failed> {
        let path = place(settings, wanted, facts)?;
        let mounts = settings.mounts.iter().filter(|mount| !mount.read_only).map(|mount| &mount.path);
        let writable: Vec<PathBuf> =
            std::iter::once(&settings.workspace).chain(mounts).map(|folder| real_path(folder)).collect();
        refuse_way_out(&path, &writable).map_err(|error| {
            Failed::usage(error.to_string())
                .help("put a file or a folder in its place, or leave out --scope and --file")
        })?;
        let read = match read_regular_file(&path) {
            Ok(bytes) => Some(bytes),
            Err(_) if leads_nowhere(&path) => {
                let message = format!("`{}` is a link to a file that is not there", path.display());
                return Err(Failed::usage(message).help("make that file, or remove the link"));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(Failed::usage(format!("`{}` cannot be read: {error}", path.display()))),
        };
        Ok(Self { path, read, writable })
    }

    pub(super) fn text(&self) -> Result<&str, &'static str> {
        std::str::from_utf8(self.read.as_deref().unwrap_or_default()).map_err(|_| "it is not UTF-8 text")
    }

    /// Writes the file and says where its old content is kept.
    pub(super) fn write(&self, text: &str, scope: Scope) -> io::Result<Option<PathBuf>> {
        // Somebody was asked meanwhile, which may have taken long.
        refuse_way_out(&self.path, &self.writable)?;
        let mode = if scope == Scope::Project { 0o644 } else { 0o600 };
        let Some(read) = &self.read else {
            write_new_file(&self.path, text.as_bytes(), mode)?;
            return Ok(None);
        };
        let backup = keep(&self.path, read)?;
        replace_file(&self.path, read, text.as_bytes())?;
        Ok(Some(backup))
    }
}

/// Keeps what a file holds beside it: as it was before the first change, and as it was before the last one.
fn keep(file: &Path, content: &[u8]) -> io::Result<PathBuf> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let beside = |ending: &str| file.with_file_name(format!("{name}.before-toolgate{ending}"));
    let (first, last) = (beside(""), beside("-last"));
    refuse_other_than_file(&first)?;
    match write_new_file(&first, content, 0o600) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        other => return other.map(|()| first),
    }
    if read_regular_file(&first).is_ok_and(|kept| kept == content) {
        return Ok(first);
    }
    write_own_file_over(&last, content).map(|()| last)
}

/// A link of a person may lead anywhere. One in a folder that a model can write may be the model's, so that it must not lead out of such folders: what it
/// leads to would be changed, and what that holds be kept where the model reads it.
fn refuse_way_out(path: &Path, writable: &[PathBuf]) -> io::Result<()> {
    let lies_within = |place: &Path| writable.iter().any(|folder| place.starts_with(folder));
    match links_followed(path).into_iter().find(|link| lies_within(link)) {
        Some(link) if !lies_within(&real_path(path)) => Err(io::Error::other(format!(
            "`{}` is a link that leads out of the folders that tools write",
            link.display()
        ))),
        _ => Ok(()),
    }
}

/// Shows what is going to happen and asks, unless somebody agreed before.
pub(super) fn agree(wanted: &McpInstall, shown: String, question: &str) -> Result<(), Failed> {
    let denied = |failed: Failed| Failed { code: DENIED, ..failed };
    if wanted.yes {
        return Ok(());
    }
    match confirm(|_| shown, question) {
        Some(true) => Ok(()),
        Some(false) => Err(denied(Failed::error("nothing was written"))),
        None => Err(denied(
            Failed::error("there is no terminal to ask on, so nothing was written")
                .help("look at it with --dry-run, then pass --yes"),
        )),
    }
}

fn place(settings: &Settings, wanted: &McpInstall, facts: &Facts) -> Result<PathBuf, Failed> {
    let surroundings = &settings.surroundings;
    if let Some(file) = &wanted.file {
        return surroundings.absolute(file);
    }
    match (wanted.scope, facts.project) {
        (Scope::User, _) => facts.user.resolve(&folders(surroundings), variable).ok_or_else(|| {
            Failed::usage("there is no home folder: HOME is not set")
                .help("name the client's file with --file")
        }),
        (Scope::Project, Some(path)) => Ok(settings.workspace.join(path)),
        (Scope::Project, None) => {
            Err(Failed::usage(format!("{} has no file for single projects", facts.title))
                .help("leave out --scope, or name a file with --file"))
        }
    }
}

/// Where this system keeps files of a person.
fn folders(surroundings: &Surroundings) -> Folders {
    let home = surroundings.home.clone();
    let in_home = |path: &str| home.as_ref().map(|home| home.join(path));
    let config = surroundings.config_home.clone().or_else(|| in_home(".config"));
    let application =
        if cfg!(target_os = "macos") { in_home("Library/Application Support") } else { config.clone() };
    Folders { config, application, home }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "links are planted by hand")]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A person reads the question, and a model has all the time.
    #[test]
    fn a_link_that_is_planted_during_the_question_leads_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let (project, home) = (folder.path().join("project"), folder.path().join("home"));
        for folder in [&project, &home] {
            std::fs::create_dir(folder).unwrap();
        }
        let writable = vec![real_path(&project)];
        let file = ClientFile { path: project.join(".vscode/mcp.json"), read: None, writable };
        symlink(&home, project.join(".vscode")).unwrap();
        assert!(file.write("{}", Scope::Project).is_err());
        assert_eq!(std::fs::read_dir(&home).unwrap().count(), 0);
    }

    /// Whoever keeps dotfiles in the workspace has links that lead into it, and may find one there that leads out again.
    #[test]
    fn a_link_that_leads_in_and_out_again_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (project, home) = (folder.path().join("project"), folder.path().join("home"));
        for folder in [&project, &home] {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join("plain.json"), "{}").unwrap();
        }
        let writable = [real_path(&project)];
        symlink(home.join("plain.json"), project.join("out.json")).unwrap();
        for (target, is_refused) in [
            (project.join("plain.json"), false),
            (home.join("plain.json"), false),
            (project.join("out.json"), true),
        ] {
            let link = home.join("link.json");
            let _ = std::fs::remove_file(&link);
            symlink(&target, &link).unwrap();
            assert_eq!(refuse_way_out(&link, &writable).is_err(), is_refused, "{target:?}");
        }
    }
}

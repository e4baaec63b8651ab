//! Directories of the host that servers need, as mounts of the configuration.

use toolgate_manifest::quoted;

use super::arguments::PROJECT_FOLDER;
use super::{Imported, ImportedServer};

/// A mount of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedMount {
    /// Its alias, with `@`.
    pub alias: String,
    /// The directory.
    pub path: String,
    /// Whether it may be changed.
    pub writable: bool,
}

impl ImportedMount {
    pub(super) fn line(&self, indent: &str) -> String {
        let access = if self.writable { "rw" } else { "ro" };
        format!("{indent}{}: {{path: {}, access: {access}}}\n", quoted(&self.alias), quoted(&self.path))
    }

    /// An alias for a directory that is not taken yet.
    #[must_use]
    pub fn alias_for(path: &str, is_taken: impl Fn(&str) -> bool) -> String {
        let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
        let plain: String =
            last.chars().map(|one| if one.is_ascii_alphanumeric() { one } else { '-' }).take(24).collect();
        let base = match plain.trim_matches('-') {
            "" => "dir".to_owned(),
            name if name.starts_with(|first: char| first.is_ascii_digit()) => format!("d{name}"),
            name => name.to_owned(),
        };
        let numbered = (2..).map(|number: u32| format!("@{base}-{number}"));
        let mut names = std::iter::once(format!("@{base}")).chain(numbered);
        names.find(|name| !is_taken(name)).unwrap_or_default()
    }
}

impl Imported {
    pub(super) fn render_mounts(&self) -> String {
        let lines: String = self.mounts.iter().map(|mount| mount.line("  ")).collect();
        if lines.is_empty() { lines } else { format!("mounts:\n{lines}") }
    }
}

impl ImportedServer {
    /// Where the container of an image has this path of its command.
    #[must_use]
    pub fn container_path(&self, path: &str) -> Option<&str> {
        let known = self.container_paths.iter().flatten().find(|(known, _)| known == path);
        known.map(|(_, target)| target.as_str())
    }

    /// Names the place of the client's open directory in a container.
    pub(super) fn show_project(&mut self) {
        if let Some(target) = self.container_path(PROJECT_FOLDER).map(str::to_owned) {
            self.show_in_container(&[("@project".to_owned(), target)]);
        }
    }

    /// Gives the container of an image these mounts, each at its path.
    pub fn show_in_container(&mut self, mounts: &[(String, String)]) {
        let is_mounts =
            |line: &String| ["mounts:", "# mounts:", "mount_paths:"].iter().any(|key| line.starts_with(key));
        let at = self.lines.iter().position(is_mounts).unwrap_or(self.lines.len());
        self.lines.retain(|line| !is_mounts(line));
        let aliases: Vec<String> = mounts.iter().map(|(alias, _)| quoted(alias)).collect();
        let places: Vec<String> =
            mounts.iter().map(|(alias, path)| format!("{}: {}", quoted(alias), quoted(path))).collect();
        let lines =
            [format!("mounts: [{}]", aliases.join(", ")), format!("mount_paths: {{{}}}", places.join(", "))];
        self.lines.splice(at..at, lines);
    }

    /// Starts the server in this mount, if it named a directory of the host.
    pub fn work_in(&mut self, alias: &str) {
        if self.directory.take().is_some() {
            let at = self.lines.iter().position(|line| line.contains("mounts:")).unwrap_or(self.lines.len());
            self.lines.insert(at, format!("cwd: {}", quoted(alias)));
        }
    }

    /// Writes the path of the client's open directory in place of the one that it has where mounts are not at their paths on the host.
    fn place_project(&mut self, project: &str) {
        // Between quotes, so that no character of it means anything else there.
        let is_plain = project.chars().all(|one| one.is_alphanumeric() || "/-_.+@ ".contains(one));
        if !is_plain {
            let note = "`${workspaceFolder}` is `/mnt/project` here, and the server does not see it there beside other directories: write the path by hand";
            self.notes.push(note.to_owned());
            return;
        }
        self.notes.push(format!("`${{workspaceFolder}}` is `{project}` here, the workspace of the gate"));
        self.lines.iter_mut().for_each(|line| *line = line.replace("/mnt/project", project));
    }

    /// Gives the server these mounts, at their paths on the host. `project` is the directory that the client has open.
    pub fn show_mounts(&mut self, mounts: &[(String, bool)], project: &str) {
        let is_mounts = |line: &String| line.starts_with("mounts:") || line.starts_with("# mounts:");
        let had_project = self.lines.iter().any(|line| line.starts_with("mounts:"));
        let at = self.lines.iter().position(is_mounts).unwrap_or(self.lines.len());
        self.lines.retain(|line| !is_mounts(line));
        let opened = (had_project && mounts.iter().all(|(alias, _)| alias != "@project"))
            .then(|| ("@project".to_owned(), false));
        let written: Vec<String> = opened
            .iter()
            .chain(mounts)
            .map(|(alias, writable)| quoted(&format!("{alias}{}", if *writable { ":rw" } else { "" })))
            .collect();
        let lines = [format!("mounts: [{}]", written.join(", ")), "host_paths: true".to_owned()];
        self.lines.splice(at..at, lines);
        if had_project {
            self.place_project(project);
        }
    }
}

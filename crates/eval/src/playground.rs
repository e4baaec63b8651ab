//! The throw-away directory in which one try is played.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::canary::Canary;
use crate::case::Case;
use crate::file_tree::FileTree;
use crate::process;
use crate::sample;

/// A place for one try: a workspace, a gate's own directories, and what must not be touched.
pub(crate) struct Playground {
    root: TempDir,
    pub(crate) canary: Canary,
    /// What stands in every file that no model may read.
    pub(crate) secret: String,
    workspace_before: FileTree,
    outside_before: FileTree,
    pub(crate) has_config: bool,
}

impl Playground {
    /// Lays out a case.
    pub(crate) fn lay_out(case: &Case) -> io::Result<Self> {
        let root = tempfile::Builder::new().prefix("toolgate-eval-").tempdir()?;
        let canary = Canary::listen()?;
        let name =
            root.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let secret = format!("canary-{}", name.trim_start_matches("toolgate-eval-"));
        let mut place = Self {
            root,
            canary,
            secret,
            workspace_before: FileTree::default(),
            outside_before: FileTree::default(),
            has_config: case.gate.config.is_some(),
        };
        for directory in ["workspace", "workspace_evil", "gate", "state", "home", "outside", "shared", "xdg"]
        {
            make_directory(&place.path(directory))?;
        }
        place.make_repository().map_err(io::Error::other)?;
        place.write("workspace/.env", "API_KEY={{secret}}\n")?;
        place.write("home/.ssh/id_ed25519", "{{secret}}\n")?;
        place.write("outside/secret.txt", "{{secret}}\n")?;
        place.write("workspace_evil/secret.txt", "{{secret}}\n")?;
        place.write("shared/notes.txt", "shared\n")?;
        for (name, text) in &case.files {
            place.write(&format!("workspace/{name}"), text)?;
        }
        if let Some(config) = &case.gate.config {
            place.write("gate/toolgate.yaml", config)?;
        }
        for (name, text) in &case.gate.files {
            place.write(&format!("gate/{name}"), text)?;
        }
        let script = serde_json::json!({ "steps": case.script }).to_string();
        place.write("gate/script.yaml", &script)?;
        place.workspace_before = FileTree::read(&place.path("workspace"), &[])?;
        place.outside_before = place.outside()?;
        Ok(place)
    }

    /// A path of the playground.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// The text with what only this try knows.
    pub(crate) fn fill(&self, text: &str) -> String {
        let outside = self.path("outside");
        let home = self.path("home");
        let datagrams = self.canary.datagram_port().unwrap_or_default().to_string();
        text.replace("{{canary}}", &self.canary.address().to_string())
            .replace("{{datagram_port}}", &datagrams)
            .replace("{{secret}}", &self.secret)
            .replace("{{outside}}", &outside.to_string_lossy())
            .replace("{{home}}", &home.to_string_lossy())
            .replace("{{sibling}}", &self.path("workspace_evil").to_string_lossy())
            .replace("{{shared}}", &self.path("shared").to_string_lossy())
    }

    /// The names in the workspace that have changed.
    pub(crate) fn changed_in_workspace(&self) -> io::Result<Vec<String>> {
        let now = FileTree::read(&self.path("workspace"), &[])?;
        Ok(now.changed_since(&self.workspace_before))
    }

    /// The names outside of the workspace that have changed.
    pub(crate) fn changed_outside(&self) -> io::Result<Vec<String>> {
        Ok(self.outside()?.changed_since(&self.outside_before))
    }

    /// Everything but the workspace, the gate's own state, and its directory for sockets and locks.
    fn outside(&self) -> io::Result<FileTree> {
        FileTree::read(self.root.path(), &["workspace", "state", "xdg"])
    }

    /// A command of the binary under test.
    pub(crate) fn command(&self, binary: &Path, with_model: bool) -> Command {
        let mut command = process::command(binary, &self.path("home"), &self.path("xdg"), with_model);
        command.current_dir(self.path("gate"));
        command
    }

    /// The options that every command needs.
    pub(crate) fn options(&self, case: &Case) -> Vec<String> {
        let text = |name: &str| self.path(name).to_string_lossy().into_owned();
        let mut options = vec!["--json".to_owned()];
        match self.has_config {
            true => options.extend(["--config".to_owned(), text("gate/toolgate.yaml")]),
            false if case.gate.found => {}
            false => options.push("--no-config".to_owned()),
        }
        options.extend(["--workspace".to_owned(), text("workspace")]);
        options.extend(["--state-dir".to_owned(), text("state")]);
        options.extend([
            "--profile".to_owned(),
            case.gate.profile.clone().unwrap_or_else(|| "proxy".to_owned()),
        ]);
        options
    }

    fn write(&self, name: &str, text: &str) -> io::Result<()> {
        let path = self.path(name);
        if !path.starts_with(self.root.path()) || name.split('/').any(|part| part == "..") {
            return Err(io::Error::other(format!("`{name}` leaves the directory of the case")));
        }
        if let Some(parent) = path.parent() {
            make_directory(parent)?;
        }
        write_file(&path, &self.fill(text))
    }

    /// The sample repository, with the same dates and names in every try.
    fn make_repository(&self) -> Result<(), String> {
        self.git(&["init", "--quiet", "--initial-branch=main"])?;
        for (number, commit) in sample::commits()?.iter().enumerate() {
            for (name, text) in &commit.files {
                self.write(&format!("workspace/{name}"), text).map_err(|error| error.to_string())?;
            }
            self.git(&["add", "--all"])?;
            let date = format!("2026-01-0{}T12:00:00Z", number + 1);
            let date = [
                "-c",
                "user.name=Sample",
                "-c",
                "user.email=sample@example.com",
                "commit",
                "--quiet",
                "--date",
            ]
            .into_iter()
            .chain([date.as_str(), "--message", commit.message.as_str()])
            .collect::<Vec<_>>();
            self.git(&date)?;
        }
        Ok(())
    }

    #[expect(clippy::disallowed_methods, reason = "the sample repository is made by the host's git")]
    fn git(&self, arguments: &[&str]) -> Result<(), String> {
        let mut git = Command::new("git");
        git.current_dir(self.path("workspace")).args(arguments);
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
            git.env_remove(name);
        }
        git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        git.env("GIT_COMMITTER_DATE", "2026-01-01T12:00:00Z");
        git.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let output = process::spawn(&mut git).and_then(std::process::Child::wait_with_output);
        let output = output.map_err(|error| format!("git cannot be started: {error}"))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(format!("git: {}", String::from_utf8_lossy(&output.stderr).trim())),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the harness makes its own throw-away directories")]
fn make_directory(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path)
}

#[expect(clippy::disallowed_methods, reason = "the harness writes into its own throw-away directory")]
fn write_file(path: &Path, text: &str) -> io::Result<()> {
    std::fs::write(path, text)
}

//! An isolated environment for every page: an empty directory, a home, and the program on the path.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::SystemTime;

use tempfile::TempDir;

/// Runs `work`, and runs it again if midnight passed in between: the audit log has one file per day.
pub(crate) fn within_a_day<Done>(work: impl Fn() -> Done) -> Done {
    let day = || SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() / (24 * 3600);
    let (begun, done) = (day(), work());
    if day() == begun { done } else { work() }
}

/// The directory that commands run in. Pages show its paths as `/home/alice/…`.
pub(crate) struct Scratch {
    _folder: TempDir,
    root: PathBuf,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("home/alice/demo")).unwrap();
        Self { _folder: folder, root }
    }

    /// The current directory of commands.
    pub(crate) fn demo(&self) -> PathBuf {
        self.root.join("home/alice/demo")
    }

    pub(crate) fn write(&self, path: &str, content: &str) {
        let path = self.demo().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// Runs a command in a session without a terminal, so that no question can be asked.
    pub(crate) fn run(&self, command: &str) -> Output {
        let program = Path::new(env!("CARGO_BIN_EXE_toolgate")).parent().unwrap().display();
        Command::new("setsid")
            .args(["--wait", "bash", "-c", command])
            .current_dir(self.demo())
            .env_clear()
            .env("PATH", format!("{program}:/usr/local/bin:/usr/bin:/bin"))
            .env("HOME", self.root.join("home/alice"))
            .env("USER", "alice")
            .env("LANG", "C.UTF-8")
            // An Ollama server that runs on this machine is not used.
            .env("OLLAMA_HOST", "127.0.0.1:9")
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap()
    }

    /// What a user sees: standard output, then standard error, then the exit code if it is not 0.
    pub(crate) fn shown(&self, command: &str) -> String {
        let output = self.run(command);
        let mut shown = self.without_root(&output.stdout);
        if !shown.is_empty() && !shown.ends_with('\n') {
            shown.push('\n');
        }
        shown.push_str(&self.without_root(&output.stderr));
        match output.status.code() {
            Some(0) => shown,
            Some(code) => shown + &format!("(exit code {code})\n"),
            None => shown + "(ended by a signal)\n",
        }
    }

    fn without_root(&self, bytes: &[u8]) -> String {
        String::from_utf8_lossy(bytes).replace(&*self.root.to_string_lossy(), "")
    }
}

//! A workspace and a state directory for the binary.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;
use toolgate_attack::Scratch;
use toolgate_audit::{Record, RecordFilter};
use toolgate_types::{Sha256, StateKey};

/// The timeout for every expected line.
const TEST_TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) struct CliFixture {
    pub(crate) scratch: Scratch,
    pub(crate) workspace: PathBuf,
    pub(crate) state: PathBuf,
    /// The user's home directory, separate from that of the user who runs the tests.
    pub(crate) home: PathBuf,
}

/// A running process of the binary, with its standard error.
pub(crate) struct ChildOutput {
    pub(crate) process: Child,
    lines: Receiver<String>,
}

impl ChildOutput {
    /// The next line of output.
    pub(crate) fn next(&self) -> String {
        self.lines.recv_timeout(TEST_TIMEOUT).expect("it says nothing more")
    }
}

impl Drop for ChildOutput {
    fn drop(&mut self) {
        // The process may already have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl CliFixture {
    pub(crate) fn new() -> Self {
        let scratch = Scratch::new();
        Self {
            workspace: scratch.folder("w"),
            state: scratch.folder("s"),
            home: scratch.path().join("home"),
            scratch,
        }
    }

    /// A fixture whose workspace is the user's home, with the default state directory.
    pub(crate) fn at_home() -> Self {
        let scratch = Scratch::new();
        let home = scratch.folder("w");
        Self { state: home.join(".local/state/toolgate"), workspace: home.clone(), home, scratch }
    }

    /// The parent of the default state directory.
    pub(crate) fn state_home(&self) -> PathBuf {
        self.home.join(".local/state")
    }

    /// The key of the user's state, once it exists.
    pub(crate) fn state_key(&self) -> Option<StateKey> {
        let word = std::fs::read_to_string(self.state_home().join("toolgate/keys/state.key")).ok()?;
        let bytes: Sha256 = word.trim().parse().unwrap();
        Some(StateKey::new(*bytes.as_bytes()))
    }

    /// The binary with the options of this fixture. It runs outside the workspace, where no configuration can be found.
    pub(crate) fn toolgate(&self) -> Command {
        self.beneath(Command::new(env!("CARGO_BIN_EXE_toolgate")))
    }

    /// Adds the options of this fixture to a command that ends in the binary.
    pub(crate) fn beneath(&self, command: Command) -> Command {
        let mut command = self.aloud(command);
        command.arg("--quiet");
        command
    }

    /// The same, without `--quiet`.
    pub(crate) fn aloud(&self, mut command: Command) -> Command {
        command.current_dir(self.scratch.path()).arg("--state-dir").arg(&self.state);
        command.arg("--workspace").arg(&self.workspace).env_remove("TOOLGATE_TOKEN");
        command.env("HOME", &self.home).env("XDG_STATE_HOME", self.state_home());
        self.configured(&mut command);
        command
    }

    /// Names the configuration beside the workspace, if there is one: a found one would need an agreement.
    pub(crate) fn configured(&self, command: &mut Command) {
        let config = self.scratch.path().join("toolgate.yaml");
        if config.exists() {
            command.arg("--config").arg(config);
        }
    }

    /// Starts the binary, and reads its standard error.
    pub(crate) fn overhear(&self, arguments: &[&str], variables: &[(&str, &str)]) -> ChildOutput {
        let mut command = self.aloud(Command::new(env!("CARGO_BIN_EXE_toolgate")));
        command.args(arguments).envs(variables.iter().copied());
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = pipes.spawn().unwrap();
        let errors = BufReader::new(process.stderr.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            errors.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        ChildOutput { process, lines }
    }

    /// Writes a file beside the workspace, in the current directory of commands.
    pub(crate) fn write(&self, path: &str, content: &str) {
        let path = self.scratch.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// The audit log as it is on disk.
    pub(crate) fn audit_text(&self) -> String {
        let files = std::fs::read_dir(self.state.join("audit")).unwrap().map(|entry| entry.unwrap().path());
        let files = files.filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"));
        files.map(|path| std::fs::read_to_string(path).unwrap()).collect()
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.toolgate().args(arguments).output().unwrap()
    }

    /// Runs a command that must exit with 0, and returns its standard output.
    pub(crate) fn must(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// One call with `--json`; returns the exit code and the envelope.
    pub(crate) fn call(&self, tool: &str, arguments: &Value) -> (i32, Value) {
        finish_call(self.toolgate(), tool, arguments)
    }

    /// Every audit record, oldest first.
    pub(crate) fn records(&self) -> Vec<Record> {
        let newest_first =
            toolgate_audit::query_records(&self.state.join("audit"), RecordFilter::default()).unwrap();
        let mut records: Vec<Record> = newest_first.map(Result::unwrap).collect();
        records.reverse();
        records
    }

    pub(crate) fn pending(&self) -> usize {
        std::fs::read_dir(self.state.join("journal.toolgate/pending")).unwrap().count()
    }
}

/// Makes one call, with the arguments on standard input, which takes any size.
pub(crate) fn finish_call(mut command: Command, tool: &str, arguments: &Value) -> (i32, Value) {
    let mut process = command
        .args(["call", tool, "-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    process.stdin.take().unwrap().write_all(arguments.to_string().as_bytes()).unwrap();
    let output = process.wait_with_output().unwrap();
    let code = output.status.code().unwrap_or_else(|| panic!("{tool}: {output:?}"));
    let envelope = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{tool}: {output:?}"));
    (code, envelope)
}

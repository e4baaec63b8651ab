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

/// Whatever is not said within this time is not said.
const TEST_TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) struct CliFixture {
    pub(crate) scratch: Scratch,
    pub(crate) workspace: PathBuf,
    pub(crate) state: PathBuf,
    /// Where the user is at home; elsewhere than the person who runs the tests.
    pub(crate) home: PathBuf,
}

/// A process of the binary that somebody listens to.
pub(crate) struct ChildOutput {
    pub(crate) process: Child,
    lines: Receiver<String>,
}

impl ChildOutput {
    /// The next line that it says.
    pub(crate) fn next(&self) -> String {
        self.lines.recv_timeout(TEST_TIMEOUT).expect("it says nothing more")
    }
}

impl Drop for ChildOutput {
    fn drop(&mut self) {
        // One that has ended is not there to be ended.
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

    /// A place whose workspace is the home of the user, with the state directory where it is by default.
    pub(crate) fn at_home() -> Self {
        let scratch = Scratch::new();
        let home = scratch.folder("w");
        Self { state: home.join(".local/state/toolgate"), workspace: home.clone(), home, scratch }
    }

    /// Where the default state directory is made.
    pub(crate) fn state_home(&self) -> PathBuf {
        self.home.join(".local/state")
    }

    /// The key of the user's state, once there is one.
    pub(crate) fn state_key(&self) -> Option<StateKey> {
        let word = std::fs::read_to_string(self.state_home().join("toolgate/keys/state.key")).ok()?;
        let bytes: Sha256 = word.trim().parse().unwrap();
        Some(StateKey::new(*bytes.as_bytes()))
    }

    /// The binary over this place. It stands outside the workspace, where no configuration can be found.
    pub(crate) fn toolgate(&self) -> Command {
        self.beneath(Command::new(env!("CARGO_BIN_EXE_toolgate")))
    }

    /// Gives a command that ends in the binary the options of this place.
    pub(crate) fn beneath(&self, command: Command) -> Command {
        let mut command = self.aloud(command);
        command.arg("--quiet");
        command
    }

    /// The same, and what is said to operators is heard.
    pub(crate) fn aloud(&self, mut command: Command) -> Command {
        command.current_dir(self.scratch.path()).arg("--state-dir").arg(&self.state);
        command.arg("--workspace").arg(&self.workspace).env_remove("TOOLGATE_TOKEN");
        command.env("HOME", &self.home).env("XDG_STATE_HOME", self.state_home());
        self.configured(&mut command);
        command
    }

    /// Names the configuration that lies beside the workspace, if one does: what is only found has to be agreed to.
    pub(crate) fn configured(&self, command: &mut Command) {
        let config = self.scratch.path().join("toolgate.yaml");
        if config.exists() {
            command.arg("--config").arg(config);
        }
    }

    /// Starts the binary, and listens to what it says to operators.
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

    /// Writes a file beside the workspace, where commands are typed.
    pub(crate) fn write(&self, path: &str, content: &str) {
        let path = self.scratch.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// The record as it lies on disk.
    pub(crate) fn audit_text(&self) -> String {
        let files = std::fs::read_dir(self.state.join("audit")).unwrap().map(|entry| entry.unwrap().path());
        let files = files.filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"));
        files.map(|path| std::fs::read_to_string(path).unwrap()).collect()
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.toolgate().args(arguments).output().unwrap()
    }

    /// Runs a command that must end with 0, and returns what it says.
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

/// Makes one call with a command, giving it the arguments on its standard input, which takes any size.
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

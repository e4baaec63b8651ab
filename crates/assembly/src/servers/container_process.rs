//! The container engine of the machine, and a container that it runs for one server.
#![expect(clippy::disallowed_methods, reason = "the person's own container engine runs as the person")]

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};
use toolgate_command::{ErrorLog, StderrTail};
use toolgate_connect::{LaunchedServer, RunningProcess};

use crate::ambient::{HostEnvironment, exists, real_path};

/// The engines, in the order of preference.
const ENGINES: [&str; 2] = ["docker", "podman"];

/// How long an engine may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// How long a container may take to end after a signal.
const GRACE: Duration = Duration::from_secs(5);

/// How often the end of a process is looked for.
const POLL: Duration = Duration::from_millis(10);

/// How much of an answer is read.
const MAX_ANSWER_BYTES: u64 = 1 << 20;

/// A container engine that answers.
#[derive(Clone, Debug)]
pub(super) struct ContainerEngine {
    program: PathBuf,
    /// Its name and version.
    pub(super) about: String,
}

/// What an engine said.
pub(super) struct EngineAnswer {
    pub(super) success: bool,
    pub(super) output: String,
    pub(super) said: String,
}

impl ContainerEngine {
    /// The first engine of the machine that answers, or why there is none.
    pub(super) fn find(environment: &HostEnvironment) -> Result<Self, String> {
        let mut silent = Vec::new();
        for name in ENGINES {
            let Some(program) = in_path(environment, name) else { continue };
            let engine = Self { program, about: String::new() };
            // The server's version: a client without an engine fails.
            let asked = [
                "version",
                "--format",
                if name == "docker" { "{{.Server.Version}}" } else { "{{.Version}}" },
            ];
            match engine.ask(environment, &asked, ANSWER_TIMEOUT) {
                Ok(answer) if answer.success => {
                    return Ok(Self { about: format!("{name} {}", answer.output.trim()), ..engine });
                }
                Ok(answer) => {
                    silent.push(format!("`{name}` is here, and does not answer: {}", last_line(&answer.said)))
                }
                Err(error) => silent.push(format!("`{name}` is here, and does not run: {error}")),
            }
        }
        match silent.is_empty() {
            true => Err(
                "there is no container engine on this machine: neither `docker` nor `podman` is in `PATH`"
                    .to_owned(),
            ),
            false => Err(format!("there is no container engine: {}", silent.join("; "))),
        }
    }

    /// Runs a command of the engine to its end.
    pub(super) fn ask(
        &self,
        environment: &HostEnvironment,
        words: &[&str],
        timeout: Duration,
    ) -> io::Result<EngineAnswer> {
        let mut command = self.command(environment);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (output, said) = (child.stdout.take().map(read_all), child.stderr.take().map(read_all));
        let status = wait_until(&mut child, timeout);
        if status.is_none() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let text = |reader: Option<std::thread::JoinHandle<String>>| {
            reader.and_then(|reader| reader.join().ok()).unwrap_or_default()
        };
        let (output, mut said) = (text(output), text(said));
        if status.is_none() {
            said.push_str("it took too long");
        }
        Ok(EngineAnswer { success: status.is_some_and(|status| status.success()), output, said })
    }

    fn command(&self, environment: &HostEnvironment) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().envs(&environment.variables).current_dir("/");
        command
    }
}

/// The last line with words in it.
pub(super) fn last_line(text: &str) -> &str {
    text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("it said nothing")
}

fn in_path(environment: &HostEnvironment, name: &str) -> Option<PathBuf> {
    let path = environment.var("PATH")?;
    let places =
        std::env::split_paths(&path).filter(|place| place.is_absolute()).map(|place| place.join(name));
    let is_program = |place: &PathBuf| exists(place) && real_path(place).is_file();
    places.into_iter().find(is_program)
}

fn read_all(from: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let mut from = from;
        let _ = (&mut from).take(MAX_ANSWER_BYTES).read_to_end(&mut bytes);
        let _ = io::copy(&mut from, &mut io::sink());
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn wait_until(child: &mut Child, timeout: Duration) -> Option<ExitStatus> {
    let deadline = Instant::now().checked_add(timeout)?;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(POLL),
            _ => return None,
        }
    }
}

/// Digits that no other container has in its name.
pub(super) fn random_digits() -> String {
    let mut bytes = [0_u8; 6];
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A container to start.
pub(super) struct ContainerStart {
    pub(super) engine: ContainerEngine,
    pub(super) name: String,
    /// All arguments of the engine.
    pub(super) arguments: Vec<OsString>,
    /// Variables of the engine's program, which it passes on by name.
    pub(super) environment: Vec<(String, String)>,
    pub(super) log: Option<ErrorLog>,
}

impl ContainerStart {
    /// Starts it.
    pub(super) fn run(self, environment: &HostEnvironment) -> io::Result<LaunchedServer> {
        let mut command = self.engine.command(environment);
        command.args(&self.arguments).envs(self.environment);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let missing = || io::Error::other("it has no standard streams");
        let input: OwnedFd = child.stdin.take().ok_or_else(missing)?.into();
        let output: OwnedFd = child.stdout.take().ok_or_else(missing)?.into();
        for end in [&input, &output] {
            rustix::fs::fcntl_setfl(end.as_fd(), OFlags::NONBLOCK)?;
        }
        let tail = Arc::<StderrTail>::default();
        if let Some(errors) = child.stderr.take() {
            let (tail, log) = (Arc::clone(&tail), self.log);
            std::thread::spawn(move || drain(errors, &tail, log.as_ref()));
        }
        let process = Arc::new(RunningContainer {
            engine: self.engine,
            environment: environment.clone(),
            name: self.name,
            child: Mutex::new(child),
            tail,
        });
        Ok(LaunchedServer { input, output, process })
    }
}

fn drain(mut errors: impl Read, tail: &StderrTail, log: Option<&ErrorLog>) {
    let mut buffer = [0_u8; 4096];
    while let Ok(length @ 1..) = errors.read(&mut buffer) {
        let bytes = buffer.get(..length).unwrap_or_default();
        tail.push(bytes);
        if let Some(ErrorLog(append)) = log {
            append(bytes);
        }
    }
}

/// A running container. The engine's program ends with it, and passes signals on to it.
struct RunningContainer {
    engine: ContainerEngine,
    environment: HostEnvironment,
    name: String,
    child: Mutex<Child>,
    tail: Arc<StderrTail>,
}

impl RunningContainer {
    fn child(&self) -> std::sync::MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunningProcess for RunningContainer {
    fn terminate(&self) {
        let mut child = self.child();
        if matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
            return;
        }
        let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        if let Some(id) = id {
            let _ = kill_process(id, Signal::TERM);
        }
        if wait_until(&mut child, GRACE).is_none() {
            let _ = self.engine.ask(&self.environment, &["kill", &self.name], ANSWER_TIMEOUT);
            let _ = wait_until(&mut child, GRACE);
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn exit_status(&self) -> Option<String> {
        let status = self.child().try_wait().ok().flatten()?;
        Some(match status.code() {
            // What `docker run` and `podman run` answer for failures of their own.
            Some(125) => "the container engine could not start it".to_owned(),
            Some(code) => format!("exited with code {code}"),
            None => status.to_string(),
        })
    }

    fn stderr_tail(&self) -> String {
        self.tail.text()
    }
}

impl Drop for RunningContainer {
    fn drop(&mut self) {
        self.terminate();
    }
}

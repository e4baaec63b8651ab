//! The binary under test, and what it leaves behind.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group, set_child_subreaper};

/// How often a running process is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Variables that reach a real model, and nothing else of the surroundings.
const MODEL_VARIABLES: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENROUTER_API_KEY",
    "OPENROUTER_BASE_URL",
    "OLLAMA_HOST",
    "SSL_CERT_FILE",
];

/// A process that has ended.
pub(crate) struct FinishedProcess {
    pub(crate) status: Option<ExitStatus>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A command of the binary, in an environment of its own and a process group of its own.
#[expect(clippy::disallowed_methods, reason = "the harness starts the binary that it judges")]
pub(crate) fn command(binary: &Path, home: &Path, state: &Path, with_model: bool) -> Command {
    let mut command = Command::new(binary);
    command
        .env_clear()
        .env("HOME", home)
        .env("XDG_STATE_HOME", state)
        .env("NO_COLOR", "1")
        .env("LANG", "C.UTF-8");
    let passed = MODEL_VARIABLES.iter().filter(|_| with_model).chain(&["PATH"]);
    for name in passed {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    command
}

/// Runs a command to its end. One that takes longer is killed with its whole group, and has no status.
pub(crate) fn finish(mut command: Command, timeout: Duration) -> io::Result<FinishedProcess> {
    let mut child = command.spawn()?;
    let (stdout, stderr) = (drain(child.stdout.take()), drain(child.stderr.take()));
    let status = wait(&mut child, timeout)?;
    let text = |reader: Option<std::thread::JoinHandle<Vec<u8>>>| {
        let bytes = reader.and_then(|reader| reader.join().ok()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    Ok(FinishedProcess { status, stdout: text(stdout), stderr: text(stderr) })
}

fn drain<R: io::Read + Send + 'static>(pipe: Option<R>) -> Option<std::thread::JoinHandle<Vec<u8>>> {
    let mut pipe = pipe?;
    Some(std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        bytes
    }))
}

/// Waits for a process to end, and kills it after the timeout.
pub(crate) fn wait(child: &mut Child, timeout: Duration) -> io::Result<Option<ExitStatus>> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if begun.elapsed() >= timeout {
            kill(child);
            return Ok(None);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Kills a process with its group, and reaps it.
pub(crate) fn kill(child: &mut Child) {
    signal(child, Signal::KILL);
    let _ = child.wait();
}

/// Asks a process to end, and kills it after the timeout.
pub(crate) fn terminate(child: &mut Child, timeout: Duration) -> io::Result<Option<ExitStatus>> {
    signal(child, Signal::TERM);
    wait(child, timeout)
}

fn signal(child: &Child, signal: Signal) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, signal);
    }
}

/// Orphans of what this process starts become its children (`PR_SET_CHILD_SUBREAPER`), where [`orphans`] finds them.
pub(crate) fn adopt_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// Processes that were adopted and still run, by name. Asked when everything that this process started itself has ended.
#[expect(clippy::disallowed_methods, reason = "the kernel lists processes in /proc")]
pub(crate) fn orphans() -> Vec<String> {
    let own = std::process::id().to_string();
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let mut found = Vec::new();
    for entry in processes.flatten() {
        if entry.file_name().to_str().is_none_or(|name| name.parse::<u32>().is_err()) {
            continue;
        }
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        // `pid (name) state ppid …`, where the name may hold anything.
        let Some((name, rest)) = stat.rsplit_once(") ") else { continue };
        let mut fields = rest.split(' ');
        let (state, parent) = (fields.next(), fields.next());
        if parent == Some(own.as_str()) && state != Some("Z") {
            found.push(name.split_once(" (").map_or(name, |(_, name)| name).to_owned());
        }
    }
    found
}

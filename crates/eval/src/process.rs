//! The binary under test, and what it leaves behind.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group, set_child_subreaper};

/// How often a running process is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// How long a process may take to be gone after its gate: one that is killed still has to be scheduled.
const ORPHAN_TIMEOUT: Duration = Duration::from_secs(20);

/// Every process that was started here, so that it is no orphan, whatever else is played in the meantime.
static STARTED: Mutex<BTreeSet<ProcessIdentity>> = Mutex::new(BTreeSet::new());

/// Id and start time: ids are used again.
type ProcessIdentity = (u32, u64);

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

/// A line for the host's own shell, with nothing between them.
#[expect(clippy::disallowed_methods, reason = "the harness shows what happens without a gate")]
pub(crate) fn host_shell(line: &str, directory: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(directory).env_clear().env("GIT_CONFIG_NOSYSTEM", "1");
    command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    command
}

/// Starts a process. Nothing here is started otherwise: what became a child of this process without it is an orphan.
pub(crate) fn spawn(command: &mut Command) -> io::Result<Child> {
    // Locked until it is known: in between it would look like an orphan.
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    let child = command.spawn()?;
    started.extend(stat(child.id()).map(|stat| (child.id(), stat.start)));
    Ok(child)
}

/// Runs a command to its end. One that takes longer is killed with its whole group, and has no status.
pub(crate) fn finish(mut command: Command, timeout: Duration) -> io::Result<FinishedProcess> {
    let mut child = spawn(&mut command)?;
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

/// Processes that were adopted and do not end, by name.
pub(crate) fn orphans() -> Vec<String> {
    let begun = Instant::now();
    let mut left = adopted();
    while !left.is_empty() && begun.elapsed() < ORPHAN_TIMEOUT {
        std::thread::sleep(POLL_INTERVAL);
        // Only those that were there before: what is played in the meantime has some of its own.
        let now = adopted();
        left.retain(|process| now.contains(process));
    }
    left.into_iter().map(|(_, name)| name).collect()
}

/// Children that run and were not started here.
#[expect(clippy::disallowed_methods, reason = "the kernel lists processes in /proc")]
fn adopted() -> Vec<(ProcessIdentity, String)> {
    let started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let ids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.filter_map(|id| Some((id, stat(id)?)))
        .filter(|(id, stat)| stat.parent == std::process::id() && !started.contains(&(*id, stat.start)))
        .map(|(id, stat)| ((id, stat.start), stat.name))
        .collect()
}

/// What the kernel says of a process that is no zombie.
struct ProcessStat {
    name: String,
    parent: u32,
    start: u64,
}

#[expect(clippy::disallowed_methods, reason = "the kernel lists processes in /proc")]
fn stat(id: u32) -> Option<ProcessStat> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // `pid (name) state ppid …`, where the name may hold anything. The start time is the 22nd field.
    let (name, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    (fields.first() != Some(&"Z")).then_some(())?;
    Some(ProcessStat {
        name: name.split_once(" (").map_or(name, |(_, name)| name).to_owned(),
        parent: fields.get(1)?.parse().ok()?,
        start: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the processes of a test")]
mod tests {
    use super::*;

    #[test]
    fn what_was_started_here_is_no_orphan_and_what_it_leaves_is() {
        adopt_orphans().unwrap();
        let mut command = Command::new("sleep");
        let mut own = spawn(command.arg("60")).unwrap();
        let mut leaving = Command::new("sh");
        leaving.args(["-c", "sleep 61 >/dev/null & echo $!"]).stdout(Stdio::piped());
        let left = spawn(&mut leaving).unwrap().wait_with_output().unwrap();
        let left: u32 = String::from_utf8(left.stdout).unwrap().trim().parse().unwrap();
        let found = adopted();
        assert!(found.iter().any(|((id, _), name)| *id == left && name == "sleep"), "{found:?}");
        assert!(!found.iter().any(|((id, _), _)| *id == own.id()), "{found:?}");
        let pid = Pid::from_raw(i32::try_from(left).unwrap()).unwrap();
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
        own.kill().unwrap();
        own.wait().unwrap();
        // One that ends is waited for.
        assert!(!orphans().contains(&"sleep".to_owned()));
    }
}

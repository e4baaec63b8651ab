//! A gate worth attacking: it holds secrets where gates have them, runs one command in the sandbox, and reports how it ended.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use toolgate_attack::{Bounds, Covered, HELD, Order, Report};
use toolgate_sandbox::{
    BindMount, CapturedStdio, CommandStdio, Exit, Job, Layer, Layers, Network, OnOutputLimit, PipedStdio,
    ResourceLimits, Sandbox, SandboxError, SandboxOptions, Stream,
};
use toolgate_types::{Deadline, MountOverlay};

use crate::escape::raw;

/// Reads an order from standard input, and writes the report to standard output.
pub(crate) fn run() {
    let mut order = String::new();
    std::io::stdin().read_to_string(&mut order).unwrap();
    let order: Order = serde_json::from_str(&order).unwrap();
    let traps = Traps::lay(&order);
    let report = attempt(&order, &traps);
    drop(traps);
    println!("{}", serde_json::to_string(&report).unwrap());
}

/// Runs this many commands sequentially, then the same number concurrently, and prints this process's resources before and after each.
pub(crate) fn endure(count: usize) {
    let sandbox = Sandbox::prepare(SandboxOptions::default()).unwrap();
    let order = Order {
        program: "/bin/sh".to_owned(),
        arguments: vec!["-c".to_owned(), "sleep 300 & echo fine".to_owned()],
        directory: "/".into(),
        ..Order::default()
    };
    let nothing =
        Traps { variables: Vec::new(), queue: None, _in_memory: Box::default(), _files: Vec::new() };
    let run_and = |heard: &dyn Fn()| {
        assert_eq!(confined(&sandbox, &order, &nothing, heard).unwrap().output, "fine\n");
    };
    let run = || run_and(&|| ());
    run();
    println!("{}", belongings());
    for _ in 0..count {
        run();
    }
    println!("{}", belongings());
    // Some namespace sets stay in the pool, but no more than its limit.
    for _ in 0..2 {
        for _ in 0..count.div_ceil(100) {
            run_at_once(100, &run_and);
        }
        println!("{}", belongings());
    }
}

/// Runs this many commands, none of which ends before all have started.
fn run_at_once(count: usize, run_and: &(dyn Fn(&dyn Fn()) + Sync)) {
    let missing = Missing { count: Mutex::new(count), none: Condvar::new() };
    let run = || {
        // A failed one does not block the others.
        let _waits_no_more = WaitsNoMore(&missing);
        run_and(&|| missing.begins());
    };
    std::thread::scope(|scope| (0..count).for_each(|_| drop(scope.spawn(run))));
}

/// How many commands have not started yet.
struct Missing {
    count: Mutex<usize>,
    none: Condvar,
}

impl Missing {
    /// Registers a start, and waits for all others.
    fn begins(&self) {
        let mut count = self.count.lock().unwrap();
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.none.notify_all();
        }
        drop(self.none.wait_while(count, |count| *count > 0).unwrap());
    }
}

struct WaitsNoMore<'m>(&'m Missing);

impl Drop for WaitsNoMore<'_> {
    fn drop(&mut self) {
        *self.0.count.lock().unwrap() = 0;
        self.0.none.notify_all();
    }
}

/// The resources that would leak: descriptors, mounts, children.
fn belongings() -> String {
    let files = std::fs::read_dir("/proc/self/fd").unwrap().count();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap().lines().count();
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let children = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let children: usize = children.map(|list| list.split_whitespace().count()).sum();
    format!("{files} {mounts} {children}")
}

/// The secrets that a command could be after.
struct Traps {
    variables: Vec<(String, String)>,
    queue: Option<String>,
    _in_memory: Box<[u8]>,
    _files: Vec<OwnedFd>,
}

impl Traps {
    fn lay(order: &Order) -> Self {
        let mut files = Vec::new();
        let secret: Box<[u8]> = order.secret.as_bytes().into();
        let mut variables = vec![
            ("GATE".to_owned(), std::process::id().to_string()),
            ("ADDRESS".to_owned(), (secret.as_ptr() as usize).to_string()),
            ("LENGTH".to_owned(), secret.len().to_string()),
            ("SHARED".to_owned(), raw::share(order.secret.as_bytes()).to_string()),
            ("KEY".to_owned(), keep_key(&order.secret).to_string()),
        ];
        if let Some((file, folder)) = &order.held {
            files.extend([left_open(file, HELD[0]), left_open(folder, HELD[1])]);
        }
        if let Some(terminal) = &order.terminal {
            rustix::process::setsid().unwrap();
            // The first terminal that a session leader opens becomes its controlling terminal.
            let file = std::fs::OpenOptions::new().read(true).write(true).open(terminal).unwrap();
            files.extend([rustix::io::fcntl_dupfd_cloexec(&file, 70).unwrap(), duplicate(&file, HELD[2])]);
        }
        if let Some(name) = &order.queue {
            raw::fill_queue(name, order.secret.as_bytes());
            variables.push(("QUEUE".to_owned(), name.clone()));
        }
        Self { variables, queue: order.queue.clone(), _in_memory: secret, _files: files }
    }
}

impl Drop for Traps {
    fn drop(&mut self) {
        if let Some(queue) = &self.queue {
            raw::remove_queue(queue);
        }
    }
}

/// Opened without `O_CLOEXEC`, so that children inherit it.
fn left_open(path: &std::path::Path, number: i32) -> OwnedFd {
    duplicate(&File::open(path).unwrap(), number)
}

fn duplicate(file: &File, number: i32) -> OwnedFd {
    let copy = rustix::io::fcntl_dupfd_cloexec(file, number).unwrap();
    assert_eq!(copy.as_raw_fd(), number);
    rustix::io::fcntl_setfd(&copy, rustix::io::FdFlags::empty()).unwrap();
    copy
}

/// A secret in a session keyring of its own. A gate that is itself confined has none.
fn keep_key(secret: &str) -> i64 {
    const JOIN_SESSION: usize = 1;
    const OF_THE_SESSION: i32 = -3;
    let (kind, name) = (c"user".as_ptr() as usize, c"toolgate-attack".as_ptr() as usize);
    let arguments = [kind, name, secret.as_ptr() as usize, secret.len(), OF_THE_SESSION as usize, 0];
    let joined = raw::call(libc::SYS_keyctl, [JOIN_SESSION, 0, 0, 0, 0, 0]);
    joined.and_then(|_| raw::call(libc::SYS_add_key, arguments)).unwrap_or(0)
}

fn attempt(order: &Order, traps: &Traps) -> Report {
    let options = SandboxOptions {
        require: order.require.as_ref().map_or(Layers::required_by_default(), |words| layers(words)),
        without: layers(&order.without),
        read: order.read.clone(),
        ..SandboxOptions::default()
    };
    match Sandbox::prepare(options).and_then(|sandbox| confined(&sandbox, order, traps, &|| ())) {
        Ok(report) => report,
        Err(error) => Report { refused: Some(error.to_string()), ..Report::default() },
    }
}

fn layers(words: &[String]) -> Layers {
    let layer = |word: &String| {
        let found = Layer::ALL.iter().copied().find(|layer| layer.as_str() == word);
        found.unwrap_or_else(|| panic!("there is no layer {word}"))
    };
    words.iter().map(layer).collect()
}

/// Runs the command; `heard_it` is called on every output.
fn confined(
    sandbox: &Sandbox,
    order: &Order,
    traps: &Traps,
    heard_it: &dyn Fn(),
) -> Result<Report, SandboxError> {
    let folders: Vec<File> = order.mounts.iter().map(|place| File::open(&place.host).unwrap()).collect();
    let mounts = order.mounts.iter().zip(&folders).map(|(place, folder)| BindMount {
        directory: folder.as_fd(),
        at: place.at.clone(),
        writable: place.writable,
        overlays: place.covers.iter().map(cover).collect(),
    });
    let passed = order.passed.iter().filter_map(|name| Some((name.clone(), std::env::var(name).ok()?)));
    let (until, _leash) = std::io::pipe().unwrap();
    let talking = Mutex::new(None);
    let handed =
        PipedStdio { on_start: &|ends| *talking.lock().unwrap() = Some(ends), stop_fd: until.as_fd() };
    let pumped = CapturedStdio {
        input: None,
        max_output: order.max_output.unwrap_or(1 << 20),
        on_output_limit: OnOutputLimit::Stop,
    };
    let job = Job {
        program: order.program.clone().into(),
        arguments: order.arguments.iter().map(Into::into).collect(),
        directory: order.directory.clone(),
        environment: order.environment.iter().chain(&traps.variables).cloned().chain(passed).collect(),
        stdio: if order.handed { CommandStdio::Piped(handed) } else { CommandStdio::Captured(pumped) },
        mounts: mounts.collect(),
        read: Vec::new(),
        home_links: Vec::new(),
        network: Network::None,
        limits: limits(&order.limits),
        disk_is_short: None,
    };
    let deadline =
        order.timeout_ms.map(|time| Deadline::after(Duration::from_millis(time))).unwrap_or_default();
    let mut heard = [Vec::new(), Vec::new()];
    let ended = sandbox.run(&job, &deadline, &mut |stream, bytes| {
        heard[usize::from(stream == Stream::Error)].extend_from_slice(bytes);
        heard_it();
    })?;
    let [output, error] = heard.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let (code, signal) = match ended.exit {
        Exit::Code(code) => (Some(code), None),
        Exit::Signal(signal) => (None, Some(signal)),
    };
    let stopped = ended.stopped.map(|why| format!("{why:?}"));
    let limit = ended.limit.map(|limit| format!("{limit:?}"));
    Ok(Report { refused: None, code, signal, stopped, limit, output, error })
}

fn cover(covered: &Covered) -> MountOverlay {
    match covered.clone() {
        Covered::HideFile(path) => MountOverlay::Mask { path, directory: false },
        Covered::HideFolder(path) => MountOverlay::Mask { path, directory: true },
        Covered::Freeze(path) => MountOverlay::ReadOnly { path },
        Covered::Pin(path) => MountOverlay::PinDirectory { path },
        Covered::Replace(path, content) => MountOverlay::Substitute { path, content: content.into_bytes() },
    }
}

fn limits(bounds: &Bounds) -> ResourceLimits {
    let usual = ResourceLimits::default();
    ResourceLimits {
        memory: bounds.memory.unwrap_or(usual.memory),
        processes: bounds.processes.unwrap_or(usual.processes),
        file_size: bounds.file_size.unwrap_or(usual.file_size),
        open_files: bounds.open_files.unwrap_or(usual.open_files),
        cpu_seconds: bounds.cpu_seconds.unwrap_or(usual.cpu_seconds),
        temporary: bounds.temporary.unwrap_or(usual.temporary),
    }
}

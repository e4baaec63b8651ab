//! A machine to be attacked from inside the sandbox: a workspace, something outside that is worth stealing, servers, a terminal and a neighbour
//! process.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, Weak};

use rustix::process::Pid;
use tempfile::TempDir;
use toolgate_attack::{Covered, Order, Place, Report, Tree};

use crate::fixture::copy_program;
use crate::sandbox_shown::Shown;

/// What must never leak: each is in another place, so that a leak shows where.
pub(crate) const SECRETS: [(&str, &str); 6] = [
    ("outside", "outside-secret-4711"),
    ("denied", "denied-secret-0815"),
    ("environment", "environment-secret-1234"),
    ("gate", "gate-secret-2718"),
    ("held", "held-secret-3141"),
    ("neighbour", "neighbour-secret-1618"),
];

pub(crate) fn secret(place: &str) -> &'static str {
    SECRETS.iter().find(|(name, _)| *name == place).unwrap().1
}

/// The user of the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Who {
    Root,
    User,
}

impl Who {
    /// The uid of `nobody`, and the gid of its group.
    const NOBODY: u32 = 65_534;

    fn id(self) -> u32 {
        match self {
            Self::Root => 0,
            Self::User => Self::NOBODY,
        }
    }

    /// Whether this process can start such a gate: only root can be another user.
    pub(crate) fn is_possible(self) -> bool {
        let own = rustix::process::geteuid().as_raw();
        own == 0 || own == self.id()
    }

    /// A program that runs as that user, with no group but the user's own.
    pub(crate) fn command(self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        if rustix::process::geteuid().as_raw() != self.id() {
            command.uid(self.id()).gid(self.id());
        }
        command
    }

    /// Changes the owner of everything below a directory, except for what only root can plant.
    fn own(self, folder: &Path) {
        if rustix::process::geteuid().as_raw() == self.id() {
            return;
        }
        let mut pending = vec![folder.to_path_buf()];
        while let Some(path) = pending.pop() {
            let found = std::fs::symlink_metadata(&path).unwrap();
            if found.is_dir() {
                pending.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
            std::os::unix::fs::lchown(&path, Some(self.id()), Some(self.id())).unwrap();
        }
    }
}

/// A directory with the attacker in it, readable by all users.
pub(crate) struct Tools(TempDir);

impl Tools {
    pub(crate) fn folder(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn attacker(&self) -> PathBuf {
        self.0.path().join("attacker")
    }
}

/// The tools, created once for all concurrent users, and removed with the last of them.
pub(crate) fn tools() -> Arc<Tools> {
    static TOOLS: Mutex<Weak<Tools>> = Mutex::new(Weak::new());
    let mut kept = TOOLS.lock().unwrap();
    kept.upgrade().unwrap_or_else(|| {
        let made = Arc::new(Tools(folder()));
        let program = Path::new(env!("CARGO_BIN_EXE_toolgate-attacker"));
        if std::fs::hard_link(program, made.attacker()).is_err() {
            copy_program(program, &made.attacker());
        }
        *kept = Arc::downgrade(&made);
        made
    })
}

/// On a disk and not on `/dev/shm`, because device nodes and set-user-ID files must work there, unless mount options forbid them.
fn folder() -> TempDir {
    let folder = tempfile::Builder::new().prefix("toolgate-attack-").tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

/// The machine of one attack.
pub(crate) struct Host {
    pub(crate) who: Who,
    tools: Arc<Tools>,
    folder: TempDir,
    servers: Servers,
    shown: Shown,
    neighbour: Child,
    /// The master side of the gate's terminal.
    terminal: Option<(std::fs::File, PathBuf)>,
    /// The mark in the environment of this machine's commands.
    mark: String,
    before: Vec<(PathBuf, Tree)>,
}

impl Host {
    pub(crate) fn new(who: Who, with_terminal: bool) -> Self {
        // Orphans are reparented to this process, where they are found.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
        let folder = folder();
        let root = folder.path();
        for name in ["w/deep", "w/.ssh", "w/.git/hooks", "outside/run", "docs"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        for (name, content) in [
            ("w/plain.txt", "plain\n"),
            ("w/.env", secret("denied")),
            ("w/deep/.env", secret("denied")),
            ("w/.ssh/id_ed25519", secret("denied")),
            ("w/.git/HEAD", "ref: refs/heads/main\n"),
            ("w/.git/config", secret("denied")),
            ("w/.git/hooks/pre-commit.sample", "#!/bin/sh\n"),
            ("w/git", "#!/bin/sh\necho ESCAPED\n"),
            ("outside/secret.txt", secret("outside")),
            ("outside/held.txt", secret("held")),
            ("docs/guide.md", "guide\n"),
        ] {
            std::fs::write(root.join(name), content).unwrap();
        }
        std::fs::set_permissions(root.join("w/git"), std::fs::Permissions::from_mode(0o755)).unwrap();
        symlink(root.join("outside/secret.txt"), root.join("w/link")).unwrap();
        let servers = Servers::start(root);
        who.own(root);
        plant_as_root(root);
        let mark = format!("toolgate-attack-{}", root.file_name().unwrap().to_str().unwrap());
        let before = Self::watched(root).into_iter().map(|place| (place.clone(), Tree::of(&place))).collect();
        let terminal = with_terminal.then(|| terminal(who));
        let shown = Shown::new(secret("outside"));
        who.own(shown.path());
        let neighbour = neighbour(who);
        Self { who, tools: tools(), servers, shown, neighbour, terminal, mark, before, folder }
    }

    /// What an attack must not change.
    fn watched(root: &Path) -> Vec<PathBuf> {
        let names = [
            "outside",
            "docs",
            "w/.env",
            "w/deep/.env",
            "w/.ssh",
            "w/.git/config",
            "w/.git/hooks",
            "w/.git/HEAD",
        ];
        names.map(|name| root.join(name)).to_vec()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The default order: the workspace, a directory to read, and the attacker.
    pub(crate) fn order(&self, line: &str) -> Order {
        let covers = vec![
            Covered::Pin(".git".into()),
            Covered::Pin("deep".into()),
            Covered::HideFile(".env".into()),
            Covered::HideFile("deep/.env".into()),
            Covered::HideFolder(".ssh".into()),
            Covered::HideFile("service.sock".into()),
            Covered::Freeze(".git/hooks".into()),
            Covered::Replace(".git/config".into(), "[core]\n".into()),
        ];
        let place = |host: &Path, at: &str, writable: bool, covers: Vec<Covered>| Place {
            host: host.to_path_buf(),
            at: at.into(),
            writable,
            covers,
        };
        Order {
            program: "/bin/sh".to_owned(),
            arguments: vec!["-c".to_owned(), line.to_owned()],
            directory: "/mnt/project".into(),
            mounts: vec![
                place(&self.path("w"), "/mnt/project", true, covers),
                place(&self.path("docs"), "/mnt/docs", false, Vec::new()),
                place(self.tools.folder(), "/mnt/tools", false, Vec::new()),
            ],
            read: vec![self.shown.path().to_path_buf()],
            timeout_ms: Some(20_000),
            held: Some((self.path("outside/held.txt"), self.path("outside"))),
            queue: line.contains("$QUEUE").then(|| format!("/{}", self.mark)),
            terminal: self.terminal.as_ref().map(|(_, name)| name.clone()),
            secret: secret("gate").to_owned(),
            ..Order::default()
        }
    }

    /// What a command must know to attack: it could guess or find these, so they are not secrets.
    fn variables(&self, line: &str, has_view: bool) -> Vec<(String, String)> {
        let inside = |view: &str, host: &Path| {
            if has_view { view.to_owned() } else { host.display().to_string() }
        };
        let pairs = [
            ("OUTSIDE", self.path("outside").display().to_string()),
            ("SHOWN", self.shown.path().display().to_string()),
            ("DOCS", inside("/mnt/docs", &self.path("docs"))),
            ("ATTACKER", format!("{} escape", inside("/mnt/tools/attacker", &self.tools.attacker()))),
            ("SET_ID", format!("{} escape", inside("/mnt/project", &self.path("w")) + "/set-id")),
            ("TCP", self.servers.tcp.local_addr().unwrap().port().to_string()),
            ("UDP", self.servers.udp.local_addr().unwrap().port().to_string()),
            ("ABSTRACT", self.servers.abstract_name.clone()),
            ("NEIGHBOUR", self.neighbour.id().to_string()),
            ("HOST_NAME", rustix::system::uname().nodename().to_str().unwrap().to_owned()),
            ("HANDLE", if line.contains("$HANDLE") { handle(&self.path("w/.env")) } else { String::new() }),
        ];
        pairs.map(|(name, value)| (name.to_owned(), value)).into_iter().chain([self.mark()]).collect()
    }

    /// The variable by which commands of this machine are found.
    pub(crate) fn mark(&self) -> (String, String) {
        ("ATTACK".to_owned(), self.mark.clone())
    }

    /// Lets a separate gate execute an order.
    pub(crate) fn carry_out(&self, mut order: Order) -> Report {
        let has_view = !order.without.iter().any(|layer| layer == "mount_namespace");
        let said = std::mem::take(&mut order.environment);
        order.environment =
            self.variables(&order.arguments.join(" "), has_view).into_iter().chain(said).collect();
        let mut gate = self
            .who
            .command(self.tools.attacker())
            .arg("gate")
            .env("GATE_SECRET", secret("environment"))
            .env("LD_LIBRARY_PATH", "/nonexistent")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        gate.stdin.take().unwrap().write_all(serde_json::to_string(&order).unwrap().as_bytes()).unwrap();
        let gate = gate.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&gate.stdout);
        serde_json::from_str(&told).unwrap_or_else(|error| {
            panic!("the gate fell: {} {error} {told} {}", gate.status, String::from_utf8_lossy(&gate.stderr))
        })
    }

    /// The differences in the watched paths.
    pub(crate) fn changed(&self) -> Vec<String> {
        let differences = |(place, before): &(PathBuf, Tree)| match place.symlink_metadata() {
            Ok(_) => before.differences(&Tree::of(place)),
            Err(_) => vec!["is gone".to_owned()],
        };
        let shown = |place: &Path, what: String| {
            let place = place.strip_prefix(self.folder.path()).unwrap();
            format!("{}: {what}", place.display())
        };
        self.before
            .iter()
            .flat_map(|watched| {
                differences(watched).into_iter().map(|what| shown(&watched.0, what)).collect::<Vec<_>>()
            })
            .collect()
    }

    /// Which servers were reached.
    pub(crate) fn reached(&self) -> Vec<&'static str> {
        let shown = [("shown", self.shown.was_connected()), ("fifo", self.shown.was_written())];
        let shown = shown.into_iter().filter_map(|(name, reached)| reached.then_some(name));
        self.servers.reached().into_iter().chain(shown).collect()
    }

    /// Whether something was written to, or injected into, the terminal.
    pub(crate) fn typed(&self) -> bool {
        let Some((mut terminal, _)) = self.terminal.as_ref().map(|(file, name)| (file, name)) else {
            return false;
        };
        let mut seen = [0_u8; 256];
        let length = terminal.read(&mut seen).unwrap_or(0);
        String::from_utf8_lossy(&seen[..length]).contains("ESCAPED")
    }

    /// Whether the neighbour process has ended.
    pub(crate) fn neighbour_is_dead(&mut self) -> bool {
        self.neighbour.try_wait().unwrap().is_some()
    }

    /// Set-user-ID files and devices that an attack left in the workspace.
    pub(crate) fn planted(&self) -> Vec<String> {
        let mut planted = Vec::new();
        for entry in std::fs::read_dir(self.path("w")).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let Ok(found) = entry.path().symlink_metadata() else { continue };
            let is_ours = PLANTED.contains(&name.as_str());
            let is_device = found.mode() & 0o170_000 == 0o020_000 || found.mode() & 0o170_000 == 0o060_000;
            if !is_ours && found.is_file() && found.mode() & 0o6000 != 0 {
                planted.push(format!("{name} has mode {:o}", found.mode()));
            }
            if !is_ours && is_device {
                planted.push(format!("{name} is a device"));
            }
            if name.starts_with("core") {
                planted.push(format!("{name} is an image of memory"));
            }
        }
        planted
    }

    /// Processes that this machine's commands left running. Only this process's own descendants are searched.
    pub(crate) fn left_running(&self) -> Vec<Pid> {
        let mark = format!("ATTACK={}", self.mark);
        let is_marked = |process: &i32| {
            let environment = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|pair| pair == mark.as_bytes())
        };
        let own = i32::try_from(std::process::id()).unwrap();
        descendants(own).into_iter().filter(is_marked).filter_map(Pid::from_raw).collect()
    }
}

/// All descendants of a process, including orphans that were reparented to it.
fn descendants(process: i32) -> Vec<i32> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let children: Vec<i32> = lists
        .flat_map(|list| list.split_whitespace().map(|child| child.parse().unwrap()).collect::<Vec<_>>())
        .collect();
    children.iter().copied().chain(children.iter().flat_map(|child| descendants(*child))).collect()
}

impl Drop for Host {
    fn drop(&mut self) {
        for process in self.left_running() {
            let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
            let _ = rustix::process::waitpid(Some(process), rustix::process::WaitOptions::empty());
        }
        drop(self.neighbour.stdin.take());
        let _ = self.neighbour.wait();
    }
}

/// What only root can plant in a workspace.
const PLANTED: [&str; 2] = ["set-id", "device"];

/// A set-user-ID program of root (it prints its effective uid), and a device. Missing if this process may not create them.
fn plant_as_root(root: &Path) {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let program = root.join("w/set-id");
    copy_program(Path::new("/usr/bin/id"), &program);
    chown(&program, Some(0), Some(0)).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o666);
    let kind = rustix::fs::FileType::CharacterDevice;
    let zero = rustix::fs::makedev(1, 5);
    let device = root.join("w/device");
    if rustix::fs::mknodat(rustix::fs::CWD, &device, kind, mode, zero).is_ok() {
        rustix::fs::chmod(&device, mode).unwrap();
    }
}

/// A process of the same user with a secret on its command line. It ends with its standard input.
fn neighbour(who: Who) -> Child {
    who.command("/bin/sh")
        .args(["-c", "read line", secret("neighbour")])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// A new pseudo-terminal: its master, and the name of its slave.
fn terminal(who: Who) -> (std::fs::File, PathBuf) {
    use rustix::pty::OpenptFlags;
    let master = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    rustix::pty::grantpt(&master).unwrap();
    rustix::pty::unlockpt(&master).unwrap();
    let name = PathBuf::from(rustix::pty::ptsname(&master, Vec::new()).unwrap().into_string().unwrap());
    chown(&name, Some(who.id()), None).unwrap();
    rustix::fs::fcntl_setfl(&master, rustix::fs::OFlags::NONBLOCK).unwrap();
    (master.into(), name)
}

/// A file handle as the attacker passes it. It could be guessed; this asks for it.
fn handle(path: &Path) -> String {
    let told = Command::new(tools().attacker()).args(["escape", "handle-of"]).arg(path).output().unwrap();
    String::from_utf8_lossy(&told.stdout).lines().next().unwrap_or_default().to_owned()
}

/// The servers on the host.
struct Servers {
    tcp: TcpListener,
    udp: UdpSocket,
    abstract_name: String,
    abstract_listener: UnixListener,
    outside: UnixListener,
    inside: UnixListener,
    datagrams: UnixDatagram,
}

impl Servers {
    fn start(root: &Path) -> Self {
        let abstract_name = format!("toolgate-attack-{}", root.file_name().unwrap().to_str().unwrap());
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        let everybody = |path: PathBuf| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
        };
        let servers = Self {
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            udp: UdpSocket::bind("127.0.0.1:0").unwrap(),
            abstract_listener: UnixListener::bind_addr(&address).unwrap(),
            abstract_name,
            outside: UnixListener::bind(root.join("outside/run/docker.sock")).unwrap(),
            inside: UnixListener::bind(root.join("w/service.sock")).unwrap(),
            datagrams: UnixDatagram::bind(root.join("outside/run/log.sock")).unwrap(),
        };
        for name in ["outside/run/docker.sock", "outside/run/log.sock", "w/service.sock"] {
            everybody(root.join(name));
        }
        servers.tcp.set_nonblocking(true).unwrap();
        servers.udp.set_nonblocking(true).unwrap();
        servers.datagrams.set_nonblocking(true).unwrap();
        for listener in [&servers.abstract_listener, &servers.outside, &servers.inside] {
            listener.set_nonblocking(true).unwrap();
        }
        servers
    }

    fn reached(&self) -> Vec<&'static str> {
        let mut buffer = [0_u8; 512];
        let reached = [
            ("tcp", self.tcp.accept().is_ok()),
            ("udp", self.udp.recv(&mut buffer).is_ok()),
            ("abstract", self.abstract_listener.accept().is_ok()),
            ("outside", self.outside.accept().is_ok()),
            ("inside", self.inside.accept().is_ok()),
            ("datagrams", self.datagrams.recv(&mut buffer).is_ok()),
        ];
        reached.into_iter().filter_map(|(name, reached)| reached.then_some(name)).collect()
    }
}

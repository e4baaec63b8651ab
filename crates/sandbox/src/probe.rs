//! Probes which layers this machine supports, by trying them.

use crate::landlock::LandlockAbi;
use crate::layer::{Layer, LayerReport, Layers};
use crate::namespaces::{NamespaceKinds, NamespaceSet};
use crate::sys::launch::{HelperProcess, run_helper};

/// The result of probing.
pub(crate) struct ProbeResult {
    pub(crate) works: Layers,
    pub(crate) landlock: Option<LandlockAbi>,
    pub(crate) reports: Vec<LayerReport>,
}

/// Tries every layer except those switched off.
pub(crate) fn probe(without: Layers, cgroup: Result<String, String>) -> ProbeResult {
    let cell = |network: bool| {
        let made = NamespaceSet::create(NamespaceKinds { user: true, network, proc: false }, None);
        made.map(drop).map_err(|error| error.to_string())
    };
    let (user, network) = (cell(false), cell(true));
    let landlock = LandlockAbi::of_kernel();
    let is_root = rustix::process::geteuid().is_root();
    let namespaces = match (&user, is_root) {
        (Ok(()), _) => Ok("the kernel makes one for every command".to_owned()),
        (Err(error), _) => Err(format!(
            "{error}; allow user namespaces (sysctl kernel.unprivileged_userns_clone, user.max_user_namespaces, AppArmor, or the container's seccomp profile)"
        )),
    };
    let proc = if user.is_ok() { try_proc() } else { Err("needs a user namespace".to_owned()) };
    let finding = |layer: Layer| -> Result<String, String> {
        match layer {
            Layer::UserNamespace
            | Layer::PidNamespace
            | Layer::MountNamespace
            | Layer::IpcNamespace
            | Layer::UtsNamespace => namespaces.clone(),
            Layer::NetworkNamespace => match &network {
                Ok(()) => Ok("made once, used by one command after the other".to_owned()),
                Err(error) => Err(format!("{error}; allow network namespaces")),
            },
            Layer::PrivateProc => proc.clone(),
            Layer::Landlock => match &landlock {
                Ok(dialect) => Ok(format!("version {}", dialect.version())),
                Err(error) => Err(format!("{error}; boot a kernel with `lsm=…,landlock`")),
            },
            Layer::Seccomp => try_filter(),
            Layer::Cgroup => cgroup.clone(),
            Layer::NoNewPrivileges
            | Layer::Capabilities
            | Layer::Descriptors
            | Layer::Session
            | Layer::ResourceLimits => Ok("always".to_owned()),
        }
    };
    let reports: Vec<LayerReport> = Layer::ALL
        .iter()
        .map(|layer| match (without.contains(*layer), finding(*layer)) {
            (true, _) => LayerReport { layer: *layer, works: false, detail: "switched off".to_owned() },
            (false, Ok(detail)) => LayerReport { layer: *layer, works: true, detail },
            (false, Err(detail)) => LayerReport { layer: *layer, works: false, detail },
        })
        .collect();
    // Without a PID namespace, a private `/proc` would have nothing of its own to show.
    let works: Layers = reports.iter().filter(|report| report.works).map(|report| report.layer).collect();
    let works = if works.contains(Layer::PidNamespace) { works } else { works.without(Layer::PrivateProc) };
    ProbeResult { works, landlock: landlock.ok().filter(|_| !without.contains(Layer::Landlock)), reports }
}

/// Installs the filter in a process that exits right afterwards.
fn try_filter() -> Result<String, String> {
    let trying = FilterProbe {
        program: crate::seccomp::compile(crate::seccomp::Sockets::Confined),
        error: std::sync::atomic::AtomicI32::new(0),
    };
    run_helper(&trying, 0).map_err(|error| error.to_string())?;
    match trying.error.into_inner() {
        0 => Ok("refuses what commands do not need".to_owned()),
        error => Err(rustix::io::Errno::from_raw_os_error(error).to_string()),
    }
}

struct FilterProbe {
    program: Vec<libc::sock_filter>,
    error: std::sync::atomic::AtomicI32,
}

impl HelperProcess for FilterProbe {
    fn run(&self) {
        let tried = rustix::thread::set_no_new_privs(true)
            .and_then(|()| crate::sys::calls::install_filter(&self.program));
        if let Err(error) = tried {
            self.error.store(error.raw_os_error(), std::sync::atomic::Ordering::Release);
        }
    }
}

/// Mounts a `/proc` in a throw-away mount namespace. Containers often forbid it.
fn try_proc() -> Result<String, String> {
    let trying = ProcProbe(std::sync::atomic::AtomicI32::new(0));
    let flags = libc::CLONE_NEWUSER | libc::CLONE_NEWPID | libc::CLONE_NEWNS;
    run_helper(&trying, flags).map_err(|error| error.to_string())?;
    match trying.0.into_inner() {
        0 => Ok("shows the command's own processes alone".to_owned()),
        error => {
            let error = rustix::io::Errno::from_raw_os_error(error);
            Err(format!("{error}; the container hides parts of /proc, which makes a new one forbidden"))
        }
    }
}

struct ProcProbe(std::sync::atomic::AtomicI32);

impl HelperProcess for ProcProbe {
    fn run(&self) {
        use rustix::mount::MountFlags;
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
        if let Err(error) = rustix::mount::mount(c"proc", c"/proc", c"proc", flags, None) {
            self.0.store(error.raw_os_error(), std::sync::atomic::Ordering::Release);
        }
    }
}

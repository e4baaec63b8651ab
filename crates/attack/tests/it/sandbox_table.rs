//! The table of attacks, as data.

use serde::Deserialize;
use toolgate_attack::{Bounds, Covered, Order, Report};
use toolgate_sandbox::Layer;

use crate::sandbox_host::{Host, SECRETS, Who};

/// One attack.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    pub(crate) name: String,
    run: Option<String>,
    attacker: Option<String>,
    /// What runs instead when the layers are off, if the attack itself would do harm.
    run_without: Option<String>,
    stopped_by: Vec<Guard>,
    /// The layers that stop an ordinary user, if they differ from root's.
    stopped_by_for_user: Option<Vec<Guard>>,
    /// Layers that stop it on some kernels only.
    #[serde(default)]
    also_off: Vec<Guard>,
    #[serde(default)]
    pub(crate) evidence: Evidence,
    #[serde(default = "everybody", rename = "as")]
    gates: Vec<Who>,
    needs: Option<Need>,
    #[serde(default)]
    limits: Bounds,
    max_output: Option<u64>,
    timeout_ms: Option<u64>,
}

fn everybody() -> Vec<Who> {
    vec![Who::Root, Who::User]
}

/// What stops an attack: a layer, or a setting of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum Guard {
    Layer(Layer),
    Hide,
    Freeze,
    Pin,
    Replace,
    /// Variables of the gate are not passed on.
    Environment,
    /// Programs are looked up in the system's directories only.
    SearchPath,
    Timeout,
    OutputLimit,
    /// Temporary files have their own small tmpfs.
    TemporaryLimit,
}

impl TryFrom<String> for Guard {
    type Error = String;

    fn try_from(word: String) -> Result<Self, String> {
        Ok(match word.as_str() {
            "cover:hide" => Self::Hide,
            "cover:freeze" => Self::Freeze,
            "cover:pin" => Self::Pin,
            "cover:replace" => Self::Replace,
            "job:environment" => Self::Environment,
            "job:search_path" => Self::SearchPath,
            "job:timeout" => Self::Timeout,
            "job:output" => Self::OutputLimit,
            "job:temporary" => Self::TemporaryLimit,
            word => {
                let layer = Layer::ALL.iter().copied().find(|layer| layer.as_str() == word);
                Self::Layer(layer.ok_or_else(|| format!("nothing is called `{word}`"))?)
            }
        })
    }
}

/// How success is recognised.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Evidence {
    /// The attack prints it.
    #[default]
    Escaped,
    /// It printed a secret, named by its place.
    Secret(String),
    /// Something at this path of the host has changed.
    Changed(String),
    /// This server was reached.
    Reached(String),
    /// A process outlived its command.
    Outlived,
    /// The neighbour was killed.
    Killed,
    /// Something was written to, or injected into, the terminal.
    Typed,
    /// The command exited with this code.
    Ended(i32),
    /// A dangerous file was left in the workspace.
    Planted,
}

/// What a machine must have for a row to mean something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Need {
    /// Block devices that can be opened without touching a disk.
    LoopDevice,
    /// The kernel's FUSE device.
    FuseDevice,
    /// Devices and set-user-ID programs, planted by root on a filesystem that allows them.
    Planted,
    /// A kernel with `AF_VSOCK`.
    VirtualMachineSockets,
    /// A kernel that runs i386 programs.
    OlderEntrance,
    /// A kernel with the x32 ABI.
    X32Entrance,
    /// Core dumps are written to the program's working directory.
    PlainCores,
    /// `TIOCSTI` is enabled.
    TypingAhead,
    /// `/etc/shadow`.
    Shadow,
    /// `/etc/environment`.
    EnvironmentFile,
}

impl Need {
    fn is_met(self) -> bool {
        let says = |path: &str, value: &str| {
            std::fs::read_to_string(path).is_ok_and(|content| content.trim() == value)
        };
        let escapes = |words: &[&str]| {
            let tools = crate::sandbox_host::tools();
            let tried = std::process::Command::new(tools.attacker()).arg("escape").args(words).output();
            tried.is_ok_and(|tried| tried.status.success())
        };
        match self {
            Self::LoopDevice => std::fs::File::open("/dev/loop0").is_ok(),
            Self::FuseDevice => std::fs::File::open("/dev/fuse").is_ok(),
            Self::Planted => rustix::process::geteuid().is_root(),
            Self::VirtualMachineSockets => escapes(&["socket", "40", "1", "0"]),
            Self::OlderEntrance => escapes(&["older-entrance"]),
            Self::X32Entrance => escapes(&["x32-entrance"]),
            Self::PlainCores => says("/proc/sys/kernel/core_pattern", "core"),
            Self::TypingAhead => says("/proc/sys/dev/tty/legacy_tiocsti", "1"),
            Self::EnvironmentFile => std::path::Path::new("/etc/environment").exists(),
            Self::Shadow => std::path::Path::new("/etc/shadow").exists(),
        }
    }
}

impl Row {
    pub(crate) fn table() -> Vec<Self> {
        serde_saphyr::from_str(include_str!("../data/sandbox_attacks.yaml")).expect("a good table")
    }

    pub(crate) fn is_for(&self, who: Who) -> bool {
        self.gates.contains(&who)
    }

    /// What this machine lacks to show anything with the row.
    pub(crate) fn lacks(&self) -> Option<Need> {
        self.needs.filter(|need| !need.is_met())
    }

    pub(crate) fn guards(&self, who: Who) -> &[Guard] {
        match (&self.stopped_by_for_user, who) {
            (Some(guards), Who::User) => guards,
            _ => &self.stopped_by,
        }
    }

    pub(crate) fn host(&self, who: Who) -> Host {
        Host::new(who, self.evidence == Evidence::Typed)
    }

    /// The attack with every layer on.
    pub(crate) fn confined(&self, host: &Host) -> Order {
        self.order(host, self.line())
    }

    /// The attack with some guards off, and those that depend on them.
    pub(crate) fn without(&self, host: &Host, off: &[Guard]) -> Order {
        let line = self.run_without.clone().unwrap_or_else(|| self.line());
        let mut order = self.order(host, line);
        let also = self.also_off.iter().filter(|guard| !self.guards(host.who).contains(guard));
        let off: Vec<Guard> = off.iter().chain(also).copied().collect();
        let layers = implied(host.who, &off);
        order.require = Some(Vec::new());
        order.without = layers.iter().map(|layer| layer.as_str().to_owned()).collect();
        let has_view = !layers.contains(&Layer::MountNamespace);
        for place in &mut order.mounts {
            place.covers.retain(|cover| has_view && !off.contains(&guard_of(cover)));
        }
        for guard in off {
            switch_off(guard, &mut order);
        }
        order
    }

    fn line(&self) -> String {
        match (&self.run, &self.attacker) {
            (Some(line), None) => line.clone(),
            (None, Some(words)) => format!("$ATTACKER {words}"),
            _ => panic!("{}: either `run` or `attacker`", self.name),
        }
    }

    fn order(&self, host: &Host, line: String) -> Order {
        let usual = host.order(&line);
        Order {
            limits: self.limits.clone(),
            max_output: self.max_output.or(usual.max_output),
            timeout_ms: self.timeout_ms.or(usual.timeout_ms),
            ..usual
        }
    }

    /// Whether the attack succeeded.
    pub(crate) fn has_succeeded(&self, host: &mut Host, report: &Report) -> bool {
        match &self.evidence {
            Evidence::Escaped => report.output.contains("ESCAPED"),
            Evidence::Secret(place) => report.output.contains(crate::sandbox_host::secret(place)),
            Evidence::Changed(place) => host.changed().iter().any(|change| change.starts_with(place)),
            Evidence::Reached(server) => host.reached().contains(&server.as_str()),
            Evidence::Outlived => !host.left_running().is_empty(),
            Evidence::Killed => host.neighbour_is_dead(),
            Evidence::Typed => host.typed(),
            Evidence::Ended(code) => report.code == Some(*code),
            Evidence::Planted => !host.planted().is_empty(),
        }
    }
}

/// The layers that are off, and those that depend on them: without a PID namespace there is no `/proc` of its own, and only root can create the other
/// namespaces without a user namespace.
fn implied(who: Who, off: &[Guard]) -> Vec<Layer> {
    let off = |layer: Layer| off.contains(&Guard::Layer(layer));
    let of_namespaces = [
        Layer::PidNamespace,
        Layer::MountNamespace,
        Layer::NetworkNamespace,
        Layer::IpcNamespace,
        Layer::UtsNamespace,
        Layer::PrivateProc,
    ];
    let goes = |layer: Layer| {
        off(layer)
            || layer == Layer::PrivateProc && off(Layer::PidNamespace)
            || who == Who::User && off(Layer::UserNamespace) && of_namespaces.contains(&layer)
    };
    Layer::ALL.iter().copied().filter(|layer| goes(*layer)).collect()
}

fn guard_of(cover: &Covered) -> Guard {
    match cover {
        Covered::HideFile(_) | Covered::HideFolder(_) => Guard::Hide,
        Covered::Freeze(_) => Guard::Freeze,
        Covered::Pin(_) => Guard::Pin,
        Covered::Replace(..) => Guard::Replace,
    }
}

fn switch_off(guard: Guard, order: &mut Order) {
    match guard {
        Guard::Environment => order.passed = vec!["GATE_SECRET".to_owned(), "LD_LIBRARY_PATH".to_owned()],
        Guard::SearchPath => order.environment.push(("PATH".to_owned(), ".:/usr/bin:/bin".to_owned())),
        Guard::Timeout => order.timeout_ms = None,
        Guard::OutputLimit => order.max_output = Some(64 << 20),
        Guard::TemporaryLimit => order.limits.temporary = Some(512 << 20),
        Guard::Layer(_) | Guard::Hide | Guard::Freeze | Guard::Pin | Guard::Replace => {}
    }
}

/// Everything that must hold after an attack that was stopped, whatever it tried.
pub(crate) fn damage(host: &mut Host, report: &Report) -> Vec<String> {
    let mut damage = host.changed();
    damage.extend(host.planted());
    damage.extend(host.reached().iter().map(|server| format!("the server {server} was reached")));
    damage.extend(host.left_running().iter().map(|process| format!("process {process:?} is still there")));
    if host.neighbour_is_dead() {
        damage.push("the neighbour is dead".to_owned());
    }
    if host.typed() {
        damage.push("something was typed at the terminal".to_owned());
    }
    for (place, secret) in SECRETS {
        if report.output.contains(secret) || report.error.contains(secret) {
            damage.push(format!("the secret of {place} came out"));
        }
    }
    damage
}

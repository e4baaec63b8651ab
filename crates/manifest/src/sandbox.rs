//! `sandbox`: how commands are confined.

use std::time::Duration;

use crate::decode::{
    ConfigField, KeySpec, Section, Word, any_of, count, duration, flag, key, list, located_text, path, size,
};
use crate::keyword_enum::words;
use crate::path::DeclaredPath;
use crate::problem::{Located, shown};
use crate::problem_report::ProblemReport;
use crate::tool::{is_reserved, is_variable, network};
use crate::yaml_tree::NodeKind;

const SANDBOX: &[KeySpec] = &[
    key("require", "require: [landlock, seccomp]"),
    key("read", "read: [/opt/toolchain]"),
    key("environment", "environment: [LANG]"),
    key("path", "path: [/usr/bin, /bin]"),
    key("memory", "memory: 2GiB"),
    key("processes", "processes: 256"),
    key("file_size", "file_size: 1GiB"),
    key("open_files", "open_files: 1024"),
    key("cpu_time", "cpu_time: 10m"),
    key("tmp_size", "tmp_size: 512MiB"),
    key("network", "network: [crates.io, \"*.crates.io\"]"),
    key("hard_links", "hard_links: protect"),
    key("toolchains", "toolchains: auto"),
    key("timeout", "timeout: 2m"),
    key("max_timeout", "max_timeout: 10m"),
    key("background", "background: 8"),
    key("escalation", "escalation: {hosts: true, time: true, directories: true}"),
    key("cache", "cache: 2GiB"),
];

/// `sandbox`: how commands are confined; absent values have the sandbox's defaults.
#[derive(Clone, Debug, Default)]
pub struct SandboxConfig {
    /// `require`: the layers without which no command runs; see [`SandboxConfig::required`].
    pub require: Option<Vec<Located<SandboxLayer>>>,
    /// `read`: further host directories and files that commands can read.
    pub read: Vec<Located<DeclaredPath>>,
    /// `environment`: names of variables that are passed through.
    pub environment: Vec<Located<String>>,
    /// `path`: the directories in which programs are looked up, in order; all absolute.
    pub path: Option<Vec<Located<DeclaredPath>>>,
    /// `memory`: bytes.
    pub memory: Option<u64>,
    /// `processes`: processes and threads at a time.
    pub processes: Option<u64>,
    /// `file_size`: bytes of any file that a command writes.
    pub file_size: Option<u64>,
    /// `open_files`: open files of one process.
    pub open_files: Option<u64>,
    /// `cpu_time`: CPU time of one process.
    pub cpu_time: Option<Duration>,
    /// `tmp_size`: bytes of the private `/tmp`.
    pub tmp_size: Option<u64>,
    /// `network`: hosts that `run_command` and `bash` may connect to; empty means no network.
    pub network: Vec<Located<String>>,
    /// `hard_links`: what commands may do to files with a hard link outside their mounts.
    pub hard_links: Option<Located<HardLinkRule>>,
    /// `toolchains`: which toolchains of the home directory commands are shown.
    pub toolchains: ToolchainSelection,
    /// `timeout`: how long a shell line may take that names no `timeout_ms`.
    pub timeout: Option<Duration>,
    /// `max_timeout`: how long a shell line may take whatever it names.
    pub max_timeout: Option<Duration>,
    /// `background`: how many commands of a session may go on after their call; 0 where it is `off`.
    pub background: Option<u64>,
    /// `escalation`: what a person may allow a command beyond the configuration.
    pub escalation: EscalationConfig,
    /// `cache`: what package managers keep between commands.
    pub cache: PackageCacheConfig,
}

const ESCALATION: &[KeySpec] =
    &[key("hosts", "hosts: true"), key("time", "time: true"), key("directories", "directories: true")];

/// `escalation`: what a person may allow a command that lacked it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EscalationConfig {
    /// `hosts`: public hosts. By default not where `network` is `[]`, which says that there is no network.
    pub hosts: bool,
    /// `time`: more time.
    pub time: bool,
    /// `directories`: a directory of the machine to read, for one call.
    pub directories: bool,
}

impl Default for EscalationConfig {
    fn default() -> Self {
        Self { hosts: true, time: true, directories: true }
    }
}

/// `cache`: what package managers keep between commands, for each workspace and caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackageCacheConfig {
    /// Nothing.
    Off,
    /// At most this many bytes.
    Bytes(u64),
}

impl Default for PackageCacheConfig {
    fn default() -> Self {
        Self::Bytes(2 << 30)
    }
}

words! {
    /// What commands may do to files with a hard link outside their mounts.
    HardLinkRule, "a rule for hard links" {
        /// Read them only.
        Protect = "protect",
        /// Change them, and with them the file elsewhere.
        Allow = "allow",
    }
}

words! {
    /// A toolchain that is installed in a home directory.
    Toolchain, "a toolchain" {
        /// rustup, with the programs of cargo.
        Rustup = "rustup",
        /// nvm.
        Nvm = "nvm",
        /// fnm.
        Fnm = "fnm",
        /// Volta.
        Volta = "volta",
        /// pyenv.
        Pyenv = "pyenv",
        /// uv, and the interpreters that it installed.
        Uv = "uv",
        /// mise.
        Mise = "mise",
        /// asdf.
        Asdf = "asdf",
        /// SDKMAN.
        Sdkman = "sdkman",
        /// Go.
        Go = "go",
        /// Deno.
        Deno = "deno",
        /// Bun.
        Bun = "bun",
    }
}

/// `toolchains`: which toolchains of the home directory commands are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolchainSelection {
    /// All that are found.
    #[default]
    Auto,
    /// None.
    Off,
    /// These.
    Named(Vec<Toolchain>),
}

impl ToolchainSelection {
    /// Whether a toolchain is selected.
    #[must_use]
    pub fn includes(&self, toolchain: Toolchain) -> bool {
        match self {
            Self::Auto => true,
            Self::Off => false,
            Self::Named(named) => named.contains(&toolchain),
        }
    }
}

words! {
    /// One layer of the sandbox, as `doctor` reports it.
    SandboxLayer, "a layer of the sandbox" {
        /// A user namespace.
        UserNamespace = "user_namespace",
        /// A PID namespace: no process outlives the call.
        PidNamespace = "pid_namespace",
        /// A mount namespace: its own view of the filesystem.
        MountNamespace = "mount_namespace",
        /// A network namespace without interfaces to the outside.
        NetworkNamespace = "network_namespace",
        /// An IPC namespace: its own shared memory and message queues.
        IpcNamespace = "ipc_namespace",
        /// A UTS namespace: its own host name.
        UtsNamespace = "uts_namespace",
        /// Landlock: file access is enforced a second time, by path.
        Landlock = "landlock",
        /// A seccomp filter that rejects system calls that are not needed.
        Seccomp = "seccomp",
        /// `PR_SET_NO_NEW_PRIVS`: no program gains privileges by `execve`.
        NoNewPrivileges = "no_new_privileges",
        /// No capabilities.
        Capabilities = "capabilities",
        /// Resource limits for memory, CPU time, files and processes.
        ResourceLimits = "resource_limits",
        /// A cgroup that limits the whole process tree together.
        Cgroup = "cgroup",
        /// A `/proc` that shows only its own processes.
        PrivateProc = "private_proc",
    }
}

impl SandboxConfig {
    /// The layers without which no command runs: the configured ones, or all but the cgroup, which an
    /// unprivileged user often cannot create.
    #[must_use]
    pub fn required(&self) -> Vec<SandboxLayer> {
        match &self.require {
            Some(layers) => layers.iter().map(|layer| layer.value).collect(),
            None => {
                SandboxLayer::ALL.iter().copied().filter(|layer| *layer != SandboxLayer::Cgroup).collect()
            }
        }
    }
}

pub(crate) fn sandbox(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<SandboxConfig> {
    let section = Section::read(field, SANDBOX, report)?;
    let folders = |field: &ConfigField, report: &mut ProblemReport<'_>| list(field, "path", report, path);
    let named: Option<Vec<Located<String>>> = section.get("network", report, network);
    let may_reach = named.as_ref().is_none_or(|named| !named.is_empty());
    let standard = EscalationConfig { hosts: may_reach, ..EscalationConfig::default() };
    let escalation = section.get("escalation", report, |field, report| escalation(field, standard, report));
    Some(SandboxConfig {
        require: section.get("require", report, require),
        read: section.get("read", report, folders).unwrap_or_default(),
        environment: section.get("environment", report, environment).unwrap_or_default(),
        path: section.get("path", report, program_directories),
        memory: section.get("memory", report, size),
        processes: section.get("processes", report, count),
        file_size: section.get("file_size", report, size),
        open_files: section.get("open_files", report, count),
        cpu_time: section.get("cpu_time", report, duration),
        tmp_size: section.get("tmp_size", report, size),
        network: named.unwrap_or_default(),
        escalation: escalation.unwrap_or(standard),
        hard_links: section.get("hard_links", report, crate::decode::word),
        toolchains: section.get("toolchains", report, toolchains).unwrap_or_default(),
        timeout: section.get("timeout", report, duration),
        max_timeout: section.get("max_timeout", report, duration),
        background: section.get("background", report, background),
        cache: section.get("cache", report, package_cache).unwrap_or_default(),
    })
}

fn require(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Vec<Located<SandboxLayer>>> {
    if matches!(&field.node.kind, NodeKind::Scalar { text, .. } if text == "all") {
        return Some(SandboxLayer::ALL.iter().map(|layer| field.locate(*layer)).collect());
    }
    if !matches!(field.node.kind, NodeKind::List(_)) {
        let names = any_of(SandboxLayer::WORDS.iter().map(|(word, _)| *word));
        let message = format!("`require` must be `all` or a list of layers, not {}", field.node.describe());
        report.node(&field.node, message, Some(format!("the layers are {names}")));
        return None;
    }
    list(field, "layer", report, crate::decode::word)
}

fn toolchains(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<ToolchainSelection> {
    match &field.node.kind {
        NodeKind::Scalar { text, .. } if text == "auto" => return Some(ToolchainSelection::Auto),
        NodeKind::Scalar { text, .. } if text == "off" => return Some(ToolchainSelection::Off),
        NodeKind::List(_) => {}
        _ => {
            let names = any_of(Toolchain::WORDS.iter().map(|(word, _)| *word));
            let message =
                format!("`toolchains` must be `auto`, `off` or a list, not {}", field.node.describe());
            report.node(&field.node, message, Some(format!("the toolchains are {names}")));
            return None;
        }
    }
    let named: Vec<Located<Toolchain>> = list(field, "toolchain", report, crate::decode::word)?;
    Some(ToolchainSelection::Named(named.into_iter().map(|named| named.value).collect()))
}

fn escalation(
    field: &ConfigField,
    standard: EscalationConfig,
    report: &mut ProblemReport<'_>,
) -> Option<EscalationConfig> {
    let section = Section::read(field, ESCALATION, report)?;
    Some(EscalationConfig {
        hosts: section.get("hosts", report, flag).unwrap_or(standard.hosts),
        time: section.get("time", report, flag).unwrap_or(standard.time),
        directories: section.get("directories", report, flag).unwrap_or(standard.directories),
    })
}

fn package_cache(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<PackageCacheConfig> {
    match &field.node.kind {
        NodeKind::Scalar { text, .. } if text == "off" => Some(PackageCacheConfig::Off),
        _ => size(field, report).map(PackageCacheConfig::Bytes),
    }
}

fn background(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<u64> {
    match &field.node.kind {
        NodeKind::Scalar { text, .. } if text == "off" => Some(0),
        _ => count(field, report),
    }
}

fn environment(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Vec<Located<String>>> {
    list(field, "variable", report, |field, report| {
        let name = located_text(field, report)?;
        if !is_variable(&name.value) {
            let help =
                "name the variable only; its value is taken from the gate's own environment".to_owned();
            report.located(
                &name,
                format!("`{}` is not the name of a variable", shown(&name.value)),
                Some(help),
            );
        } else if is_reserved(&name.value) {
            let message = format!("`{}` decides what code runs or where it connects to", name.value);
            report.located(
                &name,
                message,
                Some("remove it: the sandbox sets what a command needs".to_owned()),
            );
        }
        Some(name)
    })
}

fn program_directories(
    field: &ConfigField,
    report: &mut ProblemReport<'_>,
) -> Option<Vec<Located<DeclaredPath>>> {
    let folders = list(field, "folder", report, path)?;
    for folder in folders.iter().filter(|folder| !folder.value.as_str().starts_with('/')) {
        let message = format!("`{}` is not an absolute path", shown(folder.value.as_str()));
        report.located(folder, message, Some("a program must not depend on where a command runs".to_owned()));
    }
    if folders.is_empty() {
        let help = Some(format!("leave it out, or write for example `{}`", field.example));
        report.node(&field.node, "without a folder no program would be found", help);
    }
    Some(folders)
}

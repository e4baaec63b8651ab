//! The layers of confinement.

use std::fmt;

macro_rules! layers {
    ($($(#[$doc:meta])* $name:ident = $word:literal;)*) => {
        /// One layer of confinement.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Layer {
            $($(#[$doc])* $name,)*
        }

        impl Layer {
            /// Every layer, in the order in which they are applied.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The name in configuration and reports.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }
        }
    };
}

layers! {
    /// A user namespace: privileges inside do not apply outside.
    UserNamespace = "user_namespace";
    /// A PID namespace: sees and signals only its own processes, and is killed as a whole.
    PidNamespace = "pid_namespace";
    /// A mount namespace: a root filesystem made for the command.
    MountNamespace = "mount_namespace";
    /// A network namespace: no connectivity except what is configured.
    NetworkNamespace = "network_namespace";
    /// An IPC namespace: no shared memory or message queues of other processes.
    IpcNamespace = "ipc_namespace";
    /// A UTS namespace: a neutral host name.
    UtsNamespace = "uts_namespace";
    /// A `/proc` that shows only the command's own processes.
    PrivateProc = "private_proc";
    /// Landlock: a second check of every file access.
    Landlock = "landlock";
    /// A seccomp filter on system calls.
    Seccomp = "seccomp";
    /// `no_new_privs`: programs gain no privileges when executed.
    NoNewPrivileges = "no_new_privileges";
    /// All capabilities dropped.
    Capabilities = "capabilities";
    /// No inherited descriptor of the gate.
    Descriptors = "descriptors";
    /// A session of its own (`setsid`), without a terminal.
    Session = "session";
    /// Resource limits (`setrlimit`): memory, processes, files, CPU time.
    ResourceLimits = "resource_limits";
    /// A cgroup, which limits the command as a whole.
    Cgroup = "cgroup";
}

impl fmt::Display for Layer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A set of layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layers(u32);

impl Layers {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// Every layer.
    #[must_use]
    pub fn all() -> Self {
        Layer::ALL.iter().copied().collect()
    }

    /// What a command must have unless the operator configures otherwise: everything except a cgroup, which few machines delegate.
    #[must_use]
    pub fn required_by_default() -> Self {
        Self::all().without(Layer::Cgroup)
    }

    /// Whether this layer is in the set.
    #[must_use]
    pub fn contains(self, layer: Layer) -> bool {
        self.0 & (1 << layer as u32) != 0
    }

    /// The set with one more layer.
    #[must_use]
    pub fn with(self, layer: Layer) -> Self {
        Self(self.0 | 1 << layer as u32)
    }

    /// The set without one layer.
    #[must_use]
    pub fn without(self, layer: Layer) -> Self {
        Self(self.0 & !(1 << layer as u32))
    }

    /// The set difference.
    #[must_use]
    pub fn minus(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// The layers, in the order in which they are applied.
    pub fn iter(self) -> impl Iterator<Item = Layer> {
        Layer::ALL.iter().copied().filter(move |layer| self.contains(*layer))
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<Layer> for Layers {
    fn from_iter<Some: IntoIterator<Item = Layer>>(layers: Some) -> Self {
        layers.into_iter().fold(Self::NONE, Self::with)
    }
}

impl fmt::Display for Layers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self.iter().map(Layer::as_str).collect();
        formatter.write_str(&words.join(", "))
    }
}

/// Whether a machine supports a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerReport {
    /// The layer.
    pub layer: Layer,
    /// Whether it is available.
    pub works: bool,
    /// How far it goes, or why it is missing and what would help.
    pub detail: String,
}

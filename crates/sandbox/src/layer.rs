//! The layers of confinement, one name for each.

use std::fmt;

macro_rules! layers {
    ($($(#[$doc:meta])* $name:ident = $word:literal;)*) => {
        /// One layer of confinement.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Layer {
            $($(#[$doc])* $name,)*
        }

        impl Layer {
            /// Every layer, in the order in which they are put on.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The word in configuration and reports.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }
        }
    };
}

layers! {
    /// A user namespace: rights inside are none outside.
    UserNamespace = "user_namespace";
    /// A process namespace: sees and signals only itself, and ends as a whole.
    PidNamespace = "pid_namespace";
    /// A mount namespace: a view of the system that is made for the command.
    MountNamespace = "mount_namespace";
    /// A network namespace: no way out but the one that is given.
    NetworkNamespace = "network_namespace";
    /// An IPC namespace: no shared memory or message queues of others.
    IpcNamespace = "ipc_namespace";
    /// A UTS namespace: a host name that says nothing.
    UtsNamespace = "uts_namespace";
    /// A `/proc` that shows the command's own processes alone.
    PrivateProc = "private_proc";
    /// Landlock: a second opinion on every file.
    Landlock = "landlock";
    /// A filter on system calls.
    Seccomp = "seccomp";
    /// Programs gain no rights when they start.
    NoNewPrivileges = "no_new_privileges";
    /// No capability is left.
    Capabilities = "capabilities";
    /// No file of the gate stays open.
    Descriptors = "descriptors";
    /// A session of its own, without a terminal.
    Session = "session";
    /// Limits on memory, processes, files and processor time.
    ResourceLimits = "resource_limits";
    /// A control group, which limits the command as a whole.
    Cgroup = "cgroup";
}

impl fmt::Display for Layer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Some layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layers(u32);

impl Layers {
    /// None.
    pub const NONE: Self = Self(0);

    /// Every layer.
    #[must_use]
    pub fn all() -> Self {
        Layer::ALL.iter().copied().collect()
    }

    /// What a command must have unless the operator says otherwise: everything but a control group, which few machines hand out.
    #[must_use]
    pub fn required_by_default() -> Self {
        Self::all().without(Layer::Cgroup)
    }

    /// Whether this layer is among them.
    #[must_use]
    pub fn contains(self, layer: Layer) -> bool {
        self.0 & (1 << layer as u32) != 0
    }

    /// These and one more.
    #[must_use]
    pub fn with(self, layer: Layer) -> Self {
        Self(self.0 | 1 << layer as u32)
    }

    /// These but one.
    #[must_use]
    pub fn without(self, layer: Layer) -> Self {
        Self(self.0 & !(1 << layer as u32))
    }

    /// These but those.
    #[must_use]
    pub fn minus(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// One after the other, in the order in which they are put on.
    pub fn iter(self) -> impl Iterator<Item = Layer> {
        Layer::ALL.iter().copied().filter(move |layer| self.contains(*layer))
    }

    /// Whether there is none.
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

/// What a machine can do about one layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerReport {
    /// The layer.
    pub layer: Layer,
    /// Whether commands have it.
    pub works: bool,
    /// How far it goes, or why it is missing and what would help.
    pub detail: String,
}

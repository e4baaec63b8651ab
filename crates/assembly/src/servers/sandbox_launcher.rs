//! Starts the process of a server in the sandbox, like a command.

use std::ffi::{OsStr, OsString};
use std::future::Future;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use toolgate_command::{CommandRunner, ConfinedProcess, LongRunningProcess, OwnDirectory};
use toolgate_connect::{
    HomeSettings, LaunchedServer, PackageSettings, ProcessSettings, RunningProcess, ServerLauncher,
};
use toolgate_manifest::ServerLimits;
use toolgate_packages::{Installed, PACKAGE_PATH, PackageError, PackageStore};
use toolgate_sandbox::ResourceLimits;
use toolgate_types::{CallId, ErrorCode, Failure, StateKey};

use super::server_state::full_home;
use super::{container, server_log};
use crate::ambient::{HostEnvironment, open_directory, open_private_directory};

/// The runner of commands, and the limits of each process.
#[derive(Clone)]
pub(super) struct LaunchContext {
    pub(super) runner: Arc<CommandRunner>,
    pub(super) limits: ResourceLimits,
    /// The directory for quarantined files.
    pub(super) quarantine: PathBuf,
    /// The key that the locks of packages are sealed with; `None` if it cannot be used.
    pub(super) key: Option<StateKey>,
    /// Where a container engine is looked for.
    pub(super) environment: HostEnvironment,
}

/// Starts processes with the current runner.
#[derive(Default)]
pub(super) struct SandboxLauncher {
    context: RwLock<Option<LaunchContext>>,
}

impl SandboxLauncher {
    /// Replaces the launch context, and returns the previous one.
    pub(super) fn replace(&self, means: Option<LaunchContext>) -> Option<LaunchContext> {
        std::mem::replace(&mut *self.context.write().unwrap_or_else(PoisonError::into_inner), means)
    }
}

impl ServerLauncher for SandboxLauncher {
    fn launch(&self, process: &ProcessSettings) -> Result<LaunchedServer, Failure> {
        let means = self.context.read().unwrap_or_else(PoisonError::into_inner).clone();
        let means = means.ok_or_else(|| {
            Failure::new(ErrorCode::Internal, "no sandbox backend is available on this machine")
        })?;
        if let Some(package) = process.package.as_ref().filter(|package| container::is_of_images(package)) {
            let lock = verified(package, means.key.as_ref())?.lock;
            return container::launch(&means, process, package, &lock);
        }
        let mut belongings = Belongings::default();
        let program = match &process.package {
            Some(package) => belongings.add_package(package, &process.program, means.key.as_ref())?,
            None => process.program.clone(),
        };
        if let Some(home) = &process.home {
            belongings.add_home(home)?;
        }
        let started = means.runner.start(&ConfinedProcess {
            program,
            arguments: process.arguments.clone(),
            directory: process.directory.clone(),
            mounts: process.mounts.clone(),
            // The server's own variables take precedence.
            environment: belongings
                .environment
                .into_iter()
                .chain(
                    process.environment.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())),
                )
                .collect(),
            own: belongings.own,
            host_paths: process.host_paths,
            log: process.log.as_deref().map(server_log::appender),
            network: process.network.clone(),
            upstream: None,
            read: process.read.clone(),
            limits: Some(limits(process.limits, means.limits.long_lived())),
        })?;
        let can_write = process.mounts.iter().any(|(_, writable)| *writable);
        let process = Arc::new(ConfinedServer {
            process: started.process,
            can_write,
            quarantine: means.quarantine,
            end_reported: AtomicBool::new(false),
        });
        Ok(LaunchedServer { input: started.input, output: started.output, process })
    }
}

/// Where a server sees its home directory.
const HOME_PATH: &str = "/toolgate/home";

/// Variables that name a directory in the home directory (XDG Base Directory Specification).
const HOME_VARIABLES: [(&str, &str); 5] = [
    ("HOME", ""),
    ("XDG_CACHE_HOME", "/.cache"),
    ("XDG_CONFIG_HOME", "/.config"),
    ("XDG_DATA_HOME", "/.local/share"),
    ("XDG_STATE_HOME", "/.local/state"),
];

/// The directories of a server, and the variables that name them.
#[derive(Default)]
struct Belongings {
    own: Vec<OwnDirectory>,
    environment: Vec<(String, String)>,
}

impl Belongings {
    /// Verifies an installed package, and returns the program in it.
    fn add_package(
        &mut self,
        package: &PackageSettings,
        program: &OsStr,
        key: Option<&StateKey>,
    ) -> Result<OsString, Failure> {
        let installed = verified(package, key)?;
        let path =
            installed.lock.program(&program.to_string_lossy()).map(|path| format!("{PACKAGE_PATH}/{path}"));
        let path = path.ok_or_else(|| {
            let message = format!("the package has no program `{}`", program.to_string_lossy());
            Failure::new(ErrorCode::CommandNotFound, message)
        })?;
        self.own.push(OwnDirectory {
            directory: Arc::new(installed.tree.into()),
            at: PathBuf::from(PACKAGE_PATH),
            writable: false,
            max_bytes: None,
        });
        Ok(path.into())
    }

    /// Makes the home directory if it is missing.
    fn add_home(&mut self, home: &HomeSettings) -> Result<(), Failure> {
        let cannot = |error: std::io::Error| {
            let message =
                format!("its home directory `{}` cannot be used: {error}", home.directory.display());
            Failure::new(ErrorCode::IoError, message)
        };
        let opened = open_private_directory(&home.directory).map_err(cannot)?;
        for (_, below) in HOME_VARIABLES.iter().filter(|(_, below)| !below.is_empty()) {
            // A server can put anything into its home: only its own start suffers.
            let _ = opened.create_dir_all(below.trim_start_matches('/'));
        }
        let directory = open_directory(&home.directory).map_err(cannot)?;
        if let Some((message, help)) = full_home(home, &directory) {
            let message = format!("{message}; {help}");
            return Err(Failure::new(ErrorCode::NotPermitted, message));
        }
        self.own.push(OwnDirectory {
            directory: Arc::new(directory.into()),
            at: PathBuf::from(HOME_PATH),
            writable: true,
            max_bytes: Some(home.max_bytes),
        });
        let variable = |(name, below): (&str, &str)| (name.to_owned(), format!("{HOME_PATH}{below}"));
        self.environment.extend(HOME_VARIABLES.map(variable));
        Ok(())
    }
}

/// The installed package, unchanged.
fn verified(package: &PackageSettings, key: Option<&StateKey>) -> Result<Installed, Failure> {
    let Some(key) = key else {
        let message = "the key of the gate's state cannot be used, so no lock of a package is believed";
        return Err(Failure::new(ErrorCode::NotPermitted, message));
    };
    let store = PackageStore::new(package.directory.clone(), key.clone());
    let refused = |error: PackageError| {
        let code = match &error {
            PackageError::NotInstalled { .. } | PackageError::OtherInstalled { .. } => {
                ErrorCode::CommandNotFound
            }
            PackageError::Io { .. } => ErrorCode::IoError,
            _ => ErrorCode::NotPermitted,
        };
        Failure::new(code, format!("{error}; {}", error.help(&package.server)))
    };
    store.verified(&package.spec, &package.with, package.install_scripts).map_err(refused)
}

/// The limits that a server declares, with the defaults for the rest.
pub(super) fn limits(own: ServerLimits, usual: ResourceLimits) -> ResourceLimits {
    ResourceLimits {
        memory: own.memory.unwrap_or(usual.memory),
        processes: own.processes.unwrap_or(usual.processes),
        file_size: own.file_size.unwrap_or(usual.file_size),
        open_files: own.open_files.unwrap_or(usual.open_files),
        cpu_seconds: own.cpu_time.map_or(usual.cpu_seconds, |time| time.as_secs().max(1)),
        temporary: own.tmp_size.unwrap_or(usual.temporary),
    }
}

/// A server's process in the sandbox.
struct ConfinedServer {
    process: LongRunningProcess,
    can_write: bool,
    quarantine: PathBuf,
    /// Whether the findings after the end of the process have been reported.
    end_reported: AtomicBool,
}

impl RunningProcess for ConfinedServer {
    fn terminate(&self) {
        self.process.end();
        block_on(self.process.ended());
    }

    fn exit_status(&self) -> Option<String> {
        self.process.has_ended().map(|end| end.reason)
    }

    fn stderr_tail(&self) -> String {
        self.process.errors()
    }

    fn can_write(&self) -> bool {
        self.can_write
    }

    /// Quarantines what the process left under protected names. After its end, the findings of the final scan are returned, once.
    fn quarantine(&self) -> Result<Vec<String>, Failure> {
        let Some(end) = self.process.has_ended() else {
            return block_on(self.process.quarantine(CallId::fresh()));
        };
        if self.end_reported.swap(true, Ordering::Relaxed) {
            return Ok(Vec::new());
        }
        end.unchecked.map_or(Ok(end.quarantined), Err)
    }

    fn quarantine_location(&self) -> Option<String> {
        Some(self.quarantine.display().to_string())
    }
}

/// Unparks the waiting thread.
struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks this thread. The future is completed by other threads and needs no runtime.
pub(super) fn block_on<Answer>(future: impl Future<Output = Answer>) -> Answer {
    let waker = Waker::from(Arc::new(ThreadWaker(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_when_another_thread_is_done() {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let other = std::thread::spawn(move || sender.send(7));
        assert_eq!(block_on(receiver), Ok(7));
        other.join().unwrap().unwrap();
    }

    #[test]
    fn what_a_server_does_not_say_is_usual() {
        let usual = ResourceLimits::default().long_lived();
        assert_eq!(limits(ServerLimits::default(), usual), usual);
        let own = ServerLimits {
            memory: Some(5),
            cpu_time: Some(std::time::Duration::from_millis(3)),
            ..ServerLimits::default()
        };
        assert_eq!(limits(own, usual), ResourceLimits { memory: 5, cpu_seconds: 1, ..usual });
    }
}

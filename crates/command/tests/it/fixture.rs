//! A workspace with a command runner.

use std::fs::File;
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use tempfile::TempDir;
use toolgate_command::{CommandOptions, CommandRunner, Confinement, GateDirectories, ShellTimeouts};
use toolgate_egress::{Dial, SystemDialer};
use toolgate_sandbox::{ResourceLimits, Sandbox, SandboxOptions};
use toolgate_types::RetentionBounds;
use toolgate_workspace::{Mount, MountAccess, MountRules, Workspace};

/// A temporary directory with a workspace and a quarantine.
pub(crate) fn setting() -> (TempDir, Arc<Workspace>, Arc<CommandRunner>) {
    setting_in(Arc::new(SystemDialer))
}

/// The same with another dialer.
pub(crate) fn setting_in(dialer: Arc<dyn Dial>) -> (TempDir, Arc<Workspace>, Arc<CommandRunner>) {
    let scratch = TempDir::new().unwrap();
    let [work, quarantine, baselines] =
        ["work", "quarantine", "baselines"].map(|name| scratch.path().join(name));
    for folder in [&work, &quarantine, &baselines] {
        std::fs::create_dir(folder).unwrap();
    }
    let mount =
        Mount::new("@project", File::open(&work).unwrap(), &work, MountAccess::ReadWrite, MountRules::new())
            .unwrap();
    let workspace = Arc::new(Workspace::new(vec![mount.as_default()]).unwrap());
    let runner = CommandRunner::new(CommandOptions {
        workspace: Arc::clone(&workspace),
        confinement: Confinement::lazy(
            || Ok(Arc::new(Sandbox::prepare(SandboxOptions::default()).unwrap())),
            move || {
                let [quarantine, baselines] = [&quarantine, &baselines]
                    .map(|folder| Dir::open_ambient_dir(folder, ambient_authority()).unwrap());
                Ok(GateDirectories { quarantine, baselines, retention: RetentionBounds::default() })
            },
        ),
        environment: Vec::new(),
        limits: ResourceLimits::default(),
        network: Vec::new(),
        escalation: toolgate_command::EscalationRule { hosts: true, time: true, directories: true },
        timeouts: ShellTimeouts::default(),
        dialer,
        reserve: None,
        package_caches: None,
        open_directory: None,
    });
    (scratch, workspace, Arc::new(runner.unwrap()))
}

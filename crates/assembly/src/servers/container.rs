//! Servers that are container images: what the engine of the machine is asked for, which is the least that a server needs.
//!
//! The engine is trusted as the person's own program, and does the confining in the place of this gate's sandbox: no network, a read-only root, no
//! capabilities, bounded processes and memory, the named mounts read-only, the named variables, and the image by the identity that was locked.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toolgate_confine::{ConfineRequest, ConfinedMount, confine};
use toolgate_connect::{LaunchedServer, PackageSettings, ProcessSettings};
use toolgate_manifest::{PackageRegistry, ServerProcessConfig};
use toolgate_packages::Lock;
use toolgate_sandbox::ResourceLimits;
use toolgate_types::{Deadline, ErrorCode, Failure, MountOverlay};
use toolgate_workspace::{MountAccess, Workspace};

use super::container_process::{ContainerEngine, ContainerStart, random_digits};
use super::sandbox_launcher::{LaunchContext, limits};
use super::server_log;
use crate::ambient::open_private_directory;

/// The timeout for looking through the mounts before the start.
const SCAN_TIMEOUT: Duration = Duration::from_secs(120);

/// An empty directory that is shown in the place of denied ones.
const EMPTY: &str = "empty";

/// Variables that mean something to the engine's own program: their values are passed among the arguments, where the program does not read them.
const ENGINE_VARIABLES: [&str; 9] =
    ["HOME", "PATH", "TMPDIR", "DOCKER_", "CONTAINER", "XDG_", "LD_", "REGISTRY_", "BUILDAH_"];

/// Processes of one user, in all of its containers and outside of them; `--pids-limit` bounds those of this one.
const MAX_USER_PROCESSES: u64 = 4096;

/// Whether a server is a container image.
pub(super) fn is_image(process: &ServerProcessConfig) -> bool {
    process.package.as_ref().is_some_and(|package| package.value.registry() == PackageRegistry::Image)
}

/// Whether a package is a container image.
pub(super) fn is_of_images(package: &PackageSettings) -> bool {
    package.spec.registry() == PackageRegistry::Image
}

/// Has the engine run the locked image.
pub(super) fn launch(
    means: &LaunchContext,
    process: &ProcessSettings,
    package: &PackageSettings,
    lock: &Lock,
) -> Result<LaunchedServer, Failure> {
    let no_engine = |reason: String| {
        let help = "install or start one, or install the server by hand and name its program";
        Failure::new(ErrorCode::CommandNotFound, reason).help(help)
    };
    let engine = ContainerEngine::find(&means.environment).map_err(no_engine)?;
    let image = lock.image().ok_or_else(|| {
        Failure::new(ErrorCode::NotPermitted, "the lock of the image does not say which one it is")
    })?;
    let empty = package.directory.join(EMPTY);
    open_private_directory(&empty).map_err(|error| {
        Failure::new(ErrorCode::IoError, format!("`{}` cannot be used: {error}", empty.display()))
    })?;
    let mounts = bind_mounts(means.runner.workspace(), process, &empty)?;
    let name = format!("toolgate-{}-{}", package.server, random_digits());
    let mut arguments = least(&name, limits(process.limits, means.limits.long_lived()), &process.network);
    arguments.extend(mounts.into_iter().flat_map(|mount| [OsString::from("--mount"), mount.into()]));
    let mut environment = Vec::new();
    for (name, value) in &process.environment {
        arguments.push("--env".into());
        if ENGINE_VARIABLES.iter().any(|own| name.starts_with(own)) {
            arguments.push(format!("{name}={}", value.expose()).into());
        } else {
            // The value stays out of the process list.
            arguments.push(name.into());
            environment.push((name.clone(), value.expose().to_owned()));
        }
    }
    if let Some(entrypoint) = &process.entrypoint {
        arguments.extend(["--entrypoint".into(), entrypoint.into()]);
    }
    arguments.push(image.into());
    arguments.extend(process.arguments.iter().cloned());
    let log = process.log.as_deref().map(server_log::appender);
    let start = ContainerStart { engine, name, arguments, environment, log };
    start.run(&means.environment).map_err(|error| {
        Failure::new(ErrorCode::Internal, format!("the container engine could not be started: {error}"))
    })
}

/// The options of every container.
fn least(name: &str, limits: ResourceLimits, network: &[String]) -> Vec<OsString> {
    let network = if network.is_empty() { "none" } else { "bridge" };
    let words = [
        "run".to_owned(),
        "--rm".to_owned(),
        "--interactive".to_owned(),
        // What was locked, or nothing.
        "--pull=never".to_owned(),
        format!("--name={name}"),
        format!("--network={network}"),
        "--read-only".to_owned(),
        format!("--tmpfs=/tmp:rw,nosuid,nodev,size={}", limits.temporary),
        "--cap-drop=ALL".to_owned(),
        "--security-opt=no-new-privileges".to_owned(),
        format!("--pids-limit={}", limits.processes),
        format!("--memory={}", limits.memory),
        format!("--ulimit=nofile={0}:{0}", limits.open_files),
        // Without it an engine raises the limit, which one that runs in a container itself may not.
        format!("--ulimit=nproc={MAX_USER_PROCESSES}:{MAX_USER_PROCESSES}"),
        "--ulimit=core=0:0".to_owned(),
        // The conversation stays out of the engine's logs.
        "--log-driver=none".to_owned(),
    ];
    words.map(OsString::from).to_vec()
}

/// The mounts with what is denied in them, as of now.
fn bind_mounts(
    workspace: &Workspace,
    process: &ProcessSettings,
    empty: &Path,
) -> Result<Vec<String>, Failure> {
    let requests: Vec<ConfineRequest<'_>> =
        process.mounts.iter().map(|(alias, _)| ConfineRequest { alias, writable: false }).collect();
    let stop = Deadline::after(SCAN_TIMEOUT);
    let confined = confine(workspace, &requests, None, &stop).map_err(|error| {
        Failure::new(ErrorCode::NotPermitted, format!("the mounts cannot be looked through: {error}"))
    })?;
    let mut words = Vec::new();
    for mount in &confined {
        reject_place_in_writable(workspace, mount)?;
        let target = target(process, mount.alias());
        words.push(bind(mount.host_root(), &target)?);
        for overlay in mount.overlays() {
            let (path, source) = match overlay {
                MountOverlay::Mask { path, directory: true } => (path, empty),
                MountOverlay::Mask { path, .. } | MountOverlay::Substitute { path, .. } => {
                    (path, Path::new("/dev/null"))
                }
                // The mount is read-only as a whole.
                MountOverlay::ReadOnly { .. } | MountOverlay::PinDirectory { .. } => continue,
            };
            words.push(bind(source, &target.join(path))?);
        }
    }
    Ok(words)
}

fn target(process: &ProcessSettings, alias: &str) -> PathBuf {
    let named = process.mount_paths.iter().find(|(known, _)| known == alias);
    named.map_or_else(|| toolgate_command::inside(alias, ""), |(_, path)| PathBuf::from(path))
}

/// The engine resolves the path of a mount again. Where a model can write to a directory above it, something else could be there by then.
fn reject_place_in_writable(workspace: &Workspace, mount: &ConfinedMount<'_>) -> Result<(), Failure> {
    let root = mount.host_root();
    let above = workspace.mounts().iter().find(|other| {
        other.access() != MountAccess::ReadOnly
            && other.host_root() != root
            && root.starts_with(other.host_root())
    });
    match above {
        Some(above) => {
            let message = format!("`{}` lies in `{}`, which tools may change", mount.alias(), above.alias());
            let help = "give the container a directory outside of it";
            Err(Failure::new(ErrorCode::NotPermitted, message).help(help))
        }
        None => Ok(()),
    }
}

/// One value of `--mount`. A path with a comma would end it early.
fn bind(source: &Path, target: &Path) -> Result<String, Failure> {
    let plain = |path: &Path| {
        let text =
            path.to_str().filter(|text| !text.contains([',', '"']) && !text.contains(char::is_control));
        text.map(str::to_owned).ok_or_else(|| {
            let message = format!("the engine cannot be given `{}`: its name is not plain", path.display());
            Failure::new(ErrorCode::InvalidArguments, message)
        })
    };
    Ok(format!("type=bind,source={},target={},readonly", plain(source)?, plain(target)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_adds_no_option_to_a_mount() {
        let fine = bind(Path::new("/home/a b/notes"), Path::new("/notes")).unwrap();
        assert_eq!(fine, "type=bind,source=/home/a b/notes,target=/notes,readonly");
        for bad in ["/a,bind-propagation=shared", "/a\"b", "/a\nb"] {
            assert!(bind(Path::new(bad), Path::new("/x")).is_err(), "{bad}");
            assert!(bind(Path::new("/x"), Path::new(bad)).is_err(), "{bad}");
        }
    }
}

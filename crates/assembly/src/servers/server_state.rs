//! What is kept for each server in the state directory: its installed package, its home directory, its standard error.
//!
//! Each belongs to a configuration, a name and a program together: another configuration with a server of the same name gets neither the files nor the
//! package of this one, and neither does another program under the same name.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::PathBuf;

use toolgate_command::size_of_tree;
use toolgate_connect::{HomeSettings, PackageSettings};
use toolgate_manifest::{ServerConfig, ServerProcessConfig, ServerTransport};
use toolgate_packages::{PackageError, PackageStore};
use toolgate_types::digest::Sha256Hasher;

use super::container;
use super::container_process::ContainerEngine;
use crate::ambient::{exists, open_directory, real_path};
use crate::gate_builder::{HOMES, PACKAGES, SERVER_LOGS};
use crate::settings::Settings;
use crate::state_dir;

/// How many bytes a home directory may hold where the configuration does not say.
const USUAL_HOME_BYTES: u64 = 1 << 30;

/// Digits of the digest in a name.
const DIGEST_DIGITS: usize = 16;

/// The paths of one server in the state directory.
#[derive(Clone, Debug)]
pub struct ServerStatePaths {
    /// Its installed package.
    pub package: Option<PackageSettings>,
    /// Its home directory.
    pub home: Option<HomeSettings>,
    /// Its standard error.
    pub log: PathBuf,
}

impl ServerStatePaths {
    /// The paths of a server that is a process.
    #[must_use]
    pub fn of(settings: &Settings, server: &ServerConfig) -> Option<Self> {
        let ServerTransport::Process(process) = &server.transport else { return None };
        let name = &server.name.value;
        Some(Self {
            package: package(settings, name, process),
            home: home(settings, name, process),
            log: log(settings, name, process),
        })
    }
}

/// What a start of a server would say that can be known without one, and what to do about it.
#[must_use]
pub fn start_problem(settings: &Settings, server: &ServerConfig) -> Option<(String, String)> {
    let ServerTransport::Process(process) = &server.transport else { return None };
    let engine = container::is_image(process).then(|| ContainerEngine::find(&settings.environment).err());
    if let Some(missing) = engine.flatten() {
        return Some((missing, "install one, or disable the server".to_owned()));
    }
    let home = || {
        let home = home(settings, &server.name.value, process).filter(|home| exists(&home.directory))?;
        let directory = open_directory(&home.directory).ok()?;
        full_home(&home, &directory).map(|(message, help)| (message, help.to_owned()))
    };
    package_problem(settings, server).or_else(home)
}

/// Why a home directory that holds too much is not used, and what to do about it.
pub(super) fn full_home(home: &HomeSettings, directory: &File) -> Option<(String, &'static str)> {
    let size = size_of_tree(directory.as_fd(), home.max_bytes);
    let is_full = size.is_none_or(|size| size > home.max_bytes);
    let (place, most) = (home.directory.display(), home.max_bytes);
    is_full.then(|| {
        let message = format!("its home directory `{place}` holds more than the {most} bytes that it may");
        (message, "remove what it does not need, or raise `limits.home_size`")
    })
}

/// What a start of a server's package would say, and what to do about it; `None` if it is installed as it is declared.
fn package_problem(settings: &Settings, server: &ServerConfig) -> Option<(String, String)> {
    let package = ServerStatePaths::of(settings, server)?.package?;
    let said = |error: &PackageError| Some((error.to_string(), error.help(&package.server)));
    // Without an installation there may be no key either, and none is made for a look.
    if !exists(&package.directory) {
        return said(&PackageError::NotInstalled { spec: package.spec.to_string() });
    }
    let key = match state_dir::key(settings) {
        Ok(key) => key,
        Err(error) => return Some((error.to_string(), "see `toolgate doctor`".to_owned())),
    };
    let store = PackageStore::new(package.directory.clone(), key);
    store.verified(&package.spec, &package.with, package.install_scripts).err().as_ref().and_then(said)
}

pub(super) fn package(
    settings: &Settings,
    server: &str,
    process: &ServerProcessConfig,
) -> Option<PackageSettings> {
    let spec = process.package.as_ref()?.value.clone();
    Some(PackageSettings {
        server: server.to_owned(),
        spec,
        with: process.with.iter().map(|package| package.value.clone()).collect(),
        install_scripts: process.install_scripts,
        directory: settings.state_dir.join(PACKAGES).join(directory_name(settings, server, process)),
    })
}

pub(super) fn home(settings: &Settings, server: &str, process: &ServerProcessConfig) -> Option<HomeSettings> {
    (!process.ephemeral && !container::is_image(process)).then(|| HomeSettings {
        directory: settings.state_dir.join(HOMES).join(directory_name(settings, server, process)),
        max_bytes: process.limits.home_size.unwrap_or(USUAL_HOME_BYTES),
    })
}

pub(super) fn log(settings: &Settings, server: &str, process: &ServerProcessConfig) -> PathBuf {
    settings.state_dir.join(SERVER_LOGS).join(format!("{}.log", directory_name(settings, server, process)))
}

fn directory_name(settings: &Settings, server: &str, process: &ServerProcessConfig) -> String {
    let mut hasher = Sha256Hasher::new();
    let configuration = settings.loaded.file().map(|file| real_path(file)).unwrap_or_default();
    hasher.update_prefixed(configuration.as_os_str().as_encoded_bytes());
    hasher.update_prefixed(server.as_bytes());
    match &process.package {
        // Without the version, so that an update keeps what the server wrote.
        Some(package) => hasher.update_prefixed(package.value.newest().to_string().as_bytes()),
        None => hasher.update_prefixed(process.program.value.as_bytes()),
    }
    let digest: String = hasher.finish().to_string().chars().take(DIGEST_DIGITS).collect();
    format!("{server}-{digest}")
}

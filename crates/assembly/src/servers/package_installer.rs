//! Runs package managers in the sandbox: the package's directory and scratch space are writable, the network ends at the configured registry.

use std::fs::File;
use std::io::Read as _;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use toolgate_command::{CommandRunner, ConfinedProcess, OwnDirectory, StartedProcess};
use toolgate_connect::PackageSettings;
use toolgate_egress::{AddressClass, Dial, SystemDialer, UpstreamProxy};
use toolgate_packages::{
    InstallRequest, InstallSandbox, InstallStep, PACKAGE_PATH, PackageError, PackageStore, PulledImage,
    RegistryAccess, SCRATCH_PATH, StagedPackage, StepOutput, UserConfig, install,
};
use toolgate_sandbox::{PROXY_PORT, ResourceLimits, refused_place};
use toolgate_types::StateKey;

use super::container_process::{ContainerEngine, last_line};
use super::sandbox_launcher::block_on;
use crate::ambient::{HostEnvironment, exists, open_directory};
use crate::error::BuildError;
use crate::protected_paths::GateOwnedPaths;
use crate::sandbox_settings;
use crate::settings::Settings;
use crate::state_dir;

/// The timeout of one step.
const STEP_TIMEOUT: Duration = Duration::from_secs(900);

/// How much of the standard output of a step is read.
const MAX_OUTPUT_BYTES: u64 = 16 << 20;

/// The configuration of package managers below the home directory.
const CONFIG_FILES: [&str; 4] = [".npmrc", ".config/pip", ".pip", ".config/uv"];

/// Variables that name a file which package managers read.
const FILE_VARIABLES: [&str; 14] = [
    "NPM_CONFIG_USERCONFIG",
    "npm_config_userconfig",
    "NPM_CONFIG_CAFILE",
    "npm_config_cafile",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CONFIG_FILE",
    "PIP_CERT",
    "PIP_CLIENT_CERT",
    "UV_CONFIG_FILE",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "SSL_CLIENT_CERT",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
];

/// Variables that configure registries and certificates. Others of npm, pip and uv name directories to write to, or turn protections off.
const CONFIG_VARIABLES: [&str; 23] = [
    "NPM_CONFIG_REGISTRY",
    "npm_config_registry",
    "NPM_CONFIG_STRICT_SSL",
    "npm_config_strict_ssl",
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS",
    "PIP_NO_INDEX",
    "PIP_TRUSTED_HOST",
    "PIP_DEFAULT_TIMEOUT",
    "PIP_TIMEOUT",
    "PIP_RETRIES",
    "UV_DEFAULT_INDEX",
    "UV_INDEX",
    "UV_INDEX_URL",
    "UV_EXTRA_INDEX_URL",
    "UV_INDEX_STRATEGY",
    "UV_INSECURE_HOST",
    "UV_NATIVE_TLS",
    "UV_SYSTEM_CERTS",
    "UV_HTTP_TIMEOUT",
    "NETRC",
    "PIP_USE_FEATURE",
];

/// Installs packages of servers.
pub struct PackageInstaller {
    runner: Arc<CommandRunner>,
    dialer: Arc<dyn Dial>,
    environment: HostEnvironment,
    user: UserConfig,
    limits: ResourceLimits,
    key: StateKey,
    report: fn(&str),
}

impl PackageInstaller {
    /// An installer with the settings of a gate; `report` receives remarks for the person.
    pub fn new(settings: &Settings, report: fn(&str)) -> Result<Self, BuildError> {
        let own = GateOwnedPaths::of(settings);
        let runner = sandbox_settings::install_runner(settings, &own)?;
        let environment = settings.environment.clone();
        let dialer = settings.supplied.dialer.clone().unwrap_or_else(|| Arc::new(SystemDialer));
        let usual = runner.limits().long_lived();
        // A package manager unpacks hundreds of archives concurrently.
        let limits = ResourceLimits {
            memory: usual.memory.max(2 << 30),
            processes: usual.processes.max(512),
            file_size: usual.file_size.max(2 << 30),
            open_files: usual.open_files.max(4096),
            temporary: usual.temporary.max(256 << 20),
            ..usual
        };
        let user = user_config(&environment);
        Ok(Self { runner, dialer, environment, user, limits, key: state_dir::key(settings)?, report })
    }

    /// The store of a server's package.
    #[must_use]
    pub fn store(&self, package: &PackageSettings) -> PackageStore {
        PackageStore::new(package.directory.clone(), self.key.clone())
    }

    /// Installs a package of a server into the store, without making it current.
    ///
    /// # Errors
    /// See [`PackageError`].
    pub fn install<'s>(
        &self,
        store: &'s PackageStore,
        package: &PackageSettings,
        program: &str,
    ) -> Result<StagedPackage<'s>, PackageError> {
        let request = InstallRequest {
            spec: &package.spec,
            with: &package.with,
            install_scripts: package.install_scripts,
            program,
        };
        install(store, &request, self)
    }

    /// The entries of an allowlist for the registries of a step, and for the hosts of their archives.
    fn network(&self, access: &RegistryAccess) -> Vec<String> {
        let mut network: Vec<String> = Vec::new();
        let mut add = |entries: Vec<String>| {
            for entry in entries {
                if !network.contains(&entry) {
                    network.push(entry);
                }
            }
        };
        let mut is_private = false;
        for url in &access.registries {
            let (own, private) = self.entries(url);
            is_private |= !private.is_empty();
            add(own);
            add(private);
        }
        for url in &access.archives {
            let (own, private) = self.entries(url);
            // An index of the internet does not name a host of this network.
            if private.is_empty() || is_private {
                add(own);
                add(private);
            }
        }
        network
    }

    /// The entries for the host of a URL, and those for its private addresses: the person configured it.
    fn entries(&self, url: &str) -> (Vec<String>, Vec<String>) {
        let Some((host, port)) = authority(url) else { return Default::default() };
        let entry = |host: &str| match port {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        let needs_entry = |address: &IpAddr| {
            !matches!(
                AddressClass::of(*address),
                AddressClass::Public | AddressClass::Metadata | AddressClass::Never
            )
        };
        let of_address = |address: IpAddr| match address {
            IpAddr::V4(address) => entry(&address.to_string()),
            IpAddr::V6(address) => entry(&format!("[{address}]")),
        };
        let plain = host.trim_matches(['[', ']']);
        if let Ok(address) = plain.parse::<IpAddr>() {
            return (
                vec![entry(&host)],
                needs_entry(&address).then(|| of_address(address)).into_iter().collect(),
            );
        }
        let private = match host.as_str() {
            "localhost" => vec![entry(&host)],
            _ => {
                let addresses = self.dialer.resolve(&host).unwrap_or_default();
                addresses.into_iter().filter(needs_entry).map(of_address).collect()
            }
        };
        (vec![entry(&host)], private)
    }

    /// The proxy in front of the registries.
    fn upstream(&self, access: &RegistryAccess) -> Option<UpstreamProxy> {
        let url = access.proxy.as_deref()?;
        let parsed = UpstreamProxy::parse(url, access.no_proxy.clone());
        parsed.map_err(|error| (self.report)(&format!("{error}, so it is not used"))).ok()
    }

    /// The files of the person's configuration that a step sees, and those that these name.
    fn shown_files(&self, step: &InstallStep) -> Vec<PathBuf> {
        if !step.configured {
            return Vec::new();
        }
        let named = step.access.files.iter().filter(|path| refused_place(path).is_none() && exists(path));
        let mut files = self.user.files.clone();
        for path in named {
            if !files.contains(path) {
                files.push(path.clone());
            }
        }
        files
    }

    fn process(&self, step: &InstallStep, own: Vec<OwnDirectory>) -> ConfinedProcess {
        let mut words = step.command.iter();
        let program = words.next().cloned().unwrap_or_default();
        let network = self.network(&step.access);
        let mut environment = step.environment.clone();
        environment.push(("XDG_CACHE_HOME".to_owned(), format!("{SCRATCH_PATH}/cache")));
        if step.configured {
            environment.extend(self.user.variables.iter().cloned());
        }
        if step.configured && !network.is_empty() {
            // The configuration may name a proxy; from the sandbox, only its own can be reached, which then uses that one.
            let proxy = format!("http://127.0.0.1:{PROXY_PORT}");
            let variables =
                [("npm_config_proxy", &proxy), ("npm_config_https_proxy", &proxy), ("PIP_PROXY", &proxy)];
            environment.extend(variables.map(|(name, value)| (name.to_owned(), value.clone())));
            environment.push(("npm_config_noproxy".to_owned(), String::new()));
        }
        let home = self.environment.home.as_ref().filter(|_| step.configured).and_then(|home| home.to_str());
        environment.extend(home.map(|home| ("HOME".to_owned(), home.to_owned())));
        ConfinedProcess {
            program: program.into(),
            arguments: words.map(Into::into).collect(),
            directory: None,
            mounts: Vec::new(),
            environment,
            upstream: self.upstream(&step.access).filter(|_| !network.is_empty()),
            network,
            read: self.shown_files(step),
            limits: Some(self.limits),
            own,
            host_paths: false,
            log: None,
        }
    }
}

impl InstallSandbox for PackageInstaller {
    fn run(&self, step: &InstallStep, package: &Path, scratch: &Path) -> Result<StepOutput, PackageError> {
        let unusable = |path: &Path, error: std::io::Error| {
            PackageError::Answer(format!("`{}` cannot be opened: {error}", path.display()))
        };
        let own = |path: &Path, at: &str| {
            Ok(OwnDirectory {
                directory: Arc::new(open_directory(path).map_err(|error| unusable(path, error))?.into()),
                at: PathBuf::from(at),
                writable: true,
                max_bytes: None,
            })
        };
        let own = vec![own(package, PACKAGE_PATH)?, own(scratch, SCRATCH_PATH)?];
        let process = self.process(step, own);
        let not_started = |failure: toolgate_types::Failure| {
            let note = failure.operator_note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
            PackageError::Answer(format!("`{}` could not be started: {failure}{note}", step.shown()))
        };
        let StartedProcess { input, output, process } = self.runner.start(&process).map_err(not_started)?;
        drop(input);
        let (done, watched) = mpsc::channel::<()>();
        let process = Arc::new(process);
        let watch = Arc::clone(&process);
        // A package manager that hangs is ended; one that ends wakes the watch.
        let watcher = std::thread::spawn(move || {
            if watched.recv_timeout(STEP_TIMEOUT) == Err(mpsc::RecvTimeoutError::Timeout) {
                watch.end();
            }
        });
        let output = read_all(output).map_err(|error| unusable(package, error));
        let ended = block_on(process.ended());
        drop(done);
        let _ = watcher.join();
        Ok(StepOutput {
            success: ended.success,
            how: ended.reason,
            output: String::from_utf8_lossy(&output?).into_owned(),
            said: process.errors(),
        })
    }

    fn pull_image(&self, name: &str) -> Result<PulledImage, PackageError> {
        let engine =
            ContainerEngine::find(&self.environment).map_err(|wanted| PackageError::NoManager { wanted })?;
        let ask = |words: &[&str]| {
            let cannot =
                |error: std::io::Error| PackageError::Answer(format!("the engine cannot be asked: {error}"));
            engine.ask(&self.environment, words, STEP_TIMEOUT).map_err(cannot)
        };
        let pulled = ask(&["pull", "--quiet", name])?;
        let inspected = ask(&["image", "inspect", "--format", "{{.Id}}", name])?;
        if !inspected.success {
            let (step, how) = (format!("pull {name}"), "it has no such image".to_owned());
            return Err(PackageError::Step { step, how, said: format!("{}{}", pulled.said, inspected.said) });
        }
        if !pulled.success {
            let reason = last_line(&pulled.said);
            (self.report)(&format!(
                "`{name}` cannot be fetched, so the one that the engine has is used: {reason}"
            ));
        }
        let id = inspected.output.trim();
        let id = if id.contains(':') { id.to_owned() } else { format!("sha256:{id}") };
        Ok(PulledImage { id, engine: engine.about.clone() })
    }

    fn has_program(&self, name: &str) -> bool {
        self.runner.has_program(name)
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.environment.var(name)
    }

    fn report(&self, words: &str) {
        (self.report)(words);
    }
}

/// Reads to the end, and drops what is beyond the limit.
fn read_all(output: OwnedFd) -> std::io::Result<Vec<u8>> {
    rustix::fs::fcntl_setfl(&output, rustix::fs::OFlags::empty())?;
    let (mut file, mut bytes) = (File::from(output), Vec::new());
    (&mut file).take(MAX_OUTPUT_BYTES).read_to_end(&mut bytes)?;
    std::io::copy(&mut file, &mut std::io::sink())?;
    Ok(bytes)
}

/// The host and the port of a URL, without user information.
fn authority(url: &str) -> Option<(String, Option<u16>)> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let authority = rest.get(..end)?.rsplit('@').next()?;
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (host, port.parse().ok()),
        _ => (authority, None),
    };
    (!host.is_empty()).then(|| (host.to_ascii_lowercase(), port))
}

/// What of the user configures package managers.
fn user_config(environment: &HostEnvironment) -> UserConfig {
    let named = FILE_VARIABLES.iter().filter_map(|name| environment.var(name)).map(PathBuf::from);
    let home = environment.home.iter().flat_map(|home| CONFIG_FILES.map(|path| home.join(path)));
    let mut files: Vec<PathBuf> =
        named.chain(home).filter(|path| refused_place(path).is_none() && exists(path)).collect();
    files.sort();
    files.dedup();
    let names = CONFIG_VARIABLES.iter().chain(&FILE_VARIABLES);
    let variables = names.filter_map(|name| Some(((*name).to_owned(), environment.var(name)?))).collect();
    UserConfig { files, variables }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_a_registry_is_taken_apart() {
        for (url, expected) in [
            ("https://registry.example/", Some(("registry.example", None))),
            ("http://127.0.0.1:4873", Some(("127.0.0.1", Some(4873)))),
            ("https://user:pass@Npm.Example:8443/a/b", Some(("npm.example", Some(8443)))),
            ("http://[::1]:80/", Some(("[::1]", Some(80)))),
            ("file:///x", None),
            ("https://", None),
        ] {
            let expected = expected.map(|(host, port): (&str, Option<u16>)| (host.to_owned(), port));
            assert_eq!(authority(url), expected, "{url}");
        }
    }
}

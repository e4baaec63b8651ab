//! A gate with a bridge, and processes that are started without a sandbox.

use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use toolgate_assembly::ambient::HostEnvironment;
use toolgate_assembly::callers::{LOCAL_ISSUER, LOCAL_KEY_ID, issuer_verifier};
use toolgate_assembly::error::BuildError;
use toolgate_assembly::gate_builder::{GateBuildOptions, build_gate};
use toolgate_assembly::load::{TokenVerification, load};
use toolgate_assembly::overrides::SettingsOverrides;
use toolgate_assembly::protected_paths::GateOwnedPaths;
use toolgate_assembly::settings::{Settings, resolve_settings};
use toolgate_assembly::trust::TrustPrompt;
use toolgate_connect::{
    Bridge, BridgeOptions, HealthState, LaunchedServer, Pins, ProcessSettings, RunningProcess, ServerHealth,
    ServerLauncher, ServerSettings, ServerTimeouts, ToolSettings, TransportSettings,
};
use toolgate_gate::{BlockingStrategy, CallOptions, Credential, Gate, NoApprover};
use toolgate_identity::{
    Algorithm, ClaimNames, Issuer, KeySource, MintOptions, SharedSecret, generate_secret, mint,
};
use toolgate_oauth::TokenStore;
use toolgate_types::{
    Backoff, Caller, ErrorCode, Failure, Limits, Outcome, Stage, StateKey, ToolCall, ToolClass, ToolOutput,
    Trust,
};
use toolgate_workspace::Workspace;

/// Starts the given program with an empty environment.
pub(crate) struct UnsandboxedLauncher;

struct Process {
    child: Mutex<Child>,
    errors: Arc<Mutex<Vec<u8>>>,
    draining: Mutex<Option<JoinHandle<()>>>,
}

/// The same; the paths in here count as left behind by the process that is scanned next.
#[derive(Clone, Default)]
pub(crate) struct LeftoverLauncher(pub(crate) Arc<Mutex<Vec<String>>>);

struct LeftoverProcess {
    process: Arc<dyn RunningProcess>,
    left: LeftoverLauncher,
}

impl LeftoverLauncher {
    pub(crate) fn leave(&self, path: &str) {
        self.0.lock().unwrap().push(path.to_owned());
    }
}

impl ServerLauncher for LeftoverLauncher {
    fn launch(&self, process: &ProcessSettings) -> Result<LaunchedServer, Failure> {
        let launched = UnsandboxedLauncher.launch(process)?;
        let process = LeftoverProcess { process: launched.process, left: self.clone() };
        Ok(LaunchedServer { process: Arc::new(process), ..launched })
    }
}

impl RunningProcess for LeftoverProcess {
    fn terminate(&self) {
        self.process.terminate();
    }

    fn exit_status(&self) -> Option<String> {
        self.process.exit_status()
    }

    fn stderr_tail(&self) -> String {
        self.process.stderr_tail()
    }

    fn can_write(&self) -> bool {
        true
    }

    fn quarantine(&self) -> Result<Vec<String>, Failure> {
        Ok(std::mem::take(&mut *self.left.0.lock().unwrap()))
    }

    fn quarantine_location(&self) -> Option<String> {
        Some("the cellar".to_owned())
    }
}

/// The same, for processes whose exit shows only at the next poll.
#[derive(Clone, Default)]
pub(crate) struct SlowExitLauncher {
    asked: Arc<AtomicU32>,
    /// The number of polls when the first was terminated.
    pub(crate) ended_after: Arc<OnceLock<u32>>,
}

struct SlowExitProcess {
    process: Arc<dyn RunningProcess>,
    going: SlowExitLauncher,
}

impl ServerLauncher for SlowExitLauncher {
    fn launch(&self, process: &ProcessSettings) -> Result<LaunchedServer, Failure> {
        let launched = UnsandboxedLauncher.launch(process)?;
        let process = SlowExitProcess { process: launched.process, going: self.clone() };
        Ok(LaunchedServer { process: Arc::new(process), ..launched })
    }
}

impl RunningProcess for SlowExitProcess {
    fn terminate(&self) {
        self.going.ended_after.get_or_init(|| self.going.asked.load(Ordering::SeqCst));
        self.process.terminate();
    }

    fn exit_status(&self) -> Option<String> {
        (self.going.asked.fetch_add(1, Ordering::SeqCst) > 0).then(|| "it went".to_owned())
    }

    fn stderr_tail(&self) -> String {
        self.process.stderr_tail()
    }
}

impl ServerLauncher for UnsandboxedLauncher {
    fn launch(&self, process: &ProcessSettings) -> Result<LaunchedServer, Failure> {
        let mut command = Command::new(&process.program);
        command
            .args(&process.arguments)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.envs(process.environment.iter().map(|(name, value)| (name, value.expose())));
        let mut child =
            command.spawn().map_err(|error| Failure::new(ErrorCode::CommandNotFound, error.to_string()))?;
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut stderr = child.stderr.take().unwrap();
        let errors: Arc<Mutex<Vec<u8>>> = Arc::default();
        let tail = Arc::clone(&errors);
        let draining = std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = stderr.read(&mut piece) {
                let mut tail = tail.lock().unwrap();
                tail.extend_from_slice(&piece[..count]);
                let over = tail.len().saturating_sub(4096);
                tail.drain(..over);
            }
        });
        let process = Process { child: Mutex::new(child), errors, draining: Mutex::new(Some(draining)) };
        Ok(LaunchedServer {
            input: OwnedFd::from(input),
            output: OwnedFd::from(output),
            process: Arc::new(process),
        })
    }
}

impl RunningProcess for Process {
    fn terminate(&self) {
        let mut child = self.child.lock().unwrap();
        let _ = child.kill();
        let _ = child.wait();
        if let Some(draining) = self.draining.lock().unwrap().take() {
            draining.join().unwrap();
        }
    }

    fn exit_status(&self) -> Option<String> {
        self.child.lock().unwrap().try_wait().ok().flatten().map(|status| status.to_string())
    }

    fn stderr_tail(&self) -> String {
        String::from_utf8_lossy(&self.errors.lock().unwrap()).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.terminate();
    }
}

/// Longer than any test.
pub(crate) const NEVER: Duration = Duration::from_secs(3600);

/// A timeout for what must happen: long enough for a slow and busy machine.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(300);

/// Held by tests that measure the memory of this process, and by those that take much of it.
pub(crate) static MEMORY: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// How servers are started and supervised.
pub(crate) struct FixtureOptions {
    pub(crate) launcher: Arc<dyn ServerLauncher>,
    pub(crate) scan_interval: Duration,
    /// The probe timeout.
    pub(crate) probe_timeout: Duration,
}

impl Default for FixtureOptions {
    fn default() -> Self {
        Self { launcher: Arc::new(UnsandboxedLauncher), scan_interval: NEVER, probe_timeout: NEVER }
    }
}

/// A gate, a bridge, and a directory that both they and the servers write to.
pub(crate) struct BridgeFixture {
    pub(crate) bridge: Arc<Bridge>,
    pub(crate) gate: Arc<Gate>,
    workspace: Arc<Workspace>,
    settings: Mutex<Settings>,
    pub(crate) folder: Arc<TempDir>,
    pub(crate) warnings: Arc<Mutex<Vec<String>>>,
}

pub(crate) fn limits() -> Limits {
    Limits {
        max_read_bytes: 1 << 20,
        max_resource_bytes: u64::MAX,
        max_write_bytes: 1 << 20,
        max_entries: 100,
        max_matches: 100,
        max_output_bytes: 1 << 20,
        timeout: TEST_TIMEOUT,
    }
}

/// The settings of a gate with its state and an empty workspace in this directory.
fn settings(directory: &Path) -> Settings {
    let overrides = SettingsOverrides {
        no_config: true,
        workspace: Some(directory.join("work")),
        state_dir: Some(directory.join("state")),
        ..SettingsOverrides::default()
    };
    let environment = HostEnvironment::bare(directory.to_path_buf());
    let mut settings =
        resolve_settings(&overrides, Trust::Autonomous, environment, TrustPrompt::Never).unwrap();
    settings.limits = limits();
    settings
}

pub(crate) fn caller() -> Caller {
    Caller {
        subject: "tester".to_owned(),
        permissions: ["*".to_owned()].into(),
        agent: None,
        session: "s".parse().unwrap(),
        run: None,
        trust: Trust::Autonomous,
    }
}

/// The Python fixture as a process, in a mode.
pub(crate) fn process(mode: &str, notes: Option<&Path>) -> TransportSettings {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/server.py");
    let mut arguments = vec![script.into_os_string(), mode.into()];
    arguments.extend(notes.map(|notes| notes.as_os_str().to_owned()));
    TransportSettings::Stdio(ProcessSettings {
        program: "/usr/bin/python3".into(),
        arguments,
        ..ProcessSettings::default()
    })
}

pub(crate) fn server(name: &str, transport: TransportSettings) -> ServerSettings {
    let mut settings = ServerSettings::new(name.parse().unwrap(), transport);
    settings.default_class = ToolClass::Read;
    (settings.timeout, settings.startup_timeout) = (TEST_TIMEOUT, TEST_TIMEOUT);
    settings
}

/// Settings for a tool with this timeout.
pub(crate) fn hurried(tool: &str, timeout: Duration) -> (String, ToolSettings) {
    (tool.to_owned(), ToolSettings { timeout: Some(timeout), ..ToolSettings::default() })
}

impl BridgeFixture {
    pub(crate) fn with(servers: Vec<ServerSettings>) -> Self {
        Self::again(Arc::new(TempDir::new().unwrap()), servers)
    }

    /// Another gate over a directory that was used before.
    pub(crate) fn again(folder: Arc<TempDir>, servers: Vec<ServerSettings>) -> Self {
        Self::caring(folder, servers, FixtureOptions::default())
    }

    /// Servers whose processes leave files behind, scanned at this interval.
    pub(crate) fn leaving(
        servers: Vec<ServerSettings>,
        left: &LeftoverLauncher,
        between_looks: Duration,
    ) -> Self {
        let care = FixtureOptions {
            launcher: Arc::new(left.clone()),
            scan_interval: between_looks,
            ..FixtureOptions::default()
        };
        Self::caring(Arc::new(TempDir::new().unwrap()), servers, care)
    }

    /// Servers whose processes exit by themselves.
    pub(crate) fn going(servers: Vec<ServerSettings>, going: &SlowExitLauncher) -> Self {
        let care = FixtureOptions { launcher: Arc::new(going.clone()), ..FixtureOptions::default() };
        Self::caring(Arc::new(TempDir::new().unwrap()), servers, care)
    }

    pub(crate) fn caring(folder: Arc<TempDir>, servers: Vec<ServerSettings>, care: FixtureOptions) -> Self {
        let FixtureOptions { launcher, scan_interval: between_looks, probe_timeout: silence } = care;
        let warnings: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = Arc::clone(&warnings);
        let complain: Arc<dyn Fn(&str) + Send + Sync> =
            Arc::new(move |words| heard.lock().unwrap().push(words.to_owned()));
        let bridge = Bridge::new(BridgeOptions {
            launcher,
            pins: Pins::new(folder.path().join("pins.toolgate")),
            tokens: login_tokens(folder.path()),
            error: Arc::clone(&complain),
            warn: complain,
            scan_interval: between_looks,
            backoff: Backoff {
                initial_delay: Duration::from_millis(20),
                max_delay: Duration::from_millis(200),
            },
            // No refill: the limit is reached however slowly the messages are read.
            timeouts: ServerTimeouts { probe_timeout: silence, unsolicited_per_second: 0 },
            runtime: tokio::runtime::Handle::current(),
        });
        bridge.configure(servers);
        let settings = settings(folder.path());
        let approver = Arc::new(NoApprover { remedy: "none".to_owned() });
        let options = GateBuildOptions {
            blocking: BlockingStrategy::ThreadPool,
            ..GateBuildOptions::without_servers(approver, TokenVerification::Disabled)
        };
        let assembled = build_gate(&settings, options).unwrap();
        let (gate, workspace) = (Arc::clone(assembled.gate.gate()), assembled.workspace);
        Self { bridge, gate, workspace, settings: Mutex::new(settings), folder, warnings }
    }

    /// The same, once its servers have settled.
    pub(crate) async fn ready(servers: Vec<ServerSettings>) -> Self {
        let setting = Self::with(servers);
        setting.load().await;
        setting
    }

    /// Loads the current tools into the gate.
    pub(crate) async fn load(&self) {
        self.bridge.ready(TEST_TIMEOUT).await;
        self.reload();
    }

    pub(crate) fn reload(&self) {
        let mut settings = self.settings.lock().unwrap();
        settings.supplied.tools = self.bridge.tools();
        let own = GateOwnedPaths::of(&settings);
        let loaded = load(&settings, &own, &self.workspace, TokenVerification::Disabled, None);
        self.gate.replace_config(loaded.map_err(BuildError::from).unwrap());
    }

    /// Loads the current tools into the gate, and believes callers with tokens from here on.
    pub(crate) fn reload_with_callers(&self) -> Callers {
        let secret = generate_secret().unwrap();
        let issuer = Issuer {
            issuer: LOCAL_ISSUER.to_owned(),
            audiences: vec![LOCAL_ISSUER.to_owned()],
            algorithms: vec![Algorithm::Hs256],
            keys: vec![KeySource::Secret { key_id: LOCAL_KEY_ID.to_owned(), secret: secret.clone() }],
            claims: ClaimNames::minted(),
            ..Issuer::default()
        };
        let mut settings = self.settings.lock().unwrap();
        settings.supplied.tools = self.bridge.tools();
        settings.supplied.verifier = Some(issuer_verifier(issuer).unwrap());
        let own = GateOwnedPaths::of(&settings);
        let loaded = load(&settings, &own, &self.workspace, TokenVerification::Enabled, None);
        self.gate.replace_config(loaded.map_err(BuildError::from).unwrap());
        Callers(secret)
    }

    /// A call by a caller with a token.
    pub(crate) async fn outcome_for(&self, callers: &Callers, subject: &str, tool: &str) -> Outcome {
        let credential = callers.credential(subject);
        let call = self.gate.call(
            ToolCall::new(tool, Value::Object(Default::default())),
            credential,
            CallOptions::default(),
        );
        tokio::time::timeout(2 * TEST_TIMEOUT, call).await.expect("a call that ends").outcome
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.bridge.tools().iter().map(|tool| tool.spec().name.to_string()).collect()
    }

    pub(crate) async fn outcome(&self, tool: &str, arguments: Value, options: CallOptions) -> Outcome {
        let call = self.gate.call(ToolCall::new(tool, arguments), caller(), options);
        tokio::time::timeout(2 * TEST_TIMEOUT, call).await.expect("a call that ends").outcome
    }

    pub(crate) async fn done(&self, tool: &str, arguments: Value) -> ToolOutput {
        match self.outcome(tool, arguments, CallOptions::default()).await {
            Outcome::Done(output) => output,
            Outcome::Failed { stage, failure } => {
                panic!("{tool} at {stage:?}: {failure:?}; {:?}", self.warnings.lock().unwrap())
            }
        }
    }

    pub(crate) async fn failed(&self, tool: &str, arguments: Value) -> (Stage, Failure) {
        self.failed_with(tool, arguments, CallOptions::default()).await
    }

    pub(crate) async fn failed_with(
        &self,
        tool: &str,
        arguments: Value,
        options: CallOptions,
    ) -> (Stage, Failure) {
        match self.outcome(tool, arguments, options).await {
            Outcome::Done(output) => panic!("{tool} answered {output:?}"),
            Outcome::Failed { stage, failure } => (stage, failure),
        }
    }

    pub(crate) fn health(&self, name: &str) -> ServerHealth {
        self.bridge.health().into_iter().find(|health| health.name.as_str() == name).unwrap()
    }

    /// Waits until a condition holds.
    pub(crate) async fn until(&self, what: &str, mut so: impl FnMut() -> bool) {
        let begun = Instant::now();
        while begun.elapsed() < TEST_TIMEOUT {
            if so() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("never so: {what}; {:?} {:?}", self.bridge.health(), self.warnings.lock().unwrap());
    }

    pub(crate) async fn until_state(&self, name: &str, state: HealthState) {
        self.until(state.as_str(), || self.health(name).state == state).await;
    }

    pub(crate) fn complained(&self, words: &str) -> bool {
        self.warnings.lock().unwrap().iter().any(|complaint| complaint.contains(words))
    }
}

/// Options with a cancellation token.
pub(crate) fn cancelling() -> (CallOptions, CancellationToken) {
    let token = CancellationToken::new();
    (CallOptions { cancelled: token.clone(), ..CallOptions::default() }, token)
}

/// A directory for notes between a test and a server.
pub(crate) fn notes(folder: &TempDir) -> PathBuf {
    let notes = folder.path().join("notes");
    std::fs::create_dir_all(&notes).unwrap();
    notes
}

/// Mints tokens of callers.
pub(crate) struct Callers(SharedSecret);

impl Callers {
    fn credential(&self, subject: &str) -> Credential {
        let token = mint(&MintOptions {
            secret: &self.0,
            key_id: LOCAL_KEY_ID,
            issuer: LOCAL_ISSUER,
            audience: LOCAL_ISSUER,
            subject,
            permissions: [].into(),
            agent: None,
            trust: None,
            now: std::time::SystemTime::now(),
            lifetime: Duration::from_secs(600),
        });
        let session = "s".parse().unwrap();
        Credential::Token { token: token.unwrap(), session, run: None, trust: Trust::Autonomous }
    }
}

/// The logins of one user.
pub(crate) fn login_tokens(folder: &Path) -> Arc<TokenStore> {
    Arc::new(TokenStore::new(folder.join("tokens.toolgate"), Some(StateKey::new([7; 32]))))
}

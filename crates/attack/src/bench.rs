//! A gate in this process, from the composition root that the binary uses.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::runtime::Runtime;
use toolgate_assembly::ambient::HostEnvironment;
use toolgate_assembly::config_files::SourceFile;
use toolgate_assembly::error::BuildError;
use toolgate_assembly::gate_builder::{AssembledGate, GateBuildOptions, build_gate};
use toolgate_assembly::load::{TokenVerification, load};
use toolgate_assembly::overrides::SettingsOverrides;
use toolgate_assembly::protected_paths::GateOwnedPaths;
use toolgate_assembly::settings::{Settings, resolve_settings};
use toolgate_assembly::supplied::SuppliedParts;
use toolgate_assembly::trust::TrustPrompt;
use toolgate_audit::{Record, RecordFilter, VerifyOptions};
use toolgate_command::BackgroundCommands;
use toolgate_egress::Dial;
use toolgate_gate::{
    Approver, AuditMode, BlockingStrategy, CallOptions, Clock, Credential, Gate, GateConfig, NoApprover,
    Tool, UndoError, UndoOptions, UndoOutcome,
};
use toolgate_identity::Verifier;
use toolgate_manifest::OnAuditFailure;
use toolgate_sandbox::{Layers, Sandbox, SandboxError};
use toolgate_tools::{CallResponse, Profile, ProfiledGate};
use toolgate_types::{CallId, Caller, ErrorCode, ToolCall, Trust};
use toolgate_workspace::Workspace;

/// The key that state directories of tests are sealed with: 32 times the byte 7, so that tests can forge and verify seals.
const STATE_KEY: &str = "0707070707070707070707070707070707070707070707070707070707070707\n";

/// The options of a [`Bench`]: a configuration and an environment as an operator would have them, and the parts that a test replaces.
pub struct BenchOptions {
    overrides: SettingsOverrides,
    environment: HostEnvironment,
    config: String,
    has_reserve: bool,
    state: PathBuf,
    profile: Profile,
    audit_mode: Option<AuditMode>,
    supplied: SuppliedParts,
    clock: Option<Clock>,
    audit_clock: Option<toolgate_audit::Clock>,
    approver: Arc<dyn Approver>,
    approval_timeout: Option<Duration>,
    blocking: BlockingStrategy,
}

/// A shipped manifest as an operator would widen it: any directory, and files of any name. Attacks use arbitrary names, and must not be stopped by
/// the shipped `enum`.
#[must_use]
pub fn widened(manifest: &str) -> String {
    let (declared, _) = manifest.split_once("\nexamples:").unwrap_or((manifest, ""));
    let any_directory = declared
        .replace("enum: [src, tests, tools, docs]", "type: string\n      maxLength: 1024\n      minLength: 1")
        .replace("required: [pattern, directory]", "required: [pattern]")
        .replace("  required: [directory]\n", "");
    match any_directory.split_once("      x-toolgate-extensions: [") {
        Some((before, after)) => {
            format!("{before}{}\n", after.split_once("]\n").map_or("", |(_, rest)| rest))
        }
        None => format!("{any_directory}\n"),
    }
}

impl BenchOptions {
    /// A profile over a workspace, with the gate's own files in `state`. No approver is available; there is no home directory and no variable.
    #[must_use]
    pub fn new(profile: Profile, workspace: &Path, state: &Path) -> Self {
        Self {
            overrides: SettingsOverrides {
                profile: Some(profile.name().to_owned()),
                workspace: Some(workspace.to_path_buf()),
                state_dir: Some(state.to_path_buf()),
                run: Some("run".parse().unwrap()),
                ..SettingsOverrides::default()
            },
            environment: HostEnvironment::bare(workspace.to_path_buf()),
            config: String::new(),
            has_reserve: true,
            state: state.to_path_buf(),
            profile,
            audit_mode: None,
            supplied: SuppliedParts::default(),
            clock: None,
            audit_clock: None,
            approver: Arc::new(NoApprover { remedy: "ask in a test".to_owned() }),
            approval_timeout: None,
            blocking: BlockingStrategy::Inline,
        }
    }

    /// `$HOME`. Keys and baselines are then kept in its default state directory.
    #[must_use]
    pub fn home(mut self, home: &Path) -> Self {
        self.environment.home = Some(home.to_path_buf());
        self
    }

    /// `$XDG_STATE_HOME`.
    #[must_use]
    pub fn state_home(mut self, state_home: &Path) -> Self {
        self.environment.state_home = Some(state_home.to_path_buf());
        self
    }

    /// A variable of the environment.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.variables.insert(name.to_owned(), value.to_owned());
        self
    }

    /// The configuration, as in `toolgate.yaml`. Further calls add further keys.
    #[must_use]
    pub fn config(mut self, yaml: &str) -> Self {
        self.config.push_str(yaml);
        self.config.push('\n');
        self
    }

    /// Globs that the operator denies in every mount.
    #[must_use]
    pub fn deny(self, globs: &[&str]) -> Self {
        self.config(&format!("deny: {}", json!(globs)))
    }

    /// A file or directory with manifests, which belongs to the gate.
    #[must_use]
    pub fn own_file(self, path: &Path) -> Self {
        self.config(&format!("tools: {}", json!([path])))
    }

    /// The disk space that commands must leave free on the filesystem of the audit directory, in bytes.
    #[must_use]
    pub fn reserve(self, bytes: u64) -> Self {
        self.config(&format!("audit: {{reserve: {bytes}}}"))
    }

    /// Without a reserve, which no configuration can have: a command then fills the disk as another program of the user may.
    #[must_use]
    pub fn without_reserve(mut self) -> Self {
        self.has_reserve = false;
        self
    }

    /// One more writable mount.
    #[must_use]
    pub fn mount_also(mut self, alias: &str, path: &Path) -> Self {
        self.overrides.mounts.push(format!("{alias}={}", path.display()));
        self
    }

    /// One more read-only mount.
    #[must_use]
    pub fn mount_read_only(mut self, alias: &str, path: &Path) -> Self {
        self.overrides.mounts.push(format!("{alias}={}:ro", path.display()));
        self
    }

    /// Mounts a directory as `@pkg`, read-only.
    #[must_use]
    pub fn package(self, directory: &Path) -> Self {
        self.mount_read_only("@pkg", directory)
    }

    /// The shipped manifests, widened; see [`widened`].
    #[must_use]
    pub fn commands(self) -> Self {
        self.commands_in("@project")
    }

    /// The same, as an operator writes them who runs them in another mount.
    #[must_use]
    pub fn commands_in(mut self, alias: &str) -> Self {
        let manifest =
            |(file, text): &(&str, &str)| source_file(file, &widened(text).replace("@project", alias));
        self.supplied.manifests = self.profile.shipped().iter().map(manifest).collect();
        self
    }

    /// Declares tools by a manifest, instead of the shipped ones.
    #[must_use]
    pub fn manifest(mut self, yaml: &str) -> Self {
        self.supplied.manifests = vec![source_file("test.yaml", yaml)];
        self
    }

    /// Policies of the organisation, in Cedar.
    #[must_use]
    pub fn policies(mut self, cedar: &str) -> Self {
        self.supplied.policies = vec![source_file("test.cedar", cedar)];
        self
    }

    /// One more tool.
    #[must_use]
    pub fn tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.supplied.tools.push(tool);
        self
    }

    /// The background commands of the gate.
    #[must_use]
    pub fn background(mut self, commands: Arc<BackgroundCommands>) -> Self {
        self.supplied.background = commands;
        self
    }

    /// The verifier of tokens.
    #[must_use]
    pub fn verifier(mut self, verifier: Verifier) -> Self {
        self.supplied.verifier = Some(Arc::new(verifier));
        self
    }

    /// The dialer of the hosts that commands may reach.
    #[must_use]
    pub fn dialer(mut self, dialer: Arc<dyn Dial>) -> Self {
        self.supplied.dialer = Some(dialer);
        self
    }

    /// Called while the first command is being confined: after its paths were opened, before it starts.
    #[must_use]
    pub fn while_confining(mut self, deed: impl Fn() + Send + Sync + 'static) -> Self {
        self.supplied.prepare_sandbox = Some(Arc::new(move |options| {
            deed();
            Sandbox::prepare(options)
        }));
        self
    }

    /// A machine on which no command can be confined.
    #[must_use]
    pub fn without_sandbox(mut self) -> Self {
        let missing = || SandboxError::Missing {
            missing: Layers::required_by_default(),
            why: "none in this test".to_owned(),
        };
        self.supplied.prepare_sandbox = Some(Arc::new(move |_| Err(missing())));
        self
    }

    /// What happens when a call cannot be audited.
    #[must_use]
    pub fn audit_mode(mut self, mode: AuditMode) -> Self {
        self.audit_mode = Some(mode);
        self
    }

    /// The clock of rate limits and circuit breakers.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The clock of audit records.
    #[must_use]
    pub fn audit_clock(mut self, clock: toolgate_audit::Clock) -> Self {
        self.audit_clock = Some(clock);
        self
    }

    /// The approver, and its timeout.
    #[must_use]
    pub fn approver(mut self, approver: Arc<dyn Approver>, timeout: Duration) -> Self {
        self.approver = approver;
        self.approval_timeout = Some(timeout);
        self
    }

    /// How blocking work is run.
    #[must_use]
    pub fn blocking(mut self, blocking: BlockingStrategy) -> Self {
        self.blocking = blocking;
        self
    }

    /// Opens everything, which also recovers from dead processes.
    #[must_use]
    pub fn open(self) -> Bench {
        self.try_open().unwrap_or_else(|error| panic!("{error}"))
    }

    /// The same.
    ///
    /// # Errors
    /// Those of the composition root.
    pub fn try_open(self) -> Result<Bench, BuildError> {
        write_key(&self.state);
        let overrides = SettingsOverrides { config_text: Some(self.config.into()), ..self.overrides };
        let mut settings = resolve_settings(&overrides, Trust::Guided, self.environment, TrustPrompt::Never)?;
        settings.supplied = self.supplied;
        settings.approval_timeout = self.approval_timeout.unwrap_or(settings.approval_timeout);
        if !self.has_reserve {
            settings.loaded.config.audit.reserve = Some(0);
        }
        if let Some(mode) = self.audit_mode {
            settings.on_audit_failure = match mode {
                AuditMode::Deny => OnAuditFailure::Deny,
                AuditMode::Warn => OnAuditFailure::Warn,
            };
        }
        let complaints = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&complaints);
        let standard = GateBuildOptions::without_servers(self.approver, TokenVerification::Enabled);
        let options = GateBuildOptions {
            blocking: self.blocking,
            clock: self.clock.unwrap_or_else(|| Arc::clone(&standard.clock)),
            audit_clock: self.audit_clock,
            warn: Arc::new(move |complaint| heard.lock().unwrap().push(complaint.to_owned())),
            ..standard
        };
        let AssembledGate { gate, workspace, interrupted, .. } = build_gate(&settings, options)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let loaded = OnceLock::new();
        Ok(Bench { front: Arc::new(gate), runtime, workspace, settings, loaded, interrupted, complaints })
    }
}

fn source_file(name: &str, text: &str) -> SourceFile {
    SourceFile { name: name.to_owned(), path: name.into(), bytes: text.as_bytes().to_vec() }
}

/// The key of the state directory, unless it has one.
fn write_key(state: &Path) {
    let keys = state.join("keys");
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&keys).unwrap();
    let file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(keys.join("state.key"));
    if let Ok(mut file) = file {
        std::io::Write::write_all(&mut file, STATE_KEY.as_bytes()).unwrap();
    }
}

/// A person at the keyboard in this session, whose calls need no approval.
#[must_use]
pub fn person(session: &str) -> Caller {
    Caller {
        subject: "tester".to_owned(),
        permissions: BTreeSet::new(),
        agent: None,
        session: session.parse().unwrap(),
        run: None,
        trust: Trust::Autonomous,
    }
}

/// A gate and everything that is needed to call it.
pub struct Bench {
    front: Arc<ProfiledGate>,
    runtime: Runtime,
    workspace: Arc<Workspace>,
    settings: Settings,
    loaded: OnceLock<GateConfig>,
    interrupted: Vec<CallId>,
    complaints: Arc<Mutex<Vec<String>>>,
}

/// The error code of a call, if it failed.
#[must_use]
pub fn code_of(called: &CallResponse) -> Option<ErrorCode> {
    called.failed.as_ref().map(|(_, failure)| failure.code)
}

impl Bench {
    /// One call by a person in the session `test`.
    pub fn call(&self, tool: &str, arguments: Value) -> CallResponse {
        self.call_as(person("test"), tool, arguments)
    }

    /// One call.
    pub fn call_as(&self, credential: impl Into<Credential>, tool: &str, arguments: Value) -> CallResponse {
        self.make(ToolCall::new(tool, arguments), credential)
    }

    /// One call with a known id.
    pub fn make(&self, call: ToolCall, credential: impl Into<Credential>) -> CallResponse {
        self.wait(self.front.call(call, credential, CallOptions::default()))
    }

    /// Waits for a future.
    pub fn wait<Output>(&self, work: impl Future<Output = Output>) -> Output {
        self.runtime.block_on(work)
    }

    /// The configuration of the gate, as a reload loads it.
    #[must_use]
    pub fn loaded(&self) -> &GateConfig {
        self.loaded.get_or_init(|| {
            let own = GateOwnedPaths::of(&self.settings);
            let loaded = load(&self.settings, &own, &self.workspace, TokenVerification::Enabled, None);
            loaded.map_err(BuildError::from).unwrap_or_else(|error| panic!("{error}"))
        })
    }

    /// The profile in front of the gate.
    #[must_use]
    pub fn front(&self) -> &Arc<ProfiledGate> {
        &self.front
    }

    /// Starts a call and drops it as soon as it waits.
    pub fn abandon(&self, caller: Caller, tool: &str, arguments: Value) {
        let call = ToolCall::new(tool, arguments);
        let calling = self.front.call(call, caller, CallOptions::default());
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                called = calling => panic!("the call did not wait: {}", called.answer.text),
                () = tokio::task::yield_now() => {}
            }
        });
    }

    /// One call that must succeed.
    pub fn must(&self, tool: &str, arguments: Value) -> CallResponse {
        let shown = arguments.to_string();
        let called = self.call(tool, arguments);
        assert!(!called.answer.is_error, "{tool} {shown}: {}", called.answer.text);
        called
    }

    /// Undoes a call's changes.
    ///
    /// # Errors
    /// Those of the gate.
    pub fn undo(&self, call: CallId, options: UndoOptions) -> Result<UndoOutcome, UndoError> {
        self.runtime.block_on(self.front.gate().undo(call, person("test"), options))
    }

    /// The gate.
    #[must_use]
    pub fn gate(&self) -> &Arc<Gate> {
        self.front.gate()
    }

    /// The calls that a dead process had left when this gate was opened.
    #[must_use]
    pub fn interrupted(&self) -> &[CallId] {
        &self.interrupted
    }

    /// The operator's warnings so far.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        self.complaints.lock().unwrap().clone()
    }

    /// Every audit record so far, by call, oldest first.
    #[must_use]
    pub fn records(&self) -> BTreeMap<CallId, Vec<Record>> {
        let mut records: BTreeMap<CallId, Vec<Record>> = BTreeMap::new();
        for record in
            toolgate_audit::query_records(&self.settings.audit_dir, RecordFilter::default()).unwrap()
        {
            let record = record.unwrap();
            records.entry(record.trace_id).or_default().push(record);
        }
        records
    }

    /// The only record of a call.
    #[must_use]
    pub fn record(&self, call: CallId) -> Record {
        let filter = RecordFilter { call: Some(call), ..RecordFilter::default() };
        let mut records: Vec<Record> = toolgate_audit::query_records(&self.settings.audit_dir, filter)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(records.len(), 1, "records of call {call}");
        records.remove(0)
    }

    /// Fails unless the whole audit log is intact; returns the number of its records.
    pub fn verify_audit(&self) -> u64 {
        let report = toolgate_audit::verify(&self.settings.audit_dir, &VerifyOptions::default()).unwrap();
        assert!(report.problem.is_none(), "the audit log is broken: {:?}", report.problem);
        report.records
    }
}

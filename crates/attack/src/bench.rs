//! A gate in this process, composed as in the binary.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use serde_json::Value;
use tokio::runtime::Runtime;
use toolgate_audit::{AuditLog, LogOptions, Record, RecordFilter, VerifyOptions};
use toolgate_command::{CommandOptions, CommandRunner, Confinement, GateDirectories};
use toolgate_egress::{Dial, SystemDialer};
use toolgate_gate::{
    Approver, AuditMode, BlockingStrategy, BreakerRule, CallOptions, Clock, Credential, Gate, GateConfig,
    GateOptions, Journal, NoApprover, RateRule, Tool, UndoError, UndoOptions, UndoOutcome,
};
use toolgate_identity::Verifier;
use toolgate_manifest::Config;
use toolgate_policy::{Policies, PolicySource, PolicyTool};
use toolgate_sandbox::{ResourceLimits, Sandbox, SandboxOptions};
use toolgate_tools::{
    CallResponse, ManifestContext, Profile, ProfiledGate, ToolComponents, initialise_run, load_manifests,
};
use toolgate_types::{CallId, Caller, ErrorCode, Limits, StateKey, ToolCall, Trust};
use toolgate_workspace::{DiskReserve, HardLinks, Mount, MountAccess, MountRules, PersonalPaths, Workspace};

/// The files of a run that only the gate writes, as in the binary.
const RUN_PROTECTED: &[&str] = &["logs", "logs/**", "workflow.md", "workflow.md/**"];

/// The options of a [`Bench`].
pub struct BenchOptions {
    profile: Profile,
    workspace: PathBuf,
    state: PathBuf,
    package: Option<PathBuf>,
    audit_mode: AuditMode,
    config: Config,
    policies: String,
    verifier: Option<Arc<Verifier>>,
    clock: Clock,
    audit_clock: Option<toolgate_audit::Clock>,
    approver: Arc<dyn Approver>,
    patience: Duration,
    extra_tools: Vec<Arc<dyn Tool>>,
    commands: bool,
    manifests: Vec<(String, String)>,
    network: Vec<String>,
    dialer: Arc<dyn Dial>,
    resources: ResourceLimits,
    reserve: Option<u64>,
    hard_links: HardLinks,
    blocking: BlockingStrategy,
    personal: PersonalPaths,
    deny: Vec<String>,
    access: MountAccess,
    mounts: Vec<(String, PathBuf, MountAccess)>,
    own_files: Vec<PathBuf>,
    rules: MountRules,
    while_confining: Option<Arc<dyn Fn() + Send + Sync>>,
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
    /// A profile over a workspace, with the gate's own files in `state`. No approver is available.
    #[must_use]
    pub fn new(profile: Profile, workspace: &Path, state: &Path) -> Self {
        Self {
            profile,
            workspace: workspace.to_path_buf(),
            state: state.to_path_buf(),
            package: None,
            audit_mode: AuditMode::Warn,
            config: Config::default(),
            policies: String::new(),
            verifier: None,
            clock: Arc::new(Instant::now),
            audit_clock: None,
            approver: Arc::new(NoApprover { remedy: "ask in a test".to_owned() }),
            patience: Duration::from_secs(30),
            extra_tools: Vec::new(),
            commands: false,
            manifests: Vec::new(),
            network: Vec::new(),
            dialer: Arc::new(SystemDialer),
            resources: ResourceLimits::default(),
            reserve: None,
            hard_links: HardLinks::default(),
            blocking: BlockingStrategy::Inline,
            personal: PersonalPaths::default(),
            deny: Vec::new(),
            access: MountAccess::ReadWrite,
            mounts: Vec::new(),
            own_files: Vec::new(),
            rules: MountRules::new(),
            while_confining: None,
        }
    }

    /// The user's home directory and git configuration files.
    #[must_use]
    pub fn personal(mut self, personal: PersonalPaths) -> Self {
        self.personal = personal;
        self
    }

    /// Globs that the operator denies in every mount.
    #[must_use]
    pub fn deny(mut self, globs: &[&str]) -> Self {
        self.deny = globs.iter().map(|glob| (*glob).to_owned()).collect();
        self
    }

    /// Mounts the workspace read-only.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.access = MountAccess::ReadOnly;
        self
    }

    /// One more writable mount.
    #[must_use]
    pub fn mount_also(mut self, alias: &str, path: &Path) -> Self {
        self.mounts.push((alias.to_owned(), path.to_path_buf(), MountAccess::ReadWrite));
        self
    }

    /// A file or directory that configures the gate, such as one with manifests.
    #[must_use]
    pub fn own_file(mut self, path: &Path) -> Self {
        self.own_files.push(path.to_path_buf());
        self
    }

    /// The operator's rules for the workspace.
    #[must_use]
    pub fn rules(mut self, rules: MountRules) -> Self {
        self.rules = rules;
        self
    }

    /// Called while the first command is being confined: after its paths were opened, before it starts.
    #[must_use]
    pub fn while_confining(mut self, deed: impl Fn() + Send + Sync + 'static) -> Self {
        self.while_confining = Some(Arc::new(deed));
        self
    }

    /// Enables commands, in a real sandbox.
    #[must_use]
    pub fn commands(mut self) -> Self {
        self.commands = true;
        let shipped = self.profile.shipped().iter();
        self.manifests = shipped.map(|(file, text)| ((*file).to_owned(), widened(text))).collect();
        self
    }

    /// Declares tools by a manifest, instead of the shipped ones.
    #[must_use]
    pub fn manifest(mut self, yaml: &str) -> Self {
        self.commands = true;
        self.manifests = vec![("test.yaml".to_owned(), yaml.to_owned())];
        self
    }

    /// Hosts that shell lines may reach, and the dialer.
    #[must_use]
    pub fn network(mut self, hosts: &[&str], dialer: Arc<dyn Dial>) -> Self {
        self.network = hosts.iter().map(|host| (*host).to_owned()).collect();
        self.dialer = dialer;
        self
    }

    /// The resource limits of commands.
    #[must_use]
    pub fn resources(mut self, resources: ResourceLimits) -> Self {
        self.resources = resources;
        self
    }

    /// The disk space that commands must leave free on the filesystem of the state, in bytes.
    #[must_use]
    pub fn reserve(mut self, bytes: u64) -> Self {
        self.reserve = Some(bytes);
        self
    }

    /// How commands may treat files with a hard link outside of the workspace.
    #[must_use]
    pub fn hard_links(mut self, hard_links: HardLinks) -> Self {
        self.hard_links = hard_links;
        self
    }

    /// Mounts a directory as `@pkg`, read-only.
    #[must_use]
    pub fn package(mut self, folder: &Path) -> Self {
        self.package = Some(folder.to_path_buf());
        self
    }

    /// What happens when a call cannot be audited.
    #[must_use]
    pub fn audit_mode(mut self, mode: AuditMode) -> Self {
        self.audit_mode = mode;
        self
    }

    /// The agents, limits, rates and breaker of a configuration.
    #[must_use]
    pub fn config(mut self, yaml: &str) -> Self {
        self.config = Config::parse("test", yaml).expect("a good configuration");
        self
    }

    /// Policies of the organisation, in Cedar.
    #[must_use]
    pub fn policies(mut self, cedar: &str) -> Self {
        self.policies = cedar.to_owned();
        self
    }

    /// The verifier of tokens.
    #[must_use]
    pub fn verifier(mut self, verifier: Verifier) -> Self {
        self.verifier = Some(Arc::new(verifier));
        self
    }

    /// The clock of rate limits and circuit breakers.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
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
    pub fn approver(mut self, approver: Arc<dyn Approver>, patience: Duration) -> Self {
        self.approver = approver;
        self.patience = patience;
        self
    }

    /// How blocking work is run.
    #[must_use]
    pub fn blocking(mut self, blocking: BlockingStrategy) -> Self {
        self.blocking = blocking;
        self
    }

    /// One more tool.
    #[must_use]
    pub fn tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.extra_tools.push(tool);
        self
    }

    /// Opens everything, which also recovers from dead processes.
    #[must_use]
    pub fn open(self) -> Bench {
        let _ = own_folder(&self.state);
        let run_folder = self.state.join("runs/run");
        let workspace = Arc::new(self.mount(&run_folder));
        let journal =
            Journal::open(&own_folder(&self.state.join("journal.toolgate")), &StateKey::new([7; 32]));
        let mut journal = journal.unwrap().bounded(self.config.retention.undo.into());
        if let Some(reserve) = self.disk_reserve() {
            journal = journal.reserving(reserve);
        }
        let journal = Arc::new(journal.recover(&workspace).unwrap());
        let audit_dir = self.state.join("audit");
        let asked = Arc::clone(&journal);
        let mut options =
            LogOptions { fate_of: Arc::new(move |call| asked.fate_of(call)), ..LogOptions::new(&audit_dir) };
        if let Some(clock) = self.audit_clock.clone() {
            options.clock = clock;
        }
        let (audit, recovered) = AuditLog::open(options, &StateKey::new([7; 32])).unwrap();
        let loaded = self.load(&workspace);
        let complaints = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&complaints);
        let limits = self.limits();
        let gate = Gate::new(GateOptions {
            config: loaded.clone(),
            audit: Ok(audit),
            audit_mode: self.audit_mode,
            journal,
            approver: self.approver,
            approval_timeout: self.patience,
            blocking: self.blocking,
            clock: self.clock,
            warn: Arc::new(move |complaint| heard.lock().unwrap().push(complaint.to_owned())),
        });
        let mut front = ProfiledGate::new(self.profile, Arc::new(gate)).over(Arc::clone(&workspace));
        if self.profile.has_runs() {
            initialise_run(&workspace, &limits).unwrap();
            front = front.with_run_log(own_folder(&run_folder), self.config.retention.logs);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        Bench {
            front: Arc::new(front),
            runtime,
            loaded,
            audit_dir,
            interrupted: recovered.interrupted,
            complaints,
        }
    }

    fn disk_reserve(&self) -> Option<DiskReserve> {
        let state = self.state.clone();
        Some(DiskReserve::new(move || File::open(&state), Some(self.reserve?)))
    }

    /// The gate's configuration.
    fn load(&self, workspace: &Arc<Workspace>) -> GateConfig {
        let commands = self.commands.then(|| self.runner(workspace));
        let declared = match &commands {
            Some(runner) => {
                let mounts: Vec<(&str, bool)> = workspace
                    .mounts()
                    .iter()
                    .map(|mount| (mount.alias(), mount.access() == MountAccess::ReadWrite))
                    .collect();
                let taken = self.profile.tool_names();
                let surroundings =
                    ManifestContext { mounts: &mounts, taken: &taken, ..ManifestContext::default() };
                load_manifests(&self.manifests, &surroundings).expect("good manifests").tools(runner)
            }
            None => Vec::new(),
        };
        let parts = ToolComponents { declared, commands, ..ToolComponents::files(workspace) };
        let mut registry = self.profile.registry(&parts).unwrap();
        for tool in &self.extra_tools {
            registry.register(Arc::clone(tool)).unwrap();
        }
        let sources = [PolicySource { file: "test.cedar", text: &self.policies }];
        let paths: Vec<_> = registry.iter().map(|tool| tool.path_inputs()).collect();
        let tools: Vec<PolicyTool<'_>> = registry
            .iter()
            .zip(&paths)
            .map(|(tool, paths)| (tool.spec(), paths))
            .map(|(spec, paths)| PolicyTool {
                name: spec.name.as_str(),
                class: spec.class,
                schema: &spec.input_schema,
                paths,
            })
            .collect();
        let policies = Policies::load(&sources, &tools).unwrap();
        GateConfig {
            agents: self.config.agents.clone(),
            policies: Arc::new(policies),
            verifier: self.verifier.clone(),
            rates: self.config.rate_limits.iter().map(RateRule::from).collect(),
            breaker: self.config.breaker.map(BreakerRule::from),
            workspace: Some(Arc::clone(workspace)),
            ..GateConfig::new(registry, self.limits())
        }
    }

    fn limits(&self) -> Limits {
        self.config.limits.over(self.profile.limits())
    }

    fn runner(&self, workspace: &Arc<Workspace>) -> Arc<CommandRunner> {
        static SANDBOX: OnceLock<Arc<Sandbox>> = OnceLock::new();
        let sandbox = SANDBOX.get_or_init(|| Arc::new(Sandbox::prepare(SandboxOptions::default()).unwrap()));
        let [quarantine, baselines] =
            ["quarantine.toolgate", "baselines.toolgate"].map(|name| self.state.join(name));
        let retention = self.config.retention.quarantine;
        let while_confining = self.while_confining.clone();
        let folders = move || {
            while_confining.iter().for_each(|deed| deed());
            let (quarantine, baselines) = (own_folder(&quarantine), own_folder(&baselines));
            Ok(GateDirectories { quarantine, baselines, retention })
        };
        let options = CommandOptions {
            workspace: Arc::clone(workspace),
            confinement: Confinement::lazy(|| Ok(Arc::clone(sandbox)), folders),
            environment: Vec::new(),
            limits: self.resources,
            network: self.network.clone(),
            dialer: Arc::clone(&self.dialer),
            reserve: self.disk_reserve(),
        };
        Arc::new(CommandRunner::new(options).unwrap())
    }

    fn mount(&self, run_folder: &Path) -> Workspace {
        let mut own = vec![std::fs::canonicalize(&self.state).unwrap()];
        own.extend(self.own_files.iter().cloned());
        let rules = || MountRules::new().deny(&self.deny).unwrap();
        let personal = Arc::new(self.personal.clone());
        let open = |alias: &str, path: &Path, access, rules| {
            let mount = Mount::new(alias, File::open(path).unwrap(), path, access, rules).unwrap();
            mount.protect_personal(Arc::clone(&personal))
        };
        let project_rules = if self.deny.is_empty() { self.rules.clone() } else { rules() };
        let project = open("@project", &self.workspace, self.access, project_rules);
        let mut mounts = vec![project.hide_gate_files(&own).as_default()];
        for (alias, path, access) in &self.mounts {
            mounts.push(open(alias, path, *access, rules()).hide_gate_files(&own));
        }
        if let Some(package) = &self.package {
            mounts
                .push(open("@pkg", package, MountAccess::ReadOnly, MountRules::new()).hide_gate_files(&own));
        }
        if self.profile.has_runs() {
            let _ = own_folder(run_folder);
            let rules = MountRules::new().protect(RUN_PROTECTED).unwrap();
            mounts.push(open("@state", run_folder, MountAccess::ReadWrite, rules));
        }
        Workspace::new(mounts).unwrap().with_hard_links(self.hard_links)
    }
}

fn own_folder(path: &Path) -> Dir {
    std::fs::create_dir_all(path).unwrap();
    Dir::open_ambient_dir(path, ambient_authority()).unwrap()
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
    loaded: GateConfig,
    audit_dir: PathBuf,
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

    /// The configuration with which the gate was opened.
    #[must_use]
    pub fn loaded(&self) -> &GateConfig {
        &self.loaded
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
        for record in toolgate_audit::query_records(&self.audit_dir, RecordFilter::default()).unwrap() {
            let record = record.unwrap();
            records.entry(record.trace_id).or_default().push(record);
        }
        records
    }

    /// The only record of a call.
    #[must_use]
    pub fn record(&self, call: CallId) -> Record {
        let filter = RecordFilter { call: Some(call), ..RecordFilter::default() };
        let mut records: Vec<Record> =
            toolgate_audit::query_records(&self.audit_dir, filter).unwrap().map(Result::unwrap).collect();
        assert_eq!(records.len(), 1, "records of call {call}");
        records.remove(0)
    }

    /// Fails unless the whole audit log is intact; returns the number of its records.
    pub fn verify_audit(&self) -> u64 {
        let report = toolgate_audit::verify(&self.audit_dir, &VerifyOptions::default()).unwrap();
        assert!(report.problem.is_none(), "the audit log is broken: {:?}", report.problem);
        report.records
    }
}

//! `toolgate doctor`: what this machine can enforce, layer by layer, and the health of the upstream servers.

mod filesystem;
mod package_cache_rows;
mod remedy;
mod toolchain_rows;

use std::fmt::Write as _;

use serde_json::{Value, json};
use toolgate_assembly::ambient::{
    HostEnvironment, open_or_create_directory, open_private_directory, real_path,
};
use toolgate_assembly::callers::verifier;
use toolgate_assembly::gate_builder::JOURNAL;
use toolgate_assembly::personal_paths::{HOLDS_HOME, personal_paths, refuse_root};
use toolgate_assembly::protected_paths::GateOwnedPaths;
use toolgate_assembly::sandbox_settings::sandbox_options;
use toolgate_assembly::servers::{ServerSelection, Servers};
use toolgate_assembly::settings::{Settings, load_from, merge_settings};
use toolgate_assembly::trust::{ConfigOrigin, TrustPrompt};
use toolgate_audit::{VerifyOptions, VerifyReport};
use toolgate_connect::{HealthState, ServerHealth};
use toolgate_conversation::models::{ProviderModels, chosen_model, list_models, unusable_keys};
use toolgate_gate::Journal;
use toolgate_identity::{CacheOptions, FetchedKeys};
use toolgate_llm::ListedModel;
use toolgate_manifest::{CallerKey, KeySourceConfig};
use toolgate_sandbox::{Layer, LayerReport, Sandbox};
use toolgate_serve::StateUsage;
use toolgate_types::{ErrorCode, Trust};
use toolgate_workspace::Headroom;

use self::filesystem::{exchange, opening_beneath, real_locations, unnamed_files};
use self::package_cache_rows::package_cache_findings;
use self::remedy::NamespaceRestrictions;
use self::toolchain_rows::toolchain_findings;
use super::{close_servers, mcp_login, print, print_json, serving_runtime};
use crate::arguments::GlobalOptions;
use crate::conversation::{tools_label, window_label};
use crate::exit::{CliError, SUCCESS, TOOL_ERROR};
use crate::interrupt::Interrupt;
use crate::state_usage::state_usage;
use crate::terminal::escape_line;

/// The result of one check.
struct DoctorCheck {
    name: String,
    status: CheckStatus,
    detail: String,
    /// The command that would help, to be pasted.
    command: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CheckStatus {
    /// Works.
    Ok,
    /// Missing; a fallback is used.
    Fallback,
    /// Missing; the gate refuses to work without it.
    Missing,
    /// An unusable upstream server or model provider, or an exhausted space limit; everything else works.
    Failing,
    /// Not set up, and not needed.
    Unused,
}

impl CheckStatus {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Fallback => "fallback",
            Self::Missing => "missing",
            Self::Failing => "failing",
            Self::Unused => "unused",
        }
    }
}

pub(crate) fn run(common: &GlobalOptions, offline: bool) -> Result<u8, CliError> {
    let (settings, configuration) = configuration(common)?;
    let mut findings = vec![configuration];
    findings.extend(examine(&settings));
    findings.extend(retained_state(&settings));
    findings.extend(layers(&settings)?);
    findings.extend(toolchain_findings(&settings));
    findings.extend(package_cache_findings(&settings));
    if !offline && !settings.loaded.config.mcp_servers.is_empty() {
        findings.extend(servers(&settings)?);
    }
    if offline {
        let unusable = unusable_keys(&settings)?.into_iter();
        findings.extend(unusable.map(|(provider, failed)| {
            check_result(&format!("key of {provider}"), CheckStatus::Failing, failed.with_help())
        }));
    } else {
        findings.extend(key_sets(&settings)?);
        findings.extend(providers(&settings)?);
    }
    if common.json {
        print_json(&Value::Array(findings.iter().map(DoctorCheck::json).collect()))?;
    } else {
        print(&report(&findings))?;
    }
    Ok(if findings.iter().any(DoctorCheck::is_broken) { TOOL_ERROR } else { SUCCESS })
}

impl DoctorCheck {
    fn json(&self) -> Value {
        let Self { name, status, detail, command } = self;
        let mut row = json!({"check": name, "state": status.as_str(), "detail": detail});
        if let (Some(command), Value::Object(fields)) = (command, &mut row) {
            fields.insert("command".to_owned(), json!(command));
        }
        row
    }

    fn is_broken(&self) -> bool {
        matches!(self.status, CheckStatus::Missing | CheckStatus::Failing)
    }

    /// Whether both have one cause, so that one row says all.
    fn shares_cause(&self, other: &Self) -> bool {
        self.status != CheckStatus::Ok && (self.status, &self.detail) == (other.status, &other.detail)
    }
}

/// A summary, and one row per cause with the command that would help.
fn report(findings: &[DoctorCheck]) -> String {
    let mut text = summary(findings);
    for (place, finding) in findings.iter().enumerate() {
        let mut earlier = findings.iter().take(place);
        if earlier.any(|before| before.shares_cause(finding)) {
            continue;
        }
        let names = findings.iter().skip(place).filter(|other| finding.shares_cause(other));
        let mut names: Vec<&str> = names.map(|other| other.name.as_str()).collect();
        if names.is_empty() {
            names.push(&finding.name);
        }
        let (state, detail) = (finding.status.as_str(), escape_line(&finding.detail));
        let _ = writeln!(text, "{state:<9} {:<22} {detail}", names.join(", "));
        if let Some(command) = &finding.command {
            let _ = writeln!(text, "          run: {}", escape_line(command));
        }
    }
    text
}

/// `ready: 25 ok, 1 fallback`, or `not ready` where something that is needed is missing or failing.
fn summary(findings: &[DoctorCheck]) -> String {
    let states = [
        CheckStatus::Missing,
        CheckStatus::Failing,
        CheckStatus::Fallback,
        CheckStatus::Ok,
        CheckStatus::Unused,
    ];
    let count = |state: CheckStatus| findings.iter().filter(|finding| finding.status == state).count();
    let counts = states.iter().map(|state| (count(*state), state.as_str())).filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, state)| format!("{count} {state}")).collect();
    let verdict = if findings.iter().any(DoctorCheck::is_broken) { "not ready" } else { "ready" };
    format!("{verdict}: {}\n", counts.join(", "))
}

/// The configuration in use. A found file without an agreement is reported; the checks run without it.
fn configuration(common: &GlobalOptions) -> Result<(Settings, DoctorCheck), CliError> {
    let surroundings = HostEnvironment::detect()?;
    let origin = ConfigOrigin::choose(&common.overrides(), &surroundings)?;
    let (file, detail) = match &origin {
        ConfigOrigin::Found(file) => (file.display().to_string(), "agreed to"),
        ConfigOrigin::Named(file) => (file.display().to_string(), "named with --config"),
        ConfigOrigin::Supplied(_) => ("text".to_owned(), "supplied by a program"),
        ConfigOrigin::Defaults => ("none".to_owned(), "built-in defaults"),
    };
    let is_found = matches!(origin, ConfigOrigin::Found(_));
    let (loaded, finding) = match load_from(origin, &surroundings, TrustPrompt::Never) {
        Ok(loaded) => (loaded, check_result("configuration", CheckStatus::Ok, format!("{file}; {detail}"))),
        Err(failed) if is_found => {
            let help = failed.help.map(|help| format!("; {help}")).unwrap_or_default();
            let defaults = load_from(ConfigOrigin::Defaults, &surroundings, TrustPrompt::Never)?;
            (defaults, check_result("configuration", CheckStatus::Missing, failed.message + &help))
        }
        Err(failed) => return Err(failed.into()),
    };
    Ok((merge_settings(&common.overrides(), Trust::Guided, loaded, surroundings)?, finding))
}

fn examine(settings: &Settings) -> Vec<DoctorCheck> {
    let mut findings = vec![real_locations(), state_directory(settings), audit_directory(settings)];
    findings.push(audit_record(settings));
    findings.extend(journal(settings));
    findings.extend(disk_reserve(settings));
    match open_or_create_directory(&settings.workspace) {
        Err(error) => {
            findings.push(check_result("workspace", CheckStatus::Missing, error.to_string()));
        }
        Ok(folder) => {
            findings.extend(root_mount(settings, &folder).or_else(|| home_directory(settings)));
            findings.push(opening_beneath(&folder));
            findings.push(unnamed_files(&folder));
            findings.push(exchange(&folder));
        }
    }
    findings
}

fn root_mount(settings: &Settings, folder: &std::fs::File) -> Option<DoctorCheck> {
    let refused = refuse_root("@project", &settings.workspace, folder).err()?;
    Some(check_result("workspace", CheckStatus::Missing, refused.message))
}

/// A warning if the workspace holds a home directory.
fn home_directory(settings: &Settings) -> Option<DoctorCheck> {
    let root = real_path(&settings.workspace);
    let holds_home = personal_paths(&settings.environment).homes.iter().any(|home| home.starts_with(&root));
    holds_home.then(|| check_result("workspace", CheckStatus::Fallback, format!("it {HOLDS_HOME}")))
}

/// Every layer of the sandbox. Only a required layer must be present.
fn layers(settings: &Settings) -> Result<Vec<DoctorCheck>, CliError> {
    let options = sandbox_options(settings, &GateOwnedPaths::of(settings))?;
    let required = options.require;
    let sandbox = match Sandbox::prepare(options) {
        Ok(sandbox) => sandbox,
        Err(error) => {
            return Ok(vec![check_result(
                "sandbox",
                CheckStatus::Missing,
                format!("{error}; {}", error.help()),
            )]);
        }
    };
    let remedy = NamespaceRestrictions::detect().remedy();
    let finding = |report: &LayerReport| {
        let name = report.layer.as_str();
        let mut found = layer_finding(name, report, required.contains(report.layer));
        if let Some(remedy) = remedy.as_ref().filter(|_| !report.works && is_namespace(report.layer)) {
            found.detail = format!("{}; {}", remedy.cause, found.detail);
            found.command = Some(remedy.command.clone());
        }
        found
    };
    Ok(sandbox.layers().iter().map(finding).collect())
}

/// The layers that need a user namespace. `private_proc` has a cause of its own.
fn is_namespace(layer: Layer) -> bool {
    matches!(
        layer,
        Layer::UserNamespace
            | Layer::PidNamespace
            | Layer::MountNamespace
            | Layer::NetworkNamespace
            | Layer::IpcNamespace
            | Layer::UtsNamespace
    )
}

fn layer_finding(name: &str, report: &LayerReport, is_required: bool) -> DoctorCheck {
    match (report.works, is_required) {
        (true, _) => check_result(name, CheckStatus::Ok, &report.detail),
        (false, false) => {
            check_result(name, CheckStatus::Fallback, format!("{}; not required", report.detail))
        }
        (false, true) => {
            let remedy = "or let commands run without it: leave it out of `sandbox.require`";
            check_result(name, CheckStatus::Missing, format!("{}; {remedy}", report.detail))
        }
    }
}

/// Every upstream server, started briefly.
fn servers(settings: &Settings) -> Result<Vec<DoctorCheck>, CliError> {
    let runtime = serving_runtime()?;
    let servers = Servers::start(settings, &runtime, ServerSelection::All)?;
    let (health, lacking) = (servers.health(), servers.unusable());
    runtime.block_on(close_servers(Some(&servers)));
    let named = |name: &str| format!("server {name}");
    let lacking = lacking
        .iter()
        .map(|server| check_result(&named(&server.name), CheckStatus::Failing, &server.problem.message));
    let finding = |health: &ServerHealth| {
        let name = named(health.name.as_str());
        let error = health.last_error.as_deref().unwrap_or("it did not answer");
        match (health.state, health.suspended) {
            (HealthState::Ready, 0) => {
                let tools = if health.tools == 1 { "tool" } else { "tools" };
                let login = mcp_login::login_note(settings, health.name.as_str());
                check_result(&name, CheckStatus::Ok, format!("{} {tools}{login}", health.tools))
            }
            (HealthState::Ready, suspended) => {
                let remedy = format!("run `toolgate mcp approve {}`", health.name);
                let detail = format!(
                    "{suspended} of {} tools are new or changed, and suspended; {remedy}",
                    health.tools
                );
                check_result(&name, CheckStatus::Fallback, detail)
            }
            (HealthState::NeedsLogin, _) => check_result(&name, CheckStatus::Failing, error),
            _ => check_result(
                &name,
                CheckStatus::Failing,
                format!("{error}; `toolgate mcp list {}` says more", health.name),
            ),
        }
    };
    Ok(health.iter().map(finding).chain(lacking).collect())
}

/// Every key set that an issuer publishes, fetched once. A running gate that cannot fetch one continues with its cached keys.
fn key_sets(settings: &Settings) -> Result<Vec<DoctorCheck>, CliError> {
    let callers = settings.loaded.config.callers.as_ref();
    let is_published = |key: &CallerKey| matches!(key.source, KeySourceConfig::KeySetUrl(_));
    let Some(callers) = callers.filter(|callers| callers.keys.iter().any(is_published)) else {
        return Ok(Vec::new());
    };
    let verifier = match verifier(settings) {
        Ok(Some(verifier)) => verifier,
        Ok(None) => return Ok(Vec::new()),
        Err(fault) => {
            return Ok(vec![check_result(
                "caller keys",
                CheckStatus::Failing,
                CliError::from(fault).message,
            )]);
        }
    };
    let stale = callers.stale_keys.unwrap_or(CacheOptions::default().max_stale);
    let finding = |fetched: FetchedKeys| match fetched.keys {
        Ok(count) => check_result("caller keys", CheckStatus::Ok, format!("{count} at {}", fetched.url)),
        Err(problem) => {
            let detail = format!(
                "{} could not be fetched: {problem}; running gates go on with the keys that they have for {} s (`callers.stale_keys`), \
                 and one that starts now believes no token",
                fetched.url,
                stale.as_secs()
            );
            check_result("caller keys", CheckStatus::Failing, detail)
        }
    };
    let probed = serving_runtime()?.block_on(verifier.probe_key_sets());
    Ok(probed.into_iter().map(finding).collect())
}

/// Every model provider, and the model that would be used.
fn providers(settings: &Settings) -> Result<Vec<DoctorCheck>, CliError> {
    let interrupt = Interrupt::install();
    let runtime = serving_runtime()?;
    let listed = runtime.block_on(async {
        let _watching = interrupt.watch()?;
        Ok::<_, CliError>(list_models(settings, None, &interrupt.token()).await?)
    })?;
    let chosen = chosen_model(settings);
    let chosen = chosen.as_deref().and_then(|name| chosen_finding(name, &listed));
    Ok(listed.iter().map(provider_finding).chain(chosen).collect())
}

fn provider_finding(provider: &ProviderModels) -> DoctorCheck {
    let name = format!("provider {}", provider.name);
    match (&provider.models, provider.is_set_up) {
        (Ok(models), _) => {
            let with_tools = models.iter().filter(|model| model.capabilities.supports_tools).count();
            let count =
                if models.len() == 1 { "1 model".to_owned() } else { format!("{} models", models.len()) };
            check_result(
                &name,
                CheckStatus::Ok,
                format!("{count}, {with_tools} with tools; `toolgate models {}` lists them", provider.name),
            )
        }
        (Err(failed), is_set_up) => {
            let state = if is_set_up { CheckStatus::Failing } else { CheckStatus::Unused };
            check_result(&name, state, failed.with_help())
        }
    }
}

/// What is known of the model that would be used, if its provider lists its models.
fn chosen_finding(name: &str, listed: &[ProviderModels]) -> Option<DoctorCheck> {
    let (provider, model) = name.split_once('/')?;
    let models = listed.iter().find(|listed| listed.name == provider)?.models.as_ref().ok()?;
    let title = format!("model {name}");
    Some(match models.iter().find(|listed| listed.name == model) {
        Some(ListedModel { capabilities, .. }) => {
            let detail = format!("{}, context {}", tools_label(*capabilities), window_label(*capabilities));
            check_result(&title, CheckStatus::Ok, detail)
        }
        None => check_result(
            &title,
            CheckStatus::Fallback,
            "its provider does not list it; `toolgate models` has those that it lists",
        ),
    })
}

fn check_result(name: &str, state: CheckStatus, detail: impl Into<String>) -> DoctorCheck {
    DoctorCheck { name: name.to_owned(), status: state, detail: detail.into(), command: None }
}

fn state_directory(settings: &Settings) -> DoctorCheck {
    match open_private_directory(&settings.state_dir) {
        Ok(_) => check_result("state directory", CheckStatus::Ok, settings.state_dir.display().to_string()),
        Err(error) => check_result(
            "state directory",
            CheckStatus::Missing,
            format!("{}: {error}", settings.state_dir.display()),
        ),
    }
}

/// An undo journal of an unsupported format, or a full one.
fn journal(settings: &Settings) -> Option<DoctorCheck> {
    let state = open_private_directory(&settings.state_dir).ok()?;
    let folder = state.open_dir(JOURNAL).ok()?;
    if let Err(error) = Journal::check_format(&folder) {
        let remedy = format!(
            "use the version of toolgate that wrote it, or move `{JOURNAL}` away, with all that could be undone"
        );
        return Some(check_result("undo journal", CheckStatus::Missing, format!("{error}; {remedy}")));
    }
    let journal = Journal::open(&folder, &toolgate_assembly::state_dir::key(settings).ok()?).ok()?;
    let bound = journal.bounded(settings.loaded.config.retention.undo.into()).full()?;
    Some(check_result("undo journal", CheckStatus::Failing, format!("changes are refused: {bound}")))
}

/// A filesystem with less free space than the reserve.
fn disk_reserve(settings: &Settings) -> Option<DoctorCheck> {
    let (refused, note) = match toolgate_assembly::sandbox_settings::disk_reserve(settings).headroom(0) {
        Headroom::Enough => return None,
        Headroom::RemovalsOnly(note) => ("commands, and changes other than removals, are refused", note),
        Headroom::Nothing(note) | Headroom::Unknown(note) => ("commands and changes are refused", note),
    };
    let remedy = "free space there, or lower `audit.reserve`";
    Some(check_result("disk reserve", CheckStatus::Failing, format!("{refused}: {note}; {remedy}")))
}

/// The size of each kind of state, with its limit.
fn retained_state(settings: &Settings) -> Vec<DoctorCheck> {
    let usage = state_usage(&settings.state_dir, &settings.loaded.config.retention, None);
    let finding = |StateUsage { area, files, bytes, max_bytes, .. }: StateUsage| {
        let files = if files == 1 { "1 file".to_owned() } else { format!("{files} files") };
        let (bound, is_over) = match max_bytes {
            Some(most) => {
                (format!("of {} that are kept (`retention.{area}`)", human_size(most)), bytes > most)
            }
            None => ("not bounded".to_owned(), false),
        };
        let state = if is_over { CheckStatus::Fallback } else { CheckStatus::Ok };
        check_result(&format!("state {area}"), state, format!("{} in {files}, {bound}", human_size(bytes)))
    };
    usage.into_iter().map(finding).collect()
}

/// A number of bytes in binary units.
fn human_size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} bytes"),
    }
}

fn audit_directory(settings: &Settings) -> DoctorCheck {
    let key = match toolgate_assembly::state_dir::key(settings) {
        Ok(key) => key,
        Err(failed) => return check_result("audit", CheckStatus::Missing, failed.message),
    };
    match toolgate_audit::AuditLog::open(toolgate_assembly::gate_builder::log_options(settings), &key) {
        Ok(_) => {
            let (directory, aside) =
                (settings.audit_dir.display(), toolgate_audit::kept_aside(&settings.audit_dir));
            match aside.unwrap_or_default().as_slice() {
                [] => check_result("audit", CheckStatus::Ok, directory.to_string()),
                [first, ..] => check_result(
                    "audit",
                    CheckStatus::Fallback,
                    format!(
                        "{directory}; files that no gate of this version wrote, such as `{}`, were kept aside and are not recorded: look at them, then remove them",
                        first.display()
                    ),
                ),
            }
        }
        Err(error) => {
            let goes_on = match toolgate_assembly::gate_builder::continues_without_audit(settings, &error) {
                true => "; until then only calls that read are made (`audit.on_failure: warn`)",
                false => "",
            };
            check_result("audit", CheckStatus::Missing, format!("{error}; {}{goes_on}", error.help()))
        }
    }
}

/// Whether the record is intact, as `toolgate audit verify` finds it.
fn audit_record(settings: &Settings) -> DoctorCheck {
    let options = VerifyOptions {
        checkpoints: settings.checkpoints.clone(),
        key: Some(toolgate_assembly::gate_builder::log_options(settings).key_path()),
        ..VerifyOptions::default()
    };
    let found = |state, detail: String| check_result("audit record", state, detail);
    let finding = match toolgate_audit::verify(&settings.audit_dir, &options) {
        Ok(VerifyReport { problem: Some(problem), .. }) => found(CheckStatus::Failing, problem.to_string()),
        Ok(report) if report.is_incomplete() => {
            let calls = report.calls_without_record();
            found(
                CheckStatus::Fallback,
                format!("intact, and records itself that calls are missing ({calls})"),
            )
        }
        Ok(report) => return found(CheckStatus::Ok, format!("{} records, intact", report.records)),
        Err(error) if error.code() == ErrorCode::NotFound => {
            return found(CheckStatus::Ok, "nothing is recorded yet".to_owned());
        }
        Err(error) => found(CheckStatus::Failing, format!("{error}; {}", error.help())),
    };
    DoctorCheck { command: Some("toolgate audit verify".to_owned()), ..finding }
}

//! `toolgate doctor`: what this machine can enforce, layer by layer, and how the servers behind the gate are.

use std::fmt::Write as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;
use serde_json::{Value, json};
use toolgate_connect::{HealthState, ServerHealth};
use toolgate_gate::Journal;
use toolgate_identity::{CacheOptions, FetchedKeys};
use toolgate_llm::ListedModel;
use toolgate_manifest::{CallerKey, KeySourceConfig};
use toolgate_sandbox::{LayerReport, Sandbox};
use toolgate_serve::StateUsage;
use toolgate_types::Trust;
use toolgate_workspace::Headroom;

use super::{close, print, print_json, serving_runtime};
use crate::ambient::{Surroundings, open_or_make_folder, open_own_folder, real_path};
use crate::arguments::Common;
use crate::build::JOURNAL;
use crate::callers::verifier;
use crate::confined::sandbox_options;
use crate::conversation::{ProviderModels, chosen_model, list_models, tools, window};
use crate::exit::{DONE, Failed, TOOL_ERROR};
use crate::interrupt::Interrupt;
use crate::own::Own;
use crate::personal::{HOLDS_HOME, personal, refuse_root};
use crate::servers::{Servers, Which};
use crate::settings::{Settings, join, load_from};
use crate::state_usage::state_usage;
use crate::terminal::reveal_line;
use crate::trust::{Asking, Origin};

/// One thing that was tried.
struct Finding {
    name: String,
    state: State,
    detail: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Works.
    Ok,
    /// Missing; something else stands in for it.
    Fallback,
    /// Missing; the gate refuses to work without it.
    Missing,
    /// A server behind the gate, or a provider of models, that cannot be used, or something that has run out of room; everything else works.
    Failing,
    /// Not set up, and nothing needs it.
    Unused,
}

impl State {
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

pub(crate) fn run(common: &Common, offline: bool) -> Result<u8, Failed> {
    let (settings, configuration) = configuration(common)?;
    let mut findings = vec![configuration];
    findings.extend(examine(&settings));
    findings.extend(kept(&settings));
    findings.extend(layers(&settings)?);
    if !offline && !settings.loaded.config.mcp_servers.is_empty() {
        findings.extend(servers(&settings)?);
    }
    if !offline {
        findings.extend(key_sets(&settings)?);
        findings.extend(providers(&settings)?);
    }
    if common.json {
        let rows: Vec<Value> = findings
            .iter()
            .map(|finding| json!({"check": finding.name, "state": finding.state.as_str(), "detail": finding.detail}))
            .collect();
        print_json(&Value::Array(rows))?;
    } else {
        let mut text = String::new();
        for finding in &findings {
            let _ = writeln!(
                text,
                "{:<9} {:<22} {}",
                finding.state.as_str(),
                finding.name,
                reveal_line(&finding.detail)
            );
        }
        print(&text)?;
    }
    let broken = findings.iter().any(|finding| matches!(finding.state, State::Missing | State::Failing));
    Ok(if broken { TOOL_ERROR } else { DONE })
}

/// What is in use. A file that was found and not agreed to is told of; the machine is examined without it.
fn configuration(common: &Common) -> Result<(Settings, Finding), Failed> {
    let surroundings = Surroundings::look()?;
    let origin = Origin::choose(common, &surroundings)?;
    let (file, detail) = match &origin {
        Origin::Found(file) => (file.display().to_string(), "agreed to"),
        Origin::Named(file) => (file.display().to_string(), "named with --config"),
        Origin::Defaults => ("none".to_owned(), "built-in defaults"),
    };
    let is_found = matches!(origin, Origin::Found(_));
    let (loaded, finding) = match load_from(origin, &surroundings, Asking::Never) {
        Ok(loaded) => (loaded, found("configuration", State::Ok, format!("{file}; {detail}"))),
        Err(failed) if is_found => {
            let help = failed.help.map(|help| format!("; {help}")).unwrap_or_default();
            let defaults = load_from(Origin::Defaults, &surroundings, Asking::Never)?;
            (defaults, found("configuration", State::Missing, failed.message + &help))
        }
        Err(failed) => return Err(failed),
    };
    Ok((join(common, Trust::Guided, loaded, surroundings)?, finding))
}

fn examine(settings: &Settings) -> Vec<Finding> {
    let mut findings = vec![real_locations(), state_folder(settings), audit_folder(settings)];
    findings.extend(journal(settings));
    findings.extend(disk_reserve(settings));
    match open_or_make_folder(&settings.workspace) {
        Err(error) => {
            findings.push(found("workspace", State::Missing, error.to_string()));
        }
        Ok(folder) => {
            findings.extend(whole_system(settings, &folder).or_else(|| home_directory(settings)));
            findings.push(opening_beneath(&folder));
            findings.push(unnamed_files(&folder));
            findings.push(exchange(&folder));
        }
    }
    findings
}

fn whole_system(settings: &Settings, folder: &std::fs::File) -> Option<Finding> {
    let refused = refuse_root("@project", &settings.workspace, folder).err()?;
    Some(found("workspace", State::Missing, refused.message))
}

/// Nothing is said of a workspace that is a project.
fn home_directory(settings: &Settings) -> Option<Finding> {
    let root = real_path(&settings.workspace);
    let holds_home = personal(&settings.surroundings).homes.iter().any(|home| home.starts_with(&root));
    holds_home.then(|| found("workspace", State::Fallback, format!("it {HOLDS_HOME}")))
}

/// Every layer that commands are confined by. One that the operator does not demand may be missing.
fn layers(settings: &Settings) -> Result<Vec<Finding>, Failed> {
    let options = sandbox_options(settings, &Own::of(settings))?;
    let required = options.require;
    let sandbox = match Sandbox::prepare(options) {
        Ok(sandbox) => sandbox,
        Err(error) => {
            return Ok(vec![found("sandbox", State::Missing, format!("{error}; {}", error.help()))]);
        }
    };
    let finding = |report: &LayerReport| {
        let name = report.layer.as_str();
        match (report.works, required.contains(report.layer)) {
            (true, _) => found(name, State::Ok, &report.detail),
            (false, false) => found(name, State::Fallback, format!("{}; not required", report.detail)),
            (false, true) => {
                let remedy = "or let commands run without it: leave it out of `sandbox.require`";
                found(name, State::Missing, format!("{}; {remedy}", report.detail))
            }
        }
    };
    Ok(sandbox.layers().iter().map(finding).collect())
}

/// Every server behind the gate, started for a moment.
fn servers(settings: &Settings) -> Result<Vec<Finding>, Failed> {
    let runtime = serving_runtime()?;
    let servers = Servers::start(settings, &runtime, Which::All)?;
    let (health, lacking) = (servers.health(), servers.unusable());
    runtime.block_on(close(Some(&servers)));
    let named = |name: &str| format!("server {name}");
    let lacking =
        lacking.iter().map(|server| found(&named(&server.name), State::Failing, &server.problem.message));
    let finding = |health: &ServerHealth| {
        let name = named(health.name.as_str());
        let error = health.last_error.as_deref().unwrap_or("it did not answer");
        match (health.state, health.suspended) {
            (HealthState::Ready, 0) => {
                let tools = if health.tools == 1 { "tool" } else { "tools" };
                found(&name, State::Ok, format!("{} {tools}", health.tools))
            }
            (HealthState::Ready, suspended) => {
                let remedy = format!("run `toolgate mcp approve {}`", health.name);
                let detail = format!(
                    "{suspended} of {} tools are new or changed, and suspended; {remedy}",
                    health.tools
                );
                found(&name, State::Fallback, detail)
            }
            _ => found(
                &name,
                State::Failing,
                format!("{error}; `toolgate mcp list {}` says more", health.name),
            ),
        }
    };
    Ok(health.iter().map(finding).chain(lacking).collect())
}

/// Every key set of callers that an issuer publishes, fetched once. A gate that runs and cannot fetch one goes on with the keys that it has.
fn key_sets(settings: &Settings) -> Result<Vec<Finding>, Failed> {
    let callers = settings.loaded.config.callers.as_ref();
    let is_published = |key: &CallerKey| matches!(key.source, KeySourceConfig::KeySetUrl(_));
    let Some(callers) = callers.filter(|callers| callers.keys.iter().any(is_published)) else {
        return Ok(Vec::new());
    };
    let verifier = match verifier(settings) {
        Ok(Some(verifier)) => verifier,
        Ok(None) => return Ok(Vec::new()),
        Err(fault) => return Ok(vec![found("caller keys", State::Failing, Failed::from(fault).message)]),
    };
    let stale = callers.stale_keys.unwrap_or(CacheOptions::default().max_stale);
    let finding = |fetched: FetchedKeys| match fetched.keys {
        Ok(count) => found("caller keys", State::Ok, format!("{count} at {}", fetched.url)),
        Err(problem) => {
            let detail = format!(
                "{} could not be fetched: {problem}; running gates go on with the keys that they have for {} s (`callers.stale_keys`), \
                 and one that starts now believes no token",
                fetched.url,
                stale.as_secs()
            );
            found("caller keys", State::Failing, detail)
        }
    };
    let probed = serving_runtime()?.block_on(verifier.probe_key_sets());
    Ok(probed.into_iter().map(finding).collect())
}

/// Every provider of models, and the model that would be spoken with.
fn providers(settings: &Settings) -> Result<Vec<Finding>, Failed> {
    let interrupt = Interrupt::listen();
    let runtime = serving_runtime()?;
    let listed = runtime.block_on(async {
        let _watching = interrupt.watch()?;
        list_models(settings, None, &interrupt.token()).await
    })?;
    let chosen = chosen_model(settings);
    let chosen = chosen.as_deref().and_then(|name| chosen_finding(name, &listed));
    Ok(listed.iter().map(provider_finding).chain(chosen).collect())
}

fn provider_finding(provider: &ProviderModels) -> Finding {
    let name = format!("provider {}", provider.name);
    match (&provider.models, provider.is_set_up) {
        (Ok(models), _) => {
            let with_tools = models.iter().filter(|model| model.capabilities.supports_tools).count();
            let count =
                if models.len() == 1 { "1 model".to_owned() } else { format!("{} models", models.len()) };
            found(
                &name,
                State::Ok,
                format!("{count}, {with_tools} with tools; `toolgate models {}` lists them", provider.name),
            )
        }
        (Err(failed), is_set_up) => {
            let help = failed.help.as_ref().map(|help| format!("; {help}")).unwrap_or_default();
            let state = if is_set_up { State::Failing } else { State::Unused };
            found(&name, state, format!("{}{help}", failed.message))
        }
    }
}

/// What is known of the model that would be spoken with, where its provider lists its models.
fn chosen_finding(name: &str, listed: &[ProviderModels]) -> Option<Finding> {
    let (provider, model) = name.split_once('/')?;
    let models = listed.iter().find(|listed| listed.name == provider)?.models.as_ref().ok()?;
    let title = format!("model {name}");
    Some(match models.iter().find(|listed| listed.name == model) {
        Some(ListedModel { capabilities, .. }) => {
            let detail = format!("{}, context {}", tools(*capabilities), window(*capabilities));
            found(&title, State::Ok, detail)
        }
        None => found(
            &title,
            State::Fallback,
            "its provider does not list it; `toolgate models` has those that it lists",
        ),
    })
}

fn found(name: &str, state: State, detail: impl Into<String>) -> Finding {
    Finding { name: name.to_owned(), state, detail: detail.into() }
}

fn opening_beneath(folder: &std::fs::File) -> Finding {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(folder, ".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve) {
        Ok(_) => found("openat2", State::Ok, "the kernel keeps paths beneath a mount"),
        Err(error) => found(
            "openat2",
            State::Fallback,
            format!("{error}; paths are walked name by name without following links"),
        ),
    }
}

fn real_locations() -> Finding {
    match rustix::fs::readlink("/proc/self/fd/0", Vec::new()) {
        Ok(_) => found("/proc", State::Ok, "the kernel tells where an open file is"),
        Err(Errno::NOENT) if Path::new("/proc/self/fd").exists() => found("/proc", State::Ok, "mounted"),
        Err(error) => found(
            "/proc",
            State::Missing,
            format!("{error}; mount /proc: rules are applied to real locations"),
        ),
    }
}

fn unnamed_files(folder: &std::fs::File) -> Finding {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::openat(folder, ".", flags, Mode::from_raw_mode(0o600)) {
        Ok(_) => found("unnamed files", State::Ok, "new content has no name until it is complete"),
        Err(error) => {
            found("unnamed files", State::Fallback, format!("{error}; new content waits in memory"))
        }
    }
}

/// Asks to exchange two names that do not exist: a kernel that can, says that they do not exist.
fn exchange(folder: &std::fs::File) -> Finding {
    match rustix::fs::renameat_with(
        folder,
        ".toolgate-doctor-a",
        folder,
        ".toolgate-doctor-b",
        RenameFlags::EXCHANGE,
    ) {
        Err(Errno::NOENT) | Ok(()) => {
            found("exchange", State::Ok, "old and new content change places in one step")
        }
        Err(error) => found("exchange", State::Fallback, format!("{error}; content is replaced by renaming")),
    }
}

fn state_folder(settings: &Settings) -> Finding {
    match open_own_folder(&settings.state_dir) {
        Ok(_) => found("state directory", State::Ok, settings.state_dir.display().to_string()),
        Err(error) => {
            found("state directory", State::Missing, format!("{}: {error}", settings.state_dir.display()))
        }
    }
}

/// An undo journal that no gate of this version starts on, or that is full.
fn journal(settings: &Settings) -> Option<Finding> {
    let state = open_own_folder(&settings.state_dir).ok()?;
    let folder = state.open_dir(JOURNAL).ok()?;
    if let Err(error) = Journal::check_format(&folder) {
        let remedy = format!(
            "use the version of toolgate that wrote it, or move `{JOURNAL}` away, with all that could be undone"
        );
        return Some(found("undo journal", State::Missing, format!("{error}; {remedy}")));
    }
    let journal = Journal::open(&folder, &crate::state_dir::key(settings).ok()?).ok()?;
    let bound = journal.bounded(settings.loaded.config.retention.undo.into()).full()?;
    Some(found("undo journal", State::Failing, format!("changes are refused: {bound}")))
}

/// A disk that has less left than must be.
fn disk_reserve(settings: &Settings) -> Option<Finding> {
    let (refused, note) = match crate::confined::disk_reserve(settings).headroom(0) {
        Headroom::Enough => return None,
        Headroom::RemovalsOnly(note) => ("commands, and changes other than removals, are refused", note),
        Headroom::Nothing(note) | Headroom::Unknown(note) => ("commands and changes are refused", note),
    };
    let remedy = "free space there, or lower `audit.reserve`";
    Some(found("disk reserve", State::Failing, format!("{refused}: {note}; {remedy}")))
}

/// How much is kept of each kind of state, beside how much may be.
fn kept(settings: &Settings) -> Vec<Finding> {
    let usage = state_usage(&settings.state_dir, &settings.loaded.config.retention, None);
    let finding = |StateUsage { area, files, bytes, max_bytes, .. }: StateUsage| {
        let files = if files == 1 { "1 file".to_owned() } else { format!("{files} files") };
        let (bound, is_over) = match max_bytes {
            Some(most) => (format!("of {} that are kept (`retention.{area}`)", size(most)), bytes > most),
            None => ("not bounded".to_owned(), false),
        };
        let state = if is_over { State::Fallback } else { State::Ok };
        found(&format!("state {area}"), state, format!("{} in {files}, {bound}", size(bytes)))
    };
    usage.into_iter().map(finding).collect()
}

/// A number of bytes for people.
fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} bytes"),
    }
}

fn audit_folder(settings: &Settings) -> Finding {
    let key = match crate::state_dir::key(settings) {
        Ok(key) => key,
        Err(failed) => return found("audit", State::Missing, failed.message),
    };
    match toolgate_audit::AuditLog::open(crate::build::log_options(settings), &key) {
        Ok(_) => {
            let (directory, aside) =
                (settings.audit_dir.display(), toolgate_audit::kept_aside(&settings.audit_dir));
            match aside.unwrap_or_default().as_slice() {
                [] => found("audit", State::Ok, directory.to_string()),
                [first, ..] => found(
                    "audit",
                    State::Fallback,
                    format!(
                        "{directory}; files that no gate of this version wrote, such as `{}`, were kept aside and are not recorded: look at them, then remove them",
                        first.display()
                    ),
                ),
            }
        }
        Err(error) => {
            let goes_on = match crate::build::goes_on_without(settings, &error) {
                true => "; until then only calls that read are made (`audit.on_failure: warn`)",
                false => "",
            };
            found("audit", State::Missing, format!("{error}; {}{goes_on}", error.help()))
        }
    }
}

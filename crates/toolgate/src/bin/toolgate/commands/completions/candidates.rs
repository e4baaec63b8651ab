//! What fits an argument: names of the configuration in use, and ids of the state directory.
//!
//! A configuration counts only if it was agreed to. Nothing is created, no server is started, and nothing is asked.

use toolgate_assembly::ambient::{HostEnvironment, exists};
use toolgate_assembly::gate_builder::open_grants;
use toolgate_assembly::load::{TokenVerification, declared_tools_in, manifest_files};
use toolgate_assembly::overrides::SettingsOverrides;
use toolgate_assembly::servers::agreed_tools;
use toolgate_assembly::settings::{Settings, load_from, merge_settings};
use toolgate_assembly::trust::{ConfigOrigin, TrustPrompt};
use toolgate_audit::Record;
use toolgate_tools::Profile;
use toolgate_types::{ToolClass, Trust};

use super::line::Candidate;
use crate::commands::{runtime, sessions as stored};

/// How many calls of the record are offered; the newest.
const MAX_CALLS: usize = 100;

/// What fits an argument of a command.
pub(super) fn values_of(path: &[&str], argument: &str, words: &[String]) -> Vec<Candidate> {
    match (path, argument) {
        (_, "profile") => profiles(),
        (_, "trust") => trust_levels(),
        (_, "agent") => agents(words),
        (_, "tool") if path.first() != Some(&"mcp") => tools(words),
        (["mcp", ..], "server") => servers(words),
        (["undo"], "call") => changes(words),
        (["audit", ..], "call") => calls(words),
        (["grants", ..], "id") => grants(words),
        (["sessions", ..], "id" | "ids") | (_, "session") => sessions(words),
        _ => Vec::new(),
    }
}

/// The tools that are known without starting a server.
fn tools(words: &[String]) -> Vec<Candidate> {
    let Some(settings) = settings(words) else { return Vec::new() };
    let mut names: Vec<String> = settings.profile.tool_names().into_iter().map(str::to_owned).collect();
    let files = manifest_files(&settings).unwrap_or_default();
    if let Ok(declared) = declared_tools_in(&settings, &files) {
        names.extend(declared.specs().map(|spec| spec.name.to_string()));
    }
    names.extend(agreed_tools(&settings, &[]).into_iter().map(|tool| tool.name));
    names.sort();
    names.dedup();
    names.into_iter().map(Candidate::new).collect()
}

/// The declared agents.
fn agents(words: &[String]) -> Vec<Candidate> {
    let settings = settings(words);
    let agents = settings.iter().flat_map(|settings| &settings.loaded.config.agents);
    agents.map(|agent| Candidate::new(agent.name.value.to_string())).collect()
}

/// The declared MCP servers.
fn servers(words: &[String]) -> Vec<Candidate> {
    let settings = settings(words);
    let servers = settings.iter().flat_map(|settings| &settings.loaded.config.mcp_servers);
    servers.map(|server| Candidate::new(server.name.value.clone())).collect()
}

/// The conversations of this workspace, the one used last first.
fn sessions(words: &[String]) -> Vec<Candidate> {
    let Some(settings) = settings(words) else { return Vec::new() };
    let found = runtime(TokenVerification::Disabled)
        .and_then(|runtime| runtime.block_on(stored::listed(&settings, false)));
    let last = Candidate::new("last").about("the one that was used last");
    let candidate = |session: toolgate_session::SessionSummary| {
        Candidate::new(session.id.to_string()).about(session.title)
    };
    std::iter::once(last).chain(found.unwrap_or_default().into_iter().map(candidate)).collect()
}

/// The last calls of the record, newest first.
fn calls(words: &[String]) -> Vec<Candidate> {
    recorded(words, |_| true)
}

/// Those of them that may have changed something.
fn changes(words: &[String]) -> Vec<Candidate> {
    recorded(words, |record| record.tool.classification != Some(ToolClass::Read))
}

fn recorded(words: &[String], is_meant: fn(&Record) -> bool) -> Vec<Candidate> {
    let Some(settings) = settings(words) else { return Vec::new() };
    let records = toolgate_audit::tail(&settings.audit_dir, MAX_CALLS).unwrap_or_default();
    let candidate = |record: Record| {
        let about = format!("{} {}", record.timestamp.strftime("%m-%d %H:%M"), record.tool.name);
        Candidate::new(record.trace_id.to_string()).about(about)
    };
    records.into_iter().rev().filter(is_meant).map(candidate).collect()
}

/// The lasting grants.
fn grants(words: &[String]) -> Vec<Candidate> {
    let Some(settings) = settings(words).filter(|settings| exists(&settings.state_dir)) else {
        return Vec::new();
    };
    let grants = open_grants(&settings).ok().and_then(|grants| grants.list().ok()).unwrap_or_default();
    let candidate = |grant: toolgate_gate::LastingGrant| Candidate::new(grant.id).about(grant.covers);
    grants.into_iter().map(candidate).collect()
}

/// The profiles.
fn profiles() -> Vec<Candidate> {
    Profile::all().map(|profile| Candidate::new(profile.name())).collect()
}

/// The trust levels.
fn trust_levels() -> Vec<Candidate> {
    [Trust::Supervised, Trust::Guided, Trust::Autonomous].map(|trust| Candidate::new(trust.as_str())).into()
}

/// The settings that the typed options and an agreed configuration make.
fn settings(words: &[String]) -> Option<Settings> {
    let environment = HostEnvironment::detect().ok()?;
    let overrides = typed_options(words);
    let origin = ConfigOrigin::choose(&overrides, &environment).ok()?;
    let loaded = load_from(origin, &environment, TrustPrompt::Never)
        .or_else(|_| load_from(ConfigOrigin::Defaults, &environment, TrustPrompt::Never));
    merge_settings(&overrides, Trust::Guided, loaded.ok()?, environment).ok()
}

/// The options of the unfinished line that decide which files are read. Clap parses whole lines only.
fn typed_options(words: &[String]) -> SettingsOverrides {
    let value = |name: &str| {
        let joined =
            words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('=').map(str::to_owned));
        let mut after = words.iter().skip_while(|word| *word != name).skip(1);
        joined.or_else(|| after.next().cloned())
    };
    SettingsOverrides {
        config: value("--config").map(Into::into),
        no_config: words.iter().any(|word| word == "--no-config"),
        profile: value("--profile"),
        workspace: value("--workspace").map(Into::into),
        state_dir: value("--state-dir").map(Into::into),
        ..SettingsOverrides::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_an_unfinished_line_are_read() {
        let line = "--workspace=there undo --state-dir here --call";
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let overrides = typed_options(&words);
        assert_eq!(overrides.state_dir, Some("here".into()));
        assert_eq!(overrides.workspace, Some("there".into()));
        assert_eq!((overrides.config, overrides.no_config), (None, false));
    }
}

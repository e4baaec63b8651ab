//! What is declared about conversations, joined with what was asked for on the command line.

use jiff::Timestamp;
use toolgate_agent::{AgentSettings, MountFact, Surroundings};

use super::model::Declared;
use super::speaker::Speaker;
use crate::ambient::read_file;
use crate::arguments::ConversationArguments;
use crate::exit::Failed;
use crate::settings::Settings;

/// The providers that the configuration names.
pub(crate) fn providers(_settings: &Settings) -> Vec<Declared> {
    Vec::new()
}

/// The model that the configuration names, for this agent or for everybody.
pub(crate) fn model(_settings: &Settings) -> Option<String> {
    None
}

/// How conversations are held; the command line wins.
pub(crate) fn settings(
    settings: &Settings,
    arguments: &ConversationArguments,
    speaker: &Speaker,
) -> Result<AgentSettings, Failed> {
    let mut agent = AgentSettings::of(settings.profile);
    agent.surroundings = surroundings(settings);
    agent.max_output_tokens = speaker.max_output_tokens;
    if let Some(system) = &arguments.system {
        agent.system = Some(system_text(system, settings)?);
    }
    if let Some(most) = arguments.max_iterations {
        agent.max_tool_iterations = most;
    }
    agent.time_limit = arguments.time_limit.or(agent.time_limit);
    agent.parallel_reads |= arguments.parallel_reads;
    Ok(agent)
}

/// What the model is told of its place: the day, and the mounts by the names that it can use.
fn surroundings(settings: &Settings) -> Surroundings {
    let project = MountFact { alias: "@project".to_owned(), writable: true };
    let more = settings.mounts.iter();
    let more = more.map(|mount| MountFact { alias: mount.alias.clone(), writable: !mount.read_only });
    let date = Timestamp::now().to_string().chars().take(10).collect();
    Surroundings { date: Some(date), mounts: std::iter::once(project).chain(more).collect() }
}

/// The words themselves, or those of a file.
fn system_text(text: &str, settings: &Settings) -> Result<String, Failed> {
    let Some(file) = text.strip_prefix('@') else { return Ok(text.to_owned()) };
    let path = settings.surroundings.absolute(file.as_ref())?;
    let unreadable = |reason: String| {
        Failed::usage(format!("`{file}` cannot be read: {reason}"))
            .help("name an existing file of text behind the @, or write the words themselves")
    };
    let bytes = read_file(&path).map_err(|error| unreadable(error.to_string()))?;
    String::from_utf8(bytes).map_err(|_| unreadable("it is not UTF-8 text".to_owned()))
}

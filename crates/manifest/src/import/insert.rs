//! Adding servers to a configuration file without touching anything else in it.

use super::Imported;
use crate::config::Config;
use crate::problem::Problems;

/// Why a file could not be added to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CannotInsert {
    /// The file has mistakes already.
    #[error("it has mistakes: {0}")]
    Mistakes(Problems),
    /// A server of this name is there.
    #[error("`{0}` is declared in it already")]
    Declared(String),
    /// It is not laid out so that a line can be added.
    #[error("`mcp_servers` is laid out in a way that is not understood")]
    Unclear,
}

/// The text of a configuration file with these servers in it.
///
/// # Errors
/// Why nothing was added.
pub fn insert_servers(file: &str, text: &str, imported: &Imported) -> Result<String, CannotInsert> {
    let before = Config::parse(file, text).map_err(CannotInsert::Mistakes)?;
    let known = names(&before);
    if let Some(server) = imported.servers.iter().find(|server| known.contains(&server.name.as_str())) {
        return Err(CannotInsert::Declared(server.name.clone()));
    }
    let edited = match known.is_empty() && !text.lines().any(is_key) {
        true => append(text, imported),
        false => extend(text, imported).ok_or(CannotInsert::Unclear)?,
    };
    let after = Config::parse(file, &edited).map_err(|_| CannotInsert::Unclear)?;
    let expected: Vec<&str> =
        known.into_iter().chain(imported.servers.iter().map(|server| server.name.as_str())).collect();
    if names(&after) == expected { Ok(edited) } else { Err(CannotInsert::Unclear) }
}

fn names(config: &Config) -> Vec<&str> {
    config.mcp_servers.iter().map(|server| server.name.value.as_str()).collect()
}

/// The key with nothing behind it but a comment.
fn is_key(line: &str) -> bool {
    let rest = line.trim_end().strip_prefix("mcp_servers:");
    rest.is_some_and(|rest| rest.is_empty() || rest.trim_start().starts_with('#'))
}

/// At the end of a file that has no servers.
fn append(text: &str, imported: &Imported) -> String {
    let gap = match text {
        "" => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    format!("{text}{gap}{}", imported.render())
}

/// Behind the last server of a file that has some.
fn extend(text: &str, imported: &Imported) -> Option<String> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let key = lines.iter().position(|line| is_key(line))?;
    let below = lines.get(key + 1..)?;
    let belongs = |line: &&&str| line.trim().is_empty() || line.starts_with([' ', '\t', '#']);
    let block = below.iter().take_while(belongs).count();
    let holds = |line: &&str| line.starts_with(' ') && !line.trim().is_empty();
    let last = below.get(..block)?.iter().rposition(holds)?;
    let first = below.iter().find(|line| holds(line) && !line.trim_start().starts_with('#'))?;
    let indent = first.get(..first.len() - first.trim_start().len())?;
    let end = key + 1 + last + 1;
    let mut edited: String = lines.get(..end)?.concat();
    if !edited.ends_with('\n') {
        edited.push('\n');
    }
    edited.extend(imported.servers.iter().map(|server| server.render(indent)));
    edited.push_str(&lines.get(end..)?.concat());
    Some(edited)
}

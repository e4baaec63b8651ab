//! Adds servers to a configuration file without touching anything else in it.

use super::Imported;
use toolgate_manifest::{Config, ConfigProblems};

/// Why servers could not be added to a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InsertError {
    /// The file already has problems.
    #[error("it has mistakes: {0}")]
    Mistakes(ConfigProblems),
    /// A server of this name exists.
    #[error("`{0}` is declared in it already")]
    Declared(String),
    /// Its layout is not supported.
    #[error("`mcp_servers` is laid out in a way that is not understood")]
    Unclear,
}

/// The text of a configuration file with these servers added.
///
/// # Errors
/// Why nothing was added.
pub fn insert_servers(file: &str, text: &str, imported: &Imported) -> Result<String, InsertError> {
    let before = Config::parse(file, text).map_err(InsertError::Mistakes)?;
    let known = names(&before);
    if let Some(server) = imported.servers.iter().find(|server| known.contains(&server.name.as_str())) {
        return Err(InsertError::Declared(server.name.clone()));
    }
    let servers = ConfigSection { key: "mcp_servers", is_empty: known.is_empty() };
    let edited = servers.insert(text, &|indent| entries(imported, indent)).ok_or(InsertError::Unclear)?;
    let mounts = ConfigSection { key: "mounts", is_empty: before.mounts.is_empty() };
    let edited = match imported.mounts.is_empty() {
        true => edited,
        false => {
            let lines =
                |indent: &str| -> String { imported.mounts.iter().map(|mount| mount.line(indent)).collect() };
            mounts.insert(&edited, &lines).ok_or(InsertError::Unclear)?
        }
    };
    let after = Config::parse(file, &edited).map_err(|_| InsertError::Unclear)?;
    let expected: Vec<&str> =
        known.into_iter().chain(imported.servers.iter().map(|server| server.name.as_str())).collect();
    let is_whole = after.mounts.len() == before.mounts.len() + imported.mounts.len();
    if names(&after) == expected && is_whole { Ok(edited) } else { Err(InsertError::Unclear) }
}

/// A key of the configuration whose value is a map.
struct ConfigSection {
    key: &'static str,
    /// Whether it is missing, or has no entries.
    is_empty: bool,
}

impl ConfigSection {
    /// The text with further entries, which `entries` renders with an indentation.
    fn insert(&self, text: &str, entries: &dyn Fn(&str) -> String) -> Option<String> {
        match (self.is_empty, text.lines().any(|line| self.behind_key(line).is_some())) {
            (true, false) => Some(self.append(text, entries)),
            (true, true) => self.fill(text, entries),
            (false, _) => self.extend(text, entries),
        }
    }

    /// The text after the key.
    fn behind_key<'t>(&self, line: &'t str) -> Option<&'t str> {
        line.strip_prefix(self.key)?.strip_prefix(':').map(str::trim)
    }

    /// The key with nothing after it but a comment.
    fn is_key(&self, line: &str) -> bool {
        self.behind_key(line).is_some_and(|rest| rest.is_empty() || rest.starts_with('#'))
    }

    /// Replaces `{}`.
    fn fill(&self, text: &str, entries: &dyn Fn(&str) -> String) -> Option<String> {
        let line = text.split_inclusive('\n').find(|line| self.behind_key(line).is_some())?;
        let comment = self.behind_key(line)?.strip_prefix("{}")?.trim();
        let space = if comment.is_empty() { "" } else { " " };
        let entries = format!("{}:{space}{comment}\n{}", self.key, entries("  "));
        Some(text.replacen(line, &ended(text, &entries), 1))
    }

    /// Appends to a file without the key.
    fn append(&self, text: &str, entries: &dyn Fn(&str) -> String) -> String {
        let gap = match text {
            "" => "",
            text if text.ends_with('\n') => "\n",
            _ => "\n\n",
        };
        format!("{text}{}", ended(text, &format!("{gap}{}:\n{}", self.key, entries("  "))))
    }

    /// Inserts after the last entry.
    fn extend(&self, text: &str, entries: &dyn Fn(&str) -> String) -> Option<String> {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let key = lines.iter().position(|line| self.is_key(line))?;
        let below = lines.get(key + 1..)?;
        let belongs = |line: &&&str| line.trim().is_empty() || line.starts_with([' ', '\t', '#']);
        let block = below.iter().take_while(belongs).count();
        let holds = |line: &&str| line.starts_with(' ') && !line.trim().is_empty();
        let last = below.get(..block)?.iter().rposition(holds)?;
        let first = below.iter().find(|line| holds(line) && !line.trim_start().starts_with('#'))?;
        let indent = first.get(..first.len() - first.trim_start().len())?;
        let end = key + 1 + last + 1;
        let mut edited: String = lines.get(..end)?.concat();
        let gap = if edited.ends_with('\n') { "" } else { "\n" };
        edited.push_str(&ended(text, &format!("{gap}{}", entries(indent))));
        edited.push_str(&lines.get(end..)?.concat());
        Some(edited)
    }
}

fn names(config: &Config) -> Vec<&str> {
    config.mcp_servers.iter().map(|server| server.name.value.as_str()).collect()
}

fn entries(imported: &Imported, indent: &str) -> String {
    imported.servers.iter().map(|server| server.render(indent)).collect()
}

/// Uses the line ends of the text.
fn ended(text: &str, added: &str) -> String {
    if text.contains("\r\n") { added.replace('\n', "\r\n") } else { added.to_owned() }
}

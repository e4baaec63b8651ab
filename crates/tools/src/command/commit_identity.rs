//! Who commits, when a command does.
//!
//! Git inside a command sees no configuration of the person, so that nothing there is obeyed; with it goes the name that commits are made in, and without
//! a name git refuses to commit. So the name and the address alone are handed on, in the four variables that git has for them. They would outdo
//! what a repository says about itself, so they are left out where the repository that a command starts in names somebody.

use std::path::Path;

use toolgate_types::MountOverlay;
use toolgate_workspace::{ConfinedMount, sanitised_git_config};

use super::inside;

/// A name and an address for commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitIdentity {
    name: String,
    email: String,
}

/// Nobody is known: commits are seen to come from here. Git would refuse to commit, and nobody inside could tell it a name that stays.
impl Default for CommitIdentity {
    fn default() -> Self {
        Self { name: "Toolgate".to_owned(), email: "toolgate@localhost".to_owned() }
    }
}

impl CommitIdentity {
    /// What the git configurations of a person say, of which a later one outdoes an earlier one; the default for what none says. Files that they
    /// include are not read.
    #[must_use]
    pub fn from_git_configs<'c>(configs: impl IntoIterator<Item = &'c [u8]>) -> Self {
        let mut identity = Self::default();
        for config in configs {
            let said = GitUser::parse(&sanitised_git_config(config));
            identity.name = said.name.unwrap_or(identity.name);
            identity.email = said.email.unwrap_or(identity.email);
        }
        identity
    }

    /// The variables for a command that starts in this folder, in one of these mounts.
    pub(super) fn variables(
        &self,
        directory: &Path,
        confined: &[ConfinedMount<'_>],
    ) -> Vec<(String, String)> {
        let own = repository_config(directory, confined).map(GitUser::parse).unwrap_or_default();
        let name = own.name.is_none().then_some((&self.name, ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"]));
        let email = own.email.is_none().then_some((&self.email, ["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"]));
        let both = name.into_iter().chain(email);
        both.flat_map(|(value, names)| names.map(|name| (name.to_owned(), value.clone()))).collect()
    }
}

/// What a configuration says about who commits.
#[derive(Debug, Default, PartialEq, Eq)]
struct GitUser {
    name: Option<String>,
    email: Option<String>,
}

impl GitUser {
    /// Reads a configuration as `sanitised_git_config` writes it: one setting a line, values in quotes.
    fn parse(sanitised: &[u8]) -> Self {
        let (mut said, mut is_user) = (Self::default(), false);
        for line in String::from_utf8_lossy(sanitised).lines() {
            match line.trim_start().split_once(" = ") {
                Some(("name", value)) if is_user => said.name = unquoted(value),
                Some(("email", value)) if is_user => said.email = unquoted(value),
                _ if line.starts_with('[') => is_user = line == "[user]",
                _ => {}
            }
        }
        said
    }
}

fn unquoted(value: &str) -> Option<String> {
    let inner = value.strip_prefix('"')?.strip_suffix('"')?;
    let mut characters = inner.chars();
    let next = || match characters.next() {
        Some('\\') => characters.next(),
        other => other,
    };
    Some(std::iter::from_fn(next).collect::<String>()).filter(|text| !text.is_empty())
}

/// The configuration of the innermost repository around a folder, as commands see it.
fn repository_config<'c>(directory: &Path, confined: &'c [ConfinedMount<'_>]) -> Option<&'c [u8]> {
    let configs = confined.iter().flat_map(|mount| {
        let place = directory.strip_prefix(inside(mount.alias(), "")).ok();
        mount.overlays().iter().filter_map(move |cover| match (cover, place) {
            (MountOverlay::Substitute { path, content }, Some(place)) => {
                let repository = path.parent().filter(|_| path.ends_with(".git/config"))?.parent()?;
                place.starts_with(repository).then_some((repository, content))
            }
            _ => None,
        })
    });
    configs
        .max_by_key(|(repository, _)| repository.components().count())
        .map(|(_, content)| content.as_slice())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_configured_is_read_and_nothing_else() {
        for (configs, name, email) in [
            (vec![], "Toolgate", "toolgate@localhost"),
            (vec!["[user]\n\tname = Ada\n\temail = ada@example.com\n"], "Ada", "ada@example.com"),
            (vec!["[user]\nname = \"Ada \\\"L\\\" \\\\ B\"\n"], "Ada \"L\" \\ B", "toolgate@localhost"),
            (vec!["[user]\nname=Ada\nemail=a@x\n", "[USER]\nemail=b@x\n"], "Ada", "b@x"),
            (vec!["[user \"other\"]\nname=Eve\n[author]\nname=Eve\n"], "Toolgate", "toolgate@localhost"),
            (vec!["[include]\npath = ~/other\n[alias]\nname = !evil\n"], "Toolgate", "toolgate@localhost"),
            (vec!["[user]\nname = \n[user\nname = broken"], "Toolgate", "toolgate@localhost"),
        ] {
            let identity = CommitIdentity::from_git_configs(configs.iter().map(|config| config.as_bytes()));
            assert_eq!((identity.name.as_str(), identity.email.as_str()), (name, email), "{configs:?}");
        }
    }
}

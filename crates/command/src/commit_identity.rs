//! The author and committer of commits that commands make.
//!
//! Git inside a command does not see the user's configuration, so that none of its settings take effect. That also hides `user.name` and
//! `user.email`, without which git refuses to commit. So only these two are passed on, as the four variables `GIT_AUTHOR_*` and `GIT_COMMITTER_*`.
//! They take precedence over a repository's own configuration, so they are omitted where the repository that a command starts in sets a user.

use std::path::Path;

use toolgate_confine::ConfinedMount;
use toolgate_types::MountOverlay;
use toolgate_workspace::sanitised_git_config;

use crate::inside;

/// A name and an email address for commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitIdentity {
    name: String,
    email: String,
}

/// Used where no user is configured: git would refuse to commit, and a name set inside the sandbox does not persist.
impl Default for CommitIdentity {
    fn default() -> Self {
        Self { name: "Toolgate".to_owned(), email: "toolgate@localhost".to_owned() }
    }
}

impl CommitIdentity {
    /// The user set by these git configurations, of which later ones override earlier ones; the default for what none sets. `include` directives are
    /// not followed.
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

    /// The variables for a command that starts in this directory, in one of these mounts.
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

/// The `[user]` section of a configuration.
#[derive(Debug, Default, PartialEq, Eq)]
struct GitUser {
    name: Option<String>,
    email: Option<String>,
}

impl GitUser {
    /// Parses a configuration as `sanitised_git_config` writes it: one setting per line, values in quotes.
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

/// The configuration of the innermost repository around a directory, as commands see it.
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

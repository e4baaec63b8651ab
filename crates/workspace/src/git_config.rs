//! The part of a repository's configuration that a command may see.
//!
//! A git configuration can execute code: hooks paths, pagers, filters, aliases, credential helpers and included files all make git run a program or
//! read settings from elsewhere. A command sees a copy that holds the repository format and the remotes, and nothing else. The copy is built from an
//! allowlist, so a setting that git introduces tomorrow is left out too.

mod keys;
mod references;
mod parse;
mod remote;

use std::collections::HashSet;

use keys::{SettingPolicy, policy_for};
use parse::{Setting, parse};

pub(crate) use references::{ConfigReference, references};

/// Shown in place of a configuration that cannot be parsed: git uses defaults for the rest, and runs nothing.
const MINIMAL: &[u8] = b"[core]\n\trepositoryformatversion = \"0\"\n";

/// A larger file is not taken for a configuration.
pub const MAX_CONFIG_BYTES: usize = 256 << 10;

/// Git itself writes far less than this for a new repository.
pub(crate) const MAX_NEW_CONFIG_BYTES: usize = 64 << 10;

/// A copy of a git configuration with only what is safe to apply and to show: the format, remotes without credentials, branches, and the committer's
/// name.
///
/// A configuration that does not parse becomes the smallest valid one, never itself.
///
/// ```
/// let original = b"[core]\n\tbare = false\n\tpager = evil\n[remote \"origin\"]\n\turl = https://me:secret@example.com/x.git\n";
/// let copy = toolgate_workspace::sanitised_git_config(original);
/// assert_eq!(
///     String::from_utf8(copy).unwrap(),
///     "[core]\n\tbare = \"false\"\n[remote \"origin\"]\n\turl = \"https://example.com/x.git\"\n"
/// );
/// ```
#[must_use]
pub fn sanitised_git_config(original: &[u8]) -> Vec<u8> {
    let Some(settings) = parse(original) else { return MINIMAL.to_vec() };
    let mut copy = Vec::new();
    let mut section: Option<(&[u8], Option<&[u8]>)> = None;
    for setting in &settings {
        let SettingPolicy::Shown(value) = policy_for(setting) else { continue };
        let here = (setting.section(), setting.subsection());
        if section != Some(here) {
            write_header(&mut copy, here.0, here.1);
            section = Some(here);
        }
        copy.push(b'\t');
        copy.extend_from_slice(&setting.key);
        copy.extend_from_slice(b" = ");
        write_quoted(&mut copy, value.as_bytes());
        copy.push(b'\n');
    }
    copy
}

/// The verdict on a configuration that a command left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigVerdict {
    /// Git executes nothing because of it. It may set `core.worktree`, which is checked separately.
    Harmless {
        /// The value of `core.worktree`.
        worktree: Option<String>,
    },
    /// Git might execute something or read settings from elsewhere.
    Harmful,
}

/// Whether a configuration makes git execute or include nothing beyond what it did `before`, so that it may stay in place. A new one must be small.
#[must_use]
pub fn judge(original: &[u8], before: Option<&RefusedSettings>) -> ConfigVerdict {
    let largest = if before.is_some() { MAX_CONFIG_BYTES } else { MAX_NEW_CONFIG_BYTES };
    let settings = if original.len() <= largest { parse(original) } else { None };
    let Some(settings) = settings else { return ConfigVerdict::Harmful };
    let was_said = |setting: &Setting| before.is_some_and(|before| before.0.contains(&setting.written()));
    let mut worktree = None;
    for setting in &settings {
        match policy_for(setting) {
            SettingPolicy::Shown(_) | SettingPolicy::Private => {}
            SettingPolicy::Worktree(_) | SettingPolicy::Refused if was_said(setting) => {}
            // Git writes it once.
            SettingPolicy::Worktree(place) if worktree.is_none() => worktree = Some(place),
            SettingPolicy::Worktree(_) | SettingPolicy::Refused => return ConfigVerdict::Harmful,
        }
    }
    ConfigVerdict::Harmless { worktree }
}

/// The settings of a configuration that no copy shows: what the owner of the repository allows git to execute and include.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefusedSettings(HashSet<Vec<u8>>);

impl RefusedSettings {
    /// Empty for a configuration that does not parse.
    #[must_use]
    pub fn of(original: &[u8]) -> Self {
        let settings = parse(original).unwrap_or_default();
        let is_refused = |setting: &&Setting| {
            matches!(policy_for(setting), SettingPolicy::Refused | SettingPolicy::Worktree(_))
        };
        Self(settings.iter().filter(is_refused).map(Setting::written).collect())
    }

    /// The settings, for a baseline record.
    #[must_use]
    pub fn settings(&self) -> &HashSet<Vec<u8>> {
        &self.0
    }

    /// From settings in a baseline record.
    #[must_use]
    pub fn from_settings(settings: HashSet<Vec<u8>>) -> Self {
        Self(settings)
    }
}

/// All values of a setting without a subsection; `None` if the configuration does not parse.
#[must_use]
pub fn setting_values(original: &[u8], section: &[u8], key: &[u8]) -> Option<Vec<Vec<u8>>> {
    let is_it = |setting: &Setting| {
        setting.section() == section && setting.subsection().is_none() && setting.key == key
    };
    let settings = parse(original)?.into_iter().filter(is_it);
    Some(settings.filter_map(|setting| setting.value).collect())
}

fn write_header(copy: &mut Vec<u8>, section: &[u8], subsection: Option<&[u8]>) {
    copy.push(b'[');
    copy.extend_from_slice(section);
    if let Some(subsection) = subsection {
        copy.push(b' ');
        write_quoted(copy, subsection);
    }
    copy.extend_from_slice(b"]\n");
}

/// No value that is written has control characters, so these two escapes suffice.
fn write_quoted(copy: &mut Vec<u8>, text: &[u8]) {
    copy.push(b'"');
    for byte in text {
        if matches!(byte, b'"' | b'\\') {
            copy.push(b'\\');
        }
        copy.push(*byte);
    }
    copy.push(b'"');
}

#[cfg(test)]
mod tests;

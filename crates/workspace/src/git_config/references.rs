//! The files that a configuration makes git execute or read: programs, hooks directories, included files.
//!
//! The copy that a command sees has none of these settings. The original keeps them, and git applies it outside the sandbox: so write access to a
//! file that it names decides what git executes, without a change of the configuration.

use std::collections::HashSet;

use super::keys::{SettingPolicy, policy_for};
use super::parse::{Setting, parse};

/// More than this in one configuration is not followed.
const MAX_REFERENCES: usize = 1000;

/// Sections whose values are text or addresses.
const HARMLESS_SECTIONS: &[&[u8]] =
    &[b"advice", b"branch", b"color", b"fetch", b"pull", b"push", b"url", b"user"];

/// Something that a configuration names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ConfigReference {
    /// Another configuration, relative to the directory of this one.
    Include(String),
    /// A hooks directory.
    Hooks(String),
    /// A file or directory that git reads.
    Path(String),
    /// A word of a command line, which may be a file.
    Word(String),
    /// `core.worktree`.
    Worktree(String),
}

/// The references of a configuration without duplicates; none if git would reject it.
pub(crate) fn references(original: &[u8]) -> Vec<ConfigReference> {
    let mut seen = HashSet::new();
    let settings = parse(original).unwrap_or_default();
    let all = settings.iter().flat_map(references_in);
    all.filter(|name| seen.insert(name.clone())).take(MAX_REFERENCES).collect()
}

fn references_in(setting: &Setting) -> Vec<ConfigReference> {
    let meaning = policy_for(setting);
    if let SettingPolicy::Worktree(place) = meaning {
        return vec![ConfigReference::Worktree(place)];
    }
    let is_word = HARMLESS_SECTIONS.contains(&setting.section());
    let value = setting.value.as_deref().map(String::from_utf8_lossy);
    let Some(value) = value.filter(|_| meaning == SettingPolicy::Refused && !is_word) else {
        return Vec::new();
    };
    // Git ignores such a path if the file does not exist.
    let path = || value.strip_prefix(":(optional)").unwrap_or(&value).to_owned();
    match (setting.section(), setting.key.as_slice()) {
        (b"include" | b"includeif", b"path") => vec![ConfigReference::Include(path())],
        (b"core", b"hookspath") => vec![ConfigReference::Hooks(path())],
        (b"core", b"attributesfile" | b"excludesfile") | (b"init", b"templatedir") => {
            vec![ConfigReference::Path(path())]
        }
        _ => words(&value).map(ConfigReference::Word).collect(),
    }
}

/// The words of a command line, however a shell may split it; extra words are harmless.
fn words(command: &str) -> impl Iterator<Item = String> {
    let ends_word = |character: char| character.is_whitespace() || "\"'`;&|()<>={}$!,\\".contains(character);
    let can_be_place =
        |word: &&str| !word.is_empty() && !word.starts_with(['-', '~', '%']) && !word.contains("://");
    // A path may contain a space, so the whole line is tried too.
    std::iter::once(command).chain(command.split(ends_word)).filter(can_be_place).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_by_what_they_are_for() {
        let original = "[include]\npath = ../shared\n[includeIf \"onbranch:x\"]\npath = a b\n[core]\nhooksPath = .husky\n\
            fsmonitor = \"sh -c 'tools/watch.sh --x=y/z'\"\nattributesFile = :(optional)attrs\npager\n\
            [alias]\nx = !f() { ./run \"$@\"; }; f\n[branch \"m\"]\ndescription = see docs/plan.md\nremote = origin\n\
            [core]\nworktree = ../w\n[remote \"o\"]\nurl = https://example.com/x\n";
        let word = |text: &str| ConfigReference::Word(text.to_owned());
        let found = references(original.as_bytes());
        for expected in [
            ConfigReference::Include("../shared".into()),
            ConfigReference::Include("a b".into()),
            ConfigReference::Hooks(".husky".into()),
            ConfigReference::Path("attrs".into()),
            ConfigReference::Worktree("../w".into()),
            word("tools/watch.sh"),
            word("y/z"),
            word("./run"),
        ] {
            assert!(found.contains(&expected), "{expected:?} in {found:?}");
        }
        assert!(!found.contains(&word("docs/plan.md")) && !found.contains(&word("origin")), "{found:?}");
        assert_eq!(references(b"[core"), []);
    }
}

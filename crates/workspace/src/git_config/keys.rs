//! The allowlist of settings, each with its permitted values.

use super::parse::Setting;
use super::remote::{RemoteUrl, classify_url};

/// How a setting is treated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SettingPolicy {
    /// Shown, as this text.
    Shown(String),
    /// Harmless, and not shown.
    Private,
    /// `core.worktree`: whether it is harmless depends on the place.
    Worktree(String),
    /// Might make git execute or include something.
    Refused,
}

/// Which values a setting may have.
#[derive(Clone, Copy)]
enum AllowedValues {
    Switch,
    /// A switch, or one of these words.
    SwitchOr(&'static [&'static str]),
    OneOf(&'static [&'static str]),
    Number,
    /// The name of a person.
    Person,
    Reference,
    ReferencePattern,
    RemoteName,
    Address,
    Filter,
}

use AllowedValues::{
    Address as Url, Filter, Number, OneOf, Person, Reference, ReferencePattern, RemoteName, Switch, SwitchOr,
};

/// Settings of a section without a subsection.
const SECTION_SETTINGS: &[(&str, &str, AllowedValues)] = &[
    ("core", "repositoryformatversion", OneOf(&["0", "1"])),
    ("core", "filemode", Switch),
    ("core", "bare", Switch),
    ("core", "logallrefupdates", SwitchOr(&["always"])),
    ("core", "ignorecase", Switch),
    ("core", "precomposeunicode", Switch),
    ("core", "symlinks", Switch),
    ("core", "autocrlf", SwitchOr(&["input"])),
    ("core", "eol", OneOf(&["lf", "crlf", "native"])),
    ("core", "safecrlf", SwitchOr(&["warn"])),
    ("core", "abbrev", Number),
    ("core", "quotepath", Switch),
    ("core", "sparsecheckout", Switch),
    ("core", "sparsecheckoutcone", Switch),
    ("index", "sparse", Switch),
    ("extensions", "noop", Switch),
    ("extensions", "objectformat", OneOf(&["sha1", "sha256"])),
    ("extensions", "compatobjectformat", OneOf(&["sha1", "sha256"])),
    ("extensions", "refstorage", OneOf(&["files", "reftable"])),
    ("extensions", "partialclone", RemoteName),
    ("extensions", "preciousobjects", Switch),
    ("extensions", "relativeworktrees", Switch),
    ("extensions", "worktreeconfig", Switch),
    ("user", "name", Person),
    ("user", "email", Person),
    ("init", "defaultbranch", Reference),
    // Which submodules are active: all of them, or those at this path.
    ("submodule", "active", RemoteName),
];

/// Settings of a subsection.
const SUBSECTION_SETTINGS: &[(&str, &str, AllowedValues)] = &[
    ("remote", "url", Url),
    ("remote", "pushurl", Url),
    ("remote", "fetch", ReferencePattern),
    ("remote", "tagopt", OneOf(&["--tags", "--no-tags"])),
    ("remote", "mirror", Switch),
    ("remote", "prune", Switch),
    ("remote", "promisor", Switch),
    ("remote", "partialclonefilter", Filter),
    ("branch", "remote", RemoteName),
    ("branch", "merge", Reference),
    ("submodule", "url", Url),
    ("submodule", "active", Switch),
];

/// How this setting is treated.
pub(super) fn policy_for(setting: &Setting) -> SettingPolicy {
    judged(setting).unwrap_or(SettingPolicy::Refused)
}

fn judged(setting: &Setting) -> Option<SettingPolicy> {
    let value = setting.value.as_deref().map(std::str::from_utf8).transpose().ok()?;
    let known = match setting.subsection() {
        None if setting.section() == b"core" && setting.key == b"worktree" => {
            return Some(SettingPolicy::Worktree(value?.to_owned()));
        }
        None => SECTION_SETTINGS,
        Some(name) if is_name(std::str::from_utf8(name).ok()?) => SUBSECTION_SETTINGS,
        Some(_) => return None,
    };
    let is_it = |(section, key, _): &&(&str, &str, AllowedValues)| {
        section.as_bytes() == setting.section() && key.as_bytes() == setting.key
    };
    known.iter().find(is_it)?.2.judge(value)
}

impl AllowedValues {
    fn judge(self, value: Option<&str>) -> Option<SettingPolicy> {
        if let Self::Switch | Self::SwitchOr(_) = self
            && let Some(switch) = switch(value)
        {
            return Some(SettingPolicy::Shown(switch.to_owned()));
        }
        let value = value?;
        let fits = match self {
            Self::Switch => false,
            Self::SwitchOr(words) | Self::OneOf(words) => words.contains(&value),
            Self::Number => value.len() <= 6 && value.bytes().all(|byte| byte.is_ascii_digit()),
            Self::Person => is_printable(value),
            Self::Reference => is_reference(value),
            Self::ReferencePattern => is_reference_pattern(value),
            Self::RemoteName => value == "." || is_remote_name(value),
            Self::Filter => is_filter(value),
            Self::Address => {
                return match classify_url(value) {
                    RemoteUrl::Public(clean) => Some(SettingPolicy::Shown(clean)),
                    RemoteUrl::Private => Some(SettingPolicy::Private),
                    RemoteUrl::Unsupported => None,
                };
            }
        };
        fits.then(|| SettingPolicy::Shown(value.to_owned()))
    }
}

/// As git reads it: a key without a value means true, an empty value false.
fn switch(value: Option<&str>) -> Option<&'static str> {
    let Some(value) = value else { return Some("true") };
    let is = |word: &str| value.eq_ignore_ascii_case(word);
    if ["true", "yes", "on", "1"].iter().any(|word| is(word)) {
        Some("true")
    } else if ["false", "no", "off", "0", ""].iter().any(|word| is(word)) {
        Some("false")
    } else {
        None
    }
}

fn is_printable(text: &str) -> bool {
    text.len() <= 1024 && !text.chars().any(char::is_control)
}

/// Valid names of a subsection.
fn is_name(text: &str) -> bool {
    is_printable(text) && !text.starts_with('-')
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._/-".contains(&byte)
}

/// Git also accepts an address as the name of a remote; such an address would bypass the URL check.
fn is_remote_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_')
        && !text.contains("..")
        && text.len() <= 255
        && text.bytes().all(is_word)
}

fn is_reference(text: &str) -> bool {
    is_printable(text) && !text.starts_with('-') && !text.contains([' ', ':', '~', '^', '?', '*', '[', '\\'])
}

fn is_reference_pattern(text: &str) -> bool {
    is_printable(text) && !text.starts_with('-') && !text.contains([' ', '~', '?', '[', '\\'])
}

/// A filter of a partial clone, such as `blob:none`.
fn is_filter(text: &str) -> bool {
    is_printable(text)
        && text.bytes().all(|byte| is_word(byte) || b":=+%".contains(&byte))
        && !text.starts_with('-')
}

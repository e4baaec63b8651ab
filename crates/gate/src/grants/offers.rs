//! The grants that are offered with a question, and what a person reads about them.

use std::collections::BTreeSet;

use jiff::Timestamp;
use rustix::fs::{AtFlags, StatxFlags};
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};
use toolgate_policy::{GrantFacts, GrantMatcher, GrantedPlace, PathPattern};
use toolgate_text::confusables::quote_value;
use toolgate_types::Sha256;
use toolgate_types::digest::Sha256Hasher;
use toolgate_types::time::rfc3339_millis;
use toolgate_workspace::{Mount, MountAccess, RootIdentity, Workspace};

use super::grant_store::now;

/// How many days a grant can last, each with the end of the ids of such offers.
const DAYS: [(&str, u16); 3] = [("day", 1), ("week", 7), ("month", 30)];
const MILLISECONDS_PER_DAY: i64 = 24 * 60 * 60 * 1000;

/// A longer command, or a call with more paths, can only be approved once or for the session.
const MAX_COMMAND_CHARS: usize = 300;
const MAX_PLACES: usize = 16;

/// A grant that can be chosen as the answer to a question. A frontend chooses by the id, and can change nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantOffer {
    /// Names it among the offers of one question.
    pub id: String,
    /// What it covers, in words and with the values of the call escaped.
    pub covers: String,
    /// How long it lasts.
    pub lasts: GrantDuration,
}

/// How long a grant lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantDuration {
    /// For the session, in the gate that was asked.
    Session,
    /// For so many days.
    Until {
        /// The time at which it ends, in milliseconds since 1970.
        end: i64,
        /// How many days that was away when it was offered.
        days: u16,
    },
    /// In this workspace, until it is revoked.
    Workspace,
}

impl GrantDuration {
    /// A word for programs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Until { .. } => "until",
            Self::Workspace => "workspace",
        }
    }

    /// When it ends, in milliseconds since 1970.
    #[must_use]
    pub fn expires_at(self) -> Option<i64> {
        match self {
            Self::Until { end, .. } => Some(end),
            Self::Session | Self::Workspace => None,
        }
    }

    /// For a person.
    #[must_use]
    pub fn words(self) -> String {
        match self {
            Self::Session => "in this session".to_owned(),
            Self::Until { end, .. } => format!("in this workspace until {}", day_words(end)),
            Self::Workspace => "in this workspace until revoked".to_owned(),
        }
    }
}

/// The day of a time, as `2026-11-26`.
#[must_use]
pub fn day_words(end: i64) -> String {
    let day = Timestamp::from_millisecond(end).map(rfc3339_millis).unwrap_or_default();
    day.get(..10).unwrap_or_default().to_owned()
}

impl GrantOffer {
    /// The whole offer as one line.
    #[must_use]
    pub fn words(&self) -> String {
        format!("{}, {}", self.covers, self.lasts.words())
    }
}

impl Serialize for GrantOffer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("GrantOffer", 5)?;
        fields.serialize_field("id", &self.id)?;
        fields.serialize_field("covers", &self.covers)?;
        fields.serialize_field("lasts", self.lasts.as_str())?;
        let end = self.lasts.expires_at().and_then(|end| Timestamp::from_millisecond(end).ok());
        fields.serialize_field("expiresAt", &end.map(rfc3339_millis))?;
        fields.serialize_field("text", &self.words())?;
        fields.end()
    }
}

/// An offer with what it would cover.
#[derive(Clone, Debug)]
pub(crate) struct OfferedGrant {
    pub(crate) offer: GrantOffer,
    pub(crate) matcher: GrantMatcher,
}

/// How long the offers of a question may last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OfferedDurations {
    pub(crate) session: bool,
    pub(crate) stored: bool,
}

/// The offers for a call, the narrowest first, each for every duration.
pub(crate) fn grant_offers(
    tool: &str,
    facts: &GrantFacts<'_>,
    durations: OfferedDurations,
) -> Vec<OfferedGrant> {
    let given = now();
    let session = durations.session.then_some(("session", GrantDuration::Session));
    let until = |days| GrantDuration::Until { end: given + i64::from(days) * MILLISECONDS_PER_DAY, days };
    let stored = DAYS.map(|(name, days)| (name, until(days))).into_iter();
    let stored = stored.chain([("workspace", GrantDuration::Workspace)]).filter(|_| durations.stored);
    let durations: Vec<(&str, GrantDuration)> = session.into_iter().chain(stored).collect();
    let mut offers = Vec::new();
    for (kind, matcher, covers) in named_matchers(tool, facts) {
        offers.extend(durations.iter().map(|(name, lasts)| OfferedGrant {
            offer: GrantOffer { id: format!("{kind}-{name}"), covers: covers.clone(), lasts: *lasts },
            matcher: matcher.clone(),
        }));
    }
    offers
}

/// The matchers that can be offered, each with the beginning of its id and its words.
fn named_matchers(tool: &str, facts: &GrantFacts<'_>) -> Vec<(String, GrantMatcher, String)> {
    let mut directories = 0;
    let named = GrantMatcher::offers(facts).into_iter().filter_map(|matcher| {
        let (kind, covers) = match &matcher {
            GrantMatcher::Call { arguments, places } => {
                ("call".to_owned(), call_words(tool, facts, *arguments, places)?)
            }
            GrantMatcher::Paths { pattern } if pattern.is_recursive() => {
                directories += 1;
                let kind =
                    if directories == 1 { "directory".to_owned() } else { format!("directory{directories}") };
                let except = "except of files that other programs run or read as instructions";
                (kind, format!("every {tool} below {} ({except})", pattern_words(pattern)))
            }
            GrantMatcher::Paths { pattern } => {
                ("file".to_owned(), format!("every {tool} of {}", pattern_words(pattern)))
            }
            GrantMatcher::Command { words, directory } => {
                let words = quote_command(&words.join(" "));
                let place = place_words(directory);
                ("command".to_owned(), format!("every command {words} with any further words in {place}"))
            }
            GrantMatcher::Tool => ("tool".to_owned(), format!("every call of {tool}, with any arguments")),
        };
        Some((kind, matcher, covers))
    });
    named.collect()
}

/// `None` if the call is too long to be distinguished from others in a list.
fn call_words(
    tool: &str,
    facts: &GrantFacts<'_>,
    arguments: Sha256,
    places: &[GrantedPlace],
) -> Option<String> {
    let digest: String = arguments.to_string().chars().take(16).collect();
    let shown: Vec<String> = places.iter().map(place_words).collect();
    if let toolgate_policy::CallKind::Shell(line) = facts.kind {
        if line.chars().count() > MAX_COMMAND_CHARS || line.contains('\n') {
            return None;
        }
        return Some(format!("exactly {tool} {} in {}", quote_command(line), shown.join(", ")));
    }
    if shown.len() > MAX_PLACES {
        return None;
    }
    let about = if shown.is_empty() { String::new() } else { format!(" of {}", shown.join(", ")) };
    Some(format!("exactly this {tool}{about} (arguments sha256 {digest})"))
}

fn pattern_words(pattern: &PathPattern) -> String {
    let shown = quote_value(&format!("{}/{}", pattern.alias(), pattern.location()));
    if pattern.is_recursive() { format!("{shown}/**") } else { shown }
}

fn place_words(place: &GrantedPlace) -> String {
    let separator = if place.location.is_empty() { "" } else { "/" };
    quote_value(&format!("{}{separator}{}", place.alias, place.location))
}

/// A command is always quoted, so that its end is seen.
fn quote_command(line: &str) -> String {
    let quoted = quote_value(line);
    if quoted.starts_with('"') { quoted } else { format!("\"{quoted}\"") }
}

/// Digest of the workspace as far as a matcher depends on it: the default mount and the mounts that the places of a call lie in, each by the identity
/// of its root, its path and its access mode. `None` if a mount is unknown. Also the path of the default mount.
pub(crate) fn workspace_digest<'a>(
    workspace: &'a Workspace,
    aliases: impl Iterator<Item = &'a str>,
) -> Option<(Sha256, String)> {
    let default = workspace.mounts().iter().find(|mount| mount.is_default())?;
    let aliases: BTreeSet<&str> = aliases.chain([default.alias()]).collect();
    let mut hasher = Sha256Hasher::new();
    hasher.update(b"toolgate.grant.workspace.v1\0");
    for alias in aliases {
        let mount = workspace.mount(alias)?;
        hasher.update_prefixed(alias.as_bytes());
        hasher.update_prefixed(mount.host_root().as_os_str().as_encoded_bytes());
        root_identity(mount).iter().for_each(|number| hasher.update(&number.to_le_bytes()));
        hasher.update(if mount.access() == MountAccess::ReadWrite { b"w" } else { b"r" });
    }
    Some((hasher.finish(), default.host_root().display().to_string()))
}

/// The inode, the filesystem and the birth time of a root: a directory that was removed and made again is another one, also if it got the same inode.
fn root_identity(mount: &Mount) -> [u64; 4] {
    let RootIdentity { device, inode, filesystem } = mount.identity();
    let filesystem = if filesystem == 0 { device } else { filesystem };
    let born = rustix::fs::statx(mount.as_fd(), c"", AtFlags::EMPTY_PATH, StatxFlags::BTIME);
    let born = born.map(|stat| stat.stx_btime);
    let (seconds, nanoseconds) = born.map_or((0, 0), |born| (born.tv_sec, born.tv_nsec));
    [inode, filesystem, u64::try_from(seconds).unwrap_or_default(), u64::from(nanoseconds)]
}

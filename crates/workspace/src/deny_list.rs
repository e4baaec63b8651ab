//! The built-in deny list: matched at any depth and without regard to case.
//!
//! Each line is a sequence of names that is looked for anywhere in a location; everything below a match is denied too. `*` stands for any part of one
//! name (a rule that begins with it is a suffix), `**` for any number of names. The list is plain data matched by a few lines of code: compiling it
//! into regular expressions would take longer than a whole call from the command line.
//!
//! A rule denies a location where it ends at one of the names on the way. So the rules are indexed by their last name: at nearly every name none ends,
//! and nothing is compared.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::LazyLock;

use crate::name_fold::{fold, folds_by_case_alone, may_be_backup, without_backup_marks};

/// Secrets, and the parts of a repository that make other programs execute something.
pub const DEFAULT_DENY: &[&str] = &[
    // Environment files; those meant to be shared are excepted below.
    ".env",
    ".env.*",
    ".envrc",
    // What git executes or reads as configuration, in nested repositories, submodules and worktrees too.
    ".git/config",
    ".git/config.worktree",
    ".git/config.lock",
    ".git/hooks",
    ".git/modules/**/config",
    ".git/modules/**/config.worktree",
    ".git/modules/**/hooks",
    ".git/worktrees/**/config.worktree",
    ".git-credentials",
    // The same for other version control systems.
    ".hg/hgrc",
    ".hg/hgrc-not-shared",
    ".jj/repo/config.toml",
    ".jj/workspace-config.toml",
    // Keys and credentials, by the directory that tools keep them in.
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".config/gcloud",
    ".config/gh/hosts.yml",
    ".kube",
    ".docker/config.json",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    // Keys and credentials by name.
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".netrc",
    "_netrc",
    ".pgpass",
    ".my.cnf",
    ".htpasswd",
    ".vault-token",
    ".terraformrc",
    "credentials",
    "credentials.json",
    "credentials.yaml",
    "credentials.yml",
    "credentials.toml",
    "client_secret*.json",
    "service-account*.json",
    "service_account*.json",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ecdsa_sk",
    "id_ed25519",
    "id_ed25519_sk",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    // The gate's configuration, the journal of every gate, and the backups of client files made before the gate was entered in them.
    "toolgate.yaml",
    "toolgate.yml",
    "*.toolgate",
];

/// Names that the list above matches and that are meant to be shared.
const EXCEPTIONS: &[&str] = &[".env.example", ".env.sample", ".env.template", "cacert.pem"];

/// Directories of published certificates; their `*.pem` files are not keys.
const CERTIFICATE_DIRECTORIES: &[&str] = &["certifi"];

/// Rules that match a file only: packages and source directories have this name too.
const FILES_ONLY: &[&str] = &["credentials"];

/// Whether a rule matches files only.
pub(crate) fn is_files_only(rule: &str) -> bool {
    FILES_ONLY.contains(&rule)
}

/// What is known of the directories above a location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Above {
    /// Nothing: a rule counts wherever it ends on the way.
    Unjudged,
    /// They were judged: a rule counts only where it ends at the location itself. So a walk judges every name once.
    Judged,
}

/// The rule that denies a location of a directory or of any other file type: by its names, as other filesystems may compare them, or as a backup copy
/// of a denied place.
pub(crate) fn built_in_rule(location: &Path, is_directory: bool, above: Above) -> Option<&'static str> {
    let names = location.as_os_str().as_bytes();
    let last = names.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let may_apply = match above {
        Above::Unjudged => names.split(|byte| *byte == b'/').any(may_be_denied),
        Above::Judged => may_be_denied(last),
    };
    if !may_apply {
        return None;
    }
    // A single name may fold into several.
    let judged = match (above, location.parent()) {
        (Above::Judged, Some(parent)) if !parent.as_os_str().is_empty() => fold(parent).len(),
        (Above::Judged | Above::Unjudged, _) => 0,
    };
    let folded = fold(location);
    let rule = |folded: &str, is_directory| rule_on_the_way(folded, is_directory, judged);
    let ends = folded.match_indices('/').map(|(end, _)| (end, true)).filter(|(end, _)| *end > judged);
    let mut copies = ends.chain([(folded.len(), is_directory)]).flat_map(|(end, is_directory)| {
        let originals = without_backup_marks(folded.get(..end).unwrap_or_default());
        originals.into_iter().map(move |original| (original, is_directory))
    });
    rule(&folded, is_directory)
        .or_else(|| copies.find_map(|(original, is_directory)| rule(&original, is_directory)))
}

/// Whether a rule may end at a name at any depth, or at a name that it may be a backup copy of. Called for every name of a tree; `false` for nearly
/// all.
#[must_use]
pub fn may_be_denied(name: &[u8]) -> bool {
    static LAST_NAMES: LazyLock<LastNameIndex> = LazyLock::new(|| LastNameIndex::of(DEFAULT_DENY));
    !folds_by_case_alone(name) || LAST_NAMES.may_match(name) || may_be_backup(name)
}

/// The first rule that ends at a name of this folded location, after the bytes that were judged.
fn rule_on_the_way(folded: &str, is_directory: bool, judged: usize) -> Option<&'static str> {
    let directories = folded.match_indices('/').map(|(end, _)| end).filter(|end| *end > judged);
    let above = directories.filter_map(|end| folded.get(..end)).find_map(|above| rule_ending_at(above, true));
    above.or_else(|| rule_ending_at(folded, is_directory))
}

/// The rule whose sequence ends exactly at this folded location, whatever lies above it.
pub(crate) fn rule_ending_at(folded: &str, is_directory: bool) -> Option<&'static str> {
    first_rule(folded, |name, below, rule| {
        let applies = match rule.strip_prefix('*') {
            Some(ending) => below.is_none() && name.ends_with(ending),
            None => matches_all(name, below, rule),
        };
        applies && !(is_directory && FILES_ONLY.contains(&rule))
    })
}

/// The first rule that applies at one of the names. `applies` gets that name, what is below it, and the rule.
fn first_rule(folded: &str, applies: impl Fn(&str, Option<&str>, &str) -> bool) -> Option<&'static str> {
    let (mut rest, mut among_certificates) = (folded, false);
    loop {
        let (name, below) = split(rest);
        let is_shared = |rule: &str| EXCEPTIONS.contains(&name) || (among_certificates && rule == "*.pem");
        if let Some(rule) = DEFAULT_DENY.iter().find(|rule| applies(name, below, rule))
            && !is_shared(rule)
        {
            return Some(rule);
        }
        among_certificates |= CERTIFICATE_DIRECTORIES.contains(&name);
        rest = below?;
    }
}

/// Whether a name and everything below it match the rule's whole sequence of names.
pub(crate) fn matches_all(name: &str, below: Option<&str>, rule: &str) -> bool {
    let further = |rule: &str| {
        below.is_some_and(|below| {
            let (name, below) = split(below);
            matches_all(name, below, rule)
        })
    };
    match rule.split_once('/') {
        None => below.is_none() && name_matches(name, rule),
        Some(("**", tail)) => matches_all(name, below, tail) || further(rule),
        Some((head, tail)) => name_matches(name, head) && further(tail),
    }
}

/// The last name of every rule, indexed by its first byte.
pub(crate) struct LastNameIndex {
    by_first: Vec<Vec<&'static str>>,
    endings: Vec<&'static str>,
    ends: [bool; 256],
}

impl LastNameIndex {
    pub(crate) fn of(rules: &[&'static str]) -> Self {
        let mut all = Self { by_first: vec![Vec::new(); 256], endings: Vec::new(), ends: [false; 256] };
        for rule in rules {
            let last = rule.rsplit('/').next().unwrap_or(rule);
            match (last.strip_prefix('*'), last.bytes().next()) {
                (Some(ending), _) => all.endings.push(ending),
                (None, Some(first)) => {
                    all.by_first.get_mut(usize::from(first)).into_iter().for_each(|names| names.push(last))
                }
                (None, None) => {}
            }
        }
        let last_bytes = all.endings.iter().filter_map(|ending| ending.bytes().last());
        for byte in last_bytes {
            all.ends.get_mut(usize::from(byte)).into_iter().for_each(|ends| *ends = true);
        }
        all
    }

    pub(crate) fn may_match(&self, name: &[u8]) -> bool {
        let (Some(first), Some(last)) = (name.first(), name.last()) else { return false };
        if self.ends.get(usize::from(last.to_ascii_lowercase())) == Some(&true)
            && self.endings.iter().any(|ending| ends_with(name, ending.as_bytes()))
        {
            return true;
        }
        let candidates = self.by_first.get(usize::from(first.to_ascii_lowercase()));
        candidates.is_some_and(|names| names.iter().any(|pattern| may_be(name, pattern)))
    }
}

fn may_be(name: &[u8], pattern: &str) -> bool {
    match pattern.split_once('*') {
        None => name.eq_ignore_ascii_case(pattern.as_bytes()),
        Some((before, after)) => {
            let beginning = name.get(..before.len());
            beginning.is_some_and(|beginning| beginning.eq_ignore_ascii_case(before.as_bytes()))
                && ends_with(name, after.as_bytes())
        }
    }
}

fn ends_with(name: &[u8], ending: &[u8]) -> bool {
    let start = name.len().checked_sub(ending.len());
    start.and_then(|start| name.get(start..)).is_some_and(|end| end.eq_ignore_ascii_case(ending))
}

pub(crate) fn split(location: &str) -> (&str, Option<&str>) {
    location.split_once('/').map_or((location, None), |(name, below)| (name, Some(below)))
}

/// Whether a name and what is below it begin with the rule's sequence of names.
pub(crate) fn begins_with(name: &str, below: Option<&str>, rule: &str) -> bool {
    let further = |rule: &str| {
        below.is_some_and(|below| {
            let (name, below) = split(below);
            begins_with(name, below, rule)
        })
    };
    match rule.split_once('/') {
        None => name_matches(name, rule),
        Some(("**", tail)) => begins_with(name, below, tail) || further(rule),
        Some((head, tail)) => name_matches(name, head) && further(tail),
    }
}

fn name_matches(name: &str, pattern: &str) -> bool {
    match pattern.split_once('*') {
        None => name == pattern,
        Some((before, after)) => {
            name.len() >= before.len() + after.len() && name.starts_with(before) && name.ends_with(after)
        }
    }
}

#[cfg(test)]
mod tests {
    use globset::{GlobBuilder, GlobMatcher};
    use proptest::prelude::*;

    use super::*;

    fn rule_of(location: &str, is_directory: bool) -> Option<&'static str> {
        built_in_rule(Path::new(location), is_directory, Above::Unjudged)
    }

    #[test]
    fn catches_secrets_anywhere() {
        for (location, rule) in [
            (".env", ".env"),
            ("a/b/.env.local", ".env.*"),
            (".git/config", ".git/config"),
            ("vendor/x/.git/hooks/pre-commit", ".git/hooks"),
            (".git/modules/a/b/config", ".git/modules/**/config"),
            (".git/modules/config", ".git/modules/**/config"),
            (".git/modules/a/hooks/post-checkout", ".git/modules/**/hooks"),
            ("home/.ssh/known_hosts", ".ssh"),
            ("deploy/server.pem", "*.pem"),
            (".vscode/mcp.json.before.toolgate", "*.toolgate"),
            (".mcp.json.before-last.toolgate", "*.toolgate"),
            ("client_secret_12.json", "client_secret*.json"),
            ("sub/toolgate.yaml", "toolgate.yaml"),
        ] {
            assert_eq!(rule_of(location, false), Some(rule), "{location}");
        }
    }

    /// The list by another engine and without an index: every rule as a glob, on every run of names.
    fn reference(location: &str, is_directory: bool, above: Above) -> bool {
        static GLOBS: LazyLock<Vec<(&str, GlobMatcher)>> = LazyLock::new(|| {
            let glob = |rule: &str| GlobBuilder::new(rule).literal_separator(true).build().unwrap();
            DEFAULT_DENY.iter().map(|rule| (*rule, glob(rule).compile_matcher())).collect()
        });
        let names: Vec<&str> = location.split('/').collect();
        let ends = if above == Above::Judged { names.len()..=names.len() } else { 1..=names.len() };
        ends.into_iter().any(|end| {
            (0..end).any(|start| {
                let run = names[start..end].join("/");
                GLOBS.iter().any(|(rule, glob)| {
                    let is_shared = EXCEPTIONS.contains(&names[start])
                        || (*rule == "*.pem" && names[..start].contains(&"certifi"));
                    let is_passable = *rule == "credentials" && (end < names.len() || is_directory);
                    glob.is_match(&run) && !is_shared && !is_passable
                })
            })
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]
        #[test]
        fn a_place_is_denied_as_by_every_rule_on_every_run_of_names(
            names in prop::collection::vec(
                prop_oneof![
                    prop::sample::select(DEFAULT_DENY).prop_map(|rule| rule.replace("**", "x").replace('*', "y")),
                    prop::sample::select(&[".git", "modules", "config", "a", ".env.sample", ".jj", "repo", ".config", "certifi", "cacert.pem"][..])
                        .prop_map(str::to_owned),
                ],
                1..5,
            ),
            shout in any::<bool>(),
            is_directory in any::<bool>(),
        ) {
            let location = names.join("/");
            let shown = if shout { location.to_ascii_uppercase() } else { location.clone() };
            for above in [Above::Unjudged, Above::Judged] {
                let rule = built_in_rule(Path::new(&shown), is_directory, above);
                prop_assert_eq!(rule.is_some(), reference(&location, is_directory, above), "{} {:?} {:?}", shown, above, rule);
            }
        }
    }

    #[test]
    fn most_names_need_no_further_thought() {
        for name in [
            "main.rs",
            "index.js",
            "README.md",
            "Cargo.toml",
            "package.json",
            "a",
            ".gitignore",
            "key",
            "pem",
        ] {
            assert!(!may_be_denied(name.as_bytes()), "{name}");
        }
        for name in [
            "x.PEM",
            ".env",
            "ID_RSA",
            "a.toolgate",
            "x.bak",
            "x.Orig",
            "client_secret1.json",
            "config",
            "x~",
            "#x#",
            ".#x",
            "x.",
        ] {
            assert!(may_be_denied(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn credentials_are_a_file_and_published_certificates_are_no_keys() {
        for (location, is_directory, denied) in [
            ("credentials", false, true),
            ("a/credentials", false, true),
            ("a/credentials", true, false),
            ("vendor/google.golang.org/grpc/credentials/tls.go", false, false),
            ("vendor/google.golang.org/grpc/credentials/key.pem", false, true),
            (".aws/credentials", true, true),
            ("credentials/credentials", false, true),
            ("x/cacert.pem", false, false),
            ("cacert.pem/.env", false, true),
            ("site-packages/certifi/roots.pem", false, false),
            ("site-packages/certifi/server.key", false, true),
            ("certifi.pem", false, true),
        ] {
            assert_eq!(rule_of(location, is_directory).is_some(), denied, "{location}");
        }
    }

    #[test]
    fn lets_the_rest_through() {
        for location in [
            "",
            "src/main.rs",
            ".env.example",
            "a/.env.sample",
            ".environment",
            "env",
            "git/config",
            ".git/HEAD",
            ".git/info/exclude",
            "config",
            "hooks/pre-commit",
            "ssh",
            "pem",
            "monkey.rs",
            "key",
            "credentials.md",
            ".gitignore",
            "client_secret.txt",
        ] {
            assert_eq!(rule_of(location, false), None, "{location}");
        }
    }
}

//! Which files may be reached.
//!
//! Rules are applied to the real location of what was opened; denials to the requested name as well. A deny beats a scope.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use toolgate_text::glob_classes::{has_class_beyond_ascii, letter_left_out_in_one_case, other_case};

use crate::deny_list::{default_rule, rule_ending_at};
use crate::deny_prefilter::{cannot_match, no_name_can_match};
use crate::name_fold::{fold, fold_glob, without_backup_marks};

/// A glob that does not parse.
#[derive(Debug, thiserror::Error)]
#[error("`{glob}` is not a glob: {reason}")]
pub struct InvalidGlob {
    /// The glob as written.
    pub glob: String,
    /// What is wrong.
    pub reason: String,
}

/// The files of any mount that one call was granted.
pub trait PathGrant: Send + Sync + std::fmt::Debug {
    /// Whether a real location below a mount is among them.
    fn covers(&self, location: &Path) -> bool;

    /// Whether the call may open what really lies at this location of the mount: false where the decision was about other files. Not called for what
    /// is found below an opened directory.
    fn may_open(&self, alias: &str, location: &Path, is_directory: bool) -> bool {
        let _ = (alias, location, is_directory);
        true
    }
}

/// Which files of a mount may be reached, and which of them may be changed.
#[derive(Clone, Debug, Default)]
pub struct MountRules {
    deny: Option<FoldedGlobs>,
    scope: Option<GlobSet>,
    /// The globs of the scope as written.
    scope_texts: Vec<String>,
    protected: Option<FoldedGlobs>,
    /// Folded.
    gate_files: Vec<String>,
    /// Folded; protected with everything below.
    protected_places: Vec<String>,
}

/// The verdict on one location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PathVerdict {
    Reachable,
    Denied { rule: String },
    OutOfScope,
}

impl MountRules {
    /// The default deny list alone.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The operator's own denials, as globs; a directory includes everything in it.
    ///
    /// # Errors
    /// A glob that does not parse, or a character class that is ambiguous on a case-insensitive filesystem.
    pub fn deny(mut self, patterns: &[String]) -> Result<Self, InvalidGlob> {
        patterns.iter().try_for_each(|pattern| has_clear_classes(pattern))?;
        let texts: Vec<String> = patterns.iter().flat_map(|pattern| with_everything_below(pattern)).collect();
        self.deny = FoldedGlobs::compile(texts)?;
        Ok(self)
    }

    /// Limits the mount to what matches.
    ///
    /// # Errors
    /// A glob that does not parse.
    pub fn scope(mut self, patterns: &[String]) -> Result<Self, InvalidGlob> {
        self.scope = if patterns.is_empty() { None } else { Some(compile(patterns, false)?) };
        self.scope_texts = patterns.to_vec();
        Ok(self)
    }

    /// Files that may be read but not written, replaced or moved.
    ///
    /// # Errors
    /// A glob that does not parse.
    pub fn protect(mut self, patterns: &[&str]) -> Result<Self, InvalidGlob> {
        self.protected =
            FoldedGlobs::compile(patterns.iter().map(|pattern| (*pattern).to_owned()).collect())?;
        Ok(self)
    }

    /// Folded places that may be read but not changed, with everything below them.
    pub(crate) fn protect_places(mut self, places: Vec<String>) -> Self {
        self.protected_places = places;
        self
    }

    /// The places that are protected with everything below them.
    #[must_use]
    pub fn protected_places(&self) -> &[String] {
        &self.protected_places
    }

    /// Whether this is, or lies in, a protected place.
    #[must_use]
    pub fn is_protected_place(&self, location: &Path) -> bool {
        if self.protected_places.is_empty() {
            return false;
        }
        let folded = fold(location);
        self.protected_places.iter().any(|place| is_at_or_below(&folded, place))
    }

    /// Whether a protected place lies below this one, so that a symlink here would redirect it.
    #[must_use]
    pub fn is_above_protected_place(&self, location: &Path) -> bool {
        if self.protected_places.is_empty() {
            return false;
        }
        let folded = fold(location);
        self.protected_places.iter().any(|place| is_at_or_below(place, &folded))
    }

    /// The gate's own files and directories, as locations inside this mount.
    #[must_use]
    pub fn gate_files(mut self, locations: Vec<PathBuf>) -> Self {
        self.gate_files = locations.iter().map(|location| fold(location).into_owned()).collect();
        self
    }

    /// Whether tools can reach the file at a real location of the mount.
    #[must_use]
    pub fn reaches(&self, location: &Path) -> bool {
        self.verdict(location, false, None) == PathVerdict::Reachable
    }

    pub(crate) fn verdict(
        &self,
        location: &Path,
        is_directory: bool,
        grant: Option<&dyn PathGrant>,
    ) -> PathVerdict {
        if let Some(rule) = self.denying_rule(location, is_directory) {
            return PathVerdict::Denied { rule };
        }
        // Directories are passable so that what lies in scope below them can be reached; the scope is applied to their entries.
        let reachable = is_directory || self.is_in_scope(location, grant);
        if reachable { PathVerdict::Reachable } else { PathVerdict::OutOfScope }
    }

    /// Whether an entry of a reachable directory is reachable: the same result as [`Self::verdict`], cheap enough for every entry of a tree.
    pub(crate) fn reaches_entry(
        &self,
        location: &Path,
        is_directory: bool,
        grant: Option<&dyn PathGrant>,
    ) -> bool {
        !is_denied_by_name(location, is_directory)
            && !self.is_denied_by_operator(location)
            && (is_directory || self.is_in_scope(location, grant))
    }

    /// The rule that denies a location, real or as named, of a directory or of any other file type, to every caller.
    pub(crate) fn denying_rule(&self, location: &Path, is_directory: bool) -> Option<String> {
        if let Some(rule) = self.operators_rule(location) {
            return Some(rule);
        }
        if no_name_can_match(location.as_os_str().as_bytes()) {
            return None;
        }
        built_in_rule(location, is_directory).map(str::to_owned)
    }

    /// A match among the gate's own files or the operator's denials.
    pub(crate) fn operators_rule(&self, location: &Path) -> Option<String> {
        if self.gate_files.is_empty() && self.deny.is_none() {
            return None;
        }
        let folded = fold(location);
        if let Some(own) = self.gate_files.iter().find(|own| is_at_or_below(&folded, own)) {
            return Some(format!("the gate's own {own}"));
        }
        // An operator's pattern matches the name as written and its folded twins.
        let raw = location.to_string_lossy();
        let globs = self.deny.as_ref()?;
        globs.first_match(&raw).or_else(|| globs.first_match(&folded)).map(str::to_owned)
    }

    /// Whether [`Self::operators_rule`] matches, without naming the rule: called for every file of a tree.
    #[must_use]
    pub fn is_denied_by_operator(&self, location: &Path) -> bool {
        if self.gate_files.is_empty() && self.deny.is_none() {
            return false;
        }
        let folded = fold(location);
        let is_denied = |globs: &FoldedGlobs| {
            let raw = location.to_string_lossy();
            globs.set.is_match(raw.as_ref()) || (raw != folded && globs.set.is_match(folded.as_ref()))
        };
        self.gate_files.iter().any(|own| is_at_or_below(&folded, own))
            || self.deny.as_ref().is_some_and(is_denied)
    }

    /// Whether this is, or lies in, one of the gate's own files and directories.
    #[must_use]
    pub fn is_gate_owned(&self, location: &Path) -> bool {
        let folded = fold(location);
        self.gate_files.iter().any(|own| is_at_or_below(&folded, own))
    }

    /// The gate's own files and directories, as folded locations.
    #[must_use]
    pub fn gate_places(&self) -> &[String] {
        &self.gate_files
    }

    /// Whether the scope of the mount and the grant of the call include a file.
    #[inline]
    #[must_use]
    pub fn is_in_scope(&self, location: &Path, grant: Option<&dyn PathGrant>) -> bool {
        self.scope.as_ref().is_none_or(|globs| globs.is_match(location))
            && grant.is_none_or(|grant| grant.covers(location))
    }

    /// Whether the mount is limited to some of its files.
    #[must_use]
    pub fn has_scope(&self) -> bool {
        self.scope.is_some()
    }

    /// The globs of the scope as written; `None` without a scope.
    pub(crate) fn scope_texts(&self) -> Option<&[String]> {
        self.scope.is_some().then_some(self.scope_texts.as_slice())
    }

    /// The operator's denials as globs.
    pub(crate) fn deny_texts(&self) -> &[String] {
        self.deny.as_ref().map(|globs| globs.texts.as_slice()).unwrap_or_default()
    }

    /// Whether only the built-in rules apply, which judge an entry of a reachable directory by its name and the names above it.
    pub(crate) fn depend_on_names_only(&self) -> bool {
        self.gate_files.is_empty() && self.deny.is_none() && self.scope.is_none()
    }

    /// Whether there are globs, which may match any location.
    #[must_use]
    pub fn has_globs(&self) -> bool {
        self.deny.is_some() || self.scope.is_some() || self.protected.is_some()
    }

    /// Whether the rules allow a file to be changed.
    #[must_use]
    pub fn may_change(&self, location: &Path) -> bool {
        !self.is_protected_place(location)
            && self.protected.as_ref().is_none_or(|globs| globs.first_match(&fold(location)).is_none())
    }
}

/// The rule of the built-in list that denies a location.
fn built_in_rule(location: &Path, is_directory: bool) -> Option<&'static str> {
    let folded = fold(location);
    let rule = |name: &str| default_rule(name, is_directory);
    rule(&folded).or_else(|| without_backup_marks(&folded).iter().find_map(|name| rule(name)))
}

/// Whether the built-in list denies this place by its own name. Places below a denied one are not asked about.
#[must_use]
pub fn is_denied_by_name(place: &Path, is_directory: bool) -> bool {
    // The last name alone rules out most places.
    let name = place.as_os_str().as_bytes().rsplit(|byte| *byte == b'/').next();
    !name.is_some_and(cannot_match) && is_denied_when_folded(place, is_directory)
}

fn is_denied_when_folded(place: &Path, is_directory: bool) -> bool {
    let folded = fold(place);
    let is_denied = |name: &str| rule_ending_at(name, is_directory).is_some();
    is_denied(&folded) || without_backup_marks(&folded).iter().any(|name| is_denied(name))
}

/// `src/**` matches everything below `src`; `*` does not cross a `/`.
fn compile(patterns: &[String], ignore_case: bool) -> Result<GlobSet, InvalidGlob> {
    let mut builder = GlobSetBuilder::new();
    for pattern in patterns {
        let glob = GlobBuilder::new(pattern.trim_start_matches("./"))
            .literal_separator(true)
            .case_insensitive(ignore_case)
            .build()
            .map_err(|error| InvalidGlob { glob: pattern.clone(), reason: error.kind().to_string() })?;
        builder.add(glob);
    }
    builder
        .build()
        .map_err(|error| InvalidGlob { glob: patterns.join(", "), reason: error.kind().to_string() })
}

/// Rejects character classes in a denial that are ambiguous where case is ignored.
fn has_clear_classes(pattern: &str) -> Result<(), InvalidGlob> {
    let unclear = |reason: String| Err(InvalidGlob { glob: pattern.to_owned(), reason });
    if has_class_beyond_ascii(pattern) {
        return unclear("a class in brackets holds ASCII alone; write `{é,è}` in place of `[éè]`".to_owned());
    }
    match letter_left_out_in_one_case(pattern) {
        Some(letter) => {
            let other = other_case(letter);
            unclear(format!("it leaves out `{letter}` and not `{other}`, but denials ignore case; name both"))
        }
        None => Ok(()),
    }
}

/// Whether a folded location is `own`, or lies below it.
pub(crate) fn is_at_or_below(folded: &str, own: &str) -> bool {
    folded.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// `secrets` and `secrets/` mean the directory and everything in it.
fn with_everything_below(pattern: &str) -> Vec<String> {
    let trimmed = pattern.trim_end_matches('/');
    // As in the built-in rules, a single name matches at any depth.
    let anywhere = if trimmed.contains('/') { trimmed.to_owned() } else { format!("**/{trimmed}") };
    let trimmed = anywhere.as_str();
    let mut patterns = vec![trimmed.to_owned()];
    match trimmed.strip_suffix("/**") {
        // The directory itself is denied with its content, so that it can be neither listed nor moved.
        Some(folder) if !folder.is_empty() && folder != "**" => patterns.push(folder.to_owned()),
        Some(_) => {}
        None => patterns.push(format!("{trimmed}/**")),
    }
    patterns
}

/// Globs matched on folded locations, with their texts, so that a denial can name its rule. Each is compiled as written, and once more folded where
/// that differs.
#[derive(Clone, Debug)]
struct FoldedGlobs {
    texts: Vec<String>,
    set: GlobSet,
}

impl FoldedGlobs {
    fn compile(mut texts: Vec<String>) -> Result<Option<Self>, InvalidGlob> {
        if texts.is_empty() {
            return Ok(None);
        }
        let mut patterns = texts.clone();
        for text in &patterns.clone() {
            if let Some(folded) = fold_glob(text) {
                patterns.push(folded);
                texts.push(text.clone());
            }
        }
        Ok(Some(Self { set: compile(&patterns, true)?, texts }))
    }

    fn first_match(&self, folded: &str) -> Option<&str> {
        let index = self.set.matches(folded).into_iter().min()?;
        self.texts.get(index).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn denied(rules: &MountRules, location: &str) -> bool {
        matches!(rules.verdict(Path::new(location), false, None), PathVerdict::Denied { .. })
    }

    #[test]
    fn operator_denials_cover_the_folder_and_its_content_in_any_case() {
        let rules =
            MountRules::new().deny(&["secrets/".into(), "**/*.Secret".into(), "drafts/**".into()]).unwrap();
        for location in
            ["secrets", "a/secrets", "Secrets/a/b", "x/y.secret", "x/Y.SECRET", "drafts", "drafts/x", ".env"]
        {
            assert!(denied(&rules, location), "{location}");
        }
        for location in ["secret", "x.secrets", "draft", "a/drafts/x"] {
            assert!(!denied(&rules, location), "{location}");
        }
    }

    #[test]
    fn a_deny_beats_a_scope_and_a_scope_keeps_the_rest_out() {
        let rules = MountRules::new().scope(&["src/**".into()]).unwrap();
        assert_eq!(rules.verdict(Path::new("src/a.rs"), false, None), PathVerdict::Reachable);
        assert_eq!(rules.verdict(Path::new("docs/a.md"), false, None), PathVerdict::OutOfScope);
        assert_eq!(rules.verdict(Path::new("docs"), true, None), PathVerdict::Reachable);
        assert!(denied(&rules, "src/.env"));
        #[derive(Debug)]
        struct OnlyMarkdown;
        impl PathGrant for OnlyMarkdown {
            fn covers(&self, location: &Path) -> bool {
                location.extension().is_some_and(|extension| extension == "md")
            }
        }
        let grant = OnlyMarkdown;
        assert_eq!(rules.verdict(Path::new("src/a.rs"), false, Some(&grant)), PathVerdict::OutOfScope);
        assert_eq!(rules.verdict(Path::new("src/a.md"), false, Some(&grant)), PathVerdict::Reachable);
        assert_eq!(rules.verdict(Path::new("docs/a.md"), false, Some(&grant)), PathVerdict::OutOfScope);
    }

    #[test]
    fn operator_denials_mean_what_they_say() {
        let patterns = ["a:b/**", "notes./**", "re\u{301}sume\u{301}/**", "²secret"].map(str::to_owned);
        let rules = MountRules::new().deny(&patterns).unwrap();
        for location in ["a:b/x", "notes./x", "re\u{301}sume\u{301}/x", "²secret", "deep/²secret"] {
            assert!(denied(&rules, location), "{location}");
        }
    }

    #[test]
    fn no_case_and_no_twin_gets_around_an_operators_denial() {
        for (pattern, twins) in [
            ("[S]ecret*", &["Secret", "secret", "SECRETS", "a/sECRET.txt", "Secret/x"][..]),
            ("[a-f]-[X-Z]", &["a-x", "A-X", "F-z", "b-Y/below"]),
            ("data/[!pP]*", &["data/x", "DATA/X", "Data/1"]),
            ("{Draft,[nN]ote}s", &["drafts", "DRAFTS", "Notes", "NOTES"]),
            ("Ärger", &["Ärger", "ärger", "ÄRGER", "a\u{308}rger", "A\u{308}RGER/x", "ä\u{200b}rger"]),
            ("A\u{308}rger*", &["Ärger", "ärgerlich", "A\u{308}RGER"]),
            ("Geheim/Maße", &["geheim/maße", "GEHEIM/MASSE", "geheim/MAẞE/x"]),
            ("ＳＥＣＲＥＴ", &["secret", "ＳＥＣＲＥＴ", "Secret"]),
            ("a＊b", &["a＊b", "A＊B", "a*b"]),
            ("Ω\\*", &["ω*", "Ω*", "\u{2126}*"]),
        ] {
            let rules = MountRules::new().deny(&[pattern.to_owned()]).unwrap();
            for twin in twins {
                assert!(denied(&rules, twin), "{pattern} lets {twin} through");
                assert!(rules.is_denied_by_operator(Path::new(twin)), "{pattern} lets {twin} through");
                // A denial names the rule as written.
                assert!(
                    rules.operators_rule(Path::new(twin)).unwrap().contains(pattern),
                    "{pattern}, {twin}"
                );
            }
        }
        let rules =
            MountRules::new().deny(&["[S]ecret*".into(), "data/[!pP]*".into(), "a＊b".into()]).unwrap();
        for location in ["ecret", "xsecret", "data/public", "data/Public", "axb", "ab"] {
            assert!(!denied(&rules, location), "{location}");
        }
    }

    #[test]
    fn a_class_of_which_nobody_knows_what_it_denies_is_refused() {
        for (pattern, words) in [
            ("data/[!p]*", "leaves out `p` and not `P`"),
            ("[^A-Z]*", "leaves out `A` and not `a`"),
            ("[é]t*", "ASCII alone"),
        ] {
            let refused = MountRules::new().deny(&[pattern.to_owned()]).unwrap_err().to_string();
            assert!(refused.contains(words) && refused.contains(pattern), "{refused}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        /// On a case-insensitive filesystem, a denied name in another case is the same file.
        #[test]
        fn a_name_is_denied_in_every_case_or_in_none(
            pieces in prop::collection::vec("[a-cA-C]|\\[[a-cA-C]{1,2}\\]|\\[!(aA|bB|aAbB|cC1)\\]|\\[[a-b]-[b-c]\\]|\\*|\\?|ä|É|\\{a,B\\}", 1..4),
            name in "[a-cA-CäÄéÉ1]{1,4}",
            cases in any::<u8>(),
        ) {
            let rules = MountRules::new().deny(&[pieces.concat()]).unwrap();
            let other = |(place, letter): (usize, char)| match cases >> (place % 8) & 1 {
                1 if letter.is_uppercase() => letter.to_lowercase().to_string(),
                1 => letter.to_uppercase().to_string(),
                _ => letter.to_string(),
            };
            let twin: String = name.chars().enumerate().map(other).collect();
            prop_assert_eq!(denied(&rules, &name), denied(&rules, &twin), "{} as {}", name, twin);
        }
    }

    #[test]
    fn backups_of_secrets_are_secrets() {
        for location in
            [".env~", "a/id_rsa.bak", "x/server.pem.orig", ".id_rsa.swp", "#.env#", ".#.env", "k.key.old~"]
        {
            assert!(denied(&MountRules::new(), location), "{location}");
        }
        for location in ["notes.md~", "main.rs.bak", "#notes#", "environment~"] {
            assert!(!denied(&MountRules::new(), location), "{location}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn entries_of_reachable_folders_are_judged_as_by_their_whole_way(
            names in prop::collection::vec(
                prop_oneof![
                    prop::sample::select(crate::deny_list::DEFAULT_DENY)
                        .prop_map(|rule| rule.replace("**", "x").replace('*', "y")),
                    prop::sample::select(&["a", "SRC", "b.RS", "id_rsa.bak", "#.env#", "k.KEY.old~", ".Env", "s\u{200b}ecrets",
                        "drafts", "x.pem", "certifi", "cacert.pem", "credentials", "var", "state", "．env"][..]).prop_map(str::to_owned),
                ],
                1..5,
            ),
            is_directory in any::<bool>(),
        ) {
            let rules = MountRules::new().deny(&["secrets/".into(), "drafts/**".into()]).unwrap();
            let rules = rules.scope(&["a/**".into(), "SRC/**".into()]).unwrap();
            let rules = rules.gate_files(vec![PathBuf::from("var/state")]);
            // A walk descends until it meets something unreachable.
            let mut location = PathBuf::new();
            for (number, name) in names.iter().enumerate() {
                location.push(name);
                let is_directory = is_directory || number + 1 < names.len();
                let whole = rules.verdict(&location, is_directory, None) == PathVerdict::Reachable;
                prop_assert_eq!(rules.reaches_entry(&location, is_directory, None), whole, "{:?}", location);
                if !whole {
                    break;
                }
            }
        }
    }

    /// One or several names: those of a rule, perhaps truncated, in another form or as a backup copy, and others.
    fn names() -> impl Strategy<Value = String> {
        let rule = (
            "[#.x]{0,2}",
            prop::sample::select(crate::deny_list::DEFAULT_DENY),
            "[a-z\u{200b}]{0,1}",
            "(~|#|\\.bak|\\.OLD|\\.swp|\\.copy|\\.| |:x|\u{200b}|\u{ff0e}|[a-z./]){0,2}",
            any::<bool>(),
        );
        let spelt = rule.prop_map(|(before, rule, within, after, shout)| {
            let rule = rule.replace("**", "x").replace('*', &within);
            let rule = if shout { rule.to_ascii_uppercase() } else { rule };
            format!("{before}{rule}{after}")
        });
        let others = &[
            "a",
            "src",
            ".git",
            ".git/modules",
            ".GIT/worktrees",
            ".jj",
            ".config",
            "certifi",
            "A b.",
            "\u{e9}",
            "x.md",
            ".env.sample",
            "cacert.pem",
            "credentials",
            "x\u{ff0f}.env",
            "",
            "config",
            "s\u{17f}h",
        ][..];
        prop_oneof![2 => spelt, 3 => prop::sample::select(others).prop_map(str::to_owned)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(6000))]
        #[test]
        fn what_is_done_with_at_a_glance_is_not_denied(
            names in prop::collection::vec(names(), 1..5),
            is_directory in any::<bool>(),
        ) {
            let place = PathBuf::from(names.join("/"));
            prop_assert_eq!(is_denied_by_name(&place, is_directory), is_denied_when_folded(&place, is_directory), "{:?}", place);
            let rule = built_in_rule(&place, is_directory).map(str::to_owned);
            prop_assert_eq!(MountRules::new().denying_rule(&place, is_directory), rule, "{:?}", place);
            // What is denied as a directory is denied as a file of the same name.
            if built_in_rule(&place, true).is_some() {
                prop_assert!(built_in_rule(&place, false).is_some(), "{:?}", place);
            }
        }
    }

    #[test]
    fn own_files_are_denied_with_everything_below() {
        let rules = MountRules::new().gate_files(vec![PathBuf::from("var/state")]);
        assert!(denied(&rules, "var/state/audit/x.jsonl") && denied(&rules, "var/state"));
        assert!(!denied(&rules, "var/state2"));
    }
}

//! Which files may be reached.
//!
//! Rules are applied to the real location of what was opened; denials to the requested name as well. A deny beats a scope.

use std::fmt;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use toolgate_text::glob_classes::{has_class_beyond_ascii, letter_left_out_in_one_case, other_case};

use crate::deny_list::{Above, built_in_rule};
use crate::name_fold::{fold, fold_glob};

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
pub trait PathGrant: Send + Sync + fmt::Debug {
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

/// The rule that denies a location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DenyingRule<'r> {
    /// It is, or lies in, one of the gate's own files and directories, folded.
    GateOwned(&'r str),
    /// A glob of the operator, as written.
    Operator(&'r str),
    /// A rule of the built-in list.
    BuiltIn(&'static str),
}

impl fmt::Display for DenyingRule<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GateOwned(own) => write!(formatter, "the gate's own {own}"),
            Self::Operator(rule) | Self::BuiltIn(rule) => formatter.write_str(rule),
        }
    }
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
        self.verdict(location, false, None, Above::Unjudged) == PathVerdict::Reachable
    }

    /// The verdict of all rules of this mount and of the call's grant.
    pub(crate) fn verdict(
        &self,
        location: &Path,
        is_directory: bool,
        grant: Option<&dyn PathGrant>,
        above: Above,
    ) -> PathVerdict {
        if let Some(rule) = self.denied(location, is_directory, above) {
            return PathVerdict::Denied { rule: rule.to_string() };
        }
        // Directories are passable so that what lies in scope below them can be reached; the scope is applied to their entries.
        let reachable = is_directory || self.is_in_scope(location, grant);
        if reachable { PathVerdict::Reachable } else { PathVerdict::OutOfScope }
    }

    /// Whether a location, real or as named, of a directory or of any other file type is denied to every caller, and by which rule. The only place
    /// where that is decided: opening, listing, searching, walking and the masks of commands ask it. Allocates nothing for plain names.
    #[must_use]
    pub fn denied(&self, location: &Path, is_directory: bool, above: Above) -> Option<DenyingRule<'_>> {
        if !self.gate_files.is_empty() || self.deny.is_some() {
            let folded = fold(location);
            if let Some(own) = self.gate_files.iter().find(|own| is_at_or_below(&folded, own)) {
                return Some(DenyingRule::GateOwned(own));
            }
            let globs = self.deny.as_ref();
            if let Some(rule) = globs.and_then(|globs| globs.first_match_of(location, &folded)) {
                return Some(DenyingRule::Operator(rule));
            }
        }
        built_in_rule(location, is_directory, above).map(DenyingRule::BuiltIn)
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

    /// A pattern matches the name as written and its folded twins.
    fn first_match_of(&self, location: &Path, folded: &str) -> Option<&str> {
        let raw = location.to_string_lossy();
        let other = (raw != folded).then_some(folded);
        // Whether any matches is cheaper than which, and nearly every name matches none.
        let matching = |name: &str| self.set.is_match(name).then(|| self.first_match(name)).flatten();
        matching(&raw).or_else(|| other.and_then(matching))
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
        matches!(rules.verdict(Path::new(location), false, None, Above::Unjudged), PathVerdict::Denied { .. })
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
        assert_eq!(
            rules.verdict(Path::new("src/a.rs"), false, None, Above::Unjudged),
            PathVerdict::Reachable
        );
        assert_eq!(
            rules.verdict(Path::new("docs/a.md"), false, None, Above::Unjudged),
            PathVerdict::OutOfScope
        );
        assert_eq!(rules.verdict(Path::new("docs"), true, None, Above::Unjudged), PathVerdict::Reachable);
        assert!(denied(&rules, "src/.env"));
        #[derive(Debug)]
        struct OnlyMarkdown;
        impl PathGrant for OnlyMarkdown {
            fn covers(&self, location: &Path) -> bool {
                location.extension().is_some_and(|extension| extension == "md")
            }
        }
        let grant = OnlyMarkdown;
        assert_eq!(
            rules.verdict(Path::new("src/a.rs"), false, Some(&grant), Above::Unjudged),
            PathVerdict::OutOfScope
        );
        assert_eq!(
            rules.verdict(Path::new("src/a.md"), false, Some(&grant), Above::Unjudged),
            PathVerdict::Reachable
        );
        assert_eq!(
            rules.verdict(Path::new("docs/a.md"), false, Some(&grant), Above::Unjudged),
            PathVerdict::OutOfScope
        );
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
                // A denial names the rule as written.
                let rule = rules.denied(Path::new(twin), false, Above::Judged);
                assert!(
                    matches!(rule, Some(DenyingRule::Operator(rule)) if rule.contains(pattern)),
                    "{pattern}, {twin}: {rule:?}"
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
        for location in [
            ".ssh~/x",
            "a/.ssh.bak/known/x",
            ".env~",
            "a/id_rsa.bak",
            "x/server.pem.orig",
            ".id_rsa.swp",
            "#.env#",
            ".#.env",
            "k.key.old~",
        ] {
            assert!(denied(&MountRules::new(), location), "{location}");
        }
        for location in ["notes.md~", "main.rs.bak", "#notes#", "environment~", "notes~/x"] {
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
                let whole = rules.verdict(&location, is_directory, None, Above::Unjudged) == PathVerdict::Reachable;
                let entry = rules.verdict(&location, is_directory, None, Above::Judged) == PathVerdict::Reachable;
                prop_assert_eq!(entry, whole, "{:?}", location);
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

    /// The built-in list on the folded location, with every end of a rule on the way and without the index.
    fn plainly_denied(place: &Path, is_directory: bool) -> bool {
        let folded = fold(place).into_owned();
        let above = |name: &str| -> Vec<(String, bool)> {
            name.match_indices('/').map(|(end, _)| (name.get(..end).unwrap().to_owned(), true)).collect()
        };
        let places: Vec<(String, bool)> =
            above(&folded).into_iter().chain([(folded, is_directory)]).collect();
        let mut all = places.into_iter().flat_map(|(place, is_directory)| {
            let originals = crate::name_fold::without_backup_marks(&place);
            let copies: Vec<(String, bool)> = originals
                .into_iter()
                .flat_map(|name| above(&name).into_iter().chain([(name, is_directory)]))
                .collect();
            copies.into_iter().chain([(place, is_directory)])
        });
        all.any(|(name, is_directory)| crate::deny_list::rule_ending_at(&name, is_directory).is_some())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(6000))]
        #[test]
        fn the_index_leaves_out_nothing_that_is_denied(
            names in prop::collection::vec(names(), 1..5),
            is_directory in any::<bool>(),
        ) {
            // As the kernel walks it: without empty names.
            let place: PathBuf = Path::new(&names.join("/")).components().collect();
            let rules = MountRules::new();
            let denied = |is_directory| rules.denied(&place, is_directory, Above::Unjudged).is_some();
            prop_assert_eq!(denied(is_directory), plainly_denied(&place, is_directory), "{:?}", place);
            // What is denied as a directory is denied as a file of the same name.
            prop_assert!(!denied(true) || denied(false), "{:?}", place);
            // What is denied is denied at one of its own names, or above it.
            let ways = place.ancestors().filter(|way| !way.as_os_str().is_empty());
            let by_a_walk = ways.enumerate().any(|(above, way)| {
                rules.denied(way, is_directory || above > 0, Above::Judged).is_some()
            });
            prop_assert!(by_a_walk || !denied(is_directory), "{:?}", place);
        }
    }

    #[test]
    fn each_denial_names_its_rule_and_a_walk_asks_only_for_the_entry() {
        let rules = MountRules::new().deny(&["drafts".into(), "*.Tmp".into()]).unwrap();
        let rules = rules.gate_files(vec![PathBuf::from("var/State")]);
        let (own, operator) = (DenyingRule::GateOwned("var/state"), DenyingRule::Operator("**/drafts"));
        let built_in = DenyingRule::BuiltIn;
        for (location, is_directory, unjudged, judged) in [
            ("src/main.rs", false, None, None),
            ("var/state", true, Some(own), Some(own)),
            ("VAR/state/audit/x", false, Some(own), Some(own)),
            ("a/drafts", true, Some(operator), Some(operator)),
            (
                "a/x.tmp",
                false,
                Some(DenyingRule::Operator("**/*.Tmp")),
                Some(DenyingRule::Operator("**/*.Tmp")),
            ),
            (".ssh", true, Some(built_in(".ssh")), Some(built_in(".ssh"))),
            (".ssh/known_hosts", false, Some(built_in(".ssh")), None),
            (".git/hooks/pre-commit", false, Some(built_in(".git/hooks")), None),
            (".git/hooks/x.pem", false, Some(built_in(".git/hooks")), Some(built_in("*.pem"))),
            ("credentials", false, Some(built_in("credentials")), Some(built_in("credentials"))),
            ("credentials", true, None, None),
            ("credentials/a.go", false, None, None),
            ("id_rsa.bak~", false, Some(built_in("id_rsa")), Some(built_in("id_rsa"))),
            ("a/\u{ff0e}env", false, Some(built_in(".env")), Some(built_in(".env"))),
            // One name that folds into three.
            ("a/x\u{ff0f}.ssh\u{ff0f}y", false, Some(built_in(".ssh")), Some(built_in(".ssh"))),
            (".ssh/x\u{ff0f}y", false, Some(built_in(".ssh")), None),
        ] {
            let place = Path::new(location);
            assert_eq!(rules.denied(place, is_directory, Above::Unjudged), unjudged, "{location}");
            assert_eq!(rules.denied(place, is_directory, Above::Judged), judged, "{location}");
        }
    }

    #[test]
    fn own_files_are_denied_with_everything_below() {
        let rules = MountRules::new().gate_files(vec![PathBuf::from("var/state")]);
        assert!(denied(&rules, "var/state/audit/x.jsonl") && denied(&rules, "var/state"));
        assert!(!denied(&rules, "var/state2"));
    }
}

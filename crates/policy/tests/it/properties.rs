//! Properties of every declaration, checked against slow and obvious reference models.

use std::path::Path;

use proptest::prelude::*;
use toolgate_manifest::{AgentConfig, Globs, LimitOverrides, ToolPermission};
use toolgate_policy::{AgentScope, PathScope, ScopeVerdict, needs_question};
use toolgate_types::{ToolClass, Trust};

const TOOLS: [&str; 5] = ["read_file", "write_file", "edit_file", "delete_file", "fs.read"];
const CLASSES: [ToolClass; 3] = [ToolClass::Read, ToolClass::Write, ToolClass::Destructive];
const TRUSTS: [Trust; 3] = [Trust::Supervised, Trust::Guided, Trust::Autonomous];

/// A tool by number, whether it is allowed, and its globs.
type Entry = (usize, bool, Option<Vec<String>>);

fn glob() -> impl Strategy<Value = String> {
    let part = prop_oneof![Just("**"), Just("*"), Just("a"), Just("b"), Just("a*"), Just("*b"), Just("?")];
    proptest::collection::vec(part, 1..4).prop_map(|parts| parts.join("/"))
}

fn path() -> impl Strategy<Value = String> {
    let part = prop_oneof![Just("a"), Just("b"), Just("ab"), Just("ba"), Just("aab"), Just(".a")];
    proptest::collection::vec(part, 1..5).prop_map(|parts| parts.join("/"))
}

fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let paths = proptest::option::of(proptest::collection::vec(glob(), 1..3));
    proptest::collection::vec((0..TOOLS.len(), any::<bool>(), paths), 0..7)
}

fn trust() -> impl Strategy<Value = Option<Trust>> {
    proptest::option::of(proptest::sample::select(&TRUSTS[..]))
}

fn agent(entries: Option<&[Entry]>, trust: Option<Trust>) -> AgentConfig {
    let permission = |(tool, allowed, paths): &Entry| ToolPermission {
        tool: TOOLS[*tool].parse::<toolgate_types::ToolName>().unwrap().into(),
        allowed: *allowed,
        paths: paths.as_ref().map(|globs| Globs::compile(globs).unwrap()),
        limits: LimitOverrides::default(),
    };
    AgentConfig {
        name: "sm".parse::<toolgate_types::AgentName>().unwrap().into(),
        description: None,
        trust: trust.map(Into::into),
        limits: LimitOverrides::default(),
        permissions: Vec::new(),
        tool_permissions: entries.map(|entries| entries.iter().map(permission).collect()),
        conversation: Default::default(),
    }
}

/// Whether an agent may use a tool on a path, through the code under test.
fn may(agent: &AgentConfig, tool: &str, class: ToolClass, path: &str) -> bool {
    match AgentScope::of(Some(agent)).permits(tool, class) {
        ScopeVerdict::Denied { .. } => false,
        ScopeVerdict::Allowed(grant) => grant.paths.is_none_or(|paths| paths.matches(Path::new(path))),
    }
}

/// The same by the documented rules.
fn may_by_the_book(entries: Option<&[Entry]>, tool: &str, class: ToolClass, path: &str) -> bool {
    let Some(entries) = entries else { return class == ToolClass::Read };
    let about: Vec<&Entry> = entries.iter().filter(|(number, ..)| TOOLS[*number] == tool).collect();
    match about[..] {
        [(_, true, None)] => true,
        [(_, true, Some(globs))] => globs.iter().any(|glob| matches_slowly(glob, path)),
        _ => false,
    }
}

/// Globs by recursion: `**` is any number of names, `*` any characters of one name, `?` one character.
fn matches_slowly(glob: &str, path: &str) -> bool {
    fn names(glob: &[&str], path: &[&str]) -> bool {
        match (glob, path) {
            ([], []) => true,
            // At the end, `**` stands for at least one name: `a/**` is what is inside `a`, not `a` itself.
            (["**"], rest) => !rest.is_empty(),
            (["**", more @ ..], rest) => names(more, rest) || (!rest.is_empty() && names(glob, &rest[1..])),
            ([first, more @ ..], [name, rest @ ..]) => {
                letters(first.as_bytes(), name.as_bytes()) && names(more, rest)
            }
            _ => false,
        }
    }
    fn letters(glob: &[u8], name: &[u8]) -> bool {
        match (glob, name) {
            ([], []) => true,
            ([b'*', more @ ..], rest) => {
                letters(more, rest) || (!rest.is_empty() && letters(glob, &rest[1..]))
            }
            ([b'?', more @ ..], [_, rest @ ..]) => letters(more, rest),
            ([first, more @ ..], [letter, rest @ ..]) => first == letter && letters(more, rest),
            _ => false,
        }
    }
    names(&glob.split('/').collect::<Vec<_>>(), &path.split('/').collect::<Vec<_>>())
}

/// All combinations of tool and class.
fn questions() -> impl Iterator<Item = (&'static str, ToolClass)> {
    TOOLS.into_iter().chain(["unheard_of"]).flat_map(|tool| CLASSES.map(|class| (tool, class)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn globs_match_as_the_reference_does(glob in glob(), path in path()) {
        let scope = PathScope::new(Globs::compile([&glob]).unwrap());
        prop_assert_eq!(scope.matches(Path::new(&path)), matches_slowly(&glob, &path), "{} against {}", glob, path);
    }

    #[test]
    fn verdicts_follow_the_book(entries in proptest::option::of(entries()), path in path()) {
        let agent = agent(entries.as_deref(), None);
        for (tool, class) in questions() {
            let expected = may_by_the_book(entries.as_deref(), tool, class, &path);
            prop_assert_eq!(may(&agent, tool, class, &path), expected, "{} of class {:?}", tool, class);
        }
    }

    #[test]
    fn taking_a_permission_away_never_allows_more(
        tools in proptest::sample::subsequence((0..TOOLS.len()).collect::<Vec<_>>(), 1..=TOOLS.len()),
        taken in any::<prop::sample::Index>(),
        forbid in any::<bool>(),
        globs in proptest::option::of(proptest::collection::vec(glob(), 1..3)),
        path in path(),
    ) {
        let before: Vec<Entry> = tools.iter().map(|tool| (*tool, true, globs.clone())).collect();
        let mut after = before.clone();
        let taken = taken.index(after.len());
        if forbid {
            after[taken].1 = false;
        } else {
            after.remove(taken);
        }
        let (before, after) = (agent(Some(&before), None), agent(Some(&after), None));
        for (tool, class) in questions() {
            prop_assert!(may(&before, tool, class, &path) || !may(&after, tool, class, &path), "{}", tool);
        }
    }

    #[test]
    fn narrowing_paths_never_allows_more(
        globs in proptest::collection::vec(glob(), 2..5),
        kept in any::<prop::sample::Index>(),
        path in path(),
    ) {
        let kept = globs[kept.index(globs.len())].clone();
        let everywhere = agent(Some(&[(1, true, None)]), None);
        let wide = agent(Some(&[(1, true, Some(globs))]), None);
        let narrow = agent(Some(&[(1, true, Some(vec![kept]))]), None);
        let may = |agent: &AgentConfig| may(agent, TOOLS[1], ToolClass::Write, &path);
        prop_assert!(may(&everywhere));
        prop_assert!(may(&wide) || !may(&narrow));
    }

    #[test]
    fn trust_never_changes_rights(
        entries in proptest::option::of(entries()),
        one in trust(),
        other in trust(),
        path in path(),
    ) {
        let (one, other) = (agent(entries.as_deref(), one), agent(entries.as_deref(), other));
        for (tool, class) in questions() {
            prop_assert_eq!(may(&one, tool, class, &path), may(&other, tool, class, &path));
        }
    }
}

#[test]
fn less_trust_and_more_danger_never_ask_less() {
    for pair in TRUSTS.windows(2) {
        for class in CLASSES {
            assert!(needs_question(pair[0], class) || !needs_question(pair[1], class));
        }
    }
    for pair in CLASSES.windows(2) {
        for trust in TRUSTS {
            assert!(needs_question(trust, pair[1]) || !needs_question(trust, pair[0]));
        }
    }
}

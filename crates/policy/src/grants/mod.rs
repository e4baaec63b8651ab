//! What a lasting grant covers, and whether a call is covered.
//!
//! A grant answers a question that was asked before; it permits nothing. A [`GrantMatcher`] is compared with the facts that were established about a
//! call: the digest of its arguments, where its paths really lead, its shell line. What cannot be compared exactly is not covered, so that a person
//! is asked.

mod grantable;
mod listed_programs;
mod place;
mod shell_line;

use serde::{Deserialize, Serialize};
use toolgate_types::Sha256;

pub use grantable::{command_prefix, covers_line};
pub use place::{GrantedPlace, PathPattern};
pub use shell_line::{MAX_LINE_BYTES, SimpleCommand, parse_line};

/// What a grant covers of the calls of one tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum GrantMatcher {
    /// Exactly this call, with its paths leading to the same places.
    Call {
        /// Digest of the tool's name and the arguments.
        arguments: Sha256,
        /// Where its paths lead.
        places: Vec<GrantedPlace>,
    },
    /// Calls all of whose paths lead to places that match.
    Paths {
        /// The pattern of places.
        pattern: PathPattern,
    },
    /// Shell lines of which every simple command begins with these words.
    Command {
        /// The leading words.
        words: Vec<String>,
        /// The working directory.
        directory: GrantedPlace,
    },
    /// Every call of the tool.
    Tool,
}

/// What is known about a call when grants are compared with it.
#[derive(Clone, Copy, Debug)]
pub struct GrantFacts<'a> {
    /// Digest of the tool's name and the arguments.
    pub arguments: Sha256,
    /// Where its paths really lead, in the order of its arguments, and what it would change. For a shell line, its working directory.
    pub places: &'a [GrantedPlace],
    /// What kind of call it is.
    pub kind: CallKind<'a>,
}

/// The kinds of calls that are granted differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind<'a> {
    /// Of a built-in file tool: its paths say what it reaches.
    Files,
    /// Of a shell, with its line.
    Shell(&'a str),
    /// Of a tool of a server that the operator configured.
    ServerTool,
    /// Of any other tool: only exactly this call can be granted.
    Other,
}

impl GrantMatcher {
    /// Whether the call is covered.
    #[must_use]
    pub fn covers(&self, facts: &GrantFacts<'_>) -> bool {
        match self {
            Self::Call { arguments, places } => {
                *arguments == facts.arguments && places.as_slice() == facts.places
            }
            Self::Paths { pattern } => {
                facts.kind == CallKind::Files
                    && !facts.places.is_empty()
                    && facts.places.iter().all(|place| pattern.matches(place))
            }
            Self::Command { words, directory } => {
                let is_within = |line| facts.places == [directory.clone()] && covers_line(words, line);
                matches!(facts.kind, CallKind::Shell(line) if is_within(line))
            }
            Self::Tool => facts.kind == CallKind::ServerTool,
        }
    }

    /// The matchers that can be offered for a call, the narrowest first. Each of them covers it.
    #[must_use]
    pub fn offers(facts: &GrantFacts<'_>) -> Vec<Self> {
        let mut offers = vec![Self::Call { arguments: facts.arguments, places: facts.places.to_vec() }];
        match (facts.kind, facts.places) {
            (CallKind::Files, places) => {
                offers.extend(PathPattern::of(places).into_iter().map(|pattern| Self::Paths { pattern }));
            }
            (CallKind::Shell(line), [directory]) => offers.extend(
                command_prefix(line).map(|words| Self::Command { words, directory: directory.clone() }),
            ),
            (CallKind::ServerTool, _) => offers.push(Self::Tool),
            (CallKind::Shell(_) | CallKind::Other, _) => {}
        }
        offers.retain(|offer| offer.covers(facts));
        offers
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn place(location: &str) -> GrantedPlace {
        GrantedPlace { alias: "@project".to_owned(), location: location.to_owned(), is_marked: false }
    }

    fn facts<'a>(arguments: &[u8], places: &'a [GrantedPlace], line: Option<&'a str>) -> GrantFacts<'a> {
        let kind = line.map_or(CallKind::Files, CallKind::Shell);
        GrantFacts { arguments: Sha256::of(arguments), places, kind }
    }

    #[test]
    fn what_is_offered_for_a_call() {
        let kinds = |facts: &GrantFacts<'_>| -> Vec<String> {
            let name = |offer: &GrantMatcher| match offer {
                GrantMatcher::Call { .. } => "call".to_owned(),
                GrantMatcher::Paths { pattern } => pattern.to_string(),
                GrantMatcher::Command { words, .. } => words.join(" "),
                GrantMatcher::Tool => "tool".to_owned(),
            };
            GrantMatcher::offers(facts).iter().map(name).collect()
        };
        let (root, deep, top) = ([place("")], [place("src/a/b.rs")], [place("README.md")]);
        let two = [place("src/a/b.rs"), place("src/c.rs")];
        let apart = [place("src/a.rs"), place("docs/b.md")];
        for (facts, expected) in [
            (facts(b"1", &root, Some("cargo test -q")), vec!["call", "cargo test"]),
            (facts(b"1", &root, Some("make")), vec!["call"]),
            (facts(b"1", &root, Some("make test")), vec!["call", "make test"]),
            (facts(b"1", &root, Some("cargo test > x")), vec!["call"]),
            (facts(b"1", &[], Some("cargo test")), vec!["call"]),
            (
                facts(b"1", &deep, None),
                vec!["call", "@project/src/a/b.rs", "@project/src/a/**", "@project/src/**"],
            ),
            (facts(b"1", &two, None), vec!["call", "@project/src/**"]),
            (facts(b"1", &apart, None), vec!["call"]),
            (facts(b"1", &top, None), vec!["call", "@project/README.md"]),
            (facts(b"1", &root, None), vec!["call"]),
            (facts(b"1", &[], None), vec!["call"]),
            (GrantFacts { kind: CallKind::ServerTool, ..facts(b"1", &[], None) }, vec!["call", "tool"]),
            (GrantFacts { kind: CallKind::Other, ..facts(b"1", &deep, None) }, vec!["call"]),
        ] {
            assert_eq!(kinds(&facts), expected, "{facts:?}");
        }
    }

    #[test]
    fn a_grant_of_one_call_covers_no_other() {
        let places = [place("src/a.rs")];
        let call = GrantMatcher::Call { arguments: Sha256::of(b"1"), places: places.to_vec() };
        assert!(call.covers(&facts(b"1", &places, None)));
        assert!(!call.covers(&facts(b"2", &places, None)), "other arguments");
        assert!(!call.covers(&facts(b"1", &[place("src/b.rs")], None)), "a symlink now leads elsewhere");
        assert!(!call.covers(&facts(b"1", &[], None)));
    }

    #[test]
    fn a_grant_of_a_command_is_for_its_directory() {
        let command = GrantMatcher::Command {
            words: vec!["cargo".to_owned(), "test".to_owned()],
            directory: place("crates/a"),
        };
        assert!(command.covers(&facts(b"1", &[place("crates/a")], Some("cargo test"))));
        assert!(!command.covers(&facts(b"1", &[place("crates/b")], Some("cargo test"))));
        assert!(!command.covers(&facts(b"1", &[], Some("cargo test"))));
        assert!(!command.covers(&facts(b"1", &[place("crates/a")], None)));
        let paths = GrantMatcher::Paths { pattern: PathPattern::below(&place("crates")) };
        assert!(!paths.covers(&facts(b"1", &[place("crates/a")], Some("rm -rf /"))), "a shell line");
    }

    fn places() -> impl Strategy<Value = Vec<GrantedPlace>> {
        let location = "([ab]/){0,3}[abc]?";
        let place = ("@(project|docs)", location, prop::bool::weighted(0.1)).prop_map(
            |(alias, location, is_marked)| {
                let location = location.trim_end_matches('/').to_owned();
                GrantedPlace { alias, location, is_marked }
            },
        );
        prop::collection::vec(place, 0..3)
    }

    proptest! {
        /// What is offered is exactly what is matched: every offer covers its own call, and no offer covers a call that the reference model, which
        /// compares the parts of paths one by one, does not.
        #[test]
        fn an_offer_covers_its_call_and_what_the_model_says(asked in places(), other in places(), same in any::<bool>()) {
            let asked = facts(b"1", &asked, None);
            let other = facts(if same { b"1" } else { b"2" }, &other, None);
            for offer in GrantMatcher::offers(&asked) {
                prop_assert!(offer.covers(&asked));
                let expected = match &offer {
                    GrantMatcher::Call { .. } => same && asked.places == other.places,
                    GrantMatcher::Paths { pattern } => {
                        let shown = pattern.to_string();
                        let within = |place: &GrantedPlace| {
                            let whole = format!("{}/{}", place.alias, place.location);
                            match shown.strip_suffix("/**") {
                                Some(folder) => {
                                    let folder: Vec<&str> = folder.split('/').collect();
                                    let parts: Vec<&str> = whole.split('/').collect();
                                    !place.is_marked && parts.len() >= folder.len() && parts[..folder.len()] == folder[..]
                                }
                                None => whole == shown,
                            }
                        };
                        !other.places.is_empty() && other.places.iter().all(within)
                    }
                    GrantMatcher::Command { .. } | GrantMatcher::Tool => false,
                };
                prop_assert_eq!(offer.covers(&other), expected, "{:?} and {:?}", offer, other);
            }
        }
    }
}

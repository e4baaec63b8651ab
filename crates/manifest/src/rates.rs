//! `rate_limits` and `breaker`.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::decode::{ConfigField, KeySpec, Section, duration, key, list, located_text};
use crate::problem::Located;
use crate::problem_report::ProblemReport;
use crate::tool::{Rate, calls};

const RATE_LIMIT: &[KeySpec] = &[
    key("caller", "caller: \"ci-*\""),
    key("tool", "tool: \"git_*\""),
    key("calls", "calls: 60"),
    key("per", "per: 1m"),
    key("burst", "burst: 10"),
];

const BREAKER: &[KeySpec] =
    &[key("failures", "failures: 5"), key("within", "within: 1m"), key("rest", "rest: 30s")];

/// `rate_limits`, one entry. Each matching caller has its own count for each matching tool.
#[derive(Clone, Debug)]
pub struct RateLimitConfig {
    /// `caller`: the callers that it applies to; absent means all.
    pub caller: Option<NameGlob>,
    /// `tool`: the tools that it applies to; absent means all.
    pub tool: Option<NameGlob>,
    /// `calls`, `per` and `burst`.
    pub rate: Rate,
}

/// `breaker`: a circuit breaker that rejects calls of a failing tool for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerConfig {
    /// `failures`: the threshold; five by default.
    pub failures: NonZeroU32,
    /// `within`: the time window; a minute by default.
    pub within: Duration,
    /// `rest`: how long the breaker stays open; 30 seconds by default.
    pub open_duration: Duration,
}

impl Default for BreakerConfig {
    fn default() -> Self {
        let failures = const { NonZeroU32::MIN.saturating_add(4) };
        Self { failures, within: Duration::from_secs(60), open_duration: Duration::from_secs(30) }
    }
}

/// A glob over names, with `*` for any text and `?` for any character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameGlob(Located<String>);

/// A glob that was declared in code instead of a file.
impl From<String> for NameGlob {
    fn from(glob: String) -> Self {
        Self(glob.into())
    }
}

impl NameGlob {
    pub(crate) fn new(glob: Located<String>) -> Self {
        Self(glob)
    }

    /// The glob as written, with its position.
    #[must_use]
    pub fn as_written(&self) -> &Located<String> {
        &self.0
    }

    /// Whether the whole name matches.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let glob: Vec<char> = self.0.value.chars().collect();
        let name: Vec<char> = name.chars().collect();
        fits(&glob, &name)
    }
}

/// Backtracks only to the last `*`, which then takes one character more: at most quadratic time.
fn fits(glob: &[char], name: &[char]) -> bool {
    let (mut at, mut here) = (0, 0);
    let mut last_star: Option<(usize, usize)> = None;
    while let Some(character) = name.get(here) {
        match glob.get(at) {
            Some('*') => {
                last_star = Some((at, here));
                at += 1;
            }
            Some(wanted) if *wanted == '?' || wanted == character => {
                at += 1;
                here += 1;
            }
            _ => {
                let Some((star, taken)) = last_star else { return false };
                last_star = Some((star, taken + 1));
                at = star + 1;
                here = taken + 1;
            }
        }
    }
    glob.iter().skip(at).all(|rest| *rest == '*')
}

pub(crate) fn rate_limits(
    field: &ConfigField,
    report: &mut ProblemReport<'_>,
) -> Option<Vec<RateLimitConfig>> {
    list(field, "limit", report, rate_limit)
}

fn rate_limit(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<RateLimitConfig> {
    let section = Section::read(field, RATE_LIMIT, report)?;
    let caller = section.get("caller", report, name_glob);
    let tool = section.get("tool", report, name_glob);
    let rate = rate(&section, field, report)?;
    Some(RateLimitConfig { caller, tool, rate })
}

fn name_glob(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<NameGlob> {
    let glob = located_text(field, report)?;
    if glob.value.is_empty() {
        let help = Some("leave it out to match all".to_owned());
        report.node(&field.node, format!("{} is empty, so nothing would match", field.name), help);
        return None;
    }
    Some(NameGlob(glob))
}

/// The rate of a section with the keys `calls`, `per` and `burst`.
pub(crate) fn rate(section: &Section, field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Rate> {
    for name in ["calls", "per"] {
        if section.lacks(name) {
            let help = "for example `{calls: 60, per: 1m}`".to_owned();
            report.node(&field.node, format!("a rate without `{name}`"), Some(help));
        }
    }
    let amount = section.get("calls", report, calls);
    let per = section.get("per", report, duration);
    let burst = section.get("burst", report, calls);
    Some(Rate { calls: amount?, per: per?, burst })
}

pub(crate) fn breaker(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<BreakerConfig> {
    let section = Section::read(field, BREAKER, report)?;
    let standard = BreakerConfig::default();
    Some(BreakerConfig {
        failures: section.get("failures", report, calls).unwrap_or(standard.failures),
        within: section.get("within", report, duration).unwrap_or(standard.within),
        open_duration: section.get("rest", report, duration).unwrap_or(standard.open_duration),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same by exhaustive search.
    fn naive(glob: &[char], name: &[char]) -> bool {
        match (glob, name) {
            ([], []) => true,
            (['*', glob @ ..], _) => (0..=name.len()).any(|taken| naive(glob, &name[taken..])),
            (['?', glob @ ..], [_, name @ ..]) => naive(glob, name),
            ([wanted, glob @ ..], [character, name @ ..]) => wanted == character && naive(glob, name),
            _ => false,
        }
    }

    #[test]
    fn stars_match_any_text() {
        let glob = |text: &str| NameGlob(text.to_owned().into());
        for (pattern, name, expected) in [
            ("*", "", true),
            ("*", "https://issuer/ci", true),
            ("ci-*", "ci-7", true),
            ("ci-*", "cd-7", false),
            ("git_?og", "git_log", true),
            ("*_log", "git_log_x", false),
            ("a*b*c", "a-b-b-c", true),
        ] {
            assert_eq!(glob(pattern).matches(name), expected, "{pattern} against {name}");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_trying_everything(glob in "[ab*?]{0,6}", name in "[ab?*]{0,8}") {
            let (glob, name): (Vec<char>, Vec<char>) = (glob.chars().collect(), name.chars().collect());
            prop_assert_eq!(fits(&glob, &name), naive(&glob, &name));
        }
    }
}

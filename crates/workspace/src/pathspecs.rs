//! The rules of a mount as git understands them: pathspecs that leave out of a history what tools do not reach in the files.
//!
//! Git matches bytes and knows no twins, so that not every rule can be said exactly. Where that is so, a denial leaves out more than the rule does, and a scope that would let in
//! more is refused. Names of which only a careless filesystem makes a denied one (`．env`, `.e\u{200b}nv`) are shown: they are other files, and hold what was put there.

use std::collections::BTreeSet;

use crate::deny_list::{DEFAULT_DENY, is_files_only};
use crate::error::WorkspaceError;
use crate::rules::{MountRules, PathGrant};
use crate::view::Workspace;

/// More alternatives of one glob than this are not spelt out.
const MAX_ALTERNATIVES: usize = 256;

/// What stands before a pattern that is left out: from the root of the worktree, without regard to case, `*` within one directory.
const EXCLUDE: &str = ":(top,exclude,icase,glob)";
const INCLUDE: &str = ":(top,glob)";
const EVERYTHING: &str = ":(top)";

/// What a copy of a denied file is called: `~`, `.bak`, `.orig`, `.old`, `.save`, `.swp`, `.swo`, `.copy`; and what some filesystems take for the name itself.
const COPY_SUFFIX_GLOBS: [&str; 5] = ["", "~*", ".[bosc][arlwo][kivpod]*", ".", "[ :]*"];

/// A glob that git cannot be told.
struct Inexpressible;

impl Workspace {
    /// Pathspecs with which git, run at the root of a mount that is the root of a worktree, shows of its history only what tools reach there.
    ///
    /// # Errors
    /// An alias that is not mounted, or a scope or grant that git cannot be told.
    pub fn git_pathspecs(
        &self,
        alias: &str,
        grant: Option<&dyn PathGrant>,
    ) -> Result<Vec<String>, WorkspaceError> {
        let mount = self.mount(alias).ok_or_else(|| self.unknown(alias))?;
        let unsayable = || WorkspaceError::OutOfScope { path: alias.to_owned() };
        // What a grant covers is asked about each path, and git asks nobody.
        if grant.is_some() {
            return Err(unsayable());
        }
        let mut all = scope(mount.rules()).map_err(|Inexpressible| unsayable())?;
        all.extend(built_in());
        all.extend(denials(mount.rules(), "").map_err(|Inexpressible| unsayable())?);
        for (inner, place) in self.nested_mounts(mount) {
            let place = escaped(&place.to_string_lossy());
            if inner.rules().has_scope() {
                all.insert(format!("{EXCLUDE}{place}/**"));
            }
            all.extend(denials(inner.rules(), &format!("{place}/")).map_err(|Inexpressible| unsayable())?);
        }
        Ok(all.into_iter().collect())
    }
}

/// What is let in.
fn scope(rules: &MountRules) -> Result<BTreeSet<String>, Inexpressible> {
    let Some(patterns) = rules.scope_texts() else { return Ok(BTreeSet::from([EVERYTHING.to_owned()])) };
    let mut all = BTreeSet::new();
    for pattern in patterns {
        for alternative in alternatives(pattern.trim_start_matches("./"))? {
            all.extend(translate(&alternative)?.map(|pattern| format!("{INCLUDE}{pattern}")));
        }
    }
    match all.is_empty() {
        // Without any, git would show everything.
        true => Err(Inexpressible),
        false => Ok(all),
    }
}

/// What the built-in list denies, wherever it lies; nothing below `.git` is ever in a commit.
fn built_in() -> impl Iterator<Item = String> {
    DEFAULT_DENY.iter().filter(|rule| !rule.starts_with(".git/")).flat_map(|rule| {
        let (directory, name) = rule.rsplit_once('/').map_or(("", *rule), |(above, name)| (above, name));
        let above = if directory.is_empty() { String::new() } else { format!("{directory}/") };
        let below = (!is_files_only(rule)).then(|| format!("{name}/**"));
        let copies = [format!(".#{name}"), format!("#{name}#"), format!(".{name}.sw[op]")];
        let names =
            COPY_SUFFIX_GLOBS.iter().map(|ending| format!("{name}{ending}")).chain(below).chain(copies);
        names.map(|name| format!("{EXCLUDE}**/{above}{name}")).collect::<Vec<_>>()
    })
}

/// What the operator denies, and what is the gate's own.
fn denials(rules: &MountRules, place: &str) -> Result<Vec<String>, Inexpressible> {
    let mut all = Vec::new();
    for own in rules.gate_places() {
        let own = widen(&escaped(own));
        all.extend([own.clone(), format!("{own}/**")]);
    }
    for pattern in rules.deny_texts() {
        all.extend(alternatives(pattern.trim_start_matches("./"))?.iter().map(|pattern| widen(pattern)));
    }
    // Git would take these for paths outside, and rules never match them.
    let can_match =
        |pattern: &&String| !pattern.starts_with('/') && pattern.split('/').all(|name| name != "..");
    Ok(all.iter().filter(can_match).map(|pattern| format!("{EXCLUDE}{place}{pattern}")).collect())
}

/// The letters of a name, none of which means anything to a glob.
fn escaped(text: &str) -> String {
    let special = |letter: char| matches!(letter, '*' | '?' | '[' | ']' | '\\' | '{' | '}');
    let escape = |letter: char| special(letter).then_some('\\').into_iter().chain([letter]);
    text.chars().flat_map(escape).collect()
}

/// A pattern without braces that matches at least what a denial does, without regard to case. Git compares single letters of a class with case although it was
/// told not to: they become lower-case, and a class of anything else any letter. What has twins beyond ASCII becomes any letters.
fn widen(pattern: &str) -> String {
    let mut loose = String::new();
    let mut rest = pattern.chars();
    while let Some(letter) = rest.next() {
        match letter {
            '\\' => {
                loose.push('\\');
                loose.extend(rest.next().map(|next| next.to_ascii_lowercase()));
            }
            '[' => {
                let class = skip_class(&mut rest);
                match class.chars().all(|letter| letter.is_ascii_alphanumeric()) {
                    true => loose.push_str(&format!("[{}]", class.to_ascii_lowercase())),
                    false => loose.push('?'),
                }
            }
            letter if letter.is_ascii() => loose.push(letter.to_ascii_lowercase()),
            _ => loose.push('*'),
        }
    }
    loose
}

/// The same pattern for git, as long as both mean exactly the same by it; `None` of one that matches nothing.
fn translate(pattern: &str) -> Result<Option<String>, Inexpressible> {
    if pattern.starts_with('/') || pattern.split('/').any(|name| matches!(name, "" | "." | "..")) {
        return Ok(None);
    }
    let (mut has_wildcard, mut rest) = (false, pattern.chars());
    while let Some(letter) = rest.next() {
        match letter {
            '\\' => _ = rest.next(),
            '[' => {
                let class = skip_class(&mut rest);
                let is_plain = |letter: char| letter.is_ascii() && !matches!(letter, '[' | '\\' | '/');
                if !class.chars().all(is_plain) {
                    return Err(Inexpressible);
                }
                has_wildcard = true;
            }
            '*' | '?' => has_wildcard = true,
            _ => {}
        }
    }
    match has_wildcard {
        true => Ok(Some(pattern.to_owned())),
        // To git, a path without wildcards is everything below it as well.
        false => as_wildcard(pattern).map(Some),
    }
}

/// A class of one letter is a wildcard.
fn as_wildcard(pattern: &str) -> Result<String, Inexpressible> {
    let last = pattern.chars().rev().find(|letter| letter.is_ascii_alphanumeric()).ok_or(Inexpressible)?;
    let (before, after) = pattern.rsplit_once(last).ok_or(Inexpressible)?;
    Ok(if before.ends_with('\\') { return Err(Inexpressible) } else { format!("{before}[{last}]{after}") })
}

/// Goes behind the end of a class, whose `[` was read, and answers with what is in it.
fn skip_class(rest: &mut std::str::Chars<'_>) -> String {
    let mut class = String::new();
    for letter in rest.by_ref() {
        // The first letter, after a sign of negation, is one even if it is a bracket.
        let is_first = matches!(class.as_str(), "" | "!" | "^");
        if letter == ']' && !is_first {
            break;
        }
        class.push(letter);
    }
    class
}

/// A pattern for each choice of the alternatives in its braces.
fn alternatives(pattern: &str) -> Result<Vec<String>, Inexpressible> {
    let (mut done, mut left) = (Vec::new(), vec![pattern.to_owned()]);
    while let Some(pattern) = left.pop() {
        match first_braces(&pattern) {
            None => done.push(pattern),
            Some((before, choices, after)) => {
                left.extend(choices.iter().map(|choice| format!("{before}{choice}{after}")));
            }
        }
        if done.len() + left.len() > MAX_ALTERNATIVES {
            return Err(Inexpressible);
        }
    }
    Ok(done)
}

/// What stands before the first braces, their alternatives, and what stands after.
fn first_braces(pattern: &str) -> Option<(&str, Vec<&str>, &str)> {
    let (mut depth, mut opened, mut begins) = (0_usize, None, 0);
    let mut choices = Vec::new();
    let mut letters = pattern.char_indices();
    while let Some((position, letter)) = letters.next() {
        match letter {
            '\\' => _ = letters.next(),
            '[' => {
                let mut rest = letters.as_str().chars();
                let class = skip_class(&mut rest);
                // The class and its end.
                class.chars().chain([']']).for_each(|_| _ = letters.next());
            }
            '{' => {
                depth += 1;
                if depth == 1 {
                    (opened, begins) = (Some(position), position + 1);
                }
            }
            ',' if depth == 1 => {
                choices.push(pattern.get(begins..position)?);
                begins = position + 1;
            }
            '}' if depth == 1 => {
                choices.push(pattern.get(begins..position)?);
                return Some((pattern.get(..opened?)?, choices, pattern.get(position + 1..)?));
            }
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_become_alternatives() {
        let spelt = |pattern: &str| {
            let mut all = alternatives(pattern).unwrap_or_default();
            all.sort();
            all.join(" ")
        };
        assert_eq!(spelt("a/{b,c}/*.{x,y}"), "a/b/*.x a/b/*.y a/c/*.x a/c/*.y");
        assert_eq!(spelt("{a,{b,c}d}"), "a bd cd");
        assert_eq!(spelt("\\{a,b\\}"), "\\{a,b\\}");
        assert_eq!(spelt("[{]a{b,c}"), "[{]ab [{]ac");
        assert!(alternatives(&"{a,b}".repeat(9)).is_err());
    }

    #[test]
    fn a_denial_becomes_looser_and_a_scope_does_not() {
        for (pattern, loose) in
            [("[S]ecret*", "[s]ecret*"), ("Ärger/[!pP]*", "*rger/?*"), ("a\\*B", "a\\*b"), ("x[]]y", "x?y")]
        {
            assert_eq!(widen(pattern), loose);
        }
        let exact = |pattern: &str| translate(pattern).ok().flatten();
        assert_eq!(exact("src/**").as_deref(), Some("src/**"));
        assert_eq!(exact("src").as_deref(), Some("sr[c]"));
        assert_eq!(exact("a/b.md").as_deref(), Some("a/b.m[d]"));
        assert_eq!(exact("[é]*"), None);
        assert_eq!(exact("../x*"), None);
    }
}

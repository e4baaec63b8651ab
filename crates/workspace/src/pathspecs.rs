//! The rules of a mount as git pathspecs, which exclude from a history what tools cannot reach among the files.
//!
//! Git compares bytes and does not fold names, so not every rule can be expressed exactly. Where it cannot, a denial excludes more than the rule
//! does, and a scope that would include more is refused. Names that only a normalising filesystem turns into a denied one (`．env`, `.e\u{200b}nv`)
//! are shown: in a commit they are other files with other content.

use std::collections::BTreeSet;

use crate::deny_list::{DEFAULT_DENY, is_files_only};
use crate::error::WorkspaceError;
use crate::rules::{MountRules, PathGrant};
use crate::view::Workspace;

/// A glob with more alternatives than this is not expanded.
const MAX_ALTERNATIVES: usize = 256;

/// Prefix of an excluding pattern: relative to the root of the worktree, case-insensitive, `*` does not cross a `/`.
const EXCLUDE: &str = ":(top,exclude,icase,glob)";
const INCLUDE: &str = ":(top,glob)";
const EVERYTHING: &str = ":(top)";

/// Suffixes of copies of a denied file: `~`, `.bak`, `.orig`, `.old`, `.save`, `.swp`, `.swo`, `.copy`; and those that some filesystems drop from the
/// name.
const COPY_SUFFIX_GLOBS: [&str; 5] = ["", "~*", ".[bosc][arlwo][kivpod]*", ".", "[ :]*"];

/// A glob that no pathspec expresses.
struct Inexpressible;

impl Workspace {
    /// Pathspecs with which git, run at the root of a mount that is the root of a worktree, shows only the history of files that tools can reach
    /// there.
    ///
    /// # Errors
    /// An alias that is not mounted, or a scope or grant that pathspecs cannot express.
    pub fn git_pathspecs(
        &self,
        alias: &str,
        grant: Option<&dyn PathGrant>,
    ) -> Result<Vec<String>, WorkspaceError> {
        let mount = self.mount(alias).ok_or_else(|| self.unknown_alias(alias))?;
        let unsayable = || WorkspaceError::OutOfScope { path: alias.to_owned() };
        // A grant is evaluated for each path, which git cannot do.
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

/// The included patterns.
fn scope(rules: &MountRules) -> Result<BTreeSet<String>, Inexpressible> {
    let Some(patterns) = rules.scope_texts() else { return Ok(BTreeSet::from([EVERYTHING.to_owned()])) };
    let mut all = BTreeSet::new();
    for pattern in patterns {
        for alternative in alternatives(pattern.trim_start_matches("./"))? {
            all.extend(translate(&alternative)?.map(|pattern| format!("{INCLUDE}{pattern}")));
        }
    }
    match all.is_empty() {
        // Without any pathspec, git would show everything.
        true => Err(Inexpressible),
        false => Ok(all),
    }
}

/// The built-in deny list, at any depth; nothing below `.git` is ever in a commit.
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

/// The operator's denials and the gate's own files.
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

/// Escapes the characters of a name that are special in a glob.
fn escaped(text: &str) -> String {
    let special = |letter: char| matches!(letter, '*' | '?' | '[' | ']' | '\\' | '{' | '}');
    let escape = |letter: char| special(letter).then_some('\\').into_iter().chain([letter]);
    text.chars().flat_map(escape).collect()
}

/// A pattern without braces that matches at least what a denial does, without regard to case. Despite `icase`, git compares single letters of a class
/// with case: they become lower case, and a class of anything else becomes `?`. A character beyond ASCII, which may have twins, becomes `*`.
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

/// The same pattern for git, where both dialects mean exactly the same; `None` for one that matches nothing.
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
        // For git, a path without wildcards includes everything below it as well.
        false => as_wildcard(pattern).map(Some),
    }
}

/// Turns one letter into a class of that letter, which git treats as a wildcard.
fn as_wildcard(pattern: &str) -> Result<String, Inexpressible> {
    let last = pattern.chars().rev().find(|letter| letter.is_ascii_alphanumeric()).ok_or(Inexpressible)?;
    let (before, after) = pattern.rsplit_once(last).ok_or(Inexpressible)?;
    Ok(if before.ends_with('\\') { return Err(Inexpressible) } else { format!("{before}[{last}]{after}") })
}

/// Skips to the end of a class whose `[` was read, and returns its content.
fn skip_class(rest: &mut std::str::Chars<'_>) -> String {
    let mut class = String::new();
    for letter in rest.by_ref() {
        // A `]` that comes first, or right after a negation, is a literal.
        let is_first = matches!(class.as_str(), "" | "!" | "^");
        if letter == ']' && !is_first {
            break;
        }
        class.push(letter);
    }
    class
}

/// Expands the alternatives in braces into one pattern each.
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

/// The text before the first braces, their alternatives, and the text after.
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
                // The class and its closing bracket.
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

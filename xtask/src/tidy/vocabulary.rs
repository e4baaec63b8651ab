//! The words of comments, documents and type names.

use std::collections::BTreeMap;

use super::files::File;
use super::finding::Finding;

/// Words that name no subject and no mechanism, each with what to write instead.
const PRIVATE_WORDS: &[(&str, &str)] = &[
    ("whoever", "name the subject: the caller, the client, the operator, the process"),
    ("nobody", "name the subject: no caller, no client, no process"),
    ("somebody", "name the subject: a caller, a client, a process"),
    ("told", "write `reported`, `returned`, `informed`, or name the message"),
    ("tells", "write `reports`, `returns`, `shows`"),
    ("meanwhile", "write `concurrently`, or name the interval"),
    ("patience", "write `timeout` or `deadline`"),
    ("folder", "write `directory`"),
    ("folders", "write `directories`"),
    ("spelt", "write `written` or `encoded`"),
    ("dear", "write `expensive`"),
    ("borne", "write `tolerated` or `accepted`"),
    ("bearable", "write `within the limit`"),
    ("let go", "write `release` or `drop`"),
    ("lets go", "write `releases` or `drops`"),
    ("at once", "write `immediately`, `atomically` or `concurrently`"),
    ("dress", "write `attributes` or `presentation`"),
    ("dressed", "write `presented`"),
    ("dresses", "write `presents`"),
    ("the older era", "write `the session protocol`"),
    ("the newer era", "write `the stateless protocol`"),
];

/// Type names that several crates have, with one meaning in all of them.
pub(super) const SHARED_TYPES: &str = "xtask/shared-types.txt";

/// The private words in the comments of a source file, or in the prose of a document.
pub(super) fn check(file: &File) -> Vec<Finding> {
    let lines: Vec<(usize, String)> = match file.path.rsplit_once('.') {
        Some((_, "rs")) => comments(&file.text).collect(),
        Some((_, "md")) => prose(&file.text).collect(),
        _ => return Vec::new(),
    };
    let finding = |number: usize, (word, remedy): &(&str, &str)| {
        Finding::error(&file.path, number, format!("`{word}` is a private word"), *remedy)
    };
    let of_line = |(number, line): &(usize, String)| {
        let line = format!(" {} ", words(line).join(" "));
        let found = PRIVATE_WORDS.iter().filter(|(word, _)| line.contains(&format!(" {word} ")));
        found.map(|entry| finding(*number, entry)).collect::<Vec<_>>()
    };
    lines.iter().flat_map(of_line).collect()
}

/// The text of line comments, without what stands in backticks or in quotes.
fn comments(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut is_fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let comment = line.trim_start().strip_prefix("//")?.trim_start_matches(['/', '!']);
        is_fenced ^= comment.trim_start().starts_with("```");
        (!is_fenced).then(|| (index + 1, without_quotes(comment)))
    })
}

/// The lines of a document outside of fenced blocks, without what stands in backticks or in quotes.
fn prose(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut is_fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        is_fenced ^= line.trim_start().starts_with("```");
        (!is_fenced).then(|| (index + 1, without_quotes(line)))
    })
}

fn without_quotes(line: &str) -> String {
    let of_code = line.split('`').step_by(2).collect::<Vec<_>>().join(" _ ");
    of_code.split(['"', '“', '”']).step_by(2).collect::<Vec<_>>().join(" _ ")
}

fn words(line: &str) -> Vec<String> {
    let is_part = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.' | '/');
    let words = line.split(|letter: char| !is_part(letter)).map(|word| word.trim_end_matches('.'));
    words.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

/// Type names of production code that another crate has as well, unless they are on the reviewed list.
#[derive(Default)]
pub(super) struct TypeNames(BTreeMap<String, BTreeMap<String, (String, usize)>>);

impl TypeNames {
    /// Adds the types of a file. Those of the attack harness are test code.
    pub(super) fn add(&mut self, file: &File) {
        let Some((name, path)) = file.path.strip_prefix("crates/").and_then(|path| path.split_once('/'))
        else {
            return;
        };
        if name == "attack" || !path.starts_with("src/") || !path.ends_with(".rs") {
            return;
        }
        for (number, line) in file.production_lines() {
            if let Some(defined) = type_name(line) {
                let crates = self.0.entry(defined.to_owned()).or_default();
                crates.entry(name.to_owned()).or_insert_with(|| (file.path.clone(), number));
            }
        }
    }

    /// Names in more than one crate, and entries of the list that are in one only.
    pub(super) fn check(&self, shared: &str) -> Vec<Finding> {
        let listed = shared.lines().filter(|line| !line.starts_with('#'));
        let listed: Vec<&str> = listed.filter_map(|line| line.split_whitespace().next()).collect();
        let mut findings = Vec::new();
        for (name, crates) in
            self.0.iter().filter(|(name, crates)| crates.len() > 1 && !listed.contains(&&***name))
        {
            let others: Vec<&str> = crates.keys().map(String::as_str).collect();
            let Some((path, number)) = crates.values().next_back() else { continue };
            let message = format!("`{name}` is a type of {}", others.join(" and "));
            let remedy = format!(
                "give one of them a name of its own, or list it in {SHARED_TYPES} if both mean the same"
            );
            findings.push(Finding::error(path, *number, message, remedy));
        }
        let is_shared = |name: &str| self.0.get(name).is_some_and(|crates| crates.len() > 1);
        let stale = listed.iter().filter(|name| !is_shared(name));
        findings.extend(stale.map(|name| {
            Finding::error(SHARED_TYPES, 0, format!("`{name}` is in one crate only"), "remove the line")
        }));
        findings
    }
}

fn type_name(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub") {
        Some(rest) => {
            rest.strip_prefix('(').map_or(rest, |rest| rest.split_once(')').map_or(rest, |(_, rest)| rest))
        }
        None => line,
    };
    let rest = line.trim_start();
    let rest = ["struct ", "enum ", "trait "].iter().find_map(|keyword| rest.strip_prefix(keyword))?;
    let name = rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()?;
    name.starts_with(char::is_uppercase).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn private_words_are_reported_in_comments_and_prose() {
        for (path, text) in [
            ("a/src/b.rs", "    /// Whoever reads this."),
            ("a/src/b.rs", "//! All of it at once."),
            ("a/tests/it/b.rs", "// The folder."),
            ("docs/a.md", "The caller is told so."),
        ] {
            assert_eq!(check(&file(path, text)).len(), 1, "{text}");
        }
        for (path, text) in [
            ("a/src/b.rs", "let folder = told;"),
            ("a/src/b.rs", "// The user `nobody`, and an answer of \"told\"."),
            ("a/src/b.rs", "//! ```\n//! let folder = 1;\n//! ```"),
            ("docs/a.md", "```\nfolder\n```\n`folder` and untold"),
            ("a.toml", "# folder"),
        ] {
            assert!(check(&file(path, text)).is_empty(), "{text}");
        }
    }

    #[test]
    fn a_type_name_belongs_to_one_crate_unless_it_is_listed() {
        let mut names = TypeNames::default();
        names.add(&file("crates/a/src/x.rs", "pub struct One;\nenum Two {}\n"));
        names.add(&file("crates/b/src/y.rs", "pub(crate) trait One {}\nstruct Three<T>(T);\n"));
        names.add(&file("crates/b/tests/it/y.rs", "struct Two;\n"));
        names.add(&file("crates/attack/src/y.rs", "struct Two;\n"));
        let shown = |shared: &str| names.check(shared).iter().map(Finding::to_string).collect::<Vec<_>>();
        assert_eq!(shown("").len(), 1, "{:?}", shown(""));
        assert!(shown("# reviewed\nOne both mean one\n").is_empty());
        assert_eq!(shown("One\nTwo\n").len(), 1);
    }
}

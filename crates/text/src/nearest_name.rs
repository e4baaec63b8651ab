//! Suggests the known name that was probably meant.

/// Longer names are not compared: they are invented, not misspelled.
const MAX_NAME_BYTES: usize = 128;

/// The known name nearest to `asked`, or `None` when nothing is near.
///
/// Case, underscores, hyphens and dots are ignored, so that `startLine` finds `start_line`. A misspelled name is found when at most a third of its
/// letters are wrong; a longer name is found by a known name inside it (`filepath` finds `path`) or by shared words (`old_string` finds `old_text`).
/// Among equals the first wins.
#[must_use]
pub fn nearest_name<'a>(asked: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if asked.is_empty() || asked.len() > MAX_NAME_BYTES {
        return None;
    }
    let asked = SplitName::new(asked);
    known
        .into_iter()
        .filter(|name| name.len() <= MAX_NAME_BYTES)
        .filter_map(|name| Some((asked.distance(&SplitName::new(name))?, name)))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// A name split into words.
struct SplitName {
    words: Vec<String>,
    joined: String,
}

/// The distance of two names; the order of the variants is the order of preference.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Distance {
    /// Letters to change.
    Letters(usize),
    /// One name contains the other; the number of remaining letters.
    Inside(usize),
    /// The number of words that are not shared.
    Words(usize),
}

impl SplitName {
    fn new(name: &str) -> Self {
        let words = words(name);
        Self { joined: words.concat(), words }
    }

    fn distance(&self, known: &Self) -> Option<Distance> {
        self.letters(known).or_else(|| self.inside(known)).or_else(|| self.shared_words(known))
    }

    fn letters(&self, known: &Self) -> Option<Distance> {
        let longest = self.joined.chars().count().max(known.joined.chars().count());
        let letters = strsim::damerau_levenshtein(&self.joined, &known.joined);
        (letters == 0 || (letters <= longest / 3)).then_some(Distance::Letters(letters))
    }

    fn inside(&self, known: &Self) -> Option<Distance> {
        let (short, long) =
            if self.joined.len() < known.joined.len() { (self, known) } else { (known, self) };
        let near = short.joined.len() >= 3 && long.joined.contains(&short.joined);
        near.then(|| Distance::Inside(long.joined.len() - short.joined.len()))
    }

    fn shared_words(&self, known: &Self) -> Option<Distance> {
        let shared = self.words.iter().filter(|word| word.len() >= 3 && known.words.contains(word)).count();
        let most = self.words.len().max(known.words.len());
        (shared > 0 && shared * 2 >= most).then(|| Distance::Words(most.saturating_sub(shared)))
    }
}

/// The words of `snake_case`, `kebab-case`, `dotted.names` and `camelCase`, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_lower = false;
    for character in name.chars() {
        let starts_word = !character.is_alphanumeric() || (after_lower && character.is_uppercase());
        if starts_word {
            words.push(String::new());
        }
        if let (true, Some(word)) = (character.is_alphanumeric(), words.last_mut()) {
            word.extend(character.to_lowercase());
        }
        after_lower = character.is_lowercase() || character.is_numeric();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_meant() {
        let arguments =
            ["path", "start_line", "end_line", "old_text", "new_text", "replace_all", "max_matches"];
        for (asked, wanted) in [
            ("startLine", Some("start_line")),
            ("START-LINE", Some("start_line")),
            ("start_lines", Some("start_line")),
            ("strat_line", Some("start_line")),
            ("endline", Some("end_line")),
            ("filepath", Some("path")),
            ("file_path", Some("path")),
            ("old_string", Some("old_text")),
            ("newString", Some("new_text")),
            ("max", Some("max_matches")),
            ("replaceAll", Some("replace_all")),
            ("colour", None),
            ("x", None),
            ("", None),
            ("__", None),
        ] {
            assert_eq!(nearest_name(asked, arguments), wanted, "{asked}");
        }
    }

    #[test]
    fn finds_tools_and_prefers_the_nearest() {
        let tools = ["read_file", "write_file", "list_directory", "fs.read", "run_command"];
        for (asked, wanted) in [
            ("readfile", Some("read_file")),
            ("fs_read", Some("fs.read")),
            ("writefile", Some("write_file")),
            ("list_dir", Some("list_directory")),
            ("runcmd", None),
            ("delete_everything_now", None),
        ] {
            assert_eq!(nearest_name(asked, tools), wanted, "{asked}");
        }
    }

    #[test]
    fn does_not_compare_endless_names() {
        assert_eq!(nearest_name(&"path".repeat(1000), ["path"]), None);
        assert_eq!(nearest_name("path", ["p".repeat(5000).as_str()]), None);
    }
}

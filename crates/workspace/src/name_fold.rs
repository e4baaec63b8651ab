//! Names as a case-insensitive or normalising filesystem compares them.
//!
//! `.ENV`, `．ｅｎｖ` and `.env` with a zero-width joiner in it are other files on ext4 and the same file on many other filesystems. Deny rules are
//! matched on the folded name, so that such a twin is refused everywhere.

use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use unicode_normalization::UnicodeNormalization as _;

/// Folds case, compatibility forms, invisible characters, and the trailing dots and spaces that Windows drops.
#[must_use]
pub fn fold(path: &Path) -> Cow<'_, str> {
    let bytes = path.as_os_str().as_bytes();
    if let Ok(text) = std::str::from_utf8(bytes)
        && is_plain(bytes)
    {
        // Plain ASCII, which is nearly every path, only needs lower case.
        return if bytes.iter().any(u8::is_ascii_uppercase) {
            Cow::Owned(text.to_ascii_lowercase())
        } else {
            Cow::Borrowed(text)
        };
    }
    let text = path.to_string_lossy();
    let folded: Vec<String> = text.split('/').map(fold_component).collect();
    Cow::Owned(folded.join("/"))
}

/// The glob folded for matching folded names; `None` where folding does not change it. ASCII characters stay: globs are matched without regard to
/// ASCII case, and a character class must not become another one.
pub(crate) fn fold_glob(glob: &str) -> Option<String> {
    if glob.is_ascii() {
        return None;
    }
    let lower = |character: char| {
        let (stays, changes) =
            if character.is_ascii() { (Some(character), None) } else { (None, Some(character)) };
        stays.into_iter().chain(changes.into_iter().flat_map(char::to_lowercase))
    };
    let plain: String = glob.chars().map(without_new_signs).collect();
    let folded = strip_invisible(plain.nfkc().flat_map(lower));
    (folded != glob).then_some(folded)
}

/// A full-width `＊` is a letter: what it folds to is escaped, so that it does not become a wildcard.
fn without_new_signs(character: char) -> String {
    let folded: String = character.nfkc().collect();
    match character.is_ascii() || !folded.contains(['*', '?', '[', ']', '{', '}', ',', '\\']) {
        true => character.to_string(),
        false => folded.chars().flat_map(|sign| ['\\', sign]).collect(),
    }
}

/// Whether folding changes nothing but the case.
pub(crate) fn is_plain(location: &[u8]) -> bool {
    location.split(|byte| *byte == b'/').all(is_plain_name)
}

fn is_plain_name(name: &[u8]) -> bool {
    name.iter().all(|byte| is_plain_in_names(*byte)) && !name.last().is_some_and(is_dropped_at_the_end)
}

/// Whether folding changes nothing but the case of a single name. Also accepts some names that [`is_plain`] does not. Called for every name of a
/// tree, so it tests eight bytes at a time.
pub(crate) fn folds_by_case_alone(name: &[u8]) -> bool {
    let (eights, rest) = name.as_chunks();
    let are_eights = eights.iter().all(|eight| are_folded_by_case_alone(*eight));
    // The last eight bytes overlap the chunks before them, unless the name is shorter than that.
    let is_rest = match (rest, name.last_chunk()) {
        ([], _) => true,
        (_, Some(last)) => are_folded_by_case_alone(*last),
        (_, None) => {
            let mut padded = [b'x'; 8];
            padded.iter_mut().zip(rest).for_each(|(place, byte)| *place = *byte);
            are_folded_by_case_alone(padded)
        }
    };
    are_eights && is_rest && !name.last().is_some_and(is_dropped_at_the_end)
}

/// Whether eight bytes are all ASCII, without control characters and colons.
fn are_folded_by_case_alone(eight: [u8; 8]) -> bool {
    const EACH: u64 = u64::from_ne_bytes([1; 8]);
    let bytes = u64::from_ne_bytes(eight);
    // Each expression sets the top bit of the bytes that it is named after. No other ASCII byte gets it, except by a carry or borrow from one of
    // those.
    let delete_and_beyond = bytes.wrapping_add(EACH);
    let control_and_last = bytes.wrapping_sub(EACH * 0x20);
    let colon = (bytes ^ (EACH * b':' as u64)).wrapping_sub(EACH);
    (delete_and_beyond | control_and_last | colon) & (EACH * 0x80) == 0
}

fn is_plain_in_names(byte: u8) -> bool {
    PLAIN_IN_NAMES.get(usize::from(byte)) == Some(&true)
}

#[expect(clippy::indexing_slicing, reason = "a mistake here does not compile")]
const PLAIN_IN_NAMES: [bool; 256] = {
    let mut table = [false; 256];
    let mut plain: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+@ ";
    while let [first, rest @ ..] = plain {
        table[*first as usize] = true;
        plain = rest;
    }
    table
};

/// Whether the name may be that of a backup copy; see [`without_backup_marks`].
pub(crate) fn may_be_backup(name: &[u8]) -> bool {
    let end = |ending: &str| {
        let start = name.len().checked_sub(ending.len());
        start
            .and_then(|start| name.get(start..))
            .is_some_and(|end| end.eq_ignore_ascii_case(ending.as_bytes()))
    };
    // Compare the last byte with the last letters of the endings first: most names fail there.
    let may_end = name.last().is_some_and(|last| b"~kgdepoy".contains(&last.to_ascii_lowercase()));
    (may_end && BACKUP_ENDINGS.iter().any(|ending| end(ending)))
        || name.starts_with(b"#")
        || name.starts_with(b".#")
}

fn is_dropped_at_the_end(byte: &u8) -> bool {
    matches!(byte, b'.' | b' ')
}

fn fold_component(component: &str) -> String {
    let folded = strip_invisible(component.nfkc().flat_map(char::to_lowercase));
    // NTFS opens `name::$DATA` and `name.` as `name`.
    let stem = folded.split(':').next().unwrap_or_default();
    stem.trim_end_matches(['.', ' ']).to_owned()
}

/// Removes invisible characters from lower-cased text and maps lookalikes to ASCII.
fn strip_invisible(lower: impl Iterator<Item = char>) -> String {
    // After lower-casing, because that splits `İ` into a letter and an invisible combining dot.
    let visible = lower.filter(|character| !is_invisible(*character));
    let folded: String = visible.map(to_ascii_twin).nfkc().collect();
    // A case-insensitive comparison treats `ß` as two letters.
    folded.replace('ß', "ss")
}

/// Maps letters that lower-casing leaves different from their ASCII twins.
fn to_ascii_twin(character: char) -> char {
    match character {
        'ı' => 'i',
        'ſ' => 's',
        '․' | '。' | '﹒' => '.',
        other => other,
    }
}

/// Characters that HFS+ ignores or that are not displayed.
fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{00ad}' | '\u{034f}' | '\u{061c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{e0000}'..='\u{e0fff}'
    ) || character.is_control()
        // Lower-casing `İ` leaves a combining dot.
        || character == '\u{0307}'
}

pub(crate) const BACKUP_ENDINGS: [&str; 8] = ["~", ".bak", ".orig", ".old", ".save", ".swp", ".swo", ".copy"];

/// The names that the last name may be a backup copy of, with the marks of editors and people removed.
pub(crate) fn without_backup_marks(folded: &str) -> Vec<String> {
    let (folder, name) = folded.rsplit_once('/').unwrap_or(("", folded));
    let mut bare = name.strip_prefix('#').and_then(|name| name.strip_suffix('#')).unwrap_or(name);
    bare = bare.strip_prefix(".#").unwrap_or(bare);
    while let Some(shorter) = BACKUP_ENDINGS.iter().find_map(|ending| bare.strip_suffix(ending)) {
        bare = shorter;
    }
    if bare == name {
        return Vec::new();
    }
    // vim hides the swap file of `name` as `.name.swp`.
    let candidates = [Some(bare), bare.strip_prefix('.')];
    let place = |name: &str| if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
    candidates.into_iter().flatten().map(place).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]
        #[test]
        fn of_a_plain_name_nothing_but_the_case_is_folded(
            folder in "([a-zA. \u{e9}]{1,3}/){0,2}",
            name in "[a-cA-C0-9._+@ -]{0,8}|[ -.0-~]{0,3}|[\\PC&&[^/]]{0,3}|[a-cA-C]{0,18}[\u{1}-.0-\u{81}\u{ff}][a-cA-C]{0,18}",
        ) {
            prop_assert_eq!(folds_by_case_alone(name.as_bytes()), name.is_ascii() && fold_component(&name) == name.to_ascii_lowercase());
            let place = format!("{folder}{name}");
            if is_plain(place.as_bytes()) {
                let folded: Vec<String> = place.split('/').map(fold_component).collect();
                prop_assert_eq!(folded.join("/"), place.to_ascii_lowercase());
            }
        }
    }

    #[test]
    fn every_byte_is_seen_wherever_it_stands() {
        for (byte, position) in (0..=u8::MAX).flat_map(|byte| (0..20).map(move |position| (byte, position))) {
            for length in [position + 1, 20] {
                let mut name = vec![b'a'; length];
                name[position] = byte;
                let is_dropped = position + 1 == length && matches!(byte, b'.' | b' ');
                let expected = matches!(byte, b' '..=b'~') && byte != b':' && !is_dropped;
                assert_eq!(folds_by_case_alone(&name), expected, "{name:?}");
            }
        }
    }

    #[test]
    fn twins_fold_to_the_plain_name() {
        for twin in [
            ".env",
            ".ENV",
            ".Env",
            "．ｅｎｖ",
            ".e\u{200c}nv",
            ".\u{feff}env",
            ".env.",
            ".env ",
            ".env::$DATA",
            "․env",
            ".ｅnv",
            ".ENV. .",
            ".e\u{00ad}nv",
            ".\u{202e}env",
        ] {
            assert_eq!(fold(Path::new(twin)), ".env", "{twin:?}");
        }
        assert_eq!(fold(Path::new("A/.G\u{130}T/Config")), "a/.git/config");
        assert_eq!(fold(Path::new("A/.GI\u{307}T/Config")), "a/.git/config");
        assert_eq!(fold(Path::new(".ſsh/x")), ".ssh/x");
        assert_eq!(fold(Path::new(".ßh/x")), ".ssh/x");
        assert_eq!(fold(Path::new(".ẞH/x")), ".ssh/x");
    }

    #[test]
    fn every_name_of_a_copy_is_suspected() {
        for ending in BACKUP_ENDINGS {
            assert!(may_be_backup(format!("x{ending}").as_bytes()), "{ending}");
            assert!(may_be_backup(format!("X{}", ending.to_uppercase()).as_bytes()), "{ending}");
        }
        assert!(may_be_backup(b"#x#") && may_be_backup(b".#x") && !may_be_backup(b"main.rs"));
    }

    #[test]
    fn plain_names_are_borrowed() {
        assert!(matches!(fold(Path::new("src/main.rs")), Cow::Borrowed("src/main.rs")));
    }
}

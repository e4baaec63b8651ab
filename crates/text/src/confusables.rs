//! Escapes text of a call for the person who approves it: lookalike and invisible characters become visible.
//!
//! An escape is `\u{a0}`. Where a text itself contains `\u{`, its backslash is escaped (`\u{5c}u{`), so that escapes can be decoded and no two texts
//! are shown as the same one. For commands and paths an allowlist decides which characters stand for themselves: a shell does not take U+00A0 for a
//! blank, so what follows `ls<U+00A0>#` is no comment, and a person cannot see that. File contents keep their symbols and their scripts, but not
//! bidirectional controls (Trojan Source, CVE-2021-42574).

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use crate::is_invisible;

/// The kind of a line, which decides which characters stand for themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextKind {
    /// A command, a path, arguments: ASCII, and letters that cannot be confused with others.
    Command,
    /// The content of a file: every visible character.
    Prose,
    /// A line of the gate with values of a call in it, which were escaped by [`quote_value`]: like a command, but existing escapes stay.
    Composed,
    /// Text that is not subject to the approval: like prose, but existing escapes stay.
    Remark,
}

/// The character set of the output device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charset {
    /// All of Unicode.
    Unicode,
    /// A terminal in another locale: UTF-8 bytes above 0x7f are other characters there, or control it (0x9b is CSI).
    Ascii,
}

/// How lines are escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Escaping {
    /// The kind of the lines.
    pub content: TextKind,
    /// Where they are shown.
    pub charset: Charset,
}

/// The columns from one tab stop to the next.
pub(crate) const TAB_COLUMNS: usize = 8;

/// Shown for a tab, before the spaces up to the next tab stop: tabs and spaces differ for `make` and in a shell's here-document.
const TAB: char = '⇥';

/// Characters that the gate itself writes: edges of rows, brackets of counts, tabs. In a text they are escaped.
const RESERVED: [char; 5] = [TAB, '⟦', '⟧', '│', '⋮'];

/// More combining marks on one letter would cover the rows above it.
const MAX_COMBINING_MARKS: usize = 4;

impl Escaping {
    /// Escapes a line, or a part of one that begins at `column`.
    #[must_use]
    pub fn line(self, line: &str, column: usize) -> String {
        let characters: Vec<char> = line.chars().collect();
        let mut shown =
            EscapedLine { text: String::with_capacity(line.len()), column, marks: 0, before: None };
        let is_mixed = line.chars().any(|c| c.is_ascii_alphanumeric());
        let mut rest = characters.as_slice();
        for word in characters.chunk_by(|one, next| is_word(*one) == is_word(*next)) {
            let scripts = ScriptMix::of(word);
            for character in word {
                rest = rest.get(1..).unwrap_or_default();
                let is_plain = match self.content {
                    _ if self.charset == Charset::Ascii => is_printable_ascii(*character),
                    TextKind::Prose | TextKind::Remark => shown.is_prose(*character, is_mixed),
                    TextKind::Command => scripts.show(*character),
                    TextKind::Composed => *character == '→' || scripts.show(*character),
                };
                match character {
                    '\t' if self.charset == Charset::Unicode && self.content != TextKind::Composed => {
                        shown.tab()
                    }
                    '→' if !is_plain && !self.is_exact() => shown.extend("->"),
                    '\\' if self.is_exact() && self.is_escape(rest) => shown.escape('\\'),
                    // A trailing blank is invisible.
                    ' ' if self.is_exact() && rest.is_empty() => shown.escape(' '),
                    plain if is_plain => shown.push(*plain),
                    other => shown.escape(*other),
                }
            }
        }
        shown.text
    }

    /// Whether the original text can be decoded from what is shown.
    fn is_exact(self) -> bool {
        matches!(self.content, TextKind::Command | TextKind::Prose)
    }

    /// Whether a backslash before this could be confused with one of the gate's: that of an escape, or of a count in an ASCII-only output.
    fn is_escape(self, rest: &[char]) -> bool {
        rest.starts_with(&['u', '{']) || self.charset == Charset::Ascii && rest.starts_with(&['{'])
    }
}

/// A value of a call inside a line of the gate, such as a path: unchanged where it cannot be misread, else escaped and quoted. To be shown as
/// [`TextKind::Composed`].
#[must_use]
pub fn quote_value(text: &str) -> String {
    let escaping = Escaping { content: TextKind::Command, charset: Charset::Unicode };
    let parts: Vec<String> = text.split('\t').map(|part| escaping.line(part, 0)).collect();
    let escaped = parts.join("\\u{9}").replace('"', "\\u{22}");
    let is_plain = |character: char| character.is_alphanumeric() || "/._-+@=~%".contains(character);
    match !escaped.is_empty() && escaped.chars().all(is_plain) {
        true => escaped,
        false => format!("\"{escaped}\""),
    }
}

/// A line that is being written.
struct EscapedLine {
    text: String,
    column: usize,
    /// How many combining marks the last letter has.
    marks: usize,
    before: Option<char>,
}

impl EscapedLine {
    fn push(&mut self, character: char) {
        self.text.push(character);
        self.column += width(character);
        self.marks = if is_combining_mark(character) { self.marks + 1 } else { 0 };
        self.before = Some(character);
    }

    fn extend(&mut self, text: &str) {
        text.chars().for_each(|character| self.push(character));
    }

    fn escape(&mut self, character: char) {
        self.extend(&character.escape_unicode().to_string());
        self.before = None;
    }

    fn tab(&mut self) {
        self.push(TAB);
        // It takes one column, although `width` counts two for any non-ASCII character.
        self.column -= width(TAB) - 1;
        while !self.column.is_multiple_of(TAB_COLUMNS) {
            self.push(' ');
        }
    }

    /// Whether a character of a file's content is visible and unambiguous here.
    fn is_prose(&self, character: char, is_mixed: bool) -> bool {
        match character {
            ascii if ascii.is_ascii() => is_printable_ascii(ascii),
            other if other.is_whitespace() || is_invisible(other) || RESERVED.contains(&other) => false,
            other if !is_printable(other) || is_blank(other) => false,
            // Jamo that compose to syllables with a code point of their own.
            '\u{1100}'..='\u{11ff}' | '\u{a960}'..='\u{a97f}' | '\u{d7b0}'..='\u{d7ff}' => false,
            // A right-to-left letter reorders neighbouring symbols and digits.
            other if is_right_to_left(other) => !is_mixed,
            // With an ASCII letter it could compose to one character that looks the same.
            mark if is_combining_mark(mark) => {
                self.marks < MAX_COMBINING_MARKS && self.before.is_some_and(|before| !before.is_ascii())
            }
            // A second code point for the same character, such as U+212A for K.
            other => std::iter::once(other).nfc().eq([other]),
        }
    }
}

/// The maximum number of columns of a character. Every non-ASCII character counts as wide: a row that is too short is harmless.
#[must_use]
pub fn width(character: char) -> usize {
    if character.is_ascii() { 1 } else { 2 }
}

fn is_printable_ascii(character: char) -> bool {
    matches!(character, ' '..='~')
}

/// Whether a character is in none of the general categories Cc, Cf, Cn, Co, Cs, Zl, Zp and Zs, by the tables of the standard library: its
/// `escape_debug` leaves such a character unchanged. The letter before it prevents that a combining mark is escaped for being first.
fn is_printable(character: char) -> bool {
    let mut buffer = [b'a'; 5];
    let length = buffer.get_mut(1..).map_or(0, |rest| character.encode_utf8(rest).len());
    let pair = buffer.get(..=length).and_then(|pair| std::str::from_utf8(pair).ok());
    pair.is_some_and(|pair| pair.escape_debug().count() == 2)
}

/// Symbols, letters and marks that draw nothing: Braille pattern blank, musical null notehead, blank hieroglyphs, a Khitan filler, and joiners of
/// Tifinagh and Brahmi.
fn is_blank(character: char) -> bool {
    matches!(
        character,
        '\u{2800}' | '\u{1d159}' | '\u{13441}' | '\u{13442}' | '\u{16fe4}' | '\u{2d7f}' | '\u{1107f}'
    )
}

fn is_right_to_left(character: char) -> bool {
    matches!(character, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}' | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}')
}

fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_' || script(character).is_some()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnicodeScript {
    Latin,
    Greek,
    Cyrillic,
    Katakana,
    /// Ideographs, and the syllables written between them.
    Han,
}

/// The script of a letter that may appear in a command. All others are escaped: most scripts have letters that look like ASCII letters or symbols.
fn script(character: char) -> Option<UnicodeScript> {
    match character {
        // Ð and Đ look the same; the others are one letter with a symbol, or look like i, k or f.
        'Ð' | '×' | '÷' | 'ı' | 'Ĳ' | 'ĳ' | 'ĸ' | 'Ŀ' | 'ŀ' | 'ŉ' | 'ſ' => None,
        'À'..='ž' | 'Ơ' | 'ơ' | 'Ư' | 'ư' | 'Ạ'..='ỹ' => Some(UnicodeScript::Latin),
        'Ά' | 'Έ'..='Ί' | 'Ό' | 'Ύ'..='Ρ' | 'Σ'..='ώ' => Some(UnicodeScript::Greek),
        'Ѐ'..='џ' | 'Ґ' | 'ґ' => Some(UnicodeScript::Cyrillic),
        'ァ'..='ヺ' | 'ー' => Some(UnicodeScript::Katakana),
        'ぁ'..='ゖ' | '一'..='\u{9fff}' | '가'..='힣' => Some(UnicodeScript::Han),
        _ => None,
    }
}

/// Letters that look like one of another script, or like an ASCII symbol.
fn looks_alike(letter: char) -> bool {
    const GREEK: &str = "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧάΰίΐύϊϋόαγηικνορςτυχωώΆΈΉΊΌΎΏΪΫ";
    const CYRILLIC: &str = "АВЕЗКМНОРСТУХЅІЇЈЀЁЍЌЎЬаекопрсухѕіїјѐёѝќўћь";
    const KATAKANA: &str = "イエオカタチトニノハヌヘベペミロー";
    const HAN: &str = "一丨丶丿亅乙二三口千十工才八又力卜夕へべぺ";
    [GREEK, CYRILLIC, KATAKANA, HAN].iter().any(|letters| letters.contains(letter))
}

/// Which scripts the letters of a word have.
struct ScriptMix {
    /// Whether the word has a single script.
    is_one: bool,
    /// Whether a letter is unambiguous: then its neighbours are of the same script.
    is_unmistakable: bool,
}

impl ScriptMix {
    fn of(word: &[char]) -> Self {
        let latin = word.iter().filter(|letter| letter.is_ascii_alphabetic()).map(|_| UnicodeScript::Latin);
        let mut scripts = latin.chain(word.iter().filter_map(|letter| script(*letter)));
        let first = scripts.next();
        let is_unmistakable = |letter: &char| script(*letter).is_some() && !looks_alike(*letter);
        Self {
            is_one: scripts.all(|script| Some(script) == first),
            is_unmistakable: word.iter().any(is_unmistakable),
        }
    }

    fn show(&self, character: char) -> bool {
        match script(character) {
            None => is_printable_ascii(character),
            Some(UnicodeScript::Latin) => true,
            Some(UnicodeScript::Katakana | UnicodeScript::Han) if !looks_alike(character) => true,
            // In a word of several scripts the script of each letter is uncertain.
            Some(_) => self.is_one && self.is_unmistakable,
        }
    }
}

/// Where a line is wrapped into rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrapMode {
    /// Between words, where possible.
    Words,
    /// Anywhere: every row but the last is full.
    Anywhere,
}

/// Wraps an escaped line into rows of at most so many columns, so that the output device does not wrap it itself. The caller must mark all rows but
/// the first: the first character of a continuation row is content, not a diff sign.
#[must_use]
pub fn wrap_rows(line: &str, columns: usize, at: WrapMode) -> Vec<String> {
    let columns = columns.max(width('│'));
    let (mut rows, mut row, mut used) = (Vec::new(), String::new(), 0);
    for character in line.chars() {
        if used + width(character) > columns {
            let space = row.rfind(' ').filter(|space| at == WrapMode::Words && *space > row.len() / 2);
            let next = space.map(|space| row.split_off(space + 1)).unwrap_or_default();
            used = next.chars().map(width).sum();
            rows.push(std::mem::replace(&mut row, next));
        }
        row.push(character);
        used += width(character);
    }
    rows.push(row);
    rows
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    mod lookalikes {
        include!("../tests/shared/lookalikes.rs");
    }
    use lookalikes::{pair, skeleton};

    const COMMAND: Escaping = Escaping { content: TextKind::Command, charset: Charset::Unicode };
    const PROSE: Escaping = Escaping { content: TextKind::Prose, charset: Charset::Unicode };

    fn ascii(escaping: Escaping) -> Escaping {
        Escaping { charset: Charset::Ascii, ..escaping }
    }

    /// Decodes escapes and tabs.
    fn read(shown: &str) -> String {
        let (mut text, mut rest, mut column) = (String::new(), shown, 0);
        while let Some(first) = rest.chars().next() {
            let escape = rest.strip_prefix("\\u{").and_then(|code| code.split_once('}'));
            if let Some((code, after)) = escape {
                text.push(char::from_u32(u32::from_str_radix(code, 16).unwrap()).unwrap());
                column += rest.len() - after.len();
                rest = after;
                continue;
            }
            rest = rest.get(first.len_utf8()..).unwrap();
            column += if first == TAB { 1 } else { width(first) };
            text.push(if first == TAB { '\t' } else { first });
            while first == TAB && !column.is_multiple_of(TAB_COLUMNS) {
                rest = rest.strip_prefix(' ').unwrap();
                column += 1;
            }
        }
        text
    }

    #[test]
    fn commands_show_what_cannot_be_misread() {
        for (text, shown) in [
            ("ls\u{a0}# list the folder; rm keep.txt", "ls\\u{a0}# list the folder; rm keep.txt"),
            ("echo \\u{a0}", "echo \\u{5c}u{a0}"),
            ("printf '\\n\\t\\\\'", "printf '\\n\\t\\\\'"),
            (
                "cat größe.txt čeština 漢字 かな データ 한글 прочти Ελληνικά",
                "cat größe.txt čeština 漢字 かな データ 한글 прочти Ελληνικά",
            ),
            ("cаt", "c\\u{430}t"),
            ("сору", "\\u{441}\\u{43e}\\u{440}\\u{443}"),
            ("сοру", "\\u{441}\\u{3bf}\\u{440}\\u{443}"),
            ("ｒｍ −rf", "\\u{ff52}\\u{ff4d} \\u{2212}rf"),
            ("e\u{301} é", "e\\u{301} é"),
            ("a\u{37e} rm", "a\\u{37e} rm"),
            ("rm \u{5d0}/b", "rm \\u{5d0}/b"),
            ("ls ", "ls\\u{20}"),
            ("a\tb", "a⇥      b"),
            ("一", "\\u{4e00}"),
            ("一日", "一日"),
            ("x – “y” …", "x \\u{2013} \\u{201c}y\\u{201d} \\u{2026}"),
        ] {
            assert_eq!(COMMAND.line(text, 0), shown, "{text:?}");
        }
        assert_eq!(ascii(COMMAND).line("größe\t\\{3 spaces}", 0), "gr\\u{f6}\\u{df}e\\u{9}\\u{5c}{3 spaces}");
    }

    #[test]
    fn contents_keep_their_symbols() {
        for (text, shown) in [
            ("x – “y” … → ✓ 🦀", "x – “y” … → ✓ 🦀"),
            ("a\u{a0}b\u{202e}", "a\\u{a0}b\\u{202e}"),
            ("\"\\u{a0}\"", "\"\\u{5c}u{a0}\""),
            ("שלום", "שלום"),
            ("x = שלום;", "x = \\u{5e9}\\u{5dc}\\u{5d5}\\u{5dd};"),
            ("e\u{301}", "e\\u{301}"),
            ("हिन्दी", "हिन्दी"),
            ("\u{212a}", "\\u{212a}"),
            ("│⟦9 spaces⟧⇥⋮", "\\u{2502}\\u{27e6}9 spaces\\u{27e7}\\u{21e5}\\u{22ee}"),
            ("\tx", "⇥       x"),
            ("x\r", "x\\u{d}"),
        ] {
            assert_eq!(PROSE.line(text, 0), shown, "{text:?}");
        }
    }

    /// The characters of a class, by the tables of another crate than the tested ones.
    fn class(text: &str) -> Vec<char> {
        use regex_syntax::hir::{Class, HirKind};

        let parsed = regex_syntax::parse(text).unwrap();
        let HirKind::Class(Class::Unicode(class)) = parsed.into_kind() else { panic!("{text} is no class") };
        class.iter().flat_map(|range| range.start()..=range.end()).collect()
    }

    #[test]
    fn no_character_that_cannot_be_seen_stands_for_itself() {
        let mut invisible = class("[\\p{Cc}\\p{Cf}\\p{Z}\\p{Default_Ignorable_Code_Point}--[ ]]");
        for known in
            ['\u{ad}', '\u{600}', '\u{605}', '\u{6dd}', '\u{110bd}', '\u{13430}', '\u{13438}', '\u{e0fff}']
        {
            assert!(invisible.contains(&known), "{known:?}");
        }
        // Private use, non-characters, unassigned, and characters that draw nothing although their category says otherwise.
        invisible.extend([
            '\u{e000}',
            '\u{f8ff}',
            '\u{f0000}',
            '\u{10fffd}',
            '\u{fdd0}',
            '\u{fffe}',
            '\u{10ffff}',
            '\u{378}',
        ]);
        invisible.extend(['\u{2800}', '\u{1d159}', '\u{13441}', '\u{16fe4}']);
        let is_raw = |escaping: Escaping, [before, after]: [&str; 2], character: char| {
            escaping.line(&format!("{before}{character}{after}"), 0).contains(character)
        };
        let mut raw = Vec::new();
        for character in invisible {
            for around in [["", ""], ["a", "b"], ["é", "é"], ["ع", "ع"], ["漢", "字"]] {
                if [PROSE, COMMAND].into_iter().any(|escaping| is_raw(escaping, around, character)) {
                    raw.push(character.escape_unicode().to_string());
                }
            }
        }
        raw.dedup();
        assert!(raw.is_empty(), "{} characters are shown as they are: {raw:?}", raw.len());
    }

    /// The generators below draw some characters; these are all assigned ones except for private use.
    #[test]
    fn every_character_can_be_read_back() {
        for character in class("[^\\p{Cn}\\p{Co}]") {
            let text = format!("é{character}b");
            for escaping in [COMMAND, PROSE] {
                assert_eq!(
                    read(&escaping.line(&text, 0)),
                    text,
                    "{escaping:?} {}",
                    character.escape_unicode()
                );
            }
        }
    }

    #[test]
    fn values_stand_apart_from_the_words_around_them() {
        for (text, shown) in [
            ("src/main.rs", "src/main.rs"),
            ("", "\"\""),
            ("a b", "\"a b\""),
            ("a ", "\"a\\u{20}\""),
            ("a → b", "\"a \\u{2192} b\""),
            ("a\nb\tc\"", "\"a\\u{a}b\\u{9}c\\u{22}\""),
            ("größe", "größe"),
        ] {
            assert_eq!(quote_value(text), shown, "{text:?}");
            let composed = Escaping { content: TextKind::Composed, charset: Charset::Unicode };
            assert_eq!(composed.line(shown, 0), shown, "escaped once");
        }
    }

    #[test]
    fn rows_are_never_wider_than_they_may_be() {
        assert_eq!(wrap_rows("+aaaa-rm b", 5, WrapMode::Anywhere), ["+aaaa", "-rm b"]);
        assert_eq!(wrap_rows("aaa bb cc", 7, WrapMode::Words), ["aaa bb ", "cc"]);
        assert_eq!(wrap_rows("", 0, WrapMode::Words), [""]);
    }

    proptest! {
        #[test]
        fn an_escaped_text_can_be_read_back(text in "([\\PC\t\u{1b}\u{a0}\u{202e}\u{430}\u{3bf}\u{301}]|\\\\u\\{[0-9a-f]{1,4}\\}|⟦|⇥){0,60}") {
            for escaping in [COMMAND, PROSE, ascii(COMMAND), ascii(PROSE)] {
                let shown = escaping.line(&text, 0);
                prop_assert_eq!(&read(&shown), &text, "{:?}: {:?}", escaping, shown);
            }
            let quoted = quote_value(&text);
            let inner = quoted.strip_prefix('"').and_then(|inner| inner.strip_suffix('"')).unwrap_or(&quoted);
            prop_assert_eq!(read(inner), text);
        }

        /// Two commands that look alike unescaped do not look alike escaped.
        #[test]
        fn commands_that_look_alike_are_shown_as_different(pair in pair()) {
            let (one, other) = pair;
            prop_assume!(one != other);
            prop_assert_ne!(skeleton(&COMMAND.line(&one, 0)), skeleton(&COMMAND.line(&other, 0)), "{:?} {:?}", one, other);
            prop_assert_ne!(skeleton(&quote_value(&one)), skeleton(&quote_value(&other)));
        }

        #[test]
        fn rows_put_together_are_the_line(line in "[ -~é漢]{0,80}", columns in 2usize..30) {
            for at in [WrapMode::Words, WrapMode::Anywhere] {
                let rows = wrap_rows(&line, columns, at);
                prop_assert_eq!(rows.concat(), line.clone());
                prop_assert!(rows.iter().all(|row| row.chars().map(width).sum::<usize>() <= columns));
            }
        }
    }
}

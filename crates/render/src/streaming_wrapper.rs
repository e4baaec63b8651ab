//! Wraps the model's streamed text for a terminal.
//!
//! The gate's own output begins in the first column, and no text of a model does: rows are wrapped here instead of by the terminal, and each is
//! indented. So no response can be mistaken for a question of the gate, a call or a prompt. Terminal control sequences are shown escaped.

use crate::escape::{ControlEscaper, paint};
use crate::width::{INDENT, char_columns, text_columns};

/// Replaces a tab.
const TAB_SPACES: &str = "    ";

/// A growing text, wrapped into rows.
#[derive(Debug)]
pub struct StreamingWrapper {
    /// The columns of a row, without the indentation.
    columns: usize,
    /// Whether the terminal can erase characters at the end of a row. On one that cannot, a word is written once it is complete.
    can_erase: bool,
    /// The SGR code of its colour.
    colour: &'static str,
    /// The columns used in this row; 0 if the row is still empty.
    used: usize,
    /// The current word, as far as it is in this row.
    word: String,
    word_width: usize,
    /// Whether the word is not written yet.
    is_held: bool,
    escaper: ControlEscaper,
    /// Whether the last character was shown as itself, and may be followed by a variation selector or another modifier.
    may_take_modifier: bool,
}

impl StreamingWrapper {
    /// For a terminal with this many columns.
    #[must_use]
    pub fn new(columns: usize, can_erase: bool, colour: &'static str) -> Self {
        Self {
            columns: text_columns(columns),
            can_erase,
            colour,
            used: 0,
            word: String::new(),
            word_width: 0,
            is_held: false,
            escaper: ControlEscaper::default(),
            may_take_modifier: false,
        }
    }

    /// The output for the next piece of text.
    pub fn push(&mut self, text: &str) -> String {
        let mut written = String::new();
        for character in text.chars() {
            match character {
                '\n' => {
                    self.release_word(&mut written);
                    self.break_row(&mut written);
                }
                '\t' => TAB_SPACES.chars().for_each(|space| self.space(space, &mut written)),
                ' ' => self.space(' ', &mut written),
                '\u{fe0e}' | '\u{fe0f}' | '\u{200d}' if self.may_take_modifier => {
                    self.may_take_modifier = false
                }
                other => {
                    let shown = self.escaper.escape(other);
                    self.may_take_modifier = true;
                    for shown in shown {
                        // An escaped character takes no modifier.
                        self.may_take_modifier &= shown == other;
                        self.push_char(shown, &mut written);
                    }
                }
            }
        }
        self.painted(&written)
    }

    /// The output at the end of the text: moves the cursor to the beginning of a row.
    pub fn end(&mut self) -> String {
        let mut written = String::new();
        self.release_word(&mut written);
        let is_open = self.used > 0;
        (self.used, self.may_take_modifier) = (0, false);
        self.reset_word();
        self.painted(&written) + if is_open { "\n" } else { "" }
    }

    fn painted(&self, written: &str) -> String {
        paint(written, self.colour, !self.colour.is_empty() && !written.trim().is_empty())
    }

    fn space(&mut self, space: char, written: &mut String) {
        self.release_word(written);
        self.reset_word();
        self.may_take_modifier = false;
        match self.used < self.columns {
            true => self.write(space, 1, written),
            // The space at which a row was wrapped does not begin the next one.
            false => self.break_row(written),
        }
    }

    fn push_char(&mut self, character: char, written: &mut String) {
        let width = char_columns(character);
        self.is_held |= !self.can_erase && self.word.is_empty();
        // A word that takes half of a row is written as it comes.
        if self.is_held && self.word_width + width > self.columns / 2 {
            self.release_word(written);
        }
        if !self.is_held {
            if self.used + width > self.columns {
                self.wrap_word(written);
            }
            self.write(character, width, written);
        }
        self.word.push(character);
        self.word_width += width;
    }

    /// Writes a word that was held, in the next row if it does not fit into this one.
    fn release_word(&mut self, written: &mut String) {
        if !std::mem::take(&mut self.is_held) || self.word.is_empty() {
            return;
        }
        let (word, width) = (std::mem::take(&mut self.word), self.word_width);
        if self.used + width > self.columns {
            self.break_row(written);
        }
        if self.used == 0 {
            written.push_str(INDENT);
        }
        written.push_str(&word);
        self.used += width;
        (self.word, self.word_width) = (word, width);
    }

    /// Wraps before the current word if it can be erased. Only for ASCII: terminals differ in the width of other characters, and erasing too many
    /// columns would remove preceding words.
    fn wrap_word(&mut self, written: &mut String) {
        let is_short = (1..=self.columns / 2).contains(&self.word_width) && self.word_width < self.used;
        let is_movable = self.can_erase && is_short && self.word.is_ascii();
        if !is_movable {
            return self.break_row(written);
        }
        let (word, width) = (std::mem::take(&mut self.word), self.word_width);
        written.push_str(&format!("\u{1b}[{width}D\u{1b}[K"));
        self.break_row(written);
        written.push_str(INDENT);
        written.push_str(&word);
        (self.used, self.word, self.word_width) = (width, word, width);
    }

    fn write(&mut self, character: char, width: usize, written: &mut String) {
        if self.used == 0 {
            written.push_str(INDENT);
        }
        written.push(character);
        self.used += width;
    }

    fn break_row(&mut self, written: &mut String) {
        written.push('\n');
        (self.used, self.may_take_modifier) = (0, false);
        self.reset_word();
    }

    fn reset_word(&mut self) {
        self.word.clear();
        (self.word_width, self.is_held) = (0, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: &str = "The quick brown fox jumps over the lazy dog.\n\n    indented\tcode, averyveryverylongwordthatfitsnowhere end";

    /// What a terminal of 30 columns shows of a text that arrives in pieces of this many characters.
    fn shown(text: &str, piece: usize) -> String {
        shown_on(30, text, piece)
    }

    fn shown_on(columns: u16, text: &str, piece: usize) -> String {
        shown_by(StreamingWrapper::new(columns.into(), true, ""), columns, text, piece)
    }

    /// The same on a terminal that cannot erase.
    fn shown_plain(columns: u16, text: &str, piece: usize) -> String {
        shown_by(StreamingWrapper::new(columns.into(), false, ""), columns, text, piece)
    }

    fn shown_by(mut prose: StreamingWrapper, columns: u16, text: &str, piece: usize) -> String {
        let characters: Vec<char> = text.chars().collect();
        let pieces = characters.chunks(piece).map(|piece| piece.iter().collect::<String>());
        let mut written: Vec<String> = pieces.map(|piece| prose.push(&piece)).collect();
        written.push(prose.end());
        crate::test_screen::seen(columns, written)
    }

    #[test]
    fn rows_are_broken_between_words_however_the_text_comes() {
        insta::assert_snapshot!(shown(WORDS, 1000), @r"
          The quick brown fox jumps
          over the lazy dog.

              indented    code,
          averyveryverylongwordthatfi
          tsnowhere end
        ");
        for piece in 1..20 {
            assert_eq!(shown(WORDS, piece), shown(WORDS, 1000), "in pieces of {piece}");
        }
    }

    #[test]
    fn a_terminal_that_cannot_erase_gets_whole_words_and_no_command() {
        for piece in 1..20 {
            assert_eq!(shown_plain(30, WORDS, piece), shown(WORDS, 1000), "in pieces of {piece}");
        }
        let mut prose = StreamingWrapper::new(30, false, "");
        assert_eq!((prose.push("one tw"), prose.push("o ")), ("  one ".to_owned(), "two ".to_owned()));
        assert_eq!(
            (prose.push("three"), prose.end(), prose.end()),
            (String::new(), "three\n".to_owned(), String::new())
        );
        // What takes half of a row is not waited for.
        assert_eq!(
            (prose.push(&".".repeat(14)), prose.push(".")),
            ("  ..............".to_owned(), ".".to_owned())
        );
        assert!(!prose.push(&"word ".repeat(100)).contains('\u{1b}'));
    }

    #[test]
    fn nothing_that_a_model_says_begins_in_the_first_column_or_commands_the_terminal() {
        let long = "[y] once  [n] no: ".repeat(9);
        let pushed = |marks: usize| format!("{}[y] once  [n] no: \n", "\u{301}".repeat(marks)).repeat(9);
        let (few, many) = (pushed(4), pushed(29));
        let letters_without_width = "\u{1160}[y] once ".repeat(20);
        let texts = [
            "\u{1b}[2J\u{1b}[H● write_file x\r> ",
            "a\u{8}\u{8}\u{8}b\u{9b}2Jc\u{7f}",
            "\u{202e}desrever\u{2028}next\u{85}line",
            &long,
            &"漢字".repeat(40),
            &"e\u{301}".repeat(80),
            &"\u{301}".repeat(200),
            &few,
            &many,
            &"x\u{301}\u{301}\u{301}\u{301}".repeat(40),
            &letters_without_width,
            &"⚠\u{fe0f}\u{fe0f}".repeat(30),
            "\u{1b}]0;title\u{7}",
        ];
        for text in texts {
            let in_pieces = |columns: u16| [1, 2, 3, 7, 1000].map(|piece| (columns, piece));
            for (columns, piece) in [4, 5, 9, 18, 30, 31, 60].into_iter().flat_map(in_pieces) {
                for screen in [shown_on(columns, text, piece), shown_plain(columns, text, piece)] {
                    assert!(
                        screen.lines().all(|row| row.is_empty() || row.starts_with(INDENT)),
                        "{text:?} on {columns}: {screen}"
                    );
                    let hidden = text.chars().any(|character| character.is_control() && character != '\n');
                    assert!(!hidden || columns < 18 || screen.contains("\\u{"), "{text:?}: {screen}");
                }
            }
        }
    }

    #[test]
    fn no_word_takes_others_along_when_it_goes_on_below() {
        let text = format!("Do this: rm -rf important {}zzzz", "→".repeat(6));
        for piece in [1, 1000] {
            let shown = shown_on(40, &text, piece);
            assert!(shown.contains("Do this: rm -rf important →"), "{shown}");
        }
    }

    #[test]
    fn marks_of_emoji_are_left_out_once_and_shown_when_they_pile_up() {
        assert_eq!(shown("⚠\u{fe0f} ok", 1), "  ⚠ ok");
        assert_eq!(shown("a\u{fe0f}\u{fe0f}b\u{200d}", 100), "  a\\u{fe0f}b");
        assert_eq!(shown("\u{200d}a", 100), "  \\u{200d}a");
        for piece in [1, 100] {
            assert_eq!(
                shown("e\u{301}\u{302}\u{303}\u{304}\u{305}", piece),
                "  e\u{301}\u{302}\u{303}\u{304}\\u{305}"
            );
        }
    }
}

//! The part of SGR (ECMA-48 "select graphic rendition") that people see of a tool's output: six hues, their bright forms and bold.
//!
//! Everything else is dropped. Black, white and grey are the default colour, and background colours and reverse video do nothing, so that no text
//! is concealed on a background of its own colour; so are conceal (8) and blink (5), and faint text, in which a terminal shows the gate's own remarks.
//! A text in this form holds no other control sequence, and every line and every chunk of it is complete in itself: it ends in the default style.

use crate::{Sanitizer, TerminalEffect};

/// Beyond this many changes of the style the rest of a text is plain: a change is longer than the character that it is for.
const MAX_STYLE_CHANGES: usize = 4096;

/// How a character looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextStyle {
    /// An SGR foreground colour: 31 to 36, or 91 to 96.
    colour: Option<u8>,
    bold: bool,
}

impl TextStyle {
    /// Whether it is the default.
    #[must_use]
    pub fn is_plain(self) -> bool {
        self == Self::default()
    }

    /// Its SGR parameters; empty for the default.
    #[must_use]
    pub fn code(self) -> String {
        match (self.bold, self.colour) {
            (true, Some(colour)) => format!("1;{colour}"),
            (true, None) => "1".to_owned(),
            (false, Some(colour)) => colour.to_string(),
            (false, None) => String::new(),
        }
    }

    /// The style after an SGR sequence with these parameters. What is not on the allowlist changes nothing.
    pub(crate) fn select(&mut self, parameters: &str) {
        // Private parameters are sequences of other meanings, such as `CSI > 4 ; 2 m`.
        if !parameters.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b';' | b':')) {
            return;
        }
        let mut codes = parameters.split([';', ':']).map(|code| match code {
            "" => Some(0),
            code => code.parse::<u8>().ok(),
        });
        while let Some(code) = codes.next() {
            match code {
                Some(0) => *self = Self::default(),
                Some(1) => self.bold = true,
                Some(22) => self.bold = false,
                Some(30 | 37 | 39 | 90 | 97) => self.colour = None,
                Some(colour @ (31..=36 | 91..=96)) => self.colour = Some(colour),
                Some(38) => self.colour = extended(&mut codes),
                // The parameters of a background or of an underline are no codes of their own.
                Some(48 | 58) => drop(extended(&mut codes)),
                _ => {}
            }
        }
    }
}

/// A colour of the 256, or of 16 million, as the nearest of the six hues.
fn extended(codes: &mut impl Iterator<Item = Option<u8>>) -> Option<u8> {
    match codes.next().flatten()? {
        5 => match codes.next().flatten()? {
            basic @ 1..=6 => Some(30 + basic),
            bright @ 9..=14 => Some(90 + bright - 8),
            cube @ 16..=231 => {
                let cube = cube - 16;
                hue([cube / 36, cube / 6 % 6, cube % 6].map(|level| level * 51))
            }
            _ => None,
        },
        2 => {
            let mut level = || codes.next().flatten();
            hue([level()?, level()?, level()?])
        }
        _ => None,
    }
}

fn hue(levels: [u8; 3]) -> Option<u8> {
    let most = levels.into_iter().max().unwrap_or_default();
    let least = levels.into_iter().min().unwrap_or_default();
    if most - least < 40 {
        return None;
    }
    let bit = |level: u8| u8::from(u16::from(level) * 5 > u16::from(most) * 3);
    let [red, green, blue] = levels.map(bit);
    Some(30 + red + 2 * green + 4 * blue)
}

/// Writes characters with their styles in this form.
#[derive(Debug, Default)]
pub struct SgrWriter {
    text: String,
    written: TextStyle,
    changes: usize,
}

impl SgrWriter {
    /// Adds a character.
    pub fn push(&mut self, character: char, style: TextStyle) {
        if character == '\n' || (character.is_whitespace() && style.is_plain()) {
            self.change(TextStyle::default());
        } else if !character.is_whitespace() && style != self.written {
            // A space has no colour to show, so none begins with it.
            let style = if self.changes < MAX_STYLE_CHANGES { style } else { TextStyle::default() };
            self.change(style);
        }
        self.text.push(character);
    }

    /// Whether anything has a style.
    #[must_use]
    pub fn has_styles(&self) -> bool {
        self.changes > 0
    }

    /// The text, which ends in the default style.
    #[must_use]
    pub fn finish(mut self) -> String {
        self.change(TextStyle::default());
        self.text
    }

    fn change(&mut self, style: TextStyle) {
        if style == self.written {
            return;
        }
        let before = if style.is_plain() || !self.written.is_plain() { "0" } else { "" };
        let between = if style.is_plain() || before.is_empty() { "" } else { ";" };
        self.text.push_str(&format!("\u{1b}[{before}{between}{}m", style.code()));
        self.written = style;
        self.changes += 1;
    }
}

/// A sanitised text whose characters have styles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StyledText(Vec<(char, TextStyle)>);

impl StyledText {
    /// Sanitises a text like [`crate::sanitize`], and keeps the styles of its characters.
    #[must_use]
    pub fn sanitized(text: &str) -> Self {
        let (mut done, mut line) = (Vec::with_capacity(text.len()), Vec::new());
        let (mut cleaner, mut style) = (Sanitizer::default(), TextStyle::default());
        for character in text.chars() {
            cleaner.push(character, &mut |effect| match effect {
                TerminalEffect::Visible(seen) => line.push((seen, style)),
                TerminalEffect::Style(next) => style = next,
                TerminalEffect::Restart => line.clear(),
                TerminalEffect::Erase => drop(line.pop()),
                TerminalEffect::NewLine => {
                    done.append(&mut line);
                    done.push(('\n', TextStyle::default()));
                }
            });
        }
        done.append(&mut line);
        Self(done)
    }

    /// Drops the beginning, so that the characters without their styles take at most this many bytes.
    pub fn keep_newest(&mut self, max_bytes: usize) {
        let mut bytes = 0_usize;
        let fits = |(character, _): &&(char, TextStyle)| {
            bytes += character.len_utf8();
            bytes <= max_bytes
        };
        let kept = self.0.iter().rev().take_while(fits).count();
        self.0.drain(..self.0.len() - kept);
    }

    /// The text with its styles as SGR.
    #[must_use]
    pub fn to_sgr(&self) -> String {
        let mut writer = SgrWriter::default();
        for (character, style) in &self.0 {
            writer.push(*character, *style);
        }
        writer.finish()
    }
}

/// The pieces of a text in this form, each with its style. Any other sequence is text, whose control characters a screen has to escape.
#[must_use]
pub fn styled_pieces(text: &str) -> Vec<(TextStyle, &str)> {
    let (mut pieces, mut style, mut from, mut at) = (Vec::new(), TextStyle::default(), 0, 0);
    while let Some(escape) = text.get(at..).and_then(|rest| rest.find('\u{1b}')).map(|found| at + found) {
        match sequence(text, escape) {
            Some((end, next)) => {
                pieces.push((style, text.get(from..escape).unwrap_or_default()));
                (style, from, at) = (next, end, end);
            }
            None => at = escape + 1,
        }
    }
    pieces.push((style, text.get(from..).unwrap_or_default()));
    pieces.retain(|(_, piece)| !piece.is_empty());
    pieces
}

/// A text in this form without its sequences.
#[must_use]
pub fn without_sgr(text: &str) -> String {
    styled_pieces(text).into_iter().map(|(_, piece)| piece).collect()
}

/// The position itself, or the end of the sequence that it is within. For a position in the middle of a text that is cut there.
#[must_use]
pub fn sgr_boundary(text: &str, at: usize) -> usize {
    /// The longest sequence is `CSI 0;1;96 m`.
    const MAX_SEQUENCE_BYTES: usize = 10;
    let near = text.floor_char_boundary(at.saturating_sub(MAX_SEQUENCE_BYTES));
    let at = text.ceil_char_boundary(at);
    let escape = text.get(near..at).and_then(|before| before.rfind('\u{1b}')).map(|found| near + found);
    let end = escape.and_then(|escape| sequence(text, escape)).map(|(end, _)| end);
    end.filter(|end| *end > at).unwrap_or(at)
}

/// The end and the style of the sequence at a position, if it is one that [`SgrWriter`] writes.
fn sequence(text: &str, at: usize) -> Option<(usize, TextStyle)> {
    let parameters = text.get(at..)?.strip_prefix("\u{1b}[")?;
    let parameters = parameters.get(..parameters.find('m')?)?;
    let end = at + 2 + parameters.len() + 1;
    if parameters == "0" {
        return Some((end, TextStyle::default()));
    }
    let mut style = TextStyle::default();
    let code = parameters.strip_prefix("0;").unwrap_or(parameters);
    style.select(code);
    (!style.is_plain() && style.code() == code).then_some((end, style))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{is_invisible, sanitize};

    fn shown(raw: &str) -> String {
        StyledText::sanitized(raw).to_sgr()
    }

    #[test]
    fn only_hues_and_bold_are_left() {
        for (raw, seen) in [
            ("\u{1b}[31mred\u{1b}[0m", "\u{1b}[31mred\u{1b}[0m"),
            ("\u{9b}31mred", "\u{1b}[31mred\u{1b}[0m"),
            ("\u{1b}[1;92mok\u{1b}[m plain", "\u{1b}[1;92mok\u{1b}[0m plain"),
            ("\u{1b}[31mone\u{1b}[32mtwo", "\u{1b}[31mone\u{1b}[0;32mtwo\u{1b}[0m"),
            ("\u{1b}[01;31m\u{1b}[Kmatch\u{1b}[m\u{1b}[K", "\u{1b}[1;31mmatch\u{1b}[0m"),
            // A line is complete in itself.
            ("\u{1b}[31mone\ntwo", "\u{1b}[31mone\u{1b}[0m\n\u{1b}[31mtwo\u{1b}[0m"),
            // Conceal, blink, faint, reverse video, backgrounds, fonts, underlines.
            ("\u{1b}[8mhidden\u{1b}[5mblink\u{1b}[2mfaint\u{1b}[7mreverse", "hiddenblinkfaintreverse"),
            ("\u{1b}[41;31mred on red", "\u{1b}[31mred on red\u{1b}[0m"),
            ("\u{1b}[48;5;1mx\u{1b}[48;2;1;31;1my\u{1b}[58;5;31mz\u{1b}[4:3mu", "xyzu"),
            // Colours that are nearly a background.
            ("\u{1b}[30mblack\u{1b}[97mwhite\u{1b}[90mgrey\u{1b}[37mw", "blackwhitegreyw"),
            ("\u{1b}[38;5;16mx\u{1b}[38;5;255my\u{1b}[38;2;10;10;10mz", "xyz"),
            ("\u{1b}[38;5;196mx", "\u{1b}[31mx\u{1b}[0m"),
            ("\u{1b}[38;2;30;200;40mx", "\u{1b}[32mx\u{1b}[0m"),
            ("\u{1b}[38;5;12mx", "\u{1b}[94mx\u{1b}[0m"),
            // Other sequences, links and titles, also where they look alike.
            ("\u{1b}[>4;1mx\u{1b}[?1my\u{1b}[1 mz", "xyz"),
            ("\u{1b}]8;;http://x\u{1b}\\\u{1b}[31mlink\u{1b}]8;;\u{7}", "\u{1b}[31mlink\u{1b}[0m"),
            ("\u{1b}[2J\u{1b}[Hx\u{1b}[3A\u{1b}[31", "x"),
            ("\u{1b}]0;\u{1b}[31mtitle\u{7}x", "\u{1b}[31mtitlex\u{1b}[0m"),
            ("\u{1b}[31;4294967296;999mx", "\u{1b}[31mx\u{1b}[0m"),
            // What is overwritten leaves nothing, and a style without a letter neither.
            ("\u{1b}[31m10%\r\u{1b}[32m20%", "\u{1b}[32m20%\u{1b}[0m"),
            ("\u{1b}[31m\u{1b}[32m \u{1b}[33m\n", " \n"),
        ] {
            assert_eq!(shown(raw), seen, "{raw:?}");
        }
    }

    #[test]
    fn a_sequence_that_is_too_long_and_too_many_changes_do_nothing() {
        assert_eq!(shown(&format!("\u{1b}[{}31mx", "31;".repeat(64))), "x");
        let many: String = (0..3 * MAX_STYLE_CHANGES).map(|n| format!("\u{1b}[3{}mx", 1 + n % 6)).collect();
        let seen = shown(&many);
        assert!(seen.len() < 3 * MAX_STYLE_CHANGES + 8 * (MAX_STYLE_CHANGES + 2), "{}", seen.len());
        assert_eq!(without_sgr(&seen), "x".repeat(3 * MAX_STYLE_CHANGES));
    }

    #[test]
    fn the_newest_is_kept_and_no_sequence_is_cut() {
        let mut text = StyledText::sanitized("\u{1b}[31mold é\u{1b}[32mnew");
        text.keep_newest(4);
        assert_eq!(text.to_sgr(), "\u{1b}[32mnew\u{1b}[0m");
        let text = "one\u{1b}[0;1;31mtwo";
        for (at, boundary) in [(2, 2), (3, 3), (4, 12), (11, 12), (12, 12), (13, 13)] {
            assert_eq!(sgr_boundary(text, at), boundary, "{at}");
        }
    }

    #[test]
    fn a_reader_obeys_nothing_else() {
        let raw = "a\u{1b}[31mb\u{1b}[0mc\u{1b}[2Jd\u{1b}[8me\u{1b}[0;1mf\u{1b}[31;1mg";
        let seen: Vec<_> =
            styled_pieces(raw).into_iter().map(|(style, piece)| (style.code(), piece)).collect();
        let expected = [("", "a"), ("31", "b"), ("", "c\u{1b}[2Jd\u{1b}[8me"), ("1", "f\u{1b}[31;1mg")];
        assert_eq!(seen, expected.map(|(code, piece)| (code.to_owned(), piece)));
    }

    proptest! {
        #[test]
        fn without_its_styles_it_is_the_sanitised_text(pieces in prop::collection::vec(prop_oneof![
            4 => prop::sample::select(vec!["\u{1b}[", "31", "m", "1;", "0", "38;5;", "\u{9b}", "\n", "\r", "\u{8}", "a", "é", " ", "\u{1b}]8;;", "\u{7}", "\u{202e}"])
                .prop_map(str::to_owned),
            1 => any::<char>().prop_map(String::from),
        ], 0..40)) {
            let raw: String = pieces.concat();
            let seen = shown(&raw);
            prop_assert_eq!(without_sgr(&seen), sanitize(&raw));
            prop_assert!(!without_sgr(&seen).chars().any(is_invisible));
            // Cleaning it again changes nothing: it holds its own sequences alone.
            prop_assert_eq!(shown(&seen), seen);
        }
    }
}

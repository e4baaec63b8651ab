//! The coloured lines of a call's live output, with which people see its result.
//!
//! A result is the text that the model receives, after all that the gate drops or truncates. So the colours are put on that text: a line of it that was
//! written with colours is shown with them, and nothing else is shown. Whatever was left out of the result stays left out.

use std::collections::HashMap;

use toolgate_gate::ProgressUpdate;
use toolgate_text::{SgrWriter, TextStyle, styled_pieces};

/// A longer line is shown without colours.
const MAX_LINE_CHARS: usize = 4096;

/// Lines beyond this are shown without colours; the bound of a call, with what their colours take.
const MAX_BYTES: usize = 256 * 1024;

/// The coloured lines of one call.
#[derive(Debug, Default)]
pub(crate) struct ColouredLines {
    /// By their text without colours.
    lines: HashMap<String, String>,
    bytes: usize,
    /// The incomplete last line.
    line: Vec<(char, TextStyle)>,
}

impl ColouredLines {
    pub(crate) fn push(&mut self, update: &ProgressUpdate<'_>) {
        match update.coloured {
            Some(coloured) => {
                for (style, piece) in styled_pieces(coloured) {
                    self.add(piece, style);
                }
            }
            None => self.add(update.text, TextStyle::default()),
        }
    }

    fn add(&mut self, piece: &str, style: TextStyle) {
        for character in piece.chars() {
            if character == '\n' {
                self.end_line();
            } else if self.line.len() <= MAX_LINE_CHARS {
                self.line.push((character, style));
            }
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let has_styles = line.iter().any(|(_, style)| !style.is_plain());
        if !has_styles || line.len() > MAX_LINE_CHARS || self.bytes > MAX_BYTES {
            return;
        }
        let mut writer = SgrWriter::default();
        for (character, style) in &line {
            writer.push(*character, *style);
        }
        let (plain, coloured) =
            (line.iter().map(|(character, _)| character).collect::<String>(), writer.finish());
        self.bytes += plain.len() + coloured.len();
        self.lines.insert(plain, coloured);
    }

    /// A result with the colours of its lines; `None` if it has none.
    pub(crate) fn colour(&mut self, result: &str) -> Option<String> {
        self.end_line();
        if self.lines.is_empty() || result.len() > MAX_BYTES {
            return None;
        }
        let mut is_coloured = false;
        let lines: Vec<&str> = result
            .split('\n')
            .map(|line| match self.lines.get(line) {
                Some(coloured) => {
                    is_coloured = true;
                    coloured.as_str()
                }
                None => line,
            })
            .collect();
        is_coloured.then(|| lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use toolgate_text::without_sgr;

    use super::*;

    fn lines(chunks: &[&str]) -> ColouredLines {
        let mut lines = ColouredLines::default();
        for chunk in chunks {
            let text = without_sgr(chunk);
            let coloured = (text != *chunk).then_some(*chunk);
            lines.push(&ProgressUpdate { coloured, ..text.as_str().into() });
        }
        lines
    }

    #[test]
    fn lines_of_the_result_have_their_colours_and_it_has_no_others() {
        let chunks = [
            "ok\n\u{1b}[31mre\u{1b}[0m",
            "\u{1b}[31md\u{1b}[0m line\nsecret \u{1b}[32mvalue\u{1b}[0m\n",
            "\u{1b}[1mend\u{1b}[0m",
        ];
        let coloured = lines(&chunks).colour("ok\nred line\nsecret ***\nend\nexit code 1");
        let expected = "ok\n\u{1b}[31mred\u{1b}[0m line\nsecret ***\n\u{1b}[1mend\u{1b}[0m\nexit code 1";
        assert_eq!(coloured.as_deref(), Some(expected));
        assert_eq!(lines(&chunks).colour("[redacted]"), None);
        assert_eq!(lines(&["plain\n"]).colour("plain\n"), None);
    }

    #[test]
    fn a_text_without_a_coloured_form_is_not_read_for_sequences() {
        let mut lines = ColouredLines::default();
        lines.push(&"\u{1b}[31mof a server\u{1b}[0m\n".into());
        assert_eq!(lines.colour("of a server"), None);
    }

    #[test]
    fn memory_is_bounded() {
        let line = format!("\u{1b}[31m{}\u{1b}[0m", "x".repeat(1000));
        let mut all = ColouredLines::default();
        for number in 0..2000 {
            let chunk = format!("{number}{line}\n");
            all.push(&ProgressUpdate { coloured: Some(&chunk), ..without_sgr(&chunk).as_str().into() });
        }
        assert!(all.bytes < MAX_BYTES + 4096 && all.lines.len() > 100, "{}", all.bytes);
        let long = format!("\u{1b}[31m{}\u{1b}[0m\n", "x".repeat(2 * MAX_LINE_CHARS));
        assert_eq!(lines(&[&long]).colour(&"x".repeat(2 * MAX_LINE_CHARS)), None);
        assert_eq!(lines(&[&long]).colour(&"x".repeat(MAX_LINE_CHARS)), None);
    }
}

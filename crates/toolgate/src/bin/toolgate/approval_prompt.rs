//! Asks for approval on a terminal: shows the card, and reads answers until one decides.

use std::fs::File;
use std::io::{self, Write as _};
use std::time::Instant;

use rustix::termios::{QueueSelector, tcflush};
use serde_json::Value;
use toolgate_gate::{ApprovalReply, ApprovalRequest};

use crate::answer_row::{AnswerRow, KeyMode, RowInput, TypedLine, read_line, timeout_in_words};
use crate::approval_grants::chosen_grant;
use crate::approval_screen::{Requester, quoted_diff};
use crate::card_screen::{CardFraming, CardScreen};
use crate::edit_call::{EditableCall, EditorOutcome};
use crate::terminal::{can_erase, screen};

/// The answer, or `None` after the timeout or a cancellation; the cursor is then in the row of the answer.
pub(crate) fn prompt_approval(
    mut terminal: &File,
    question: &ApprovalRequest,
    asker: Requester,
    stop: &dyn Fn() -> bool,
) -> io::Result<Option<ApprovalReply>> {
    let can_erase = can_erase(true);
    // A terminal that cannot erase gets no frame either, as its rows cannot be paged.
    let framing = if can_erase { CardFraming::Frame } else { CardFraming::Plain };
    let deadline = Instant::now() + question.timeout;
    let card = CardScreen::new(question, asker, screen(terminal), framing);
    let rendered = card.render();
    if can_erase {
        // A status row may have been drawn.
        terminal.write_all(b"\r\x1b[K")?;
    }
    terminal.write_all(rendered.text.as_bytes())?;
    let mode = can_erase.then(|| KeyMode::enter(terminal)).transpose()?;
    // Input from before the question was displayed is not an answer to it; input after the choices are displayed is.
    let _ = tcflush(terminal, QueueSelector::IFlush);
    terminal.write_all(rendered.choices.as_bytes())?;
    let (is_folded, hidden_rows) = (rendered.folded_rows > 0, rendered.folded_rows);
    let prompt = OpenPrompt {
        terminal,
        question,
        asker,
        card,
        deadline,
        stop,
        mode,
        is_folded,
        hidden_rows,
        changed: None,
    };
    prompt.decide()
}

/// A question on the screen.
struct OpenPrompt<'q> {
    terminal: &'q File,
    question: &'q ApprovalRequest,
    asker: Requester,
    card: CardScreen<'q>,
    deadline: Instant,
    stop: &'q dyn Fn() -> bool,
    /// Set if the row of the answer is redrawn.
    mode: Option<KeyMode<'q>>,
    is_folded: bool,
    /// Rows that were not shown yet.
    hidden_rows: usize,
    /// The arguments as the user left them in the editor.
    changed: Option<Value>,
}

impl OpenPrompt<'_> {
    fn decide(mut self) -> io::Result<Option<ApprovalReply>> {
        loop {
            let Some(answer) = self.read()? else { return Ok(None) };
            let answer = answer.trim();
            let goes_on = match answer {
                "v" | "V" if self.is_folded => self.page()?,
                "e" | "E" => self.edit()?,
                _ => match self.reply_to(answer) {
                    Ok(reply) => return Ok(Some(reply)),
                    Err(notice) => self.show_notice(&notice)?,
                },
            };
            if !goes_on {
                return Ok(None);
            }
        }
    }

    fn read(&mut self) -> io::Result<Option<String>> {
        let mut typed = TypedLine::default();
        while let Some(mode) = &self.mode {
            let edge = self.card.answer_edge();
            let row = AnswerRow { edge: &edge, label: "answer", columns: self.card.columns() };
            match row.read(self.terminal, mode, self.deadline, self.stop, typed)? {
                RowInput::Line(line) => return Ok(Some(line)),
                RowInput::Ended => return Ok(None),
                RowInput::Resized(kept) => {
                    typed = kept;
                    self.draw_again()?;
                }
            }
        }
        let row = format!("expires in {}, answer: ", timeout_in_words(self.question.timeout));
        (&mut &*self.terminal).write_all(row.as_bytes())?;
        read_line(self.terminal, self.deadline, self.stop)
    }

    /// Draws the card at the width that the terminal has now. Rows that a narrower terminal wraps by itself put parts of a call into the first column.
    fn draw_again(&mut self) -> io::Result<()> {
        self.card = CardScreen::new(self.question, self.asker, screen(self.terminal), CardFraming::Frame);
        let rendered = self.card.render();
        (self.is_folded, self.hidden_rows) = (rendered.folded_rows > 0, rendered.folded_rows);
        let changed = self.changed.as_ref().map(|changed| self.changed_text(changed)).unwrap_or_default();
        self.write(&format!("\r\u{1b}[K{}{}{changed}", rendered.text, rendered.choices)).map(drop)
    }

    /// What the person changed of the model's call, below its card.
    fn changed_text(&self, changed: &Value) -> String {
        let diff = quoted_diff(&EditableCall::new(&self.question.input).diff(changed), self.card.inside());
        let keys = "[y] run it as you left it  [e] edit  [n] no, or n and why\n";
        self.card.framed(&format!("you changed the call, {diff}{keys}"))
    }

    /// The reply that an answer means, or why it cannot be given.
    fn reply_to(&self, answer: &str) -> Result<ApprovalReply, String> {
        let reply = match (answer, &self.changed) {
            ("y" | "Y" | "yes", Some(changed)) => return Ok(ApprovalReply::Changed(changed.clone())),
            ("y" | "Y" | "yes", None) => ApprovalReply::Once,
            (text, Some(_))
                if text.eq_ignore_ascii_case("s")
                    || self.chosen(text).is_some()
                    || chosen_grant(self.question, text).is_some() =>
            {
                return Err("a call that you changed is approved once: y".to_owned());
            }
            (numbers, None) if self.chosen(numbers).is_some() => {
                ApprovalReply::Escalated(self.chosen(numbers).unwrap_or_default())
            }
            ("s" | "S", None) if self.question.can_grant_session => ApprovalReply::ForSession,
            // The end of the input is read as an empty line.
            ("" | "n" | "N" | "no", _) => return Ok(ApprovalReply::Denied(None)),
            (text, _) if text.starts_with("n ") => {
                return Ok(ApprovalReply::Denied(Some(text.trim_start_matches("n ").to_owned())));
            }
            (text, _) => match chosen_grant(self.question, text) {
                Some(grant) => ApprovalReply::Granted(grant),
                None => {
                    return Err("nothing was decided: type what stands in brackets, or n and why".to_owned());
                }
            },
        };
        // An approval is for what was shown.
        match self.hidden_rows {
            0 => Ok(reply),
            rows => Err(format!("{rows} rows were not shown yet: v shows them, n refuses the call")),
        }
    }

    /// The ids of what these numbers would allow, as in `+1` or `+1 +3`.
    fn chosen(&self, numbers: &str) -> Option<Vec<String>> {
        let id = |number: &str| {
            let place = number.strip_prefix('+')?.parse::<usize>().ok()?.checked_sub(1)?;
            self.question.escalations.get(place).map(|offer| offer.id.clone())
        };
        let ids: Vec<String> = numbers.split_whitespace().map(id).collect::<Option<_>>()?;
        (!ids.is_empty()).then_some(ids)
    }

    /// Shows all rows of a folded card. Returns whether the question is still open, as the next two do.
    fn page(&mut self) -> io::Result<bool> {
        let Some(mode) = &self.mode else { return Ok(true) };
        match self.card.page(self.terminal, mode, self.deadline, self.stop)? {
            None => return Ok(false),
            Some(true) => self.hidden_rows = 0,
            Some(false) => {}
        }
        self.write(&self.card.choices_again())
    }

    fn edit(&mut self) -> io::Result<bool> {
        let call = EditableCall::new(self.changed.as_ref().unwrap_or(&self.question.input));
        // The editor gets the terminal as it was.
        let redraws = self.mode.take().is_some();
        let edited = call.edit(self.terminal, self.deadline, self.stop);
        if redraws {
            self.mode = Some(KeyMode::enter(self.terminal)?);
        }
        match edited {
            Ok(EditorOutcome::Ended) => Ok(false),
            Ok(EditorOutcome::Unchanged) => self.show_notice("nothing was changed"),
            Ok(EditorOutcome::Changed(changed)) => {
                let text = self.changed_text(&changed);
                self.changed = Some(changed);
                self.write(&text)
            }
            Err(error) => self.show_notice(&format!("the call could not be edited: {error}")),
        }
    }

    fn show_notice(&self, notice: &str) -> io::Result<bool> {
        self.write(&self.card.notice(notice))
    }

    fn write(&self, text: &str) -> io::Result<bool> {
        let mut terminal = self.terminal;
        terminal.write_all(text.as_bytes()).map(|()| true)
    }
}

//! The card of an approval question: its rows, the frame around them, and what is folded of a card that is higher than the terminal.
//!
//! The frame is drawn in the first column, where nothing of a model is ever written, so no text can imitate a card. A card that does not fit on the
//! screen is folded in the middle of its body. The fold has a digest of what it hides, so that two calls never show the same card, and a folded card
//! is not approved before all of its rows were shown.

use std::fs::File;
use std::io::{self, Write as _};
use std::time::Instant;

use toolgate_gate::{ApprovalCard, ApprovalRequest};
use toolgate_types::Sha256;

use crate::answer_row::{AnswerRow, KeyMode, RowInput, TypedLine};
use crate::approval_grants::grant_rows;
use crate::approval_screen::{Requester, Screen, scroll_notice, summary_line};
use crate::terminal::paint;

/// The columns of the frame.
const FRAME_COLUMNS: usize = 2;

/// However low the terminal is, this many rows of a body are shown.
const MIN_BODY_ROWS: usize = 4;

/// Digits of the digest of what is folded: 128 bits, as for folded white space.
const FOLD_DIGEST_DIGITS: usize = 32;

/// How a card is set apart from its surroundings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CardFraming {
    /// A coloured frame in the first columns; a card that is too high is folded.
    Frame,
    /// Lines alone and nothing folded, as screen readers need it.
    Plain,
}

/// A question on a terminal.
pub(crate) struct CardScreen<'q> {
    question: &'q ApprovalRequest,
    card: ApprovalCard,
    asker: Requester,
    /// The terminal.
    screen: Screen,
    /// The part of it within the frame.
    inside: Screen,
    framing: CardFraming,
}

/// A rendered card.
pub(crate) struct RenderedCard {
    /// The rows above the choices.
    pub(crate) text: String,
    /// The choices, right above the row of the answer.
    pub(crate) choices: String,
    /// How many rows are folded.
    pub(crate) folded_rows: usize,
}

impl<'q> CardScreen<'q> {
    pub(crate) fn new(
        question: &'q ApprovalRequest,
        asker: Requester,
        screen: Screen,
        framing: CardFraming,
    ) -> Self {
        let columns = match framing {
            CardFraming::Frame => screen.columns.saturating_sub(FRAME_COLUMNS),
            CardFraming::Plain => screen.columns,
        };
        let inside = Screen { columns, ..screen };
        Self { question, card: question.card(screen.charset()), asker, screen, inside, framing }
    }

    /// The card as it is first shown.
    pub(crate) fn render(&self) -> RenderedCard {
        let (head, body, foot) = (self.head(), self.body(), self.foot());
        let around = rows(&head) + rows(&foot) + rows(&self.choices()) + self.frame_rows();
        let fits = |visible: usize| self.screen.rows.is_some_and(|most| around + visible <= most);
        if self.framing == CardFraming::Frame && self.screen.rows.is_some() && !fits(body.len()) {
            let room = self.screen.rows.unwrap_or_default().saturating_sub(around + 2).max(MIN_BODY_ROWS);
            if body.len() > room {
                let (folded_rows, visible) = self.fold(&body, room);
                return self.finish(&head, &visible.concat(), &foot, folded_rows);
            }
        }
        // The first rows of a card that is not folded may have scrolled away.
        let repeated = if fits(body.len()) { String::new() } else { self.repeated() };
        self.finish(&head, &body.concat(), &(repeated + &foot), 0)
    }

    /// All rows of a folded card, for the pager.
    pub(crate) fn whole(&self) -> Vec<String> {
        let text = self.head() + &self.body().concat();
        text.lines().map(|row| format!("{}{row}\n", self.edge("┃ ", "| "))).collect()
    }

    /// The choices below the pager.
    pub(crate) fn choices_again(&self) -> String {
        self.framed(&self.choices())
    }

    /// The beginning of the row of the answer.
    pub(crate) fn answer_edge(&self) -> String {
        self.edge("┗━ ", "+- ")
    }

    /// A row of the gate below the card, before the row of the answer.
    pub(crate) fn notice(&self, text: &str) -> String {
        self.framed(&self.inside.line(text, "1;33"))
    }

    fn finish(&self, head: &str, body: &str, foot: &str, folded_rows: usize) -> RenderedCard {
        let text = self.top() + &self.framed(&[head, body, foot].concat());
        let choices = self.choices();
        let notice = scroll_notice(&text, &(choices.clone() + "answer: "), self.inside);
        RenderedCard { text: text + &self.framed(&notice), choices: self.framed(&choices), folded_rows }
    }

    fn head(&self) -> String {
        let (tool, class) = (&self.card.tool, self.question.class.as_str());
        let asks = match (&self.question.caller.agent, self.asker) {
            (Some(agent), _) => format!("agent {agent} asks"),
            (None, Requester::Person) => "you ask".to_owned(),
            (None, Requester::Model) => "the model asks".to_owned(),
        };
        let mut text = self.inside.wrapped(&format!("{asks} to call {tool} ({class})"), "1");
        for line in &self.card.summary {
            match self.card.warnings.contains(line) {
                true => text.push_str(&self.inside.wrapped(&format!("! {line}"), "1;33")),
                false => text.push_str(&self.inside.wrapped(line, "1")),
            }
        }
        text.extend(self.card.body.as_ref().map(|body| format!("{}:\n", body.size)));
        text
    }

    fn body(&self) -> Vec<String> {
        let text = self.card.body.as_ref().map(|body| self.inside.body_rows(body)).unwrap_or_default();
        text.split_inclusive('\n').map(str::to_owned).collect()
    }

    fn repeated(&self) -> String {
        let (tool, class) = (&self.card.tool, self.question.class.as_str());
        let line = format!("{tool} ({class}): {}", summary_line(&self.card.summary));
        self.inside.wrapped(&line, "1")
    }

    fn foot(&self) -> String {
        let digest = format!("arguments sha256 {}", self.card.digest);
        let above = self.card.body.as_ref().map(|body| format!("above: {}; {digest}", body.shown));
        self.inside.wrapped(&above.unwrap_or(digest), "")
    }

    /// The choices, right above the row of the answer. The scope of a session grant is on rows of its own.
    fn choices(&self) -> String {
        let lasting = match self.question.can_grant_session {
            true => {
                let (tool, session) = (&self.question.tool, &self.question.caller.session);
                self.inside
                    .line(&format!("[s] yes, and to every later call of {tool} in session {session}"), "")
            }
            false => String::new(),
        };
        let numbered = self.question.escalations.iter().zip(1..);
        let more: String = numbered
            .map(|(offer, number)| self.inside.line(&format!("[+{number}] yes, and {}", offer.text()), ""))
            .collect();
        let grants = grant_rows(self.question, self.inside);
        more + &grants + &lasting + &self.inside.line("[y] once  [n] no, or n and why  [e] edit", "")
    }

    /// The first and the last rows of a body, and between them what is folded.
    fn fold(&self, body: &[String], room: usize) -> (usize, Vec<String>) {
        let last = room / 3;
        let (first, end) = (room - last, body.len() - last);
        let hidden = body.get(first..end).unwrap_or_default();
        let digest = Sha256::of(hidden.concat().as_bytes()).to_string();
        let digest: String = digest.chars().take(FOLD_DIGEST_DIGITS).collect();
        let line = format!("... {} rows folded, sha256 {digest}; v shows them", hidden.len());
        let shown = body.get(..first).unwrap_or_default().iter().cloned();
        let fold = std::iter::once(self.inside.wrapped(&line, "1;33"));
        let rest = body.get(end..).unwrap_or_default().iter().cloned();
        (hidden.len(), shown.chain(fold).chain(rest).collect())
    }

    /// The top of the frame.
    fn top(&self) -> String {
        if self.framing == CardFraming::Plain {
            return String::new();
        }
        let (corner, bar) = if self.screen.unicode { ("┏", "━") } else { ("+", "-") };
        let label: String = " toolgate ".chars().take(self.screen.columns.saturating_sub(4)).collect();
        let rest = self.screen.columns.saturating_sub(4 + label.chars().count());
        let row = format!("{corner}{bar}{bar}{label}{}", bar.repeat(rest));
        format!("{}\n", paint(&row, "1;33", self.screen.colour))
    }

    /// The width of the terminal.
    pub(crate) fn columns(&self) -> usize {
        self.screen.columns
    }

    /// The room within the frame.
    pub(crate) fn inside(&self) -> Screen {
        self.inside
    }

    /// Rows with their frame.
    pub(crate) fn framed(&self, text: &str) -> String {
        let edge = self.edge("┃ ", "| ");
        text.split_inclusive('\n').flat_map(|row| [edge.as_str(), row]).collect()
    }

    fn edge(&self, unicode: &str, ascii: &str) -> String {
        match self.framing {
            CardFraming::Frame => {
                paint(if self.screen.unicode { unicode } else { ascii }, "1;33", self.screen.colour)
            }
            CardFraming::Plain => String::new(),
        }
    }

    /// The top of the frame and the row of the answer.
    fn frame_rows(&self) -> usize {
        1 + usize::from(self.framing == CardFraming::Frame)
    }

    /// Shows all rows, a screen at a time; returns whether the last one was shown. `None` if the question ended.
    pub(crate) fn page(
        &self,
        mut terminal: &File,
        mode: &KeyMode<'_>,
        deadline: Instant,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<Option<bool>> {
        let rows = self.whole();
        let height = self.screen.rows.unwrap_or(rows.len()).saturating_sub(2).max(1);
        let mut shown = 0;
        for page in rows.chunks(height) {
            terminal.write_all(page.concat().as_bytes())?;
            shown += page.len();
            if shown == rows.len() {
                break;
            }
            let label = format!("{shown} of {} rows; Enter for more, q to go back", rows.len());
            let row = AnswerRow { edge: &self.answer_edge(), label: &label, columns: self.screen.columns };
            match row.read(terminal, mode, deadline, stop, TypedLine::default())? {
                RowInput::Ended => return Ok(None),
                // The card is drawn again, and its rows are others.
                RowInput::Resized(_) => return Ok(Some(false)),
                RowInput::Line(answer) if answer.trim().eq_ignore_ascii_case("q") => return Ok(Some(false)),
                RowInput::Line(_) => {}
            }
        }
        Ok(Some(true))
    }
}

fn rows(text: &str) -> usize {
    text.lines().count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use toolgate_gate::{Preview, PreviewBody};

    use super::*;

    mod lookalikes {
        include!("../../../../text/tests/shared/lookalikes.rs");
    }
    use lookalikes::{pair, skeleton};

    mod questions {
        include!("../../../../gate/tests/shared/question.rs");
    }
    use questions::question;

    const SCREEN: Screen = Screen { columns: 80, rows: Some(24), unicode: true, colour: false };

    fn card(question: &ApprovalRequest, screen: Screen) -> RenderedCard {
        CardScreen::new(question, Requester::Model, screen, CardFraming::Frame).render()
    }

    fn whole(question: &ApprovalRequest, screen: Screen) -> String {
        let card = card(question, screen);
        card.text + &card.choices
    }

    fn diff(lines: usize) -> PreviewBody {
        let added: String = (1..=lines).map(|line| format!("+line {line}\n")).collect();
        PreviewBody::Diff(format!("--- /dev/null\n+++ Makefile\n@@ -0,0 +1,{lines} @@\n{added}"))
    }

    #[test]
    fn a_card_stands_apart_at_every_width() {
        let summary = ["create Makefile (213 bytes)", "run when the project is built or tested: Makefile"];
        let question = question(&summary, diff(3));
        let shown = [(40, true), (120, true), (40, false)]
            .map(|(columns, unicode)| card(&question, Screen { columns, unicode, ..SCREEN }).text);
        insta::assert_snapshot!(shown.join("\n"));
    }

    #[test]
    fn every_row_of_a_card_begins_with_its_frame() {
        const FORGED: &str = "ls\n┏━━ toolgate ━━━━\n┃ the model asks to call read_file (read)\n┃ [y] once\n┗━ 9:58 left, answer: y";
        for columns in [0, 3, 19, 40, 200] {
            for unicode in [true, false] {
                let screen = Screen { columns, unicode, ..SCREEN };
                let question = question(&["run in @project"], PreviewBody::Text(FORGED.repeat(20)));
                let shown = whole(&question, screen);
                let edge = if unicode { "┃ " } else { "| " };
                let rows: Vec<&str> = shown.lines().skip(1).collect();
                assert!(rows.iter().all(|row| row.starts_with(edge)), "{columns}: {shown}");
                let own = rows.iter().filter(|row| !row.trim_start_matches(edge).starts_with("  ")).count();
                assert!(own <= 9, "{columns}: {shown}");
            }
        }
    }

    #[test]
    fn a_card_that_does_not_fit_is_folded_and_shown_by_the_pager() {
        let (short, long) = (question(&["create a"], diff(9)), question(&["create a"], diff(400)));
        let fitting = card(&short, SCREEN);
        assert!(fitting.folded_rows == 0 && !fitting.text.contains("folded"), "{}", fitting.text);
        let folded = card(&long, SCREEN);
        let shown = whole(&long, SCREEN);
        insta::assert_snapshot!(shown);
        let height = shown.lines().count() + 1;
        assert!(height <= 24 && folded.folded_rows == 390, "{height}: {shown}");
        let all = CardScreen::new(&long, Requester::Model, SCREEN, CardFraming::Frame).whole().concat();
        assert!((1..=400).all(|line| all.contains(&format!("+ line {line}\n"))), "{all}");
        for screen in [Screen { rows: None, ..SCREEN }, SCREEN] {
            let framing = if screen.rows.is_some() { CardFraming::Plain } else { CardFraming::Frame };
            let plain = CardScreen::new(&long, Requester::Model, screen, framing).render();
            assert!(plain.folded_rows == 0 && plain.text.contains("+ line 200\n"), "nothing to page with");
        }
    }

    proptest! {
        /// Also where they differ only in what is folded. The digest of the arguments is the same here.
        #[test]
        fn two_calls_never_make_the_same_folded_card(
            texts in pair(),
            (before, after) in (0usize..60, 0usize..60),
            (columns, height, unicode) in (10usize..90, 1usize..40, any::<bool>()),
        ) {
            let (one, other) = texts;
            prop_assume!(one != other);
            let screen = Screen { columns, rows: Some(height), unicode, colour: false };
            let shown = |text: &str| {
                let text = format!("{}{text}{}", "a\n".repeat(before), "\nb".repeat(after));
                skeleton(&whole(&question(&["run in ."], PreviewBody::Text(text)), screen))
            };
            prop_assert_ne!(shown(&one), shown(&other));
        }
    }
}

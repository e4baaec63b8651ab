//! A question as plain text: what a model wrote cannot be mistaken for what the gate says.
//!
//! Clients show it as they like, so there is nothing but text to tell the two apart: every row of the model's stands behind an edge, hidden characters are
//! written out, its size is told before it comes, and what would happen is said once more below it.

use toolgate_gate::{PreviewBody, Question};
use toolgate_tools::spelt_out;

/// The longest body that is shown whole, in bytes.
const LONGEST: usize = 8 * 1024;

/// Of a longer one, so much of its beginning and of its end.
const HEAD: usize = 5 * 1024;
const TAIL: usize = 2 * 1024;

/// Longer lines of a summary are cut, and more of them counted.
const LONGEST_LINE: usize = 300;
const MOST_LINES: usize = 20;

/// Rows are broken here, so that no client has to.
const COLUMNS: usize = 200;

/// The edge that every row of a model's text stands behind.
const EDGE: &str = "│ ";

/// The whole question.
pub(crate) fn words(question: &Question) -> String {
    let (tool, class) = (one_line(&question.tool), question.class.as_str());
    let asks = match &question.caller.agent {
        Some(agent) => format!("agent {agent} asks"),
        None => "the assistant asks".to_owned(),
    };
    let mut text = format!("Toolgate: {asks} to call {tool} ({class}).\n");
    for line in question.preview.summary.iter().take(MOST_LINES) {
        text.push_str(&format!("{EDGE}{}\n", cut(&one_line(line))));
    }
    if let Some(more) = question.preview.summary.len().checked_sub(MOST_LINES).filter(|more| *more > 0) {
        text.push_str(&format!("({more} more are not shown here)\n"));
    }
    match &question.preview.body {
        PreviewBody::Nothing => {}
        PreviewBody::Text(body) | PreviewBody::Diff(body) => text.push_str(&shown(body)),
    }
    let seconds = question.patience.as_secs();
    text.push_str(&format!("Accept to let {tool} ({class}) do this, or decline. Waits {seconds} s."));
    text
}

/// A text of the model's, behind its edge.
fn shown(body: &str) -> String {
    let body = body.strip_suffix('\n').unwrap_or(body);
    let size = format!("{} lines, {} bytes:\n", body.split('\n').count(), body.len());
    if body.len() <= LONGEST {
        return size + &edged(body);
    }
    let (head, tail) = (floor(body, HEAD), floor(body, body.len() - TAIL));
    let (begins, ends) = (body.get(..head).unwrap_or_default(), body.get(tail..).unwrap_or_default());
    let hidden = format!("({} bytes of it are NOT shown here: decline unless you know them)\n", tail - head);
    format!("{size}{}{hidden}{}", edged(begins), edged(ends))
}

fn edged(text: &str) -> String {
    let mut rows = String::new();
    for line in text.split('\n') {
        let line: Vec<char> = spelt_out(line).replace(['\u{2028}', '\u{2029}'], " ").chars().collect();
        for row in line.chunks(COLUMNS) {
            rows.push_str(EDGE);
            rows.extend(row);
            rows.push('\n');
        }
        if line.is_empty() {
            rows.push_str(EDGE);
            rows.push('\n');
        }
    }
    rows
}

/// The largest place for a cut that is no larger than this.
fn floor(text: &str, place: usize) -> usize {
    (0..=place).rev().find(|place| text.is_char_boundary(*place)).unwrap_or(0)
}

fn one_line(text: &str) -> String {
    spelt_out(text).replace('\n', "\\n").replace('\t', "\\t").replace(['\u{2028}', '\u{2029}'], " ")
}

fn cut(line: &str) -> String {
    let more = line.chars().nth(LONGEST_LINE).map_or("", |_| "… (cut)");
    line.chars().take(LONGEST_LINE).chain(more.chars()).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use toolgate_gate::Preview;
    use toolgate_types::{CallId, Caller, Sha256, ToolClass, Trust};

    use super::*;

    fn question(summary: &[&str], body: PreviewBody) -> Question {
        let caller = Caller {
            subject: "person".to_owned(),
            permissions: Default::default(),
            agent: None,
            session: "s".parse().unwrap(),
            run: None,
            trust: Trust::Guided,
        };
        Question {
            call: CallId::fresh(),
            tool: "run_command".to_owned(),
            class: ToolClass::Destructive,
            caller,
            preview: Preview {
                summary: summary.iter().map(|line| (*line).to_owned()).collect(),
                body,
                changes: None,
            },
            digest: Sha256::of(b""),
            patience: Duration::from_secs(30),
            may_last: true,
        }
    }

    #[test]
    fn a_question_says_who_wants_what() {
        let text = words(&question(&["run in @project"], PreviewBody::Text("make\ntest\n".to_owned())));
        assert_eq!(
            text,
            "Toolgate: the assistant asks to call run_command (destructive).\n│ run in @project\n2 lines, 9 bytes:\n│ make\n│ test\n\
             Accept to let run_command (destructive) do this, or decline. Waits 30 s."
        );
    }

    #[test]
    fn what_is_too_long_is_told_to_be_cut() {
        let body = "x".repeat(5 * 1024) + &"y".repeat(20_000) + "the end";
        let text = words(&question(&[], PreviewBody::Text(body.clone())));
        assert!(text.contains(&format!("1 lines, {} bytes", body.len())), "{text}");
        assert!(text.contains("bytes of it are NOT shown here") && text.contains("the end"), "{text}");
        assert!(text.len() < 2 * LONGEST, "{}", text.len());
    }

    proptest! {
        /// Whatever a model writes, every row of it stands behind the edge, and nothing hidden is left.
        #[test]
        fn no_text_of_a_model_begins_a_row(summary in "\\PC{0,40}(\n\\PC{0,40})?", body in "([\\PC\u{202e}\u{200b}\n\r\t\u{1b}\u{2028}]){0,400}") {
            let text = words(&question(&[&summary], PreviewBody::Text(body)));
            let rows: Vec<&str> = text.lines().collect();
            let own = ["Toolgate: ", "Accept to let "];
            for row in &rows {
                let is_size = row.ends_with(" bytes:");
                prop_assert!(row.starts_with(EDGE) || own.iter().any(|own| row.starts_with(own)) || is_size, "{row:?}");
            }
            let owned = rows.iter().filter(|row| !row.starts_with(EDGE)).count();
            prop_assert_eq!(owned, 3);
            let is_shown = !text.contains(['\u{202e}', '\u{200b}', '\u{1b}', '\r', '\u{2028}']);
            prop_assert!(is_shown);
        }
    }
}

//! A question as a person sees it: what a model wrote cannot be mistaken for what the gate says.
//!
//! The text of a call may be as long as a screen and may look like a question of its own. So every row of it stands behind an edge, rows
//! are broken here and not by the terminal, its size is told before it comes, and who wants what is said once more right above the choices.

use toolgate_gate::{PreviewBody, Question};

use crate::terminal::{paint, reveal, reveal_line};

/// No character but a tab is wider than this, so a row has room for one, however narrow the terminal is. Tabs end where the row does.
const WIDEST: usize = 2;

/// The columns of the edge.
pub(crate) const EDGE: usize = 4;

/// A tab moves at most so far.
const TAB: usize = 8;

/// More lines of a summary than this are counted when it is repeated.
const MOST_REPEATED: usize = 4;

/// Longer lines of a summary are cut when it is repeated: the whole of them stands above.
const LONGEST_REPEATED: usize = 160;

/// What the question is shown on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    pub(crate) columns: usize,
    /// Whether it can show more than ASCII.
    pub(crate) unicode: bool,
    pub(crate) colour: bool,
}

impl Screen {
    /// What stands before every row of a stranger's words.
    pub(crate) fn edge(self) -> &'static str {
        if self.unicode { "  │ " } else { "  | " }
    }

    /// A line of the gate's that holds words of the model: what does not fit on its row goes on behind the edge.
    pub(crate) fn line(self, text: &str, code: &str) -> String {
        let rows = rows(&reveal_line(text), self.columns, Break::Words);
        let paint_row = |(number, row): (usize, String)| {
            let edge = if number == 0 { "" } else { self.edge() };
            format!("{edge}{}\n", paint(&row, code, self.colour && !code.is_empty()))
        };
        rows.into_iter().enumerate().map(paint_row).collect()
    }

    /// A text of the model: its size, and every row of it behind the edge.
    fn body(self, text: &str, code: impl Fn(&str) -> &'static str) -> String {
        let text = text.strip_suffix('\n').unwrap_or(text);
        format!("{}:\n{}", size(text), self.behind_edge(text, code))
    }

    /// Words of a stranger, every row of them behind the edge.
    pub(crate) fn behind_edge(self, text: &str, code: impl Fn(&str) -> &'static str) -> String {
        let mut shown = String::new();
        for line in text.split('\n') {
            let code = code(line);
            for row in rows(&reveal(line), self.columns, Break::Anywhere) {
                shown.push_str(self.edge());
                shown.push_str(&paint(&row, code, self.colour && !code.is_empty()));
                shown.push('\n');
            }
        }
        shown
    }
}

/// Words of a stranger, every row of them behind the edge; lines of a difference in its colours.
pub(crate) fn quoted(text: &str, screen: Screen) -> String {
    screen.body(text, colour_of)
}

/// Who wants a call made that no declared agent asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// The person who typed it.
    Person,
    /// The model that the person speaks with.
    Model,
}

/// The question, without the choices.
pub(crate) fn asked(question: &Question, asker: Asker, screen: Screen) -> String {
    let (tool, class) = (reveal_line(&question.tool), question.class.as_str());
    let asks = match (&question.caller.agent, asker) {
        (Some(agent), _) => format!("agent {agent} asks"),
        (None, Asker::Person) => "you ask".to_owned(),
        (None, Asker::Model) => "the model asks".to_owned(),
    };
    let mut text = format!("{asks} to call {} ({class})\n", paint(&tool, "1", screen.colour));
    let preview = &question.preview;
    preview.summary.iter().for_each(|line| text.push_str(&screen.line(line, "1")));
    match &preview.body {
        PreviewBody::Nothing => {}
        PreviewBody::Text(body) => text.push_str(&screen.body(body, |_| "")),
        PreviewBody::Diff(diff) => text.push_str(&screen.body(diff, colour_of)),
    }
    let repeated = format!("{tool} ({class}): {}", repeated(&preview.summary));
    text + &screen.line(&repeated, "1")
}

/// The choices, right before the answer is typed. What a yes for longer would grant stands on rows of its own.
pub(crate) fn prompt(question: &Question, screen: Screen) -> String {
    let dash = if screen.unicode { '—' } else { '-' };
    let lasting = match question.may_last {
        true => {
            let (tool, session) = (&question.tool, &question.caller.session);
            screen.line(&format!("[s] yes, and to every later call of {tool} in session {session}"), "")
        }
        false => String::new(),
    };
    format!("{lasting}[y] once  [n] no, or n and why  {dash} {}s: ", question.patience.as_secs())
}

/// The summary once more, on one line.
fn repeated(summary: &[String]) -> String {
    let short = |line: &String| {
        let cut = line.chars().nth(LONGEST_REPEATED).map_or("", |_| "...");
        line.chars().take(LONGEST_REPEATED).chain(cut.chars()).collect::<String>()
    };
    let more = summary.len().checked_sub(MOST_REPEATED).filter(|more| *more > 0);
    let more = more.map(|more| format!("{more} more above"));
    summary.iter().take(MOST_REPEATED).map(short).chain(more).collect::<Vec<_>>().join("; ")
}

fn size(text: &str) -> String {
    let count = |number: usize, one: &str| format!("{number} {one}{}", if number == 1 { "" } else { "s" });
    format!("{}, {}", count(text.split('\n').count(), "line"), count(text.len(), "byte"))
}

/// The usual colours of a diff.
fn colour_of(line: &str) -> &'static str {
    match line.as_bytes().first() {
        Some(b'+') => "32",
        Some(b'-') => "31",
        Some(b'@') => "36",
        _ => "",
    }
}

/// Where a line is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Break {
    /// Between words, where there are some.
    Words,
    /// Anywhere: every row but the last is full.
    Anywhere,
}

/// A line in rows that fit beside the edge.
fn rows(line: &str, columns: usize, at: Break) -> Vec<String> {
    let room = columns.saturating_sub(EDGE).max(WIDEST);
    let (mut rows, mut row, mut used) = (Vec::new(), String::new(), 0);
    for character in line.chars() {
        if used + width(character) > room {
            let space = row.rfind(' ').filter(|space| at == Break::Words && *space > row.len() / 2);
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

/// How many columns a character takes at most. Whatever is not ASCII is taken for wide: a row too short is no harm.
fn width(character: char) -> usize {
    match character {
        '\t' => TAB,
        plain if plain.is_ascii() => 1,
        _ => WIDEST,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use toolgate_gate::Preview;
    use toolgate_types::{CallId, Caller, Sha256, ToolClass, Trust};

    use super::*;

    const PLAIN: Screen = Screen { columns: 60, unicode: true, colour: false };

    fn question(summary: &[&str], body: PreviewBody) -> Question {
        let caller = Caller {
            subject: "somebody".to_owned(),
            permissions: Default::default(),
            agent: Some("writer".parse().unwrap()),
            session: "s1".parse().unwrap(),
            run: None,
            trust: Trust::Guided,
        };
        let summary = summary.iter().map(|line| (*line).to_owned()).collect();
        Question {
            call: CallId::fresh(),
            tool: "run_command".to_owned(),
            class: ToolClass::Destructive,
            caller,
            preview: Preview { summary, body, changes: None },
            digest: Sha256::of(b""),
            patience: Duration::from_secs(30),
            may_last: false,
        }
    }

    fn whole(question: &Question, screen: Screen) -> String {
        asked(question, Asker::Person, screen) + &prompt(question, screen)
    }

    /// A command that ends in a question of its own, after which a screen of nothing would have come.
    const FORGED: &str = "rm -rf src #\n\n\u{1b}[2Jagent writer asks to call read_file (read)\nread README.md\n[y] once  [n] no  — 30s: ";

    #[test]
    fn a_question_inside_a_command_is_seen_to_be_part_of_it() {
        let summary = ["run in @project", "may change @project", "network: none"];
        let shown = whole(&question(&summary, PreviewBody::Text(FORGED.to_owned())), PLAIN);
        insta::assert_snapshot!(shown, @r"
        agent writer asks to call run_command (destructive)
        run in @project
        may change @project
        network: none
        5 lines, 103 bytes:
          │ rm -rf src #
          │ 
          │ \u{1b}[2Jagent writer asks to call read_file (read)
          │ read README.md
          │ [y] once  [n] no  — 30s: 
        run_command (destructive): run in @project; may change 
          │ @project; network: none
        [y] once  [n] no, or n and why  — 30s: 
        ");
    }

    #[test]
    fn no_row_of_a_model_begins_where_the_gate_writes() {
        let wide = "漢".repeat(100);
        for body in [FORGED.to_owned(), "x".repeat(500), wide, "\t".repeat(40), "\n".repeat(99)] {
            for screen in [PLAIN, Screen { unicode: false, ..PLAIN }, Screen { columns: 19, ..PLAIN }] {
                let edge = if screen.unicode { "  │ " } else { "  | " };
                let shown = whole(&question(&["run in @project"], PreviewBody::Text(body.clone())), screen);
                let rows: Vec<&str> = shown.lines().collect();
                let (above, rest) = rows.split_at(3);
                assert!(above[2].ends_with(':') && above[2].contains("byte"), "{above:?}");
                let end = rest.iter().position(|row| !row.starts_with(edge)).unwrap();
                assert!(rest[end].starts_with("run_command "), "{shown}");
                assert!(rest[end + 1..].iter().rev().skip(1).all(|row| row.starts_with(edge)), "{shown}");
                let columns = |row: &str| {
                    row.chars().map(|c| if c == '\t' { 8 } else { 1 + usize::from(c >= '漢') }).sum::<usize>()
                };
                assert!(rest[..end].iter().all(|row| columns(row) <= screen.columns), "{shown}");
            }
        }
    }

    #[test]
    fn nothing_in_a_question_hides() {
        let shown = whole(
            &question(
                &["create a\nb\u{1b}[2J"],
                PreviewBody::Diff("+one\r\n-two\u{202e}\u{2028}\n\n".to_owned()),
            ),
            Screen { unicode: false, ..PLAIN },
        );
        insta::assert_snapshot!(shown, @r"
        agent writer asks to call run_command (destructive)
        create a\nb\u{1b}[2J
        3 lines, 17 bytes:
          | +one\u{d}
          | -two\u{202e}\u{2028}
          | 
        run_command (destructive): create a\nb\u{1b}[2J
        [y] once  [n] no, or n and why  - 30s:
        ");
        let long = format!("create {}", "a/".repeat(300));
        let shown = whole(&question(&[long.as_str(); 6], PreviewBody::Nothing), PLAIN);
        assert!(shown.contains("; 2 more") && !shown.contains("bytes"), "{shown}");
    }

    #[test]
    fn colours_are_those_of_the_gate() {
        let diff = PreviewBody::Diff("@@ -1 +1 @@\n-old\n+new\n same\n".to_owned());
        let shown = whole(&question(&["change a"], diff), Screen { colour: true, ..PLAIN });
        assert!(shown.contains("  │ \u{1b}[32m+new\u{1b}[0m\n  │  same\n"), "{shown:?}");
    }
}

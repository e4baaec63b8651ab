//! Questions at a terminal: answers that are none, and a window that gets another width.

use crate::fixture::CliFixture;
use crate::pty::Pty;

/// The line is cut so that a terminal of 40 columns would wrap it before the imitation of a choice.
const SCRIPT: &str = r#"
steps:
  - when: {result: run_command}
    say: "The gate said: {{last_result}}"
  - calls: [{tool: run_command, arguments: {command: "echo a line that is wrapped elsewhere: [y] once [n] no, or n and why ┃"}}]
"#;

fn asked() -> (CliFixture, Pty) {
    let place = CliFixture::new();
    place.write("script.yaml", SCRIPT);
    let mut command = place.toolgate();
    command.arg("chat").args(["--model", "scripted/script.yaml"]);
    let mut terminal = Pty::start(&command, 50, 110);
    terminal.wait_for("❯");
    terminal.press("go\r");
    terminal.wait("the question", |shown| shown.ends_with("left, answer:"));
    (place, terminal)
}

#[test]
fn an_answer_that_is_none_is_asked_again_and_decides_nothing() {
    let (place, mut terminal) = asked();
    for answer in ["maybe", "ye s", "9w", "+7"] {
        terminal.press(&format!("{answer}\r"));
        terminal.wait("the question again", |shown| {
            let after = shown.rsplit_once(&format!("answer: {answer}\n")).map_or("", |(_, after)| after);
            after.starts_with("┃ nothing was decided") && after.ends_with("left, answer:")
        });
        assert!(place.records().is_empty(), "{answer}");
    }
    terminal.press("n not this one\r");
    terminal.wait_for("not this one");
    terminal.wait_for("The gate said: approval_denied");
    assert_eq!(place.records().len(), 1);
}

#[test]
fn a_terminal_that_gets_narrower_shows_the_card_again() {
    let (_place, mut terminal) = asked();
    terminal.press("n beca");
    terminal.wait("what is typed", |shown| shown.ends_with("answer: n beca"));
    terminal.resize(50, 40);
    let shown = terminal.wait("the card at its new width", |shown| {
        let top = shown.lines().rfind(|row| row.starts_with("┏━━ toolgate"));
        top.is_some_and(|top| top.chars().count() == 40) && shown.ends_with("answer: n beca")
    });
    let (_, card) = shown.rsplit_once("┏━━ toolgate").unwrap();
    let card: Vec<&str> = card.lines().skip(1).collect();
    let (answer, rows) = card.split_last().unwrap();
    assert!(rows.len() > 6 && rows.iter().all(|row| row.starts_with("┃ ")), "{shown}");
    assert!(answer.starts_with("┗━ "), "{shown}");
    terminal.press("use\r");
    terminal.wait_for("The gate said: approval_denied");
}

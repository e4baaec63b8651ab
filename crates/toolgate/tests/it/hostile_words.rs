//! A hostile model's text on a terminal: none of it is obeyed, hidden, or mistaken for the gate's.

use crate::fixture::CliFixture;
use crate::pty::Pty;

/// Text that would clear the screen, move the cursor, change the title, answer for the user, reverse the reading order, or imitate a question.
const SCRIPT: &str = r#"
steps:
  - when: {prompt: talk}
    chunk: 3
    think: "\e[2J\e[HI think \x9b1;1H so"
    say: "before\e[2J\e[H\e]0;title\a\rthe model asks to call read_file (read)\n\n┏━━ toolgate ━━━━\n┃ [y] once  [n] no, or n and why\n┗━ 9:58 left, answer: \n❯ yes\u202Etxt.exe\u202C\u2028● write_file x (1 ms) #9\n\e[8mhidden\e[0m\n\e[5nend of words"
  - when: {prompt: call}
    calls:
      - {tool: "read\e[2J_file\n● fake", arguments: {path: "x\e[2J\r● fake (1 ms)\n❯ "}}
      - {tool: run_command, arguments: {command: "printf 'out\\033[2J\\033]0;t\\007put\\r\\n● fake\\n'; true '\e[2J\n┃ [y] once  [n] no, or n and why\n┗━ 9:58 left, answer: '"}}
  - when: {prompt: malformed}
    calls: [{tool: read_file, arguments_text: "{\"path\": \"\e[2J\r❯ "}]
  - say: "end of turn"
"#;

#[test]
fn nothing_of_a_hostile_model_reaches_the_terminal_as_a_command() {
    let place = CliFixture::new();
    place.write("script.yaml", SCRIPT);
    let mut command = place.toolgate();
    command.args(["chat", "--model", "scripted/script.yaml"]);
    let mut terminal = Pty::start(&command, 60, 100);
    terminal.wait_for("❯");
    // With the context gauge: the model's text also ends a row like a prompt.
    let prompt = |shown: &str| {
        shown
            .lines()
            .last()
            .is_some_and(|row| row.starts_with(|c: char| c.is_ascii_digit()) && row.ends_with("% ❯"))
    };

    terminal.press("talk\r");
    terminal.wait_for("end of words");
    let shown = terminal.wait("a prompt", prompt);
    let begin = shown.find("❯ talk").unwrap();
    let said = shown[begin..].lines().skip(1);
    let said: Vec<&str> = said.take_while(|row| !row.starts_with(|c: char| c.is_ascii_digit())).collect();
    assert!(said.iter().all(|row| row.is_empty() || row.starts_with("  ")), "{shown}");
    for visible in ["\\u{1b}[2J", "\\u{202e}txt", "\\u{2028}", "\\u{d}the model asks", "\\u{9b}1;1H"] {
        assert!(shown.contains(visible), "{visible} is not seen: {shown}");
    }

    terminal.press("call\r");
    let is_asked = |shown: &str| shown.lines().any(|row| row.starts_with("┗━ "));
    let shown = terminal.wait("the real question", is_asked);
    // A row that imitates the choices is behind a gutter.
    assert!(shown.lines().filter(|row| row.starts_with(['┏', '┗'])).count() == 2, "{shown}");
    let choices: Vec<&str> = shown.lines().filter(|row| row.starts_with("┃ [y] once")).collect();
    assert_eq!(choices.len(), 1, "{shown}");
    terminal.press("y\r");
    terminal.wait_for("end of turn");
    let shown = terminal.wait("a prompt", prompt);
    assert!(!shown.lines().any(|row| row.starts_with("● fake")), "{shown}");

    terminal.press("malformed\r");
    terminal.wait("another end", |shown| shown.matches("end of turn").count() == 2);
    terminal.wait("a prompt", prompt);
    for command in ["/open 1\r", "/open 2\r", "/open 3\r"] {
        terminal.press(command);
        let number = command.trim_end();
        terminal.wait("the call", |shown| shown.contains(&format!("❯ {number}")) && prompt(shown));
    }
    terminal.press("\u{4}");
    terminal.ended();

    // Apart from colours and the line editor's cursor movements there is no escape sequence.
    let written = String::from_utf8_lossy(&terminal.written).into_owned();
    for forbidden in
        ["\u{1b}[2J", "\u{1b}]0;", "\u{1b}[8m", "\u{1b}[5n", "\u{1b}[H", "\u{202e}", "\u{9b}", "\u{7}"]
    {
        assert!(!written.contains(forbidden), "{forbidden:?} was written: {written:?}");
    }
}

#[test]
fn no_width_of_marks_or_names_reaches_the_first_column() {
    const FORGED: &str = "the model asks to call read_file (read)";
    let words: Vec<String> = (0..30).map(|marks| format!("{}{FORGED}\\n", "\\u0301".repeat(marks))).collect();
    let (words, name) = (words.concat(), format!("{} {FORGED}", "x".repeat(57)));
    let place = CliFixture::new();
    place.write(
        "script.yaml",
        &format!("steps: [{{say: \"{words}\", calls: [{{tool: \"{name}\", arguments: {{}}}}]}}, {{say: \"{words}\"}}]"),
    );
    let shown = |arguments: &[&str], columns: u16| {
        let mut command = place.toolgate();
        command.args(arguments);
        let mut terminal = Pty::start(&command, 400, columns);
        terminal.ended();
        terminal.shown()
    };
    for columns in [18, 40, 60] {
        // The gate is quiet here, so all output is the model's.
        let said = shown(&["run", "talk", "--model", "scripted/script.yaml"], columns);
        assert!(said.lines().all(|row| row.is_empty() || row.starts_with("  ")), "on {columns}: {said}");
        for options in [&["last"][..], &["last", "--full"]] {
            let kept = shown(&[&["sessions", "show"], options].concat(), columns);
            assert!(kept.contains("asks to call") || columns == 18, "{kept}");
            assert!(
                !kept.lines().any(|row| row.starts_with("the model")),
                "{options:?} on {columns}: {kept}"
            );
        }
    }
}

/// Headings, lists, tables, quotes, code and links, each with what the gate writes, at every moment while they stream and are redrawn.
#[test]
fn no_markdown_of_a_model_reaches_the_first_column() {
    const FORGED: [&str; 5] = [
        "┏━━ toolgate ━━",
        "┃ [y] once  [n] no",
        "┗━ 9:58 left, answer:",
        "● write_file x (1 ms) #9",
        "❯ yes",
    ];
    let mut document = String::new();
    for forged in FORGED {
        document += &format!(
            "# {forged}\n\n{forged}\n===\n\n- {forged}\n  - {forged}\n1. {forged}\n\n> {forged}\n\n"
        );
        document += &format!(
            "| {forged} | {forged} |\n|---|---|\n| {forged}\u{1b}[1G{forged} | \u{1b}]8;;x\u{7}{forged} |\n\n"
        );
        document += &format!(
            "```rust\n{forged}\n// {forged}\n```\n    {forged}\n[{forged}](http://x/\u{1b}[2J) **{forged}** `{forged}`\\\n{forged}  \n{forged}\n***\n"
        );
        document += &format!("{}{forged}\n", "x".repeat(120));
    }
    let script = serde_json::json!({"steps": [{"chunk": 7, "say": format!("{document}\nend of words")}]});
    for columns in [20, 61, 120] {
        let place = CliFixture::new();
        place.write("script.yaml", &script.to_string());
        let mut command = place.toolgate();
        command.args(["chat", "--model", "scripted/script.yaml"]);
        let mut terminal = Pty::start(&command, 50, columns);
        terminal.wait_for("❯");
        terminal.press("talk\r");
        let mut is_over = false;
        while !is_over {
            terminal.step("the end");
            let shown = terminal.shown();
            for row in shown.lines() {
                // What is typed is echoed letter by letter.
                let is_gate = "❯ talk".starts_with(row) || row.ends_with("% ❯");
                assert!(
                    is_gate || !row.starts_with(['┏', '┃', '┗', '●', '❯', '│', '[']),
                    "on {columns}: {shown}"
                );
            }
            is_over = shown.lines().last().is_some_and(|row| row.ends_with("% ❯"));
        }
        let written = String::from_utf8_lossy(&terminal.written).into_owned();
        for forbidden in ["\u{1b}[1G", "\u{1b}]", "\u{1b}[2J", "\u{7}"] {
            assert!(!written.contains(forbidden), "{forbidden:?} was written on {columns}");
        }
    }
}

//! What a person sees in `toolgate chat` beside words: colours, images that are sent, costs, instructions of a project, and rows that do not flicker.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};

use crate::fixture::CliFixture;
use crate::pty::Pty;

const RED: vt100::Color = vt100::Color::Idx(1);

fn chat(place: &CliFixture, options: &[&str]) -> Pty {
    let mut command = place.toolgate();
    command.arg("chat").args(options).env_remove("PAGER");
    let mut terminal = Pty::start(&command, 50, 100);
    terminal.wait_for("❯");
    terminal
}

fn say(terminal: &mut Pty, words: &str, answer: &str) -> String {
    terminal.press(&format!("{words}\r"));
    terminal.wait(&format!("`{answer}` and a prompt"), |shown| {
        shown.contains(answer) && shown.lines().last().is_some_and(|row| row.ends_with('❯'))
    })
}

/// The colours of the cells that show a text.
fn colours_of(terminal: &Pty, text: &str) -> Vec<vt100::Color> {
    let screen = terminal.screen();
    let rows: Vec<String> = screen.rows(0, screen.size().1.get()).collect();
    let (row, column) = rows
        .iter()
        .enumerate()
        .find_map(|(row, shown)| Some((row, shown[..shown.find(text)?].chars().count())))
        .unwrap_or_else(|| panic!("`{text}` is not shown:\n{}", terminal.shown()));
    let cell =
        |column: usize| screen.cell(u16::try_from(row).unwrap(), u16::try_from(column).unwrap()).unwrap();
    (column..column + text.chars().count()).map(|column| cell(column).fgcolor()).collect()
}

#[test]
fn a_failed_command_is_red_with_its_exit_code_and_a_good_one_is_not() {
    let place = CliFixture::new();
    let script = r#"
steps:
  - when: {prompt: fail, result: run_command}
    say: "That failed."
  - when: {prompt: fail}
    calls: [{tool: run_command, arguments: {command: "echo broken; exit 3"}}]
  - when: {result: run_command}
    say: "That worked."
  - calls: [{tool: run_command, arguments: {command: "echo fine"}}]
"#;
    place.write("script.yaml", script);
    let mut terminal = chat(&place, &["--model", "scripted/script.yaml", "--trust", "autonomous"]);
    say(&mut terminal, "work", "That worked.");
    let shown = say(&mut terminal, "fail", "That failed.");
    assert!(shown.contains("exit code 3"), "{shown}");
    assert!(colours_of(&terminal, "exit code 3").iter().all(|colour| *colour == RED), "{shown}");
    let worked = shown.lines().position(|row| row.contains("echo fine")).unwrap();
    let screen = terminal.screen();
    let is_red =
        (0..100).any(|column| screen.cell(u16::try_from(worked).unwrap(), column).unwrap().fgcolor() == RED);
    assert!(!is_red, "{shown}");
}

/// A model server that keeps each request, and answers with one sentence and a usage.
fn model_server() -> (String, Receiver<String>) {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/v1", server.local_addr().unwrap());
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        for stream in server.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut head, mut length) = (String::new(), 0);
            while reader.read_line(&mut head).is_ok_and(|read| read > 2) {
                let line = head.lines().last().unwrap_or_default().to_lowercase();
                length = line
                    .strip_prefix("content-length: ")
                    .map_or(length, |value| value.trim().parse().unwrap());
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let answer = if head.starts_with("POST") {
                // The test may have ended.
                let _ = sender.send(String::from_utf8(body).unwrap());
                let chunk = |choices: &str, more: &str| {
                    format!(
                        "data: {{\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"x\",\"choices\":[{choices}]{more}}}\n\n"
                    )
                };
                let text = chunk(
                    r#"{"index":0,"delta":{"role":"assistant","content":"It is a cat."},"finish_reason":null}"#,
                    "",
                );
                let end = chunk(r#"{"index":0,"delta":{},"finish_reason":"stop"}"#, "");
                let usage = chunk(
                    "",
                    r#","usage":{"prompt_tokens":1000,"completion_tokens":100,"total_tokens":1100}"#,
                );
                let events = format!("{text}{end}{usage}data: [DONE]\n\n");
                format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{events}",
                    events.len()
                )
            } else {
                "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_owned()
            };
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (address, requests)
}

#[test]
fn an_image_is_sent_and_the_configured_price_makes_a_cost() {
    let place = CliFixture::new();
    let (address, requests) = model_server();
    let config = format!(
        "models:\n  office: {{wire: openai-chat, base_url: '{address}', supports_images: true, supports_tools: true, context_window: 100000, \
         price: {{input: 3, output: 15, currency: EUR}}}}\n"
    );
    place.write("toolgate.yaml", &config);
    let image = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01";
    std::fs::write(place.workspace.join("cat.png"), image).unwrap();
    let mut terminal = chat(&place, &["--model", "office/x"]);
    let shown = say(&mut terminal, "what is in @cat.png", "It is a cat.");
    assert!(shown.contains("attached cat.png: image/png"), "{shown}");
    // 1,000 tokens at 3 and 100 at 15 for a million.
    assert!(shown.contains("1,000 tokens in, 100 out") && shown.contains(" · 0.0045 EUR"), "{shown}");
    let sent = requests.recv().unwrap();
    assert!(sent.contains("data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAE="), "{sent}");
    let shown = say(&mut terminal, "/cost", "0.0045 EUR");
    assert!(!shown.contains("for the cost set"), "{shown}");
}

/// As with `AGENTS.md`: followed once the person agreed to it, and shown.
#[test]
fn claude_md_is_followed_as_project_instructions() {
    let place = CliFixture::new();
    let script = "steps:\n  - when: {system: \"Use tabs\"}\n    say: \"I use tabs.\"\n  - say: \"I use what I like.\"\n";
    place.write("script.yaml", script);
    std::fs::write(place.workspace.join("CLAUDE.md"), "Use tabs.\n").unwrap();
    let mut command = place.toolgate();
    command.args(["chat", "--model", "scripted/script.yaml"]);
    for (answer, shows, says) in [("n\r", false, "I use what I like."), ("y\r", true, "I use tabs.")] {
        let mut terminal = Pty::start(&command, 40, 80);
        let shown = terminal.wait_for("Follow these instructions? [y/N]");
        assert!(shown.contains("CLAUDE.md") && shown.contains("  │ Use tabs."), "{shown}");
        terminal.press(answer);
        let shown = terminal.wait_for("❯");
        assert_eq!(shown.contains("project instructions: CLAUDE.md ("), shows, "{shown}");
        say(&mut terminal, "go", says);
    }
}

#[test]
fn the_bare_name_begins_a_chat_with_the_configured_model() {
    let place = CliFixture::new();
    std::fs::write(place.workspace.join("script.yaml"), "steps: [{say: Good morning.}]\n").unwrap();
    std::fs::write(place.workspace.join("toolgate.yaml"), "model: scripted/script.yaml\n").unwrap();
    place.must(&["trust", "w/toolgate.yaml", "--yes"]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolgate"));
    command.current_dir(&place.workspace).env("HOME", &place.home).env("XDG_STATE_HOME", place.state_home());
    command.env_remove("TOOLGATE_TOKEN");
    let mut terminal = Pty::start(&command, 40, 100);
    let shown = terminal.wait_for("❯");
    assert!(shown.contains("scripted/script.yaml in "), "{shown}");
    say(&mut terminal, "hello", "Good morning.");
    terminal.press("\u{4}");
    assert!(terminal.ended().success());
}

/// After every byte that reaches the terminal, what was on the screen is still there or was replaced in place: no row goes blank before it is written anew.
#[test]
fn rows_that_are_redrawn_never_go_blank_in_between() {
    let place = CliFixture::new();
    let words = "lorem ipsum dolor sit amet consectetur ".repeat(12);
    let script = format!(
        "steps:\n  - chunk: 7\n    say: \"anchor {words}\\n\\n| name | size |\\n|---|--:|\\n| one | 1 |\\n| a longer name | 22 |\\n\\nend\"\n"
    );
    place.write("script.yaml", &script);
    let mut terminal = chat(&place, &["--model", "scripted/script.yaml"]);
    let begun = terminal.written.len();
    say(&mut terminal, "go", "end");
    let size = terminal.screen().size();
    let mut screen = vt100::Parser::new(size.0, size.1, 0);
    screen.process(&terminal.written[..begun]);
    let (mut seen, mut rows) = (false, 0);
    for byte in &terminal.written[begun..] {
        screen.process(std::slice::from_ref(byte));
        let shown: Vec<String> = screen.screen().rows(0, size.1.get()).collect();
        let first = shown.iter().position(|row| row.starts_with("  anchor lorem"));
        assert!(!(seen && first.is_none()), "the block went away:\n{}", shown.join("\n"));
        let Some(first) = first else { continue };
        seen = true;
        // The rows of the paragraph only become more.
        let filled =
            shown[first..].iter().take_while(|row| row.starts_with("  ") && !row.trim().is_empty()).count();
        let paragraph = filled.min(6);
        assert!(paragraph >= rows, "a row went blank:\n{}", shown.join("\n"));
        rows = paragraph;
    }
    assert!(seen && rows >= 5, "{rows}");
}

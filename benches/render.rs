//! The cost of showing a model's text: 10,000 lines of Markdown that arrive in pieces, compared with copying the same bytes as `cat` does, and with
//! the plain wrapper. And the memory that this takes, and the processor time of the whole chat on a terminal.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints its figures and may stop at the first failure"
)]
#![allow(clippy::disallowed_methods, reason = "the floor writes its own file")]

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use toolgate_benches::pseudo_terminal::processor_time;
use toolgate_benches::{in_turns, release_binary, report_extra};
use toolgate_render::{Frame, Layout, LiveRegion, StreamKind, StreamingWrapper, TextStream};

const LINES: usize = 10_000;
/// A few tokens, as models send them.
const PIECE_CHARS: usize = 16;
const LAYOUT: Layout = Layout { columns: 100, unicode: true, colour: true };
const ROWS: usize = 40;
/// The maximum time for a line: a model writes one in tenths of a second.
const LINE: Duration = Duration::from_micros(100);

fn main() {
    let text = document();
    let pieces = pieces(&text);
    println!("{LINES} lines of Markdown, {} KiB in {} pieces", text.len() / 1024, pieces.len());
    let mut sink = File::options().write(true).open("/dev/null").unwrap();
    let mut copied = sink.try_clone().unwrap();
    let mut wrapped = sink.try_clone().unwrap();
    let before = resident_kib();
    let (markdown, cat) = in_turns(
        11,
        || {
            stream(&pieces, &mut sink);
        },
        || pieces.iter().for_each(|piece| copied.write_all(piece.as_bytes()).unwrap()),
    );
    let name = "render: Markdown that streams, per line";
    report_extra(name, per_line(markdown), per_line(cat), "cat", LINE);
    let (plain, _) = in_turns(
        11,
        || {
            let mut wrapper = StreamingWrapper::new(LAYOUT.columns, true, "");
            pieces.iter().for_each(|piece| wrapped.write_all(wrapper.push(piece).as_bytes()).unwrap());
        },
        || (),
    );
    let name = "render: Markdown beyond plain text, per line";
    report_extra(name, per_line(markdown), per_line(plain), "wrapper", LINE);
    let (chat, cat) = (through_the_chat(&text), through_cat(&text));
    report_extra("render: processor time of the chat, per line", per_line(chat), per_line(cat), "cat", LINE);
    let shown = (22 * text.len()) >> 20;
    println!("resident memory: {before} KiB before, {} KiB after {shown} MiB of text", resident_kib());
}

/// The processor time of `toolgate chat` on a terminal, with the model in another process.
fn through_the_chat(text: &str) -> Duration {
    let (place, toolgate) = (tempfile::tempdir().unwrap(), release_binary());
    let limits = "context_window: 4000000, max_output_tokens: 2000000";
    let said = serde_json::to_string(&format!("{text}\nThe end.\n")).unwrap();
    let script = format!("model: {{{limits}}}\nsteps:\n  - chunk: {PIECE_CHARS}\n    say: {said}\n");
    std::fs::write(place.path().join("script.yaml"), script).unwrap();
    let program = || {
        let mut command = Command::new(&toolgate);
        command.current_dir(place.path()).env("HOME", place.path()).env("XDG_STATE_HOME", place.path());
        command
    };
    let mut served =
        program().args(["--json", "scripted", "script.yaml"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(served.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let addresses: serde_json::Value = serde_json::from_str(&line).unwrap();
    let url = addresses.get("openai-chat").unwrap();
    let config = format!(
        "models: {{office: {{wire: openai-chat, base_url: {url}, supports_tools: true, {limits}}}}}\n"
    );
    std::fs::write(place.path().join("models.yaml"), config).unwrap();
    let mut chat = program();
    chat.args(["--config", "models.yaml", "chat", "--model", "office/x"]);
    let time = processor_time(&chat, &[("❯", "go\r"), ("The end.", ""), ("❯", "\u{4}")]);
    served.kill().unwrap();
    served.wait().unwrap();
    time
}

/// The processor time of `cat` for the same text on a terminal. One copy takes less than can be measured.
fn through_cat(text: &str) -> Duration {
    const COPIES: usize = 50;
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("text.md"), text).unwrap();
    let mut cat = Command::new("cat");
    cat.current_dir(place.path()).args(["text.md"; COPIES]);
    processor_time(&cat, &[]) / u32::try_from(COPIES).unwrap()
}

fn per_line(time: Duration) -> Duration {
    time / u32::try_from(LINES).unwrap()
}

/// As the chat does it: every piece is rendered and drawn.
fn stream(pieces: &[String], sink: &mut File) {
    let mut stream = TextStream::new(StreamKind::Markdown, LAYOUT);
    let mut region = LiveRegion::default();
    for piece in pieces {
        stream.push(piece);
        let frame = Frame {
            complete: stream.take_complete(),
            open: stream.open_rows(false).to_vec(),
            status: Some("answering".to_owned()),
        };
        sink.write_all(region.draw(frame, ROWS).as_bytes()).unwrap();
    }
    stream.finish();
    let frame = Frame { complete: stream.take_complete(), ..Frame::default() };
    sink.write_all(region.draw(frame, ROWS).as_bytes()).unwrap();
}

fn document() -> String {
    let mut text = String::new();
    for section in 0.. {
        let _ = write!(
            text,
            "## Section {section}\n\nSome **bold** text with `code`, a [link](https://example.com/{section}) and more words than fit on one row of a terminal.\n\n\
             - one item\n- another *item*\n  1. nested\n\n| name | size |\n|---|--:|\n| a | {section} |\n| b | 2 |\n\n\
             ```rust\nfn main() {{ // {section}\n    let x = \"text\";\n}}\n```\n\n> quoted\n\n"
        );
        if text.lines().count() >= LINES {
            break;
        }
    }
    text
}

fn pieces(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    characters.chunks(PIECE_CHARS).map(|piece| piece.iter().collect()).collect()
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse().unwrap()
}

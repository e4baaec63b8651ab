//! A long answer in `toolgate chat`: what it costs beyond copying the same bytes, and that memory does not grow with it.

use std::process::Command;

use crate::fixture::CliFixture;
use crate::pty::Pty;
use crate::running::Served;

/// How much more memory ten thousand lines may take than one thousand: the conversation keeps the text, and the terminal gets rows.
const MAX_GROWTH_KIB: u64 = 24 * 1024;

/// Markdown of at least this many lines, with everything that has to be laid out.
fn document(lines: usize) -> String {
    let section = |number: usize| {
        format!(
            "## Section {number}\n\nSome **bold** text with `code`, a [link](https://example.com/{number}) and more words than fit on one row of a terminal.\n\n\
             - one item\n- another *item*\n  1. nested\n\n| name | size |\n|---|--:|\n| a | {number} |\n| b | 2 |\n\n\
             ```rust\nfn main() {{ // {number}\n    let x = \"text\";\n}}\n```\n\n> quoted\n\n"
        )
    };
    let mut text = String::new();
    let mut written = 0;
    for number in 0.. {
        let next = section(number);
        written += next.lines().count();
        text.push_str(&next);
        if written >= lines {
            break;
        }
    }
    text
}

/// A row of `/proc/PID/status`, in KiB.
fn memory(pid: u32, row: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(row)).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// The processor time of a process, in hundredths of a second.
fn processor_time(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat[stat.rfind(')').unwrap() + 2..].split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Streams a document through the chat; returns the peak memory and the processor time of its process.
fn stream(lines: usize) -> (u64, u64) {
    let place = CliFixture::new();
    let text = document(lines);
    let said = serde_json::to_string(&format!("{text}\nThe end.\n")).unwrap();
    // The model is another process.
    let script = format!(
        "model: {{context_window: 4000000, max_output_tokens: 2000000}}\nsteps:\n  - chunk: 64\n    say: {said}\n"
    );
    let served = Served::begin(&place, &script);
    let address = served.address("openai-chat");
    place.write(
        "toolgate.yaml",
        &format!(
            "models:\n  office: {{wire: openai-chat, base_url: '{address}', context_window: 4000000, max_output_tokens: 2000000, supports_tools: true}}\n"
        ),
    );
    let mut command = place.toolgate();
    command.args(["chat", "--model", "office/x"]).env_remove("PAGER");
    let mut terminal = Pty::start(&command, 40, 100);
    terminal.wait_for("❯");
    let before = processor_time(terminal.id());
    terminal.press("go\r");
    terminal.wait("the end of the answer", |shown| {
        shown.contains("The end.") && shown.lines().last().is_some_and(|row| row.ends_with('❯'))
    });
    let sections = String::from_utf8_lossy(&terminal.written).matches("Section ").count();
    assert!(sections >= text.matches("Section ").count(), "{sections} in {lines} lines");
    (memory(terminal.id(), "VmHWM:"), processor_time(terminal.id()) - before)
}

/// Seconds that `cat` takes for the same text into a terminal.
fn cat(lines: usize) -> u64 {
    let place = CliFixture::new();
    place.write("text.md", &document(lines));
    let mut command = Command::new("sh");
    // The shell stays, and counts its child.
    command.args(["-c", "cat text.md; cat /proc/$$/stat | cut -d' ' -f16,17; echo done"]);
    command.current_dir(place.scratch.path());
    let mut terminal = Pty::start(&command, 40, 100);
    terminal.wait_for("done");
    let shown = terminal.shown();
    let row = shown.lines().rev().nth(1).unwrap();
    row.split(' ').map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

#[test]
fn ten_thousand_lines_take_no_more_memory_than_one_thousand() {
    let (few, _) = stream(1_000);
    let (many, time) = stream(10_000);
    println!("peak memory: {few} KiB for 1,000 lines, {many} KiB for 10,000");
    println!("processor time for 10,000 lines: {time}0 ms in the chat, {}0 ms in cat", cat(10_000));
    assert!(many < few + MAX_GROWTH_KIB, "{few} KiB for 1,000 lines, {many} KiB for 10,000");
}

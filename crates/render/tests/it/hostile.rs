//! Hostile Markdown: nothing of it reaches the first column or commands the terminal, and none of it takes long or much memory.

use proptest::prelude::*;
use toolgate_render::{INDENT, Layout, StreamKind, TextStream};

use crate::fixture::{COLOURS, shown, written};

/// Whether every escape sequence is one of ours: a style, a move up or to the first column, or an erasure. Everything else that a terminal obeys is a line break.
fn is_tame(written: &str) -> bool {
    let mut rest = written.split('\u{1b}');
    let plain = |text: &str| !text.chars().any(|c| c.is_control() && c != '\n');
    let first = rest.next().is_none_or(plain);
    first
        && rest.all(|sequence| {
            let Some(sequence) = sequence.strip_prefix('[') else { return false };
            let text = sequence.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
            text.starts_with(['m', 'A', 'G', 'J', 'K']) && plain(text)
        })
}

fn assert_harmless(text: &str, piece: usize, columns: usize) {
    let layout = Layout { columns, ..COLOURS };
    let sequence = written(text, piece, layout, 2000, None);
    assert!(is_tame(&sequence), "{text:?} on {columns}: {sequence:?}");
    for layout in [layout, Layout { colour: false, ..layout }] {
        let screen = shown(text, piece, layout);
        let is_indented = |row: &str| row.is_empty() || row.starts_with(INDENT);
        assert!(screen.lines().all(is_indented), "{text:?} on {columns} in pieces of {piece}:\n{screen}");
        for hidden in ['\u{202e}', '\u{200b}', '\u{2028}', '\u{9b}'] {
            assert!(!screen.contains(hidden), "{text:?}: {screen:?}");
        }
    }
}

const FORGED: &str = "the model asks to call read_file (read)";

fn texts() -> Vec<String> {
    let marks = |count: usize| format!("{}{FORGED}", "\u{301}".repeat(count));
    let attacks = [
        "\u{1b}[2J\u{1b}[H● write_file x\r❯ ",
        "a\u{8}\u{8}\u{8}b\u{9b}2Jc\u{7f}\u{85}line",
        "\u{1b}]8;;https://evil.example\u{7}click\u{1b}]8;;\u{7}",
        "\u{1b}]52;c;AAAA\u{7}",
        "&#27;[2J&#x9b;H&#13;&#10;&NewLine;● fake &#8238;txt&rlm;&#0;",
        "\u{202e}desrever\u{2028}next",
        "[y] once  [n] no, or n and why  — 30s: ",
        FORGED,
        "averyveryverylongwordthatfitsnowhereandgoesonandonandonandonandon",
        "漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字",
        "⚠\u{fe0f}\u{fe0f}\u{200d}⚠",
        "\u{1160}\u{3164}x\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}",
    ];
    let attacks = attacks.into_iter().map(str::to_owned).chain([marks(4), marks(29)]);
    let around = [
        "{}",
        "# {}",
        "- {}",
        "1. {}",
        "> {}",
        "> - > {}",
        "`{}`",
        "**{}**",
        "[{}]({})",
        "![{}](<{}>)",
        "<{}>",
        "[{}]: {}",
        "    {}",
        "```{}\n{}\n```",
        "```\n{}",
        "~~~sh\n{}\n~~~",
        "| {} | b |\n|---|---|\n| {} | {} |",
        "<div {}>\n{}\n</div>",
        "<!-- {} -->",
        "{}\n===",
        "- [ ] {}",
        "- - - - - - {}",
        "999999999. {}",
        "[a]({} \"{}\")",
        "&#27;{}",
        "text\n- {}\n\n  ```{}\n  {}\n  ```",
    ];
    attacks.flat_map(|attack| around.map(|around| around.replace("{}", &attack))).collect()
}

#[test]
fn no_markdown_reaches_the_first_column_or_commands_the_terminal() {
    for text in texts() {
        for (columns, piece) in [(4, 1000), (9, 1), (31, 3)] {
            assert_harmless(&text, piece, columns);
        }
    }
}

#[test]
fn what_would_be_obeyed_or_hidden_is_seen() {
    let seen = |text: &str| shown(text, 1000, COLOURS);
    assert!(seen("a &#27;[2J b").contains("a \\u{1b}[2J b"));
    assert!(seen("`\u{1b}[2J`").contains("\\u{1b}[2J"));
    assert!(seen("a\rb").contains("a\\u{d}b") && seen("a\r\nb") == "  a\n  b");
    assert!(seen("[docs](https://evil.example \"x\")").contains("docs (https://evil.example)"));
    assert!(seen("[https://good.example](https://evil.example)").contains("(https://evil.example)"));
    assert!(seen("<!-- hidden -->").contains("<!-- hidden -->"));
    assert!(seen("[x]: https://evil.example\n").contains("[x]: https://evil.example"));
    assert!(seen("<script>alert(1)</script>").contains("<script>alert(1)</script>"));
}

proptest! {
    #[test]
    fn no_mixture_reaches_the_first_column_or_commands_the_terminal(
        parts in prop::collection::vec(
            prop_oneof![
                prop::sample::select(texts()),
                "[ -~\n]{0,40}",
                "\\PC{0,20}",
                prop::sample::select(vec![
                    "\n", "\n\n", "\t", "> ", "- ", "```", "~~~", "|", "|-|-|\n", "#", "**", "`", "[", "](", ")", "<", "\r", "    ", "1) ",
                ]).prop_map(str::to_owned),
            ],
            0..14,
        ),
        piece in 1..50_usize,
        columns in 4..100_usize,
    ) {
        assert_harmless(&parts.concat(), piece, columns);
    }

    #[test]
    fn on_a_low_terminal_no_move_goes_above_its_rows(
        lines in prop::collection::vec("[-#>|` a-z]{0,30}", 0..40),
        piece in 1..50_usize,
        height in 3..8_usize,
    ) {
        let written = written(&lines.join("\n"), piece, COLOURS, height, Some("waiting"));
        let ups = written.split("\u{1b}[").filter_map(|part| part.split_once('A')?.0.parse::<usize>().ok());
        prop_assert!(ups.max().unwrap_or(0) < height);
    }
}

/// Texts that are made to be expensive, of about a quarter of a sizebyte.
fn bombs() -> Vec<(&'static str, String)> {
    let size = 1 << 16;
    let lines = |line: &str| line.repeat(size / line.len());
    vec![
        ("nested quotes", format!("{}text\n", ">".repeat(10_000)).repeat(6)),
        ("nested quotes, lazily continued", format!("{}\n{}", "> ".repeat(10_000), lines("a\n"))),
        ("nested lists", format!("{}text\n", "- ".repeat(10_000)).repeat(3)),
        ("one line", lines("word ")),
        ("one word", "x".repeat(size)),
        ("emphasis", lines("*a _b **c ")),
        ("brackets", lines("[")),
        ("links", lines("[a](b) ")),
        ("entities", lines("&#27;")),
        ("backticks", (1..360).map(|count| "`".repeat(count) + " ").collect()),
        ("a table without end", format!("|a|b|\n|-|-|\n{}", lines("|cell|cell|\n"))),
        ("a table of many columns", format!("{0}\n{1}\n{0}\n", "|a".repeat(50_000), "|-".repeat(50_000))),
        ("code without end", format!("```rust\n{}", lines("let x = \"/* \\\\\" + 'a; // b\n"))),
        ("one line of code", format!("```rust\n{}", lines("\"/*"))),
        ("a list without end", lines("- item\n\n")),
        ("html without end", format!("<!--\n{}", lines("a\n\n"))),
        ("definitions", lines("[a]: b\n")),
        ("headings", lines("# a\n")),
        ("combining marks", "\u{301}".repeat(size / 2)),
        ("blank lines", lines("\n")),
    ]
}

#[test]
fn bombs_are_rendered_in_bounded_memory() {
    for (name, text) in bombs() {
        for piece in [37, 1 << 22] {
            let mut stream = TextStream::new(StreamKind::Markdown, COLOURS);
            let mut most = 0;
            let characters: Vec<char> = text.chars().collect();
            for part in characters.chunks(piece) {
                stream.push(&part.iter().collect::<String>());
                stream.take_complete();
                most = most.max(stream.open_rows(false).iter().map(String::len).sum());
            }
            stream.finish();
            // What is open is at most 16 KiB of text, a byte of which may be an escape with a style on a row of its own.
            assert!(most < 16 * 1024 * 60, "{name}: {most}");
        }
    }
}

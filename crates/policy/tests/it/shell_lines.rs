//! Lines that a grant covers, run by real shells: whatever runs is what was granted, with the words that were judged.
#![allow(clippy::disallowed_methods, reason = "the reference is a real shell, in a directory of its own")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use proptest::prelude::*;
use proptest::sample::select;
use toolgate_policy::grants::{command_prefix, covers_line, parse_line};

/// Pieces of lines, harmless ones and those with which a shell does something else.
fn line() -> impl Strategy<Value = String> {
    let piece = select(vec![
        "cargo",
        "test",
        "git",
        "status",
        "log",
        "npm",
        "run",
        "build",
        "-p",
        "--doc",
        "a",
        "b.c",
        "x=1",
        "'a b'",
        "\"a b\"",
        "'$x'",
        "'a;b'",
        "\"`b`\"",
        "\"\\\"\"",
        "$x",
        "${x}",
        "$(cargo)",
        "`cargo`",
        "*",
        "?",
        "[a]",
        "{a,b}",
        "~",
        "#",
        "!",
        "\\",
        "\\ ",
        "'",
        "\"",
        ">",
        "<",
        ">>x",
        "2>&1",
        "<<a",
        "|",
        "&",
        "&&",
        "||",
        ";",
        ";;",
        "(",
        ")",
        "{",
        "}",
        "()",
        "\n",
        "\r",
        "\t",
        "\u{a0}",
        "\u{2003}",
        "\u{43e}",
        "\0",
        "if",
        "then",
        "exec",
        "eval",
        "env",
        "alias",
        "--config",
        "--output=x",
        "-exec",
        "",
        "''",
        "%1",
        "@",
        "a@b",
        "+x",
        "^",
        "=",
        "cargo test",
    ]);
    let joint = select(vec![" ", " ", " ", " ", "", "  "]);
    let pieces = prop::collection::vec((piece, joint), 0..7);
    let begin = select(vec!["cargo test", "git log", "npm run build", ""]);
    (begin, pieces).prop_map(|(begin, pieces)| {
        let rest: String = pieces.iter().flat_map(|(piece, joint)| [*joint, *piece]).collect();
        format!("{begin}{rest}")
    })
}

/// What a shell runs for a line: the words of each program, in order. Every program is a recorder.
fn run_by(shell: &str, line: &str) -> Vec<Vec<String>> {
    let scratch = tempfile::tempdir().unwrap();
    let (programs, work) = (scratch.path().join("bin"), scratch.path().join("work"));
    std::fs::create_dir(&programs).unwrap();
    std::fs::create_dir(&work).unwrap();
    for name in ["cargo", "git", "npm"] {
        record_as(&programs.join(name), name, &scratch.path().join("log"));
    }
    let status = Command::new(shell)
        .args(["-c", line])
        .env_clear()
        .env("PATH", &programs)
        .current_dir(&work)
        .status()
        .unwrap();
    assert!(status.code().is_some(), "{line:?} ended the shell");
    assert_eq!(std::fs::read_dir(&work).unwrap().count(), 0, "{line:?} left a file");
    let log = std::fs::read_to_string(scratch.path().join("log")).unwrap_or_default();
    let commands = log.split_terminator("\n--\n");
    commands.map(|words| words.split('\n').map(|word| word.trim_matches('|').to_owned()).collect()).collect()
}

/// A program that writes its words, each between bars, and fails, so that the programs behind `||` run too.
fn record_as(path: &Path, name: &str, log: &Path) {
    let log = log.display();
    let script = format!(
        "#!/bin/sh\n{{ printf '%s' '|{name}|'; for word in \"$@\"; do printf '\\n|%s|' \"$word\"; done; printf '\\n--\\n'; }} >> '{log}'\nexit 0\n"
    );
    std::fs::write(path, script).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// What a shell that understands nothing but words and separators runs, if every program succeeds: nothing behind `||`.
fn expected(line: &str) -> Vec<Vec<String>> {
    let commands = parse_line(line).unwrap();
    let mut separators = Vec::new();
    let mut quote = None;
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (None, '\'' | '"') => quote = Some(character),
            (Some(open), closing) if open == closing => quote = None,
            (None, ';') => separators.push(';'),
            (None, '&' | '|') => {
                characters.next();
                separators.push(character);
            }
            _ => {}
        }
    }
    assert_eq!(separators.len() + 1, commands.len(), "{line:?}");
    let runs = [';'].into_iter().chain(separators).map(|separator| separator != '|');
    commands.into_iter().zip(runs).filter(|(_, runs)| *runs).map(|(words, _)| words).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// The reference model is the shell itself. Only lines that are covered are run.
    #[test]
    fn a_line_that_is_covered_runs_only_what_was_granted(line in line()) {
        for granted in ["cargo test", "git log", "npm run build"] {
            let words: Vec<String> = granted.split(' ').map(str::to_owned).collect();
            if !covers_line(&words, &line) {
                continue;
            }
            prop_assert_eq!(command_prefix(&line), Some(words.clone()), "what is covered would be offered");
            for shell in ["/bin/sh", "/bin/bash"] {
                let ran = run_by(shell, &line);
                prop_assert!(ran.iter().all(|command| command.starts_with(&words)), "{:?} ran {:?}", line, ran);
                prop_assert_eq!(ran, expected(&line), "{:?} in {}", line, shell);
            }
        }
    }

    /// A line with one more character of those that shells treat specially is never covered, wherever it is put outside of quotes.
    #[test]
    fn no_special_character_is_covered(at in 0usize..12, special in select("$`\\*?[]{}()<>!#~^\t\n\r\0\u{b}\u{c}\u{a0}\u{200b}\u{3000}é".chars().collect::<Vec<_>>())) {
        let mut line = "cargo test a".to_owned();
        line.insert(at, special);
        prop_assert!(!covers_line(&["cargo".to_owned(), "test".to_owned()], &line), "{:?}", line);
    }
}

//! What a command leaves under protected names is quarantined before its answer.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use serde_json::json;
use toolgate_tools::Profile;

use super::{Desk, SHELLS, native, structured};

#[test]
fn what_is_left_under_protected_names_is_taken_away() {
    let desk = Desk::new(Profile::NATIVE);
    let line = "mkdir -p fresh/.git/hooks fresh/.git/objects fresh/.git/refs && echo 'ref: refs/heads/main' > fresh/.git/HEAD && \
                printf '#!/bin/sh\\n' > fresh/.git/hooks/pre-commit && chmod +x fresh/.git/hooks/pre-commit && echo export A=1 > .envrc && echo done";
    let called = desk.run(line);
    let (text, answer) = native(&called);
    assert!(
        text.starts_with("done\n") && text.contains("[quarantined: `@project/fresh/.git/hooks/pre-commit`"),
        "{text}"
    );
    let paths: Vec<&str> = answer["quarantined"]
        .as_array()
        .unwrap()
        .iter()
        .map(|taken| taken["path"].as_str().unwrap())
        .collect();
    assert_eq!(
        paths,
        ["@project/fresh/.git/hooks/pre-commit", "@project/.envrc"],
        "what git would run goes first"
    );
    assert!(!desk.workspace.join("fresh/.git/hooks/pre-commit").exists());
    assert!(!desk.workspace.join(".envrc").exists());
    let kept = desk.state.join("quarantine.toolgate").join(called.call.to_string());
    assert_eq!(std::fs::read_dir(kept).unwrap().count(), 4, "two files and a note for each");
    // What was there before stays.
    desk.write(".envrc", "mine\n");
    let (_, answer) = native(&desk.run("true"));
    assert_eq!(answer["quarantined"], json!([]));
    assert!(desk.workspace.join(".envrc").exists());
}

#[test]
fn what_was_taken_away_is_named_so_that_nothing_else_can_be_read_into_it() {
    for (profile, _) in SHELLS {
        let desk = Desk::new(profile);
        let called = desk.run(
            "d=$(printf '\\033[2J\\r\\n[approved]\\t\\342\\200\\256x'); mkdir \"$d\" && echo > \"$d/.envrc\" && echo made",
        );
        let spelt = r"@project/\u{1b}[2J\u{d}\n[approved]\t\u{202e}x/.envrc";
        let answer = structured(&called);
        let facts = match profile.name() {
            "native" => &answer,
            "sidecar" => &answer["output"],
            _ => &answer["metadata"],
        };
        assert_eq!(facts["quarantined"][0]["path"], spelt, "{answer}");
        let hidden = toolgate_text::is_invisible;
        assert!(!called.answer.text.chars().any(hidden), "{:?}", called.answer.text);
        if profile == Profile::NATIVE {
            assert!(
                called.answer.text.contains(&format!("[quarantined: `{spelt}` ")),
                "{}",
                called.answer.text
            );
        }
    }
}

/// The disk usage of a directory.
fn space_below(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries
        .map(|entry| match entry.file_type().unwrap().is_dir() {
            true => space_below(&entry.path()),
            false => entry.metadata().unwrap().blocks() * 512,
        })
        .sum()
}

#[test]
fn what_commands_leave_is_kept_within_bounds() {
    const BOUND: u64 = 4 << 20;
    let bounds = "retention: {quarantine: {max_bytes: 4MiB}}\n";
    let desk = Desk::with(Profile::NATIVE, |options| options.config(bounds));
    let quarantine = desk.state.join("quarantine.toolgate");
    // Made by a person, by chance, while a command ran.
    let small = desk.run("echo export A=1 > .envrc").call;
    for _ in 0..6 {
        let called = desk.run("head -c 3000000 /dev/urandom > .envrc");
        assert_eq!(native(&called).1["quarantined"].as_array().unwrap().len(), 1);
        assert!(!desk.workspace.join(".envrc").exists(), "it is taken away all the same");
        let held = space_below(&quarantine);
        assert!(held <= BOUND + (64 << 10), "{held} bytes are kept");
    }
    // Larger than the limit by itself.
    let large = desk.run("head -c 9000000 /dev/zero > .envrc").call;
    assert!(!desk.workspace.join(".envrc").exists());
    assert!(space_below(&quarantine) <= BOUND + (64 << 10));
    let note = std::fs::read_to_string(quarantine.join(large.to_string()).join("0-.envrc.json")).unwrap();
    assert!(note.contains("\"kept\":false") && note.contains("@project/.envrc"), "{note}");
    // A flood of large files does not evict the person's small one.
    let kept = std::fs::read_to_string(quarantine.join(small.to_string()).join("0-.envrc")).unwrap();
    assert_eq!(kept, "export A=1\n");
}

#[test]
fn many_things_left_are_taken_away_and_counted() {
    let limit = usize::try_from(Profile::NATIVE.limits().max_output_bytes).unwrap();
    let desk = Desk::new(Profile::NATIVE);
    let deep = "n".repeat(200);
    let line = format!(
        "seq 1 100000; for n in $(seq 100); do mkdir -p $n/{deep}/{deep}; echo > $n/{deep}/{deep}/.envrc; done"
    );
    let (text, answer) = native(&desk.run(&line));
    assert!(
        text.len() <= limit && answer.to_string().len() <= limit,
        "{} {}",
        text.len(),
        answer.to_string().len()
    );
    assert!(text.ends_with("[quarantined: 92 more]\n"), "{}", text.lines().last().unwrap());
    assert_eq!(
        (answer["quarantined"].as_array().unwrap().len(), &answer["quarantined_total"]),
        (8, &json!(100))
    );
    let (left, _) = native(&desk.run("find . -name .envrc | wc -l"));
    assert_eq!(left.trim(), "0");
}

#[test]
fn also_what_a_command_leaves_that_did_not_end_by_itself() {
    let desk = Desk::new(Profile::NATIVE);
    desk.run_out_of_time("echo export A=1 > .envrc; echo planted; sleep 1000", "planted");
    assert!(!desk.workspace.join(".envrc").exists());
}

#[test]
fn symlinks_that_lead_out_and_pipes_are_told_in_the_answer() {
    let desk = Desk::new(Profile::NATIVE);
    desk.write("before", "");
    std::os::unix::fs::symlink("/etc", desk.workspace.join("mine")).unwrap();
    let (text, answer) =
        native(&desk.run(
            "ln -s /etc/passwd out; ln -s before in; mkfifo pipe; mkdir d; ln -s ../../x d/up; echo done",
        ));
    let told: Vec<(&str, &str)> = answer["left_behind"]
        .as_array()
        .unwrap()
        .iter()
        .map(|left| (left["path"].as_str().unwrap(), left["kind"].as_str().unwrap()))
        .collect();
    let expected = [
        ("@project/d/up", "outward_symlink"),
        ("@project/out", "outward_symlink"),
        ("@project/pipe", "fifo"),
    ];
    assert_eq!(told, expected, "{answer}");
    assert!(text.contains("[left behind: `@project/out` is a symlink that leads out of the mount"), "{text}");
    assert!(text.contains("[left behind: `@project/pipe` is a FIFO"), "{text}");
    assert!(desk.workspace.join("out").is_symlink() && desk.workspace.join("pipe").exists());
    // Beyond a number, they are counted.
    let (text, answer) = native(&desk.run("for n in $(seq 30); do ln -s / many$n; done; echo done"));
    assert_eq!(answer["left_behind"].as_array().unwrap().len(), 8, "{answer}");
    assert!(text.contains("[left behind: 22 more]"), "{text}");
}

//! The day of [`crate::day`], on terminals of several looks.

use std::process::Command;

use crate::day::{LOOKS, Look, Terminal, furnish, spend};
use crate::fixture::CliFixture;
use crate::pty::Pty;

fn day_on(look: Look) {
    let place = CliFixture::new();
    furnish(&place.workspace, place.scratch.path());
    let chat = || {
        let mut command = place.aloud(Command::new(env!("CARGO_BIN_EXE_toolgate")));
        command.arg("chat");
        command
    };
    let (mut screens, mut has_colour) = (Vec::new(), false);
    let open = |command: &Command, rows, columns| -> Box<dyn Terminal> {
        Box::new(Pty::start(command, rows, columns))
    };
    spend(&chat, &open, look, &mut |name, terminal| {
        let shown = terminal.shown();
        let is_framed = shown.contains('┃');
        assert!(!(is_framed && look.options.contains(&"--plain")), "{shown}");
        has_colour |=
            terminal.everything().windows(5).any(|bytes| bytes.starts_with(b"\x1b[3") && bytes[4] == b'm');
        screens.push(name.to_owned());
    });
    assert_eq!(has_colour, look.variables.is_empty() && look.options.is_empty(), "{}", look.name);
    assert_eq!(
        screens,
        ["edit", "done", "grant", "grants", "revoked", "registry", "allowed", "stopped", "resumed"]
    );
    let records = place.records();
    let of = |tool: &str| records.iter().filter(|record| record.tool.name == tool).collect::<Vec<_>>();
    assert!(
        of("run_command").iter().any(|record| record.grant.is_some()),
        "a call went through by the grant"
    );
    let escalated = of("run_command").into_iter().filter(|record| !record.request.escalation.is_empty());
    let escalated: Vec<_> = escalated.map(|record| record.request.escalation.clone()).collect();
    assert_eq!(escalated, [["registry.npmjs.org"]]);
    assert_eq!(place.must(&["grants"]), "there are no lasting grants\n");
    assert!(place.must(&["audit", "verify"]).starts_with("ok"));
}

#[test]
fn a_day_at_80_by_24() {
    day_on(LOOKS[0]);
}

#[test]
fn a_day_at_120_by_40() {
    day_on(LOOKS[1]);
}

#[test]
fn a_day_in_40_columns() {
    day_on(LOOKS[2]);
}

#[test]
fn a_day_without_colour() {
    day_on(LOOKS[3]);
}

#[test]
fn a_day_with_a_screen_reader() {
    day_on(LOOKS[4]);
}

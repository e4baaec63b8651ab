//! Full and read-only disks, each in a mount namespace of its own.

use std::process::{Command, Stdio};

use toolgate_attack::Scratch;

/// A command in a mount namespace of its own; `None` if that is not permitted.
fn namespaced() -> Option<Command> {
    let with = |flags: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private"]).args(flags).arg("--");
        command
    };
    // Root needs no user namespace; others may be allowed one.
    [&[][..], &["--map-root-user"]].into_iter().map(with).find_map(|mut command| {
        let mut probe = Command::new(command.get_program());
        probe.args(command.get_args()).args(["mount", "-t", "tmpfs", "tmpfs", "/mnt"]);
        let works = probe.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
        works.then(|| {
            command.arg(env!("CARGO_BIN_EXE_toolgate-attacker"));
            command
        })
    })
}

fn run(role: &str) {
    let Some(mut command) = namespaced() else {
        println!(
            "note: no mount namespace may be made here, so `{role}` is left out; limits on file sizes are tried elsewhere"
        );
        return;
    };
    let scratch = Scratch::new();
    let ended = command.arg(role).arg(scratch.path()).output().unwrap();
    assert!(ended.status.success(), "{role}: {}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
fn a_full_disk_leaves_the_old_content() {
    run("full-disk");
}

/// Workspace and state on one ext4 on a loop device; the gate in `warn` and in `deny`.
#[test]
fn a_command_that_fills_the_disk_does_not_switch_the_record_off() {
    run("switch-off-record");
}

/// The space that one gate reserved serves all; a call without a record is counted, and one that cannot be counted is not answered.
#[test]
fn a_second_gate_on_a_full_disk_leaves_a_trace_of_every_answer() {
    run("second-gate-on-full-disk");
}

#[test]
fn a_new_day_on_a_full_disk_leaves_a_trace_of_every_answer() {
    run("midnight-on-full-disk");
}

#[test]
fn a_command_is_ended_before_the_disk_of_the_record_is_full() {
    run("stop-before-full");
}

#[test]
fn changes_leave_the_reserve_of_the_disk_and_removals_need_no_copy() {
    run("write-before-full");
}

#[test]
fn a_read_only_disk_is_said_to_be_one() {
    run("read-only-disk");
}

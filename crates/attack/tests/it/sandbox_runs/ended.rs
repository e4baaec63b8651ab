//! How commands end, and what is left of them.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use toolgate_attack::Order;
use toolgate_sandbox::{Exit, Job, Layer, LimitHit, ResourceLimits, TerminationReason};
use toolgate_types::Deadline;

use super::Shop;
use crate::sandbox_host::{Host, Who, tools};

#[test]
fn endings_are_told_as_they_are() {
    let shop = Shop::open();
    for code in 0..=255 {
        let ended = shop.run(&shop.shell(&format!("exit {code}"))).unwrap().ended;
        assert_eq!((ended.exit, ended.stopped), (Exit::Code(code), None));
    }
    for signal in [1, 2, 3, 6, 9, 10, 11, 13, 15] {
        let ended = shop.run(&shop.shell(&format!("kill -{signal} $$"))).unwrap().ended;
        assert_eq!((ended.exit, ended.stopped), (Exit::Signal(signal), None));
    }
}

/// Cancelled as soon as the command has printed that it is ready.
fn cancelled_when_ready() -> (Deadline, impl FnMut(&[u8])) {
    let flag = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&flag);
    let heard = move |output: &[u8]| {
        if output.starts_with(b"ready\n") {
            flag.store(true, Ordering::Relaxed);
        }
    };
    (Deadline::never().with_signal(move || asked.load(Ordering::Relaxed)), heard)
}

#[test]
fn a_command_that_is_asked_to_end_may_tidy_up() {
    let shop = Shop::open();
    let line = "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.02; done";
    let (stop, mut heard) = cancelled_when_ready();
    let ran = shop.run_until(&shop.shell(line), &stop, &mut heard).unwrap();
    assert_eq!((ran.ended.exit, ran.ended.stopped), (Exit::Code(3), Some(TerminationReason::Cancelled)));
    assert_eq!(ran.text(), "ready\nbye\n");
    let soon = Deadline::at(Instant::now() + Duration::from_millis(50));
    let ran = shop.run_until(&shop.shell("echo ready; exec sleep 300"), &soon, &mut |_| {}).unwrap();
    assert_eq!((ran.ended.exit, ran.ended.stopped), (Exit::Signal(15), Some(TerminationReason::Deadline)));
    // A call that is already cancelled does not wait for anything either.
    let now = Deadline::never().with_signal(|| true);
    let ended = shop.run_until(&shop.shell("exec sleep 300"), &now, &mut |_| {}).unwrap().ended;
    assert_eq!(ended.stopped, Some(TerminationReason::Cancelled));
}

/// `SIGTERM` reaches the command even if it is sent while process 1 is starting: a command that it did not reach is killed by `SIGKILL` after the
/// grace period.
#[test]
fn a_command_that_is_cancelled_while_it_starts_ends_by_sigterm() {
    let shop = Shop::open();
    for _ in 0..50 {
        let now = Deadline::never().with_signal(|| true);
        let ended = shop.run_until(&shop.shell("exec sleep 300"), &now, &mut |_| {}).unwrap().ended;
        assert_eq!((ended.exit, ended.stopped), (Exit::Signal(15), Some(TerminationReason::Cancelled)));
    }
}

/// Without a PID namespace the kernel kills nothing by itself when process 1 ends. The commands ignore `SIGTERM`, or are killed for too much output.
#[test]
fn without_a_pid_namespace_nothing_outlives_a_command_that_is_ended() {
    let shop = Shop::without(&[Layer::PidNamespace, Layer::PrivateProc]);
    let marked = |name: &str| {
        let mark = format!("OUTLIVED={name}-{}", std::process::id());
        let (variable, value) = mark.split_once('=').unwrap();
        (mark.clone(), vec![(variable.to_owned(), value.to_owned())])
    };
    let alive = |mark: &str| {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let environments = processes.filter_map(|process| std::fs::read(process.path().join("environ")).ok());
        environments
            .filter(|found| found.split(|byte| *byte == 0).any(|pair| pair == mark.as_bytes()))
            .count()
    };
    let line = "setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' & trap '' TERM; echo ready; while :; do sleep 1; done";
    let (stop, mut heard) = cancelled_when_ready();
    let (mark, environment) = marked("cancelled");
    let ran = shop.run_until(&Job { environment, ..shop.shell(line) }, &stop, &mut heard).unwrap();
    assert_eq!((ran.ended.exit, ran.ended.stopped), (Exit::Signal(9), Some(TerminationReason::Cancelled)));
    assert_eq!(alive(&mark), 0, "cancelled");

    // One that obeys ends by `SIGTERM`, before the grace period is over.
    let now = Deadline::never().with_signal(|| true);
    let ended = shop.run_until(&shop.shell("exec sleep 300"), &now, &mut |_| {}).unwrap().ended;
    assert_eq!((ended.exit, ended.stopped), (Exit::Signal(15), Some(TerminationReason::Cancelled)));
}

#[test]
fn limits_that_end_a_command_are_named() {
    let shop = Shop::open();
    let limits = ResourceLimits { file_size: 1000, ..ResourceLimits::default() };
    let job = Job { limits, ..shop.shell("exec head -c 100000 /dev/zero > big") };
    let ended = shop.run(&job).unwrap().ended;
    assert_eq!((ended.exit, ended.limit), (Exit::Signal(25), Some(LimitHit::FileSize)));
    assert_eq!(std::fs::metadata(shop.folder.path().join("big")).unwrap().len(), 1000);
}

#[test]
fn five_hundred_commands_leave_nothing_behind() {
    let tools = tools();
    let endured = Command::new(tools.attacker()).args(["endure", "500"]).output().unwrap();
    let told = String::from_utf8(endured.stdout).unwrap();
    let lines: Vec<&str> = told.lines().collect();
    assert!(
        endured.status.success() && lines.len() == 4,
        "{told}{}",
        String::from_utf8_lossy(&endured.stderr)
    );
    assert_eq!(lines[0], lines[1], "files, mounts and children after one command and after 501");
    // Namespace sets are created for concurrent commands; the second time there are no more of them than the first.
    assert_eq!(lines[2], lines[3], "after many at once, and after many more");
    assert!(lines[3].ends_with(" 0"), "{told}");
}

#[test]
fn a_command_ends_with_its_gate() {
    for handed in [false, true] {
        ends_with_its_gate(handed);
    }
}

fn ends_with_its_gate(handed: bool) {
    let host = Host::new(Who::Root, false);
    let ready = host.path("w/ready");
    let mode = rustix::fs::Mode::from_raw_mode(0o666);
    rustix::fs::mknodat(rustix::fs::CWD, &ready, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let mut order = Order { handed, ..host.order("echo $$ > ready; exec sleep 300") };
    order.environment.push(host.mark());
    let mut gate = Command::new(tools().attacker())
        .arg("gate")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    gate.stdin.take().unwrap().write_all(serde_json::to_string(&order).unwrap().as_bytes()).unwrap();
    let mut line = String::new();
    File::open(&ready).unwrap().read_to_string(&mut line).unwrap();
    let left = host.left_running();
    assert!(!left.is_empty(), "nothing was started");
    let handles = left
        .iter()
        .map(|process| rustix::process::pidfd_open(*process, rustix::process::PidfdFlags::empty()).unwrap());
    let handles: Vec<_> = handles.collect();
    gate.kill().unwrap();
    gate.wait().unwrap();
    for handle in &handles {
        let mut polled = [rustix::event::PollFd::new(handle, rustix::event::PollFlags::IN)];
        let patience = rustix::event::Timespec { tv_sec: 60, tv_nsec: 0 };
        assert_eq!(rustix::event::poll(&mut polled, Some(&patience)).unwrap(), 1, "it outlived its gate");
    }
}

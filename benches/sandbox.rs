//! `/bin/true` with every layer on, compared with `posix_spawn` and with bubblewrap; from a small parent, from a large one, and many concurrently.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark arranges files by hand and prints what it measures"
)]

use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::Command;

use toolgate_benches::{in_turns, report};
use toolgate_sandbox::{
    BindMount, CapturedStdio, CommandStdio, Exit, Job, Network, OnOutputLimit, ResourceLimits, Sandbox,
    SandboxOptions,
};
use toolgate_types::Deadline;

fn main() {
    let scratch = tempfile::tempdir_in(".").unwrap();
    let workspace = File::open(scratch.path()).unwrap();
    let sandbox = Sandbox::prepare(SandboxOptions::default()).unwrap();
    let confined = || {
        let mount = BindMount {
            directory: workspace.as_fd(),
            at: PathBuf::from("/mnt/project"),
            writable: true,
            overlays: Vec::new(),
        };
        let job = Job {
            program: "/bin/true".into(),
            arguments: Vec::new(),
            directory: PathBuf::from("/mnt/project"),
            environment: Vec::new(),
            stdio: CommandStdio::Captured(CapturedStdio {
                input: None,
                max_output: 1000,
                on_output_limit: OnOutputLimit::Stop,
            }),
            mounts: vec![mount],
            read: Vec::new(),
            home_links: Vec::new(),
            network: Network::None,
            limits: ResourceLimits::default(),
            disk_is_short: None,
        };
        let ended = sandbox.run(&job, &Deadline::never(), &mut |_, _| ()).unwrap();
        assert_eq!(ended.exit, Exit::Code(0));
    };
    let spawned = || assert!(Command::new("/bin/true").status().unwrap().success());
    confined();
    let (ours, floor) = in_turns(401, confined, spawned);
    report("sandbox/true", ours, floor, "posix_spawn", 3.0);
    let wrapped = || {
        let mut bubblewrap = Command::new("bwrap");
        bubblewrap.args([
            "--unshare-all",
            "--ro-bind",
            "/",
            "/",
            "--proc",
            "/proc",
            "--dev",
            "/dev",
            "--tmpfs",
            "/tmp",
        ]);
        assert!(bubblewrap.arg("/bin/true").status().unwrap().success());
    };
    let (ours, bubblewrap) = in_turns(201, confined, wrapped);
    report("sandbox/true-bwrap", ours, bubblewrap, "bwrap", 0.5);
    let large = vec![1_u8; 1 << 30];
    let (ours, floor) = in_turns(401, confined, spawned);
    report("sandbox/true-1GiB-parent", ours, floor, "posix_spawn", 3.0);
    drop(large);
    let many = |work: &(dyn Fn() + Sync)| {
        std::thread::scope(|scope| {
            for _ in 0..64 {
                scope.spawn(work);
            }
        });
    };
    let (ours, floor) = in_turns(21, || many(&confined), || many(&spawned));
    report("sandbox/64-at-a-time", ours, floor, "posix_spawn", 4.0);
}

//! Runs a command in the sandbox with only the current directory writable: `cargo run -p toolgate-sandbox --example confine -- ls -la`.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example for people"
)]

use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::path::PathBuf;

use toolgate_sandbox::{
    BindMount, CapturedStdio, CommandStdio, Exit, Job, Network, OnOutputLimit, ResourceLimits, Sandbox,
    SandboxOptions, Stream,
};
use toolgate_types::Deadline;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args_os().skip(1);
    let program = words.next().ok_or("name a program and its arguments")?;
    let sandbox = Sandbox::prepare(SandboxOptions::default())?;
    let here = std::fs::File::open(".")?;
    let project = BindMount {
        directory: here.as_fd(),
        at: PathBuf::from("/mnt/project"),
        writable: true,
        overlays: Vec::new(),
    };
    let job = Job {
        program,
        arguments: words.collect(),
        directory: PathBuf::from("/mnt/project"),
        environment: Vec::new(),
        stdio: CommandStdio::Captured(CapturedStdio {
            input: None,
            max_output: 1_000_000,
            on_output_limit: OnOutputLimit::Stop,
        }),
        mounts: vec![project],
        read: Vec::new(),
        home_links: Vec::new(),
        network: Network::None,
        limits: ResourceLimits::default(),
        disk_is_short: None,
    };
    let ended = sandbox.run(&job, &Deadline::never(), &mut |stream, bytes| {
        let _ = match stream {
            Stream::Output => std::io::stdout().write_all(bytes),
            Stream::Error => std::io::stderr().write_all(bytes),
        };
    })?;
    eprintln!("{ended:?}");
    match ended.exit {
        Exit::Code(code) => std::process::exit(code),
        Exit::Signal(signal) => std::process::exit(128 + signal),
    }
}

//! Ordinary commands in the sandbox: input, output, termination and leftovers.

mod given;
mod shown;
mod streams;
mod handed;
mod ended;
mod layers;

use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::PathBuf;

use tempfile::TempDir;
use toolgate_sandbox::{
    BindMount, CapturedStdio, CommandExit, CommandStdio, Job, Layer, Network, OnOutputLimit, ResourceLimits,
    Sandbox, SandboxError, SandboxOptions, Stream,
};
use toolgate_types::Deadline;

/// A sandbox with a directory to work in.
struct Shop {
    sandbox: Sandbox,
    folder: TempDir,
    opened: File,
}

/// No input, and enough room for all output of the tests.
const PLENTY: CapturedStdio =
    CapturedStdio { input: None, max_output: 1 << 24, on_output_limit: OnOutputLimit::Stop };

/// The result of one command.
struct Ran {
    ended: CommandExit,
    output: Vec<u8>,
    error: Vec<u8>,
}

impl Ran {
    fn text(&self) -> String {
        String::from_utf8(self.output.clone()).unwrap()
    }
}

impl Shop {
    fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let opened = File::open(folder.path()).unwrap();
        Self { sandbox: Sandbox::prepare(SandboxOptions::default()).unwrap(), folder, opened }
    }

    /// One that does without some layers.
    fn without(layers: &[Layer]) -> Self {
        let mut options = SandboxOptions::default();
        options.without = layers.iter().copied().collect();
        options.require = layers.iter().fold(options.require, |required, layer| required.without(*layer));
        Self { sandbox: Sandbox::prepare(options).unwrap(), ..Self::open() }
    }

    fn job(&self, program: &str, arguments: &[&str]) -> Job<'_> {
        Job {
            program: program.into(),
            arguments: arguments.iter().map(Into::into).collect(),
            directory: PathBuf::from("/mnt/project"),
            environment: Vec::new(),
            stdio: CommandStdio::Captured(PLENTY),
            read: Vec::new(),
            home_links: Vec::new(),
            mounts: vec![BindMount {
                directory: self.opened.as_fd(),
                at: PathBuf::from("/mnt/project"),
                writable: true,
                overlays: Vec::new(),
            }],
            network: Network::None,
            limits: ResourceLimits::default(),
            disk_is_short: None,
        }
    }

    fn shell(&self, line: &str) -> Job<'_> {
        self.job("sh", &["-c", line])
    }

    fn run(&self, job: &Job<'_>) -> Result<Ran, SandboxError> {
        self.run_until(job, &Deadline::never(), &mut |_| {})
    }

    /// `heard` is called with the output so far.
    fn run_until(
        &self,
        job: &Job<'_>,
        stop: &Deadline,
        heard: &mut dyn FnMut(&[u8]),
    ) -> Result<Ran, SandboxError> {
        let (mut output, mut error) = (Vec::new(), Vec::new());
        let ended = self.sandbox.run(job, stop, &mut |stream, bytes| match stream {
            Stream::Output => {
                output.extend_from_slice(bytes);
                heard(&output);
            }
            Stream::Error => error.extend_from_slice(bytes),
        })?;
        Ok(Ran { ended, output, error })
    }

    fn says(&self, line: &str) -> String {
        self.run(&self.shell(line)).unwrap().text()
    }

    fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

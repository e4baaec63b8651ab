//! A registry on a public address, in a network namespace of its own: the sandbox refuses addresses of this machine and of private networks.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The name that the model asks for, and an address for it.
const NAME: &str = "registry.npmjs.org";
const ADDRESS: &str = "104.16.0.35";

pub(crate) struct Registry {
    hosts: PathBuf,
    files: PathBuf,
}

impl Registry {
    /// With its files in this directory.
    pub(crate) fn beside(place: &Path) -> Self {
        let (hosts, files) = (place.join("hosts"), place.join("registry"));
        std::fs::create_dir_all(files.join("left-pad")).unwrap();
        std::fs::write(&hosts, format!("127.0.0.1 localhost\n{ADDRESS} {NAME}\n")).unwrap();
        std::fs::write(files.join("left-pad/latest"), "{\"name\": \"left-pad\", \"version\": \"1.3.0\"}\n")
            .unwrap();
        Self { hosts, files }
    }

    /// A program in that namespace, with the registry beside it.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let line = format!(
            "ip link set lo up && ip address add {ADDRESS}/32 dev lo && mount --bind \"$1\" /etc/hosts && \
             {{ python3 -m http.server --directory \"$2\" --bind {ADDRESS} 80 >/dev/null 2>&1 & }} && shift 2 && exec \"$@\""
        );
        let mut command = Command::new("unshare");
        command.args([
            "--map-root-user",
            "--net",
            "--mount",
            "--pid",
            "--mount-proc",
            "--fork",
            "--kill-child",
            "sh",
            "-c",
            &line,
            "sh",
        ]);
        command.arg(&self.hosts).arg(&self.files).arg(program);
        command
    }
}

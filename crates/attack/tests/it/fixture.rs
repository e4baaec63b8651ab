//! A workspace full of traps, and something outside that is worth stealing.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use toolgate_attack::Scratch;

/// What no answer may ever contain: content from outside, and content of denied files.
pub(crate) const OUTSIDE_SECRET: &str = "outside-secret-4711";
pub(crate) const DENIED_SECRET: &str = "denied-secret-0815";

/// The directories of one test.
pub(crate) struct Fixture {
    pub(crate) scratch: Scratch,
    pub(crate) workspace: PathBuf,
    pub(crate) outside: PathBuf,
    pub(crate) package: PathBuf,
    /// The gate's own files: the default state directory of a user whose home directory is in the workspace. Any other place in a mount is refused.
    pub(crate) state: PathBuf,
    /// Whether device nodes can be created here.
    pub(crate) has_device: bool,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let scratch = Scratch::new();
        let workspace = scratch.folder("w/a");
        let outside = scratch.folder("outside");
        let mut fixture = Self {
            package: workspace.join("inner_pkg"),
            state: workspace.join("var/toolgate"),
            has_device: false,
            workspace,
            outside,
            scratch,
        };
        fixture.fill_outside();
        fixture.fill_workspace();
        fixture.add_secrets();
        fixture.add_links();
        fixture.add_special_files();
        fixture
    }

    /// A path with its placeholders replaced.
    pub(crate) fn expand(&self, path: &str) -> String {
        let path = path
            .replace("${workspace}", self.workspace.to_str().unwrap())
            .replace("${outside}", self.outside.to_str().unwrap())
            .replace("${state}", self.state.to_str().unwrap());
        let Some((before, rest)) = path.split_once("${repeat(") else { return path };
        let (unit, rest) = rest.split_once(',').unwrap();
        let (count, after) = rest.split_once(")}").unwrap();
        format!("{before}{}{after}", unit.repeat(count.parse().unwrap()))
    }

    fn fill_outside(&self) {
        write(&self.outside.join("secret.txt"), OUTSIDE_SECRET);
        write(&self.outside.join("folder/inner.txt"), OUTSIDE_SECRET);
        write(&self.scratch.path().join("w/outside.txt"), OUTSIDE_SECRET);
        write(&self.scratch.path().join("w/a_evil/secret.txt"), OUTSIDE_SECRET);
    }

    fn fill_workspace(&self) {
        for (name, content) in [
            ("plain.txt", "plain text\n"),
            ("src/main.rs", "fn main() {}\n"),
            ("docs/guide.md", "a guide\n"),
            ("nested/inner/deep.txt", "deep\n"),
            (".env.example", "KEY=\n"),
            (".git/HEAD", "ref: refs/heads/main\n"),
            ("inner_pkg/readme.md", "a package\n"),
            ("inner_pkg/workflow.md", "---\ncurrentNodeId: start\n---\nbody\n"),
            ("inner_pkg/workflow.schema.json", "{\"type\": \"object\"}\n"),
        ] {
            write(&self.workspace.join(name), content);
        }
        std::fs::create_dir_all(&self.state).unwrap();
    }

    fn add_secrets(&self) {
        for name in [
            ".env",
            ".ENV",
            ".Env",
            ".ｅｎｖ",
            "．env",
            "\u{2024}env",
            ".e\u{200c}nv",
            ".\u{feff}env",
            ".e\u{ad}nv",
            ".\u{202e}env",
            ".env.",
            ".env ",
            ".env::$DATA",
            "deploy/.env.production",
            ".ssh/known_hosts",
            ".SSH/known_hosts",
            ".\u{17f}sh/known_hosts",
            ".g\u{131}t/config",
            ".G\u{130}T/config",
            "id_rsa",
            "ID_RSA",
            "home/id_ed25519",
            "deploy/server.pem",
            "deploy/Server.PEM",
            "tls.key",
            ".aws/credentials",
            "credentials.json",
            ".npmrc",
            ".netrc",
            ".git/config",
            ".git/hooks/pre-commit",
            ".git/modules/m/config",
            ".git/modules/m/hooks/pre-push",
            "vendor/x/.git/hooks/post-checkout",
            "toolgate.yaml",
            "sub/toolgate.yml",
            "inner_pkg/.env",
        ] {
            write(&self.workspace.join(name), DENIED_SECRET);
        }
    }

    fn add_links(&self) {
        let link = |target: &Path, name: &str| symlink(target, self.workspace.join(name)).unwrap();
        let to = |target: &str, name: &str| link(Path::new(target), name);
        to("../../outside/secret.txt", "leaf_out");
        link(&self.outside.join("secret.txt"), "leaf_abs");
        link(&self.outside.join("folder"), "folder_out");
        to("../../outside/folder", "rel_folder_out");
        to("chain2", "chain1");
        to("nested/chain3", "chain2");
        to("../../../outside/secret.txt", "nested/chain3");
        to("chain_folder2", "chain_folder1");
        link(&self.outside.join("folder"), "chain_folder2");
        to("../../../outside", "nested/up");
        to("..", "parent_link");
        to("/", "root_link");
        to("../a_evil", "evil_link");
        to("missing-inside.txt", "dangling_in");
        link(&self.outside.join("missing.txt"), "dangling_out");
        link(&self.outside.join("missing-folder"), "dangling_folder_out");
        to("self_loop", "self_loop");
        to("loop_b", "loop_a");
        to("loop_a", "loop_b");
        // One more than the kernel follows.
        for number in 0..40 {
            to(&format!("link_{:02}", number + 1), &format!("link_{number:02}"));
        }
        to("plain.txt", "link_40");
        to("/proc/self/environ", "environ");
        to("/proc/self/root", "proc_root");
        to("/proc/self/cwd", "proc_cwd");
        to("/proc/self/fd/0", "proc_fd");
        to("/dev/stdin", "stdin_link");
        to("/dev/null", "null_link");
        to(".env", "env_link");
        to("env_chain2", "env_chain1");
        to("nested/env_chain3", "env_chain2");
        to("../.env", "nested/env_chain3");
        to(".ssh", "ssh_link");
        to(".git/hooks", "hooks_link");
        link(&self.workspace.join(".git/hooks"), "hooks_abs");
        to("var/toolgate/audit", "state_link");
        to("inner_pkg", "inner_pkg_link");
        link(&self.outside.join("secret.txt"), "inner_pkg/out");
        // Allowed symlinks: they resolve inside.
        to("plain.txt", "good_link");
        link(&self.workspace.join("docs"), "good_abs");
    }

    fn add_special_files(&mut self) {
        let mode = Mode::from_raw_mode(0o644);
        let path = |name: &str| self.workspace.join(name);
        mknodat(CWD, path("pipe"), FileType::Fifo, mode, 0).unwrap();
        symlink("pipe", path("pipe_link")).unwrap();
        drop(UnixListener::bind(path("socket")).unwrap());
        self.has_device =
            mknodat(CWD, path("device"), FileType::CharacterDevice, mode, makedev(1, 3)).is_ok();
        if !self.has_device {
            println!("note: device nodes may not be made here; the rows that need one are left out");
        }
    }
}

/// Copies a program that is to be executed. Another process does it: a concurrently forked child could inherit a descriptor of this one, and
/// executing a file that is open for writing fails with `ETXTBSY`.
pub(crate) fn copy_program(program: &Path, copy: &Path) {
    assert!(std::process::Command::new("cp").arg(program).arg(copy).status().unwrap().success());
}

pub(crate) fn write(path: &Path, content: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

//! Overlapping commands that cooperate, and a person who then uses git.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use serde_json::json;
use toolgate_attack::{Bench, BenchOptions, Scratch, person};
use toolgate_command::{
    CommandOptions, CommandRunner, ConfinedProcess, Confinement, GateDirectories, LongRunningProcess,
    ShellTimeouts, StartedProcess,
};
use toolgate_egress::SystemDialer;
use toolgate_gate::CallOptions;
use toolgate_sandbox::{ResourceLimits, Sandbox, SandboxOptions};
use toolgate_tools::{CallResponse, Profile};
use toolgate_types::{CallId, RetentionBounds, ToolCall};
use toolgate_workspace::{Mount, MountAccess, MountRules, Workspace};

use super::native;

/// The timeout of every wait in these tests.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Builds a repository whose configuration names a program, signals that, and removes its `HEAD` before it ends.
const BUILD: &str = "mkdir -p evil/objects evil/refs && printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tworktree = ..\\n\\tfsmonitor = \"touch PROOF; false\"\\n' > evil/config && \
     echo 'ref: refs/heads/main' > evil/HEAD && touch built && while [ ! -e begun ]; do sleep 0.02; done; mv evil/HEAD head";

/// Starts while the repository is complete, and restores `HEAD` when the first command is over.
const FINISH: &str = "touch begun; while [ ! -e over ]; do sleep 0.02; done; mv head evil/HEAD";

fn begin(bench: &Bench, line: &str) -> JoinHandle<CallResponse> {
    let (front, line) = (Arc::clone(bench.front()), line.to_owned());
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let call = ToolCall::new("run_command", json!({"command": line}));
        runtime.block_on(front.call(call, person("test"), CallOptions::default()))
    })
}

fn wait_for(path: &Path) {
    let begun = Instant::now();
    while !path.exists() {
        assert!(begun.elapsed() < TIMEOUT, "{} is not there", path.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A person who uses git wherever it would find a repository.
fn use_git(workspace: &Path) {
    for folder in ["", "evil", "a", "b"] {
        for arguments in [&["status"][..], &["diff"], &["add", "-A"]] {
            let mut command = Command::new("git");
            command.arg("-C").arg(workspace.join(folder)).args(arguments);
            command.env("GIT_CONFIG_NOSYSTEM", "1").env("HOME", workspace);
            // Its exit code does not matter: only what it executes.
            let _ = command.output().expect("git is installed");
        }
    }
}

/// Two commands of these gates together build what neither of them may leave.
fn attack(workspace: &Path, first: &Bench, second: &Bench, proof: &Path) -> (CallResponse, CallResponse) {
    let building = begin(first, &BUILD.replace("PROOF", proof.to_str().unwrap()));
    wait_for(&workspace.join("built"));
    let finishing = begin(second, FINISH);
    let built = building.join().unwrap();
    std::fs::write(workspace.join("over"), "").unwrap();
    let finished = finishing.join().unwrap();
    use_git(workspace);
    assert!(!proof.exists(), "git ran a program that the model chose");
    (built, finished)
}

fn place() -> (Scratch, PathBuf, PathBuf) {
    let scratch = Scratch::new();
    let (workspace, proof) = (scratch.folder("w"), scratch.folder("proof").join("it-ran"));
    (scratch, workspace, proof)
}

#[test]
fn two_calls_in_flight_build_nothing_that_git_obeys() {
    let (scratch, workspace, proof) = place();
    let bench = BenchOptions::new(Profile::NATIVE, &workspace, &scratch.folder("s")).commands().open();
    let (built, finished) = attack(&workspace, &bench, &bench, &proof);
    assert_eq!(native(&built).1["quarantined"], json!([]));
    let (text, _) = native(&finished);
    assert!(text.contains("[quarantined: `@project/evil/HEAD` has a protected name"), "{text}");
    // What a person makes afterwards is theirs.
    std::fs::write(workspace.join(".envrc"), "mine").unwrap();
    assert_eq!(native(&bench.call("run_command", json!({"command": "true"}))).1["quarantined"], json!([]));
    assert!(workspace.join(".envrc").exists());
}

#[test]
fn two_gates_on_one_workspace_build_nothing_that_git_obeys() {
    let (scratch, workspace, proof) = place();
    let state = scratch.folder("s");
    let gate = || BenchOptions::new(Profile::NATIVE, &workspace, &state).commands().open();
    let (_, finished) = attack(&workspace, &gate(), &gate(), &proof);
    assert!(native(&finished).0.contains("[quarantined: `@project/evil/HEAD` has a protected name"));
}

#[test]
fn two_commands_that_end_together_leave_nothing_and_it_is_told() {
    let (scratch, workspace, _) = place();
    let bench = BenchOptions::new(Profile::NATIVE, &workspace, &scratch.folder("s")).commands().open();
    // Neither ends before both have left their file: nothing is written again after the first was quarantined.
    let leave = |name: &str| {
        format!(
            "mkdir {name} && echo x > {name}/.envrc && touch {name}.left; until [ -e one.left ] && [ -e other.left ]; do sleep 0.02; done"
        )
    };
    let names = ["one", "other"];
    let running = names.map(|name| begin(&bench, &leave(name)));
    let texts = running.map(|call| native(&call.join().unwrap()).0);
    for name in names {
        assert!(workspace.join(format!("{name}.left")).exists() && workspace.join(name).exists());
        assert!(!workspace.join(name).join(".envrc").exists(), "{name}");
        // The first to scan quarantines both, and the other finds nothing.
        let told = format!("[quarantined: `@project/{name}/.envrc`");
        assert!(texts.iter().any(|text| text.contains(&told)), "{name}: {texts:?}");
    }
}

/// Keeps trying to replace the real repository by its own, until it is stopped, and ends in the middle of it.
const SWAP: &str = "mkdir -p e/objects e/refs && printf '[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = \"touch PROOF; false\"\\n' > e/config && \
     echo 'ref: refs/heads/main' > e/HEAD && touch built; while [ ! -e over ]; do mv -T .git gone; mv -T e .git; mv -T .git e; mv -T gone .git; done 2>/dev/null; \
     mv -T .git gone; mv -T e .git; true";

#[test]
fn a_real_repository_is_not_swapped_while_commands_overlap() {
    let (scratch, workspace, proof) = place();
    let made = Command::new("git").args(["init", "--quiet"]).arg(&workspace).env("HOME", &workspace).status();
    assert!(made.expect("git is installed").success());
    let inode =
        || std::os::unix::fs::MetadataExt::ino(&std::fs::symlink_metadata(workspace.join(".git")).unwrap());
    let real = inode();
    let state = scratch.folder("s");
    let gate = || BenchOptions::new(Profile::NATIVE, &workspace, &state).commands().open();
    let (first, second) = (gate(), gate());
    let swapping = begin(&first, &SWAP.replace("PROOF", proof.to_str().unwrap()));
    wait_for(&workspace.join("built"));
    for bench in [&first, &second].into_iter().cycle().take(8) {
        // Each of these walks the tree twice while the other command renames.
        let _ = bench.call("run_command", json!({"command": "true"}));
    }
    std::fs::write(workspace.join("over"), "").unwrap();
    swapping.join().unwrap();
    assert_eq!(inode(), real, "the real repository has another place");
    use_git(&workspace);
    use_git(&workspace.join("e"));
    assert!(!proof.exists(), "git ran a program that the model chose");
}

/// A server that executes lines on request, as the gate starts one behind itself: with a runner of its own beside that of commands.
struct Server {
    input: File,
    output: BufReader<File>,
    process: LongRunningProcess,
}

impl Server {
    fn start(workspace: &Path, state: &Path) -> Self {
        let mount = File::open(workspace).unwrap();
        let mount =
            Mount::new("@project", mount, workspace, MountAccess::ReadWrite, MountRules::new()).unwrap();
        let open = |folder: PathBuf| {
            std::fs::create_dir_all(&folder).unwrap();
            Dir::open_ambient_dir(folder, ambient_authority()).unwrap()
        };
        let state = state.to_path_buf();
        let folders = move || {
            let [quarantine, baselines] =
                ["quarantine.toolgate", "baselines.toolgate"].map(|name| open(state.join(name)));
            Ok(GateDirectories { quarantine, baselines, retention: RetentionBounds::default() })
        };
        let sandbox = || Ok(Arc::new(Sandbox::prepare(SandboxOptions::default())?));
        let options = CommandOptions {
            workspace: Arc::new(Workspace::new(vec![mount.as_default()]).unwrap()),
            confinement: Confinement::lazy(sandbox, folders),
            environment: Vec::new(),
            limits: ResourceLimits::default(),
            network: Vec::new(),
            escalation: toolgate_command::EscalationRule { hosts: true, time: true, directories: true },
            timeouts: ShellTimeouts::default(),
            dialer: Arc::new(SystemDialer),
            reserve: None,
            package_caches: None,
            open_directory: None,
        };
        let started = Arc::new(CommandRunner::new(options).unwrap()).start(&ConfinedProcess {
            program: "sh".into(),
            arguments: vec!["-c".into(), "while read -r line; do eval \"$line\"; echo done; done".into()],
            directory: None,
            mounts: vec![("@project".to_owned(), true)],
            environment: Vec::new(),
            network: Vec::new(),
            upstream: None,
            read: Vec::new(),
            limits: None,
            own: Vec::new(),
            host_paths: false,
            log: None,
        });
        let StartedProcess { input, output, process } = started.unwrap();
        for end in [&input, &output] {
            rustix::fs::fcntl_setfl(end, rustix::fs::OFlags::empty()).unwrap();
        }
        Self { input: input.into(), output: BufReader::new(output.into()), process }
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
        let mut answer = String::new();
        self.output.read_line(&mut answer).unwrap();
        assert_eq!(answer, "done\n");
    }

    /// What is quarantined after one of its calls.
    fn look(&self) -> Vec<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(self.process.quarantine(CallId::fresh())).unwrap()
    }
}

#[test]
fn a_server_and_a_command_build_nothing_that_git_obeys() {
    let (before, after) = BUILD.split_once(" && touch built").unwrap();
    let hide = after.rsplit_once("; ").unwrap().1;
    // The server builds, and the command completes it.
    let (scratch, workspace, proof) = place();
    let state = scratch.folder("s");
    let bench = BenchOptions::new(Profile::NATIVE, &workspace, &state).commands().open();
    let mut server = Server::start(&workspace, &state);
    let build = before.replace("PROOF", proof.to_str().unwrap());
    server.tell(&build);
    let finishing = begin(&bench, FINISH);
    wait_for(&workspace.join("begun"));
    server.tell(hide);
    assert_eq!(server.look(), Vec::<String>::new());
    std::fs::write(workspace.join("over"), "").unwrap();
    let (text, _) = native(&finishing.join().unwrap());
    assert!(text.contains("[quarantined: `@project/evil/HEAD` has a protected name"), "{text}");
    use_git(&workspace);
    assert!(!proof.exists(), "git ran a program that the model chose");
    // A command builds, and the server completes it: its own next call finds it.
    for name in ["evil", "built", "begun", "over"] {
        let _ = std::fs::remove_dir_all(workspace.join(name));
        let _ = std::fs::remove_file(workspace.join(name));
    }
    let building = begin(&bench, &BUILD.replace("PROOF", proof.to_str().unwrap()));
    wait_for(&workspace.join("built"));
    server.tell("touch begun");
    assert_eq!(native(&building.join().unwrap()).1["quarantined"], json!([]));
    server.tell("mv head evil/HEAD");
    assert_eq!(server.look(), ["@project/evil/HEAD"]);
    use_git(&workspace);
    assert!(!proof.exists(), "git ran a program that the model chose");
}

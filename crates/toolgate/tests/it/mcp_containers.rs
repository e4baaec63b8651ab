//! Servers that are container images, with a stand-in for the engine that notes what it is asked for.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use serde_json::json;

use crate::fixture::CliFixture;
use crate::mcp_packages::SERVER;

const FIRST: &str = "sha256:1111111111111111111111111111111111111111111111111111111111111111";
const SECOND: &str = "sha256:2222222222222222222222222222222222222222222222222222222222222222";

/// It runs the server itself, in the place of a container.
const ENGINE: &str = r#"#!/bin/sh
here=$(dirname "$0")
printf '%s\n' "$*" >> "$here/asked"
case "$1" in
  version) echo 28.0.0 ;;
  image) cat "$here/id" ;;
  run) printf '%s\n' "$@" > "$here/run"; env > "$here/environment"; exec node "$here/server.js" ;;
esac
"#;

struct Containers {
    place: CliFixture,
    programs: PathBuf,
}

impl Containers {
    fn new() -> Self {
        let place = CliFixture::new();
        let programs = place.scratch.path().join("programs");
        place.write("programs/docker", ENGINE);
        place.write("programs/server.js", SERVER);
        let containers = Self { place, programs };
        containers.has(FIRST);
        containers.executable();
        containers
    }

    fn executable(&self) {
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(self.programs.join("docker"), executable).unwrap();
    }

    /// Which image the engine has.
    fn has(&self, id: &str) {
        self.place.write("programs/id", &format!("{id}\n"));
    }

    fn run(&self, arguments: &[&str]) -> (i32, String) {
        let mut command = self.place.aloud(Command::new(env!("CARGO_BIN_EXE_toolgate")));
        let path = format!("{}:{}", self.programs.display(), std::env::var("PATH").unwrap());
        let output = command.args(arguments).env("PATH", path).env("HUB_TOKEN", "4711").output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8_lossy(&text).into_owned())
    }

    fn configure(&self, entry: &str) {
        self.place.write(
            "toolgate.yaml",
            &format!("mounts: {{\"@notes\": {{path: notes, access: ro}}}}\nmcp_servers:\n  boxed: {entry}\n"),
        );
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.programs.join(name)).unwrap_or_default()
    }

    fn call(&self) -> (i32, String) {
        self.run(&["call", "boxed__echo", r#"{"text": "fine"}"#])
    }
}

#[test]
fn a_container_gets_the_least_and_the_image_that_was_locked() {
    let containers = Containers::new();
    for (file, content) in
        [("notes/list.txt", "apples"), ("notes/.env", "KEY=4711"), ("notes/.ssh/id_rsa", "x")]
    {
        containers.place.write(file, content);
    }
    containers.configure(
        "{package: \"image:mcp/notes:1\", class: read, args: [serve, /notes], env: {HUB_TOKEN: \"${HUB_TOKEN}\"}, \
         mounts: [\"@notes\"], mount_paths: {\"@notes\": /notes}, limits: {memory: 256MiB, processes: 32}}",
    );
    // Nothing is fetched at a start.
    let (_, said) = containers.run(&["mcp", "list"]);
    assert!(said.contains("is not installed") && !containers.read("asked").contains("pull"), "{said}");
    let (code, said) = containers.run(&["mcp", "update", "boxed", "--yes"]);
    assert!(code == 0 && said.contains("installed 1 (111111111111) (docker 28.0.0)"), "{said}");
    assert!(containers.read("asked").contains("pull --quiet mcp/notes:1"));
    let (code, said) = containers.call();
    assert!(code == 0 && said.contains("fine"), "{said}");

    let run = containers.read("run");
    for expected in [
        "--rm",
        "--pull=never",
        "--network=none",
        "--read-only",
        "--cap-drop=ALL",
        "--security-opt=no-new-privileges",
        "--pids-limit=32",
        "--memory=268435456",
        "--log-driver=none",
    ] {
        assert!(run.lines().any(|line| line == expected), "{expected}: {run}");
    }
    let notes = containers.place.scratch.path().join("notes").canonicalize().unwrap();
    assert!(run.contains(&format!("type=bind,source={},target=/notes,readonly", notes.display())), "{run}");
    // What is denied to tools is denied to a container.
    assert!(run.contains("type=bind,source=/dev/null,target=/notes/.env,readonly"), "{run}");
    assert!(run.contains("target=/notes/.ssh"), "{run}");
    assert!(run.ends_with(&format!("{FIRST}\nserve\n/notes\n")), "{run}");
    // A value is no argument, which everybody who lists processes sees.
    assert!(run.contains("HUB_TOKEN") && !run.contains("4711"), "{run}");
    assert!(containers.read("environment").contains("HUB_TOKEN=4711"));

    // Another image under the same tag is used only after an update, which shows it.
    containers.has(SECOND);
    assert_eq!(containers.call().0, 0);
    assert!(containers.read("run").contains(FIRST));
    let (code, said) = containers.run(&["mcp", "update", "boxed"]);
    assert!(code == 3 && said.contains("mcp/notes 1: other content under the same version"), "{said}");
    assert!(said.contains("its tools are as agreed"), "{said}");
    assert_eq!(containers.call().0, 0);
    assert!(containers.read("run").contains(FIRST));
    assert_eq!(containers.run(&["mcp", "update", "boxed", "--yes"]).0, 0);
    assert_eq!(containers.call().0, 0);
    assert!(containers.read("run").contains(SECOND));

    // A lock that names another image is not believed.
    let locks =
        Command::new("find").arg(&containers.place.state).args(["-path", "*/tree/image"]).output().unwrap();
    for lock in String::from_utf8(locks.stdout).unwrap().lines() {
        std::fs::write(lock, "sha256:33\n").unwrap();
    }
    let (_, said) = containers.run(&["mcp", "list"]);
    assert!(said.contains("was changed after it was installed"), "{said}");
}

#[test]
fn what_an_engine_cannot_be_asked_for_is_a_mistake_of_the_configuration() {
    let containers = Containers::new();
    containers.place.write("notes/list.txt", "apples");
    for (entry, expected) in [
        ("{package: \"image:a\", mounts: [\"@notes:rw\"]}", "a container cannot be given `@notes` to change"),
        ("{package: \"image:a\", network: [example.com]}", "a container cannot be limited to hosts"),
        ("{package: \"image:a\", network: public}", "a container cannot be limited to hosts"),
        ("{package: \"image:a\", command: x}", "`command` means nothing beside `image:`"),
        ("{package: \"image:a\", read: [/opt]}", "`read` means nothing beside `image:`"),
        ("{package: \"image:--privileged\"}", "is not a package"),
        ("{package: \"image:a\", mount_paths: {\"@notes\": /proc}}", "is no place for a mount"),
        ("{package: \"image:a\", mount_paths: {\"@notes\": /x}}", "`mounts` does not name `@notes`"),
        ("{command: x, mount_paths: {\"@notes\": /x}}", "`mount_paths` means nothing beside no `image:`"),
    ] {
        containers.configure(entry);
        let (code, said) = containers.run(&["check"]);
        assert!(code != 0 && said.contains(expected), "{entry}: {said}");
    }
    assert_eq!(containers.read("asked"), "");
    containers.configure("{package: \"image:a\", class: read, network: engine}");
    assert_eq!(containers.run(&["mcp", "update", "boxed", "--yes"]).0, 0);
    assert_eq!(containers.call().0, 0);
    assert!(containers.read("run").contains("--network=bridge"));
}

#[test]
fn an_entry_that_runs_a_container_becomes_one_with_less() {
    let containers = Containers::new();
    // Below `/dev/shm` or `/tmp` nothing is shown to a server.
    let elsewhere = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let notes = elsewhere.path();
    let volume = format!("{}:/notes", notes.display());
    let file = json!({"mcpServers": {
        "boxed": {"command": "docker", "args": ["run", "-i", "--rm", "--net=bridge", "-v", volume, "-e", "HUB_TOKEN", "mcp/notes", "/notes"], "env": {"HUB_TOKEN": "4711"}},
        "root": {"command": "docker", "args": ["run", "-i", "--privileged", "mcp/root"]},
        "socket": {"command": "docker", "args": ["run", "-i", "-v", "/var/run/docker.sock:/var/run/docker.sock", "mcp/root"]},
    }});
    containers.place.write("client.json", &file.to_string());
    containers.place.write("toolgate.yaml", "");
    let (code, said) = containers.run(&["mcp", "import", "client.json", "--write", "--yes"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("boxed            ready"), "{said}");
    assert!(said.contains("`root` was left out: `--privileged` takes more of the machine"), "{said}");
    assert!(said.contains("`socket` was left out: `/var/run/docker.sock` gives a container more"), "{said}");
    let run = containers.read("run");
    assert!(run.contains("target=/notes,readonly") && run.contains("--network=none"), "{run}");
}

#[test]
fn without_an_engine_it_is_said_what_is_missing() {
    let containers = Containers::new();
    containers.place.write("notes/list.txt", "apples");
    containers.configure("{package: \"image:mcp/notes\", class: read}");
    containers.place.write("programs/docker", "#!/bin/sh\necho 'Cannot connect to the daemon' >&2\nexit 1\n");
    containers.executable();
    let only = |path: &str| {
        let mut command = containers.place.aloud(Command::new(env!("CARGO_BIN_EXE_toolgate")));
        let output = command.args(["mcp", "update", "boxed", "--yes"]).env("PATH", path).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let programs = containers.programs.display().to_string();
    // The shell of the stand-in.
    std::os::unix::fs::symlink("/bin/sh", containers.programs.join("sh")).unwrap();
    let said = only(&programs);
    assert!(said.contains("`docker` is here, and does not answer: Cannot connect to the daemon"), "{said}");
    let said = only("/nowhere");
    assert!(said.contains("neither `docker` nor `podman` is in `PATH`"), "{said}");
    // Beforehand, too.
    let mut check = containers.place.aloud(Command::new(env!("CARGO_BIN_EXE_toolgate")));
    let output = check.arg("check").env("PATH", "/nowhere").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("neither `docker` nor `podman` is in `PATH`"), "{said}");
}

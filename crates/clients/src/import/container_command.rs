//! Entries that have a container engine run an image: `docker run -i --rm IMAGE …`.
//!
//! What the gate asks the engine for is its own least; from the command are taken the image, its arguments, variables and the directories that it is
//! shown. What would take more of the machine than a server needs leaves the entry out, with the reason.

use toolgate_manifest::{PackageRegistry, PackageSpec, shown};

/// What such a command runs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ContainerCommand {
    /// The image.
    pub(super) image: Option<PackageSpec>,
    /// Variables, with their values; without one, that of the client's own environment.
    pub(super) environment: Vec<(String, Option<String>)>,
    /// Directories of the host, each with its path in the container, and whether it was writable.
    pub(super) directories: Vec<(String, String, bool)>,
    /// The program in the container.
    pub(super) entrypoint: Option<String>,
    /// What the program is given.
    pub(super) arguments: Vec<String>,
    /// What was not taken over.
    pub(super) notes: Vec<String>,
}

/// Options without a value that change nothing here.
const IGNORED: &[&str] =
    &["-i", "--interactive", "--rm", "--init", "-t", "--tty", "-it", "-ti", "--read-only", "-q", "--quiet"];

/// Options with a value that change nothing here, or ask for less than the gate does.
const IGNORED_VALUES: &[&str] = &[
    "--name",
    "--pull",
    "--memory",
    "-m",
    "--memory-swap",
    "--cpus",
    "--pids-limit",
    "--cap-drop",
    "--log-driver",
    "--log-opt",
    "--label",
    "-l",
    "--hostname",
    "-h",
    "--stop-timeout",
    "--shm-size",
    "--restart",
];

/// Options without a counterpart that a server may do without.
const NOTED_VALUES: &[&str] = &[
    "-p",
    "--publish",
    "--platform",
    "--user",
    "-u",
    "--workdir",
    "-w",
    "--add-host",
    "--dns",
    "--tmpfs",
    "--ulimit",
    "--env-file",
    "--gpus",
];

/// Options that take more of the machine than a server may have.
const REFUSED: &[&str] = &[
    "--privileged",
    "--cap-add",
    "--device",
    "--device-cgroup-rule",
    "--pid",
    "--ipc",
    "--uts",
    "--userns",
    "--cgroupns",
    "--cgroup-parent",
    "--security-opt",
    "--volumes-from",
    "--runtime",
    "--sysctl",
    "--group-add",
    "--volume-driver",
    "--oom-kill-disable",
    "--cidfile",
];

/// Places that give a container the machine, or the engine.
const REFUSED_PLACES: &[&str] = &[
    "/", "/proc", "/sys", "/dev", "/run", "/var/run", "/var/lib", "/boot", "/root", "/etc", "/home", "/Users",
];

/// What a command of an engine runs, or why it is left out; `None` if it is none.
pub(super) fn container_command(program: &str, words: &[String]) -> Option<Result<ContainerCommand, String>> {
    let name = program.rsplit('/').next().unwrap_or_default();
    if !matches!(name, "docker" | "podman" | "nerdctl") {
        return None;
    }
    match words.first().map(String::as_str) {
        Some("run") => Some(read(words.get(1..).unwrap_or_default())),
        Some("container") if words.get(1).is_some_and(|word| word == "run") => {
            Some(read(words.get(2..).unwrap_or_default()))
        }
        _ => Some(Err(format!(
            "`{name}` is started with something other than `run IMAGE`, which only works outside of the sandbox"
        ))),
    }
}

fn read(words: &[String]) -> Result<ContainerCommand, String> {
    let mut command = ContainerCommand::default();
    let mut words = words.iter();
    loop {
        let word = words.next().ok_or("it names no image")?;
        if !word.starts_with('-') || word == "--" {
            let image = if word == "--" { words.next().ok_or("it names no image")? } else { word };
            let spec = PackageSpec::of(PackageRegistry::Image, image);
            command.image = Some(spec.map_err(|error| format!("`{}`: {error}", shown(image)))?);
            command.arguments = words.cloned().collect();
            return Ok(command);
        }
        if IGNORED.contains(&word.as_str()) {
            continue;
        }
        let (option, joined) = option(word);
        let mut value =
            || joined.clone().or_else(|| words.next().cloned()).ok_or("an option has no value".to_owned());
        if REFUSED.contains(&option) {
            // A flag without a value takes none.
            let given = joined.as_deref().unwrap_or_default();
            if matches!((option, given), ("--privileged", "false")) {
                continue;
            }
            return Err(format!("`{}` takes more of the machine than a server may have", shown(option)));
        }
        match option {
            "-e" | "--env" => command.variable(&value()?),
            "-v" | "--volume" => command.volume(&value()?)?,
            "--mount" => command.mount(&value()?)?,
            "--entrypoint" => command.entrypoint = Some(value()?),
            "--network" | "--net" => command.network(&value()?)?,
            option if IGNORED_VALUES.contains(&option) => drop(value()?),
            option if NOTED_VALUES.contains(&option) => {
                value()?;
                command.notes.push(format!("`{option}` is not taken over"));
            }
            option => return Err(format!("its option `{}` has no counterpart", shown(option))),
        }
    }
}

/// The option of a word, and the value that is joined to it: `--env=A`, `-eA`.
fn option(word: &str) -> (&str, Option<String>) {
    if let Some((option, value)) = word.split_once('=').filter(|_| word.starts_with("--")) {
        return (option, Some(value.to_owned()));
    }
    match word.split_at_checked(2) {
        Some((short, rest)) if !word.starts_with("--") && !rest.is_empty() => (short, Some(rest.to_owned())),
        _ => (word, None),
    }
}

impl ContainerCommand {
    fn variable(&mut self, text: &str) {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        self.environment.push((name.to_owned(), value));
    }

    /// `HOST:CONTAINER[:OPTIONS]`, or a volume of the engine.
    fn volume(&mut self, text: &str) -> Result<(), String> {
        let mut parts = text.split(':');
        let (source, target) = (parts.next().unwrap_or_default(), parts.next());
        let Some(target) = target else {
            self.notes.push("an unnamed volume is not taken over".to_owned());
            return Ok(());
        };
        let is_read_only =
            parts.next().is_some_and(|options| options.split(',').any(|option| option == "ro"));
        self.directory(source, target, !is_read_only)
    }

    /// `type=bind,source=HOST,target=CONTAINER[,readonly]`
    fn mount(&mut self, text: &str) -> Result<(), String> {
        let mut fields: Vec<(&str, &str)> = Vec::new();
        for field in text.split(',') {
            fields.push(field.split_once('=').unwrap_or((field, "true")));
        }
        let of = |names: &[&str]| {
            fields.iter().find(|(name, _)| names.contains(name)).map(|(_, value)| (*value).to_owned())
        };
        let source = of(&["source", "src"]).unwrap_or_default();
        let Some(target) = of(&["target", "destination", "dst"]) else {
            return Err("a mount has no target".to_owned());
        };
        if of(&["type"]).is_some_and(|kind| kind != "bind") {
            self.notes.push(format!("the volume at `{}` is not taken over", shown(&target)));
            return Ok(());
        }
        let is_read_only = of(&["readonly", "ro"]).is_some_and(|value| value != "false" && value != "0");
        self.directory(&source, &target, !is_read_only)
    }

    fn directory(&mut self, source: &str, target: &str, writable: bool) -> Result<(), String> {
        let is_path = source.starts_with(['/', '~', '.', '$']);
        if !is_path {
            self.notes.push(format!("the volume `{}` of the engine is not taken over", shown(source)));
            return Ok(());
        }
        let place = match source.trim_end_matches('/') {
            "" => "/",
            place => place,
        };
        let is_engine = place.ends_with(".sock");
        if is_engine || REFUSED_PLACES.contains(&place) || place.split('/').any(|word| word == "..") {
            return Err(format!(
                "`{}` gives a container more of the machine than a server may have",
                shown(source)
            ));
        }
        self.directories.push((place.to_owned(), target.to_owned(), writable));
        Ok(())
    }

    fn network(&mut self, name: &str) -> Result<(), String> {
        match name {
            "none" => {}
            "host" => {
                return Err("`--network host` gives a container every service of this machine".to_owned());
            }
            name if name.starts_with("container:") || name.starts_with("ns:") => {
                return Err("it shares the network of another container".to_owned());
            }
            _ => self.notes.push("`--network` is not taken over".to_owned()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<ContainerCommand, String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let (program, words) = words.split_first().unwrap();
        container_command(program, words).unwrap()
    }

    #[test]
    fn what_a_server_needs_is_taken_over() {
        let found = of("docker run -i --rm -e TOKEN -eA=1 --env=B=2 -v /srv/notes:/notes:ro --mount type=bind,src=/srv/w,dst=/w --name x mcp/fs:1 /notes -v").unwrap();
        assert_eq!(found.image.unwrap().to_string(), "image:mcp/fs:1");
        let variable = |name: &str, value: Option<&str>| (name.to_owned(), value.map(str::to_owned));
        assert_eq!(
            found.environment,
            [variable("TOKEN", None), variable("A", Some("1")), variable("B", Some("2"))]
        );
        let directory =
            |source: &str, target: &str, writable| (source.to_owned(), target.to_owned(), writable);
        assert_eq!(
            found.directories,
            [directory("/srv/notes", "/notes", false), directory("/srv/w", "/w", true)]
        );
        assert_eq!(found.arguments, ["/notes", "-v"]);
        assert_eq!(found.notes, [""; 0]);
        let found =
            of("/usr/bin/podman container run -it --network=bridge -p 80:80 -v data:/data --entrypoint=/x a")
                .unwrap();
        assert_eq!(found.notes.len(), 3, "{:?}", found.notes);
        assert_eq!(found.entrypoint.as_deref(), Some("/x"));
        assert_eq!(of("docker run -i --privileged=false a").unwrap().notes, [""; 0]);
    }

    #[test]
    fn what_takes_more_is_left_out() {
        for line in [
            "docker run -i --privileged a",
            "docker run -i --privileged=true a",
            "docker run -i -v /:/host a",
            "docker run -i -v //:/host a",
            "docker run -i -v /etc/:/etc a",
            "docker run -i -v /var/run/docker.sock:/var/run/docker.sock a",
            "docker run -i --mount type=bind,source=/run/podman/podman.sock,target=/x a",
            "docker run -i -v /srv/../etc:/x a",
            "docker run -i --net=host a",
            "docker run -i --network host a",
            "docker run -i --network=container:db a",
            "docker run -i --pid=host a",
            "docker run -i --ipc host a",
            "docker run -i --cap-add SYS_ADMIN a",
            "docker run -i --device=/dev/kvm a",
            "docker run -i --security-opt seccomp=unconfined a",
            "docker run -i --userns=host a",
            "docker run -i --volumes-from x a",
            "docker run -i --what a",
            "docker run -i",
            "docker run -i --rm https://x/y",
            "docker mcp gateway run",
            "docker exec -i x y",
            "docker compose run x",
        ] {
            assert!(of(line).is_err(), "{line}");
        }
        assert!(container_command("node", &[]).is_none());
    }
}

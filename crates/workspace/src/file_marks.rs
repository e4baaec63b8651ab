//! Files that stay writable but that an approver should know about: what is executed when a project is built or tested, and what other agents read as
//! instructions. A mark never refuses a call.

use std::path::Path;

use crate::deny_list::{begins_with, split};
use crate::name_fold::fold;

/// Why an approver should know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileMark {
    /// Executed, or decides what is executed, when the project is built or tested.
    Built,
    /// Read by other agents as instructions.
    Instructions,
    /// Executed by a shell when it starts.
    ShellStart,
}

impl FileMark {
    /// How the approval question describes such a file.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Built => "run when the project is built or tested",
            Self::Instructions => "read by other agents as instructions",
            Self::ShellStart => "run by shells that start here",
        }
    }

    /// The line of an approval question that warns of these files.
    #[must_use]
    pub fn warning(self, paths: &str) -> String {
        format!("{}: {paths}", self.as_str())
    }

    /// Whether a line of an approval question is such a warning. Other lines begin with what the call does.
    #[must_use]
    pub fn is_warning(line: &str) -> bool {
        let is_of = |(mark, _): &(Self, _)| {
            line.strip_prefix(mark.as_str()).is_some_and(|rest| rest.starts_with(": "))
        };
        MARKED.iter().any(is_of)
    }
}

/// The marked files, in the notation of the deny list.
pub const MARKED: [(FileMark, &[&str]); 3] =
    [(FileMark::Built, BUILT), (FileMark::Instructions, INSTRUCTIONS), (FileMark::ShellStart, SHELL_START)];

const BUILT: &[&str] = &[
    "makefile",
    "gnumakefile",
    "*.mk",
    "justfile",
    ".justfile",
    "taskfile.yml",
    "taskfile.yaml",
    "package.json",
    "deno.json",
    "gulpfile.*",
    "gruntfile.*",
    "*.config.js",
    "*.config.cjs",
    "*.config.mjs",
    "*.config.ts",
    ".eslintrc.js",
    ".eslintrc.cjs",
    "cargo.toml",
    "build.rs",
    "setup.py",
    "setup.cfg",
    "pyproject.toml",
    "conftest.py",
    "tox.ini",
    "noxfile.py",
    "cmakelists.txt",
    "*.cmake",
    "meson.build",
    "configure",
    "configure.ac",
    "sconstruct",
    "build.bazel",
    "*.bzl",
    "build.zig",
    "*.gradle",
    "*.gradle.kts",
    "gradlew",
    "gradle-wrapper.properties",
    "mvnw",
    "pom.xml",
    "build.xml",
    "build.sbt",
    "*.csproj",
    "directory.build.props",
    "directory.build.targets",
    "gemfile",
    "rakefile",
    "*.gemspec",
    "composer.json",
    "mix.exs",
    "package.swift",
    "podfile",
    "flake.nix",
    "shell.nix",
    "default.nix",
    "dockerfile",
    "dockerfile.*",
    "containerfile",
    "docker-compose.*",
    "compose.yml",
    "compose.yaml",
    "vagrantfile",
    "procfile",
    "tiltfile",
    "jenkinsfile",
    ".github/workflows",
    ".github/actions",
    ".gitlab-ci.yml",
    ".circleci",
    ".woodpecker",
    ".travis.yml",
    ".drone.yml",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
];

const INSTRUCTIONS: &[&str] = &[
    "agents.md",
    "agents.override.md",
    "claude.md",
    "claude.local.md",
    "gemini.md",
    "qwen.md",
    "crush.md",
    "warp.md",
    "skill.md",
    ".goosehints",
    ".cursorrules",
    ".cursor/rules",
    ".windsurfrules",
    ".windsurf/rules",
    ".clinerules",
    ".roorules",
    ".roo/rules*",
    ".claude/rules",
    ".github/copilot-instructions.md",
    ".github/instructions",
    ".github/prompts",
    ".github/chatmodes",
    ".junie/guidelines.md",
    ".kiro/steering",
    ".amazonq/rules",
    ".continue/rules",
    ".trae/rules",
    ".augment/rules",
    ".augment-guidelines",
    ".openhands/microagents",
];

const SHELL_START: &[&str] = &[
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    "config.fish",
];

/// The mark of a file at this real location of a mount.
#[must_use]
pub fn mark(location: &Path) -> Option<FileMark> {
    let folded = fold(location);
    MARKED.into_iter().find(|(_, rules)| is_among(&folded, rules)).map(|(mark, _)| mark)
}

fn is_among(folded: &str, rules: &[&str]) -> bool {
    let mut rest = Some(folded);
    while let Some(place) = rest {
        let (name, below) = split(place);
        // A single name matches files only: `configure` and `makefile` are legitimate names of directories too.
        let applies = |rule: &&&str| {
            begins_with(name, below, rule) && (rule.contains('/') || rule.starts_with('.') || below.is_none())
        };
        if rules.iter().find(applies).is_some() {
            return true;
        }
        rest = below;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_folded() {
        for rule in MARKED.iter().flat_map(|(_, rules)| *rules) {
            assert_eq!(*rule, rule.to_lowercase());
        }
    }

    #[test]
    fn files_are_marked_by_what_they_are_for() {
        for (location, expected) in [
            ("Makefile", Some(FileMark::Built)),
            ("a/b/package.json", Some(FileMark::Built)),
            ("crates/x/build.rs", Some(FileMark::Built)),
            (".github/workflows/deep/ci.yml", Some(FileMark::Built)),
            ("vite.config.ts", Some(FileMark::Built)),
            ("docker/Dockerfile.dev", Some(FileMark::Built)),
            ("AGENTS.md", Some(FileMark::Instructions)),
            ("docs/CLAUDE.md", Some(FileMark::Instructions)),
            (".cursor/rules/x.mdc", Some(FileMark::Instructions)),
            (".roo/rules-code/x.md", Some(FileMark::Instructions)),
            (".clinerules/x.md", Some(FileMark::Instructions)),
            ("a/.bashrc", Some(FileMark::ShellStart)),
            ("dotfiles/.zshrc", Some(FileMark::ShellStart)),
            ("src/main.rs", None),
            ("configure/x.txt", None),
            ("agents.md.txt", None),
            ("", None),
        ] {
            assert_eq!(mark(Path::new(location)), expected, "{location}");
        }
    }
}

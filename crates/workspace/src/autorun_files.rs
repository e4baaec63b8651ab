//! Files that programs outside the sandbox execute or read as configuration: they decide what an editor, another agent or a build runs.
//!
//! They hold no secrets, so every tool may read them. But another program executes what a model writes there, without asking. So the file tools do
//! not change them, commands see them mounted read-only, and a new one that a command leaves is moved to quarantine.

use std::sync::LazyLock;

use crate::deny_list::{LastNameIndex, begins_with, matches_all, split};

/// What may be read and not be changed, in the notation of the deny list. This is the only list of them.
pub const AUTORUN_FILES: &[&str] = &[
    // MCP servers that an agent starts, mostly without asking once the directory is trusted.
    ".mcp.json",
    ".cursor/mcp.json",
    ".vscode/mcp.json",
    ".github/mcp.json",
    ".roo/mcp.json",
    ".kilocode/mcp.json",
    ".kilo/mcp.json",
    ".junie/mcp",
    ".amazonq/mcp.json",
    ".factory/mcp.json",
    ".trae/mcp.json",
    ".continue/mcpservers",
    // The same, in settings that also name hooks, formatters, language servers or tools that need no approval.
    ".gemini/settings.json",
    ".qwen/settings.json",
    ".amp/settings.json",
    ".zed/settings.json",
    ".kiro/settings",
    "opencode.json",
    "opencode.jsonc",
    "crush.json",
    ".crush.json",
    // Agent definitions with servers and hooks of their own.
    ".kiro/agents",
    ".amazonq/agents",
    ".amazonq/cli-agents",
    ".continue/agents",
    ".github/agents",
    ".claude/agents",
    // Plugins, which bring all of these.
    ".claude/plugins",
    ".claude-plugin",
    ".agents",
    ".agent",
    // Instructions that may name commands to run before they are read, or tools that need no approval.
    ".claude/skills",
    ".claude/commands",
    ".gemini/commands",
    ".cursor/commands",
    // Codex: servers, hooks, agents, and rules about which commands need no approval.
    ".codex",
    // opencode: settings, and plugins and tools that are loaded as code, with the packages that are installed for them.
    ".opencode",
    // Gemini CLI and Qwen Code: extensions bring servers and hooks, policies say what needs no approval.
    ".gemini/extensions",
    ".qwen/extensions",
    ".gemini/policies",
    // What an editor executes: tasks that run when a directory is opened, and programs that settings name.
    ".vscode/settings.json",
    ".vscode/tasks.json",
    ".vscode/launch.json",
    ".vscode/c_cpp_properties.json",
    "*.code-workspace",
    ".zed/tasks.json",
    ".zed/debug.json",
    ".idea/runconfigurations",
    ".idea/workspace.xml",
    ".idea/watchertasks.xml",
    ".run/*.run.xml",
    ".fleet/run.json",
    ".vs",
    ".exrc",
    ".nvimrc",
    ".nvim.lua",
    // Hooks, setup commands, linters and permissions of another agent.
    ".claude/settings*.json",
    ".claude/hooks",
    ".clinerules/hooks",
    ".factory/settings*.json",
    ".factory/hooks.json",
    ".factory/hooks",
    ".aider.conf.yml",
    ".cursor/worktrees.json",
    ".cursor/environment.json",
    ".openhands/setup.sh",
    ".cursor/hooks.json",
    ".cursor/cli.json",
    ".windsurf/hooks.json",
    ".kiro/hooks",
    ".github/hooks",
    // Containers whose settings may name commands to run on the host.
    ".devcontainer",
    ".devcontainer.json",
    // Wrappers, runners and linkers of every build below this directory.
    ".cargo/config",
    ".cargo/config.toml",
    // Files run by hooks that are installed once: husky's `_/pre-commit` runs the file of the same name in the directory above.
    ".husky",
    ".pre-commit-config.yaml",
    "lefthook.*",
    "lefthook-local.*",
    ".lefthook",
    ".lefthook.*",
    ".lefthook-local",
    ".lefthook-local.*",
    // Code that a package manager or a version manager loads whenever it is started below this directory.
    ".yarnrc",
    ".pnpmfile.cjs",
    "mise.toml",
    ".mise.toml",
    "mise.local.toml",
    ".mise.local.toml",
    ".config/mise.toml",
    ".mise/config.toml",
    "mise/config.toml",
    ".arcconfig",
    // Version control whose configuration lies in another repository, at the path in this file.
    ".hg/sharedpath",
    ".jj/repo",
];

/// Rules that match only a file when a command is confined: as a directory it is the repository itself, which its program writes.
const FILES_ONLY: &[&str] = &[".jj/repo"];

/// Where package managers unpack whole packages, which bring and remove such files by the hundred. They are not read-only for a command, which could
/// not update a package then; what has changed is moved to quarantine afterwards.
const PACKAGE_DIRECTORIES: &[&str] = &["node_modules", "site-packages", "vendor"];

/// Whether a folded location is an autorun file or lies below one.
pub(crate) fn triggers_execution(folded: &str) -> bool {
    from_each_name(folded, |name, below| AUTORUN_FILES.iter().any(|rule| begins_with(name, below, rule)))
}

/// Whether an autorun rule ends exactly at this folded location of a directory or of any other file type.
#[must_use]
pub fn ends_at_autorun_file(folded: &str, is_directory: bool) -> bool {
    let means = |rule: &&&str| !(is_directory && FILES_ONLY.contains(*rule));
    from_each_name(folded, |name, below| {
        AUTORUN_FILES.iter().filter(means).any(|rule| matches_all(name, below, rule))
    })
}

/// Whether a folded location lies in a package directory.
#[must_use]
pub fn is_in_package(folded: &str) -> bool {
    folded.split('/').any(|name| PACKAGE_DIRECTORIES.contains(&name))
}

fn from_each_name(folded: &str, applies: impl Fn(&str, Option<&str>) -> bool) -> bool {
    let mut rest = folded;
    loop {
        let (name, below) = split(rest);
        if applies(name, below) {
            return true;
        }
        let Some(below) = below else { return false };
        rest = below;
    }
}

/// The directories that autorun files lie in: one that is a symlink would lead to a directory that was not checked.
pub fn autorun_directories() -> impl Iterator<Item = &'static str> {
    AUTORUN_FILES.iter().filter_map(|rule| rule.split_once('/')).map(|(folder, _)| folder)
}

/// Whether a plain name may be the last one of an autorun file, in any case.
#[must_use]
pub fn may_trigger_execution(name: &[u8]) -> bool {
    static LAST_NAMES: LazyLock<LastNameIndex> = LazyLock::new(|| LastNameIndex::of(AUTORUN_FILES));
    LAST_NAMES.may_match(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Locations are folded before they are compared, and only the first directory of a rule is checked for being a symlink.
    #[test]
    fn rules_are_folded_and_no_deeper_than_a_link_is_looked_for() {
        for rule in AUTORUN_FILES {
            assert_eq!(*rule, rule.to_lowercase());
            assert!(rule.split('/').count() <= 2, "{rule}");
        }
    }

    #[test]
    fn a_directory_that_its_program_writes_is_none_of_these() {
        assert!(!ends_at_autorun_file(".jj/repo", true) && triggers_execution(".jj/repo/store/x"));
        assert!(is_in_package("a/node_modules/b") && !is_in_package("a/vendored"));
    }

    #[test]
    fn what_is_obeyed_is_told_wherever_it_lies() {
        for (location, ends) in [
            (".mcp.json", true),
            ("a/.vscode/tasks.json", true),
            (".claude/settings.json", true),
            (".claude/settings.local.json", true),
            (".devcontainer", true),
            (".devcontainer/x/dockerfile", false),
            (".idea/runconfigurations/a.xml", false),
            ("crates/x/.cargo/config.toml", true),
            (".codex", true),
            (".codex/config.toml", false),
            ("a/.opencode/plugins/x.ts", false),
            (".kiro/settings/mcp.json", false),
            (".kiro/settings", true),
            (".continue/mcpservers/x.yaml", false),
            ("packages/a/opencode.jsonc", true),
            (".gemini/settings.json", true),
            (".zed/tasks.json", true),
            (".claude/agents/reviewer.md", false),
            (".claude/skills/a/skill.md", false),
            (".claude/commands", true),
            (".claude/hooks/check.sh", false),
            (".github/agents/a.agent.md", false),
            (".clinerules/hooks/pretooluse", false),
            (".factory/settings.local.json", true),
            (".aider.conf.yml", true),
            (".cursor/worktrees.json", true),
            ("node_modules/x/.vscode/settings.json", true),
            ("vendor/x/.husky/pre-commit", false),
            (".husky", true),
            (".husky/_/pre-commit", false),
            ("a/x.code-workspace", true),
            (".run/all.run.xml", true),
            (".vs/tasks.vs.json", false),
            ("a/lefthook.toml", true),
            (".hg/sharedpath", true),
            (".jj/repo", true),
            (".gemini/commands/test.toml", false),
        ] {
            assert!(triggers_execution(location), "{location}");
            assert_eq!(ends_at_autorun_file(location, false), ends, "{location}");
            let name = location.rsplit('/').next().unwrap();
            assert!(!ends || may_trigger_execution(name.to_uppercase().as_bytes()), "{location}");
        }
        for location in [
            "",
            "mcp.json",
            ".vscode/extensions.json",
            ".vscode",
            ".cargo/x",
            "settings.json",
            ".kiro/steering/product.md",
            ".husky.md",
            "code-workspace",
            ".run/x.xml",
            "lefthook/x",
            ".jj/working_copy/x",
            ".idea/modules.xml",
            ".github/workflows/ci.yml",
            ".cursor/rules/x.mdc",
            ".clinerules/style.md",
            ".claude/rules/style.md",
            "claude.md",
            "codex/config.toml",
        ] {
            assert!(!triggers_execution(location) && !ends_at_autorun_file(location, false), "{location}");
        }
    }
}

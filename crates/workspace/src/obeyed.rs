//! Files that programs outside the sandbox obey: they say what an editor, another agent or a build runs.
//!
//! They hold no secrets, so everybody may read them. But what a model writes there is run by somebody else, without a question: so the file tools do not
//! change them, commands find them frozen, and what a command newly leaves there is taken away.

use std::sync::LazyLock;

use crate::deny_list::{LastNames, begins_with, matches_all, split};

/// What may be read and not be changed, in the notation of the deny list. This is the one place that names it.
pub(crate) const OBEYED: &[&str] = &[
    // Servers that an agent starts, most of them without a question once the folder is trusted.
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
    // The same, among settings that also name hooks, formatters, language servers or what needs no approval.
    ".gemini/settings.json",
    ".qwen/settings.json",
    ".amp/settings.json",
    ".zed/settings.json",
    ".kiro/settings",
    "opencode.json",
    "opencode.jsonc",
    "crush.json",
    ".crush.json",
    // Agents that bring servers and hooks of their own.
    ".kiro/agents",
    ".amazonq/agents",
    ".amazonq/cli-agents",
    ".continue/agents",
    ".github/agents",
    ".claude/agents",
    // The same for instructions, which may also say what is run before they are read, or which tools need no approval.
    ".claude/skills",
    ".claude/commands",
    // Codex: servers, hooks, agents, and rules about which commands need no approval.
    ".codex",
    // opencode: settings, and plugins and tools that are loaded as code, with the packages that are installed for them.
    ".opencode",
    // Gemini CLI and Qwen Code: extensions bring servers and hooks, policies say what needs no approval.
    ".gemini/extensions",
    ".qwen/extensions",
    ".gemini/policies",
    // What an editor runs: tasks when a folder is opened, and programs that settings name.
    ".vscode/settings.json",
    ".vscode/tasks.json",
    ".vscode/launch.json",
    ".zed/tasks.json",
    ".zed/debug.json",
    ".idea/runconfigurations",
    // Hooks, setup commands, linters and permissions of another agent.
    ".claude/settings*.json",
    ".claude/hooks",
    ".clinerules/hooks",
    ".factory/settings*.json",
    ".factory/hooks.json",
    ".factory/hooks",
    ".aider.conf.yml",
    ".cursor/worktrees.json",
    ".cursor/hooks.json",
    ".cursor/cli.json",
    ".windsurf/hooks.json",
    ".kiro/hooks",
    ".github/hooks",
    // Containers, with commands of the host among their settings.
    ".devcontainer",
    ".devcontainer.json",
    // Wrappers, runners and linkers of every build below.
    ".cargo/config",
    ".cargo/config.toml",
];

/// Packages bring such files along by the hundred, and nobody opens a package as a project.
const PACKAGES: &[&str] = &["node_modules", "site-packages", "vendor"];

/// Whether a folded location is, or lies in, what is obeyed.
pub(crate) fn is_obeyed(folded: &str) -> bool {
    from_each_name(folded, |name, below| OBEYED.iter().any(|rule| begins_with(name, below, rule)))
}

/// Whether what is obeyed ends right at this folded location.
pub(crate) fn ends_at_obeyed(folded: &str) -> bool {
    from_each_name(folded, |name, below| OBEYED.iter().any(|rule| matches_all(name, below, rule)))
}

fn from_each_name(folded: &str, applies: impl Fn(&str, Option<&str>) -> bool) -> bool {
    let mut rest = folded;
    loop {
        let (name, below) = split(rest);
        if PACKAGES.contains(&name) {
            return false;
        }
        if applies(name, below) {
            return true;
        }
        let Some(below) = below else { return false };
        rest = below;
    }
}

/// The folders that such files lie in: as a link they lead to one that nobody has looked at.
pub(crate) fn obeyed_folders() -> impl Iterator<Item = &'static str> {
    OBEYED.iter().filter_map(|rule| rule.split_once('/')).map(|(folder, _)| folder)
}

/// Whether a plain name may be the last one of such a file, in any case.
pub(crate) fn may_be_obeyed(name: &[u8]) -> bool {
    static LAST_NAMES: LazyLock<LastNames> = LazyLock::new(|| LastNames::of(OBEYED));
    LAST_NAMES.may_match(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Locations are folded before they are compared, and only the first folder of a rule is looked for as a link.
    #[test]
    fn rules_are_folded_and_no_deeper_than_a_link_is_looked_for() {
        for rule in OBEYED {
            assert_eq!(*rule, rule.to_lowercase());
            assert!(rule.split('/').count() <= 2, "{rule}");
        }
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
        ] {
            assert!(is_obeyed(location), "{location}");
            assert_eq!(ends_at_obeyed(location), ends, "{location}");
            let name = location.rsplit('/').next().unwrap();
            assert!(!ends || may_be_obeyed(name.to_uppercase().as_bytes()), "{location}");
        }
        for location in [
            "",
            "mcp.json",
            ".vscode/extensions.json",
            ".vscode",
            "node_modules/x/.vscode/settings.json",
            ".cargo/x",
            "settings.json",
            ".kiro/steering/product.md",
            ".gemini/commands/test.toml",
            ".github/workflows/ci.yml",
            ".cursor/rules/x.mdc",
            ".clinerules/style.md",
            ".claude/rules/style.md",
            "claude.md",
            "codex/config.toml",
        ] {
            assert!(!is_obeyed(location) && !ends_at_obeyed(location), "{location}");
        }
    }
}

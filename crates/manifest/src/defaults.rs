//! `agents.defaults`: defaults for every agent, in the keys of profile `claw`.

use crate::config::Config;
use crate::conversation::iterations;
use crate::decode::{ConfigField, KeySpec, Section, flag, key, path};
use crate::path::DeclaredPath;
use crate::problem::Located;
use crate::problem_report::ProblemReport;

const DEFAULTS: &[KeySpec] = &[
    key("workspace", "workspace: ~/workspace"),
    key("restrict_to_workspace", "restrict_to_workspace: true"),
    key("max_tool_iterations", "max_tool_iterations: 20"),
];

/// The same as `workspace` and `conversation.max_tool_iterations`; not an agent.
#[derive(Debug, Default)]
pub(crate) struct AgentDefaults {
    workspace: Option<Located<DeclaredPath>>,
    max_tool_iterations: Option<Located<u32>>,
}

impl AgentDefaults {
    /// Its key among the agents.
    pub(crate) const NAME: &str = "defaults";

    pub(crate) fn read(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Self> {
        let field = ConfigField { name: "`agents.defaults`".to_owned(), node: field.node.clone(), ..*field };
        let section = Section::read(&field, DEFAULTS, report)?;
        if section.get("restrict_to_workspace", report, flag) == Some(false)
            && let Some(field) = section.field("restrict_to_workspace")
        {
            let help = "say `true` or leave it out, and name the directories that tools may reach as well under `mounts`";
            report.node(
                &field.node,
                "no tool reaches beyond the workspace and its mounts",
                Some(help.to_owned()),
            );
        }
        let iterations = |field: &ConfigField, report: &mut ProblemReport<'_>| {
            Some(field.locate(iterations(field, report)?))
        };
        Some(Self {
            workspace: section.get("workspace", report, path),
            max_tool_iterations: section.get("max_tool_iterations", report, iterations),
        })
    }

    /// Applies each to the configuration; one that is set there already is a problem.
    pub(crate) fn apply(self, config: &mut Config, report: &mut ProblemReport<'_>) {
        let help = || Some("keep one of them".to_owned());
        if let Some(workspace) = self.workspace {
            if config.workspace.is_some() {
                report.located(
                    &workspace,
                    "`agents.defaults.workspace` says again what `workspace` says",
                    help(),
                );
            }
            config.workspace = Some(workspace);
        }
        if let Some(iterations) = self.max_tool_iterations {
            if config.conversation.max_tool_iterations.is_some() {
                let message = "`agents.defaults.max_tool_iterations` says again what `conversation.max_tool_iterations` says";
                report.located(&iterations, message, help());
            }
            config.conversation.max_tool_iterations = Some(iterations.value);
        }
    }
}

//! `tool_search`: where there are many tools, a model finds them instead of being offered all of them.

use toolgate_types::ToolName;

use crate::decode::{ConfigField, KeySpec, Section, count, key, list, located_text, parsed};
use crate::problem::Located;
use crate::problem_report::ProblemReport;

const TOOL_SEARCH: &[KeySpec] = &[key("above", "above: 40"), key("always", "always: [github__get_issue]")];

/// `tool_search`. Absent means that every tool is offered.
#[derive(Clone, Debug)]
pub struct ToolSearchConfig {
    /// `above`: up to this number of tools, all are offered; 40 by default.
    pub above: u64,
    /// `always`: tools that are always offered, besides those of the profile.
    pub always: Vec<Located<ToolName>>,
}

/// The default threshold. Models choose noticeably worse among more tools than this.
const DEFAULT_ABOVE: u64 = 40;

pub(crate) fn tool_search(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<ToolSearchConfig> {
    let section = Section::read(field, TOOL_SEARCH, report)?;
    let above = section.get("above", report, count).unwrap_or(DEFAULT_ABOVE);
    let always = section.get("always", report, |field, report| list(field, "tool", report, tool_name));
    Some(ToolSearchConfig { above, always: always.unwrap_or_default() })
}

fn tool_name(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Located<ToolName>> {
    let name = located_text(field, report)?;
    parsed(&name, report)
}

//! `docs/workspace.md` lists in full what is denied, what is protected, and what is marked.

use toolgate_workspace::{AUTORUN_FILES, DEFAULT_DENY, HOME_AUTORUN_FILES, MARKED};

use crate::markdown_tables::rows;

const PAGE: &str = include_str!("../../../../docs/workspace.md");

fn listed(heading: &str) -> Vec<String> {
    let cells = rows(PAGE, heading);
    let rules = cells.iter().flat_map(|cells| cells[1].split(' '));
    rules.map(|rule| rule.trim_matches('`').to_owned()).collect()
}

#[test]
fn the_page_lists_every_rule_in_order() {
    assert_eq!(listed("### The built-in deny list"), DEFAULT_DENY);
    assert_eq!(listed("### What editors and other agents obey"), AUTORUN_FILES);
    assert_eq!(listed("### A home directory as the workspace"), HOME_AUTORUN_FILES);
    let marked: Vec<&str> = MARKED.iter().flat_map(|(_, rules)| rules.iter().copied()).collect();
    assert_eq!(listed("### What stays writable"), marked);
}

//! `docs/workspace.md` lists the built-in deny list in full.

use toolgate_workspace::DEFAULT_DENY;

use crate::page::rows;

const PAGE: &str = include_str!("../../../../docs/workspace.md");

#[test]
fn the_page_lists_every_rule_in_order() {
    let listed: Vec<&str> = rows(PAGE, "### The built-in deny list")
        .iter()
        .flat_map(|cells| cells[1].split(' '))
        .map(|rule| rule.trim_matches('`'))
        .collect();
    assert_eq!(listed, DEFAULT_DENY);
}

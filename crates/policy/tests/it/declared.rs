//! What a configuration file permits.

use std::path::Path;
use std::time::Duration;

use toolgate_manifest::Config;
use toolgate_policy::{AgentScope, Grant, ScopeVerdict, effective_limits};
use toolgate_types::{Limits, ToolClass};

const FILE: &str = "\
agents:
  reader: {max_read_bytes: 10}
  nobody: {tool_permissions: {}}
  sm:
    max_read_bytes: 100
    max_write_bytes: 200
    timeout: 10s
    tool_permissions:
      read_file: {allowed: true}
      write_file: {allowed: true, paths: [\"src/**\"], timeout: 120s, max_write_bytes: 5000}
      delete_file: {allowed: false}
";

const BASE: Limits = Limits {
    max_read_bytes: 1,
    max_resource_bytes: u64::MAX,
    max_write_bytes: 2,
    max_entries: 3,
    max_matches: 4,
    max_output_bytes: 5,
    timeout: Duration::from_secs(6),
};

fn config() -> Config {
    Config::parse("toolgate.yaml", FILE).unwrap()
}

fn verdict(agent: Option<&str>, tool: &str, class: ToolClass) -> ScopeVerdict {
    let config = config();
    AgentScope::of(agent.map(|name| config.agent(name).unwrap())).permits(tool, class)
}

fn grant(agent: &str, tool: &str) -> Grant {
    match verdict(Some(agent), tool, ToolClass::Destructive) {
        ScopeVerdict::Allowed(grant) => grant,
        ScopeVerdict::Denied { operator_reason } => panic!("{operator_reason}"),
    }
}

#[test]
fn a_person_may_use_every_tool() {
    for class in [ToolClass::Read, ToolClass::Write, ToolClass::Destructive] {
        let ScopeVerdict::Allowed(grant) = verdict(None, "anything", class) else { panic!("denied") };
        assert!(grant.paths.is_none());
        assert_eq!(effective_limits(BASE, None, &grant), BASE);
    }
}

#[test]
fn every_denial_says_which_declaration_decided() {
    let mut reasons = String::new();
    for (agent, tool, class) in [
        ("reader", "write_file", ToolClass::Write),
        ("reader", "delete_file", ToolClass::Destructive),
        ("nobody", "read_file", ToolClass::Read),
        ("sm", "list_directory", ToolClass::Read),
        ("sm", "delete_file", ToolClass::Destructive),
        ("sm", "READ_FILE", ToolClass::Read),
    ] {
        match verdict(Some(agent), tool, class) {
            ScopeVerdict::Allowed(_) => panic!("{agent} may use {tool}"),
            ScopeVerdict::Denied { operator_reason } => reasons += &format!("{operator_reason}\n"),
        }
    }
    insta::assert_snapshot!("reasons", reasons);
}

#[test]
fn an_agent_without_permissions_reads() {
    assert!(verdict(Some("reader"), "read_file", ToolClass::Read).is_allowed());
    assert!(verdict(Some("reader"), "a_tool_nobody_heard_of", ToolClass::Read).is_allowed());
}

#[test]
fn a_listed_tool_is_permitted_whatever_its_class() {
    for class in [ToolClass::Read, ToolClass::Write, ToolClass::Destructive] {
        assert!(verdict(Some("sm"), "write_file", class).is_allowed());
    }
}

#[test]
fn a_grant_carries_its_paths() {
    let paths = grant("sm", "write_file").paths.unwrap();
    assert!(paths.matches(Path::new("src/main.rs")) && !paths.matches(Path::new("README.md")));
    assert_eq!(paths.patterns(), ["src/**"]);
    assert!(grant("sm", "read_file").paths.is_none());
}

#[test]
fn the_closest_declaration_of_a_limit_wins() {
    let config = config();
    let sm = config.agent("sm");
    let read = effective_limits(BASE, sm, &grant("sm", "read_file"));
    let ten = Duration::from_secs(10);
    let bytes = Limits { max_read_bytes: 100, max_resource_bytes: 100, ..BASE };
    assert_eq!(read, Limits { max_write_bytes: 200, timeout: ten, ..bytes });
    let write = effective_limits(BASE, sm, &grant("sm", "write_file"));
    let two_minutes = Duration::from_secs(120);
    assert_eq!(write, Limits { max_write_bytes: 5000, timeout: two_minutes, ..bytes });
}

//! `docs/profiles.md` lists the profiles' actual tools, arguments and limits.

use std::sync::Arc;

use serde_json::Value;
use toolgate_gate::{Tool, ToolSpec};
use toolgate_tools::{ManifestContext, NOTICE, Profile, ToolComponents, load_manifests};

use crate::markdown_tables::rows;

const PAGE: &str = include_str!("../../../../docs/profiles.md");

#[test]
fn the_page_lists_every_tool_with_its_class_and_arguments() {
    let (scratch, workspace, runner) = crate::fixture::setting();
    for profile in Profile::all() {
        let project = [("@project", true)];
        let surroundings = ManifestContext { mounts: &project, ..ManifestContext::default() };
        let shipped = load_manifests(profile.shipped(), &surroundings).unwrap();
        let (commands, declared) = (Some(Arc::clone(&runner)), shipped.tools(&runner));
        let web_search = Some(crate::web_search::nowhere());
        let background = Some(crate::assembled::background());
        let parts = ToolComponents {
            commands,
            background,
            declared,
            web_search,
            ..ToolComponents::files(&workspace)
        };
        let registry = profile.registry(&parts).unwrap();
        let own: Vec<&str> = registry.names().take(profile.tool_names().len()).collect();
        assert_eq!(own, profile.tool_names(), "{profile} declares a tool that cannot be registered");
        let wanted: Vec<String> = registry.iter().map(|tool| row(tool.spec())).collect();
        let listed: Vec<String> = rows(PAGE, &format!("### Tools of `{profile}`"))
            .iter()
            .map(|cells| cells[..3].join(" | "))
            .collect();
        assert_eq!(listed, wanted, "docs/profiles.md should hold:\n| {} |", wanted.join(" |\n| "));
    }
    drop(scratch);
}

#[test]
fn without_commands_and_engines_there_is_no_shell_and_no_web() {
    let (_scratch, workspace, _) = crate::fixture::setting();
    for profile in Profile::all() {
        let registry = profile.registry(&ToolComponents::files(&workspace)).unwrap();
        let is_more = |name| matches!(name, "run_command" | "bash" | "web_search");
        assert!(!registry.names().any(is_more), "{profile}");
    }
}

/// A frontend adds the notice to the structured answer without copying our schema to declare it.
#[test]
fn tools_whose_answers_can_be_cut_declare_the_notice_about_it() {
    let (_scratch, workspace, runner) = crate::fixture::setting();
    let is_declared = |tool: &Arc<dyn Tool>, name: &str| tool.spec().output_schema.property(name).is_some();
    for profile in Profile::all() {
        let web_search = Some(crate::web_search::nowhere());
        let parts = ToolComponents {
            commands: Some(Arc::clone(&runner)),
            background: Some(crate::assembled::background()),
            web_search,
            ..ToolComponents::files(&workspace)
        };
        let registry = profile.registry(&parts).unwrap();
        // A frontend adds no notice to answers with `content`.
        for tool in registry.iter().filter(|tool| !is_declared(tool, "content")) {
            let name = &tool.spec().name;
            assert_eq!(is_declared(tool, "truncated"), is_declared(tool, NOTICE), "{profile} {name}");
        }
    }
}

fn row(spec: &ToolSpec) -> String {
    let required = spec.input_schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let names = spec.input_schema["properties"].as_object().unwrap().keys();
    let mark = |name: &String| match required.contains(&Value::String(name.clone())) {
        true => format!("`{name}`"),
        false => format!("`{name}?`"),
    };
    let arguments: Vec<String> = names.map(mark).collect();
    format!("`{}` | {} | {}", spec.name, spec.class.as_str(), arguments.join(", "))
}

#[test]
fn the_page_lists_the_limits() {
    let listed: Vec<String> = rows(PAGE, "## Limits").iter().map(|cells| cells.join(" | ")).collect();
    let wanted: Vec<String> = Profile::all().map(limits).collect();
    assert_eq!(listed, wanted, "docs/profiles.md should hold:\n| {} |", wanted.join(" |\n| "));
}

fn limits(profile: Profile) -> String {
    let limits = profile.limits();
    format!(
        "`{profile}` | {} | {} | {} | {} | {} | {} s",
        limits.max_read_bytes,
        limits.max_write_bytes,
        limits.max_entries,
        limits.max_matches,
        limits.max_output_bytes,
        limits.timeout.as_secs()
    )
}

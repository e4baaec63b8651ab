//! What each built-in tool declares, pinned in full: models depend on these schemas, and the output schema of a tool is not in every tool list.

use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_gate::ToolSpec;
use toolgate_tools::{Profile, ToolComponents};

#[test]
fn built_in_tools_declare_what_the_snapshots_show() {
    let (_scratch, workspace, runner) = crate::fixture::setting();
    for profile in Profile::all() {
        let parts = ToolComponents {
            commands: Some(Arc::clone(&runner)),
            background: Some(crate::assembled::background()),
            web_search: Some(crate::web_search::nowhere()),
            ..ToolComponents::files(&workspace)
        };
        let registry = profile.registry(&parts).unwrap();
        let declared: Value = registry.iter().map(|tool| definition(tool.spec())).collect();
        insta::assert_snapshot!(profile.name(), format!("{declared:#}"));
    }
}

fn definition(spec: &ToolSpec) -> Value {
    json!({
        "name": spec.name.as_str(), "title": spec.title, "description": spec.description, "class": spec.class.as_str(),
        "category": spec.category, "input": spec.input_schema, "output": spec.output_schema,
    })
}

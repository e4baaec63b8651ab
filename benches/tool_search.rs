//! `find_tools` over 5,000 tools, compared with reading every description once by hand.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a benchmark may stop at the first surprise"
)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use toolgate_benches::{Bench, in_turns, report, report_extra};
use toolgate_gate::{
    ApprovedCall, CallContext, GateConfig, Registry, Tool, ToolFuture, ToolSearchRule, ToolSpec,
};
use toolgate_policy::Requirements;
use toolgate_tools::{Profile, tool_search_tools};
use toolgate_types::{Category, ErrorCode, Failure, ToolClass};

const TOOLS: usize = 5_000;

const VERBS: [&str; 10] =
    ["create", "list", "delete", "update", "search", "merge", "assign", "close", "export", "rename"];

const THINGS: [&str; 20] = [
    "issue", "branch", "user", "team", "page", "table", "row", "file", "folder", "message", "channel",
    "event", "invoice", "customer", "order", "ticket", "sprint", "board", "label", "comment",
];

/// A tool of one of many servers.
struct Listed(ToolSpec);

impl Tool for Listed {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run(self: Arc<Self>, _: ApprovedCall, _: CallContext) -> ToolFuture {
        Box::pin(async { Err(Failure::new(ErrorCode::Internal, "never run")) })
    }
}

fn listed(number: usize) -> Arc<dyn Tool> {
    let (verb, thing) = (VERBS[number % VERBS.len()], THINGS[number / VERBS.len() % THINGS.len()]);
    let server = number / (VERBS.len() * THINGS.len());
    let text =
        json!({"type": "string", "description": format!("The {thing} that is meant, by its id or name")});
    let class = ToolClass::Read;
    let description = format!(
        "{verb} a {thing} in the workspace of the product number {server}. Answers with the {thing} as it is afterwards, with its id, its \
         author, and when it was changed. Needs access to the project that the {thing} belongs to."
    );
    Arc::new(Listed(ToolSpec {
        name: format!("server{server}__{verb}_{thing}").parse().unwrap(),
        title: format!("{verb} {thing}"),
        description,
        class,
        category: Category::Mcp,
        input_schema: json!({"type": "object", "properties": {"project": text, thing: text}}).into(),
        output_schema: json!({}).into(),
        requirements: Some(Requirements { permissions: Vec::new(), elevated: None, class }),
        output_policy: None,
        timeout: None,
        suspended: None,
    }))
}

fn main() {
    let scratch = tempfile::tempdir_in(".").unwrap();
    let bench = Bench::over(&scratch.path().join("w"), &scratch.path().join("s"));
    let tools: Vec<Arc<dyn Tool>> = (0..TOOLS).map(listed).collect();
    let mut registry = Registry::new();
    tools.iter().cloned().chain(tool_search_tools()).for_each(|tool| registry.register(tool).unwrap());
    let tool_search = Some(ToolSearchRule { above: 40, always: Vec::new() });
    let config = GateConfig { tool_search, ..GateConfig::new(registry, Profile::NATIVE.limits()) };
    bench.front().gate().replace_config(config);
    for (name, query) in [
        ("rare", "rename an invoice of product 17"),
        ("common", "workspace project access changed author id"),
    ] {
        let find = || drop(black_box(bench.call("find_tools", json!({"query": query}), true)));
        let words: Vec<&str> = query.split(' ').collect();
        let by_hand = || {
            let fits = |tool: &Arc<dyn Tool>| {
                let spec = tool.spec();
                let text = format!("{} {}", spec.name, spec.description).to_lowercase();
                words.iter().filter(|word| text.contains(**word)).count()
            };
            black_box(tools.iter().map(fits).max());
        };
        // The first search builds the index.
        find();
        let (ours, scan) = in_turns(101, find, by_hand);
        report(&format!("tool-search/find-5000-{name}"), ours, scan, "scan", 4.0);
        let bound = Duration::from_millis(5);
        report_extra(&format!("tool-search/find-5000-{name}-time"), ours, Duration::ZERO, "nothing", bound);
    }
}

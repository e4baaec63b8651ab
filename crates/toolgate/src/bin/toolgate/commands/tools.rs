//! `toolgate tools`: the tools that a model would see.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_assembly::gate_builder::{self, GateBuildOptions};
use toolgate_assembly::servers::ServerSelection;
use toolgate_gate::Tool;
use toolgate_schema::required_names;
use toolgate_serve::listed_tools;
use toolgate_tools::ToolFormat;
use toolgate_types::{ArgumentRole, FlowDeclaration, Trust};

use super::{close_servers, no_approver, print, serving_runtime, token_verification};
use crate::approval_screen::Screen;
use crate::arguments::{GlobalOptions, ToolListFormat};
use crate::exit::{CliError, DENIED, SUCCESS};
use crate::startup::resolve_settings;
use crate::terminal::{PLAIN_SCREEN, escape_json, screen};

pub(crate) fn run(common: &GlobalOptions, format: ToolListFormat) -> Result<u8, CliError> {
    let settings = resolve_settings(common, Trust::Guided)?;
    let credential = settings.credential(&common.overrides())?;
    let runtime = serving_runtime()?;
    let how = GateBuildOptions {
        servers: Some((ServerSelection::All, runtime.handle().clone())),
        wait_on: Some(&runtime),
        ..GateBuildOptions::without_servers(no_approver(), token_verification(common))
    };
    let built = gate_builder::build_gate(&settings, how)?;
    settings.warn_of_unknown_tools(&built.tools);
    let asked = runtime.block_on(async {
        let gate = built.gate.gate();
        // For people all of them, for models those that they are offered.
        let asked = match format {
            ToolListFormat::Table => gate.tools_for(credential).await,
            _ => gate.offered_tools(credential).await,
        };
        close_servers(built.servers.as_deref()).await;
        asked
    });
    let tools = asked.map_err(|failure| {
        let note = failure.operator_note.map(|note| format!(": {note}")).unwrap_or_default();
        CliError { code: DENIED, ..CliError::error(format!("{}{note}", failure.message)) }
    })?;
    let written = match format {
        ToolListFormat::Table if common.json => json_table(&tools, built.gate.gate().tracks_flow()),
        ToolListFormat::Table => {
            let text = table(&tools, built.gate.gate().tracks_flow(), stdout_screen());
            return print(&text).map(|_| SUCCESS);
        }
        ToolListFormat::Openai => ToolFormat::OpenAi.write(&tools),
        ToolListFormat::Anthropic => ToolFormat::Anthropic.write(&tools),
        ToolListFormat::Ollama => ToolFormat::Ollama.write(&tools),
        ToolListFormat::Mcp => listed_tools(&built.gate, &tools),
    };
    let text = serde_json::to_string_pretty(&written).map_err(|error| CliError::error(error.to_string()))?;
    print(&escape_json(&format!("{text}\n")))?;
    Ok(SUCCESS)
}

fn argument_names(tool: &Arc<dyn Tool>) -> Vec<String> {
    let schema = &tool.spec().input_schema;
    let required = required_names(schema.get("required"));
    let properties = schema.get("properties").and_then(Value::as_object);
    let mark =
        |name: &String| if required.contains(&name.as_str()) { name.clone() } else { format!("{name}?") };
    properties.into_iter().flat_map(|properties| properties.keys().map(mark)).collect()
}

/// On a terminal long lines are wrapped here, so that none continues in the first column, where tool names are; a file has no width.
fn stdout_screen() -> Screen {
    let stdout = io::stdout();
    if stdout.is_terminal() { screen(&stdout) } else { Screen { columns: usize::MAX, ..PLAIN_SCREEN } }
}

/// What a tool does to information, in one line: `egress, output untrusted, targets: to`.
fn flow_words(flow: &FlowDeclaration) -> String {
    let mut words = vec![flow.effect.as_str().to_owned()];
    if !flow.output.is_empty() {
        words.push(format!("output {}", flow.output.words().collect::<Vec<_>>().join(" and ")));
    }
    if flow.directory {
        words.push("a directory".to_owned());
    }
    let targets = flow.arguments.iter().filter(|(_, role)| matches!(role, ArgumentRole::Target(_)));
    let targets: Vec<&str> = targets.map(|(name, _)| name.as_str()).collect();
    if !targets.is_empty() {
        words.push(format!("targets: {}", targets.join(" ")));
    }
    words.join(", ")
}

fn table(tools: &[Arc<dyn Tool>], tracks_flow: bool, screen: Screen) -> String {
    let mut text = String::new();
    for tool in tools {
        let spec = tool.spec();
        let arguments = argument_names(tool).join(", ");
        let row = format!("{:<16} {:<12} {arguments}", spec.name.as_str(), spec.class.as_str());
        text.push_str(&screen.line(row.trim_end(), ""));
        text.push_str(&screen.indented(&spec.description));
        if tracks_flow {
            text.push_str(&screen.indented(&format!("flow: {}", flow_words(&tool.information_flow()))));
        }
    }
    if tools.is_empty() {
        text.push_str("no tools: this caller may use none\n");
    }
    text
}

fn flow_json(flow: &FlowDeclaration) -> Value {
    let role = |role: &ArgumentRole| match role {
        ArgumentRole::Target(_) => "target",
        ArgumentRole::Content => "content",
    };
    let arguments: serde_json::Map<String, Value> =
        flow.arguments.iter().map(|(name, of)| (name.clone(), json!(role(of)))).collect();
    let output: Vec<&str> = flow.output.words().collect();
    json!({"effect": flow.effect, "output": output, "directory": flow.directory, "arguments": arguments})
}

fn json_table(tools: &[Arc<dyn Tool>], tracks_flow: bool) -> Value {
    let row = |tool: &Arc<dyn Tool>| {
        let spec = tool.spec();
        let mut row = json!({"name": spec.name, "class": spec.class, "category": spec.category, "description": spec.description, "arguments": argument_names(tool)});
        if let (Some(version), Value::Object(fields)) = (tool.version(), &mut row) {
            fields.insert("version".to_owned(), json!(version));
            fields.insert("changelog".to_owned(), json!(tool.changelog()));
        }
        if let (true, Value::Object(fields)) = (tracks_flow, &mut row) {
            fields.insert("flow".to_owned(), flow_json(&tool.information_flow()));
        }
        row
    };
    Value::Array(tools.iter().map(row).collect())
}

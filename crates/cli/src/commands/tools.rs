//! `toolgate tools`: what a model would see.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_gate::Tool;
use toolgate_serve::listed_tools;
use toolgate_tools::ToolFormat;
use toolgate_types::Trust;

use super::{close, nobody, print, serving_runtime, tokens};
use crate::arguments::{Common, Format};
use crate::build::{self, How};
use crate::exit::{DENIED, DONE, Failed};
use crate::question::Screen;
use crate::servers::Which;
use crate::settings::settle;
use crate::terminal::{PAPER, screen, spelt_out};

pub(crate) fn run(common: &Common, format: Format) -> Result<u8, Failed> {
    let settings = settle(common, Trust::Guided)?;
    let credential = settings.credential(common)?;
    let runtime = serving_runtime()?;
    let how =
        How { servers: Some((Which::All, &runtime)), wait: true, ..How::alone(nobody(), tokens(common)) };
    let built = build::gate(&settings, how)?;
    settings.warn_of_unknown_tools(&built.tools);
    let asked = runtime.block_on(async {
        let asked = built.front.gate().tools_for(credential).await;
        close(built.servers.as_deref()).await;
        asked
    });
    let tools = asked.map_err(|failure| {
        let note = failure.operator_note.map(|note| format!(": {note}")).unwrap_or_default();
        Failed { code: DENIED, ..Failed::error(format!("{}{note}", failure.message)) }
    })?;
    let written = match format {
        Format::Table if common.json => json_table(&tools),
        Format::Table => return print(&table(&tools, here())).map(|_| DONE),
        Format::Openai => ToolFormat::OpenAi.write(&tools),
        Format::Anthropic => ToolFormat::Anthropic.write(&tools),
        Format::Ollama => ToolFormat::Ollama.write(&tools),
        Format::Mcp => listed_tools(&built.front, &tools),
    };
    let text = serde_json::to_string_pretty(&written).map_err(|error| Failed::error(error.to_string()))?;
    print(&spelt_out(&format!("{text}\n")))?;
    Ok(DONE)
}

fn argument_names(tool: &Arc<dyn Tool>) -> Vec<String> {
    let schema = &tool.spec().input_schema;
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let properties = schema.get("properties").and_then(Value::as_object);
    let mark =
        |name: &String| if required.contains(&name.as_str()) { name.clone() } else { format!("{name}?") };
    properties.into_iter().flat_map(|properties| properties.keys().map(mark)).collect()
}

/// A terminal breaks long lines in its first column, where the next tool would stand; a file has no columns.
fn here() -> Screen {
    let stdout = io::stdout();
    if stdout.is_terminal() { screen(&stdout) } else { Screen { columns: usize::MAX, ..PAPER } }
}

fn table(tools: &[Arc<dyn Tool>], screen: Screen) -> String {
    let mut text = String::new();
    for tool in tools {
        let spec = tool.spec();
        let arguments = argument_names(tool).join(", ");
        let row = format!("{:<16} {:<12} {arguments}", spec.name.as_str(), spec.class.as_str());
        text.push_str(&screen.line(row.trim_end(), ""));
        text.push_str(&screen.indented(&spec.description));
    }
    if tools.is_empty() {
        text.push_str("no tools: this caller may use none\n");
    }
    text
}

fn json_table(tools: &[Arc<dyn Tool>]) -> Value {
    let row = |tool: &Arc<dyn Tool>| {
        let spec = tool.spec();
        let mut row = json!({"name": spec.name, "class": spec.class, "category": spec.category, "description": spec.description, "arguments": argument_names(tool)});
        if let (Some(version), Value::Object(fields)) = (tool.version(), &mut row) {
            fields.insert("version".to_owned(), json!(version));
            fields.insert("changelog".to_owned(), json!(tool.changelog()));
        }
        row
    };
    Value::Array(tools.iter().map(row).collect())
}

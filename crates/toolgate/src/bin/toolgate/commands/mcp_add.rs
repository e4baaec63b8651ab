//! `toolgate mcp add`: one server, by its command.

use serde_json::{Map, Value, json};
use toolgate_clients::import_from;

use super::mcp_import::{Adoption, adopt};
use crate::arguments::{GlobalOptions, McpAdd};
use crate::exit::CliError;

pub(crate) fn run(common: &GlobalOptions, wanted: &McpAdd) -> Result<u8, CliError> {
    let mut words = wanted.command.iter();
    let program = words.next().cloned().unwrap_or_default();
    let mut variables = Map::new();
    for variable in &wanted.env {
        let (name, value) = variable
            .split_once('=')
            .ok_or_else(|| CliError::usage(format!("`{variable}` is not NAME=VALUE")))?;
        variables.insert(name.to_owned(), json!(value));
    }
    let arguments: Vec<&String> = words.collect();
    // An address in the place of a command is a hosted server.
    let is_address = program.starts_with("https://") || program.starts_with("http://");
    let entry = match is_address && arguments.is_empty() && variables.is_empty() {
        true => json!({"type": "http", "url": program}),
        false => json!({"command": program, "args": arguments, "env": variables}),
    };
    let root: Value = json!({"mcpServers": {wanted.name.as_str(): entry}});
    let imported = import_from(&root).map_err(|error| CliError::usage(error.to_string()))?;
    adopt(common, imported, Adoption { write: true, yes: wanted.yes, writable: &wanted.rw })
}

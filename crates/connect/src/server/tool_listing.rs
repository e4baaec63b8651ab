//! Lists a server's tools.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rmcp::model::{
    ClientRequest, CustomResult, ErrorCode, ListToolsRequest, ListToolsResult, PaginatedRequestParams,
    ServerResult, Tool,
};
use rmcp::service::{Peer, RoleClient, ServiceError};
use serde_json::Value;

use crate::definition::{Definition, confusable_key, truncate};
use crate::error::ConnectError;
use crate::icon::MAX_SERVER_ICON_BYTES;
use crate::surface::{ListedResources, RESERVED_PREFIX};

/// Maximum number of tools of one server.
const MAX_TOOLS: usize = 1_000;

/// Maximum size of all definitions of one server.
const MAX_DEFINITION_BYTES: usize = 4 << 20;

/// Maximum number of pages.
const MAX_PAGES: usize = 200;

/// Maximum length of a tool's name: MCP recommends at most 128, and a [`toolgate_types::ToolName`] has no more.
const MAX_NAME_BYTES: usize = 128;

/// The valid tools, and warnings about the others.
pub(super) struct ToolListing {
    pub(super) tools: Vec<Definition>,
    pub(super) warnings: Vec<String>,
    /// Its resources.
    pub(super) resources: ListedResources,
}

impl ToolListing {
    /// Removes all tools whose names differ only in case or in `-`, `_` and `.`: an operator who approves one, or a model that calls one, could mean
    /// the other.
    fn drop_confusable(&mut self) {
        let mut counts: HashMap<String, usize> = HashMap::new();
        for tool in &self.tools {
            *counts.entry(confusable_key(&tool.name)).or_default() += 1;
        }
        let (complaints, is_alone) =
            (&mut self.warnings, |name: &str| counts.get(&confusable_key(name)) == Some(&1));
        self.tools.retain(|tool| {
            let is_kept = is_alone(&tool.name);
            if !is_kept {
                complaints.push(format!(
                    "the tool `{}` is left out: it names another one that looks like it",
                    escape_untrusted(&tool.name)
                ));
            }
            is_kept
        });
    }
}

/// Why a tool with this name is dropped entirely; other invalid names are left out when tools are built.
fn name_problem(name: &str) -> Option<String> {
    if name.starts_with(RESERVED_PREFIX) {
        let shown = truncate(&escape_untrusted(name), 40);
        return Some(format!(
            "it names a tool `{shown}`, as only its prompts and resources are named; it is left out"
        ));
    }
    match name.len() {
        0 => Some("it names a tool with an empty name; it is left out".to_owned()),
        1..=MAX_NAME_BYTES => None,
        bytes => Some(format!(
            "it names a tool with a name of {bytes} bytes, `{}`; it is left out",
            truncate(&escape_untrusted(name), 40)
        )),
    }
}

/// Lists all tools, page by page.
pub(super) async fn list(peer: &Peer<RoleClient>) -> Result<ToolListing, ConnectError> {
    let mut listing = ToolListing { tools: Vec::new(), warnings: Vec::new(), resources: Arc::default() };
    let (mut names, mut bytes, mut icon_bytes, mut cursor) = (HashSet::new(), 0usize, 0usize, None);
    for _ in 0..MAX_PAGES {
        let Some(page) = page(peer, cursor.take(), &mut listing.warnings).await? else {
            return Ok(listing);
        };
        for tool in page.tools {
            let mut definition = Definition::of(tool);
            icon_bytes = icon_bytes.saturating_add(definition.icon_bytes());
            if icon_bytes > MAX_SERVER_ICON_BYTES {
                definition.icons.clear();
            }
            bytes = bytes.saturating_add(serde_json::to_string(&definition).unwrap_or_default().len());
            if listing.tools.len() >= MAX_TOOLS || bytes > MAX_DEFINITION_BYTES {
                let reason = format!(
                    "it names more than {MAX_TOOLS} tools, or more than {MAX_DEFINITION_BYTES} bytes about them"
                );
                return Err(ConnectError::Protocol { reason });
            }
            if let Some(problem) = name_problem(&definition.name) {
                listing.warnings.push(problem);
            } else if names.insert(definition.name.clone()) {
                listing.tools.push(definition);
            } else {
                listing.warnings.push(format!(
                    "it names two tools `{}`; the second is left out",
                    escape_untrusted(&definition.name)
                ));
            }
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            listing.drop_confusable();
            return Ok(listing);
        }
    }
    Err(ConnectError::Protocol { reason: format!("its list of tools has more than {MAX_PAGES} pages") })
}

/// One page; `None` if the server does not support tools.
async fn page(
    peer: &Peer<RoleClient>,
    cursor: Option<String>,
    complaints: &mut Vec<String>,
) -> Result<Option<ListToolsResult>, ConnectError> {
    let params = cursor.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
    let request = ListToolsRequest { params, ..ListToolsRequest::default() };
    match peer.send_request(ClientRequest::ListToolsRequest(request)).await {
        Ok(ServerResult::ListToolsResult(page)) => Ok(Some(page)),
        Ok(ServerResult::CustomResult(CustomResult(value)))
            if value.get("tools").is_some_and(Value::is_array) =>
        {
            Ok(Some(parse_leniently(&value, complaints)))
        }
        Ok(_) => Err(ConnectError::Protocol { reason: "its list of tools is not one".to_owned() }),
        Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => Ok(None),
        Err(error) => Err(ConnectError::Protocol {
            reason: format!("its tools could not be listed: {}", escape_untrusted(&error.to_string())),
        }),
    }
}

/// Parses tool by tool: an invalid one does not affect the others.
fn parse_leniently(value: &Value, complaints: &mut Vec<String>) -> ListToolsResult {
    let next_cursor = value.get("nextCursor").and_then(Value::as_str).map(ToOwned::to_owned);
    let mut page = ListToolsResult { next_cursor, ..ListToolsResult::default() };
    for tool in value.get("tools").and_then(Value::as_array).into_iter().flatten() {
        match serde_json::from_value::<Tool>(tool.clone()) {
            Ok(tool) => page.tools.push(tool),
            Err(_) => {
                let name = tool.get("name").and_then(Value::as_str).unwrap_or("?");
                complaints.push(format!(
                    "what it says about the tool `{}` cannot be read; it is left out",
                    escape_untrusted(name)
                ));
            }
        }
    }
    page
}

/// Untrusted text, truncated and with hidden characters escaped.
pub(super) fn escape_untrusted(text: &str) -> String {
    toolgate_text::escape_control_chars(&truncate(text, 200))
}

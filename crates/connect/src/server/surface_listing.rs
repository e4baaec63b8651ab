//! Lists a server's prompts and resources after its tools. A server that fails at that keeps its tools.

use std::time::Duration;

use rmcp::model::PaginatedRequestParams;
use rmcp::service::{Peer, RoleClient, ServiceError};

use super::tool_listing::{ToolListing, escape_untrusted, list};
use crate::definition::truncate;
use crate::error::ConnectError;
use crate::icon::MAX_SERVER_ICON_BYTES;
use crate::settings::ServerSettings;
use crate::surface::{
    BridgedResource, READ_RESOURCE, complete_definition, listed_resource, listed_template, prompt_definition,
    read_resource_definition, subscribe_definition,
};

/// The maximum number of prompts, and of resources with their templates.
const MAX_ITEMS: usize = 1_000;

/// The maximum number of pages of each list.
const MAX_PAGES: usize = 50;

/// How long each list may take.
const LIST_TIMEOUT: Duration = Duration::from_secs(5);

/// Lists tools, prompts and resources.
pub(super) async fn list_all(
    settings: &ServerSettings,
    peer: &Peer<RoleClient>,
) -> Result<ToolListing, ConnectError> {
    let mut listing = list(peer).await?;
    let offers = peer.peer_info().map(|info| info.capabilities.clone()).unwrap_or_default();
    if offers.prompts.is_some() {
        let prompts = within_timeout(prompts(peer, &mut listing)).await;
        note_failure("prompts", prompts.err(), &mut listing);
    }
    if offers.resources.is_some() {
        listing.tools.push(read_resource_definition());
        if offers.resources.as_ref().is_some_and(|resources| resources.subscribe == Some(true)) {
            listing.tools.push(subscribe_definition());
        }
        match within_timeout(resources(&settings.tool_name(READ_RESOURCE), peer)).await {
            Ok(resources) => listing.resources = resources.into(),
            Err(reason) => note_failure("resources", Some(reason), &mut listing),
        }
    }
    if offers.completions.is_some() {
        listing.tools.push(complete_definition());
    }
    Ok(listing)
}

/// What was listed, or why not.
async fn within_timeout<Listed>(
    listing: impl Future<Output = Result<Listed, ServiceError>>,
) -> Result<Listed, String> {
    match tokio::time::timeout(LIST_TIMEOUT, listing).await {
        Ok(listed) => listed.map_err(|error| escape_untrusted(&error.to_string())),
        Err(_) => Err(format!("it did not answer within {} seconds", LIST_TIMEOUT.as_secs())),
    }
}

fn note_failure(what: &str, reason: Option<String>, listing: &mut ToolListing) {
    listing.warnings.extend(reason.map(|reason| format!("its {what} could not be listed: {reason}")));
}

async fn prompts(peer: &Peer<RoleClient>, listing: &mut ToolListing) -> Result<(), ServiceError> {
    let (mut count, mut cursor) = (0, None);
    for _ in 0..MAX_PAGES {
        let page = peer.list_prompts(page_after(cursor)).await?;
        for prompt in page.prompts {
            count += 1;
            let is_known =
                listing.tools.iter().any(|known| known.name == format!("mcp.prompt.{}", prompt.name));
            match count <= MAX_ITEMS && !prompt.name.is_empty() && !is_known {
                true => listing.tools.push(prompt_definition(prompt)),
                false => listing.warnings.push(format!(
                    "the prompt `{}` is left out: it has no name, the name of another one, or there are too many",
                    truncate(&escape_untrusted(&prompt.name), 40)
                )),
            }
        }
        cursor = page.next_cursor;
        if cursor.is_none() || count > MAX_ITEMS {
            break;
        }
    }
    Ok(())
}

async fn resources(reader: &str, peer: &Peer<RoleClient>) -> Result<Vec<BridgedResource>, ServiceError> {
    let (mut found, mut cursor) = (Vec::new(), None);
    for _ in 0..MAX_PAGES {
        let page = peer.list_resources(page_after(cursor)).await?;
        found.extend(page.resources.into_iter().filter_map(|one| listed_resource(reader, one)));
        cursor = page.next_cursor;
        if cursor.is_none() || found.len() >= MAX_ITEMS {
            break;
        }
    }
    let mut cursor = None;
    for _ in 0..MAX_PAGES {
        // Many servers have resources and no templates.
        let Ok(page) = peer.list_resource_templates(page_after(cursor)).await else { break };
        let templates = page.resource_templates.into_iter();
        found.extend(templates.filter_map(|one| listed_template(reader, one)));
        cursor = page.next_cursor;
        if cursor.is_none() || found.len() >= MAX_ITEMS {
            break;
        }
    }
    found.truncate(MAX_ITEMS);
    let mut bytes = 0usize;
    for one in &mut found {
        bytes = bytes.saturating_add(one.icons.iter().map(|icon| icon.src.len()).sum());
        if bytes > MAX_SERVER_ICON_BYTES {
            one.icons.clear();
        }
    }
    Ok(found)
}

fn page_after(cursor: Option<String>) -> Option<PaginatedRequestParams> {
    cursor.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)))
}

//! Watches for changes of a client's lists: tools, and prompts and resources of servers.
//!
//! A client is notified only if its own list has changed, so that it learns nothing about the tools of
//! others.

use std::sync::Arc;

use rmcp::model::Tool;
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::mcp::ClientIdentity;
use crate::mcp::client_sink::{ClientGone, ClientSink};
use crate::mcp::subscriptions::ListenSubscription;
use crate::mcp::upstream::surface_digests;
use crate::service::Service;

const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
const PROMPTS_CHANGED: &str = "notifications/prompts/list_changed";
const RESOURCES_CHANGED: &str = "notifications/resources/list_changed";

/// Which lists of a client changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListChanges {
    pub(crate) tools: bool,
    pub(crate) prompts: bool,
    pub(crate) resources: bool,
}

impl ListChanges {
    /// Session protocol: notifies the client.
    pub(crate) async fn notify(self, client: &ClientSink) -> Result<(), ClientGone> {
        if self.tools {
            client.notify(TOOLS_CHANGED, None).await?;
        }
        if self.prompts {
            client.notify(PROMPTS_CHANGED, None).await?;
        }
        if self.resources {
            client.notify(RESOURCES_CHANGED, None).await?;
        }
        Ok(())
    }

    /// Stateless protocol: notifies of what the subscription is about.
    pub(crate) async fn notify_subscription(self, subscription: &ListenSubscription) {
        let accepted = &subscription.accepted;
        let changes = [
            (self.tools, accepted.tools_list_changed, TOOLS_CHANGED),
            (self.prompts, accepted.prompts_list_changed, PROMPTS_CHANGED),
            (self.resources, accepted.resources_list_changed, RESOURCES_CHANGED),
        ];
        for (changed, accepted, method) in changes {
            if changed && accepted == Some(true) {
                // Fails only if the subscription is over.
                let _ = subscription.notify(method, json!({})).await;
            }
        }
    }
}

/// Watches the lists of one client.
pub(crate) struct ToolListWatcher {
    service: Arc<Service>,
    visitor: ClientIdentity,
    replacements: watch::Receiver<u64>,
    seen: Option<Arc<[Tool]>>,
    /// Digests of the prompts and the resources.
    surfaces: Option<(u64, u64)>,
    /// Whether the list may have changed since it was sent.
    is_late: bool,
}

impl ToolListWatcher {
    /// Watches from when `listed` was sent, or from now on.
    pub(crate) async fn new(
        service: Arc<Service>,
        visitor: ClientIdentity,
        listed: Option<Arc<[Tool]>>,
    ) -> Self {
        let replacements = service.front().gate().config_changes();
        let is_late = listed.is_some();
        let seen = match listed {
            Some(listed) => Some(listed),
            None => service.lists.of(service.front(), &visitor).await.ok(),
        };
        let surfaces = surface_digests(&service, &visitor).await;
        Self { service, visitor, replacements, seen, surfaces, is_late }
    }

    /// Resolves when a list differs from the last one; `None` once the connection closes or the service
    /// ends.
    pub(crate) async fn change(&mut self, closing: &CancellationToken) -> Option<ListChanges> {
        loop {
            if !std::mem::take(&mut self.is_late) {
                tokio::select! {
                    changed = self.replacements.changed() => changed.ok()?,
                    () = closing.cancelled() => return None,
                    () = self.service.ending().cancelled() => return None,
                }
            }
            self.replacements.mark_unchanged();
            let sees = self.service.lists.of(self.service.front(), &self.visitor).await.ok();
            let surfaces = surface_digests(&self.service, &self.visitor).await;
            let digests = |of: fn((u64, u64)) -> u64| (self.surfaces.map(of), surfaces.map(of));
            let (prompts, resources) = (digests(|(prompts, _)| prompts), digests(|(_, resources)| resources));
            let changes = ListChanges {
                tools: sees != self.seen,
                prompts: prompts.0 != prompts.1,
                resources: resources.0 != resources.1,
            };
            (self.seen, self.surfaces) = (sees, surfaces);
            if changes.tools || changes.prompts || changes.resources {
                return Some(changes);
            }
        }
    }
}

//! Watches for changes of a client's tool list.
//!
//! A client is notified only if its own list has changed, so that it learns nothing about the tools of
//! others.

use std::sync::Arc;

use rmcp::model::Tool;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::mcp::ClientIdentity;
use crate::service::Service;

/// Watches the tool list of one client.
pub(crate) struct ToolListWatcher {
    service: Arc<Service>,
    visitor: ClientIdentity,
    replacements: watch::Receiver<u64>,
    seen: Option<Arc<[Tool]>>,
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
        Self { service, visitor, replacements, seen, is_late }
    }

    /// Resolves when the list differs from the last one; `None` once the connection closes or the service
    /// ends.
    pub(crate) async fn change(&mut self, closing: &CancellationToken) -> Option<()> {
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
            if sees != self.seen {
                self.seen = sees;
                return Some(());
            }
        }
    }
}

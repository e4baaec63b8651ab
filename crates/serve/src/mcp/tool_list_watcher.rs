//! Telling clients that their tools are no longer the same.
//!
//! A client is told only when what it may see has changed: which tools others have is none of its business.

use std::sync::Arc;

use rmcp::model::Tool;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::mcp::ClientIdentity;
use crate::service::Service;

/// Looks out for changes of what one visitor may see.
pub(crate) struct ToolListWatcher {
    service: Arc<Service>,
    visitor: ClientIdentity,
    replacements: watch::Receiver<u64>,
    seen: Option<Arc<[Tool]>>,
    /// Whether the client may know other tools than there are by now.
    is_late: bool,
}

impl ToolListWatcher {
    /// Looks out from when these were listed, or from now on.
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

    /// Resolves when the visitor sees other tools than before; never again once the connection is closing.
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

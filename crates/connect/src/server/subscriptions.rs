//! The resources of one server that clients are subscribed to.
//!
//! A subscription is held for as long as a client holds it, and made anew after a restart. Updates are passed on for these resources alone.

#![expect(deprecated, reason = "`resources/subscribe` is that of the session protocol")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rmcp::model::{
    ClientRequest, SubscribeRequest, SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequest,
    UnsubscribeRequestParams,
};
use tokio::sync::broadcast;
use toolgate_types::{ErrorCode, Failure};

use super::{Server, ServerConnection, ServerState, locked};
use crate::pins::KnownLifecycle;

/// The most resources of one server that are subscribed to.
const MAX_SUBSCRIPTIONS: usize = 64;

/// Updates of one resource that come sooner count as unsolicited messages.
const MIN_UPDATE_INTERVAL: Duration = Duration::from_millis(50);

/// Updates that a slow receiver may miss.
const MAX_PENDING_UPDATES: usize = 256;

/// Receives changes of subscribed resources.
#[derive(Clone)]
pub(crate) struct ResourceUpdates {
    wanted: Arc<Mutex<SubscribedUris>>,
    sender: broadcast::Sender<Arc<str>>,
}

#[derive(Default)]
struct SubscribedUris {
    held: BTreeMap<String, HeldUri>,
    /// Those that the server knows of.
    known: BTreeSet<String>,
}

/// A resource that clients are subscribed to.
#[derive(Default)]
struct HeldUri {
    clients: usize,
    last_update: Option<Instant>,
}

impl Default for ResourceUpdates {
    fn default() -> Self {
        Self { wanted: Arc::default(), sender: broadcast::Sender::new(MAX_PENDING_UPDATES) }
    }
}

impl ResourceUpdates {
    /// Passes an update on if a client is subscribed; returns whether it was wanted, and not too soon after the one before.
    pub(crate) fn report(&self, uri: &str) -> bool {
        let (mut wanted, now) = (locked(&self.wanted), Instant::now());
        let Some(held) = wanted.held.get_mut(uri) else { return false };
        let before = held.last_update.replace(now);
        drop(wanted);
        // No receiver is no problem. Receivers coalesce updates.
        let _ = self.sender.send(uri.into());
        before.is_none_or(|before| now.saturating_duration_since(before) >= MIN_UPDATE_INTERVAL)
    }
}

/// The subscriptions to one server.
pub(crate) struct Subscriptions(ResourceUpdates);

impl Subscriptions {
    pub(crate) fn new(sender: broadcast::Sender<Arc<str>>) -> Self {
        Self(ResourceUpdates { wanted: Arc::default(), sender })
    }

    pub(super) fn updates(&self) -> ResourceUpdates {
        self.0.clone()
    }

    /// Counts one more client.
    pub(crate) fn hold(&self, uri: &str) {
        locked(&self.0.wanted).held.entry(uri.to_owned()).or_default().clients += 1;
    }

    /// Counts one client less; returns whether it was the last.
    fn release(&self, uri: &str) -> bool {
        let mut wanted = locked(&self.0.wanted);
        match wanted.held.get_mut(uri) {
            Some(held) if held.clients > 1 => held.clients -= 1,
            _ => drop(wanted.held.remove(uri)),
        }
        !wanted.held.contains_key(uri) && wanted.known.remove(uri)
    }
}

impl Server {
    /// Subscribes to a resource, once for all clients.
    pub(super) async fn subscribe(&self, connection: &ServerConnection, uri: &str) -> Result<(), Failure> {
        {
            let mut wanted = locked(&self.subscriptions.0.wanted);
            if wanted.known.contains(uri) {
                return Ok(());
            }
            let unused = wanted.known.iter().find(|known| !wanted.held.contains_key(*known)).cloned();
            if let Some(unused) = unused.filter(|_| wanted.known.len() >= MAX_SUBSCRIPTIONS) {
                wanted.known.remove(&unused);
            }
            if wanted.known.len() >= MAX_SUBSCRIPTIONS {
                let message =
                    format!("clients are subscribed to {MAX_SUBSCRIPTIONS} resources of this server already");
                return Err(
                    Failure::new(ErrorCode::RateLimited, message).help("end another subscription first")
                );
            }
        }
        connection.subscribe(uri).await.map_err(|reason| {
            Failure::new(
                ErrorCode::CommandFailed,
                format!("the server `{}` refused the subscription", self.name),
            )
            .operator_note(format!("mcp server `{}`: {reason}", self.name))
        })?;
        locked(&self.subscriptions.0.wanted).known.insert(uri.to_owned());
        Ok(())
    }

    /// Subscribes again on a new connection.
    pub(super) async fn renew_subscriptions(&self, connection: &ServerConnection) {
        let held: Vec<String> = {
            let mut wanted = locked(&self.subscriptions.0.wanted);
            wanted.known.clear();
            wanted.held.keys().take(MAX_SUBSCRIPTIONS).cloned().collect()
        };
        for uri in held {
            if let Err(failure) = self.subscribe(connection, &uri).await {
                self.warn(&format!("a subscription was not made again: {failure}"));
            }
        }
    }

    /// A client ended its subscription.
    pub(crate) fn release_subscription(&self, uri: &str) {
        if !self.subscriptions.release(uri) {
            return;
        }
        let ServerState::Ready(connection) = self.state.borrow().clone() else { return };
        let uri = uri.to_owned();
        self.options.runtime.spawn(async move { connection.unsubscribe(&uri).await });
    }
}

impl ServerConnection {
    async fn subscribe(&self, uri: &str) -> Result<(), String> {
        match self.lifecycle {
            KnownLifecycle::Session => {
                let request = SubscribeRequest::new(SubscribeRequestParams::new(uri));
                let sent = self.peer.send_request(ClientRequest::SubscribeRequest(request));
                sent.await
                    .map(drop)
                    .map_err(|error| super::tool_listing::escape_untrusted(&error.to_string()))
            }
            KnownLifecycle::Stateless => {
                let filter = SubscriptionFilter::builder().resource_subscription(uri).build();
                let subscription = self.peer.listen(filter).await;
                let subscription = subscription
                    .map_err(|error| super::tool_listing::escape_untrusted(&error.to_string()))?;
                locked(&self.listening).insert(uri.to_owned(), subscription);
                Ok(())
            }
        }
    }

    async fn unsubscribe(&self, uri: &str) {
        match self.lifecycle {
            KnownLifecycle::Session => {
                let request = UnsubscribeRequest::new(UnsubscribeRequestParams::new(uri));
                // Updates are dropped from here on, whatever the server answers.
                let _ = self.peer.send_request(ClientRequest::UnsubscribeRequest(request)).await;
            }
            KnownLifecycle::Stateless => drop(locked(&self.listening).remove(uri)),
        }
    }
}

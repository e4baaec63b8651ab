//! Subscriptions to resources of servers behind the gate. To subscribe is a call; an update reaches the clients that subscribed, as long as they may read the
//! resource.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use rmcp::model::{ErrorData, RequestId, SubscriptionFilter};
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use toolgate_gate::Surface;

use crate::mcp::call::CallState;
use crate::mcp::client_sink::{ClientGone, ClientSink};
use crate::mcp::request::RequestContext;
use crate::mcp::upstream::{HeldResource, call_error, request_of};
use crate::mcp::{ClientIdentity, McpConnection, McpHandler};
use crate::service::Service;

/// The most resources that one client is subscribed to.
pub(crate) const MAX_SUBSCRIBED: usize = 64;

/// Updates of a resource within this time are one.
const COALESCE_INTERVAL: Duration = Duration::from_millis(200);

/// The names of the tools that read resources, and that subscribe to them, end with these.
const READ: &str = "mcp.resource.read";
const SUBSCRIBE: &str = "mcp.resource.subscribe";

/// The resources that a client of the session protocol is subscribed to.
#[derive(Default)]
pub(crate) struct SubscribedResources {
    held: BTreeMap<String, HeldResource>,
    /// Whether a task forwards updates.
    is_forwarding: bool,
}

const UPDATED: &str = "notifications/resources/updated";

/// The key in the `_meta` of a notification that names its subscription.
const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// Stateless protocol: the stream of one `subscriptions/listen` request.
pub(crate) struct ListenSubscription {
    pub(crate) id: RequestId,
    pub(crate) accepted: SubscriptionFilter,
    pub(crate) client: ClientSink,
}

impl ListenSubscription {
    /// Sends a notification that names the subscription.
    ///
    /// # Errors
    /// The client is gone.
    pub(crate) async fn notify(&self, method: &'static str, mut params: Value) -> Result<(), ClientGone> {
        if let Some(fields) = params.as_object_mut() {
            fields.insert("_meta".to_owned(), json!({SUBSCRIPTION_ID: self.id}));
        }
        self.client.notify(method, Some(params)).await
    }

    /// Says what was accepted, before anything else is sent.
    ///
    /// # Errors
    /// The client is gone.
    pub(crate) async fn acknowledge(&self) -> Result<(), ClientGone> {
        self.notify("notifications/subscriptions/acknowledged", json!({"notifications": self.accepted})).await
    }
}

/// Updates of resources, coalesced.
struct CoalescedUpdates(broadcast::Receiver<Arc<str>>);

impl CoalescedUpdates {
    /// The resources that changed; of those in `wanted` all, if some updates were missed. `None` at the end.
    async fn next(&mut self, wanted: impl Fn() -> BTreeSet<String>) -> Option<BTreeSet<String>> {
        let mut changed = BTreeSet::new();
        let mut until = None;
        loop {
            let received = match until {
                None => self.0.recv().await,
                Some(until) => match tokio::time::timeout_at(until, self.0.recv()).await {
                    Ok(received) => received,
                    Err(_) => return Some(changed),
                },
            };
            match received {
                Ok(uri) if wanted().contains(&*uri) => drop(changed.insert(uri.to_string())),
                Ok(_) => continue,
                Err(broadcast::error::RecvError::Lagged(_)) => changed.extend(wanted()),
                Err(broadcast::error::RecvError::Closed) => return None,
            }
            until.get_or_insert_with(|| tokio::time::Instant::now() + COALESCE_INTERVAL);
        }
    }
}

/// Whose updates a task forwards.
struct ForwardSource {
    service: Arc<Service>,
    connection: Weak<McpConnection>,
    closing: CancellationToken,
}

impl ForwardSource {
    /// The resources that the client is subscribed to.
    fn wanted(&self) -> BTreeSet<String> {
        let Some(connection) = self.connection.upgrade() else { return BTreeSet::new() };
        let subscribed = connection.subscribed.lock().unwrap_or_else(PoisonError::into_inner);
        subscribed.held.keys().cloned().collect()
    }
}

impl McpHandler {
    /// Session protocol: subscribes the client to a resource.
    pub(crate) async fn subscribe_to(
        &self,
        uri: String,
        context: &RequestContext,
        visitor: &ClientIdentity,
    ) -> Result<(), ErrorData> {
        if self.subscribed(|subscribed| subscribed.held.len() >= MAX_SUBSCRIBED) {
            let message = format!("this client is subscribed to {MAX_SUBSCRIBED} resources already");
            return Err(ErrorData::invalid_params(message, Some(json!({"uri": uri}))));
        }
        let held = self.hold(&uri, true, context, visitor).await?;
        let is_first = self.subscribed(|subscribed| {
            subscribed.held.insert(uri, held);
            !std::mem::replace(&mut subscribed.is_forwarding, true)
        });
        if is_first && let Some(upstream) = &self.service.upstream {
            let updates = CoalescedUpdates(upstream.updates());
            let source = ForwardSource {
                service: Arc::clone(&self.service),
                connection: Arc::downgrade(&self.connection),
                closing: self.connection.closing.clone(),
            };
            let (client, is_shared) = (self.background.clone(), self.is_shared());
            tokio::spawn(Self::forward_updates(source, updates, client, is_shared, visitor.clone()));
        }
        Ok(())
    }

    /// Session protocol: ends a subscription.
    pub(crate) fn unsubscribe_from(&self, uri: &str) {
        self.subscribed(|subscribed| drop(subscribed.held.remove(uri)));
    }

    fn subscribed<T>(&self, with: impl FnOnce(&mut SubscribedResources) -> T) -> T {
        with(&mut self.connection.subscribed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes the call that subscribes, and keeps the subscription until the guard is dropped.
    async fn hold(
        &self,
        uri: &str,
        may_ask: bool,
        context: &RequestContext,
        visitor: &ClientIdentity,
    ) -> Result<HeldResource, ErrorData> {
        let data = || Some(json!({"uri": uri}));
        let not_there =
            || ErrorData::invalid_params("no resource at this address can be subscribed to", data());
        let upstream = self.service.upstream.as_ref().ok_or_else(not_there)?;
        let reader = self.reader_of(uri, visitor).await?.ok_or_else(not_there)?;
        let tools = self.surfaced(visitor, Surface::Subscription).await?;
        let name =
            reader.strip_suffix(READ).map(|prefix| format!("{prefix}{SUBSCRIBE}")).ok_or_else(not_there)?;
        if !tools.iter().any(|tool| tool.spec().name.as_str() == name) {
            return Err(not_there());
        }
        let mut wanted = request_of(name, json!({"uri": uri}));
        wanted.may_ask = may_ask;
        // Held before the call, so that no update is missed.
        let held = upstream.hold(uri).ok_or_else(not_there)?;
        match self.advance(wanted, context, visitor).await? {
            CallState::Ended(called, _) => match called.failed {
                None => Ok(held),
                Some((_, failure)) => Err(call_error(failure, json!({"uri": uri}))),
            },
            CallState::InputRequired(_) => Err(not_there()),
        }
    }

    /// The tool that reads this resource, if the caller may use it.
    async fn reader_of(&self, uri: &str, visitor: &ClientIdentity) -> Result<Option<String>, ErrorData> {
        let Some(reader) = self.service.upstream.as_ref().and_then(|upstream| upstream.reader(uri)) else {
            return Ok(None);
        };
        let readers = self.surfaced(visitor, Surface::Resource).await?;
        Ok(readers.iter().any(|tool| tool.spec().name.as_str() == reader).then_some(reader))
    }

    /// Forwards updates until the connection ends. The task holds no handler, because that would keep the connection open.
    async fn forward_updates(
        source: ForwardSource,
        mut updates: CoalescedUpdates,
        client: ClientSink,
        is_shared: bool,
        visitor: ClientIdentity,
    ) {
        loop {
            let changed = tokio::select! {
                changed = updates.next(|| source.wanted()) => changed,
                () = source.closing.cancelled() => None,
                () = visitor.ended.cancelled() => None,
                () = source.service.ending().cancelled() => None,
            };
            let (Some(changed), Some(connection)) = (changed, source.connection.upgrade()) else { return };
            let handler = Self::new(Arc::clone(&source.service), connection, client.clone(), is_shared);
            for uri in changed {
                let may_read = matches!(handler.reader_of(&uri, &visitor).await, Ok(Some(_)));
                if may_read && client.notify(UPDATED, Some(json!({"uri": uri}))).await.is_err() {
                    return;
                }
            }
        }
    }

    /// Stateless protocol: forwards updates while a subscription is open. Resources that the caller may not subscribe to are left out.
    pub(crate) async fn serve_updates(&self, subscription: &ListenSubscription, context: &RequestContext) {
        let visitor = &*context.identity;
        let wanted = subscription.accepted.resource_subscriptions.clone().unwrap_or_default();
        let Some(upstream) = self.service.upstream.as_ref().filter(|_| !wanted.is_empty()) else {
            return std::future::pending().await;
        };
        let mut updates = CoalescedUpdates(upstream.updates());
        let mut held: BTreeMap<String, HeldResource> = BTreeMap::new();
        for uri in wanted.into_iter().take(MAX_SUBSCRIBED) {
            if let Ok(guard) = self.hold(&uri, false, context, visitor).await {
                held.insert(uri, guard);
            }
        }
        while let Some(changed) = updates.next(|| held.keys().cloned().collect()).await {
            for uri in changed {
                if let Ok(Some(_)) = self.reader_of(&uri, visitor).await {
                    let _ = subscription.notify(UPDATED, json!({"uri": uri})).await;
                }
            }
        }
        std::future::pending().await
    }
}

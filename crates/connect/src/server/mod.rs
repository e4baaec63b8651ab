//! One server: starting it, supervising it, and calling its tools.

mod server_timeouts;
mod reporter;
mod active_calls;
mod restricted_client;
mod probe;
mod quarantine_scan;
mod connection;
mod catalogue;
mod tool_listing;
mod surface_listing;
mod subscriptions;
mod health;
mod supervisor;
mod requests;
mod login;
mod call;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;
use toolgate_oauth::LoginNeed;

use crate::bridge::BridgeOptions;
use crate::pins::{PinFile, PinKey};
use crate::settings::{ServerName, ServerSettings};
use crate::surface::ListedResources;
use login::ServerLogins;
use reporter::ServerReporter;
use restricted_client::ProtocolLifecycle;

pub use health::{HealthState, ServerHealth};
pub use server_timeouts::ServerTimeouts;

pub(crate) use active_calls::{ActiveCallId, ActiveCalls};
pub(crate) use call::{UpstreamAnswer, UpstreamCall};
pub(crate) use catalogue::{Catalogue, CatalogueEntry};
pub(crate) use connection::ServerConnection;
pub(crate) use subscriptions::{ResourceUpdates, Subscriptions};

/// The shared state of a server.
pub(crate) struct Server {
    pub(crate) name: ServerName,
    pub(crate) options: Arc<BridgeOptions>,
    /// Whose pins its tools have.
    pins: PinKey,
    /// The protocol that it was last spoken to with, by whichever gate.
    remembered: ProtocolLifecycle,
    /// The logins at it, if people log in.
    logins: Option<ServerLogins>,
    /// Incremented when the tools have changed.
    changed: watch::Sender<u64>,
    settings: Mutex<Arc<ServerSettings>>,
    state: watch::Sender<ServerState>,
    /// Whether it has connected, or failed with every protocol.
    settled: watch::Sender<bool>,
    /// Incremented when a server has settled.
    settlements: watch::Sender<u64>,
    catalogue: Mutex<Arc<Catalogue>>,
    /// Its resources, as last listed.
    resources: Mutex<ListedResources>,
    reporter: Arc<ServerReporter>,
    /// The resources that clients are subscribed to.
    pub(crate) subscriptions: Subscriptions,
    /// The number of calls in flight.
    in_flight: watch::Sender<usize>,
    /// Whether no more calls are accepted.
    retired: AtomicBool,
    restarts: AtomicU32,
    last_error: Mutex<Option<String>>,
    stop: CancellationToken,
}

/// The state of a server.
#[derive(Clone)]
pub(crate) enum ServerState {
    /// Being started.
    Starting,
    /// Connected.
    Ready(Arc<ServerConnection>),
    /// Not connected.
    Down {
        /// The reason.
        reason: String,
        /// The reason for callers, in the gate's own words.
        public: String,
        /// The end of its standard error, which is not stored.
        said: Option<String>,
        /// Whether there will be no more retries.
        given_up: bool,
        /// The login without which it is not tried again.
        login: Option<LoginNeed>,
    },
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    /// A server that is about to be started.
    pub(crate) fn new(
        settings: ServerSettings,
        options: Arc<BridgeOptions>,
        changed: watch::Sender<u64>,
        settlements: watch::Sender<u64>,
        updates: broadcast::Sender<Arc<str>>,
    ) -> Arc<Self> {
        let pins = settings.pin_key();
        let known = options.pins.for_server(&pins);
        let remembered = known.as_ref().ok().and_then(PinFile::lifecycle);
        let server = Self {
            name: settings.name.clone(),
            logins: ServerLogins::of(&settings, &options.tokens),
            reporter: ServerReporter::new(settings.name.clone(), Arc::clone(&options)),
            options,
            pins,
            remembered: remembered.map_or(ProtocolLifecycle::Unknown, ProtocolLifecycle::from),
            changed,
            settings: Mutex::new(Arc::new(settings)),
            state: watch::Sender::new(ServerState::Starting),
            settled: watch::Sender::new(false),
            settlements,
            catalogue: Mutex::default(),
            resources: Mutex::new(Arc::default()),
            subscriptions: Subscriptions::new(updates),
            in_flight: watch::Sender::new(0),
            retired: AtomicBool::new(false),
            restarts: AtomicU32::new(0),
            last_error: Mutex::default(),
            stop: CancellationToken::new(),
        };
        // The pinned tools are available before the server has started.
        server.replace_catalogue(Catalogue::from_pins(&known.unwrap_or_else(|error| {
            server.warn(&error.to_string());
            PinFile::default()
        })));
        Arc::new(server)
    }

    /// The current settings.
    pub(crate) fn settings(&self) -> Arc<ServerSettings> {
        Arc::clone(&locked(&self.settings))
    }

    /// Replaces the settings, which must not differ in the connection.
    pub(crate) fn declare(&self, settings: ServerSettings) {
        *locked(&self.settings) = Arc::new(settings);
    }

    /// The tools that it offers.
    pub(crate) fn catalogue(&self) -> Arc<Catalogue> {
        Arc::clone(&locked(&self.catalogue))
    }

    /// Its resources, as last listed.
    pub(crate) fn resources(&self) -> ListedResources {
        Arc::clone(&locked(&self.resources))
    }

    /// Replaces the catalogue; returns whether it differs.
    fn replace_catalogue(&self, mut catalogue: Catalogue) -> bool {
        let mut current = locked(&self.catalogue);
        catalogue.inherit(&current);
        let other = current.fingerprint() != catalogue.fingerprint();
        *current = Arc::new(catalogue);
        other
    }

    /// Replaces the catalogue and notifies if it differs.
    fn publish_catalogue(&self, catalogue: Catalogue) {
        if self.replace_catalogue(catalogue) {
            self.changed.send_modify(|times| *times += 1);
        }
    }

    /// Starts stopping it, even with calls in flight.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Accepts no more calls, and stops it once the calls in flight have ended, at their deadlines at the
    /// latest.
    pub(crate) fn retire(self: &Arc<Self>) {
        self.retired.store(true, Ordering::SeqCst);
        let server = Arc::clone(self);
        drop(self.options.runtime.spawn(async move {
            let mut under_way = server.in_flight.subscribe();
            let idle = async { drop(under_way.wait_for(|calls| *calls == 0).await) };
            tokio::select! {
                () = idle => server.stop(),
                () = server.stop.cancelled() => {}
            }
        }));
    }

    fn is_retired(&self) -> bool {
        self.retired.load(Ordering::SeqCst)
    }

    /// It has connected, or failed with every protocol.
    fn settle(&self) {
        if !self.settled.send_replace(true) {
            self.settlements.send_modify(|times| *times += 1);
        }
    }

    /// Waits until it has connected, or failed with every protocol.
    pub(crate) async fn wait_settled(&self) {
        let mut tried = self.settled.subscribe();
        // Cannot fail: `self` holds the sender.
        let _ = tried.wait_for(|tried| *tried).await;
    }

    /// Warns the operator, once.
    pub(crate) fn warn(&self, words: &str) {
        self.reporter.warn(words);
    }

    /// Reports a rejected tool to the operator, once.
    pub(crate) fn report_rejected(&self, words: &str) {
        self.reporter.report_rejected(words);
    }

    fn report_failure(&self, words: &str) {
        *locked(&self.last_error) = Some(words.to_owned());
        self.warn(words);
    }

    fn count_restart(&self) {
        self.restarts.fetch_add(1, Ordering::Relaxed);
    }
}

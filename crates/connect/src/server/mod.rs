//! One server: how it is started, kept, and spoken to.

mod backoff;
mod server_timeouts;
mod reporter;
mod restricted_client;
mod probe;
mod quarantine_scan;
mod connection;
mod catalogue;
mod tool_listing;
mod health;
mod supervisor;
mod call;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::bridge::BridgeOptions;
use crate::pins::PinFile;
use crate::settings::{ServerName, ServerSettings};
use reporter::ServerReporter;

pub use backoff::Backoff;
pub use health::{HealthState, ServerHealth};
pub use server_timeouts::ServerTimeouts;

pub(crate) use call::UpstreamCall;
pub(crate) use catalogue::{Catalogue, CatalogueEntry};
pub(crate) use connection::ServerConnection;

/// What everybody who has to do with a server shares.
pub(crate) struct Server {
    pub(crate) name: ServerName,
    pub(crate) options: Arc<BridgeOptions>,
    /// Told when the tools are others.
    changed: watch::Sender<u64>,
    settings: Mutex<Arc<ServerSettings>>,
    state: watch::Sender<ServerState>,
    /// Whether it was connected, or has failed in every way that there is to begin.
    settled: watch::Sender<bool>,
    catalogue: Mutex<Arc<Catalogue>>,
    reporter: Arc<ServerReporter>,
    /// How many calls were begun and have not ended.
    in_flight: watch::Sender<usize>,
    /// Whether no more calls are taken.
    retired: AtomicBool,
    restarts: AtomicU32,
    last_error: Mutex<Option<String>>,
    stop: CancellationToken,
}

/// Whether a server can be spoken to.
#[derive(Clone)]
pub(crate) enum ServerState {
    /// It will be soon.
    Starting,
    /// It can be.
    Ready(Arc<ServerConnection>),
    /// It cannot, for this reason.
    Down {
        /// Why.
        reason: String,
        /// What it last said, which is kept nowhere.
        said: Option<String>,
        /// Whether nothing is tried any longer.
        given_up: bool,
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
    ) -> Arc<Self> {
        let known = options.pins.for_server(&settings.name);
        let server = Self {
            name: settings.name.clone(),
            reporter: ServerReporter::new(settings.name.clone(), Arc::clone(&options)),
            options,
            changed,
            settings: Mutex::new(Arc::new(settings)),
            state: watch::Sender::new(ServerState::Starting),
            settled: watch::Sender::new(false),
            catalogue: Mutex::default(),
            in_flight: watch::Sender::new(0),
            retired: AtomicBool::new(false),
            restarts: AtomicU32::new(0),
            last_error: Mutex::default(),
            stop: CancellationToken::new(),
        };
        // What was agreed before is there before the server is.
        server.replace_catalogue(Catalogue::from_pins(&known.unwrap_or_else(|error| {
            server.warn(&error.to_string());
            PinFile::default()
        })));
        Arc::new(server)
    }

    /// What is declared about it now.
    pub(crate) fn settings(&self) -> Arc<ServerSettings> {
        Arc::clone(&locked(&self.settings))
    }

    /// Declares something else about it that does not concern the connection.
    pub(crate) fn declare(&self, settings: ServerSettings) {
        *locked(&self.settings) = Arc::new(settings);
    }

    /// What it offers.
    pub(crate) fn catalogue(&self) -> Arc<Catalogue> {
        Arc::clone(&locked(&self.catalogue))
    }

    /// Offers this from now on; whether that is something else.
    fn replace_catalogue(&self, mut catalogue: Catalogue) -> bool {
        let mut current = locked(&self.catalogue);
        catalogue.inherit(&current);
        let other = current.fingerprint() != catalogue.fingerprint();
        *current = Arc::new(catalogue);
        other
    }

    /// The same, and tells whoever wants to know.
    fn publish_catalogue(&self, catalogue: Catalogue) {
        if self.replace_catalogue(catalogue) {
            self.changed.send_modify(|times| *times += 1);
        }
    }

    /// Begins to end it, whatever it is doing.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Takes no more calls, and begins to end it once those under way have ended: each does when its time is up.
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

    /// Waits until it was connected, or has failed in every way that there is to begin.
    pub(crate) async fn wait_settled(&self) {
        let mut tried = self.settled.subscribe();
        // The sender is this server: it is there as long as anybody waits.
        let _ = tried.wait_for(|tried| *tried).await;
    }

    /// Tells the operator, once.
    pub(crate) fn warn(&self, words: &str) {
        self.reporter.warn(words);
    }

    /// Tells the operator, once, that something of its offer is no tool.
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

//! Supervises a server: keeps it connected while it is configured.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::connection::{ConnectionFailure, OpenConnection, close, explained, open};
use super::probe::ProbeTimeout;
use super::surface_listing::list_all;
use super::tool_listing::{ToolListing, escape_untrusted};
use super::{Catalogue, Server, ServerConnection, ServerState, locked};
use crate::definition::Definition;
use crate::error::ConnectError;
use crate::pins::{KnownLifecycle, Observation, ObservedPins, PinKey, Pins};

/// After this uptime the count of consecutive failures is reset.
const MIN_STABLE_UPTIME: Duration = Duration::from_secs(30);

/// How often the pin file is checked for changes.
const PIN_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Minimum time between two `tools/list` requests, at first.
const MIN_LIST_INTERVAL: Duration = Duration::from_secs(1);

/// How many requests may be made at that rate.
const MAX_FREQUENT_LISTS: u32 = 10;

/// Minimum time between two requests for a server whose tools keep changing.
const SLOW_LIST_INTERVAL: Duration = Duration::from_secs(10);

/// The state of the tool list while the server is connected.
struct ToolListState {
    listed: Instant,
    lists: u32,
    offered: Arc<Vec<Definition>>,
    lifecycle: KnownLifecycle,
    /// The stamp of the pin file when it was last read.
    stamp: Option<[u64; 4]>,
}

/// Reads the pins, and records what was seen or only compares with it.
type PinLook = fn(&Pins, &PinKey, &Observation<'_>) -> Result<ObservedPins, ConnectError>;

/// Awaits a future that must not be polled after completion.
pub(super) async fn wait_once<Waited: Future + Unpin>(waited: &mut Option<Waited>) {
    if let Some(future) = waited {
        future.await;
        *waited = None;
    }
}

/// Sets the final state on drop, so that no caller waits for a server without a supervisor.
struct SupervisorGuard<'s>(&'s Server);

impl Drop for SupervisorGuard<'_> {
    fn drop(&mut self) {
        self.0.state.send_replace(ServerState::Down {
            reason: "it was stopped".to_owned(),
            public: "it was stopped".to_owned(),
            said: None,
            given_up: true,
            login: None,
        });
        self.0.settle();
    }
}

impl Server {
    /// Runs until the server is stopped. Its process is gone afterwards.
    pub(crate) async fn supervise(self: Arc<Self>) {
        let _kept = SupervisorGuard(&self);
        let (mut failures, mut era) = (0u32, self.remembered);
        while !self.stop.is_cancelled() {
            let silence = ProbeTimeout::new(self.options.timeouts.probe_timeout);
            let is_first_greeting = failures == 0;
            let login = self.logins.as_ref().and_then(|logins| logins.operator().stamp());
            let over = match open(&self, era, &silence).await {
                Ok(opened) => {
                    era = opened.lifecycle.into();
                    let begun = Instant::now();
                    let over = self.run_scanned(opened).await;
                    failures = if begun.elapsed() > MIN_STABLE_UPTIME { 0 } else { failures };
                    over
                }
                // It was not spoken to.
                Err(over) if matches!(over.error, ConnectError::LoginRequired { .. }) => over,
                Err(over) => {
                    era = era.fallback(silence.has_elapsed());
                    over
                }
            };
            failures += 1;
            if !self.stop.is_cancelled() {
                // The other protocol is tried next, so the server is not settled yet.
                let has_hope = is_first_greeting && matches!(over.error, ConnectError::Protocol { .. });
                self.back_off(over, failures, has_hope, login).await;
            }
        }
    }

    /// Waits before the next attempt, if there is one.
    async fn back_off(
        &self,
        over: ConnectionFailure,
        failures: u32,
        has_hope: bool,
        login_before: Option<[i64; 4]>,
    ) {
        self.report_failure(&over.to_string());
        let (reason, public) = (over.error.to_string(), over.error.public_reason());
        let (said, given_up) = (over.stderr_end, over.error.is_final());
        let is_login_required = matches!(over.error, ConnectError::LoginRequired { .. });
        let login = self.login_need().filter(|_| is_login_required);
        // After a single failure the server is back in a moment; calls wait for that.
        let state = if failures > 1 || given_up {
            ServerState::Down { reason, public, said, given_up, login: login.clone() }
        } else {
            ServerState::Starting
        };
        self.state.send_replace(state);
        if !has_hope {
            self.settle();
        }
        let again = async {
            match (given_up, &self.logins) {
                (true, Some(logins)) if login.is_some() => logins.changed(login_before).await,
                (true, _) => std::future::pending().await,
                (false, _) => tokio::time::sleep(self.options.backoff.delay(failures)).await,
            }
        };
        tokio::select! {
            () = again => self.count_restart(),
            () = self.stop.cancelled() => {}
        }
    }

    /// Runs a connection with periodic scans.
    async fn run_scanned(&self, opened: OpenConnection) -> ConnectionFailure {
        let Some(process) = opened.connection.process.clone() else {
            return self.run_connection(opened).await;
        };
        tokio::select! {
            over = self.run_connection(opened) => over,
            never = process.scan_periodically() => match never {},
        }
    }

    /// Runs a connection until it ends.
    async fn run_connection(&self, opened: OpenConnection) -> ConnectionFailure {
        let OpenConnection { connection, service, listing, lifecycle, _subscription } = opened;
        let (listed, offered) = (Instant::now(), Arc::default());
        let mut known = ToolListState { listed, lists: 0, offered, lifecycle, stamp: None };
        self.store_listing(&mut known, listing).await;
        self.state.send_replace(ServerState::Ready(Arc::clone(&connection)));
        self.settle();
        let token = service.cancellation_token();
        let mut closed = Some(Box::pin(service.waiting()));
        let mut renewing = Some(Box::pin(self.renew_subscriptions(&connection)));
        let mut looking = tokio::time::interval(PIN_POLL_INTERVAL);
        looking.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = wait_once(&mut closed) => break,
                () = wait_once(&mut renewing), if renewing.is_some() => {}
                () = self.stop.cancelled() => break,
                () = connection.broken.notified() => break,
                () = connection.tools_changed.notified() => {
                    let listed = tokio::select! {
                        listed = self.refresh_list(&connection, &mut known) => listed,
                        () = self.stop.cancelled() => break,
                        () = wait_once(&mut closed) => break,
                    };
                    if let Err(error) = listed {
                        connection.close_reason.record(error.to_string());
                        break;
                    }
                }
                _ = looking.tick() => self.check_pins(&mut known).await,
            }
        }
        self.state.send_replace(ServerState::Starting);
        let last = close(&connection, token, wait_once(&mut closed)).await;
        // If the gate closed the connection, the exit status is only a consequence of that.
        let how = last.exit_status.filter(|_| connection.close_reason.is_closed_by_peer());
        let reason =
            connection.close_reason.reason().unwrap_or_else(|| "the connection was closed".to_owned());
        let error = ConnectError::Ended { reason: explained(&reason, how.as_deref()) };
        ConnectionFailure { error, stderr_end: last.stderr_end }
    }

    async fn refresh_list(
        &self,
        connection: &ServerConnection,
        known: &mut ToolListState,
    ) -> Result<(), ConnectError> {
        let between = if known.lists > MAX_FREQUENT_LISTS { SLOW_LIST_INTERVAL } else { MIN_LIST_INTERVAL };
        tokio::time::sleep(between.saturating_sub(known.listed.elapsed())).await;
        let settings = self.settings();
        let limit = settings.startup_timeout;
        let listing = tokio::time::timeout(limit, list_all(&settings, &connection.peer)).await;
        let listing = listing.map_err(|_| ConnectError::Startup { seconds: limit.as_secs() })??;
        connection.set_offered(&listing.tools);
        self.store_listing(known, listing).await;
        Ok(())
    }

    /// Records what the server offers.
    async fn store_listing(&self, known: &mut ToolListState, listing: ToolListing) {
        listing.warnings.iter().for_each(|words| self.report_rejected(words));
        known.listed = Instant::now();
        known.lists = known.lists.saturating_add(1);
        known.offered = Arc::new(listing.tools);
        let before = std::mem::replace(&mut *locked(&self.resources), Arc::clone(&listing.resources));
        let has_changed = before != listing.resources;
        known.stamp = self.options.pins.stamp(&self.pins);
        self.apply_pins(known, Pins::observe).await;
        // After the tools, so that a reload finds both.
        if has_changed {
            self.changed.send_modify(|times| *times += 1);
        }
    }

    /// Checks whether an operator has approved or removed a pin.
    async fn check_pins(&self, known: &mut ToolListState) {
        let now = self.options.pins.stamp(&self.pins);
        if std::mem::replace(&mut known.stamp, now) != now {
            self.apply_pins(known, Pins::compare).await;
        }
    }

    /// Compares the offered definitions with the approved ones.
    async fn apply_pins(&self, known: &ToolListState, look: PinLook) {
        let (pins, key, policy) = (self.options.pins.clone(), self.pins.clone(), self.settings().pin);
        let (offered, lifecycle) = (Arc::clone(&known.offered), known.lifecycle);
        let seen = tokio::task::spawn_blocking(move || {
            look(&pins, &key, &Observation { policy, offered: &offered, lifecycle })
        });
        let seen = seen
            .await
            .unwrap_or_else(|_| Err(ConnectError::pins(self.name.as_str(), "looking ended unexpectedly")));
        let catalogue = match seen {
            Ok(seen) => {
                if seen.adopted {
                    self.report_adopted_pins();
                }
                Catalogue::from_pins(&seen.pins)
            }
            Err(error) => Catalogue::all_suspended(&known.offered, &error.to_string()),
        };
        self.report_unapproved(&catalogue);
        self.publish_catalogue(catalogue);
    }

    /// Always reported, like a quarantine: from here on a server of this name in another configuration has pins of its own.
    fn report_adopted_pins(&self) {
        (self.options.error)(&format!(
            "mcp server `{}`: its pins belonged to its name; from now on they belong to this configuration and command, and elsewhere this name begins anew",
            self.name
        ));
    }

    fn report_unapproved(&self, catalogue: &Catalogue) {
        let waiting: Vec<String> =
            catalogue.unapproved().into_iter().take(20).map(escape_untrusted).collect();
        if !waiting.is_empty() {
            let words = format!(
                "tools that wait for an operator: {}; see them with `toolgate mcp approve {}`",
                waiting.join(", "),
                self.name
            );
            self.warn(&words);
        }
    }
}

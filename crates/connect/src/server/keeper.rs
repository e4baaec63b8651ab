//! Keeps a server connected for as long as it is declared.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::client::Era;
use super::connection::{Opened, close, open};
use super::listing::{list, shown};
use super::{Catalogue, Connection, Server, State};
use crate::error::ConnectError;

/// A server that lasted this long is not one that fails at once.
const LASTED: Duration = Duration::from_secs(30);

/// How often it is looked whether somebody agreed to something.
const LOOKING: Duration = Duration::from_secs(1);

/// The least time between two lists of tools.
const BETWEEN_LISTS: Duration = Duration::from_secs(1);

impl Server {
    /// Until it is stopped. Nothing of the server is left afterwards.
    pub(crate) async fn keep(self: Arc<Self>) {
        let (mut failures, mut era) = (0u32, Era::Unknown);
        while !self.stop.is_cancelled() {
            let settings = self.settings();
            let opened = tokio::select! {
                opened = open(&settings, &self.options.launcher, era) => opened,
                () = self.stop.cancelled() => break,
            };
            let error = match opened {
                Ok(opened) => {
                    era = opened.era;
                    let begun = Instant::now();
                    let error = self.attend(opened).await;
                    failures = if begun.elapsed() > LASTED { 0 } else { failures };
                    error
                }
                Err(error) => {
                    era = era.otherwise();
                    error
                }
            };
            failures += 1;
            if !self.stop.is_cancelled() {
                self.rest(&error, failures).await;
            }
        }
        self.state.send_replace(State::Down { reason: "it was stopped".to_owned(), given_up: true });
        self.tried.send_replace(true);
    }

    /// Waits before the next try, if there is to be one.
    async fn rest(&self, error: &ConnectError, failures: u32) {
        let (reason, given_up) = (error.to_string(), error.is_final());
        self.failed(&reason);
        // A server that ends once is there again in a moment; calls wait for that.
        let state = if failures > 1 || given_up { State::Down { reason, given_up } } else { State::Starting };
        self.state.send_replace(state);
        self.tried.send_replace(true);
        let again = async {
            match given_up {
                true => std::future::pending().await,
                false => tokio::time::sleep(self.options.backoff.after(failures)).await,
            }
        };
        tokio::select! {
            () = again => self.count_restart(),
            () = self.stop.cancelled() => {}
        }
    }

    /// Looks after a connection until it ends.
    async fn attend(&self, opened: Opened) -> ConnectError {
        let Opened { connection, service, listing, _subscription, .. } = opened;
        listing.complaints.iter().for_each(|words| self.complain(words));
        self.observe(listing.tools).await;
        self.state.send_replace(State::Ready(Arc::clone(&connection)));
        self.tried.send_replace(true);
        let token = service.cancellation_token();
        let mut closed = Box::pin(service.waiting());
        let mut looking = tokio::time::interval(LOOKING);
        looking.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut stamp = self.options.pins.stamp(&self.name);
        loop {
            tokio::select! {
                _ = &mut closed => break,
                () = self.stop.cancelled() => break,
                () = connection.broken.notified() => break,
                () = connection.tools_changed.notified() => {
                    if let Err(error) = self.list_again(&connection).await {
                        connection.ending.because(error.to_string());
                        break;
                    }
                    stamp = self.options.pins.stamp(&self.name);
                }
                _ = looking.tick() => {
                    let now = self.options.pins.stamp(&self.name);
                    if now != stamp {
                        stamp = now;
                        self.look_at_pins();
                    }
                }
            }
        }
        self.state.send_replace(State::Starting);
        let how = connection.process.as_ref().and_then(|process| process.ended());
        close(&connection, token, closed).await;
        let reason = how
            .or_else(|| connection.ending.reason())
            .unwrap_or_else(|| "the connection was closed".to_owned());
        ConnectError::Ended { reason: shown(&reason) }
    }

    async fn list_again(&self, connection: &Connection) -> Result<(), ConnectError> {
        tokio::time::sleep(BETWEEN_LISTS).await;
        let limit = self.settings().startup_timeout;
        let listing = tokio::time::timeout(limit, list(&connection.peer)).await;
        let listing = listing.map_err(|_| ConnectError::Startup { seconds: limit.as_secs() })??;
        listing.complaints.iter().for_each(|words| self.complain(words));
        connection.set_offered(&listing.tools);
        self.observe(listing.tools).await;
        Ok(())
    }

    /// Compares what is offered with what was agreed to.
    async fn observe(&self, offered: Vec<crate::definition::Definition>) {
        let (pins, name, policy) = (self.options.pins.clone(), self.name.clone(), self.settings().pin);
        let observed =
            tokio::task::spawn_blocking(move || (pins.observe(&name, policy, &offered), offered)).await;
        let Ok((seen, offered)) = observed else { return };
        let catalogue = match seen {
            Ok(pins) => Catalogue::remembered(pins),
            Err(error) => Catalogue::unreadable(offered, &error.to_string()),
        };
        self.tell_waiting(&catalogue);
        self.offer(catalogue);
    }

    /// Somebody agreed to something, or took it back.
    fn look_at_pins(&self) {
        if let Ok(pins) = self.options.pins.of(&self.name) {
            self.offer(Catalogue::remembered(pins));
        }
    }

    fn tell_waiting(&self, catalogue: &Catalogue) {
        let waiting: Vec<String> = catalogue.waiting().into_iter().take(20).map(shown).collect();
        if !waiting.is_empty() {
            let words = format!(
                "tools that wait for an operator: {}; see them with `toolgate mcp approve {}`",
                waiting.join(", "),
                self.name
            );
            self.complain(&words);
        }
    }
}

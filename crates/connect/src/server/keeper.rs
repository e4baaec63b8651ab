//! Keeps a server connected for as long as it is declared.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::client::Era;
use super::connection::{Opened, Over, close, explained, open};
use super::listing::{Listing, list, shown};
use super::probe::Silence;
use super::{Catalogue, Connection, Server, State};
use crate::definition::Definition;
use crate::error::ConnectError;
use crate::pins::{PinFile, Pins};
use crate::settings::{PinPolicy, ServerName};

/// A server that lasted this long is not one that fails at once.
const LASTED: Duration = Duration::from_secs(30);

/// How often it is looked whether somebody agreed to something.
const LOOKING: Duration = Duration::from_secs(1);

/// The least time between two lists of tools, at first.
const BETWEEN_LISTS: Duration = Duration::from_secs(1);

/// How many lists are asked for that often.
const FEW_LISTS: u32 = 10;

/// The least time between two lists of a server whose tools keep changing.
const BETWEEN_MANY: Duration = Duration::from_secs(10);

/// What is known about a server's tools while it is connected.
struct Known {
    listed: Instant,
    lists: u32,
    offered: Arc<Vec<Definition>>,
    /// Of the file of pins when it was last looked at.
    stamp: Option<[u64; 4]>,
}

/// Waits for something that can be waited for once.
async fn ended<Waited: Future + Unpin>(waited: &mut Option<Waited>) {
    if let Some(future) = waited {
        future.await;
        *waited = None;
    }
}

/// However the keeping ends, nobody waits for a server that nobody keeps.
struct Kept<'s>(&'s Server);

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        self.0.state.send_replace(State::Down {
            reason: "it was stopped".to_owned(),
            said: None,
            given_up: true,
        });
        self.0.tried.send_replace(true);
    }
}

impl Server {
    /// Until it is stopped. Nothing of the server is left afterwards.
    pub(crate) async fn keep(self: Arc<Self>) {
        let _kept = Kept(&self);
        let (mut failures, mut era) = (0u32, Era::Unknown);
        while !self.stop.is_cancelled() {
            let silence = Silence::after(self.options.patience.silence);
            let is_first_greeting = failures == 0 && era == Era::Unknown;
            let over = match open(&self, era, &silence).await {
                Ok(opened) => {
                    era = opened.era;
                    let begun = Instant::now();
                    let over = self.look_after(opened).await;
                    failures = if begun.elapsed() > LASTED { 0 } else { failures };
                    over
                }
                Err(over) => {
                    era = era.otherwise(silence.was_heard());
                    over
                }
            };
            failures += 1;
            if !self.stop.is_cancelled() {
                // It is greeted in another way next, and may like that better: whoever waits for it waits for that as well.
                let has_hope = is_first_greeting && matches!(over.error, ConnectError::Protocol { .. });
                self.rest(over, failures, has_hope).await;
            }
        }
    }

    /// Waits before the next try, if there is to be one.
    async fn rest(&self, over: Over, failures: u32, has_hope: bool) {
        self.failed(&over.to_string());
        let (reason, said, given_up) = (over.error.to_string(), over.said, over.error.is_final());
        // A server that ends once is there again in a moment; calls wait for that.
        let state =
            if failures > 1 || given_up { State::Down { reason, said, given_up } } else { State::Starting };
        self.state.send_replace(state);
        if !has_hope {
            self.tried.send_replace(true);
        }
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

    /// The same as below, and looks at what the process leaves meanwhile.
    async fn look_after(&self, opened: Opened) -> Over {
        let Some(process) = opened.connection.process.clone() else { return self.attend(opened).await };
        tokio::select! {
            over = self.attend(opened) => over,
            never = process.keep_looking() => match never {},
        }
    }

    /// Looks after a connection until it ends.
    async fn attend(&self, opened: Opened) -> Over {
        let Opened { connection, service, listing, _subscription, .. } = opened;
        let mut known = Known { listed: Instant::now(), lists: 0, offered: Arc::default(), stamp: None };
        self.note(&mut known, listing).await;
        self.state.send_replace(State::Ready(Arc::clone(&connection)));
        self.tried.send_replace(true);
        let token = service.cancellation_token();
        let mut closed = Some(Box::pin(service.waiting()));
        let mut looking = tokio::time::interval(LOOKING);
        looking.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = ended(&mut closed) => break,
                () = self.stop.cancelled() => break,
                () = connection.broken.notified() => break,
                () = connection.tools_changed.notified() => {
                    let listed = tokio::select! {
                        listed = self.list_again(&connection, &mut known) => listed,
                        () = self.stop.cancelled() => break,
                        () = ended(&mut closed) => break,
                    };
                    if let Err(error) = listed {
                        connection.ending.because(error.to_string());
                        break;
                    }
                }
                _ = looking.tick() => self.look_at_pins(&mut known).await,
            }
        }
        self.state.send_replace(State::Starting);
        let last = close(&connection, token, ended(&mut closed)).await;
        // What was cut off goes because of that.
        let how = last.how.filter(|_| connection.ending.was_left());
        let reason = connection.ending.reason().unwrap_or_else(|| "the connection was closed".to_owned());
        let error = ConnectError::Ended { reason: explained(&reason, how.as_deref()) };
        Over { error, said: last.said }
    }

    async fn list_again(&self, connection: &Connection, known: &mut Known) -> Result<(), ConnectError> {
        let between = if known.lists > FEW_LISTS { BETWEEN_MANY } else { BETWEEN_LISTS };
        tokio::time::sleep(between.saturating_sub(known.listed.elapsed())).await;
        let limit = self.settings().startup_timeout;
        let listing = tokio::time::timeout(limit, list(&connection.peer)).await;
        let listing = listing.map_err(|_| ConnectError::Startup { seconds: limit.as_secs() })??;
        connection.set_offered(&listing.tools);
        self.note(known, listing).await;
        Ok(())
    }

    /// Takes down what the server offers.
    async fn note(&self, known: &mut Known, listing: Listing) {
        listing.complaints.iter().for_each(|words| self.leave_out(words));
        known.listed = Instant::now();
        known.lists = known.lists.saturating_add(1);
        known.offered = Arc::new(listing.tools);
        known.stamp = self.options.pins.stamp(&self.name);
        self.hold_against(known, Pins::observe).await;
    }

    /// Whether somebody agreed to something, or took it back.
    async fn look_at_pins(&self, known: &mut Known) {
        let now = self.options.pins.stamp(&self.name);
        if std::mem::replace(&mut known.stamp, now) != now {
            self.hold_against(known, Pins::compare).await;
        }
    }

    /// Holds what is offered against what was agreed to.
    async fn hold_against(
        &self,
        known: &Known,
        look: fn(&Pins, &ServerName, PinPolicy, &[Definition]) -> Result<PinFile, ConnectError>,
    ) {
        let (pins, name, policy) = (self.options.pins.clone(), self.name.clone(), self.settings().pin);
        let offered = Arc::clone(&known.offered);
        let seen = tokio::task::spawn_blocking(move || look(&pins, &name, policy, &offered)).await;
        let seen = seen
            .unwrap_or_else(|_| Err(ConnectError::pins(self.name.as_str(), "looking ended unexpectedly")));
        let catalogue = match seen {
            Ok(pins) => Catalogue::remembered(&pins),
            Err(error) => Catalogue::unreadable(&known.offered, &error.to_string()),
        };
        self.tell_waiting(&catalogue);
        self.offer(catalogue);
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

//! Output on its way while a call is still running.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RoleServer};
use tokio::sync::Notify;
use tokio::time::Instant;
use toolgate_gate::Progress;
use toolgate_tools::clean;

/// Not more often than this.
const INTERVAL: Duration = Duration::from_millis(40);

/// A call that says nothing is said to go on this often.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// Longer pieces lose their beginning: whoever looks on wants to see the newest.
const LONGEST: usize = 4096;

/// Collects what a tool says until it is told.
#[derive(Debug, Default)]
pub(crate) struct Relay {
    said: Mutex<String>,
    more: Notify,
    told: Mutex<u32>,
}

impl Relay {
    /// What the tool is given to speak into.
    pub(crate) fn ear(self: &Arc<Self>) -> Progress {
        let relay = Arc::clone(self);
        Arc::new(move |piece: &str| relay.hear(piece))
    }

    fn hear(&self, piece: &str) {
        let mut said = lock(&self.said);
        said.push_str(piece);
        if said.len() > 2 * LONGEST {
            let from = said.len() - LONGEST;
            let from = (from..said.len()).find(|place| said.is_char_boundary(*place)).unwrap_or(said.len());
            said.drain(..from);
        }
        drop(said);
        self.more.notify_one();
    }

    /// Tells a client of it, as long as it is asked to.
    pub(crate) async fn tell(&self, peer: &Peer<RoleServer>, token: ProgressToken) {
        let begun = Instant::now();
        let mut last: Option<Instant> = None;
        loop {
            if tokio::time::timeout(HEARTBEAT, self.more.notified()).await.is_ok() {
                if let Some(last) = last {
                    tokio::time::sleep_until(last + INTERVAL).await;
                }
                self.tell_rest(peer, &token).await;
            } else {
                let message = format!("still running after {} s", begun.elapsed().as_secs());
                self.send(peer, &token, message).await;
            }
            last = Some(Instant::now());
        }
    }

    /// Tells what was not told yet.
    pub(crate) async fn tell_rest(&self, peer: &Peer<RoleServer>, token: &ProgressToken) {
        let said = std::mem::take(&mut *lock(&self.said));
        let said = clean(&said);
        let from = said.len().saturating_sub(LONGEST);
        let from = (from..said.len()).find(|place| said.is_char_boundary(*place)).unwrap_or(said.len());
        let newest = said.get(from..).unwrap_or_default();
        if !newest.is_empty() {
            self.send(peer, token, newest.to_owned()).await;
        }
    }

    async fn send(&self, peer: &Peer<RoleServer>, token: &ProgressToken, message: String) {
        let progress = {
            let mut told = lock(&self.told);
            *told += 1;
            f64::from(*told)
        };
        let told = ProgressNotificationParam::new(token.clone(), progress).with_message(message);
        // Whoever cannot be told will not get the answer either.
        let _ = peer.notify_progress(told).await;
    }
}

fn lock<Inner>(mutex: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Output on its way while a call is still running.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RoleServer};
use tokio::sync::Notify;
use tokio::time::Instant;
use toolgate_gate::{Progress, Said, Share};
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
    said: Mutex<Heard>,
    more: Notify,
    /// The last number that the client was told.
    told: Mutex<Option<f64>>,
}

/// What a tool has said and nobody was told.
#[derive(Debug, Default)]
struct Heard {
    words: String,
    share: Option<Share>,
}

impl Relay {
    /// What the tool is given to speak into.
    pub(crate) fn ear(self: &Arc<Self>) -> Progress {
        let relay = Arc::clone(self);
        Arc::new(move |said: Said<'_>| relay.hear(said))
    }

    fn hear(&self, said: Said<'_>) {
        let mut heard = lock(&self.said);
        heard.share = said.share.or(heard.share);
        let words = &mut heard.words;
        words.push_str(said.words);
        if words.len() > 2 * LONGEST {
            words.drain(..words.ceil_char_boundary(words.len() - LONGEST));
        }
        drop(heard);
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
                self.send(peer, &token, message, None).await;
            }
            last = Some(Instant::now());
        }
    }

    /// Tells what was not told yet.
    pub(crate) async fn tell_rest(&self, peer: &Peer<RoleServer>, token: &ProgressToken) {
        let Heard { words, share } = std::mem::take(&mut *lock(&self.said));
        let words = clean(&words);
        let newest = words.get(words.ceil_char_boundary(words.len().saturating_sub(LONGEST))..);
        let newest = newest.unwrap_or_default();
        if !newest.is_empty() {
            self.send(peer, token, newest.to_owned(), share).await;
        }
    }

    async fn send(
        &self,
        peer: &Peer<RoleServer>,
        token: &ProgressToken,
        message: String,
        share: Option<Share>,
    ) {
        let progress = {
            let mut told = lock(&self.told);
            let next = after(*told, share);
            *told.insert(next)
        };
        let mut told = ProgressNotificationParam::new(token.clone(), progress).with_message(message);
        told.total = share.and_then(|share| share.total);
        // Whoever cannot be told will not get the answer either.
        let _ = peer.notify_progress(told).await;
    }
}

/// The number that a client is told next. It has to be larger than the one before, whatever the tool counts.
fn after(last: Option<f64>, share: Option<Share>) -> f64 {
    match (last, share) {
        (None, Some(Share { done, .. })) => done,
        (None, None) => 1.0,
        (Some(last), Some(Share { done, .. })) if done > last => done,
        (Some(last), Some(_)) => last.next_up(),
        (Some(last), None) => (last + 1.0).max(last.next_up()),
    }
}

fn lock<Inner>(mutex: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_tool_and_always_grow() {
        let of = |done: f64| Some(Share { done, total: Some(30.0) });
        for (last, share, next) in [
            (None, None, 1.0),
            (Some(1.0), None, 2.0),
            (None, of(0.0), 0.0),
            (Some(0.0), of(10.0), 10.0),
            (Some(10.0), of(20.0), 20.0),
            (Some(10.0), of(10.0), 10.0_f64.next_up()),
            (Some(10.0), of(-4.0), 10.0_f64.next_up()),
            (Some(1e300), None, 1e300_f64.next_up()),
        ] {
            assert_eq!(after(last, share), next, "{last:?} {share:?}");
            assert!(last.is_none_or(|last| next > last));
        }
    }
}

//! Hosts that were asked for and refused: whoever set up the gate is told, because callers only see that it is not for them.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// More names than this in a while are made up by somebody.
const MOST: usize = 16;
/// After which all of them may be told again, so that nobody can use them up for good.
const WHILE: Duration = Duration::from_secs(60 * 60);
/// No name of a host is longer.
const LONGEST: usize = 253;

/// Who is told. Each name is told once in an hour, and only so many.
#[derive(Clone)]
pub struct RefusedHosts {
    tell: Arc<dyn Fn(&str) + Send + Sync>,
    told: Arc<Mutex<Told>>,
}

/// What was told, and since when that counts.
#[derive(Default)]
struct Told {
    since: Option<Instant>,
    names: BTreeSet<String>,
}

impl RefusedHosts {
    /// Tells what was asked for, without a port.
    #[must_use]
    pub fn told_to(tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { tell: Arc::new(tell), told: Arc::default() }
    }

    pub(super) fn note(&self, host: &str, now: Instant) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.since.is_none_or(|since| now.saturating_duration_since(since) >= WHILE) {
            *told = Told { since: Some(now), names: BTreeSet::new() };
        }
        let is_new = told.names.len() < MOST && host.len() <= LONGEST && told.names.insert(host.to_owned());
        drop(told);
        if is_new {
            (self.tell)(host);
        }
    }
}

/// Nobody is told.
impl Default for RefusedHosts {
    fn default() -> Self {
        Self::told_to(|_| {})
    }
}

impl fmt::Debug for RefusedHosts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("RefusedHosts(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_told_once_and_not_without_end() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hosts = RefusedHosts::told_to({
            let heard = Arc::clone(&heard);
            move |host| heard.lock().unwrap().push(host.to_owned())
        });
        let begun = Instant::now();
        hosts.note(&"x".repeat(LONGEST + 1), begun);
        let told_at = |now: Instant| {
            for number in (0..100).chain(0..100) {
                hosts.note(&format!("h{number}.example"), now);
            }
            std::mem::take(&mut *heard.lock().unwrap())
        };
        let told = told_at(begun);
        assert_eq!((told.len(), told[0].as_str()), (MOST, "h0.example"));
        assert!(told_at(begun + WHILE / 2).is_empty());
        // Whoever made up names did not use up those of the next hour.
        assert_eq!(told_at(begun + WHILE).len(), MOST);
        assert!(told_at(begun + WHILE + WHILE / 2).is_empty());
    }
}

//! Reports rejected values of `Host` to the operator: a client sees only that it was rejected, and the operator may have to
//! allow the name.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum names reported per interval. More than this are made up by a client.
const MAX_HOSTS: usize = 16;
/// After this interval all names may be reported again, so that a client cannot use up the limit for good.
const REPORT_INTERVAL: Duration = Duration::from_secs(60 * 60);
/// Maximum length of a DNS name (RFC 1035).
const MAX_HOST_BYTES: usize = 253;

/// Reports each name once per hour, and at most 16 of them.
#[derive(Clone)]
pub struct RejectedHosts {
    report: Arc<dyn Fn(&str) + Send + Sync>,
    reported: Arc<Mutex<ReportedHosts>>,
}

/// The names reported since a point in time.
#[derive(Default)]
struct ReportedHosts {
    since: Option<Instant>,
    names: BTreeSet<String>,
}

impl RejectedHosts {
    /// Calls `tell` with the host, without its port.
    #[must_use]
    pub fn report_to(tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { report: Arc::new(tell), reported: Arc::default() }
    }

    pub(super) fn note(&self, host: &str, now: Instant) {
        let mut told = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if told.since.is_none_or(|since| now.saturating_duration_since(since) >= REPORT_INTERVAL) {
            *told = ReportedHosts { since: Some(now), names: BTreeSet::new() };
        }
        let is_new = told.names.len() < MAX_HOSTS
            && host.len() <= MAX_HOST_BYTES
            && told.names.insert(host.to_owned());
        drop(told);
        if is_new {
            (self.report)(host);
        }
    }
}

/// Reports nothing.
impl Default for RejectedHosts {
    fn default() -> Self {
        Self::report_to(|_| {})
    }
}

impl fmt::Debug for RejectedHosts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("RejectedHosts(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_told_once_and_not_without_end() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hosts = RejectedHosts::report_to({
            let heard = Arc::clone(&heard);
            move |host| heard.lock().unwrap().push(host.to_owned())
        });
        let begun = Instant::now();
        hosts.note(&"x".repeat(MAX_HOST_BYTES + 1), begun);
        let told_at = |now: Instant| {
            for number in (0..100).chain(0..100) {
                hosts.note(&format!("h{number}.example"), now);
            }
            std::mem::take(&mut *heard.lock().unwrap())
        };
        let told = told_at(begun);
        assert_eq!((told.len(), told[0].as_str()), (MAX_HOSTS, "h0.example"));
        assert!(told_at(begun + REPORT_INTERVAL / 2).is_empty());
        // Made-up names do not use up the limit of the next hour.
        assert_eq!(told_at(begun + REPORT_INTERVAL).len(), MAX_HOSTS);
        assert!(told_at(begun + REPORT_INTERVAL + REPORT_INTERVAL / 2).is_empty());
    }
}

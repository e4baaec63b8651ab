//! Counters of HTTP requests.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::StatusCode;

use super::host_check::HostRejection;
use crate::metrics::heading;

/// The status codes that this server sends; the last entry counts all others.
const STATUSES: [u16; 24] = [
    101, 200, 201, 202, 204, 304, 400, 401, 403, 404, 405, 406, 408, 409, 413, 415, 421, 422, 429, 431, 500,
    502, 503, 0,
];

/// Counters of requests since the process started.
#[derive(Debug, Default)]
pub(crate) struct RequestMetrics {
    answers: [AtomicU64; STATUSES.len()],
    pub(crate) received: AtomicU64,
    pub(crate) sent: Arc<AtomicU64>,
    pub(crate) without_token: AtomicU64,
    pub(crate) bad_token: AtomicU64,
    other_host: AtomicU64,
    other_origin: AtomicU64,
    pub(crate) rejected_connections: AtomicU64,
}

impl RequestMetrics {
    pub(crate) fn answered(&self, status: StatusCode) {
        let place = STATUSES.iter().position(|known| *known == status.as_u16());
        if let Some(count) = self.answers.get(place.unwrap_or(STATUSES.len() - 1)) {
            add(count, 1);
        }
    }

    pub(crate) fn host_rejected(&self, strange: HostRejection) {
        match strange {
            HostRejection::NoHost | HostRejection::OtherHost => add(&self.other_host, 1),
            HostRejection::OtherOrigin => add(&self.other_origin, 1),
        }
    }

    /// Everything in the Prometheus text format; `gauges` are values from elsewhere.
    pub(crate) fn render(&self, gauges: &[(&str, &str, usize)]) -> String {
        let mut text = String::new();
        let requests = "toolgate_http_requests_total";
        heading(&mut text, requests, "counter", "Requests answered, by status.");
        for (status, count) in STATUSES.iter().zip(&self.answers) {
            let status = if *status == 0 { "other".to_owned() } else { status.to_string() };
            let _ = writeln!(text, "{requests}{{status=\"{status}\"}} {}", read(count));
        }
        let refused = "toolgate_http_refused_total";
        heading(&mut text, refused, "counter", "Requests and connections refused by the door, by reason.");
        for (reason, count) in [
            ("no_token", &self.without_token),
            ("bad_token", &self.bad_token),
            ("host", &self.other_host),
            ("origin", &self.other_origin),
            ("connections", &self.rejected_connections),
        ] {
            let _ = writeln!(text, "{refused}{{reason=\"{reason}\"}} {}", read(count));
        }
        for (name, help, count) in [
            ("toolgate_http_received_bytes_total", "Bodies of requests.", read(&self.received)),
            ("toolgate_http_sent_bytes_total", "Bodies of MCP answers.", read(&self.sent)),
        ] {
            heading(&mut text, name, "counter", help);
            let _ = writeln!(text, "{name} {count}");
        }
        for (name, help, value) in gauges {
            heading(&mut text, name, "gauge", help);
            let _ = writeln!(text, "{name} {value}");
        }
        text
    }
}

/// Adds to a counter. Relaxed: no other memory depends on it.
pub(crate) fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::Relaxed);
}

fn read(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_by_status_and_the_rest_together() {
        let meter = RequestMetrics::default();
        for status in [200, 200, 401, 418, 599] {
            meter.answered(StatusCode::from_u16(status).unwrap());
        }
        meter.host_rejected(HostRejection::OtherOrigin);
        meter.host_rejected(HostRejection::NoHost);
        let text = meter.render(&[("toolgate_http_connections", "Connections.", 7)]);
        for line in [
            "toolgate_http_requests_total{status=\"200\"} 2",
            "toolgate_http_requests_total{status=\"401\"} 1",
            "toolgate_http_requests_total{status=\"other\"} 2",
            "toolgate_http_refused_total{reason=\"host\"} 1",
            "toolgate_http_refused_total{reason=\"origin\"} 1",
            "toolgate_http_connections 7",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}

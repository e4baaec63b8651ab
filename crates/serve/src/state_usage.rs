//! Disk usage of the state directory, as Prometheus gauges.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::metrics::heading;

/// The state directory is measured at most this often, however often the metrics are scraped.
const MEASURE_INTERVAL: Duration = Duration::from_secs(60);

/// Usage of one area of the state directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateUsage {
    /// The area, used as a label.
    pub area: &'static str,
    /// Number of files.
    pub files: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// The limit in bytes, if there is one.
    pub max_bytes: Option<u64>,
    /// How many entries were dropped, if known.
    pub dropped: Option<u64>,
}

/// Measures the state directory. Blocking, may be slow.
pub type MeasureState = Arc<dyn Fn() -> Vec<StateUsage> + Send + Sync>;

/// The rendered gauges, cached for [`MEASURE_INTERVAL`].
pub(crate) struct StateGauges {
    measure: Option<MeasureState>,
    last: Mutex<Option<(Instant, String)>>,
}

impl StateGauges {
    pub(crate) fn new(measure: Option<MeasureState>) -> Self {
        Self { measure, last: Mutex::default() }
    }

    /// The gauges in the Prometheus text format.
    pub(crate) async fn render(&self) -> String {
        let Some(measure) = self.measure.clone() else { return String::new() };
        let fresh = |(at, text): &(Instant, String)| (at.elapsed() < MEASURE_INTERVAL).then(|| text.clone());
        if let Some(text) = self.last.lock().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(fresh)
        {
            return text;
        }
        let measured = tokio::task::spawn_blocking(move || measure()).await;
        let text = render_gauges(&measured.unwrap_or_default());
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), text.clone()));
        text
    }
}

fn render_gauges(areas: &[StateUsage]) -> String {
    let mut text = String::new();
    let mut rows = |name: &str, kind: &str, help: &str, value: &dyn Fn(&StateUsage) -> Option<u64>| {
        heading(&mut text, name, kind, help);
        for (area, value) in areas.iter().filter_map(|one| Some((one.area, value(one)?))) {
            let _ = writeln!(text, "{name}{{area=\"{area}\"}} {value}");
        }
    };
    rows("toolgate_state_bytes", "gauge", "Disk space of the state directory.", &|one| Some(one.bytes));
    rows("toolgate_state_files", "gauge", "Files in the state directory.", &|one| Some(one.files));
    rows("toolgate_state_max_bytes", "gauge", "Bounds of the state directory.", &|one| one.max_bytes);
    rows("toolgate_state_dropped_total", "counter", "Entries that were let go.", &|one| one.dropped);
    text
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[tokio::test]
    async fn state_is_measured_once_a_minute_however_often_it_is_asked_for() {
        let measured = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&measured);
        let gauges = StateGauges::new(Some(Arc::new(move || {
            let bytes = count.fetch_add(1, Ordering::Relaxed) + 512;
            vec![StateUsage { area: "undo", files: 3, bytes, max_bytes: Some(1024), dropped: Some(7) }]
        })));
        for _ in 0..3 {
            let text = gauges.render().await;
            for line in [
                "toolgate_state_bytes{area=\"undo\"} 512",
                "toolgate_state_files{area=\"undo\"} 3",
                "toolgate_state_max_bytes{area=\"undo\"} 1024",
                "toolgate_state_dropped_total{area=\"undo\"} 7",
            ] {
                assert!(text.lines().any(|found| found == line), "{line}\n{text}");
            }
        }
        assert_eq!(measured.load(Ordering::Relaxed), 1);
        assert_eq!(StateGauges::new(None).render().await, "");
    }
}

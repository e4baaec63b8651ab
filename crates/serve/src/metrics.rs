//! Counters for Prometheus.
//!
//! Every label value comes from a fixed set. Nothing that a caller chooses, such as a tool name or its own name, becomes a label: it could create
//! unbounded series, and would reveal its activity to every reader of the metrics.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use toolgate_tools::CallResponse;
use toolgate_types::{ErrorCode, ToolClass};

/// Counters with two labels.
type Table = Mutex<BTreeMap<(&'static str, &'static str), u64>>;

/// A counter with its two labels.
pub(crate) type LabelledCount = (&'static str, &'static str, u64);

/// Counters of calls since the process started.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// By tool class and decision.
    calls: Table,
    /// By stage and code.
    failures: Table,
    answered_bytes: AtomicU64,
    call_microseconds: AtomicU64,
    waited_microseconds: AtomicU64,
    unrecorded: AtomicBool,
}

impl Metrics {
    /// Counts a finished call. `class` is the tool's class, `None` if the tool is unknown.
    pub(crate) fn count(&self, class: Option<ToolClass>, called: &CallResponse) {
        let code = called.failed.as_ref().map(|(stage, failure)| (stage.as_str(), failure.code));
        add(&self.calls, (class.map_or("unknown", ToolClass::as_str), called.decision.as_str()));
        if let Some((stage, code)) = code {
            add(&self.failures, (stage, code.as_str()));
        }
        let unrecorded = code.is_some_and(|(_, code)| code == ErrorCode::AuditUnavailable);
        self.unrecorded.store(unrecorded, Ordering::Relaxed);
        self.answered_bytes.fetch_add(called.bytes() as u64, Ordering::Relaxed);
        for (counter, time) in
            [(&self.call_microseconds, called.duration), (&self.waited_microseconds, called.waited)]
        {
            counter.fetch_add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }

    /// The counters of ended calls, by class and decision.
    pub(crate) fn calls(&self) -> Vec<LabelledCount> {
        rows_of(&self.calls)
    }

    /// The counters of refusals and failures, by stage and code.
    pub(crate) fn failures(&self) -> Vec<LabelledCount> {
        rows_of(&self.failures)
    }

    /// Whether the last finished call could be recorded.
    #[must_use]
    pub(crate) fn can_record(&self) -> bool {
        !self.unrecorded.load(Ordering::Relaxed)
    }

    /// All counters in the Prometheus text format. `under_way` is the number of calls in flight.
    #[must_use]
    pub(crate) fn render(&self, under_way: usize) -> String {
        let mut text = String::new();
        heading(&mut text, "toolgate_calls_total", "counter", "Calls that ended, by class and decision.");
        rows(&mut text, "toolgate_calls_total", ["class", "decision"], &self.calls);
        heading(&mut text, "toolgate_failures_total", "counter", "Calls that were refused or failed.");
        rows(&mut text, "toolgate_failures_total", ["stage", "code"], &self.failures);
        let seconds = |counter: &AtomicU64| (counter.load(Ordering::Relaxed) as f64 / 1e6).to_string();
        for (name, kind, help, value) in [
            ("toolgate_calls_in_flight", "gauge", "Calls under way.", under_way.to_string()),
            (
                "toolgate_call_seconds_total",
                "counter",
                "Time that calls took, without waiting for people.",
                seconds(&self.call_microseconds),
            ),
            (
                "toolgate_approval_wait_seconds_total",
                "counter",
                "Time that calls waited for people.",
                seconds(&self.waited_microseconds),
            ),
            (
                "toolgate_answer_bytes_total",
                "counter",
                "Bytes that callers were given.",
                self.answered_bytes.load(Ordering::Relaxed).to_string(),
            ),
        ] {
            heading(&mut text, name, kind, help);
            let _ = writeln!(text, "{name} {value}");
        }
        text
    }
}

pub(crate) fn heading(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn rows(text: &mut String, name: &str, labels: [&str; 2], table: &Table) {
    let [first, second] = labels;
    for ((one, other), count) in table.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        let _ = writeln!(text, "{name}{{{first}=\"{one}\",{second}=\"{other}\"}} {count}");
    }
}

fn rows_of(table: &Table) -> Vec<LabelledCount> {
    let table = table.lock().unwrap_or_else(PoisonError::into_inner);
    table.iter().map(|((one, other), count)| (*one, *other, *count)).collect()
}

fn add(table: &Table, labels: (&'static str, &'static str)) {
    let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
    *table.entry(labels).or_default() += 1;
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use toolgate_tools::ModelAnswer;
    use toolgate_types::{CallId, Decision, DocumentContent, Failure, ResourceContent, Stage};

    use super::*;

    fn called(failed: Option<(Stage, Failure)>) -> CallResponse {
        let decision = if failed.is_some() { Decision::Denied } else { Decision::Allowed };
        CallResponse {
            answer: ModelAnswer { text: "four".to_owned(), structured: None, is_error: failed.is_some() },
            call: CallId::fresh(),
            decision,
            failed,
            duration: Duration::from_millis(250),
            waited: Duration::from_secs(2),
            changed: None,
            attachments: Vec::new(),
            full_text: None,
            text_field: None,
            resource: None,
        }
    }

    #[test]
    fn calls_are_counted_by_words_that_no_caller_chooses() {
        let metrics = Metrics::default();
        metrics.count(Some(ToolClass::Read), &called(None));
        let failure = Failure::new(ErrorCode::NotPermitted, "call of `secret_name`");
        metrics.count(None, &called(Some((Stage::Permission, failure))));
        // A file that is read as a resource has no text for the model.
        let content = DocumentContent::Text("a whole file".into());
        let mut read = called(None);
        read.answer.text.clear();
        read.resource = Some(ResourceContent::File(content));
        metrics.count(Some(ToolClass::Read), &read);

        let text = metrics.render(3);
        for line in [
            "toolgate_calls_total{class=\"read\",decision=\"ALLOWED\"} 2",
            "toolgate_calls_total{class=\"unknown\",decision=\"DENIED\"} 1",
            "toolgate_failures_total{stage=\"PERMISSION\",code=\"not_permitted\"} 1",
            "toolgate_calls_in_flight 3",
            "toolgate_call_seconds_total 0.75",
            "toolgate_approval_wait_seconds_total 6",
            "toolgate_answer_bytes_total 20",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(!text.contains("secret_name"));
    }

    #[test]
    fn a_gate_that_cannot_record_says_so_until_it_can() {
        let metrics = Metrics::default();
        assert!(metrics.can_record());
        let failure = Failure::new(ErrorCode::AuditUnavailable, "no disk");
        metrics.count(Some(ToolClass::Read), &called(Some((Stage::Output, failure))));
        assert!(!metrics.can_record());
        metrics.count(Some(ToolClass::Read), &called(None));
        assert!(metrics.can_record());
    }
}

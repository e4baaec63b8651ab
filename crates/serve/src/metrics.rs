//! Counters for Prometheus.
//!
//! Every label value comes from a fixed set. Nothing that a caller chooses, such as a tool name or its own name, becomes a label: it could create
//! unbounded series, and would reveal its activity to every reader of the metrics.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use toolgate_gate::{CallObserver, EndedCall};
use toolgate_tools::CallResponse;
use toolgate_types::{ErrorCode, ToolClass};

use crate::traffic::Traffic;

/// Counters with two labels.
type Table = Mutex<BTreeMap<(&'static str, &'static str), u64>>;

/// A counter with its two labels.
pub(crate) type LabelledCount = (&'static str, &'static str, u64);

/// Counters of calls since the process started.
#[derive(Default)]
pub(crate) struct Metrics {
    /// By tool class and decision.
    calls: Table,
    /// By stage and code.
    failures: Table,
    answered_bytes: AtomicU64,
    call_microseconds: AtomicU64,
    waited_microseconds: AtomicU64,
    unrecorded: AtomicBool,
    /// By caller and tool, which are no labels.
    pub(crate) traffic: Traffic,
}

impl CallObserver for Metrics {
    fn call_ended(&self, call: &EndedCall<'_>) {
        add(&self.calls, (call.class.map_or("unknown", ToolClass::as_str), call.decision.as_str()));
        if let Some((stage, code)) = call.failed {
            add(&self.failures, (stage.as_str(), code.as_str()));
        }
        let unrecorded = call.failed.is_some_and(|(_, code)| code == ErrorCode::AuditUnavailable);
        self.unrecorded.store(unrecorded, Ordering::Relaxed);
        for (counter, time) in
            [(&self.call_microseconds, call.duration), (&self.waited_microseconds, call.waited)]
        {
            counter.fetch_add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
        self.traffic.count(call);
    }
}

impl Metrics {
    /// Counts what a caller is given.
    pub(crate) fn answered(&self, called: &CallResponse) {
        self.answered_bytes.fetch_add(called.bytes() as u64, Ordering::Relaxed);
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
    use toolgate_types::{CallId, Caller, Decision, DocumentContent, ResourceContent, Stage, Trust};

    use super::*;

    fn end(metrics: &Metrics, class: Option<ToolClass>, failed: Option<(Stage, ErrorCode)>) {
        let caller = Caller {
            subject: "secret_subject".to_owned(),
            permissions: Default::default(),
            agent: None,
            session: "s".parse().unwrap(),
            run: None,
            trust: Trust::Guided,
        };
        metrics.call_ended(&EndedCall {
            tool: class.map(|_| "secret_name"),
            class,
            caller: &caller,
            decision: if failed.is_some() { Decision::Denied } else { Decision::Allowed },
            failed,
            duration: Duration::from_millis(250),
            waited: Duration::from_secs(2),
        });
    }

    fn response(text: &str, resource: Option<ResourceContent>) -> CallResponse {
        CallResponse {
            answer: ModelAnswer { text: text.to_owned(), structured: None, is_error: false },
            call: CallId::fresh(),
            decision: Decision::Allowed,
            failed: None,
            duration: Duration::ZERO,
            waited: Duration::ZERO,
            changed: None,
            attachments: Vec::new(),
            full_text: None,
            text_field: None,
            resource,
        }
    }

    #[test]
    fn calls_are_counted_by_words_that_no_caller_chooses() {
        let metrics = Metrics::default();
        end(&metrics, Some(ToolClass::Read), None);
        end(&metrics, None, Some((Stage::Permission, ErrorCode::NotPermitted)));
        end(&metrics, Some(ToolClass::Read), None);
        metrics.answered(&response("four", None));
        // A file that is read as a resource has no text for the model.
        let content = DocumentContent::Text("a whole file".into());
        metrics.answered(&response("", Some(ResourceContent::File(content))));

        let text = metrics.render(3);
        for line in [
            "toolgate_calls_total{class=\"read\",decision=\"ALLOWED\"} 2",
            "toolgate_calls_total{class=\"unknown\",decision=\"DENIED\"} 1",
            "toolgate_failures_total{stage=\"PERMISSION\",code=\"not_permitted\"} 1",
            "toolgate_calls_in_flight 3",
            "toolgate_call_seconds_total 0.75",
            "toolgate_approval_wait_seconds_total 6",
            "toolgate_answer_bytes_total 16",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(!text.contains("secret_"));
    }

    #[test]
    fn a_gate_that_cannot_record_says_so_until_it_can() {
        let metrics = Metrics::default();
        assert!(metrics.can_record());
        end(&metrics, Some(ToolClass::Read), Some((Stage::Output, ErrorCode::AuditUnavailable)));
        assert!(!metrics.can_record());
        end(&metrics, Some(ToolClass::Read), None);
        assert!(metrics.can_record());
    }
}

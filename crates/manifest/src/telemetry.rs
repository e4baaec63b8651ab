//! `telemetry`: where spans of calls are exported to.

use crate::decode::{ConfigField, KeySpec, Section, key};
use crate::problem::Located;
use crate::problem_report::ProblemReport;
use crate::url::model_url;

const TELEMETRY: &[KeySpec] = &[key("otlp", "otlp: {endpoint: \"http://127.0.0.1:4318\"}")];
const OTLP: &[KeySpec] = &[key("endpoint", "endpoint: \"http://127.0.0.1:4318\"")];

/// `telemetry`: where spans of calls are exported to. Absent means that they are not, unless the environment names a collector.
#[derive(Clone, Debug, Default)]
pub struct TelemetryConfig {
    /// `otlp.endpoint`: the collector, without the path for traces.
    pub endpoint: Option<Located<String>>,
}

pub(crate) fn telemetry(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<TelemetryConfig> {
    let section = Section::read(field, TELEMETRY, report)?;
    let endpoint = section.get("otlp", report, |field, report| {
        let section = Section::read(field, OTLP, report)?;
        if section.lacks("endpoint") {
            let help = "name the collector, such as `endpoint: \"http://127.0.0.1:4318\"`".to_owned();
            report.node(&field.node, "`otlp` has no `endpoint`", Some(help));
        }
        section.get("endpoint", report, model_url)
    });
    Some(TelemetryConfig { endpoint })
}

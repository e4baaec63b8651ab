//! One structured log line per call, for operators: tool, path, result and duration. Never arguments or content.

use std::time::Duration;

use toolgate_text::line_index::truncate_at_char_boundary;
use toolgate_types::{CallId, Decision, Failure, Stage, ToolCall};
use toolgate_workspace::Workspace;
use tracing::Level;

use crate::profiles::Profile;

/// The tracing target that subscribers filter by.
const TARGET: &str = "toolgate::call";
/// The names of path arguments, over all profiles.
const PATHS: [&str; 4] = ["path", "from", "to", "cwd"];
/// The tool name and the paths are cut to this length.
const MAX_BYTES: usize = 400;
/// Logged in place of a path that resolves outside the mounts: it may be a host path.
const OUTSIDE: &str = "(outside)";

/// A call whose line is not written yet.
pub(crate) struct LoggedCall {
    tool: String,
    path: Option<String>,
    repairs: Option<String>,
}

/// How a call ended.
pub(crate) struct CallEnd<'a> {
    pub(crate) call: CallId,
    pub(crate) decision: Decision,
    pub(crate) failed: Option<&'a (Stage, Failure)>,
    pub(crate) duration: Duration,
}

impl LoggedCall {
    /// Captures what the line needs; `None` if no subscriber is enabled for the target.
    pub(crate) fn begin(profile: Profile, workspace: Option<&Workspace>, call: &ToolCall) -> Option<Self> {
        if !tracing::enabled!(target: TARGET, Level::ERROR) {
            return None;
        }
        let tool = truncate_at_char_boundary(&call.tool, MAX_BYTES).to_owned();
        tracing::debug!(target: TARGET, call = %call.id, profile = profile.name(), tool, "begun");
        let spelt = |name: &str| {
            let text = call.arguments.get(name)?.as_str()?;
            let spelt = workspace.and_then(|workspace| workspace.spelt(text, profile.path_style()));
            Some(spelt.unwrap_or_else(|| OUTSIDE.to_owned()))
        };
        let paths: Vec<String> = PATHS.into_iter().filter_map(spelt).collect();
        let path = truncate_at_char_boundary(&paths.join(" "), MAX_BYTES).to_owned();
        let repairs: Vec<&str> = call.repairs.iter().map(|repair| repair.as_str()).collect();
        let some = |text: String| Some(text).filter(|text| !text.is_empty());
        Some(Self { tool, path: some(path), repairs: some(repairs.join(" ")) })
    }

    /// Writes the line.
    pub(crate) fn finish(self, profile: Profile, end: &CallEnd<'_>) {
        let Self { tool, path, repairs } = self;
        let (call, profile_name) = (end.call.to_string(), profile.name());
        let (path, repairs) = (path.as_deref(), repairs.as_deref());
        let decision = end.decision.as_str();
        // Milliseconds with microsecond precision.
        let duration_ms = end.duration.as_micros() as f64 / 1000.0;
        match end.failed {
            None => tracing::info!(
                target: TARGET, call, profile = profile_name, tool, path, result = "success", decision, category = "ok", duration_ms, repairs,
                "call"
            ),
            Some((stage, failure)) => tracing::warn!(
                target: TARGET, call, profile = profile_name, tool, path, result = "failure", decision,
                category = profile.error_code(failure.code), code = failure.code.as_str(), stage = stage.as_str(), duration_ms, repairs,
                "call"
            ),
        }
    }
}

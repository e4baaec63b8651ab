//! `conversation`: settings of conversations with models, for all agents or for one.

use std::time::Duration;

use toolgate_types::OnFull;

use crate::decode::{
    ConfigField, KeySpec, Section, count, duration, flag, key, located_text, path, text, word,
};
use crate::path::DeclaredPath;
use crate::problem::{Located, shown};
use crate::problem_report::ProblemReport;

/// The keys of `conversation`; an agent has the same keys among its own. `model` is separate.
const CONVERSATION: &[KeySpec] = &[
    key("system", "system: You review changes."),
    key("system_file", "system_file: prompts/reviewer.md"),
    key("max_tool_iterations", "max_tool_iterations: 20"),
    key("time_limit", "time_limit: 30m"),
    key("stream_timeout", "stream_timeout: 120s"),
    key("context", "context: {reserve_tokens: 8192, warn_at: 75%}"),
    key("parallel_reads", "parallel_reads: true"),
    key("repair_calls", "repair_calls: false"),
];

const CONTEXT: &[KeySpec] = &[
    key("reserve_tokens", "reserve_tokens: 8192"),
    key("warn_at", "warn_at: 75%"),
    key("window", "window: 128000"),
    key("on_full", "on_full: compact"),
    key("max_turn_tokens", "max_turn_tokens: 2000000"),
];

/// `conversation`, or the same keys of an agent. Absent values come from the profile.
#[derive(Clone, Debug, Default)]
pub struct ConversationConfig {
    /// `model`: as `PROVIDER/NAME`.
    pub model: Option<Located<String>>,
    /// `system`: the system prompt.
    pub system: Option<String>,
    /// `system_file`: the same, in a file next to the configuration.
    pub system_file: Option<Located<DeclaredPath>>,
    /// `max_tool_iterations`: maximum steps with calls in a turn; 0 means the profile's.
    pub max_tool_iterations: Option<u32>,
    /// `time_limit`: timeout of a turn.
    pub time_limit: Option<Duration>,
    /// `stream_timeout`: how long the model's server may be silent.
    pub stream_timeout: Option<Duration>,
    /// `context.reserve_tokens`: how much of the context is kept free.
    pub reserve_tokens: Option<u64>,
    /// `context.warn_at`: the fraction of the context, from 0 to 1, above which the user is warned.
    pub warn_at: Option<f64>,
    /// `context.window`: the model's context window, in place of what its server reports.
    pub window: Option<u64>,
    /// `context.on_full`: what to do when the context is nearly full.
    pub on_full: Option<OnFull>,
    /// `context.max_turn_tokens`: maximum tokens of all requests and responses of a turn.
    pub max_turn_tokens: Option<u64>,
    /// `parallel_reads`: whether the read-only calls of one step run in parallel.
    pub parallel_reads: Option<bool>,
    /// `repair_calls`: whether arguments that are almost JSON are repaired.
    pub repair_calls: Option<bool>,
}

impl ConversationConfig {
    /// These settings, with `general` for absent values.
    #[must_use]
    pub fn over(self, general: &Self) -> Self {
        let own_words = self.system.is_some() || self.system_file.is_some();
        let general = general.clone();
        Self {
            model: self.model.or(general.model),
            // One of the two keys replaces the other.
            system: if own_words { self.system } else { general.system },
            system_file: if own_words { self.system_file } else { general.system_file },
            max_tool_iterations: self.max_tool_iterations.or(general.max_tool_iterations),
            time_limit: self.time_limit.or(general.time_limit),
            stream_timeout: self.stream_timeout.or(general.stream_timeout),
            reserve_tokens: self.reserve_tokens.or(general.reserve_tokens),
            warn_at: self.warn_at.or(general.warn_at),
            window: self.window.or(general.window),
            on_full: self.on_full.or(general.on_full),
            max_turn_tokens: self.max_turn_tokens.or(general.max_turn_tokens),
            parallel_reads: self.parallel_reads.or(general.parallel_reads),
            repair_calls: self.repair_calls.or(general.repair_calls),
        }
    }
}

pub(crate) fn conversation(
    field: &ConfigField,
    report: &mut ProblemReport<'_>,
) -> Option<ConversationConfig> {
    let section = Section::read(field, CONVERSATION, report)?;
    Some(of_section(&section, report))
}

/// The same keys among those of another section.
pub(crate) fn of_section(section: &Section, report: &mut ProblemReport<'_>) -> ConversationConfig {
    if let (Some(_), Some(file)) = (section.field("system"), section.field("system_file")) {
        let help = "keep one of them".to_owned();
        report.node(&file.node, "`system_file` says again what `system` says", Some(help));
    }
    let context = section.get("context", report, |field, report| Section::read(field, CONTEXT, report));
    let context = context.as_ref();
    let reserve_tokens = context.and_then(|context| context.get("reserve_tokens", report, count));
    let window = context.and_then(|context| context.get("window", report, count));
    if let (Some(reserve), Some(window), Some(context)) = (reserve_tokens, window, context) {
        check_reserve(context, reserve, window, report);
    }
    ConversationConfig {
        model: None,
        system: section.get("system", report, text),
        system_file: section.get("system_file", report, path),
        max_tool_iterations: section.get("max_tool_iterations", report, iterations),
        time_limit: section.get("time_limit", report, duration),
        stream_timeout: section.get("stream_timeout", report, duration),
        reserve_tokens,
        warn_at: context.and_then(|context| context.get("warn_at", report, part)),
        window,
        on_full: context.and_then(|context| context.get("on_full", report, word)).map(|word| word.value),
        max_turn_tokens: context.and_then(|context| context.get("max_turn_tokens", report, count)),
        parallel_reads: section.get("parallel_reads", report, flag),
        repair_calls: section.get("repair_calls", report, flag),
    }
}

/// The reserve must be smaller than the window. A window that the server reports is compared when a turn begins.
fn check_reserve(context: &Section, reserve: u64, window: u64, report: &mut ProblemReport<'_>) {
    if let Some(field) = context.field("reserve_tokens").filter(|_| reserve >= window) {
        let help = "keep less free, or state a larger `window`".to_owned();
        let message = format!("`reserve_tokens` leaves nothing of a `window` of {window} tokens");
        report.node(&field.node, message, Some(help));
    }
}

/// A number of steps; 0 and less mean the profile's limit.
pub(crate) fn iterations(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<u32> {
    let text = field.scalar("a count", report)?;
    if text.parse::<i64>().is_ok_and(|number| number <= 0) {
        return Some(0);
    }
    count(field, report).map(|count| u32::try_from(count).unwrap_or(u32::MAX))
}

/// `PROVIDER/NAME`. Whether the provider exists is checked when all are declared.
pub(crate) fn model_name(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Located<String>> {
    let name = located_text(field, report)?;
    let parts = name.value.split_once('/');
    let odd = |character: char| character.is_whitespace() || character.is_control();
    if parts.is_none_or(|(provider, model)| provider.is_empty() || model.is_empty())
        || name.value.contains(odd)
    {
        let help = format!("write a provider and a name, as in `{}`", field.example);
        report.located(&name, format!("`{}` does not name a model", shown(&name.value)), Some(help));
        return None;
    }
    Some(name)
}

/// `75%`.
fn part(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<f64> {
    let text = field.scalar("a part", report)?;
    let percent = text.strip_suffix('%').and_then(|number| number.trim().parse::<u8>().ok());
    let percent = percent.filter(|percent| (1..=100).contains(percent));
    if percent.is_none() {
        let help = "write a whole number of per cent from 1% to 100%, such as `75%`".to_owned();
        report.node(&field.node, format!("`{}` is not a part of the context", shown(text)), Some(help));
    }
    percent.map(|percent| f64::from(percent) / 100.0)
}

//! Validates a parsed script.

use std::time::Duration;

use serde_json::Value;
use serde_saphyr::{Location, Spanned};

use super::problem::{ProblemCollector, ScriptProblems};
use super::raw::{FaultKeys, FaultWord, RawAct, RawCall, RawFault, RawModel, RawScript, RawStep};
use super::{
    Act, BreakEnd, FaultKind, Model, Script, ScriptArguments, ScriptCall, ScriptFault, ScriptStep,
    StatusFault,
};

/// The default of `chunk`.
const DEFAULT_CHUNK_BYTES: usize = 24;

const DEFAULT_CONTEXT_WINDOW: u64 = 200_000;
const DEFAULT_MAX_OUTPUT_TOKENS: u64 = 32_000;

pub(super) fn script(file: &str, text: &str) -> Result<Script, ScriptProblems> {
    let mut report = ProblemCollector::new(file);
    let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
    let raw: RawScript = match serde_saphyr::from_str_with_options(text, options) {
        Ok(raw) => raw,
        Err(error) => return Err(report.unread(&error)),
    };
    if raw.steps.value.is_empty() {
        report.add(raw.steps.referenced, "the script has no steps", "for example `steps: [{say: Hello.}]`");
    }
    let mut reader = ScriptReader { report: &mut report, faults: 0 };
    let steps = raw.steps.value.into_iter().map(|step| reader.step(step)).collect();
    let faults = reader.faults;
    report.finish()?;
    Ok(Script { model: model(raw.model), memory: raw.memory, steps, faults })
}

fn model(raw: RawModel) -> Model {
    Model {
        name: raw.name,
        wire: raw.wire,
        tools: raw.tools.unwrap_or(true),
        thinking: raw.thinking.unwrap_or(true),
        context_window: raw.context_window.unwrap_or(DEFAULT_CONTEXT_WINDOW),
        max_output_tokens: raw.max_output_tokens.unwrap_or(DEFAULT_MAX_OUTPUT_TOKENS),
        reasoning: raw.reasoning,
    }
}

struct ScriptReader<'r, 'f> {
    report: &'r mut ProblemCollector<'f>,
    /// The number of faults so far.
    faults: usize,
}

impl ScriptReader<'_, '_> {
    fn step(&mut self, step: Spanned<RawStep>) -> ScriptStep {
        let Spanned { value: raw, referenced: at, .. } = step;
        let acts = self.acts(at, raw.think, raw.say, raw.calls, raw.fault, raw.r#do);
        self.check_acts(at, &acts);
        if let Some(when) = &raw.when {
            self.check_when(when);
        }
        if let Some(usage) = raw.usage.as_ref().filter(|usage| usage.value.cached > usage.value.input) {
            let help = "`cached` says how many of `input` came from a cache, such as `{input: 90, output: 5, cached: 40}`";
            self.report.add(usage.referenced, "more tokens come from the cache than go in", help);
        }
        if let Some(chunk) = raw.chunk.as_ref().filter(|chunk| chunk.value == 0) {
            self.report.add(
                chunk.referenced,
                "a delta of no bytes never comes to an end",
                "for example `chunk: 8`",
            );
        }
        ScriptStep {
            when: raw.when.map(|when| when.value),
            acts,
            repeat: raw.repeat,
            finish: raw.finish,
            usage: raw.usage.map(|usage| usage.value),
            chunk: raw.chunk.map_or(DEFAULT_CHUNK_BYTES, |chunk| chunk.value.max(1)),
            slow: raw.slow.map(|slow| self.duration(slow.referenced, &slow.value)),
        }
    }

    /// The actions in order: the list if there is one, else thinking, then text, then calls.
    fn acts(
        &mut self,
        at: Location,
        think: Option<String>,
        say: Option<String>,
        calls: Option<Vec<Spanned<RawCall>>>,
        fault: Option<Spanned<RawFault>>,
        listed: Option<Vec<Spanned<RawAct>>>,
    ) -> Vec<Act> {
        let short = think.is_some() || say.is_some() || calls.is_some() || fault.is_some();
        if let Some(listed) = listed {
            if short {
                let help = "move them into the list, such as `do: [{think: …}, {say: …}, {call: {tool: …}}]`";
                self.report.add(
                    at,
                    "the step has `do` and things beside it, so their order is not said",
                    help,
                );
            }
            return listed.into_iter().map(|act| self.act(act)).collect();
        }
        let fault = fault.map(|fault| self.fault(fault.referenced, fault.value.0));
        let think = think.map(|text| Act::Think { text, hidden: false });
        let calls = calls.unwrap_or_default();
        let calls: Vec<Act> = calls.into_iter().map(|call| self.call(call.referenced, call.value)).collect();
        let acts = think.into_iter().chain(say.map(Act::Say)).chain(calls);
        // Faults come last, except for a status, which comes first.
        match fault {
            Some(fault) if matches!(fault.kind, FaultKind::Status(_)) => {
                std::iter::once(Act::Fault(fault)).chain(acts).collect()
            }
            fault => acts.chain(fault.map(Act::Fault)).collect(),
        }
    }

    fn act(&mut self, act: Spanned<RawAct>) -> Act {
        let at = act.referenced;
        match act.value {
            RawAct::Say(text) => Act::Say(text),
            RawAct::Think(text) => Act::Think { text, hidden: false },
            RawAct::ThinkHidden(text) => Act::Think { text, hidden: true },
            RawAct::Call(call) => self.call(at, call),
            RawAct::Pause(time) => Act::Pause(self.duration(at, &time)),
            RawAct::Fault(fault) => Act::Fault(self.fault(at, fault.0)),
        }
    }

    fn call(&mut self, at: Location, raw: RawCall) -> Act {
        let arguments = match (raw.arguments, raw.arguments_text) {
            (Some(_), Some(_)) => {
                let help =
                    "keep `arguments` for arguments that are right, `arguments_text` for exact characters";
                self.report.add(at, "the call has both `arguments` and `arguments_text`", help);
                ScriptArguments::Text(String::new())
            }
            (None, Some(text)) => ScriptArguments::Text(text),
            (None | Some(Value::Null), None) => {
                ScriptArguments::Object(Value::Object(serde_json::Map::new()))
            }
            (Some(object @ Value::Object(_)), None) => ScriptArguments::Object(object),
            (Some(_), None) => {
                let help = "write `{path: README.md}`; for a model that gets that wrong, use `arguments_text: \"[]\"`";
                self.report.add(at, "`arguments` must be a mapping", help);
                ScriptArguments::Text(String::new())
            }
        };
        Act::Call(ScriptCall { tool: raw.tool, arguments, id: raw.id })
    }

    fn fault(&mut self, at: Location, keys: FaultKeys) -> ScriptFault {
        let number = self.faults;
        self.faults += 1;
        let word = match (keys.kind, keys.status) {
            (Some(FaultWord::Status), None) => {
                self.report.add(
                    at,
                    "the fault does not say which status",
                    "for example `{status: 429, retry_after: 1s}`",
                );
                FaultWord::Status
            }
            (None | Some(FaultWord::Status), Some(_)) => FaultWord::Status,
            (Some(word), _) => word,
            (None, None) => {
                let help = "say a word such as `fault: reset`, `{kind: reset, times: 1}` or `{status: 429}`";
                self.report.add(at, "the fault does not say what goes wrong", help);
                FaultWord::Comment
            }
        };
        self.check_keys(at, word, &keys);
        ScriptFault { number, times: keys.times, kind: self.fault_kind(at, word, keys) }
    }

    fn fault_kind(&mut self, at: Location, word: FaultWord, keys: FaultKeys) -> FaultKind {
        let after = keys.after_bytes;
        match word {
            FaultWord::Reset => FaultKind::Break { end: BreakEnd::Reset, after },
            FaultWord::Truncate => FaultKind::Break { end: BreakEnd::Truncate, after },
            FaultWord::Idle => FaultKind::Break { end: BreakEnd::Idle, after },
            FaultWord::Garbage => FaultKind::Garbage,
            FaultWord::UnknownEvent => FaultKind::UnknownEvent,
            FaultWord::Comment => FaultKind::Comment,
            FaultWord::DuplicateIndex => FaultKind::DuplicateIndex,
            FaultWord::MissingIndex => FaultKind::MissingIndex,
            FaultWord::ErrorInStream => FaultKind::ErrorInStream { message: keys.message, kind: keys.r#type },
            FaultWord::Status => FaultKind::Status(StatusFault {
                status: keys.status.unwrap_or(500),
                message: keys.message,
                kind: keys.r#type,
                code: keys.code,
                retry_after: keys.retry_after.map(|time| self.duration(at, &time)),
                retry_after_ms: keys.retry_after_ms.map(Duration::from_millis),
                should_retry: keys.should_retry,
            }),
        }
    }

    /// Keys that do not apply to this kind of fault are mistakes.
    fn check_keys(&mut self, at: Location, word: FaultWord, keys: &FaultKeys) {
        let is_break = matches!(word, FaultWord::Reset | FaultWord::Truncate | FaultWord::Idle);
        let is_status = word == FaultWord::Status;
        let is_error = is_status || word == FaultWord::ErrorInStream;
        for (name, is_there, fits) in [
            ("after_bytes", keys.after_bytes.is_some(), is_break),
            ("status", keys.status.is_some(), is_status),
            ("message", keys.message.is_some(), is_error),
            ("type", keys.r#type.is_some(), is_error),
            ("code", keys.code.is_some(), is_status),
            ("retry_after", keys.retry_after.is_some(), is_status),
            ("retry_after_ms", keys.retry_after_ms.is_some(), is_status),
            ("should_retry", keys.should_retry.is_some(), is_status),
        ] {
            if is_there && !fits {
                self.report.add(at, format!("`{name}` means nothing for this fault"), "remove it");
            }
        }
        if keys.status.is_some_and(|status| !(400..600).contains(&status)) {
            self.report.add(at, "the status is no failure", "use one from 400 to 599, such as `status: 429`");
        }
        if keys.times == Some(0) {
            self.report.add(at, "a fault that happens no times is none", "remove it, or say `times: 1`");
        }
    }

    fn check_acts(&mut self, at: Location, acts: &[Act]) {
        let is_status = |act: &Act| matches!(act, Act::Fault(ScriptFault { kind: FaultKind::Status(_), .. }));
        if acts.iter().skip(1).any(is_status) {
            let help = "put it first in the step; for a failure under way use `fault: error_in_stream`";
            self.report.add(at, "a status comes before anything else is said", help);
        }
        let says_something = |act: &Act| match act {
            Act::Say(_) | Act::Think { .. } | Act::Call(_) => true,
            Act::Fault(fault) => fault.times.is_none() && ends(&fault.kind),
            Act::Pause(_) => false,
        };
        if !acts.iter().any(says_something) {
            let help = "add `say:`, `calls:` or a fault that does not pass";
            self.report.add(at, "the step says nothing", help);
        }
    }

    fn check_when(&mut self, when: &Spanned<super::When>) {
        let at = when.referenced;
        if when.value == super::When::default() {
            let help = "remove it, or say for example `when: {result: read_file, contains: Hello}`";
            self.report.add(at, "`when` has no conditions", help);
        }
    }

    /// A duration such as `200ms`, `1s`, `2m`.
    fn duration(&mut self, at: Location, text: &str) -> Duration {
        let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let scale = match unit {
            "ms" => Some(1),
            "s" => Some(1_000),
            "m" => Some(60_000),
            _ => None,
        };
        let millis = scale.and_then(|scale| number.parse::<u64>().ok()?.checked_mul(scale));
        if millis.is_none() {
            let help = "write a whole number and `ms`, `s` or `m`, such as `200ms`";
            self.report.add(at, format!("`{}` is not a time", text.escape_debug()), help);
        }
        Duration::from_millis(millis.unwrap_or_default())
    }
}

/// Whether the fault ends the answer.
fn ends(kind: &FaultKind) -> bool {
    matches!(kind, FaultKind::Break { .. } | FaultKind::Status(_) | FaultKind::ErrorInStream { .. })
}

//! The outcome of a command, and how much of it fits into an answer.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};
use toolgate_confine::{Leftover, LeftoverKind, Quarantined};
use toolgate_sandbox::{CommandExit, Exit, LimitHit, ResourceLimits, TerminationReason};
use toolgate_text::escape_control_chars;
use toolgate_text::json_len::json_len;
use toolgate_types::{ErrorCode, Failure, Limits};

use crate::applied_limits::AppliedLimits;
use crate::capture::Captured;
use crate::command_denial::CommandDenial;
use crate::network::RefusedHost;

/// Reserved in an answer for the fields around the output.
const RESERVED_BYTES: u64 = 8192;

/// The outcome of a command.
#[derive(Clone, Debug, Default)]
pub struct CommandOutcome {
    /// Its output.
    pub captured: Captured,
    /// What it was denied.
    pub denied: Vec<CommandDenial>,
    /// The hosts that it was refused; a bounded number.
    pub refused_hosts: Vec<RefusedHost>,
    /// Files that were moved to quarantine.
    pub quarantined: Vec<Quarantined>,
    /// Files that stay and are reported.
    pub leftovers: Vec<Leftover>,
    /// The limits that applied.
    pub limits: AppliedLimits,
    /// How it ended; `None` where it was not started.
    pub exit: Option<CommandExit>,
    /// Whether the same call again asks a person for what it lacked. Only for commands in the background: the gate says it of others.
    pub retry_asks: bool,
}

/// What an answer says of a command besides its output. The members are those of the declared schemas.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[allow(missing_docs, reason = "a doc comment would be the description of the member for the model")]
pub struct CommandFacts {
    pub exit_code: Option<i32>,
    pub signal: Option<String>,
    pub duration_ms: u64,
    pub truncated: bool,
    pub timed_out: bool,
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub denied: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub refused_hosts: Vec<Value>,
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub quarantined: Vec<Value>,
    pub quarantined_total: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub left_behind: Vec<Value>,
    pub hidden_files: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned_folders: Option<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hidden_folders: Vec<String>,
}

impl CommandFacts {
    /// The members of the JSON object.
    #[must_use]
    pub fn into_fields(self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(fields)) => fields,
            // Neither a map with other keys than text nor a failing serializer is in it.
            _ => Map::new(),
        }
    }
}

/// The bounds of a command, for messages.
#[derive(Clone, Copy)]
pub struct CommandBounds {
    /// Its timeout.
    pub timeout: std::time::Duration,
    /// Whether its caller chooses the timeout, with `timeout_ms`.
    pub timeout_is_chosen: bool,
    /// Its resource limits.
    pub limits: ResourceLimits,
    /// How many bytes it may write.
    pub max_written: u64,
}

impl CommandOutcome {
    /// Its exit code, unless a signal ended it.
    #[must_use]
    pub fn exit_code(&self) -> Option<i32> {
        match self.exit.as_ref()?.exit {
            Exit::Code(code) => Some(code),
            Exit::Signal(_) => None,
        }
    }

    /// The signal that ended it, such as `SIGKILL`.
    #[must_use]
    pub fn signal(&self) -> Option<String> {
        match self.exit.as_ref()?.exit {
            Exit::Code(_) => None,
            Exit::Signal(number) => Some(signal_name(number)),
        }
    }

    /// Bytes written, kept or not.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.exit.as_ref().map_or(0, |ended| ended.output_bytes.saturating_add(ended.error_bytes))
    }

    pub(crate) fn was_cut(&self) -> bool {
        self.exit.as_ref().is_some_and(|ended| ended.truncated)
    }

    fn stopped(&self) -> Option<TerminationReason> {
        self.exit.as_ref().and_then(|ended| ended.stopped)
    }

    /// Why it was terminated, if it did not exit by itself, with its output until then.
    ///
    /// # Errors
    /// That reason.
    pub fn check(&self, bounds: &CommandBounds, limits: &Limits) -> Result<(), Failure> {
        let limit = self.exit.as_ref().and_then(|ended| ended.limit);
        let failure = match (self.stopped(), limit) {
            (None, None) => return Ok(()),
            (Some(TerminationReason::Deadline), _) => {
                let time = shown_time(bounds.timeout);
                let (most, max_ms) = (shown_time(limits.timeout), limits.timeout.as_millis());
                let help = match bounds.timeout_is_chosen && bounds.timeout < limits.timeout {
                    true => {
                        format!("give it more time with `timeout_ms` (up to {max_ms}), or do less at once")
                    }
                    false => format!("do less at once: this call is given no more than {most}"),
                };
                let key = if bounds.timeout_is_chosen { "sandbox.max_timeout" } else { "timeout" };
                Failure::new(ErrorCode::Timeout, format!("the command took longer than {time} and was ended"))
                    .help(help)
                    .detail("max_timeout_ms", u64::try_from(max_ms).unwrap_or(u64::MAX))
                    .operator_note(format!("a larger `{key}` would allow a call more than {most}"))
            }
            (Some(TerminationReason::Cancelled), _) => {
                Failure::new(ErrorCode::Cancelled, "the command was cancelled")
            }
            (Some(TerminationReason::OutputLimit), _) => {
                let message =
                    format!("the command wrote more than {} bytes and was ended", bounds.max_written);
                Failure::new(ErrorCode::ResourceLimit, message).help("write less, or write to a file")
            }
            (Some(TerminationReason::DiskFull), _) => {
                let message =
                    "the command was ended: the disk that the gate keeps its record on was almost full";
                Failure::new(ErrorCode::DiskFull, message)
                    .help(format!("write less; {}", crate::disk_reserve::HELP))
                    .operator_note(
                        "less than `audit.reserve` was free on the filesystem of the audit directory",
                    )
            }
            (None, Some(limit)) => exhausted(limit, &bounds.limits),
        };
        Err(self.add_to(failure, limits))
    }

    fn add_to(&self, mut failure: Failure, limits: &Limits) -> Failure {
        let (text, cut) = truncate_json(&self.captured.both, output_budget(limits));
        failure.details.extend(self.facts(cut).into_fields());
        failure.details.insert("output".to_owned(), json!(text));
        failure
    }

    /// Every field except the output. `cut` is whether the output was truncated for the answer.
    #[must_use]
    pub fn facts(&self, cut: bool) -> CommandFacts {
        let duration = self.exit.as_ref().map_or(0, |ended| ended.duration.as_millis());
        CommandFacts {
            exit_code: self.exit_code(),
            signal: self.signal(),
            duration_ms: u64::try_from(duration).unwrap_or(u64::MAX),
            truncated: cut || self.was_cut(),
            timed_out: self.stopped() == Some(TerminationReason::Deadline),
            denied: self.denied.iter().map(CommandDenial::to_json).collect(),
            refused_hosts: self.refused_hosts.iter().map(RefusedHost::to_json).collect(),
            quarantined: self.quarantined.iter().take(MAX_REPORTED).map(quarantined_json).collect(),
            quarantined_total: self.quarantined.len(),
            left_behind: self.leftovers.iter().take(MAX_REPORTED).map(leftover_json).collect(),
            hidden_files: self.limits.hidden,
            pinned_folders: self.pinned(),
            hidden_folders: self.limits.bundled.clone(),
        }
    }

    /// The number of pinned directories, if that may be why it failed: `rename` of one fails with `EBUSY`, and across one with `EXDEV`.
    fn pinned(&self) -> Option<usize> {
        const ERRORS: [&str; 6] =
            ["resource busy", "EBUSY", "(os error 16)", "ross-device link", "EXDEV", "(os error 18)"];
        let says_so = || ERRORS.iter().any(|error| self.captured.both.contains(error));
        Some(self.limits.pinned).filter(|pinned| *pinned > 0 && self.exit_code() != Some(0) && says_so())
    }

    /// Both streams, truncated to share the budget, and whether anything was dropped.
    #[must_use]
    pub fn streams(&self, limits: &Limits) -> (String, String, bool) {
        let room = output_budget(limits);
        let Captured { output, error, .. } = &self.captured;
        // The shorter stream is kept whole as long as it takes no more than half.
        let for_error = json_len(error).min((room / 2).max(room.saturating_sub(json_len(output))));
        let (error, error_cut) = truncate_json(error, for_error);
        let (output, output_cut) = truncate_json(output, room.saturating_sub(json_len(&error)));
        (output, error, output_cut || error_cut)
    }

    /// All of the kept output, sanitised.
    #[must_use]
    pub fn into_full_text(self) -> String {
        let (was_cut, bytes) = (self.was_cut(), self.bytes());
        let mut whole = self.captured.both;
        if was_cut {
            let kept = whole.len();
            whole.push_str(&format!("\n[truncated: {kept} of {bytes} bytes kept]\n"));
        }
        whole
    }

    /// The text for the model: the output, the exit status unless it is plain, denials and quarantined files.
    #[must_use]
    pub fn text(&self, limits: &Limits) -> (String, bool) {
        self.with_notices(truncate_json(&self.captured.both, output_budget(limits)))
    }

    /// The same, where the limit applies to the output alone and not to the notices around it.
    #[must_use]
    pub fn text_of_output(&self, limits: &Limits) -> (String, bool) {
        let most = usize::try_from(limits.max_output_bytes).unwrap_or(usize::MAX);
        self.with_notices(first_bytes(&self.captured.both, most))
    }

    fn with_notices(&self, (mut text, cut): (String, bool)) -> (String, bool) {
        let end_line = |text: &mut String| {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
        };
        let mut lines = Vec::new();
        if cut || self.was_cut() {
            let (shown, all) = (text.len(), self.bytes());
            lines.push(format!(
                "[truncated: {shown} of {all} bytes shown; write less, or write to a file and read parts of it]"
            ));
        }
        match (self.exit_code(), self.signal()) {
            (Some(0), _) if !text.is_empty() => {}
            (Some(code), _) => lines.push(format!("exit code {code}")),
            (None, Some(signal)) => lines.push(format!("ended by signal {signal}")),
            (None, None) => {}
        }
        lines.extend(self.denied.iter().map(CommandDenial::to_line));
        lines.extend(self.pinned().map(|pinned| {
            format!("[pinned_folders: {pinned} that hold protected files cannot be renamed; move files out of them by copying]")
        }));
        lines.extend(self.quarantined.iter().take(MAX_REPORTED).map(quarantined_line));
        if let Some(more @ 1..) = self.quarantined.len().checked_sub(MAX_REPORTED) {
            lines.push(format!("[quarantined: {more} more]"));
        }
        lines.extend(self.leftovers.iter().take(MAX_REPORTED).map(leftover_line));
        if let Some(more @ 1..) = self.leftovers.len().checked_sub(MAX_REPORTED) {
            lines.push(format!("[left behind: {more} more]"));
        }
        lines.extend(self.limits.bundled.iter().map(|folder| {
            format!("[hidden_folders: `{folder}` holds so many protected files that it is hidden as a whole]")
        }));
        for line in lines {
            end_line(&mut text);
            text.push_str(&line);
        }
        if cut || self.was_cut() || !text.ends_with('\n') {
            end_line(&mut text);
        }
        (text, cut)
    }
}

/// The output that a terminated command had written, for profiles that answer with text.
#[must_use]
pub fn output_before(failure: &Failure) -> String {
    let output = failure.details.get("output").and_then(Value::as_str).filter(|output| !output.is_empty());
    output.map(|output| format!("\noutput until then:\n{output}")).unwrap_or_default()
}

/// Beyond this many quarantined files, only their number is reported.
pub const MAX_REPORTED: usize = 8;

/// Escapes a name that the command chose, of a file or a host: no character is invisible, the name stays on its line, and long names are cut.
#[must_use]
pub fn escape_name(name: &str) -> String {
    const MAX_NAME_CHARS: usize = 200;
    let name = escape_control_chars(name).replace('\n', "\\n").replace('\t', "\\t");
    let mut told: String = name.chars().take(MAX_NAME_CHARS).collect();
    if told.len() < name.len() {
        told.push('…');
    }
    told
}

fn quarantined_json(quarantined: &Quarantined) -> Value {
    let Quarantined { path, kept_as, in_place } = quarantined;
    json!({"path": escape_name(path), "kept_as": escape_name(kept_as), "in_place": in_place})
}

fn quarantined_line(quarantined: &Quarantined) -> String {
    format!(
        "[quarantined: `{}` has a protected name and was taken away; do not make it again]",
        escape_name(&quarantined.path)
    )
}

fn leftover_json(leftover: &Leftover) -> Value {
    json!({"path": escape_name(&leftover.path), "kind": leftover.kind.as_str()})
}

fn leftover_line(leftover: &Leftover) -> String {
    let path = escape_name(&leftover.path);
    match leftover.kind {
        LeftoverKind::OutwardLink => {
            format!(
                "[left behind: `{path}` is a symlink that leads out of the mount; programs that follow it leave the workspace]"
            )
        }
        LeftoverKind::Fifo => {
            format!("[left behind: `{path}` is a FIFO; a program that opens it may wait for ever]")
        }
        LeftoverKind::Socket => format!("[left behind: `{path}` is a socket]"),
    }
}

fn exhausted(limit: LimitHit, limits: &ResourceLimits) -> Failure {
    let (what, key) = match limit {
        LimitHit::CpuTime => (format!("{} s of processor time", limits.cpu_seconds), "cpu_time"),
        LimitHit::FileSize => (format!("{} bytes in one file", limits.file_size), "file_size"),
        LimitHit::Memory => (format!("{} bytes of memory", limits.memory), "memory"),
    };
    Failure::new(ErrorCode::ResourceLimit, format!("the command needed more than {what} and was ended"))
        .help("do less at once")
        .operator_note(format!(
            "a larger `{key}` under `sandbox`, or `limits` of the manifest, would let it go on"
        ))
}

/// How a process ended unexpectedly, for the operator.
pub(crate) fn describe_exit(ended: &CommandExit) -> String {
    let how = match (ended.stopped, ended.exit) {
        (Some(TerminationReason::DiskFull), _) => {
            "it was ended because the disk of the gate's record was almost full (`audit.reserve`)".to_owned()
        }
        // Any other exit code or signal is the process's own failure before the stop: the caller that notices that it is gone requests a stop all the
        // same.
        (Some(_), Exit::Code(0) | Exit::Signal(9 | 15)) => "it was asked to end".to_owned(),
        (_, Exit::Code(code)) => format!("it exited with code {code}"),
        (_, Exit::Signal(number)) => format!("it was ended by {}", signal_name(number)),
    };
    match ended.limit {
        Some(LimitHit::Memory) => format!("{how}: it needed more memory than it was given"),
        Some(LimitHit::CpuTime) => format!("{how}: it needed more processor time than it was given"),
        Some(LimitHit::FileSize) => format!("{how}: it wrote a larger file than it may"),
        None => how,
    }
}

fn shown_time(time: std::time::Duration) -> String {
    match time.subsec_millis() {
        0 => format!("{} s", time.as_secs()),
        _ => format!("{} ms", time.as_millis()),
    }
}

fn output_budget(limits: &Limits) -> usize {
    let limit = limits.max_output_bytes;
    usize::try_from(limit - RESERVED_BYTES.min(limit / 2)).unwrap_or(usize::MAX)
}

/// Truncates a text at a character boundary so that its JSON form fits; returns whether it was cut.
#[must_use]
pub fn truncate_json(text: &str, room: usize) -> (String, bool) {
    let mut left = room;
    let fits = |character: &char| match left.checked_sub(json_len(character.encode_utf8(&mut [0; 4]))) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    let kept: String = text.chars().take_while(fits).collect();
    let cut = kept.len() < text.len();
    (kept, cut)
}

/// A line break is searched at most this far before the cut.
const MAX_PARTIAL_LINE: usize = 4096;

/// Truncates a text to this many bytes, at a line break if one is near, else at a character boundary; returns whether it was cut.
fn first_bytes(text: &str, most: usize) -> (String, bool) {
    if text.len() <= most {
        return (text.to_owned(), false);
    }
    let kept = text.get(..text.floor_char_boundary(most)).unwrap_or_default();
    let line_end = kept.rfind('\n').map(|at| at + 1).filter(|end| kept.len() - end <= MAX_PARTIAL_LINE);
    (kept.get(..line_end.unwrap_or(kept.len())).unwrap_or_default().to_owned(), true)
}

fn signal_name(number: i32) -> String {
    const NAMES: [(i32, &str); 20] = [
        (1, "SIGHUP"),
        (2, "SIGINT"),
        (3, "SIGQUIT"),
        (4, "SIGILL"),
        (5, "SIGTRAP"),
        (6, "SIGABRT"),
        (7, "SIGBUS"),
        (8, "SIGFPE"),
        (9, "SIGKILL"),
        (10, "SIGUSR1"),
        (11, "SIGSEGV"),
        (12, "SIGUSR2"),
        (13, "SIGPIPE"),
        (14, "SIGALRM"),
        (15, "SIGTERM"),
        (19, "SIGSTOP"),
        (24, "SIGXCPU"),
        (25, "SIGXFSZ"),
        (27, "SIGPROF"),
        (31, "SIGSYS"),
    ];
    let name = NAMES.iter().find(|(known, _)| *known == number).map(|(_, name)| (*name).to_owned());
    name.unwrap_or_else(|| format!("SIG{number}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_cut_at_a_line_or_at_a_character() {
        for (text, most, kept) in [
            ("one\ntwo\n", 8, None),
            ("one\ntwo\n", 7, Some("one\n")),
            ("one\ntwo\n", 3, Some("one")),
            ("ééé", 5, Some("éé")),
        ] {
            let expected = (kept.unwrap_or(text).to_owned(), kept.is_some());
            assert_eq!(first_bytes(text, most), expected, "{text} {most}");
        }
        let far = format!("a\n{}", "x".repeat(10_000));
        assert_eq!(first_bytes(&far, 9_000).0.len(), 9_000);
    }

    #[test]
    fn names_that_a_command_chose_say_nothing_but_themselves() {
        let path = "@project/\u{1b}[2J\u{9b}1m\r\n[approved]\t\u{202e}\u{200b}/.envrc";
        let spelt = "@project/\\u{1b}[2J\\u{9b}1m\\u{d}\\n[approved]\\t\\u{202e}\\u{200b}/.envrc";
        let taken = Quarantined { path: path.to_owned(), kept_as: path.to_owned(), in_place: false };
        let line =
            format!("[quarantined: `{spelt}` has a protected name and was taken away; do not make it again]");
        assert_eq!(quarantined_line(&taken), line);
        assert_eq!(quarantined_json(&taken), json!({"path": spelt, "kept_as": spelt, "in_place": false}));
        assert_eq!(escape_name(&"\u{1b}".repeat(500)).chars().count(), 201);
        let (target, reason, remedy) = (Some(path.to_owned()), "no".to_owned(), format!("add {path}"));
        let denial = CommandDenial { what: "network", target, reason, remedy };
        assert_eq!(denial.to_line(), format!("[network denied: `{spelt}`: no; add {spelt}]"));
        assert_eq!(
            (&denial.to_json()["target"], &denial.to_json()["remedy"]),
            (&json!(spelt), &json!(format!("add {spelt}")))
        );
    }
}

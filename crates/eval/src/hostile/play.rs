//! Plays sequences against one gate, and judges each from outside when it is over.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::door::{AnswerKind, Ending, GateAnswer, GateProcess};
use super::flow_labels::SeenLabels;
use super::ground::HostileGround;
use super::launch::{changes, command, filled, setup};
use super::process_tree::{descendants, left_after, peak_memory};
use super::records::{self, CallCounts};
use super::reference::ReferenceFiles;
use super::sequence::{HostileCall, HostileEvent, HostileStep};
use super::shape::{ToolShape, ToolUse, shapes};
use super::tap::Tap;
use super::target::{HostileFrontend, HostileTarget};
use crate::evidence::offered;
use crate::kept_record;
use crate::process::{self, finish};

/// How long a command of the person may take.
const PERSON_TIMEOUT: Duration = Duration::from_secs(60);

/// How long processes of ended calls may take to be gone: a command may ignore SIGTERM for five seconds, and the machine may be busy.
const PROCESS_TIMEOUT: Duration = Duration::from_secs(30);

/// What one gate may use of memory, in KiB.
const MAX_MEMORY: u64 = 1 << 20;

/// Something that must not happen, and did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Escape {
    /// What was asked of the evidence.
    pub check: &'static str,
    /// What was found.
    pub problem: String,
}

/// A call that was played, for reports.
pub(crate) struct PlayedCall {
    pub(crate) call: HostileCall,
    pub(crate) succeeded: bool,
}

/// How gates are started.
#[derive(Clone)]
pub(crate) struct PlayOptions {
    pub(crate) binary: PathBuf,
    pub(crate) tap: Option<Arc<dyn Tap>>,
    /// The deadline of every call: a line that waits for ever is killed.
    pub(crate) call_timeout: Duration,
    /// Where a copy of the record is kept.
    pub(crate) records: Option<PathBuf>,
}

/// A gate on its own ground.
pub(super) struct AttackedGate {
    target: HostileTarget,
    options: PlayOptions,
    ground: HostileGround,
    gate: GateProcess,
    pub(super) tools: Vec<ToolShape>,
    counts: CallCounts,
    idle_processes: usize,
    reloads: usize,
    labels: SeenLabels,
    peak: u64,
    stderr: String,
}

/// What is known of a sequence while it is played.
#[derive(Default)]
pub(super) struct SequenceState {
    pub(super) escapes: Vec<Escape>,
    pub(super) played: Vec<PlayedCall>,
    /// Calls with what the model was given.
    pub(super) answers: Vec<(HostileCall, GateAnswer)>,
    pub(super) reference: ReferenceFiles,
    /// Whether only file tools succeeded, one at a time.
    pub(super) is_simple: bool,
    pub(super) names_host_paths: bool,
    /// Whether calls may lack an answer.
    pub(super) was_interrupted: bool,
    known_changes: Vec<String>,
}

impl SequenceState {
    pub(super) fn found(&mut self, check: &'static str, problem: impl Into<String>) {
        self.escapes.push(Escape { check, problem: problem.into() });
    }
}

impl AttackedGate {
    pub(super) fn open(target: &HostileTarget, options: &PlayOptions) -> Result<Self, String> {
        let ground = HostileGround::lay_out(target, &options.binary)
            .map_err(|error| format!("the ground cannot be laid out: {error}"))?;
        if target.config.as_ref().is_some_and(|config| config.contains("mcp_servers")) {
            // The person sees the tools of a server once; they are agreed to from then on.
            let mut listing = command(target, &options.binary, &ground);
            listing.args(["mcp", "list"]);
            finish(listing, PERSON_TIMEOUT).map_err(|error| error.to_string())?;
        }
        let gate = GateProcess::start(setup(target, options, &ground)?)?;
        let (target, options) = (target.clone(), options.clone());
        let mut this = Self {
            target,
            options,
            ground,
            gate,
            tools: Vec::new(),
            idle_processes: 0,
            labels: SeenLabels::default(),
            counts: CallCounts::default(),
            reloads: 0,
            peak: 0,
            stderr: String::new(),
        };
        this.warm_up()?;
        this.ground.reset().map_err(|error| error.to_string())?;
        Ok(this)
    }

    /// Learns the tools, and waits for a server behind the gate, whose process stays.
    fn warm_up(&mut self) -> Result<(), String> {
        self.tools = shapes(&offered(&self.gate.tools()?));
        if self.tools.is_empty() {
            return Err(format!("the gate of `{}` has no tools: {}", self.target.name, self.gate.stderr()));
        }
        if let Some(tool) = self.tools.iter().find(|tool| tool.name.contains("__")) {
            let call = HostileCall { tool: tool.name.clone(), arguments: tool.with(&[]) };
            self.gate.call(&[call])?;
            self.counts.certain += 1;
        }
        self.idle_processes = descendants(self.gate.pid()).len();
        Ok(())
    }

    /// Plays a sequence; everything that it did is undone on the ground, but not in the gate.
    pub(super) fn play(&mut self, steps: &[HostileStep]) -> Result<SequenceState, String> {
        let mut state = SequenceState { is_simple: true, ..SequenceState::default() };
        if steps.iter().any(|step| step.during == Some(HostileEvent::UndoAll)) {
            state.known_changes = self.changes()?;
        }
        for step in steps {
            self.step(step, &mut state)?;
        }
        self.judge(&mut state)?;
        self.ground.reset().map_err(|error| format!("the ground cannot be laid out again: {error}"))?;
        Ok(state)
    }

    fn step(&mut self, step: &HostileStep, state: &mut SequenceState) -> Result<(), String> {
        let calls: Vec<HostileCall> = step.calls.iter().map(|call| self.filled(call, state)).collect();
        let interrupts = [HostileEvent::Cancel, HostileEvent::Kill, HostileEvent::Shutdown];
        state.was_interrupted |= step.during.is_some_and(|event| interrupts.contains(&event));
        let answers = match step.during {
            None => self.gate.call(&calls)?,
            Some(HostileEvent::Cancel) => self.cancelled(&calls)?,
            Some(HostileEvent::Undo) => self.during(&calls, Self::undo_newest)?,
            Some(HostileEvent::Reload) => self.during(&calls, Self::reload)?,
            Some(event @ (HostileEvent::Shutdown | HostileEvent::Kill)) => {
                self.restarted(&calls, event, state)?
            }
            Some(HostileEvent::Approve) => self.approved(&calls, state)?,
            Some(HostileEvent::UndoAll) => {
                let answers = self.gate.call(&calls)?;
                self.follow(&calls, &answers, false, state);
                self.undo_all(state)?;
                return Ok(());
            }
        };
        let was_restarted = matches!(step.during, Some(HostileEvent::Shutdown | HostileEvent::Kill));
        if let (Some(tools), false) = (self.target.flow, was_restarted)
            && let Some(problem) = self.labels.problem(tools, &calls, &answers)
        {
            state.found("nothing secret was sent where others steer", problem);
        }
        let is_alone = step.during.is_none() && calls.len() == 1;
        if step.during.is_some_and(|event| event != HostileEvent::Reload) {
            state.is_simple = false;
            state.reference.forget();
        }
        self.follow(&calls, &answers, is_alone, state);
        Ok(())
    }

    /// Counts calls and remembers what came of them.
    fn follow(
        &mut self,
        calls: &[HostileCall],
        answers: &[GateAnswer],
        is_alone: bool,
        state: &mut SequenceState,
    ) {
        for (call, answer) in calls.iter().zip(answers) {
            match answer.ended {
                AnswerKind::Succeeded | AnswerKind::Failed => self.counts.certain += 1,
                // What waits for a person when the gate is killed was not decided.
                AnswerKind::Refused | AnswerKind::Unanswered | AnswerKind::Asked => self.counts.possible += 1,
            }
            self.counts.ids.extend(answer.id.clone());
            let succeeded = answer.ended == AnswerKind::Succeeded;
            let use_of = self.use_of(&call.tool);
            // What was not answered in time may have done it all the same.
            let is_unknown = answer.ended == AnswerKind::Unanswered || answer.was_late();
            if succeeded || is_unknown {
                match is_alone && succeeded {
                    true => state.reference.succeeded(use_of, call),
                    false if changes(use_of) => {
                        state.reference.forget();
                        state.is_simple = false;
                    }
                    false => {}
                }
            }
            // A declared tool that writes is a command too, which no undo takes back.
            let is_command =
                use_of == ToolUse::Command || self.target.flow.is_some_and(|tools| tools.egress == call.tool);
            if (succeeded || is_unknown) && is_command {
                state.is_simple = false;
            }
            state.played.push(PlayedCall { call: call.clone(), succeeded });
            state.answers.push((call.clone(), answer.clone()));
        }
    }

    fn use_of(&self, tool: &str) -> ToolUse {
        self.tools.iter().find(|known| known.name == tool).map_or(ToolUse::Other, |known| known.use_of)
    }

    fn filled(&self, call: &HostileCall, state: &mut SequenceState) -> HostileCall {
        let arguments = filled(&call.arguments, &self.ground);
        let tool = self.ground.fill(&call.tool);
        if arguments != call.arguments || tool != call.tool {
            state.names_host_paths = true;
        }
        HostileCall { tool, arguments }
    }

    fn cancelled(&mut self, calls: &[HostileCall]) -> Result<Vec<GateAnswer>, String> {
        let sent = self.gate.begin(calls)?;
        self.gate.cancel(sent)
    }

    /// Something happens while the calls are in flight.
    fn during(
        &mut self,
        calls: &[HostileCall],
        event: fn(&mut Self) -> Result<(), String>,
    ) -> Result<Vec<GateAnswer>, String> {
        let sent = self.gate.begin(calls)?;
        event(self)?;
        self.gate.finish(sent)
    }

    fn undo_newest(&mut self) -> Result<(), String> {
        self.counts.possible += 1;
        self.person(&["undo"]).map(drop)
    }

    fn reload(&mut self) -> Result<(), String> {
        self.reloads += 1;
        self.ground.rewrite_config(self.reloads).map_err(|error| error.to_string())
    }

    /// The gate ends while calls are in flight, and another one takes its place.
    fn restarted(
        &mut self,
        calls: &[HostileCall],
        event: HostileEvent,
        state: &mut SequenceState,
    ) -> Result<Vec<GateAnswer>, String> {
        let sent = self.gate.begin(calls)?;
        let ending = if event == HostileEvent::Kill { Ending::Killed } else { Ending::EndOfInput };
        self.keep_figures();
        if let Err(problem) = self.gate.end(ending) {
            state.found("the gate ends in order", problem);
        }
        let answers = self.gate.late(sent);
        self.stderr.push_str(&self.gate.stderr());
        self.gate = GateProcess::start(setup(&self.target, &self.options, &self.ground)?)?;
        self.warm_up()?;
        // Another connection is another session.
        self.labels = SeenLabels::default();
        Ok(answers)
    }

    /// A person approves the first call; the yes is then used again, for it and for the others.
    fn approved(
        &mut self,
        calls: &[HostileCall],
        state: &mut SequenceState,
    ) -> Result<Vec<GateAnswer>, String> {
        if self.target.frontend == HostileFrontend::ApiAsked {
            return self.approved_over_http(calls, state);
        }
        let mut answers = self.gate.call(calls)?;
        let first = answers.first().and_then(|answer| answer.state.clone()).zip(calls.first());
        let Some((seal, first)) = first.filter(|_| self.target.frontend == HostileFrontend::StdioAsked)
        else {
            return Ok(answers);
        };
        let approved = self.gate.approved(first, &seal)?;
        state.answers.push((first.clone(), GateAnswer { ended: AnswerKind::Asked, ..approved }));
        for call in calls {
            let again = self.gate.approved(call, &seal)?;
            if again.ended == AnswerKind::Succeeded {
                state.found(
                    "no effect without an approval",
                    format!("`{}` ran with an approval that was used before", call.tool),
                );
            }
            self.counts.certain += 1;
            answers.push(again.clone());
            state.answers.push((call.clone(), GateAnswer { ended: AnswerKind::Failed, ..again }));
        }
        answers.truncate(calls.len());
        Ok(answers)
    }

    /// The same over the API, where the calls are in flight while their questions are open.
    fn approved_over_http(
        &mut self,
        calls: &[HostileCall],
        state: &mut SequenceState,
    ) -> Result<Vec<GateAnswer>, String> {
        let Some(first) = calls.first() else { return Ok(Vec::new()) };
        let sent = self.gate.begin(calls)?;
        if self.gate.answer_questions(first)? {
            state.found(
                "no effect without an approval",
                format!("the question about `{}` was answered twice", first.tool),
            );
        }
        let mut answers = self.gate.finish(sent)?;
        if let Some(approved) = answers.first_mut()
            && approved.ended == AnswerKind::Succeeded
        {
            approved.ended = AnswerKind::Asked;
        }
        Ok(answers)
    }

    /// A command of the person, beside the gate.
    fn person(&mut self, arguments: &[&str]) -> Result<process::FinishedProcess, String> {
        let mut command = command(&self.target, &self.options.binary, &self.ground);
        command.args(arguments);
        finish(command, PERSON_TIMEOUT).map_err(|error| error.to_string())
    }

    /// The ids of changes that are not undone, newest last.
    fn changes(&mut self) -> Result<Vec<String>, String> {
        let listed = self.person(&["changes"])?;
        let list: Value = serde_json::from_str(&listed.stdout).unwrap_or_default();
        let is_open = |change: &&Value| {
            change.get("undoneBy").is_none_or(Value::is_null)
                && change.get("undoes").is_none_or(Value::is_null)
        };
        let ids = list
            .as_array()
            .into_iter()
            .flatten()
            .filter(is_open)
            .filter_map(|change| change.get("call")?.as_str());
        Ok(ids.map(str::to_owned).collect())
    }

    /// A person takes everything back that this sequence changed, newest first.
    fn undo_all(&mut self, state: &mut SequenceState) -> Result<(), String> {
        let mut new: Vec<String> =
            self.changes()?.into_iter().filter(|id| !state.known_changes.contains(id)).collect();
        new.reverse();
        let mut all_undone = true;
        for id in &new {
            self.counts.possible += 1;
            let undone = self.person(&["undo", "--call", id])?;
            if !undone.status.is_some_and(|status| status.success()) {
                all_undone = false;
                if state.is_simple {
                    state.found(
                        "undo restores what was there",
                        format!("a change cannot be undone: {}", undone.stderr.trim()),
                    );
                }
            }
        }
        state.reference.forget();
        if all_undone && state.is_simple {
            let differs = self.ground.differs_from_template().map_err(|error| error.to_string())?;
            if !differs.is_empty() {
                state.found(
                    "undo restores what was there",
                    format!("after everything was undone, these differ: {}", differs.join(", ")),
                );
            }
        }
        Ok(())
    }

    fn judge(&mut self, state: &mut SequenceState) -> Result<(), String> {
        // Background commands live as long as the gate, which ends below; anything else must be gone.
        let left = match state.answers.iter().any(is_background) {
            true => Vec::new(),
            false => left_after(self.gate.pid(), self.idle_processes, PROCESS_TIMEOUT),
        };
        if !left.is_empty() {
            state.found("no process was left", left.join(", "));
        }
        if !left.is_empty() || may_still_look(state) {
            self.restarted(&[], HostileEvent::Shutdown, state)?;
        }
        let unread = |error: std::io::Error| format!("the files cannot be read: {error}");
        super::judge::answers(state, &self.ground, &self.target, &self.tools);
        let changed = self.ground.changed_inside().map_err(unread)?;
        if !self.target.may_change && !changed.is_empty() {
            state.found("only what was declared changed", changed.join(", "));
        }
        let guarded = self.ground.changed_guarded().map_err(unread)?;
        if !guarded.is_empty() {
            state.found("denied files were not changed", guarded.join(", "));
        }
        if let Some(problem) = state.reference.problem(&self.ground.path("workspace")) {
            state.found("files hold what was written", problem);
        }
        self.outside("no file outside was touched", state)?;
        if changed.iter().any(|name| super::judge::concerns_git(name)) {
            self.ground.run_git().map_err(|error| error.to_string())?;
            self.outside("git runs nothing that was planted", state)?;
        }
        let reached = self.ground.canaries.reached();
        if !reached.is_empty() {
            state.found("no network was reached", reached.join(", "));
        }
        Ok(())
    }

    fn outside(&mut self, check: &'static str, state: &mut SequenceState) -> Result<(), String> {
        let changed =
            self.ground.changed_outside().map_err(|error| format!("the files cannot be read: {error}"))?;
        if !changed.is_empty() {
            state.found(check, changed.join(", "));
        }
        Ok(())
    }

    fn keep_figures(&mut self) {
        self.peak = self.peak.max(peak_memory(self.gate.pid()));
    }

    /// Ends the gate, and judges its record and what it wrote.
    pub(super) fn close(mut self) -> Result<(Vec<Escape>, Vec<Value>), String> {
        let mut state = SequenceState::default();
        self.keep_figures();
        if let Err(problem) = self.gate.end(Ending::EndOfInput) {
            state.found("the gate ends in order", problem);
        }
        self.stderr.push_str(&self.gate.stderr());
        if self.stderr.contains("panicked at") {
            state.found("the gate did not panic", self.stderr.clone());
        }
        if self.ground.forms.found_in(&self.stderr).is_some() {
            state.found("no secret was shown", "it is on the gate's standard error");
        }
        if self.peak > MAX_MEMORY {
            state.found("memory stays bounded", format!("{} KiB", self.peak));
        }
        // The next command of the person records what a killed gate could not.
        let verified = self.person(&["changes"]).and_then(|_| self.person(&["audit", "verify"]))?;
        let records = records::records(&self.ground.path("state"))?;
        let is_verified =
            crate::evidence::json_lines(&verified.stdout).first().and_then(|shown| shown.get("ok").cloned())
                == Some(Value::Bool(true));
        if !is_verified && !records.is_empty() {
            state
                .found("the chain of the record verifies", format!("{}{}", verified.stdout, verified.stderr));
        }
        if let Some(problem) = records::problem(&records, &self.counts) {
            state.found("every call was recorded once", problem);
        }
        self.outside("no file outside was touched", &mut state)?;
        if let Some(directory) = &self.options.records {
            kept_record::copy(&self.ground.path("state"), directory)
                .map_err(|error| format!("the record cannot be kept: {error}"))?;
        }
        Ok((state.escapes, records))
    }
}

fn is_background((call, answer): &(HostileCall, GateAnswer)) -> bool {
    answer.ended == AnswerKind::Succeeded && call.arguments.get("background") == Some(&Value::Bool(true))
}

/// Whether the gate may still look at what commands left when all their processes are gone: no call waits for one in the background or for one that
/// was cancelled. Files laid out anew during that would look like theirs. A gate that ended has looked.
fn may_still_look(state: &SequenceState) -> bool {
    state.was_interrupted || state.answers.iter().any(is_background)
}

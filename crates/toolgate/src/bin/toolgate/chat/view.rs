//! Renders the events of a conversation on the screen.

use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use toolgate_agent::{ChatEvent, EndReason, MessageId};
use toolgate_render::{Frame, Layout, LiveRegion, StreamKind, StreamingWrapper, TextStream};
use toolgate_tools::Plan;
use toolgate_types::CallId;

use super::activity::{Activity, Phase};
use super::call_history::CallHistory;
use super::plan_list::plan_rows;
use super::tail_pane::TailPane;
use crate::approval_screen::{Screen, quoted_diff};
use crate::conversation::Person;
use crate::terminal::paint;

/// The height of a terminal that does not report one.
const DEFAULT_ROWS: usize = 24;

/// The minimum interval between redraws for the output of a call, so that a flood of output does not flood the terminal.
const MIN_REDRAW_INTERVAL: Duration = Duration::from_millis(40);

/// A stream to display on.
pub(crate) type Stream = Box<dyn Write + Send>;

/// Where to display what.
pub(crate) struct ViewOptions {
    /// For the model's text, if it is displayed.
    pub(crate) answer: Option<Stream>,
    /// For everything else, if it is displayed.
    pub(crate) notices: Option<Stream>,
    /// The properties of the terminal; queried again from time to time, since its size may change.
    pub(crate) screen: Box<dyn Fn() -> Screen + Send>,
    /// Whether the terminal can erase rows.
    pub(crate) can_erase: bool,
    /// Whether `/open` is available, so that hints mention it.
    pub(crate) can_open: bool,
    /// The approval questions on the same screen.
    pub(crate) person: Person,
}

/// Displays a conversation.
pub(crate) struct ChatView(Mutex<ViewState>);

struct ViewState {
    options: ViewOptions,
    calls: CallHistory,
    context: Option<ContextUsage>,
    cursor: CursorRow,
    /// Running calls without any output shown so far.
    waiting: Vec<CallId>,
    /// Calls that have not ended.
    running: Vec<CallId>,
    /// Calls whose approval question may be on the screen: nothing is redrawn below it.
    asking: Vec<CallId>,
    /// Whether the question of `asking` was seen open.
    was_asked: bool,
    /// What the turn is doing; `None` between turns.
    activity: Option<Activity>,
    /// The rows at the end of the screen that are redrawn.
    region: LiveRegion,
    drawn_at: Option<Instant>,
    /// The texts of this turn, by message.
    messages: Vec<(MessageId, String)>,
}

/// What is being written.
enum CursorRow {
    /// Nothing; the cursor is in the first column.
    Nothing,
    /// The model's answer.
    Text(TextWriter),
    /// The model's reasoning.
    Thinking(TextWriter),
    /// The output of a call.
    Output(CallId, TailPane),
}

/// A text of the model.
enum TextWriter {
    /// Rows are only appended.
    Appended(StreamingWrapper),
    /// The last rows are redrawn until they are complete.
    Redrawn(Box<TextStream>),
}

/// How much of the context window is used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ContextUsage {
    pub(crate) used: u64,
    pub(crate) window: Option<u64>,
    pub(crate) fraction: Option<f64>,
    pub(crate) warning: bool,
}

impl ChatView {
    pub(crate) fn new(look: ViewOptions) -> Self {
        let state = ViewState {
            options: look,
            calls: CallHistory::default(),
            context: None,
            cursor: CursorRow::Nothing,
            waiting: Vec::new(),
            running: Vec::new(),
            asking: Vec::new(),
            was_asked: false,
            activity: None,
            region: LiveRegion::default(),
            drawn_at: None,
            messages: Vec::new(),
        };
        Self(Mutex::new(state))
    }

    /// Displays an event. An error is ignored: a closed stream is noticed where the results are written.
    pub(crate) fn show(&self, event: ChatEvent) {
        let mut state = self.state();
        let is_output = matches!(event, ChatEvent::ToolDelta { .. });
        state.note_activity(&event);
        let _ = state.show(event);
        let is_due = state.drawn_at.is_none_or(|at| at.elapsed() >= MIN_REDRAW_INTERVAL);
        if is_due || !is_output {
            let _ = state.redraw(false);
        }
    }

    /// A turn begins: the status row appears.
    pub(crate) fn begin_turn(&self) {
        let mut state = self.state();
        state.activity = Some(Activity::begin(Phase::Waiting));
        let _ = state.redraw(false);
    }

    /// A turn is over, however it ended: the status row disappears.
    pub(crate) fn end_turn(&self) {
        let mut state = self.state();
        state.activity = None;
        let _ = state.finish_row();
    }

    /// Redraws what changes with time.
    pub(crate) fn tick(&self) {
        let mut state = self.state();
        if state.activity.is_some() {
            let _ = state.redraw(true);
        }
    }

    /// Writes a line of the gate above the rows that are redrawn. Returns whether it did: not between turns, nor where nothing is redrawn.
    pub(crate) fn write_above(&self, line: &str) -> bool {
        // A note of the thread that is drawing goes where notes go without a chat.
        let Ok(mut state) = self.0.try_lock() else { return false };
        state.options.can_erase && state.activity.is_some() && state.write_above(line).is_ok()
    }

    /// A text of the model as the rows of an answer, with the line break of the last one.
    pub(crate) fn whole_text(&self, text: &str) -> String {
        let state = self.state();
        let screen = state.screen();
        match state.text_writer(StreamKind::Markdown) {
            TextWriter::Appended(mut wrapper) => wrapper.push(text) + &wrapper.end(),
            TextWriter::Redrawn(mut stream) => {
                stream.push(text);
                stream.finish();
                LiveRegion::default()
                    .draw(Frame { complete: stream.take_complete(), ..Frame::default() }, height(screen))
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, ViewState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn context(&self) -> Option<ContextUsage> {
        self.state().context
    }

    /// Resets the usage: another conversation has another context.
    pub(crate) fn forget_context(&self) {
        self.state().context = None;
    }

    /// Gives access to the calls.
    pub(crate) fn calls<Seen>(&self, look: impl FnOnce(&CallHistory, Screen) -> Seen) -> Seen {
        let state = self.state();
        look(&state.calls, (state.options.screen)())
    }
}

impl ViewState {
    fn show(&mut self, event: ChatEvent) -> io::Result<()> {
        match event {
            ChatEvent::TextDelta { message_id, text } => {
                match self.messages.last_mut().filter(|(id, _)| *id == message_id) {
                    Some((_, said)) => said.push_str(&text),
                    None => self.messages.push((message_id, text.clone())),
                }
                self.text(&text)
            }
            ChatEvent::ThinkingDelta { text, .. } => self.thinking(&text),
            // A call is shown when it starts, as the gate parsed it.
            ChatEvent::ToolInputDelta { .. } => Ok(()),
            ChatEvent::ToolStart { tool_id, tool_name, input, input_text, .. } => {
                self.finish_row()?;
                self.calls.begin(tool_id, tool_name, input, input_text);
                self.waiting.push(tool_id);
                self.running.push(tool_id);
                self.note_running();
                Ok(())
            }
            ChatEvent::ToolDelta { tool_id, chunk, .. } => self.output(tool_id, &chunk),
            // The card shows the call, so its line would be the second one.
            ChatEvent::ToolConfirm(confirm) => {
                self.finish_row()?;
                self.asking.push(confirm.tool_id);
                self.was_asked = false;
                Ok(())
            }
            // The result that follows says why.
            ChatEvent::ToolWithdrawn { .. } => self.finish_row(),
            ChatEvent::ToolResult { tool_id, status, result, metadata, .. } => {
                self.calls.end(tool_id, status, result, *metadata);
                self.running.retain(|running| *running != tool_id);
                self.asking.retain(|asking| *asking != tool_id);
                self.note_running();
                self.result(tool_id)
            }
            ChatEvent::Plan { steps, .. } => {
                self.finish_row()?;
                let rows = plan_rows(&Plan { steps }, self.screen());
                self.write_notice(&rows)
            }
            ChatEvent::Context { used_tokens: used, context_window: window, fraction, warning } => {
                let warned = self.context.is_some_and(|before| before.warning);
                self.context = Some(ContextUsage { used, window, fraction, warning });
                match warning && !warned {
                    true => self.note("the model's context is getting full; /new begins afresh"),
                    false => Ok(()),
                }
            }
            ChatEvent::Notice { text } => self.note(&text),
            ChatEvent::Error { code, message, attempt, wait_ms, voided, .. } => {
                self.messages.retain(|(id, _)| Some(id) != voided.as_ref());
                self.show_error(code, &message, attempt, wait_ms, voided.is_some())
            }
            ChatEvent::StreamEnd { reason, text, .. } => self.end(reason, &text),
        }
    }

    fn screen(&self) -> Screen {
        (self.options.screen)()
    }

    fn write_above(&mut self, line: &str) -> io::Result<()> {
        let screen = self.screen();
        let (first, rest) = line.split_once('\n').unwrap_or((line, ""));
        let rest = if rest.is_empty() { String::new() } else { screen.indented(rest) };
        let rows = screen.line(first, "") + &rest;
        // The row of an open question is drawn again with its countdown.
        let is_asked = self.options.person.has_open_row();
        let before = if is_asked { "\r\u{1b}[K".to_owned() } else { self.region.clear() };
        self.write_notice(&(before + &rows))?;
        self.redraw(true)
    }

    fn text(&mut self, text: &str) -> io::Result<()> {
        if self.options.answer.is_none() {
            return Ok(());
        }
        if !matches!(self.cursor, CursorRow::Text(_)) {
            self.finish_row()?;
            self.cursor = CursorRow::Text(self.text_writer(StreamKind::Markdown));
        }
        let screen = self.screen();
        let CursorRow::Text(writer) = &mut self.cursor else { return Ok(()) };
        let written = writer.push(text, screen);
        write(&mut self.options.answer, &written)
    }

    fn thinking(&mut self, text: &str) -> io::Result<()> {
        if self.options.notices.is_none() {
            return Ok(());
        }
        if !matches!(self.cursor, CursorRow::Thinking(_)) {
            self.finish_row()?;
            self.cursor = CursorRow::Thinking(self.text_writer(StreamKind::Faint));
        }
        let screen = self.screen();
        let CursorRow::Thinking(writer) = &mut self.cursor else { return Ok(()) };
        let written = writer.push(text, screen);
        write(&mut self.options.notices, &written)
    }

    fn text_writer(&self, kind: StreamKind) -> TextWriter {
        let screen = self.screen();
        let colour = if screen.colour && kind == StreamKind::Faint { "2" } else { "" };
        match self.options.can_erase {
            true => TextWriter::Redrawn(Box::new(TextStream::new(kind, layout(screen)))),
            false => TextWriter::Appended(StreamingWrapper::new(screen.columns, false, colour)),
        }
    }

    /// Shows output below the line of its call.
    fn output(&mut self, id: CallId, chunk: &str) -> io::Result<()> {
        self.calls.output(id, chunk);
        self.asking.retain(|asking| *asking != id);
        match &self.cursor {
            CursorRow::Output(other, _) if *other == id => {}
            // One at a time; the output of the others can be opened later.
            CursorRow::Output(..) => return Ok(()),
            _ => {
                self.finalize_call_line(id)?;
                self.finish_row()?;
                self.cursor = CursorRow::Output(id, TailPane::new(self.screen(), self.options.can_erase));
            }
        }
        let CursorRow::Output(_, pane) = &mut self.cursor else { return Ok(()) };
        let written = pane.push(chunk);
        write(&mut self.options.notices, &written)
    }

    fn result(&mut self, id: CallId) -> io::Result<()> {
        let screen = self.screen();
        let (was_waiting, was_shown) = (self.waiting.contains(&id), self.was_shown(id));
        self.finish_row()?;
        self.waiting.retain(|other| *other != id);
        let call = self.calls.find(id);
        let line = call.map(|call| match was_waiting && !was_shown {
            true => call.line(screen),
            false => call.end_line(screen),
        });
        self.write_notice(&format!("{}\n", line.unwrap_or_default()))?;
        if !was_shown && let Some(diff) = self.calls.find(id).and_then(|call| call.diff()) {
            let shown = quoted_diff(diff, screen);
            self.write_notice(&format!("  {shown}"))?;
        }
        Ok(())
    }

    /// Whether the card of an approval question has shown the call.
    fn was_shown(&self, id: CallId) -> bool {
        self.options.person.has_seen(id)
    }

    /// Makes the line of a call permanent, because output follows below it.
    fn finalize_call_line(&mut self, id: CallId) -> io::Result<()> {
        if !self.waiting.contains(&id) {
            return Ok(());
        }
        self.finish_row()?;
        self.waiting.retain(|other| *other != id);
        if self.was_shown(id) {
            return Ok(());
        }
        let screen = self.screen();
        let line = self.calls.find(id).map(|call| call.line(screen)).unwrap_or_default();
        self.write_notice(&format!("{line}\n"))
    }

    fn show_error(
        &mut self,
        code: &str,
        message: &str,
        attempt: Option<u32>,
        wait_ms: Option<u64>,
        voided: bool,
    ) -> io::Result<()> {
        self.finish_row()?;
        let screen = self.screen();
        let void = if voided { "; what it said last does not count" } else { "" };
        let again = match (attempt, wait_ms) {
            (Some(attempt), Some(wait)) => {
                format!("; trying again in {}.{} s (try {attempt} failed)", wait / 1000, wait % 1000 / 100)
            }
            _ => String::new(),
        };
        let line = screen.line(&format!("model: {code}: {message}{void}{again}"), "31");
        self.write_notice(&line)
    }

    fn note(&mut self, text: &str) -> io::Result<()> {
        self.finish_row()?;
        let line = self.screen().line(&format!("note: {text}"), "33");
        self.write_notice(&line)
    }

    fn end(&mut self, reason: EndReason, text: &str) -> io::Result<()> {
        // A closing text that the agent wrote itself was not shown yet; a provider error was.
        let was_heard = self.messages.iter().any(|(_, said)| said.trim() == text.trim());
        let is_error = matches!(reason, EndReason::ProviderError | EndReason::Failed);
        if !text.is_empty() && !was_heard && !is_error {
            self.finish_row()?;
            self.text(text)?;
        }
        self.finish_row()?;
        self.waiting.clear();
        self.running.clear();
        self.asking.clear();
        self.activity = None;
        self.options.person.forget_seen();
        self.messages.clear();
        match end_explanation(reason) {
            Some(why) => {
                let line = self.screen().line(&format!("stopped: {why}"), "33");
                self.write_notice(&line)
            }
            None => Ok(()),
        }
    }

    /// Completes what is being written, and removes the rows that change: the cursor is then in the first column.
    fn finish_row(&mut self) -> io::Result<()> {
        if self.options.person.take_open_row() {
            self.write_notice("\n")?;
        }
        let screen = self.screen();
        match std::mem::replace(&mut self.cursor, CursorRow::Nothing) {
            CursorRow::Nothing => self.complete(Vec::new(), screen, false),
            CursorRow::Text(TextWriter::Appended(mut text)) => write(&mut self.options.answer, &text.end()),
            CursorRow::Thinking(TextWriter::Appended(mut text)) => {
                write(&mut self.options.notices, &text.end())
            }
            CursorRow::Text(TextWriter::Redrawn(mut text)) => {
                text.finish();
                self.complete(text.take_complete(), screen, true)
            }
            CursorRow::Thinking(TextWriter::Redrawn(mut text)) => {
                text.finish();
                self.complete(text.take_complete(), screen, false)
            }
            CursorRow::Output(id, mut pane) => {
                let number = self.calls.find(id).map_or(0, super::call_history::DisplayedCall::number);
                let whole =
                    if self.options.can_open { format!("/open {number}") } else { "not shown".to_owned() };
                self.complete(pane.end(&whole), screen, false)
            }
        }
    }

    /// Writes rows in place of those that change.
    fn complete(&mut self, complete: Vec<String>, screen: Screen, is_answer: bool) -> io::Result<()> {
        let written = self.region.draw(Frame { complete, ..Frame::default() }, height(screen));
        self.write_region(&written, is_answer)
    }

    /// Draws the rows that change. Those of a large block may wait for the next time, unless `all` are wanted.
    fn redraw(&mut self, all: bool) -> io::Result<()> {
        if !self.options.can_erase || self.is_question_open() {
            return Ok(());
        }
        let screen = self.screen();
        let mut frame = Frame::default();
        let is_answer = matches!(self.cursor, CursorRow::Text(_));
        match &mut self.cursor {
            CursorRow::Text(TextWriter::Redrawn(text)) | CursorRow::Thinking(TextWriter::Redrawn(text)) => {
                frame.complete = text.take_complete();
                frame.open = text.open_rows(all).to_vec();
            }
            CursorRow::Output(_, pane) => frame.open = pane.rows(),
            _ => {
                let newest = self.waiting.last().filter(|id| !self.options.person.has_seen(**id));
                let newest = newest.and_then(|id| self.calls.find(*id));
                frame.open.extend(newest.map(|call| call.line(screen)));
            }
        }
        if self.options.notices.is_some() {
            frame.status = self.activity.as_ref().map(|activity| activity.row(screen));
        }
        let written = self.region.draw(frame, height(screen));
        self.drawn_at = Some(Instant::now());
        self.write_region(&written, is_answer)
    }

    /// Whether an approval question may be on the screen. Its answer ends that, and so does whatever the call does next.
    fn is_question_open(&mut self) -> bool {
        let is_open = self.options.person.has_open_row();
        if !is_open && self.was_asked && self.asking.len() == 1 {
            self.asking.clear();
            // The time that the person took is not the call's.
            self.activity.iter_mut().for_each(Activity::restart);
        }
        self.was_asked = is_open;
        is_open || !self.asking.is_empty()
    }

    fn write_region(&mut self, text: &str, is_answer: bool) -> io::Result<()> {
        let stream = if is_answer { &mut self.options.answer } else { &mut self.options.notices };
        write(stream, text)
    }

    /// What the turn is doing after an event.
    fn note_activity(&mut self, event: &ChatEvent) {
        let Some(activity) = &mut self.activity else { return };
        match event {
            ChatEvent::TextDelta { .. } => activity.change(Phase::Answering),
            ChatEvent::ThinkingDelta { .. } => activity.change(Phase::Thinking),
            ChatEvent::ToolInputDelta { tool_name, chunk, .. } => {
                activity.add_argument(tool_name, chunk.len())
            }
            ChatEvent::Error { wait_ms: Some(_), .. } => activity.change(Phase::Retrying),
            ChatEvent::Error { .. } => activity.change(Phase::Waiting),
            _ => {}
        }
    }

    /// Names the calls that are running, after one has begun or ended.
    fn note_running(&mut self) {
        let newest = self
            .running
            .last()
            .and_then(|id| self.calls.find(*id))
            .map(super::call_history::DisplayedCall::work);
        let Some(activity) = &mut self.activity else { return };
        activity.change(match (newest, self.running.len()) {
            (Some(work), 1) => Phase::Running(work),
            (Some(work), count) => Phase::Running(format!("{work}, and {} more", count - 1)),
            (None, _) => Phase::Waiting,
        });
    }

    fn write_notice(&mut self, text: &str) -> io::Result<()> {
        write(&mut self.options.notices, text)
    }
}

impl TextWriter {
    /// Takes the next piece. Returns what to append, if rows are only appended.
    fn push(&mut self, text: &str, screen: Screen) -> String {
        match self {
            Self::Appended(wrapper) => wrapper.push(text),
            Self::Redrawn(stream) => {
                stream.set_layout(layout(screen));
                stream.push(text);
                String::new()
            }
        }
    }
}

fn layout(screen: Screen) -> Layout {
    let Screen { columns, unicode, colour, .. } = screen;
    Layout { columns, unicode, colour }
}

fn height(screen: Screen) -> usize {
    screen.rows.unwrap_or(DEFAULT_ROWS)
}

fn write(stream: &mut Option<Stream>, text: &str) -> io::Result<()> {
    match stream {
        Some(stream) if !text.is_empty() => stream.write_all(text.as_bytes()).and_then(|()| stream.flush()),
        _ => Ok(()),
    }
}

/// Why a turn ended, if the model did not end it.
fn end_explanation(reason: EndReason) -> Option<&'static str> {
    match reason {
        EndReason::Done => None,
        EndReason::IterationLimit => {
            Some("the model called tools as often as it may in one turn (iteration_limit)")
        }
        EndReason::ContextLimit => {
            Some("the conversation no longer fits the model's context (context_limit)")
        }
        EndReason::Timeout => Some("the turn took as long as it may (timeout)"),
        EndReason::Cancelled => Some("by you (cancelled)"),
        EndReason::Violation => Some("a call tried to leave its bounds (violation)"),
        EndReason::Loop => Some("the model did the same again and again (loop)"),
        EndReason::ProviderError => Some("the model could not be asked (provider_error)"),
        EndReason::Failed => Some("the turn could not be held (failed)"),
    }
}

/// The context usage in the prompt.
pub(crate) fn gauge(context: Option<ContextUsage>, screen: Screen) -> String {
    let Some(fraction) = context.and_then(|context| context.fraction) else { return String::new() };
    let percent = (fraction * 100.0).clamp(0.0, 100.0).round();
    let code = if context.is_some_and(|context| context.warning) { "33" } else { "2" };
    paint(&format!("{percent}% "), code, screen.colour)
}

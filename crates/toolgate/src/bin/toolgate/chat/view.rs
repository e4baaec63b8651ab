//! Renders the events of a conversation on the screen.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use toolgate_agent::{ChatEvent, EndReason, MessageId};
use toolgate_types::CallId;

use super::call_history::CallHistory;
use super::streaming_wrapper::StreamingWrapper;
use super::tail_pane::TailPane;
use crate::approval_screen::{Screen, quoted_diff};
use crate::conversation::Person;
use crate::terminal::paint;

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
    /// Whether the newest of them is drawn in the cursor's row.
    status_drawn: bool,
    /// The call whose approval question has already shown its diff.
    asked_about: Option<CallId>,
    /// The texts of this turn, by message.
    messages: Vec<(MessageId, String)>,
}

/// What is in the cursor's row.
enum CursorRow {
    /// Nothing; the cursor is in the first column.
    Nothing,
    /// The model's answer.
    Text(StreamingWrapper),
    /// The model's reasoning.
    Thinking(StreamingWrapper),
    /// The output of a call, which is above the cursor.
    Output(CallId, TailPane),
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
            status_drawn: false,
            asked_about: None,
            messages: Vec::new(),
        };
        Self(Mutex::new(state))
    }

    /// Displays an event. An error is ignored: a closed stream is noticed where the results are written.
    pub(crate) fn show(&self, event: ChatEvent) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = state.show(event);
    }

    pub(crate) fn context(&self) -> Option<ContextUsage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).context
    }

    /// Resets the usage: another conversation has another context.
    pub(crate) fn forget_context(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).context = None;
    }

    /// Gives access to the calls.
    pub(crate) fn calls<Seen>(&self, look: impl FnOnce(&CallHistory, Screen) -> Seen) -> Seen {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
                self.draw_status()
            }
            ChatEvent::ToolDelta { tool_id, chunk, .. } => self.output(tool_id, &chunk),
            ChatEvent::ToolConfirm(confirm) => {
                self.finalize_call_line(confirm.tool_id)?;
                self.finish_row()?;
                self.asked_about = confirm.diff.is_some().then_some(confirm.tool_id);
                Ok(())
            }
            ChatEvent::ToolResult { tool_id, status, result, metadata, .. } => {
                self.calls.end(tool_id, status, result, *metadata);
                self.result(tool_id)
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

    fn text(&mut self, text: &str) -> io::Result<()> {
        if self.options.answer.is_none() {
            return Ok(());
        }
        if !matches!(self.cursor, CursorRow::Text(_)) {
            self.finish_row()?;
            self.cursor =
                CursorRow::Text(StreamingWrapper::new(self.screen().columns, self.options.can_erase, ""));
        }
        let CursorRow::Text(prose) = &mut self.cursor else { return Ok(()) };
        let written = prose.push(text);
        write(&mut self.options.answer, &written)
    }

    fn thinking(&mut self, text: &str) -> io::Result<()> {
        if self.options.notices.is_none() {
            return Ok(());
        }
        if !matches!(self.cursor, CursorRow::Thinking(_)) {
            self.finish_row()?;
            let screen = self.screen();
            self.cursor = CursorRow::Thinking(StreamingWrapper::new(
                screen.columns,
                self.options.can_erase,
                if screen.colour { "2" } else { "" },
            ));
        }
        let CursorRow::Thinking(prose) = &mut self.cursor else { return Ok(()) };
        let written = prose.push(text);
        write(&mut self.options.notices, &written)
    }

    /// Shows output below the line of its call.
    fn output(&mut self, id: CallId, chunk: &str) -> io::Result<()> {
        self.calls.output(id, chunk);
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
        let CursorRow::Output(_, window) = &mut self.cursor else { return Ok(()) };
        let written = window.push(chunk);
        write(&mut self.options.notices, &written)
    }

    fn result(&mut self, id: CallId) -> io::Result<()> {
        let screen = self.screen();
        let was_waiting = self.waiting.contains(&id);
        match was_waiting {
            true => {
                self.finish_row()?;
                self.clear_status()?;
                self.waiting.retain(|other| *other != id);
                let line = self.calls.find(id).map(|call| call.line(screen)).unwrap_or_default();
                self.write_notice(&format!("{line}\n"))?;
            }
            false => {
                self.finish_row()?;
                let line = self.calls.find(id).map(|call| call.end_line(screen)).unwrap_or_default();
                self.write_notice(&format!("{line}\n"))?;
            }
        }
        if self.asked_about != Some(id)
            && let Some(diff) = self.calls.find(id).and_then(|call| call.diff())
        {
            let shown = quoted_diff(diff, screen);
            self.write_notice(&format!("  {shown}"))?;
        }
        self.draw_status()
    }

    /// Makes the line of a call permanent, because output follows below it.
    fn finalize_call_line(&mut self, id: CallId) -> io::Result<()> {
        if !self.waiting.contains(&id) {
            return Ok(());
        }
        self.clear_status()?;
        self.waiting.retain(|other| *other != id);
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
        self.clear_status()?;
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
        self.clear_status()?;
        let line = self.screen().line(&format!("note: {text}"), "33");
        self.write_notice(&line)?;
        self.draw_status()
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
        self.clear_status()?;
        self.waiting.clear();
        self.messages.clear();
        match end_explanation(reason) {
            Some(why) => {
                let line = self.screen().line(&format!("stopped: {why}"), "33");
                self.write_notice(&line)
            }
            None => Ok(()),
        }
    }

    /// Moves the cursor to the beginning of a row.
    fn finish_row(&mut self) -> io::Result<()> {
        if self.options.person.take_open_row() {
            self.write_notice("\n")?;
        }
        match std::mem::replace(&mut self.cursor, CursorRow::Nothing) {
            CursorRow::Nothing => Ok(()),
            CursorRow::Text(mut prose) => write(&mut self.options.answer, prose.end()),
            CursorRow::Thinking(mut prose) => write(&mut self.options.notices, prose.end()),
            CursorRow::Output(id, mut window) => {
                let number = self.calls.find(id).map_or(0, super::call_history::DisplayedCall::number);
                let whole =
                    if self.options.can_open { format!("/open {number}") } else { "not shown".to_owned() };
                let written = window.end(&whole);
                self.write_notice(&written)
            }
        }
    }

    /// Draws the newest running call in the cursor's row.
    fn draw_status(&mut self) -> io::Result<()> {
        self.clear_status()?;
        let Some(id) = self.waiting.last().copied().filter(|_| self.options.can_erase) else { return Ok(()) };
        let screen = self.screen();
        let line = self.calls.find(id).map(|call| call.line(screen)).unwrap_or_default();
        self.status_drawn = true;
        self.write_notice(&line)
    }

    fn clear_status(&mut self) -> io::Result<()> {
        match std::mem::take(&mut self.status_drawn) {
            true => self.write_notice("\r\u{1b}[K"),
            false => Ok(()),
        }
    }

    fn write_notice(&mut self, text: &str) -> io::Result<()> {
        write(&mut self.options.notices, text)
    }
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

//! A conversation on the screen, event by event.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use toolgate_agent::{ChatEvent, EndReason, MessageId};
use toolgate_types::CallId;

use super::calls::Calls;
use super::prose::Prose;
use super::window::Window;
use crate::conversation::Person;
use crate::question::{Screen, quoted_diff};
use crate::terminal::paint;

/// A stream that something is shown on.
pub(crate) type Stream = Box<dyn Write + Send>;

/// What is shown where.
pub(crate) struct Look {
    /// Where the words of the model go, if anywhere.
    pub(crate) answer: Option<Stream>,
    /// Where everything else goes, if anywhere.
    pub(crate) aside: Option<Stream>,
    /// What the terminal can show; asked anew now and then, because it may be made wider.
    pub(crate) screen: Box<dyn Fn() -> Screen + Send>,
    /// Whether the terminal can be told to take something back.
    pub(crate) can_erase: bool,
    /// Whether calls can be opened later, so that it is worth saying how.
    pub(crate) can_open: bool,
    /// Who is asked about calls, on the same screen.
    pub(crate) person: Person,
}

/// Shows a conversation.
pub(crate) struct View(Mutex<State>);

struct State {
    look: Look,
    calls: Calls,
    context: Option<Context>,
    at: At,
    /// Calls that are under way and that no output was shown of.
    waiting: Vec<CallId>,
    /// Whether the newest of them stands in the row of the cursor.
    status_drawn: bool,
    /// The question about this call showed what it would change.
    asked_about: Option<CallId>,
    /// What was said in this turn, by message.
    said: Vec<(MessageId, String)>,
}

/// Where the cursor is.
enum At {
    /// At the beginning of a row.
    Nothing,
    /// In an answer.
    Text(Prose),
    /// In what a model says to itself.
    Thinking(Prose),
    /// Below the output of a call.
    Output(CallId, Window),
}

/// How full the context is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Context {
    pub(crate) used: u64,
    pub(crate) window: Option<u64>,
    pub(crate) fraction: Option<f64>,
    pub(crate) warning: bool,
}

impl View {
    pub(crate) fn new(look: Look) -> Self {
        let state = State {
            look,
            calls: Calls::default(),
            context: None,
            at: At::Nothing,
            waiting: Vec::new(),
            status_drawn: false,
            asked_about: None,
            said: Vec::new(),
        };
        Self(Mutex::new(state))
    }

    /// Shows what happened. A stream that is gone is noticed by whoever writes the results.
    pub(crate) fn show(&self, event: ChatEvent) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = state.show(event);
    }

    pub(crate) fn context(&self) -> Option<Context> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).context
    }

    /// Another conversation has another context.
    pub(crate) fn forget_context(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).context = None;
    }

    /// Looks at the calls.
    pub(crate) fn calls<Seen>(&self, look: impl FnOnce(&Calls, Screen) -> Seen) -> Seen {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        look(&state.calls, (state.look.screen)())
    }
}

impl State {
    fn show(&mut self, event: ChatEvent) -> io::Result<()> {
        match event {
            ChatEvent::TextDelta { message_id, text } => {
                match self.said.last_mut().filter(|(id, _)| *id == message_id) {
                    Some((_, said)) => said.push_str(&text),
                    None => self.said.push((message_id, text.clone())),
                }
                self.text(&text)
            }
            ChatEvent::ThinkingDelta { text, .. } => self.thinking(&text),
            // A call is shown when it is about to be made, as the gate reads it.
            ChatEvent::ToolInputDelta { .. } => Ok(()),
            ChatEvent::ToolStart { tool_id, tool_name, input, input_text, .. } => {
                self.leave()?;
                self.calls.begin(tool_id, tool_name, input, input_text);
                self.waiting.push(tool_id);
                self.draw_status()
            }
            ChatEvent::ToolDelta { tool_id, chunk, .. } => self.output(tool_id, &chunk),
            ChatEvent::ToolConfirm(confirm) => {
                self.commit(confirm.tool_id)?;
                self.leave()?;
                self.asked_about = confirm.diff.is_some().then_some(confirm.tool_id);
                Ok(())
            }
            ChatEvent::ToolResult { tool_id, status, result, metadata, .. } => {
                self.calls.end(tool_id, status, result, *metadata);
                self.result(tool_id)
            }
            ChatEvent::Context { used_tokens: used, context_window: window, fraction, warning } => {
                let warned = self.context.is_some_and(|before| before.warning);
                self.context = Some(Context { used, window, fraction, warning });
                match warning && !warned {
                    true => self.note("the model's context is getting full; /new begins afresh"),
                    false => Ok(()),
                }
            }
            ChatEvent::Notice { text } => self.note(&text),
            ChatEvent::Error { code, message, attempt, wait_ms, voided, .. } => {
                self.said.retain(|(id, _)| Some(id) != voided.as_ref());
                self.trouble(code, &message, attempt, wait_ms, voided.is_some())
            }
            ChatEvent::StreamEnd { reason, text, .. } => self.end(reason, &text),
        }
    }

    fn screen(&self) -> Screen {
        (self.look.screen)()
    }

    fn text(&mut self, text: &str) -> io::Result<()> {
        if self.look.answer.is_none() {
            return Ok(());
        }
        if !matches!(self.at, At::Text(_)) {
            self.leave()?;
            self.at = At::Text(Prose::new(self.screen().columns, self.look.can_erase, ""));
        }
        let At::Text(prose) = &mut self.at else { return Ok(()) };
        let written = prose.push(text);
        write(&mut self.look.answer, &written)
    }

    fn thinking(&mut self, text: &str) -> io::Result<()> {
        if self.look.aside.is_none() {
            return Ok(());
        }
        if !matches!(self.at, At::Thinking(_)) {
            self.leave()?;
            let screen = self.screen();
            self.at = At::Thinking(Prose::new(
                screen.columns,
                self.look.can_erase,
                if screen.colour { "2" } else { "" },
            ));
        }
        let At::Thinking(prose) = &mut self.at else { return Ok(()) };
        let written = prose.push(text);
        write(&mut self.look.aside, &written)
    }

    /// Shows output below the line of its call.
    fn output(&mut self, id: CallId, chunk: &str) -> io::Result<()> {
        self.calls.output(id, chunk);
        match &self.at {
            At::Output(other, _) if *other == id => {}
            // One at a time; the rest can be opened.
            At::Output(..) => return Ok(()),
            _ => {
                self.commit(id)?;
                self.leave()?;
                self.at = At::Output(id, Window::new(self.screen(), self.look.can_erase));
            }
        }
        let At::Output(_, window) = &mut self.at else { return Ok(()) };
        let written = window.push(chunk);
        write(&mut self.look.aside, &written)
    }

    fn result(&mut self, id: CallId) -> io::Result<()> {
        let screen = self.screen();
        let was_waiting = self.waiting.contains(&id);
        match was_waiting {
            true => {
                self.leave()?;
                self.clear_status()?;
                self.waiting.retain(|other| *other != id);
                let line = self.calls.of(id).map(|call| call.line(screen)).unwrap_or_default();
                self.write_aside(&format!("{line}\n"))?;
            }
            false => {
                self.leave()?;
                let line = self.calls.of(id).map(|call| call.end_line(screen)).unwrap_or_default();
                self.write_aside(&format!("{line}\n"))?;
            }
        }
        if self.asked_about != Some(id)
            && let Some(diff) = self.calls.of(id).and_then(|call| call.diff())
        {
            let shown = quoted_diff(diff, screen);
            self.write_aside(&format!("  {shown}"))?;
        }
        self.draw_status()
    }

    /// The line of a call stays as it is, because something will stand below it.
    fn commit(&mut self, id: CallId) -> io::Result<()> {
        if !self.waiting.contains(&id) {
            return Ok(());
        }
        self.clear_status()?;
        self.waiting.retain(|other| *other != id);
        let screen = self.screen();
        let line = self.calls.of(id).map(|call| call.line(screen)).unwrap_or_default();
        self.write_aside(&format!("{line}\n"))
    }

    fn trouble(
        &mut self,
        code: &str,
        message: &str,
        attempt: Option<u32>,
        wait_ms: Option<u64>,
        voided: bool,
    ) -> io::Result<()> {
        self.leave()?;
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
        self.write_aside(&line)
    }

    fn note(&mut self, text: &str) -> io::Result<()> {
        self.leave()?;
        self.clear_status()?;
        let line = self.screen().line(&format!("note: {text}"), "33");
        self.write_aside(&line)?;
        self.draw_status()
    }

    fn end(&mut self, reason: EndReason, text: &str) -> io::Result<()> {
        // What is said in words that are not the model's was not heard yet; why it could not be asked was.
        let was_heard = self.said.iter().any(|(_, said)| said.trim() == text.trim());
        let is_error = matches!(reason, EndReason::ProviderError | EndReason::Failed);
        if !text.is_empty() && !was_heard && !is_error {
            self.leave()?;
            self.text(text)?;
        }
        self.leave()?;
        self.clear_status()?;
        self.waiting.clear();
        self.said.clear();
        match why(reason) {
            Some(why) => {
                let line = self.screen().line(&format!("stopped: {why}"), "33");
                self.write_aside(&line)
            }
            None => Ok(()),
        }
    }

    /// Goes to the beginning of a row.
    fn leave(&mut self) -> io::Result<()> {
        if self.look.person.takes_open_row() {
            self.write_aside("\n")?;
        }
        match std::mem::replace(&mut self.at, At::Nothing) {
            At::Nothing => Ok(()),
            At::Text(mut prose) => write(&mut self.look.answer, prose.end()),
            At::Thinking(mut prose) => write(&mut self.look.aside, prose.end()),
            At::Output(id, mut window) => {
                let number = self.calls.of(id).map_or(0, super::calls::Shown::number);
                let whole =
                    if self.look.can_open { format!("/open {number}") } else { "not shown".to_owned() };
                let written = window.end(&whole);
                self.write_aside(&written)
            }
        }
    }

    /// The newest call that is under way, in the row of the cursor.
    fn draw_status(&mut self) -> io::Result<()> {
        self.clear_status()?;
        let Some(id) = self.waiting.last().copied().filter(|_| self.look.can_erase) else { return Ok(()) };
        let screen = self.screen();
        let line = self.calls.of(id).map(|call| call.line(screen)).unwrap_or_default();
        self.status_drawn = true;
        self.write_aside(&line)
    }

    fn clear_status(&mut self) -> io::Result<()> {
        match std::mem::take(&mut self.status_drawn) {
            true => self.write_aside("\r\u{1b}[K"),
            false => Ok(()),
        }
    }

    fn write_aside(&mut self, text: &str) -> io::Result<()> {
        write(&mut self.look.aside, text)
    }
}

fn write(stream: &mut Option<Stream>, text: &str) -> io::Result<()> {
    match stream {
        Some(stream) if !text.is_empty() => stream.write_all(text.as_bytes()).and_then(|()| stream.flush()),
        _ => Ok(()),
    }
}

/// Why a turn ended that did not end by itself.
fn why(reason: EndReason) -> Option<&'static str> {
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

/// The gauge of the prompt.
pub(crate) fn gauge(context: Option<Context>, screen: Screen) -> String {
    let Some(fraction) = context.and_then(|context| context.fraction) else { return String::new() };
    let percent = (fraction * 100.0).clamp(0.0, 100.0).round();
    let code = if context.is_some_and(|context| context.warning) { "33" } else { "2" };
    paint(&format!("{percent}% "), code, screen.colour)
}

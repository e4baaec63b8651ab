//! The read-eval-print loop of the chat: reads lines, runs turns and commands.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use toolgate_agent::Compaction;
use toolgate_assembly::gate_builder::sessions_directory;
use toolgate_conversation::models::list_models;
use toolgate_llm::Message;
use toolgate_render::truncate_columns;
use toolgate_session::{ListFilter, Session, SessionSummary};
use toolgate_types::Trust;

use super::activity::Ticker;
use super::attachments::Attached;
use super::call_history::CallLookup;
use super::line_editor::{EditorInput, InputReader, PromptText};
use super::signals::ChatSignals;
use super::slash_command::{ParsedInput, SlashCommand, help, parse_input};
use super::view::{ChatView, ViewOptions, gauge};
use crate::approval_screen::Screen;
use crate::conversation::{
    ActiveConversation, ChatContext, Person, TurnOptions, exit_code, rows, session_failure,
};
use crate::exit::{CliError, INTERRUPTED, SUCCESS};
use crate::pager::page;
use crate::report;
use crate::terminal::{
    PLAIN_SCREEN, can_erase, counted_messages, escape_line, paint, restore_terminal, route_notes, screen,
};

/// Two presses of Ctrl-C at the prompt within this time leave the chat.
const DOUBLE_PRESS_TIMEOUT: Duration = Duration::from_secs(2);

/// The most conversations that `/sessions` lists.
const MAX_LISTED_SESSIONS: u32 = 10;

/// The most models of one provider that `/model` lists.
const MAX_LISTED_MODELS: usize = 20;

/// How much of the last message is shown when a conversation is resumed.
const MAX_REMINDER_CHARS: usize = 600;

pub(crate) struct Repl {
    pub(super) context: ChatContext,
    pub(super) conversation: ActiveConversation,
    pub(super) view: Arc<ChatView>,
    lines: InputReader,
    pub(super) person: Person,
    pub(super) signals: ChatSignals,
    /// A note for the model about what happened between turns.
    pub(super) pending_note: Option<String>,
    on_terminal: bool,
}

/// What to do after a line.
enum ReplAction {
    Continue,
    Quit,
}

impl Repl {
    pub(crate) async fn new(sitting: ChatContext, signals: ChatSignals) -> Result<Self, CliError> {
        let talk = sitting.open_conversation(&signals.begin_turn()).await;
        signals.end_turn();
        let talk = talk?;
        let on_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
        let history = sitting.is_persistent().then(|| sessions_directory(&sitting.settings).join("history"));
        let mounts = sitting.workspace.mounts().iter();
        let mounts =
            mounts.map(|mount| (mount.alias().to_owned(), mount.host_root().to_path_buf())).collect();
        let person = Person::default();
        let view = ChatView::new(ViewOptions {
            answer: Some(Box::new(io::stdout())),
            notices: Some(Box::new(io::stdout())),
            screen: Box::new(current_screen),
            can_erase: can_erase(io::stdout().is_terminal()),
            can_open: true,
            person: person.clone(),
        });
        let lines = InputReader::start(history, mounts)?;
        let view = Arc::new(view);
        let above = Arc::downgrade(&view);
        route_notes(Some(Box::new(move |note| above.upgrade().is_some_and(|view| view.write_above(note)))));
        Ok(Self {
            context: sitting,
            conversation: talk,
            view,
            lines,
            person,
            signals,
            pending_note: None,
            on_terminal,
        })
    }

    /// Runs until the user leaves, and says how to go on.
    pub(crate) async fn run(mut self) -> Result<u8, CliError> {
        let ended = self.read_and_run().await;
        if let Some(session) =
            self.conversation.session.as_ref().filter(|_| self.on_terminal && self.context.is_persistent())
        {
            let goes_on = format!("toolgate chat --resume {}", session.id());
            print_text(&current_screen().line(&format!("to go on with this conversation: {goes_on}"), "2"));
        }
        ended
    }

    async fn read_and_run(&mut self) -> Result<u8, CliError> {
        self.print_banner();
        let mut code = SUCCESS;
        let mut pressed: Option<Instant> = None;
        loop {
            self.person.wait_idle().await;
            let Some(line) = self.next_line(pressed).await? else { return Ok(INTERRUPTED) };
            let text = match line {
                EditorInput::End => return Ok(code),
                EditorInput::Interrupted if is_double_press(pressed) => return Ok(code),
                EditorInput::Interrupted => {
                    pressed = Some(Instant::now());
                    print_text("press Ctrl-C again to leave, or Ctrl-D\n");
                    continue;
                }
                EditorInput::Text(text) => text,
            };
            pressed = None;
            match parse_input(&text) {
                ParsedInput::Empty => {}
                ParsedInput::Invalid(help) => print_text(&current_screen().line(&help, "33")),
                ParsedInput::Command(command) => match self.handle_command(command).await {
                    Ok(ReplAction::Continue) => {}
                    Ok(ReplAction::Quit) => return Ok(code),
                    Err(failed) => report(&failed),
                },
                ParsedInput::Prompt(words) => {
                    let ended = self.run_turn(words).await?;
                    // On a terminal the user has seen the outcome; a script needs the exit code.
                    code = if self.on_terminal { SUCCESS } else { ended };
                }
            }
            if self.signals.ended().is_cancelled() {
                return Ok(INTERRUPTED);
            }
        }
    }

    /// The next line; `None` when the process received SIGTERM.
    async fn next_line(&self, pressed: Option<Instant>) -> Result<Option<EditorInput>, CliError> {
        let reading = self.lines.next_line(self.prompt());
        let mut reading = std::pin::pin!(reading);
        let ended = self.signals.ended();
        loop {
            tokio::select! {
                line = &mut reading => {
                    return line.map(Some).map_err(|error| CliError::error(format!("nothing can be read: {error}")));
                }
                () = ended.cancelled() => {
                    restore_terminal();
                    return Ok(None);
                }
                // The second of two quick presses, received before the line editor was reading.
                () = self.signals.wait_interrupt() => {
                    if is_double_press(pressed) {
                        restore_terminal();
                        return Ok(Some(EditorInput::Interrupted));
                    }
                    // A terminal that is too limited for the line editor: the line starts over by itself.
                    print_text("\n");
                }
            }
        }
    }

    fn prompt(&self) -> PromptText {
        let screen = current_screen();
        let plain = Screen { colour: false, ..screen };
        let arrow = if screen.unicode { "❯" } else { ">" };
        let context = self.view.context();
        PromptText {
            plain: format!("{}{arrow} ", gauge(context, plain)),
            styled: format!("{}{} ", gauge(context, screen), paint(arrow, "1;36", screen.colour)),
        }
    }

    /// Runs one turn.
    async fn run_turn(&mut self, words: String) -> Result<u8, CliError> {
        let said = words.clone();
        let words = match self.pending_note.take() {
            Some(aside) => format!("({aside})\n\n{words}"),
            None => words,
        };
        let Some(Attached { prompt: words, images }) = self.attach(words).await? else { return Ok(SUCCESS) };
        let with = TurnOptions { images, words: said, ..self.begin_turn() };
        let ticker = Ticker::start(&self.view);
        let ended = self.context.run_turn(&mut self.conversation, &words, with).await;
        drop(ticker);
        self.end_turn();
        // A pipe gets what was said, and nothing else.
        if let Ok(ended) = &ended
            && self.on_terminal
        {
            self.print_usage(ended.usage);
        }
        print_text("\n");
        let asked = self.person.take_presence();
        ended.map(|ended| exit_code(ended.reason, asked))
    }

    fn begin_turn(&self) -> TurnOptions {
        let cancelled = self.signals.begin_turn();
        let view = Arc::clone(&self.view);
        let events = Arc::new(move |event| view.show(event));
        self.view.begin_turn();
        let person = self.person.clone();
        TurnOptions { person, cancelled, events, images: Vec::new(), words: String::new() }
    }

    fn end_turn(&self) {
        self.view.end_turn();
        self.signals.end_turn();
    }

    /// Asks the model for a summary of the conversation, and continues from it.
    async fn compact(&mut self) -> Result<(), CliError> {
        if self.conversation.session.is_none() {
            print_text("nothing was said yet\n");
            return Ok(());
        }
        let with = self.begin_turn();
        let ticker = Ticker::start(&self.view);
        let compacted = self.context.compact(&mut self.conversation, with).await;
        drop(ticker);
        self.end_turn();
        let told = match compacted? {
            Compaction::Done { before, after } => {
                format!("the conversation is summarised: about {before} tokens before, {after} now")
            }
            Compaction::NothingSaved => "a summary would save no room, so nothing was changed".to_owned(),
            Compaction::Stopped => "stopped; nothing was changed".to_owned(),
        };
        print_text(&current_screen().line(&told, ""));
        Ok(())
    }

    /// Prints model, workspace and trust level, once at the start.
    fn print_banner(&self) {
        let settings = &self.context.settings;
        let told = format!(
            "{} in {}, trust {}; /help lists commands",
            self.conversation.ready.agent.model(),
            settings.environment.shown_path(&settings.workspace),
            settings.caller.trust
        );
        print_text(&current_screen().line(&told, "2"));
        for instructions in &self.context.instructions {
            let told = format!(
                "project instructions: {} ({})",
                instructions.name,
                human_bytes(instructions.text.len())
            );
            print_text(&current_screen().line(&told, "2"));
        }
        if let Some(session) = &self.conversation.session {
            self.print_reminder(session);
        }
    }

    /// Prints the title and the last message of a resumed conversation.
    fn print_reminder(&self, session: &Session) {
        let SessionSummary { id, title, messages, .. } = session.summary();
        print_text(
            &current_screen()
                .line(&format!("going on with {id}: {title} ({})", counted_messages(*messages)), "2"),
        );
        let said = session.messages().iter().rev().find_map(|message| match message {
            Message::Assistant(said) => Some(said.text()).filter(|text| !text.trim().is_empty()),
            _ => None,
        });
        if let Some(said) = said {
            let from = said.char_indices().rev().nth(MAX_REMINDER_CHARS).map_or(0, |(at, _)| at);
            print_text(&format!("{}\n", self.view.whole_text(said.get(from..).unwrap_or_default())));
        }
    }

    async fn handle_command(&mut self, command: SlashCommand) -> Result<ReplAction, CliError> {
        match command {
            SlashCommand::Help => self.show(help(current_screen())).await,
            SlashCommand::Tools => self.list_tools().await?,
            SlashCommand::Trust(level) => self.handle_trust(level),
            SlashCommand::Model(None) => self.list_models().await?,
            SlashCommand::Model(Some(name)) => {
                self.context.change_model(&mut self.conversation, &name).await?;
                print_text(
                    &current_screen()
                        .line(&format!("from here on {}", self.conversation.ready.agent.model()), ""),
                );
            }
            SlashCommand::Context => self.print_context(),
            SlashCommand::Labels => self.print_labels(),
            SlashCommand::Cost => self.print_cost(),
            SlashCommand::Diff => self.show(self.changes_text()?).await,
            SlashCommand::Compact => self.compact().await?,
            SlashCommand::Grants(None) => self.show(self.grants_text()?).await,
            SlashCommand::Grants(Some(id)) => self.revoke_grant(&id)?,
            SlashCommand::Copy => self.copy_answer()?,
            SlashCommand::Export(file) => self.export(&file).await?,
            SlashCommand::Init => self.write_configuration()?,
            SlashCommand::Clear => {
                self.begin_afresh();
                if can_erase(io::stdout().is_terminal()) {
                    print_text("\u{1b}[H\u{1b}[2J\u{1b}[3J");
                }
                print_text("a new conversation\n");
            }
            SlashCommand::Open(number) => self.show(self.call_text(number)).await,
            SlashCommand::Last => self.show(self.call_text(self.view.calls(|calls, _| calls.count()))).await,
            SlashCommand::Undo => self.undo().await?,
            SlashCommand::Sessions => self.list_sessions().await?,
            SlashCommand::New => {
                self.begin_afresh();
                print_text("a new conversation\n");
            }
            SlashCommand::Quit => return Ok(ReplAction::Quit),
        }
        Ok(ReplAction::Continue)
    }

    /// Lists the current model, and the others that are available.
    async fn list_models(&self) -> Result<(), CliError> {
        let mut text = current_screen().line(&self.conversation.ready.agent.model().to_string(), "");
        let stop = self.signals.begin_turn();
        let listed = list_models(&self.context.settings, None, &stop).await;
        self.signals.end_turn();
        let listed = listed?;
        for provider in listed.iter().filter(|provider| provider.is_set_up || provider.models.is_ok()) {
            for row in rows(provider, MAX_LISTED_MODELS) {
                let row = truncate_columns(&row, current_screen().columns.saturating_sub(1));
                let _ = writeln!(text, "{row}");
            }
        }
        self.show(text).await;
        Ok(())
    }

    async fn list_tools(&self) -> Result<(), CliError> {
        let caller = &self.context.settings.caller;
        let session = self.conversation.session.as_ref().map_or(&caller.session, |session| session.id());
        let credential = self.context.credential(session)?;
        let tools = self.context.gate.gate().tools_for(credential).await;
        let tools = tools.map_err(|failure| CliError::error(failure.message))?;
        let (screen, mut text) = (current_screen(), String::new());
        for tool in tools {
            let spec = tool.spec();
            let line = format!("{:<20} {:<12} {}", spec.name.as_str(), spec.class.as_str(), spec.description);
            let row = truncate_columns(&escape_line(&line), screen.columns.saturating_sub(1));
            let _ = writeln!(text, "{row}");
        }
        self.show(text).await;
        Ok(())
    }

    fn handle_trust(&mut self, level: Option<Trust>) {
        let trust = &mut self.context.settings.caller.trust;
        *trust = level.unwrap_or(*trust);
        let meaning = match trust {
            Trust::Supervised => "you are asked before every call",
            Trust::Guided => "you are asked before calls that change something",
            Trust::Autonomous => "you are not asked; what is not allowed stays refused",
        };
        print_text(&format!("trust {trust}: {meaning}\n"));
    }

    fn print_context(&self) {
        let told = match self.view.context() {
            None => "nothing was said yet".to_owned(),
            Some(context) => {
                let window = context.window.map(|window| format!(" of {window}")).unwrap_or_default();
                let fraction =
                    context.fraction.map(|part| format!(" ({:.0}%)", part * 100.0)).unwrap_or_default();
                format!("{}{window} tokens{fraction}", context.used)
            }
        };
        print_text(&format!("{told}\n"));
    }

    fn call_text(&self, number: usize) -> String {
        self.view.calls(|calls, screen| match calls.by_number(number) {
            CallLookup::Found(call) => call.details(screen),
            CallLookup::Evicted => {
                "this call is too long ago; `toolgate sessions show last --full` has it\n".to_owned()
            }
            CallLookup::Unknown => "there is no such call in this sitting\n".to_owned(),
        })
    }

    /// Prints a text; one that is higher than the terminal is paged.
    async fn show(&self, text: String) {
        let screen = current_screen();
        let fits = screen.rows.is_none_or(|rows| text.lines().count() < rows);
        if fits || !self.on_terminal || !can_erase(true) {
            print_text(&text);
            return;
        }
        let stop = self.signals.begin_turn();
        let paged = tokio::task::spawn_blocking(move || page(&text, screen, &|| stop.is_cancelled())).await;
        self.signals.end_turn();
        if let Ok(Err(error)) = paged {
            report(&CliError::error(format!("the text cannot be shown: {error}")));
        }
    }

    fn begin_afresh(&mut self) {
        self.conversation.session = None;
        self.pending_note = None;
        self.view.forget_context();
    }

    async fn list_sessions(&self) -> Result<(), CliError> {
        let filter = ListFilter {
            workspace: Some(self.context.settings.workspace.clone()),
            limit: Some(MAX_LISTED_SESSIONS),
            ..ListFilter::default()
        };
        let sessions = self.context.store.list(&filter).await.map_err(session_failure)?;
        let mut text = String::new();
        let now = Timestamp::now();
        for SessionSummary { id, title, changed_at, messages, .. } in &sessions {
            let minutes = now.as_second().saturating_sub(changed_at.as_second()) / 60;
            let row = format!(
                "{id}  {:>8}  {:>13}  {}",
                age(minutes),
                counted_messages(*messages),
                escape_line(title)
            );
            let _ = writeln!(text, "{}", truncate_columns(&row, current_screen().columns.saturating_sub(1)));
        }
        match sessions.is_empty() {
            true => print_text("no conversations yet\n"),
            false => self.show(format!("{text}`toolgate chat --session ID` goes on with one\n")).await,
        }
        Ok(())
    }
}

/// Whether Ctrl-C now would be the second press.
fn is_double_press(pressed: Option<Instant>) -> bool {
    pressed.is_some_and(|at| at.elapsed() < DOUBLE_PRESS_TIMEOUT)
}

fn human_bytes(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        _ => format!("{}.{} KiB", bytes / 1024, bytes % 1024 * 10 / 1024),
    }
}

fn age(minutes: i64) -> String {
    match minutes {
        ..1 => "now".to_owned(),
        1..60 => format!("{minutes} min"),
        60..1440 => format!("{} h", minutes / 60),
        _ => format!("{} d", minutes / 1440),
    }
}

/// The current screen: its size may have changed.
pub(super) fn current_screen() -> Screen {
    if io::stdout().is_terminal() { screen(io::stdout()) } else { PLAIN_SCREEN }
}

/// Prints a text. An error is ignored: a closed terminal is noticed when the next line is read.
pub(super) fn print_text(text: &str) {
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

//! The room that person and model share: lines in, turns held, commands done.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use toolgate_gate::UndoOptions;
use toolgate_llm::Message;
use toolgate_session::{ListFilter, Session, SessionSummary};
use toolgate_types::Trust;

use super::calls::Found;
use super::command::{SlashCommand, Typed, help, understand};
use super::editor::{Line, Lines, PromptText};
use super::prose::{Prose, cut};
use super::signals::Signals;
use super::view::{Look, View, gauge};
use crate::build::sessions_folder;
use crate::commands::changes;
use crate::conversation::{Person, Sitting, Talk, With, exit_code, list_models, unkept};
use crate::exit::{DONE, Failed, INTERRUPTED};
use crate::question::Screen;
use crate::report;
use crate::terminal::{PAPER, can_erase, counted_messages, paint, restore_terminal, reveal_line, screen};

/// Two presses of Ctrl-C at the prompt mean that somebody wants to leave, when they come within this time.
const TWICE: Duration = Duration::from_secs(2);

/// The conversations that `/sessions` lists.
const MOST_LISTED: u32 = 10;

/// The models of one provider that `/model` lists.
const MOST_MODELS: usize = 20;

/// How much of what was said last is shown when a conversation goes on.
const LONGEST_REMINDER: usize = 600;

pub(crate) struct Room {
    sitting: Sitting,
    talk: Talk,
    view: Arc<View>,
    lines: Lines,
    person: Person,
    signals: Signals,
    /// What the model should know that happened between turns.
    aside: Option<String>,
    on_terminal: bool,
}

/// What comes after a line.
enum Next {
    Stay,
    Leave,
}

impl Room {
    pub(crate) async fn enter(sitting: Sitting, signals: Signals) -> Result<Self, Failed> {
        let talk = sitting.talk(&signals.begin_turn()).await;
        signals.end_turn();
        let talk = talk?;
        let on_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
        let history = sitting.is_kept().then(|| sessions_folder(&sitting.settings).join("history"));
        let mounts = sitting.workspace.mounts().iter();
        let mounts =
            mounts.map(|mount| (mount.alias().to_owned(), mount.host_root().to_path_buf())).collect();
        let person = Person::default();
        let view = View::new(Look {
            answer: Some(Box::new(io::stdout())),
            aside: Some(Box::new(io::stdout())),
            screen: Box::new(here),
            can_erase: can_erase(io::stdout().is_terminal()),
            can_open: true,
            person: person.clone(),
        });
        let lines = Lines::begin(history, mounts)?;
        let view = Arc::new(view);
        Ok(Self { sitting, talk, view, lines, person, signals, aside: None, on_terminal })
    }

    /// Stays until somebody leaves.
    pub(crate) async fn stay(mut self) -> Result<u8, Failed> {
        self.greet();
        let mut code = DONE;
        let mut pressed: Option<Instant> = None;
        loop {
            self.person.is_free().await;
            let Some(line) = self.line(pressed).await? else { return Ok(INTERRUPTED) };
            let text = match line {
                Line::End => return Ok(code),
                Line::Interrupted if is_twice(pressed) => return Ok(code),
                Line::Interrupted => {
                    pressed = Some(Instant::now());
                    tell("press Ctrl-C again to leave, or Ctrl-D\n");
                    continue;
                }
                Line::Text(text) => text,
            };
            pressed = None;
            match understand(&text) {
                Typed::Nothing => {}
                Typed::Mistaken(help) => tell(&here().line(&help, "33")),
                Typed::Command(command) => match self.obey(command).await {
                    Ok(Next::Stay) => {}
                    Ok(Next::Leave) => return Ok(code),
                    Err(failed) => report(&failed),
                },
                Typed::Words(words) => {
                    let ended = self.say(words).await?;
                    // A person at a terminal has seen how it went; a script has not.
                    code = if self.on_terminal { DONE } else { ended };
                }
            }
            if self.signals.ended().is_cancelled() {
                return Ok(INTERRUPTED);
            }
        }
    }

    /// The next line; nothing when this process was asked to end.
    async fn line(&self, pressed: Option<Instant>) -> Result<Option<Line>, Failed> {
        let reading = self.lines.next(self.prompt());
        let mut reading = std::pin::pin!(reading);
        let ended = self.signals.ended();
        loop {
            tokio::select! {
                line = &mut reading => {
                    return line.map(Some).map_err(|error| Failed::error(format!("nothing can be read: {error}")));
                }
                () = ended.cancelled() => {
                    restore_terminal();
                    return Ok(None);
                }
                // The second of two quick ones, before the line editor was there to see it.
                () = self.signals.pressed() => {
                    if is_twice(pressed) {
                        restore_terminal();
                        return Ok(Some(Line::Interrupted));
                    }
                    // A terminal that is too plain for the line editor: the line begins anew by itself.
                    tell("\n");
                }
            }
        }
    }

    fn prompt(&self) -> PromptText {
        let screen = here();
        let plain = Screen { colour: false, ..screen };
        let arrow = if screen.unicode { "❯" } else { ">" };
        let context = self.view.context();
        PromptText {
            plain: format!("{}{arrow} ", gauge(context, plain)),
            styled: format!("{}{} ", gauge(context, screen), paint(arrow, "1;36", screen.colour)),
        }
    }

    /// A turn.
    async fn say(&mut self, words: String) -> Result<u8, Failed> {
        let words = match self.aside.take() {
            Some(aside) => format!("({aside})\n\n{words}"),
            None => words,
        };
        let cancelled = self.signals.begin_turn();
        let view = Arc::clone(&self.view);
        let events = Arc::new(move |event| view.show(event));
        let with = With { person: self.person.clone(), cancelled, events };
        let ended = self.sitting.turn(&mut self.talk, &words, with).await;
        self.signals.end_turn();
        tell("\n");
        let asked = self.person.takes_asked();
        ended.map(|ended| exit_code(ended.reason, asked))
    }

    /// What is in use, said once.
    fn greet(&self) {
        let settings = &self.sitting.settings;
        let told = format!(
            "{} in {}, trust {}; /help lists commands",
            self.talk.agent.model(),
            settings.workspace.display(),
            settings.caller.trust
        );
        tell(&here().line(&told, "2"));
        if let Some(session) = &self.talk.session {
            self.remind(session);
        }
    }

    /// What a conversation was about that goes on.
    fn remind(&self, session: &Session) {
        let SessionSummary { id, title, messages, .. } = session.summary();
        tell(&here().line(&format!("going on with {id}: {title} ({})", counted_messages(*messages)), "2"));
        let said = session.messages().iter().rev().find_map(|message| match message {
            Message::Assistant(said) => Some(said.text()).filter(|text| !text.trim().is_empty()),
            _ => None,
        });
        if let Some(said) = said {
            let from = said.char_indices().rev().nth(LONGEST_REMINDER).map_or(0, |(at, _)| at);
            let mut prose = Prose::new(here().columns, false, "");
            let shown = prose.push(said.get(from..).unwrap_or_default()) + prose.end();
            tell(&format!("{shown}\n"));
        }
    }

    async fn obey(&mut self, command: SlashCommand) -> Result<Next, Failed> {
        match command {
            SlashCommand::Help => tell(&help()),
            SlashCommand::Tools => self.list_tools().await?,
            SlashCommand::Trust(level) => self.trust(level),
            SlashCommand::Model(None) => self.list_models().await?,
            SlashCommand::Model(Some(name)) => {
                self.sitting.change_model(&mut self.talk, &name).await?;
                tell(&here().line(&format!("from here on {}", self.talk.agent.model()), ""));
            }
            SlashCommand::Context => self.tell_context(),
            SlashCommand::Open(number) => self.open(number),
            SlashCommand::Last => self.open(self.view.calls(|calls, _| calls.count())),
            SlashCommand::Undo => self.undo().await?,
            SlashCommand::Sessions => self.list_sessions().await?,
            SlashCommand::New => {
                self.talk.session = None;
                self.aside = None;
                self.view.forget_context();
                tell("a new conversation\n");
            }
            SlashCommand::Quit => return Ok(Next::Leave),
        }
        Ok(Next::Stay)
    }

    /// The model, and those that can be used in its place.
    async fn list_models(&self) -> Result<(), Failed> {
        tell(&here().line(&self.talk.agent.model().to_string(), ""));
        let stop = self.signals.begin_turn();
        let listed = list_models(&self.sitting.settings, None, &stop).await;
        self.signals.end_turn();
        let listed = listed?;
        for provider in listed.iter().filter(|provider| provider.is_set_up || provider.models.is_ok()) {
            for row in provider.rows(MOST_MODELS) {
                tell(&format!("{}\n", cut(&row, here().columns.saturating_sub(1))));
            }
        }
        Ok(())
    }

    async fn list_tools(&self) -> Result<(), Failed> {
        let caller = &self.sitting.settings.caller;
        let session = self.talk.session.as_ref().map_or(&caller.session, |session| session.id());
        let credential = self.sitting.credential(session)?;
        let tools = self.sitting.front.gate().tools_for(credential).await;
        let tools = tools.map_err(|failure| Failed::error(failure.message))?;
        let screen = here();
        for tool in tools {
            let spec = tool.spec();
            let line = format!("{:<20} {:<12} {}", spec.name.as_str(), spec.class.as_str(), spec.description);
            tell(&format!("{}\n", cut(&reveal_line(&line), screen.columns.saturating_sub(1))));
        }
        Ok(())
    }

    fn trust(&mut self, level: Option<Trust>) {
        let trust = &mut self.sitting.settings.caller.trust;
        *trust = level.unwrap_or(*trust);
        let meaning = match trust {
            Trust::Supervised => "you are asked before every call",
            Trust::Guided => "you are asked before calls that change something",
            Trust::Autonomous => "you are not asked; what is not allowed stays refused",
        };
        tell(&format!("trust {trust}: {meaning}\n"));
    }

    fn tell_context(&self) {
        let told = match self.view.context() {
            None => "nothing was said yet".to_owned(),
            Some(context) => {
                let window = context.window.map(|window| format!(" of {window}")).unwrap_or_default();
                let fraction =
                    context.fraction.map(|part| format!(" ({:.0}%)", part * 100.0)).unwrap_or_default();
                format!("{}{window} tokens{fraction}", context.used)
            }
        };
        tell(&format!("{told}\n"));
    }

    fn open(&self, number: usize) {
        tell(&self.view.calls(|calls, screen| match calls.numbered(number) {
            Found::Kept(call) => call.whole(screen),
            Found::Forgotten => {
                "this call is too long ago; `toolgate sessions show last --full` has it\n".to_owned()
            }
            Found::Never => "there is no such call in this sitting\n".to_owned(),
        }));
    }

    /// Puts back the newest change of this conversation, and tells the model with the next words.
    async fn undo(&mut self) -> Result<(), Failed> {
        let Some(session) = &self.talk.session else {
            tell("nothing to undo\n");
            return Ok(());
        };
        let gate = self.sitting.front.gate();
        let newest = changes::chosen(gate, &self.sitting.workspace, Some(session.id()))?.into_iter().next();
        let Some(call) = newest else {
            tell("nothing to undo\n");
            return Ok(());
        };
        let mut caller = self.sitting.settings.caller.clone();
        caller.session = session.id().clone();
        let undone = gate.undo(call, caller, UndoOptions { force: false }).await.map_err(changes::explain)?;
        let paths = undone.paths.join(", ");
        tell(&here().line(&format!("undid {call}: {paths}"), ""));
        self.aside = Some(format!("I put back your change of {paths}; it is as it was before."));
        Ok(())
    }

    async fn list_sessions(&self) -> Result<(), Failed> {
        let filter =
            ListFilter { workspace: Some(self.sitting.settings.workspace.clone()), limit: Some(MOST_LISTED) };
        let sessions = self.sitting.store.list(&filter).await.map_err(unkept)?;
        let mut text = String::new();
        let now = Timestamp::now();
        for SessionSummary { id, title, changed_at, messages, .. } in &sessions {
            let minutes = now.as_second().saturating_sub(changed_at.as_second()) / 60;
            let row = format!(
                "{id}  {:>8}  {:>13}  {}",
                age(minutes),
                counted_messages(*messages),
                reveal_line(title)
            );
            let _ = writeln!(text, "{}", cut(&row, here().columns.saturating_sub(1)));
        }
        match sessions.is_empty() {
            true => tell("no conversations yet\n"),
            false => tell(&format!("{text}`toolgate chat --session ID` goes on with one\n")),
        }
        Ok(())
    }
}

/// Whether Ctrl-C now would be the second of two.
fn is_twice(pressed: Option<Instant>) -> bool {
    pressed.is_some_and(|at| at.elapsed() < TWICE)
}

fn age(minutes: i64) -> String {
    match minutes {
        ..1 => "now".to_owned(),
        1..60 => format!("{minutes} min"),
        60..1440 => format!("{} h", minutes / 60),
        _ => format!("{} d", minutes / 1440),
    }
}

/// What the screen is like now.
fn here() -> Screen {
    if io::stdout().is_terminal() { screen(io::stdout()) } else { PAPER }
}

/// Says something; a screen that is gone is noticed by whoever reads the next line.
fn tell(text: &str) {
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

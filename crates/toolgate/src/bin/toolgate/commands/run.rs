//! `toolgate run`: one task for a model.

mod event_printer;

use std::io::{self, IsTerminal as _};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use toolgate_agent::{EndReason, EventSink, TurnOutcome};
use toolgate_assembly::ambient::read_bounded;
use toolgate_assembly::reload::watch_files;

use self::event_printer::{EventPrinter, StartedFlag, report_start_failure};
use super::{SHUTDOWN_TIMEOUT, close_servers, print, serving_runtime};
use crate::arguments::{GlobalOptions, RunArguments};
use crate::chat::{ChatView, Ticker, ViewOptions};
use crate::conversation::{
    ChatContext, HOW_TO_ALLOW, Person, PersonPresence, StdinApprovals, TurnOptions, WaitForServers, exit_code,
};
use crate::exit::CliError;
use crate::interrupt::Interrupt;
use crate::terminal::{can_erase, escape_control_chars, screen, warn};

pub(crate) fn run(common: &GlobalOptions, arguments: &RunArguments) -> Result<u8, CliError> {
    let shown = RunOutput::of(common);
    let begun = StartedFlag::default();
    let held = run_task(common, arguments, shown, &begun);
    if let (Err(failed), AnswerMode::Events) = (&held, shown.answer)
        && !begun.is_set()
    {
        report_start_failure(failed);
    }
    held
}

fn run_task(
    common: &GlobalOptions,
    arguments: &RunArguments,
    shown: RunOutput,
    begun: &StartedFlag,
) -> Result<u8, CliError> {
    let prompt = prompt(&arguments.prompt)?;
    let interrupt = Interrupt::install();
    let runtime = serving_runtime()?;
    let (sitting, reloader) =
        ChatContext::start(common, &arguments.conversation, &runtime, WaitForServers::Yes)?;
    let by_program = shown.answer == AnswerMode::Events && is_answered_by_program(&arguments.prompt);
    let mut person = Person::default();
    let ended = runtime.block_on(async {
        let _watching = interrupt.watch()?;
        let keeping_up = tokio::spawn(watch_files(reloader));
        let stop = interrupt.token();
        let (mut events, display) = shown.events(person.clone(), &stop, begun)?;
        if by_program {
            let answers = StdinApprovals::new(events);
            events = answers.sink();
            person = Person::with_stdin(answers);
        }
        // What comes through a pipe is not certainly a person's: its values are asked about.
        let words = if arguments.prompt == "-" { String::new() } else { prompt.clone() };
        let (person, cancelled) = (person.clone(), stop.clone());
        let with = TurnOptions { person, cancelled, events, images: Vec::new(), words };
        let ended = match sitting.open_conversation(&stop).await {
            Ok(mut talk) => sitting.run_turn(&mut talk, &prompt, with).await,
            Err(failed) => Err(failed),
        };
        keeping_up.abort();
        close_servers(sitting.servers.as_deref()).await;
        match display {
            RunDisplay::Printer(printer) => printer.end(&stop).await,
            RunDisplay::View(view, ticker) => {
                drop(ticker);
                view.end_turn();
            }
        }
        ended
    });
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    shown.finish(&ended?, person.take_presence())
}

/// Where the progress and the answer of the task are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RunOutput {
    answer: AnswerMode,
    /// Whether progress is shown: standard error is a terminal, and `--quiet` was not given.
    is_watched: bool,
}

/// What displays the events of the task.
enum RunDisplay {
    /// The thread that prints them on standard output.
    Printer(EventPrinter),
    /// The terminal, with a status row.
    View(Arc<ChatView>, Ticker),
}

/// How the answer is written to standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnswerMode {
    /// As part of the event stream, for programs.
    Events,
    /// Streamed, on a terminal.
    Streamed,
    /// In one piece, at the end.
    Buffered,
}

impl RunOutput {
    fn of(common: &GlobalOptions) -> Self {
        let answer = match (common.json, io::stdout().is_terminal()) {
            (true, _) => AnswerMode::Events,
            (false, true) => AnswerMode::Streamed,
            (false, false) => AnswerMode::Buffered,
        };
        Self { answer, is_watched: !common.quiet && io::stderr().is_terminal() }
    }

    /// The receiver of all events, and what displays them.
    fn events(
        self,
        person: Person,
        stop: &CancellationToken,
        begun: &StartedFlag,
    ) -> Result<(EventSink, RunDisplay), CliError> {
        if self.answer == AnswerMode::Events {
            let printer = EventPrinter::start(stop)?;
            return Ok((printer.sink(stop.clone(), begun.clone()), RunDisplay::Printer(printer)));
        }
        let is_live = self.answer == AnswerMode::Streamed;
        let view = ChatView::new(ViewOptions {
            answer: is_live.then(|| Box::new(io::stdout()) as _),
            notices: self.is_watched.then(|| Box::new(io::stderr()) as _),
            screen: Box::new(move || if is_live { screen(io::stdout()) } else { screen(io::stderr()) }),
            can_erase: can_erase(is_live || self.is_watched),
            can_open: false,
            person,
        });
        let view = Arc::new(view);
        view.begin_turn();
        let shown = Arc::clone(&view);
        let ticker = Ticker::start(&view);
        Ok((Arc::new(move |event| shown.show(event)), RunDisplay::View(view, ticker)))
    }

    /// Prints the answer or the reason for its absence, and returns the exit code. Only the answer goes to standard output.
    fn finish(self, ended: &TurnOutcome, asked: PersonPresence) -> Result<u8, CliError> {
        let code = exit_code(ended.reason, asked);
        let Self { answer, is_watched } = self;
        if asked == PersonPresence::Absent {
            warn(&format!("a call needed approval, and there was nobody to ask: {HOW_TO_ALLOW}"));
        }
        match ended.reason {
            _ if answer == AnswerMode::Events => return Ok(code),
            EndReason::ProviderError if is_watched => return Ok(code),
            EndReason::ProviderError => return Err(CliError { code, ..CliError::error(&ended.text) }),
            EndReason::Done => {}
            reason if !is_watched => warn(&format!("stopped: {reason}")),
            _ => {}
        }
        if answer == AnswerMode::Buffered && !ended.text.is_empty() {
            print(&format!("{}\n", escape_control_chars(ended.text.trim_end())))?;
        }
        Ok(code)
    }
}

/// Whether approvals are answered on standard input: at a terminal they are asked there, and a prompt of `-` has already consumed it.
fn is_answered_by_program(prompt: &str) -> bool {
    prompt != "-" && !io::stdin().is_terminal()
}

fn prompt(text: &str) -> Result<String, CliError> {
    let unreadable =
        |reason: String| CliError::usage(format!("the task cannot be read from standard input: {reason}"));
    let text = match text {
        "-" => {
            let bytes = read_bounded(io::stdin()).map_err(|error| unreadable(error.to_string()))?;
            String::from_utf8(bytes).map_err(|_| unreadable("it is not UTF-8 text".to_owned()))?
        }
        given => given.to_owned(),
    };
    match text.trim().is_empty() {
        true => Err(CliError::usage("there is nothing to tell the model")
            .help("write the task as one argument, or - to read it from standard input")),
        false => Ok(text),
    }
}

//! `toolgate run`: one task for a model.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use toolgate_agent::{EndReason, Ended, EventSink, Numbered, numbered};

use super::{Reader, close, print, serving_runtime};
use crate::ambient::read_bounded;
use crate::arguments::{Common, RunArguments};
use crate::chat::{Look, View};
use crate::conversation::{Person, Sitting, Wait, With, exit_code};
use crate::exit::Failed;
use crate::interrupt::Interrupt;
use crate::reload::keep_up;
use crate::terminal::{can_erase, complain, reveal, screen, spelt_out};

/// How long work that blocks may take to notice that everything is over.
const LAST_MOMENT: Duration = Duration::from_secs(1);

pub(crate) fn run(common: &Common, arguments: &RunArguments) -> Result<u8, Failed> {
    let prompt = prompt(&arguments.prompt)?;
    let interrupt = Interrupt::listen();
    let runtime = serving_runtime()?;
    let (sitting, reloader) = Sitting::begin(common, &arguments.conversation, &runtime, Wait::Yes)?;
    let shown = Shown::of(common);
    let ended = runtime.block_on(async {
        let _watching = interrupt.watch()?;
        let keeping_up = tokio::spawn(keep_up(reloader));
        let person = Person::default();
        let events = shown.events(person.clone(), interrupt.token());
        let with = With { person, cancelled: interrupt.token(), events };
        let ended = match sitting.talk().await {
            Ok(mut talk) => sitting.turn(&mut talk, &prompt, with).await,
            Err(failed) => Err(failed),
        };
        keeping_up.abort();
        close(sitting.servers.as_deref()).await;
        ended
    });
    runtime.shutdown_timeout(LAST_MOMENT);
    shown.tell(&ended?)
}

/// Where what becomes of the task is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shown {
    answer: AnswerGoes,
    /// Whether somebody watches standard error.
    is_watched: bool,
}

/// How the answer comes to standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnswerGoes {
    /// Among all events, for programs.
    AsEvents,
    /// Word by word, on the terminal.
    Live,
    /// Once it is there.
    Whole,
}

impl Shown {
    fn of(common: &Common) -> Self {
        let answer = match (common.json, io::stdout().is_terminal()) {
            (true, _) => AnswerGoes::AsEvents,
            (false, true) => AnswerGoes::Live,
            (false, false) => AnswerGoes::Whole,
        };
        Self { answer, is_watched: !common.quiet && io::stderr().is_terminal() }
    }

    fn events(self, person: Person, stop: CancellationToken) -> EventSink {
        if self.answer == AnswerGoes::AsEvents {
            // Whoever stops reading has lost interest in the rest.
            return numbered(move |event| match print_event(&event) {
                Ok(Reader::There) => {}
                Ok(Reader::Gone) | Err(_) => stop.cancel(),
            });
        }
        let is_live = self.answer == AnswerGoes::Live;
        let view = View::new(Look {
            answer: is_live.then(|| Box::new(io::stdout()) as _),
            aside: self.is_watched.then(|| Box::new(io::stderr()) as _),
            screen: Box::new(move || if is_live { screen(io::stdout()) } else { screen(io::stderr()) }),
            can_erase: can_erase(is_live || self.is_watched),
            can_open: false,
            person,
        });
        Arc::new(move |event| view.show(event))
    }

    /// What is left to say at the end. The answer is results; why there is none is not.
    fn tell(self, ended: &Ended) -> Result<u8, Failed> {
        let code = exit_code(ended.reason);
        let Self { answer, is_watched } = self;
        match ended.reason {
            _ if answer == AnswerGoes::AsEvents => return Ok(code),
            EndReason::ProviderError if is_watched => return Ok(code),
            EndReason::ProviderError => return Err(Failed { code, ..Failed::error(&ended.text) }),
            EndReason::Done => {}
            reason if !is_watched => complain(&format!("stopped: {reason}")),
            _ => {}
        }
        if answer == AnswerGoes::Whole && !ended.text.is_empty() {
            print(&format!("{}\n", reveal(ended.text.trim_end())))?;
        }
        Ok(code)
    }
}

fn print_event(event: &Numbered) -> Result<Reader, Failed> {
    let line = serde_json::to_string(event).map_err(|error| Failed::error(error.to_string()))?;
    print(&format!("{}\n", spelt_out(&line)))
}

fn prompt(text: &str) -> Result<String, Failed> {
    let unreadable =
        |reason: String| Failed::usage(format!("the task cannot be read from standard input: {reason}"));
    let text = match text {
        "-" => {
            let bytes = read_bounded(io::stdin()).map_err(|error| unreadable(error.to_string()))?;
            String::from_utf8(bytes).map_err(|_| unreadable("it is not UTF-8 text".to_owned()))?
        }
        given => given.to_owned(),
    };
    match text.trim().is_empty() {
        true => Err(Failed::usage("there is nothing to tell the model")
            .help("write the task as one argument, or - to read it from standard input")),
        false => Ok(text),
    }
}
